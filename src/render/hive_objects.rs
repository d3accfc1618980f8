//! Objects as a Hive on Kubernetes reads them: only fields that its schemas know, and the version
//! of pools that it computes itself, so that it neither makes nor destroys a cluster because they
//! moved. It writes no files, and no values of Secrets.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use crate::model::annotations::PREFIX;
use crate::model::cluster::{Cluster, RESTORED_LABEL, SPEC_HASH};
use crate::model::condition::ConditionType;
use crate::model::customization::Customization;
use crate::model::deployment::config_maps_with_manifests;
use crate::model::documents::Secret;
use crate::model::driver::{Driver, FAKE_CLUSTER};
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::pool::{ClusterPool, RECONCILE_PAUSE};
use crate::model::time::Time;

use super::hive_version::HiveRelease;

/// Platforms whose machines Hive cannot stop: a pool of theirs must keep all clusters running.
const PLATFORMS_ALWAYS_RUNNING: [&str; 2] = ["openstack", "vsphere"];
/// The type of a Secret with a pull secret, and the key by which it is known.
const PULL_SECRET_TYPE: &str = "kubernetes.io/dockerconfigjson";
const PULL_SECRET_KEY: &str = ".dockerconfigjson";

/// The fields of platforms that Hive's schemas require, beside those that poolctl requires itself.
const REQUIRED_REFERENCES: [(&str, &[&str]); 7] = [
    ("azure", &["credentialsSecretRef"]),
    ("ibmcloud", &["credentialsSecretRef"]),
    ("nutanix", &["credentialsSecretRef"]),
    ("openstack", &["credentialsSecretRef"]),
    ("vsphere", &["credentialsSecretRef", "certificatesSecretRef"]),
    ("baremetal", &["libvirtSSHPrivateKeySecretRef"]),
    ("agentBareMetal", &["agentSelector"]),
];

/// Whether pools begin to work as soon as they are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolStart {
    AtOnce,
    Paused,
}

/// What has to be known of a state to render one object of it.
pub struct HiveRendering<'a> {
    pub pools: &'a HashMap<Key, ClusterPool>,
    /// The clusters that are exported, by name.
    pub clusters: &'a HashSet<String>,
    /// poolctl's own version of a pool.
    pub own_version: fn(&ClusterPool) -> String,
    /// The release that takes over.
    pub release: HiveRelease,
    pub pool_start: PoolStart,
}

/// Why a cluster cannot be handed over to a Hive; none if it can.
pub fn reason_to_keep(cluster: &Cluster) -> Option<&'static str> {
    if cluster.deleting.is_some() {
        Some("it is being destroyed")
    } else if cluster.stopped {
        Some("its installation was given up")
    } else if !cluster.is_installed() {
        Some("it is not installed yet")
    } else {
        None
    }
}

/// Why a Hive cannot make clusters for a pool; none if it can.
pub fn reason_to_pause(pool: &ClusterPool) -> Option<&'static str> {
    if pool.picks_hosts() || pool.driver() == Driver::Agent {
        Some("poolctl picks the hosts of its clusters")
    } else if !pool.vip_pools().is_empty() || !pool.node_address_pools().is_empty() {
        Some("poolctl leases the addresses of its clusters")
    } else if config_maps_with_manifests(&pool.spec.annotations).next().is_some() {
        Some("poolctl adds manifests to its clusters")
    } else if pool.driver() == Driver::Exec {
        Some("a driver of your own makes its clusters")
    } else {
        None
    }
}

/// Whether a Hive accepts the pool only if all its clusters run.
pub fn runs_all_clusters(pool: &ClusterPool) -> bool {
    PLATFORMS_ALWAYS_RUNNING.contains(&pool.spec.platform.name())
}

