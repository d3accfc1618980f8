//! Validates Agents: the fields whose types allow too much, and what may no longer change once an
//! installation has begun. Never looks at the hardware; that is for `validations`.

use serde_json::Value;

use crate::model::agent::{Agent, AgentSpec, HostState, Role};
use crate::model::agent_classification::{
    AgentClassification, CLASSIFICATION_LABEL_PREFIX, QUERY_ERROR_PREFIX,
};
use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::infra_envs::find_json_object_problem;
use super::names::{is_label_key, is_label_value};
use super::query::Query;

/// Every problem of an Agent that can be seen without its inventory.
pub fn check(agent: &Agent) -> Vec<String> {
    let spec = &agent.spec;
    let mut wrong = Vec::new();
    if !spec.installation_disk_id.is_empty() && !spec.installation_disk_path.is_empty() {
        wrong
            .push("Either InstallationDiskID or InstallationDiskPath can be set, not both.".into());
    }
    if spec.role == Role::Bootstrap {
        let infra_env = agent.infra_env_key().map(|key| key.name).unwrap_or_default();
        let why = invalid_role_message(Role::Bootstrap.name(), &agent.metadata.name, &infra_env);
        wrong.push(format!("{why}: only poolctl sets spec.role bootstrap"));
    }
    if !spec.machine_config_pool.is_empty() && spec.role == Role::Master {
        wrong.push("spec.machineConfigPool can be set only for workers".into());
    }
    if spec.cluster_deployment_name.as_ref().is_some_and(|reference| reference.name.is_empty()) {
        wrong.push(
            "spec.clusterDeploymentName.name is missing; leave out clusterDeploymentName for no \
             cluster"
                .into(),
        );
    }
    for (key, value) in &spec.node_labels {
        if !is_label_value(value) || !is_label_key(key) {
            wrong.push(format!("spec.nodeLabels.{key}: `{value}` is not a label"));
        }
    }
    wrong
}

/// Every problem of an AgentClassification: its label must be one, and its query must be understood.
pub fn check_classification(classification: &AgentClassification) -> Vec<String> {
    let spec = &classification.spec;
    let mut wrong = Vec::new();
    if !is_label_key(&format!("{CLASSIFICATION_LABEL_PREFIX}{}", spec.label_key)) {
        wrong.push(format!("spec.labelKey: `{}` is not the key of a label", spec.label_key));
    }
    // The value that says of an error begins with that and has the same limit.
    let is_value = is_label_value(&format!("{QUERY_ERROR_PREFIX}{}", spec.label_value));
    if spec.label_value.is_empty() || !is_value {
        wrong.push(format!("spec.labelValue: `{}` is not the value of a label", spec.label_value));
    } else if spec.label_value.starts_with(QUERY_ERROR_PREFIX) {
        wrong.push(format!("spec.labelValue must not begin with {QUERY_ERROR_PREFIX}"));
    }
    if let Err(why) = spec.query.parse::<Query>() {
        wrong.push(format!("spec.query: {why}"));
    }
    wrong
}

/// Refuses another label of an AgentClassification: hosts have the one that it had. The words are
/// upstream's.
pub fn check_classified_labels(state: &State) -> Result<(), Refusal> {
    for change in state.agent_classifications.difference() {
        let (Some(before), Some(after)) = (change.before, change.after) else { continue };
        let label_before = (&before.spec.label_key, &before.spec.label_value);
        if label_before != (&after.spec.label_key, &after.spec.label_value) {
            let name = &after.metadata.name;
            return Err(Refusal::conflict(format!(
                "AgentClassification `{name}`: Label modified: the specified label may not be \
                 modified after creation"
            ))
            .next(format!("poolctl delete agentclassification {name}")));
        }
    }
    Ok(())
}

/// The message, in upstream's words, about a role that cannot be asked for.
pub fn invalid_role_message(role: &str, name: &str, infra_env: &str) -> String {
    format!("Requested role ({role}) is invalid for host {name} from infraEnv {infra_env}")
}

/// Warns of a cluster reference without a namespace: upstream accepts it and then finds no cluster.
pub fn warning(agent: &Agent) -> Option<String> {
    let reference = agent.spec.cluster_deployment_name.as_ref()?;
    if !reference.namespace.is_empty() {
        return None;
    }
    let name = &agent.metadata.name;
    Some(format!(
        "agent `{name}`: spec.clusterDeploymentName.namespace is missing; poolctl cannot find \
         the cluster without it"
    ))
}

/// The problem of a field that is accepted with any text and only fails when it is used. Such a
/// spec is kept; the problem is shown in the condition SpecSynced.
pub fn find_input_problem(agent: &Agent) -> Option<String> {
    let spec = &agent.spec;
    if !spec.installer_args.is_empty() && !is_json_list_of_strings(&spec.installer_args) {
        return Some("installerArgs is not a JSON list of strings".into());
    }
    if spec.ignition_config_overrides.is_empty() {
        return None;
    }
    find_json_object_problem("ignitionConfigOverrides", &spec.ignition_config_overrides)
}

fn is_json_list_of_strings(json: &str) -> bool {
    match serde_json::from_str::<Value>(json) {
        Ok(Value::Array(items)) => items.iter().all(Value::is_string),
        _ => false,
    }
}

/// Refuses a change of a host whose installation has begun. This is for commands that name the
/// host and the field; a manifest may keep the changed field, and it has no effect.
pub fn check_late_change(
    state: HostState,
    before: &AgentSpec,
    after: &AgentSpec,
) -> Result<(), String> {
    if state.can_change_settings() {
        return Ok(());
    }
    let is_disk_changed = before.installation_disk_id != after.installation_disk_id
        || before.installation_disk_path != after.installation_disk_path;
    let fields = [
        ("host name", before.hostname != after.hostname),
        ("host role", before.role != after.role),
        ("installation disk path", is_disk_changed),
        ("host machine config pool", before.machine_config_pool != after.machine_config_pool),
    ];
    let Some((field, _)) = fields.into_iter().find(|(_, is_changed)| *is_changed) else {
        return Ok(());
    };
    let open_states: Vec<&str> = HostState::ALL
        .iter()
        .copied()
        .filter(|state| state.can_change_settings())
        .map(HostState::name)
        .collect();
    let open_states = open_states.join(" ");
    Err(format!(
        "Host is in {state} state, {field} can be set only in one of [{open_states}] states"
    ))
}

/// Refuses a change of the cluster while the host is being installed. A host that is joining an
/// installed cluster may still leave it.
pub fn check_change(before: &Agent, after: &Agent) -> Result<(), String> {
    let is_cancelled = before.is_day2() && after.requested_cluster().is_none();
    let is_rebound = before.requested_cluster() != after.requested_cluster() && !is_cancelled;
    if before.state().is_installing() && is_rebound {
        return Err("Attempted to change Spec.ClusterDeploymentName which is immutable during \
                    Agent installation."
            .into());
    }
    Ok(())
}
