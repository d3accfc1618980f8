//! `export --for assisted`: a folder with what assisted-service on Kubernetes takes over of hosts that
//! boot discovery images, and of the clusters that are made of them, with a script for each step. It
//! changes nothing here, and speaks to no cluster.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::model::agent::{Agent, Role};
use crate::model::cluster::Cluster;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::pool_versions::pool_version;
use crate::model::refusal::Refusal;
use crate::model::template::Template;
use crate::output::join_lines;
use crate::render::assisted_objects::{
    HostCounts, refer_to_cluster_install, render_cluster_install, render_for_assisted,
};
use crate::render::hive_objects::{HiveRendering, PoolStart, reason_to_keep};
use crate::render::hive_version::HiveRelease;
use crate::render::install_config;
use crate::store::Store;

use crate::commands::{Context, count_of};

use super::folder::{
    ExportedFile, add_namespaces, add_section, answer_with_files, list_of, prepare_folder,
    write_documents, write_file,
};

/// The order of the files. Agents come when their hosts have booted an image of the service.
const ORDER: [Kind; 7] = [
    Kind::Namespace,
    Kind::ClusterImageSet,
    Kind::NMStateConfig,
    Kind::AgentClassification,
    Kind::InfraEnv,
    Kind::ClusterDeployment,
    Kind::Agent,
];
/// AgentClusterInstalls are no objects of poolctl.
const CLUSTER_INSTALLS: &str = "90-agentclusterinstall.yaml";

/// What becomes of objects, and what the service does with them.
const FIELDS: &str = "\
## What moves

| object | becomes | what assisted-service does |
|---|---|---|
| InfraEnv | carried | makes a new image; hosts must boot that one |
| NMStateConfig | carried | puts it into the image |
| AgentClassification | carried | labels the hosts by it |
| Agent | its settings, by agents.sh | makes the Agent itself when the host boots the new image |
| ClusterDeployment made of Agents, installed | carried without provisioning | leaves the cluster as it is |
| AgentClusterInstall | made from the cluster | knows by it that the cluster is installed |
| ClusterDeployment that is not installed | left out | install it here, or anew there |
| Secrets | left out | `export --for hive --include-secrets` writes them |
| tokens of InfraEnvs, reports of hosts | left out | the service has its own |
";

/// Writes the folder, which must be new or empty.
pub fn export_for_assisted(context: &Context, store: &Store, folder: &Path) -> anyhow::Result<()> {
    prepare_folder(folder)?;
    let mut documents: BTreeMap<Kind, Vec<Value>> = BTreeMap::new();
    let mut host_counts: HashMap<Key, HostCounts> = HashMap::new();
    let mut agents = BTreeSet::new();
    for kind in [Kind::NMStateConfig, Kind::AgentClassification, Kind::InfraEnv, Kind::Agent] {
        store.visit_objects(kind, None, &mut |object| {
            if let Object::Agent(agent) = &object {
                count_host(agent, &mut host_counts);
                agents.insert(agent.metadata.key());
            }
            if let Some(document) = render_for_assisted(&object) {
                documents.entry(kind).or_default().push(document);
            }
            Ok(())
        })?;
    }
    let mut kept_clusters = BTreeMap::new();
    let cluster_installs =
        collect_clusters(store, &host_counts, &mut documents, &mut kept_clusters)?;
    add_namespaces(&mut documents);
    store.rollback();
    let kinds: Vec<Kind> = ORDER.into_iter().filter(|kind| documents.contains_key(kind)).collect();
    let files = write_documents(folder, &kinds, &documents)?;
    if !cluster_installs.is_empty() {
        write_file(folder, CLUSTER_INSTALLS, &list_of(&cluster_installs)?)?;
    }
    let has_clusters = !cluster_installs.is_empty();
    write_file(folder, "apply.sh", &apply_script(&files, has_clusters))?;
    write_file(folder, "agents.sh", &agents_script(&files))?;
    write_file(folder, "README.md", &describe_export(&files, &agents, &kept_clusters))?;
    for (cluster, why) in &kept_clusters {
        context.warn(&format!("cluster {cluster} is left out: {why}"));
    }
    answer_with_files(context, folder, &files)
}

/// Counts a host for the cluster that it is bound to. A host without a role may become either.
fn count_host(agent: &Agent, host_counts: &mut HashMap<Key, HostCounts>) {
    let Some(cluster) = &agent.spec.cluster_deployment_name else { return };
    let counts = host_counts.entry(cluster.key()).or_default();
    if agent.spec.role == Role::Worker {
        counts.workers += 1;
    } else {
        counts.masters += 1;
    }
}

/// The install-config of a cluster, as far as it is known.
fn read_install_config(store: &Store, cluster: &Cluster) -> Result<Option<Value>, Refusal> {
    let Some(secret) = cluster.install_config_secret() else { return Ok(None) };
    let Some(yaml) = store.read_secret_value(&secret, "install-config.yaml")? else {
        return Ok(None);
    };
    let template = Template::new(yaml);
    Ok(install_config::template_document(&template).ok().cloned())
}

