//! `export --for hive`: a folder with the objects that a Hive on Kubernetes takes over, in the order
//! in which it needs them, a script that applies them, and what does not move. It changes nothing
//! here, and speaks to no cluster.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use serde_json::Value;

use crate::model::cluster::RESTORED_LABEL;
use crate::model::documents::NamespaceOrigin;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::pool::{ClusterPool, RECONCILE_PAUSE};
use crate::model::pool_versions::pool_version;
use crate::model::refusal::Refusal;
use crate::output::join_lines;
use crate::render::hive_objects::{HiveRendering, PoolStart, reason_to_keep, reason_to_pause};
use crate::render::hive_schedules::render_schedules;
use crate::render::hive_version::HiveRelease;
use crate::store::{Filter, Store};

use crate::commands::{Context, count_of};
use crate::manifest::{self, ReadOptions};

use super::folder::{
    ExportedFile, add_namespaces, add_section, answer_with_files, list_of, prepare_folder,
    write_documents, write_file,
};
use super::{Secrets, add_secret_values};

/// Kinds whose status a Hive needs: it says who has what, and since when clusters run.
const KINDS_WITH_STATUS: [Kind; 3] =
    [Kind::Customization, Kind::ClusterDeployment, Kind::ClusterClaim];

/// What becomes of fields, for the people who apply the files.
const FIELDS: &str = "\
## What moves

| object | field | becomes | why |
|---|---|---|---|
| all | name, namespace, labels, annotations | carried | |
| all | annotations `poolctl.dev/...` | left out | only poolctl reads them |
| all | uid, creationTimestamp, ownerReferences | left out | the server makes new ones |
| Secret | data | carried with --include-secrets | |
| Secret | type | completed | Hive needs the type of a pull secret |
| ClusterPool | spec | carried | |
| ClusterPool | spec.runningCount on openstack, vsphere | changed to spec.size | Hive accepts no other |
| ClusterPool | status | left out | Hive counts again |
| ClusterPool | schedule | CronJobs in schedules/ | Hive has none; apply.sh leaves them to you |
| ClusterPool | one that needs more than Hive does | paused | Hive cannot make its clusters |
| ClusterDeployment | spec, clusterMetadata | carried | |
| ClusterDeployment | version of the pool | changed to Hive's | what is current stays current |
| ClusterDeployment | annotation delete-after | carried | Hive counts it from the day of the move |
| ClusterDeployment | a driver of your own | left out | Hive does not destroy what that made |
| ClusterDeployment | status | carried | |
| ClusterDeployment | status.provisionRef, clusterVersionStatus | left out | Hive asks the cluster |
| ClusterClaim | spec, status | carried | |
| ClusterClaim | owner | left out | Hive knows people by spec.subjects |
| ClusterDeploymentCustomization | value that is no text | renamed to valueJSON | Hive has only texts |
| ClusterDeploymentCustomization | lease | carried if its cluster moves | else Hive would stop |
| RoleBinding | all but status | carried | it says who may use the pools |
| Job, Event, Settings | all | left out | Hive has none |
| IPPool, IPClaim, BareMetalHost | all | left out | `--for metal3` writes them |
| InfraEnv, Agent | all | left out | `--for assisted` writes them |
";

/// What has been found of a state for the files.
#[derive(Default)]
struct Collected {
    /// The documents of each kind.
    documents: BTreeMap<Kind, Vec<Value>>,
    /// Secrets whose values are not exported.
    missing_secrets: Vec<Key>,
    /// Clusters of claims, which carry a label until they are there.
    claimed_clusters: Vec<Key>,
    /// Clusters that stay, and why.
    kept_clusters: BTreeMap<String, &'static str>,
    /// Pools that are paused in the files because clusters that stay have some of their
    /// customizations: these customizations, with their clusters.
    pools_sharing_names: BTreeMap<Key, Vec<String>>,
    /// Pools that are paused in the files because a Hive cannot make their clusters, and why.
    pools_beyond_hive: BTreeMap<Key, &'static str>,
    /// CronJobs that follow the schedules of pools, with what they need.
    schedules: Vec<Value>,
    /// How many objects there are of kinds that a Hive does not have.
    other_objects: BTreeMap<&'static str, usize>,
}

/// How a Hive takes over.
#[derive(Clone, Copy)]
pub struct Takeover {
    pub pool_start: PoolStart,
    /// The release that it is of.
    pub release: HiveRelease,
}