impl HiveRendering<'_> {
    /// The document of an object; none if a Hive has no use for it.
    pub fn render(&self, object: &Object) -> Option<Value> {
        if object.deletion_time().is_some() {
            return None;
        }
        let mut document = object.to_wire();
        match object {
            Object::ClusterDeployment(cluster) => {
                if !self.clusters.contains(&cluster.name) {
                    return None;
                }
                self.complete_cluster(cluster, &mut document);
            }
            Object::ClusterClaim(_) => {
                set_finalizers(&mut document, &["hive.openshift.io/claim"]);
                keep_fields(&mut document["status"], &["conditions", "lifetime"]);
            }
            Object::ClusterPool(pool) => self.complete_pool(pool, &mut document),
            Object::Customization(customization) => {
                self.complete_customization(customization, &mut document);
            }
            Object::Secret(secret) => complete_secret(secret, &mut document),
            Object::Namespace(_)
            | Object::ConfigMap(_)
            | Object::ClusterImageSet(_)
            | Object::RoleBinding(_) => {
                remove_field(&mut document, "status");
            }
            _ => return None,
        }
        trim_metadata(&mut document);
        drop_nulls(&mut document);
        Some(document)
    }

    fn complete_cluster(&self, cluster: &Cluster, document: &mut Value) {
        set_finalizers(document, &["hive.openshift.io/deprovision"]);
        let pool = cluster.pool.as_deref().and_then(|key| self.pools.get(key));
        if let (Some(pool), Some(version)) = (pool, cluster.version.as_deref())
            && (self.own_version)(pool) == version
        {
            document["metadata"]["annotations"][SPEC_HASH] = self.release.version(pool).into();
        }
        if cluster.claim.is_some() {
            document["metadata"]["labels"][RESTORED_LABEL] = "true".into();
        }
        if cluster.driver == Driver::Fake {
            document["metadata"]["annotations"][FAKE_CLUSTER] = "true".into();
        }
        if document["spec"].get("clusterInstallRef").is_some() {
            // Hive accepts only one of the two.
            remove_field(&mut document["spec"], "provisioning");
        }
        require_references(&mut document["spec"]["platform"]);
        keep_fields(
            &mut document["status"],
            &[
                "apiURL",
                "certificateBundles",
                "cliImage",
                "conditions",
                "installRestarts",
                "installStartedTimestamp",
                "installVersion",
                "installedTimestamp",
                "installerImage",
                "platformStatus",
                "powerState",
                "webConsoleURL",
            ],
        );
        if cluster.installed_at == Some(Time::default()) {
            // It came here without the time of its installation.
            remove_field(&mut document["status"], "installedTimestamp");
        }
    }

    fn complete_pool(&self, pool: &ClusterPool, document: &mut Value) {
        // Hive counts again what a pool has.
        remove_field(document, "status");
        set_finalizers(document, &["hive.openshift.io/clusters"]);
        if self.pool_start == PoolStart::Paused {
            document["metadata"]["annotations"][RECONCILE_PAUSE] = "true".into();
        }
        if pool.driver() == Driver::Fake {
            // It may be simulated by an annotation that only poolctl reads.
            document["spec"]["annotations"][FAKE_CLUSTER] = "true".into();
        }
        remove_own_names(&mut document["spec"]["annotations"]);
        remove_if_empty(&mut document["spec"], "annotations");
        require_references(&mut document["spec"]["platform"]);
        if runs_all_clusters(pool) {
            document["spec"]["runningCount"] = pool.spec.size.into();
        }
    }

    fn complete_customization(&self, customization: &Customization, document: &mut Value) {
        let key = customization.key();
        let mut finalizers = Vec::new();
        for pool in self.pools.values() {
            let entries = pool.spec.inventory.as_deref().unwrap_or_default();
            let is_listed = entries.iter().any(|entry| entry.name == key.name);
            if is_listed && pool.metadata.namespace == key.namespace {
                finalizers.push(format!("hive.openshift.io/{}", pool.metadata.name));
            }
        }
        finalizers.sort_unstable();
        let names: Vec<&str> = finalizers.iter().map(String::as_str).collect();
        set_finalizers(document, &names);
        if document.get("spec").is_none() {
            document["spec"] = json!({});
        }
        complete_patches(&mut document["spec"]["installConfigPatches"]);
        for manifest_patch in
            document["spec"]["installerManifestPatches"].as_array_mut().into_iter().flatten()
        {
            complete_patches(&mut manifest_patch["patches"]);
        }
        drop_nulls(&mut document["spec"]);
        self.complete_lease(customization, &mut document["status"]);
    }

    /// Hive stops a pool whose customization names a cluster that is not there.
    fn complete_lease(&self, customization: &Customization, status: &mut Value) {
        keep_fields(
            status,
            &["clusterDeploymentRef", "clusterPoolRef", "conditions", "lastAppliedConfiguration"],
        );
        let holder = customization.status.cluster_deployment_ref.as_ref();
        let is_held = holder.is_some_and(|cluster| self.clusters.contains(&cluster.name));
        if !is_held {
            remove_field(status, "clusterDeploymentRef");
            remove_field(status, "clusterPoolRef");
        }
        if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
            conditions.retain(|condition| {
                let is_reserved = condition["type"] == ConditionType::Available.as_str()
                    && condition["status"] == "False";
                condition.get("lastTransitionTime").is_some() && (is_held || !is_reserved)
            });
        }
    }
}

