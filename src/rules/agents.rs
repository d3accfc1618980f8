//! What the types of an Agent's fields do not say, what an installation fixes, and that a machine
//! is bound once.

use serde_json::Value;

use crate::model::agent::{Agent, AgentSpec, HostState, Role};

use super::infra_envs::object;
use super::names::{label_key, label_value};

/// Every problem of one that nobody has to look at the host for.
pub fn check(one: &Agent) -> Vec<String> {
    let spec = &one.spec;
    let mut wrong = Vec::new();
    if !spec.installation_disk_id.is_empty() && !spec.installation_disk_path.is_empty() {
        wrong
            .push("Either InstallationDiskID or InstallationDiskPath can be set, not both.".into());
    }
    if spec.role == Role::Bootstrap {
        let infra_env = one.infra_env().map(|key| key.name).unwrap_or_default();
        let why = no_role(Role::Bootstrap.name(), &one.metadata.name, &infra_env);
        wrong.push(format!("{why}: spec.role bootstrap is poolctl's to give"));
    }
    if !spec.machine_config_pool.is_empty() && spec.role == Role::Master {
        wrong.push("spec.machineConfigPool is for workers".into());
    }
    if spec.cluster_deployment_name.as_ref().is_some_and(|one| one.name.is_empty()) {
        wrong.push(
            "spec.clusterDeploymentName.name is missing; leave the field out for none".into(),
        );
    }
    for (key, value) in &spec.node_labels {
        if !label_value(value) || !label_key(key) {
            wrong.push(format!("spec.nodeLabels.{key}: `{value}` is no label"));
        }
    }
    wrong
}

/// A role that nobody can ask for.
pub fn no_role(word: &str, name: &str, infra_env: &str) -> String {
    format!("Requested role ({word}) is invalid for host {name} from infraEnv {infra_env}")
}

/// Upstream takes a cluster without its namespace, and finds none.
pub fn warning(one: &Agent) -> Option<String> {
    let wanted = one.spec.cluster_deployment_name.as_ref()?;
    let name = &one.metadata.name;
    wanted.namespace.is_empty().then(|| {
        format!(
            "agent `{name}`: spec.clusterDeploymentName.namespace is missing; no cluster is found \
             without it"
        )
    })
}

/// What of the spec only turns out wrong once it is to be followed: it is kept, and said in the
/// condition SpecSynced.
pub fn input(one: &Agent) -> Option<String> {
    let spec = &one.spec;
    if !spec.installer_args.is_empty() {
        let strings = |all: &Vec<Value>| all.iter().all(Value::is_string);
        let read = serde_json::from_str::<Value>(&spec.installer_args);
        if !read.is_ok_and(|value| value.as_array().is_some_and(strings)) {
            return Some("installerArgs is no JSON list of strings".into());
        }
    }
    if spec.ignition_config_overrides.is_empty() {
        return None;
    }
    object("ignitionConfigOverrides", &spec.ignition_config_overrides)
}

/// What is asked of a host whose installation has begun comes too late; said of what somebody asks
/// of it by name, a manifest may go on saying so.
pub fn check_set(state: HostState, old: &AgentSpec, new: &AgentSpec) -> Result<(), String> {
    let disk = old.installation_disk_id != new.installation_disk_id
        || old.installation_disk_path != new.installation_disk_path;
    let wishes = [
        ("host name", old.hostname != new.hostname),
        ("host role", old.role != new.role),
        ("installation disk path", disk),
        ("host machine config pool", old.machine_config_pool != new.machine_config_pool),
    ];
    let late = wishes.into_iter().find(|(_, changed)| *changed && !state.takes_wishes());
    let Some((what, _)) = late else { return Ok(()) };
    let open = HostState::ALL.into_iter().filter(|one| one.takes_wishes()).map(HostState::name);
    let open = open.collect::<Vec<_>>().join(" ");
    Err(format!("Host is in {state} state, {what} can be set only in one of [{open}] states"))
}

/// While a host is installed, its cluster stays; one that joins an installed cluster may leave.
pub fn check_change(old: &Agent, new: &Agent) -> Result<(), String> {
    let (before, after) = (old.wanted(), new.wanted());
    let cancels = old.is_day2() && after.is_none();
    if old.state().is_installing() && before != after && !cancels {
        return Err("Attempted to change Spec.ClusterDeploymentName which is immutable during \
                    Agent installation."
            .into());
    }
    Ok(())
}
