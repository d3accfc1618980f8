//! Objects as metal3 on Kubernetes reads them: addresses and their claims, pools of addresses,
//! templates and hosts, with names that Kubernetes accepts and only fields that the schemas know.
//! It writes no files.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::model::address::IpRange;
use crate::model::cluster_api::restore_document;
use crate::model::data_template::Metal3DataTemplate;
use crate::model::host::BareMetalHost;
use crate::model::ip_lease::{IpAddress, Reference};
use crate::model::ip_pool::{AllocationStrategy, IpPool};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::metal3_data::{
    Metal3Data, Metal3DataClaim, Metal3DataClaimSpec, Metal3DataClaimStatus, Metal3DataStatus,
};
use crate::model::object::{Object, document_with_kind};

use super::hive_objects::{PoolStart, keep_fields, remove_field, trim_metadata};

/// The annotation by which metal3 leaves a host alone.
pub const HOST_PAUSED: &str = "baremetalhost.metal3.io/paused";
/// The cluster of a template that names none: metal3 requires one.
const NO_CLUSTER: &str = "none";

/// What has to be known of a state to render one object of it.
pub struct Metal3Rendering<'a> {
    /// The names that the claims which move get.
    pub claim_names: &'a HashMap<Key, String>,
    /// The hosts of Agents that belong to clusters. They may not be noted as used yet.
    pub hosts_of_clusters: &'a HashSet<Key>,
    /// Whether hosts are left alone at first.
    pub host_start: PoolStart,
}

/// A name that Kubernetes accepts, made from one that poolctl accepts.
pub fn kubernetes_name(name: &str) -> String {
    name.to_lowercase()
}

impl Metal3Rendering<'_> {
    /// The document of an object; none if it is not metal3's, or goes.
    pub fn render(&self, object: &Object) -> Option<Value> {
        if object.deletion_time().is_some() {
            return None;
        }
        let mut document = object.to_wire();
        match object {
            Object::IpPool(pool) => self.complete_pool(pool, &mut document),
            Object::IpClaim(claim) => {
                let name = self.claim_names.get(&claim.metadata.key())?;
                document["metadata"]["name"] = name.as_str().into();
                complete_claim(&mut document);
                document = restore_document(document);
            }
            Object::IpAddress(address) => {
                self.complete_address(address, &mut document);
                document = restore_document(document);
            }
            Object::DataTemplate(_) => complete_template(&mut document),
            Object::BareMetalHost(host) => self.complete_host(host, &mut document),
            _ => return None,
        }
        // Owners are known by uids that the server is yet to give: a wrong one deletes the object.
        trim_metadata(&mut document);
        Some(document)
    }

    fn complete_pool(&self, pool: &IpPool, document: &mut Value) {
        remove_field(document, "status");
        let namespace = &pool.metadata.namespace;
        let spec = &mut document["spec"];
        spec["namePrefix"] = kubernetes_name(pool.name_prefix()).into();
        let strategy = match pool.strategy() {
            AllocationStrategy::Sequential => "sequential",
            AllocationStrategy::Random | AllocationStrategy::LeastRecent => "random",
        };
        spec["allocationStrategy"] = strategy.into();
        split_ranges(pool, spec);
        let allocations = spec.get_mut("preAllocations").and_then(Value::as_object_mut);
        if let Some(allocations) = allocations {
            for (claim, address) in std::mem::take(allocations) {
                let key = Key::new(namespace.as_str(), claim.as_str());
                let new_name = self.claim_names.get(&key).cloned();
                allocations.insert(new_name.unwrap_or_else(|| kubernetes_name(&claim)), address);
            }
        }
    }

    /// An address without a claim moves, too, and so does that of a claim which is being deleted:
    /// metal3 would lease it again. It counts only the addresses of the pool's own namespace.
    fn complete_address(&self, address: &IpAddress, document: &mut Value) {
        let namespace = address.metadata.namespace.as_str();
        let claim_key = Key::new(namespace, address.spec.claim.name.as_str());
        let pool = address.spec.pool.key_from(namespace);
        let moved_name = self.claim_names.get(&claim_key).cloned();
        let claim_name = moved_name.unwrap_or_else(|| {
            let name = kubernetes_name(&claim_key.name);
            if pool.namespace == namespace { name } else { format!("{namespace}.{name}") }
        });
        document["metadata"]["name"] = kubernetes_name(&address.metadata.name).into();
        document["metadata"]["namespace"] = pool.namespace.as_str().into();
        document["spec"]["claim"] = json!({"name": claim_name, "namespace": pool.namespace});
        document["spec"]["pool"]["namespace"] = pool.namespace.into();
        remove_field(document, "status");
    }

    /// A host that is in use must not be inspected or cleaned: metal3 boots it for that.
    fn complete_host(&self, host: &BareMetalHost, document: &mut Value) {
        remove_field(document, "status");
        if host.spec.consumer_ref.is_some() || self.hosts_of_clusters.contains(&host.key()) {
            document["spec"]["externallyProvisioned"] = true.into();
            document["spec"]["online"] = true.into();
        }
        if self.host_start == PoolStart::Paused {
            document["metadata"]["annotations"][HOST_PAUSED] = "".into();
        }
    }
}