/// The release of the Hive that a dump comes from. It is recognised by a cluster that its pool would
/// make just so: such a cluster has the version of its pool.
pub fn recognise_release(context: &Context, dump: &Path) -> Result<HiveRelease, Refusal> {
    let namespace = context.namespace()?;
    let reading = ReadOptions {
        namespace: &namespace,
        is_lenient: true,
        moves_state: true,
        ..ReadOptions::default()
    };
    let objects = manifest::read(&[dump.to_owned()], &reading)?.objects;
    let mut pools: HashMap<Key, &ClusterPool> = HashMap::new();
    for object in &objects {
        if let Object::ClusterPool(pool) = object {
            pools.insert(pool.key(), pool);
        }
    }
    for object in &objects {
        if let Object::ClusterDeployment(cluster) = object
            && let Some(pool) = cluster.pool.as_deref().and_then(|key| pools.get(key))
            && let Some(release) =
                cluster.version.as_deref().and_then(|version| HiveRelease::find(pool, version))
        {
            return Ok(release);
        }
    }
    let dump = dump.display();
    Err(Refusal::invalid(format!("`{dump}` shows no release of Hive that poolctl knows"))
        .because("it needs a ClusterPool with a ClusterDeployment that is current")
        .advise("oc get clusterpool,clusterdeployment -A -o yaml, on the Hive that takes over"))
}

/// Writes the folder, which must be new or empty.
pub fn export_for_hive(
    context: &Context,
    store: &Store,
    folder: &Path,
    secrets: Secrets,
    takeover: Takeover,
) -> anyhow::Result<()> {
    prepare_folder(folder)?;
    let collected = collect_documents(store, secrets, takeover)?;
    store.rollback();
    // Namespaces come first, and pools last: what they own must be there before they count it.
    let mut kinds: Vec<Kind> = collected.documents.keys().copied().collect();
    kinds
        .sort_unstable_by_key(|kind| (*kind == Kind::ClusterPool, *kind != Kind::Namespace, *kind));
    let files = write_documents(folder, &kinds, &collected.documents)?;
    write_schedules(folder, &collected.schedules)?;
    write_file(folder, "apply.sh", &apply_script(&files, &collected))?;
    write_file(folder, "README.md", &describe_export(&files, &collected, takeover.pool_start))?;
    for (cluster, why) in &collected.kept_clusters {
        context.warn(&format!("cluster {cluster} is left out: {why}"));
    }
    for (pool, customizations) in &collected.pools_sharing_names {
        let customizations = customizations.join(", ");
        context.warn(&format!(
            "pool {} is paused in the files: clusters that stay here have {customizations}",
            pool.name
        ));
    }
    for (pool, why) in &collected.pools_beyond_hive {
        context.warn(&format!("pool {} is paused in the files: {why}", pool.name));
    }
    if !collected.missing_secrets.is_empty() {
        let count = count_of(collected.missing_secrets.len(), "secret");
        context.warn(&format!("{count} left out; `--include-secrets` exports secrets too"));
    }
    answer_with_files(context, folder, &files)
}

fn collect_documents(
    store: &Store,
    secrets: Secrets,
    takeover: Takeover,
) -> Result<Collected, Refusal> {
    let mut collected = Collected::default();
    let mut pools: HashMap<Key, ClusterPool> = HashMap::new();
    store.visit_objects(Kind::ClusterPool, None, &mut |object| {
        if let Object::ClusterPool(pool) = object {
            pools.insert(pool.key(), *pool);
        }
        Ok(())
    })?;
    let mut clusters: HashSet<String> = HashSet::new();
    store.visit_objects(Kind::ClusterDeployment, None, &mut |object| {
        if let Object::ClusterDeployment(cluster) = object {
            if let Some(why) = reason_to_keep(&cluster) {
                collected.kept_clusters.insert(cluster.name.clone(), why);
            } else {
                clusters.insert(cluster.name.clone());
            }
        }
        Ok(())
    })?;
    collected.pools_sharing_names = find_pools_sharing_names(store, &pools, &clusters)?;
    let rendering = HiveRendering {
        pools: &pools,
        clusters: &clusters,
        own_version: pool_version,
        release: takeover.release,
        pool_start: takeover.pool_start,
    };
    let mut live_pools: Vec<&ClusterPool> = pools.values().collect();
    live_pools.retain(|pool| pool.metadata.deletion_timestamp.is_none());
    live_pools.sort_unstable_by_key(|pool| pool.key());
    for pool in &live_pools {
        if let Some(why) = reason_to_pause(pool) {
            collected.pools_beyond_hive.insert(pool.key(), why);
        }
    }
    collected.schedules = render_schedules(live_pools.into_iter());
    let whole = Filter { whole: true, ..Filter::default() };
    // Namespaces of clusters are in no table. A hub has the namespace of every state itself.
    let mut namespaces = store.list_objects(Kind::Namespace, &whole)?;
    namespaces.retain(|object| match object {
        Object::Namespace(namespace) => namespace.origin != NamespaceOrigin::EveryState,
        _ => true,
    });
    for namespace in namespaces {
        collect_object(store, &namespace, &rendering, secrets, &mut collected)?;
    }
    for kind in Kind::OBJECTS.iter().filter(|kind| **kind != Kind::Namespace) {
        store.visit_objects(*kind, None, &mut |object| {
            collect_object(store, &object, &rendering, secrets, &mut collected)
        })?;
    }
    add_namespaces(&mut collected.documents);
    Ok(collected)
}

