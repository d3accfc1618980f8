//! Claims and addresses of Cluster API that metal3's pools serve, too. They are kept as IPClaims and
//! IPAddresses with an annotation that tells what they were, and exported as that. Nothing here
//! leases an address.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::annotations::CLUSTER_API;
use super::kinds::Kind;
use super::meta::Meta;

/// The group of Cluster API's claims and addresses.
pub const GROUP: &str = "ipam.cluster.x-k8s.io";
/// Cluster API's kind of claims. Its addresses are called like metal3's.
pub const CLAIM_KIND: &str = "IPAddressClaim";
/// The group of the pools that serve them here.
pub const POOL_GROUP: &str = "ipam.metal3.io";

/// What an IPClaim or an IPAddress was in Cluster API: the value of the annotation, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterApiOrigin {
    /// Group and version.
    pub api_version: String,
    /// The name of the IPAddressClaim.
    pub claim: String,
    /// The cluster that the IPAddressClaim names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
}

impl ClusterApiOrigin {
    /// What the object of this metadata was; none if it is metal3's own.
    pub fn of(metadata: &Meta) -> Option<Self> {
        serde_json::from_str(metadata.annotation(CLUSTER_API)?).ok()
    }

    /// The value of the annotation.
    pub fn to_annotation(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The name of the IPClaim that stands for the IPAddressClaim. It differs from that of the
    /// IPAddressClaim, because an IPClaim beside it may have the same name.
    pub fn name_here(&self) -> String {
        format!("{}.capi", self.claim)
    }
}

/// The document of an IPClaim or an IPAddress as it was in Cluster API, if it comes from there, and
/// else as it is.
pub fn restore_document(mut document: Value) -> Value {
    let Some(origin) = take_origin(&mut document) else { return document };
    let pool = &document["spec"]["pool"]["name"];
    let mut spec = json!({
        "poolRef": {"apiGroup": POOL_GROUP, "kind": Kind::IpPool.name(), "name": pool},
    });
    document["apiVersion"] = json!(origin.api_version);
    if document["kind"] == Kind::IpClaim.name() {
        document["kind"] = json!(CLAIM_KIND);
        document["metadata"]["name"] = json!(origin.claim);
        if !origin.cluster_name.is_empty() {
            spec["clusterName"] = json!(origin.cluster_name);
        }
        restore_status(&mut document);
    } else {
        for field in ["address", "prefix", "gateway"] {
            if let Some(value) = document["spec"].get(field) {
                spec[field] = value.clone();
            }
        }
        spec["claimRef"] = json!({"name": origin.claim});
        restore_owner(&mut document, &origin);
    }
    document["spec"] = spec;
    document
}

/// Takes the annotation out of a document.
fn take_origin(document: &mut Value) -> Option<ClusterApiOrigin> {
    let metadata = document.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let origin = serde_json::from_str(annotations.get(CLUSTER_API)?.as_str()?).ok()?;
    annotations.remove(CLUSTER_API);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    Some(origin)
}

/// Replaces the status of an IPClaim by that of an IPAddressClaim: the name of its IPAddress. Why it
/// has none is a condition there, which its own controller writes anew.
fn restore_status(document: &mut Value) {
    let status = match document["status"]["address"]["name"].as_str() {
        Some(name) => json!({"addressRef": {"name": name}}),
        None => json!({}),
    };
    document["status"] = status;
}

/// Makes the IPAddressClaim an owner of its IPAddress in place of the IPClaim.
fn restore_owner(document: &mut Value, origin: &ClusterApiOrigin) {
    let owners = document.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten() {
        if owner["kind"] == Kind::IpClaim.name() {
            owner["apiVersion"] = json!(origin.api_version);
            owner["kind"] = json!(CLAIM_KIND);
            owner["name"] = json!(origin.claim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotation() -> String {
        let origin = ClusterApiOrigin {
            api_version: "ipam.cluster.x-k8s.io/v1beta2".into(),
            claim: "web".into(),
            ..ClusterApiOrigin::default()
        };
        assert_eq!(origin.name_here(), "web.capi");
        origin.to_annotation()
    }

    #[test]
    fn a_claim_and_its_address_become_what_they_were() {
        let claim = json!({
            "apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim",
            "metadata": {"name": "web.capi", "annotations": {CLUSTER_API: annotation()}},
            "spec": {"pool": {"name": "lan"}},
            "status": {"address": {"name": "lan-10-0-0-1", "namespace": "default"}},
        });
        assert_eq!(
            restore_document(claim),
            json!({
                "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim",
                "metadata": {"name": "web"},
                "spec": {"poolRef": {"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "lan"}},
                "status": {"addressRef": {"name": "lan-10-0-0-1"}},
            })
        );
        let address = json!({
            "apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPAddress",
            "metadata": {
                "name": "lan-10-0-0-1",
                "annotations": {CLUSTER_API: annotation()},
                "ownerReferences": [{
                    "apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim", "name": "web.capi",
                }],
            },
            "spec": {
                "address": "10.0.0.1", "prefix": 24,
                "pool": {"name": "lan"}, "claim": {"name": "web.capi"},
            },
        });
        let restored = restore_document(address);
        assert_eq!(restored["metadata"]["ownerReferences"][0]["kind"], "IPAddressClaim");
        assert_eq!(restored["metadata"]["ownerReferences"][0]["name"], "web");
        assert_eq!(
            restored["spec"],
            json!({
                "address": "10.0.0.1", "prefix": 24, "claimRef": {"name": "web"},
                "poolRef": {"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "lan"},
            })
        );
    }

    #[test]
    fn what_is_of_metal3_stays_as_it_is() {
        let claim = json!({"kind": "IPClaim", "metadata": {"name": "web"}, "spec": {}});
        assert_eq!(restore_document(claim.clone()), claim);
    }
}
