//! Edits clusters. Refuses to change what is fixed once a cluster exists. Never starts or stops a
//! cluster: a pass does.

use serde_json::Value;

use crate::model::cluster::{Cluster, Power};
use crate::model::deployment::DeploymentSpec;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::{ClusterId, State};
use crate::model::tick::Tick;
use crate::rules;

use super::documents::{has_new_finalizer, inherit_metadata, initialize_metadata, refuse_deleted};
use super::edited::Edited;
use super::outcome::{DeleteOutcome, PutOutcome};
use super::put_mode::PutMode;

impl Edited for Cluster {
    fn put(
        state: &mut State,
        cluster: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal> {
        match state.find_cluster(&cluster.name) {
            Some(cluster_id) => change_cluster(state, cluster_id, cluster, mode, tick),
            None => insert_cluster(state, cluster, tick),
        }
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> DeleteOutcome {
        let Some(cluster_id) = state.find_cluster(&key.name) else {
            return DeleteOutcome::NotFound;
        };
        DeleteOutcome::of_mark(state.clusters.update(cluster_id, |cluster| {
            cluster.deleting.get_or_insert(tick.now);
        }))
    }

    fn import(state: &mut State, cluster: Self, _: &Tick) -> Result<(), Refusal> {
        state.insert_cluster(cluster);
        Ok(())
    }
}

fn refuse_edit<T>(cluster: &Cluster, why: &str) -> Result<T, Refusal> {
    Err(Refusal::conflict(format!("cluster `{}`: {why}", cluster.name)))
}

/// Adds a cluster that is installed already or that poolctl is to install. Refused if it names a
/// pool, or if another cluster has its name in DNS.
fn insert_cluster(
    state: &mut State,
    mut cluster: Cluster,
    tick: &Tick,
) -> Result<PutOutcome, Refusal> {
    if cluster.pool.is_some() {
        let why = "only a pool makes clusters for itself; leave spec.clusterPoolRef out";
        return refuse_edit(&cluster, why);
    }
    let (name, domain) = dns_name(&cluster);
    let namesake = state.clusters.rows().find(|namesake| dns_name(namesake) == (name, domain));
    if let Some(namesake) = namesake {
        let why = format!("{name}.{domain} is already the name of cluster `{}`", namesake.name);
        return refuse_edit(&cluster, &why);
    }
    cluster.created = tick.now;
    if cluster.is_installed() {
        // It was installed elsewhere, and is taken to be running.
        cluster.installed_at = Some(tick.now);
        cluster.started_at = Some(tick.now);
        cluster.power = Power::Running;
        cluster.power_since = Some(tick.now);
        cluster.awake_since = Some(tick.now);
    }
    if let Some(body) = &mut cluster.body {
        initialize_metadata(&mut body.metadata, Kind::ClusterDeployment, tick);
        body.metadata.creation_timestamp = None;
        for (label, value) in body.spec.platform.labels() {
            body.metadata.labels.insert(label.into(), value.into());
        }
    }
    state.insert_cluster(cluster);
    Ok(PutOutcome::Created)
}

/// Changes what may be changed of a cluster after `check_change`. A claim in the spec assigns the
/// cluster by hand, which starts it, too.
fn change_cluster(
    state: &mut State,
    cluster_id: ClusterId,
    mut desired: Cluster,
    mode: PutMode,
    tick: &Tick,
) -> Result<PutOutcome, Refusal> {
    let Some(existing) = state.clusters.get(cluster_id).cloned() else {
        return Ok(PutOutcome::Unchanged);
    };
    check_change(state, &existing, &desired)?;
    if mode == PutMode::Apply
        && let (Some(existing_body), Some(body)) = (&existing.body, &mut desired.body)
    {
        keep_fixed_fields(&existing_body.spec, &mut body.spec);
    }
    if existing.body.is_some() && desired.body.is_some() {
        check_fixed_fields(&existing, &desired, mode)?;
    }
    let is_assigned = existing.claim.is_none() && desired.claim.is_some();
    let is_other_fact_changed = has_other_facts(&existing, &desired);
    let Some((existing_body, body)) = existing.body.as_ref().zip(desired.body.as_mut()) else {
        return Ok(PutOutcome::Unchanged);
    };
    let is_spec_changed = existing_body.spec != body.spec;
    inherit_metadata(&existing_body.metadata, &mut body.metadata, mode, is_spec_changed);
    body.metadata.creation_timestamp = None;
    body.status.clone_from(&existing_body.status);
    if existing.deleting.is_some()
        && (is_spec_changed
            || is_other_fact_changed
            || has_new_finalizer(&existing_body.metadata, &body.metadata))
    {
        return Err(refuse_deleted(Kind::ClusterDeployment, &existing.key()));
    }
    let metadata = body.metadata.clone();
    let platform = existing_body.spec.platform.name();
    let is_changed = state.clusters.update(cluster_id, |cluster| {
        cluster.power_wanted = desired.power_wanted;
        if is_assigned {
            cluster.claim = desired.claim;
            cluster.claimed_at = Some(tick.now);
            cluster.power_wanted = Power::Running;
        }
        cluster.attempts_limit = desired.attempts_limit;
        cluster.hibernate_after = desired.hibernate_after;
        cluster.customization_ref = desired.customization_ref;
        cluster.image_set = desired.image_set;
        cluster.marked = desired.marked || (mode == PutMode::Apply && existing.marked);
        cluster.preserve = desired.preserve;
        cluster.held = !metadata.finalizers.is_empty();
        cluster.take_steering(&metadata, platform);
        cluster.body = desired.body;
    });
    Ok(PutOutcome::of_update(is_changed))
}

/// Whether facts differ that change nothing any more once the cluster is being deleted. Whether its
/// machines are left running is none of them.
fn has_other_facts(existing: &Cluster, desired: &Cluster) -> bool {
    desired.power_wanted != existing.power_wanted
        || desired.attempts_limit != existing.attempts_limit
        || desired.hibernate_after != existing.hibernate_after
        || desired.customization_ref != existing.customization_ref
}

/// Refuses to change what is fixed once a cluster exists.
fn check_change(state: &State, existing: &Cluster, desired: &Cluster) -> Result<(), Refusal> {
    if desired.namespace != existing.namespace {
        let why = format!("the name is taken by a cluster in namespace {}", existing.namespace);
        return refuse_edit(desired, &why);
    }
    let is_assigned = existing.claim.is_none() && desired.claim.is_some();
    let has_other_links =
        (&desired.pool, &desired.customization) != (&existing.pool, &existing.customization);
    if has_other_links || (!is_assigned && desired.claim != existing.claim) {
        return refuse_edit(
            desired,
            "spec.clusterPoolRef is filled in by poolctl and cannot be changed",
        );
    }
    if is_assigned {
        check_assignment(state, existing, &desired.claim_key().unwrap_or_default())?;
    }
    if dns_name(desired) != dns_name(existing) {
        return refuse_edit(desired, "spec.clusterName and spec.baseDomain cannot be changed");
    }
    Ok(())
}

/// Copies from the existing spec what cannot be changed, or was filled in by the installation, and
/// what a manifest leaves out.
fn keep_fixed_fields(existing: &DeploymentSpec, desired: &mut DeploymentSpec) {
    fn keep<T: Clone>(existing: Option<&T>, desired: &mut Option<T>) {
        if desired.is_none() {
            *desired = existing.cloned();
        }
    }
    keep(existing.cluster_metadata.as_ref(), &mut desired.cluster_metadata);
    keep(existing.cluster_install_ref.as_ref(), &mut desired.cluster_install_ref);
    keep(existing.provisioning.as_ref(), &mut desired.provisioning);
    keep(existing.pull_secret_ref.as_ref(), &mut desired.pull_secret_ref);
    keep(
        existing.bound_service_account_signing_key_secret_ref.as_ref(),
        &mut desired.bound_service_account_signing_key_secret_ref,
    );
    desired.manage_dns |= existing.manage_dns;
}

/// Refuses changes of fields that are fixed once a cluster exists.
fn check_fixed_fields(existing: &Cluster, desired: &Cluster, mode: PutMode) -> Result<(), Refusal> {
    let before = cluster_document(existing);
    let mut after = cluster_document(desired);
    if mode == PutMode::Apply && existing.is_installed() {
        // A manifest does not say that poolctl has installed the cluster meanwhile.
        after["spec"]["installed"] = true.into();
    }
    let fixed_changes = rules::find_fixed_changes(&before, &after);
    if !fixed_changes.is_empty() {
        let why = format!("{} cannot be changed", fixed_changes.join(", "));
        return refuse_edit(desired, &why);
    }
    Ok(())
}

/// The document of a cluster, in which the names of fields are those that people write.
fn cluster_document(cluster: &Cluster) -> Value {
    serde_json::to_value(cluster.to_wire()).unwrap_or_default()
}

/// Refuses to assign a cluster to a claim by hand unless the claim waits for a cluster of its pool
/// and the cluster is going to stay. A pass writes the cluster into the claim.
fn check_assignment(state: &State, cluster: &Cluster, claim: &Key) -> Result<(), Refusal> {
    let is_awaited = state.claims.by_key(claim).is_some_and(|claim| {
        claim.is_waiting() && Some(&claim.pool_key()) == cluster.pool.as_deref()
    });
    let is_leaving = cluster.deleting.is_some() || cluster.marked || cluster.stopped;
    if is_awaited && !is_leaving {
        return Ok(());
    }
    let message = format!("cluster `{}` cannot be given to claim `{}`", cluster.name, claim.name);
    Err(Refusal::conflict(message)
        .because(
            "the claim must wait for this pool, and the cluster must not be about to be deleted",
        )
        .next("poolctl get claim"))
}

/// The name of a cluster in DNS, and its base domain.
fn dns_name(cluster: &Cluster) -> (&str, &str) {
    (&cluster.cluster_name, &cluster.base_domain)
}