/// Pools whose inventories have customizations of clusters that stay, and these customizations. A
/// Hive would give their names and addresses to further clusters.
fn find_pools_sharing_names(
    store: &Store,
    pools: &HashMap<Key, ClusterPool>,
    moving_clusters: &HashSet<String>,
) -> Result<BTreeMap<Key, Vec<String>>, Refusal> {
    let mut shared_names: BTreeMap<Key, Vec<String>> = BTreeMap::new();
    store.visit_objects(Kind::Customization, None, &mut |object| {
        let Object::Customization(customization) = object else { return Ok(()) };
        let Some(holder) = &customization.status.cluster_deployment_ref else { return Ok(()) };
        if moving_clusters.contains(&holder.name) {
            return Ok(());
        }
        let Key { namespace, name } = customization.key();
        for pool in pools.values().filter(|pool| pool.metadata.namespace == namespace) {
            let mut entries = pool.spec.inventory.iter().flatten();
            if entries.any(|entry| entry.name == name) {
                let customization = format!("{name} (cluster {})", holder.name);
                shared_names.entry(pool.key()).or_default().push(customization);
            }
        }
        Ok(())
    })?;
    Ok(shared_names)
}

fn collect_object(
    store: &Store,
    object: &Object,
    rendering: &HiveRendering<'_>,
    secrets: Secrets,
    collected: &mut Collected,
) -> Result<(), Refusal> {
    let key = object.key();
    let home = if object.kind() == Kind::Namespace { &key.name } else { &key.namespace };
    if collected.kept_clusters.contains_key(home) {
        // It belongs to a cluster that stays.
        return Ok(());
    }
    if object.kind() == Kind::Secret && secrets == Secrets::LeaveOut {
        collected.missing_secrets.push(key);
        return Ok(());
    }
    let Some(mut document) = rendering.render(object) else {
        *collected.other_objects.entry(object.kind().name()).or_default() += 1;
        return Ok(());
    };
    if let Object::Secret(secret) = object {
        add_secret_values(store, secret, &mut document)?;
    }
    let is_paused = collected.pools_sharing_names.contains_key(&key)
        || collected.pools_beyond_hive.contains_key(&key);
    if object.kind() == Kind::ClusterPool && is_paused {
        document["metadata"]["annotations"][RECONCILE_PAUSE] = "true".into();
    }
    if let Object::ClusterDeployment(cluster) = object
        && cluster.claim.is_some()
    {
        collected.claimed_clusters.push(key);
    }
    collected.documents.entry(object.kind()).or_default().push(document);
    Ok(())
}

/// Writes the CronJobs into a folder of their own: whoever applies the files may not want them.
fn write_schedules(folder: &Path, schedules: &[Value]) -> Result<(), Refusal> {
    if schedules.is_empty() {
        return Ok(());
    }
    let schedule_folder = folder.join("schedules");
    std::fs::create_dir(&schedule_folder)
        .map_err(|error| Refusal::unwritable(&schedule_folder, &error))?;
    write_file(&schedule_folder, "cronjobs.yaml", &list_of(schedules)?)
}