/// Adds the installed clusters that are made of Agents, and their image sets. Returns their
/// AgentClusterInstalls. Those that stay are noted, and why.
fn collect_clusters(
    store: &Store,
    host_counts: &HashMap<Key, HostCounts>,
    documents: &mut BTreeMap<Kind, Vec<Value>>,
    kept_clusters: &mut BTreeMap<String, &'static str>,
) -> Result<Vec<Value>, Refusal> {
    let mut cluster_installs = Vec::new();
    let mut image_sets: HashSet<String> = HashSet::new();
    let pools = HashMap::new();
    store.visit_objects(Kind::ClusterDeployment, None, &mut |object| {
        let Object::ClusterDeployment(cluster) = &object else { return Ok(()) };
        if !cluster.is_made_of_agents() {
            return Ok(());
        }
        if let Some(why) = reason_to_keep(cluster) {
            kept_clusters.insert(cluster.name.clone(), why);
            return Ok(());
        }
        let clusters = HashSet::from([cluster.name.clone()]);
        let rendering = HiveRendering {
            pools: &pools,
            clusters: &clusters,
            own_version: pool_version,
            release: HiveRelease::NEWEST,
            pool_start: PoolStart::AtOnce,
        };
        let Some(mut deployment) = rendering.render(&object) else { return Ok(()) };
        let counts = host_counts.get(&cluster.key()).copied().unwrap_or_default();
        let config = read_install_config(store, cluster)?;
        let install = render_cluster_install(cluster, &deployment, counts, config.as_ref());
        cluster_installs.push(install);
        refer_to_cluster_install(cluster, &mut deployment);
        image_sets.extend(cluster.image_set.clone());
        documents.entry(Kind::ClusterDeployment).or_default().push(deployment);
        Ok(())
    })?;
    for image_set in image_sets {
        let key = Key::new("", image_set);
        store.visit_objects(Kind::ClusterImageSet, None, &mut |object| {
            if object.key() == key {
                documents.entry(Kind::ClusterImageSet).or_default().push(json!({
                    "apiVersion": object.kind().api_version(),
                    "kind": object.kind().name(),
                    "metadata": {"name": key.name},
                    "spec": object.to_wire()["spec"],
                }));
            }
            Ok(())
        })?;
    }
    Ok(cluster_installs)
}

/// The first lines of a script.
fn begin_script(purpose: &str) -> Vec<String> {
    let lines = ["#!/bin/sh", purpose, "set -eu", "cd \"$(dirname \"$0\")\""];
    lines.into_iter().map(str::to_owned).collect()
}

fn apply_script(files: &[ExportedFile], has_clusters: bool) -> String {
    let mut lines = begin_script("# Applies all but the Agents, in their order.");
    for file in files.iter().filter(|file| file.kind != Kind::Agent) {
        lines.push(format!("oc apply --server-side -f {}", file.name));
        if file.kind == Kind::ClusterDeployment {
            lines.push(format!("oc replace --subresource=status -f {}", file.name));
        }
    }
    if has_clusters {
        lines.push(format!("oc apply --server-side -f {CLUSTER_INSTALLS}"));
    }
    join_lines(&lines)
}

fn agents_script(files: &[ExportedFile]) -> String {
    let mut lines = begin_script("# Gives Agents their settings back, when their hosts are there.");
    for file in files.iter().filter(|file| file.kind == Kind::Agent) {
        lines.push(format!("oc apply --server-side --force-conflicts -f {}", file.name));
    }
    join_lines(&lines)
}

fn describe_export(
    files: &[ExportedFile],
    agents: &BTreeSet<Key>,
    kept_clusters: &BTreeMap<String, &'static str>,
) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in [
        "# Files for assisted-service",
        "",
        "Stop poolctl before: remove it from cron. `sh apply.sh` applies these files with `oc`.",
        "Then boot the hosts from the images of the new InfraEnvs. When their Agents are there, run",
        "`sh agents.sh`: it gives them their names, roles and clusters.",
        "",
    ] {
        lines.push(line.to_owned());
    }
    for file in files {
        lines.push(format!("- `{}`: {}", file.name, count_of(file.object_count, "object")));
    }
    add_section(
        &mut lines,
        "Hosts that must boot. Their Agents have these names if the service knows them by the \
         same id:",
        agents.iter().map(|agent| format!("- {agent}")).collect(),
    );
    let kept_clusters = kept_clusters.iter();
    add_section(
        &mut lines,
        "These clusters stay with poolctl:",
        kept_clusters.map(|(cluster, why)| format!("- {cluster}: {why}")).collect(),
    );
    lines.push(String::new());
    lines.push(FIELDS.trim_end().to_owned());
    join_lines(&lines)
}
