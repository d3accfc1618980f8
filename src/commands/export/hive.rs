//! `export --for hive`: a folder with the objects that a Hive on Kubernetes takes over, in the order
//! in which it needs them, a script that applies them, and what does not move. It changes nothing
//! here, and speaks to no cluster.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use serde_json::Value;

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::pool::{ClusterPool, RECONCILE_PAUSE};
use crate::model::refusal::Refusal;
use crate::output::join_lines;
use crate::plan;
use crate::render::hive_objects::{HiveRendering, PoolStart, RESTORED_LABEL, reason_to_keep};
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
| ClusterDeployment | spec, clusterMetadata | carried | |
| ClusterDeployment | version of the pool | changed to Hive's | what is current stays current |
| ClusterDeployment | status | carried as far as Hive has it | |
| ClusterClaim | spec, status | carried | |
| ClusterDeploymentCustomization | value that is no text | renamed to valueJSON | Hive has only texts |
| ClusterDeploymentCustomization | lease | carried if its cluster moves | else Hive would stop |
| Job, Event, Settings | all | left out | Hive has none |
| IPPool, IPClaim, BareMetalHost, InfraEnv, Agent | all | left out | not kinds of Hive |
";

/// What has been found of a state for the files.
#[derive(Default)]
struct Collected {
    /// The documents of each kind.
    documents: BTreeMap<Kind, Vec<Value>>,
    /// Secrets whose values are not exported.
    missing_secrets: Vec<Key>,
    /// Clusters that stay, and why.
    kept_clusters: BTreeMap<String, &'static str>,
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
    let reading = ReadOptions { namespace: &namespace, is_lenient: true, moves_state: true };
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
    kinds.sort_by_key(|kind| (*kind == Kind::ClusterPool, *kind != Kind::Namespace, *kind));
    let files = write_documents(folder, &kinds, &collected.documents)?;
    write_schedules(folder, &collected.schedules)?;
    write_file(folder, "apply.sh", &apply_script(&files, &collected.missing_secrets))?;
    write_file(folder, "README.md", &describe_export(&files, &collected, takeover.pool_start))?;
    for (cluster, why) in &collected.kept_clusters {
        context.warn(&format!("cluster {cluster} is left out: {why}"));
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
    let rendering = HiveRendering {
        pools: &pools,
        clusters: &clusters,
        own_version: plan::pool_version,
        release: takeover.release,
        pool_start: takeover.pool_start,
    };
    let mut live_pools: Vec<&ClusterPool> = pools.values().collect();
    live_pools.retain(|pool| pool.metadata.deletion_timestamp.is_none());
    live_pools.sort_by_key(|pool| pool.key());
    collected.schedules = render_schedules(live_pools.into_iter());
    let whole = Filter { whole: true, ..Filter::default() };
    // Namespaces of clusters are in no table.
    for namespace in store.list_objects(Kind::Namespace, &whole)? {
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
fn apply_script(files: &[ExportedFile], missing_secrets: &[Key]) -> String {
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
            for Key { namespace, name } in missing_secrets {
                lines.push(format!("oc get secret -o name -n {namespace} {name}"));
            }
            are_secrets_checked = true;
        }
        lines.push(format!("oc apply --server-side -f {}", file.name));
        if KINDS_WITH_STATUS.contains(&file.kind) {
            lines.push(format!("oc replace --subresource=status -f {}", file.name));
        }
    }
    lines.push(
        "# Hive accepts clusters of claims by this label, which is of no further use.".into(),
    );
    lines.push(format!("oc label clusterdeployment -A -l {RESTORED_LABEL}=true {RESTORED_LABEL}-"));
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