/// Says what a Secret is: Hive reads pull secrets only from those of their own type.
fn complete_secret(secret: &Secret, document: &mut Value) {
    if secret.values.contains_key(PULL_SECRET_KEY) {
        document["type"] = PULL_SECRET_TYPE.into();
    } else if secret.kind.is_empty() {
        document["type"] = "Opaque".into();
    }
}

/// Patches as Hive has them: paths begin with a slash, and a value that is no text is JSON in a
/// text.
fn complete_patches(patches: &mut Value) {
    for patch in patches.as_array_mut().into_iter().flatten() {
        for field in ["path", "from"] {
            if let Some(path) = patch.get(field).and_then(Value::as_str)
                && !path.is_empty()
                && !path.starts_with('/')
            {
                patch[field] = format!("/{path}").into();
            }
        }
        let Some(value) = patch.get("value").filter(|value| !value.is_string()) else { continue };
        let value_json = value.to_string();
        remove_field(patch, "value");
        if patch.get("valueJSON").is_none() {
            patch["valueJSON"] = value_json.into();
        }
    }
}

/// Hive's schemas require references to Secrets that a simulated cluster, or one with a driver of its
/// own, does not need. An empty one is what Hive computes the version of a pool from anyway.
fn require_references(platform: &mut Value) {
    for (name, fields) in REQUIRED_REFERENCES {
        let Some(settings) = platform.get_mut(name).and_then(Value::as_object_mut) else {
            continue;
        };
        for field in fields {
            settings.entry((*field).to_owned()).or_insert_with(|| json!({}));
        }
    }
}

fn set_finalizers(document: &mut Value, finalizers: &[&str]) {
    document["metadata"]["finalizers"] = json!(finalizers);
}

/// Leaves what another server does not make itself, and nothing of poolctl's own.
pub fn trim_metadata(document: &mut Value) {
    let metadata = &mut document["metadata"];
    keep_fields(metadata, &["name", "namespace", "labels", "annotations", "finalizers"]);
    for field in ["labels", "annotations"] {
        remove_own_names(&mut metadata[field]);
        remove_if_empty(metadata, field);
    }
    remove_if_empty(metadata, "finalizers");
}

/// Removes labels or annotations that only poolctl understands.
fn remove_own_names(entries: &mut Value) {
    if let Some(fields) = entries.as_object_mut() {
        fields.retain(|name, _| !name.starts_with(PREFIX));
    }
}

/// Removes a field that holds nothing.
fn remove_if_empty(parent: &mut Value, field: &str) {
    let is_empty = match parent.get(field) {
        Some(Value::Null) => true,
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        _ => false,
    };
    if is_empty {
        remove_field(parent, field);
    }
}

fn drop_nulls(parent: &mut Value) {
    if let Some(fields) = parent.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}

/// Takes a field out of an object. Nothing happens if it has none, or if the value is no object.
pub fn remove_field(parent: &mut Value, field: &str) {
    if let Some(fields) = parent.as_object_mut() {
        fields.remove(field);
    }
}

/// Removes all fields but these.
pub fn keep_fields(parent: &mut Value, names: &[&str]) {
    if let Some(fields) = parent.as_object_mut() {
        let kept: Map<String, Value> = std::mem::take(fields)
            .into_iter()
            .filter(|(name, _)| names.contains(&name.as_str()))
            .collect();
        *fields = kept;
    }
}