/// The script that applies the files.
fn apply_script(files: &[ExportedFile], collected: &Collected) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in [
        "#!/bin/sh",
        "# Applies these files to the Hive of the current context, in the order that it needs.",
        "# It stops at the first error, and may be run again.",
        "set -eu",
        "cd \"$(dirname \"$0\")\"",
    ] {
        lines.push(line.to_owned());
    }
    let mut are_secrets_checked = false;
    for file in files {
        // Secrets are in namespaces, which the first file makes.
        if file.kind != Kind::Namespace && !are_secrets_checked {
            for Key { namespace, name } in &collected.missing_secrets {
                lines.push(format!("oc get secret -o name -n {namespace} {name}"));
            }
            are_secrets_checked = true;
        }
        lines.push(format!("oc apply --server-side -f {}", file.name));
        if KINDS_WITH_STATUS.contains(&file.kind) {
            lines.push(format!("oc replace --subresource=status -f {}", file.name));
        }
    }
    if !collected.claimed_clusters.is_empty() {
        let why = "# Hive accepts clusters of claims by this label, which is of no further use.";
        lines.push(why.to_owned());
    }
    for Key { namespace, name } in &collected.claimed_clusters {
        lines.push(format!("oc label clusterdeployment -n {namespace} {name} {RESTORED_LABEL}-"));
    }
    join_lines(&lines)
}

fn describe_export(files: &[ExportedFile], collected: &Collected, pool_start: PoolStart) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in [
        "# Files for Hive",
        "",
        "`sh apply.sh` applies these files with `oc`, in their order. Before that, stop poolctl:",
        "remove it from cron, so that two programs do not work on the same clusters.",
        "",
    ] {
        lines.push(line.to_owned());
    }
    for file in files {
        lines.push(format!("- `{}`: {}", file.name, count_of(file.object_count, "object")));
    }
    if pool_start == PoolStart::Paused {
        let resume = format!("    oc annotate clusterpool -n NAMESPACE NAME {RECONCILE_PAUSE}-");
        let paused = "The pools are paused. When everything is there, resume each of them:";
        add_section(&mut lines, paused, vec![resume]);
    }
    add_paused_pools(&mut lines, collected);
    let missing_secrets =
        collected.missing_secrets.iter().map(|secret| format!("- {secret}")).collect();
    add_section(
        &mut lines,
        "These Secrets are not in the files. apply.sh stops without them:",
        missing_secrets,
    );
    let kept_clusters = collected.kept_clusters.iter();
    add_section(
        &mut lines,
        "These clusters stay with poolctl, and Hive makes new ones in their place. Destroy them \
         here, or export again when they are installed:",
        kept_clusters.map(|(cluster, why)| format!("- {cluster}: {why}")).collect(),
    );
    if !collected.schedules.is_empty() {
        let apply = "    oc apply -f schedules/cronjobs.yaml".to_owned();
        let sentence = "Hive has no schedules. CronJobs scale the pools instead, in an image that \
                        has `oc`. Apply them when the pools work:";
        add_section(&mut lines, sentence, vec![apply]);
    }
    let other_objects = collected.other_objects.iter();
    add_section(
        &mut lines,
        "Objects that are not in the files:",
        other_objects.map(|(kind, count)| format!("- {kind}: {count}")).collect(),
    );
    lines.push(String::new());
    lines.push(FIELDS.trim_end().to_owned());
    join_lines(&lines)
}

/// Adds the pools that are paused whatever was asked for, and what has to be done before they can be
/// resumed.
fn add_paused_pools(lines: &mut Vec<String>, collected: &Collected) {
    let shared_names = collected.pools_sharing_names.iter().map(|(pool, customizations)| {
        let customizations = customizations.join(", ");
        format!("- pool {} in namespace {}: {customizations}", pool.name, pool.namespace)
    });
    add_section(
        lines,
        "These pools are paused in the files, because clusters that stay with poolctl have some of \
         their customizations, and Hive would give the same names and addresses to others. Export \
         again when the clusters are installed or destroyed; or take these customizations out of \
         the inventory, and resume the pool:",
        shared_names.collect(),
    );
    let pools_beyond_hive = collected
        .pools_beyond_hive
        .iter()
        .map(|(pool, why)| format!("- pool {} in namespace {}: {why}", pool.name, pool.namespace));
    add_section(
        lines,
        "These pools are paused in the files, because Hive cannot make clusters as poolctl does. \
         Set the maxSize of a pool to the number of its clusters, so that Hive makes no others; \
         then resume the pool:",
        pools_beyond_hive.collect(),
    );
}