/// Takes the reserved addresses of a pool out of its ranges: metal3 would lease them.
fn split_ranges(pool: &IpPool, spec: &mut Value) {
    let reserved: Vec<IpRange> =
        pool.reserved_ranges().into_iter().map(|(range, _)| range).collect();
    let Some(entries) = spec.get_mut("pools").and_then(Value::as_array_mut) else { return };
    let ranges: HashMap<usize, IpRange> = pool.ranges().collect();
    let mut remaining_entries = Vec::new();
    for (position, entry) in std::mem::take(entries).into_iter().enumerate() {
        let Some(range) = ranges.get(&position).copied() else {
            remaining_entries.push(entry);
            continue;
        };
        let parts = range.subtract(&reserved);
        if parts == [range] {
            remaining_entries.push(entry);
            continue;
        }
        for part in parts {
            let mut remaining_entry = entry.clone();
            remaining_entry["start"] = part.start.to_string().into();
            remaining_entry["end"] = part.end.to_string().into();
            remaining_entries.push(remaining_entry);
        }
    }
    *entries = remaining_entries;
}

/// The objects by which metal3 knows that a machine has an index of a template.
pub struct RenderedIndex {
    pub data: Value,
    pub claim: Value,
}

/// Renders the index of a machine. `claim` is the key of its Metal3DataClaim.
pub fn render_index(template: &Metal3DataTemplate, index: u64, claim: &Key) -> RenderedIndex {
    let namespace = &template.metadata.namespace;
    let template_name = kubernetes_name(&template.metadata.name);
    let template_key = Key::new(namespace.as_str(), template_name.as_str());
    let mut data = Metal3Data::of_host(&template_key, index, &claim.name);
    // metal3 finds what it refers to only by a namespace, and says itself whether it is ready.
    data.spec.template.namespace.clone_from(namespace);
    data.spec.claim.namespace.clone_from(namespace);
    data.status = Metal3DataStatus::default();
    let template_reference =
        Reference { name: template_name, namespace: namespace.clone(), ..Reference::default() };
    let data_reference = Reference {
        name: data.metadata.name.clone(),
        namespace: namespace.clone(),
        ..Reference::default()
    };
    let data_claim = Metal3DataClaim {
        metadata: Meta {
            name: claim.name.clone(),
            namespace: claim.namespace.clone(),
            ..Meta::default()
        },
        spec: Metal3DataClaimSpec {
            template: template_reference,
            ..Metal3DataClaimSpec::default()
        },
        status: Metal3DataClaimStatus { rendered_data: Some(data_reference) },
    };
    RenderedIndex {
        data: document_with_kind(Kind::Metal3Data, &data),
        claim: document_with_kind(Kind::Metal3DataClaim, &data_claim),
    }
}

/// metal3 leases another address to a claim that does not name its own.
fn complete_claim(document: &mut Value) {
    keep_fields(&mut document["status"], &["address"]);
    if let Some(name) = document["status"]["address"]["name"].as_str().map(kubernetes_name) {
        document["status"]["address"]["name"] = name.into();
    } else {
        remove_field(document, "status");
    }
}

/// Adds what metal3 requires of a template: a cluster, and the kind of each pool of addresses.
fn complete_template(document: &mut Value) {
    remove_field(document, "status");
    if let Some(name) = document["metadata"]["name"].as_str().map(kubernetes_name) {
        document["metadata"]["name"] = name.into();
    }
    let spec = &mut document["spec"];
    if spec["clusterName"].as_str().unwrap_or_default().is_empty() {
        spec["clusterName"] = NO_CLUSTER.into();
    }
    let meta_data = spec.get_mut("metaData").and_then(Value::as_object_mut);
    for (field, entries) in meta_data.into_iter().flatten() {
        if !field.ends_with("FromIPPool") {
            continue;
        }
        for entry in entries.as_array_mut().into_iter().flatten() {
            entry["apiGroup"] = "ipam.metal3.io".into();
            entry["kind"] = "IPPool".into();
        }
    }
}
