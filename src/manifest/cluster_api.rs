//! Reads claims and addresses of Cluster API that a pool of metal3 serves: they become IPClaims and
//! IPAddresses. Those of other pools are left as they are, for nothing here knows such a pool.

use crate::model::annotations::CLUSTER_API;
use crate::model::cluster_api::{CLAIM_KIND, ClusterApiOrigin, GROUP, POOL_GROUP};
use crate::model::kinds::Kind;
use crate::yaml::{Node, Tree};

use crate::manifest::{field_mut, remove_fields, set_field, set_node, string_field, string_node};

/// Makes an IPClaim or an IPAddress of a document of Cluster API, and returns which of them it is
/// then. Does nothing and returns none if the document is no such one, or of a pool of another kind.
pub fn convert_document(document: &mut Node) -> Option<Kind> {
    let api_version = string_field(document, "apiVersion").to_owned();
    let (group, _) = api_version.split_once('/')?;
    let spec = document.get("spec")?;
    let pool = spec.get("poolRef")?;
    let is_served = group == GROUP
        && string_field(pool, "apiGroup") == POOL_GROUP
        && string_field(pool, "kind") == Kind::IpPool.name();
    if !is_served {
        return None;
    }
    let kind_name = string_field(document, "kind");
    let (kind, claim_node) = if kind_name == CLAIM_KIND {
        (Kind::IpClaim, document.get("metadata")?)
    } else if kind_name == Kind::IpAddress.name() {
        (Kind::IpAddress, spec.get("claimRef")?)
    } else {
        return None;
    };
    let claim = string_field(claim_node, "name").to_owned();
    if claim.is_empty() {
        return None;
    }
    let cluster_name = string_field(spec, "clusterName").to_owned();
    let origin = ClusterApiOrigin { api_version, claim, cluster_name };
    rewrite_document(kind, document, &origin);
    Some(kind)
}

/// Gives the fields of a document metal3's names, and notes what the object was.
fn rewrite_document(kind: Kind, document: &mut Node, origin: &ClusterApiOrigin) {
    if let Some(metadata) = field_mut(document, "metadata") {
        if kind == Kind::IpClaim {
            set_field(metadata, "name", &origin.name_here());
        }
        annotate(metadata, CLUSTER_API, &origin.to_annotation());
    }
    if let Some(spec) = field_mut(document, "spec") {
        rename_field(spec, "poolRef", "pool");
        rename_field(spec, "claimRef", "claim");
        remove_fields(spec, &["clusterName"]);
        if let Some(claim) = field_mut(spec, "claim") {
            set_field(claim, "name", &origin.name_here());
        }
    }
    if let Some(status) = field_mut(document, "status") {
        rename_field(status, "addressRef", "address");
    }
}

fn rename_field(node: &mut Node, name: &str, name_here: &str) {
    let Tree::Map(entries) = &mut node.tree else { return };
    for (key, _) in entries {
        if key.key_name() == name {
            *key = string_node(name_here, key.line, key.column);
        }
    }
}

/// Adds an annotation to metadata, in place of one of the same name.
fn annotate(metadata: &mut Node, name: &str, value: &str) {
    if metadata.get("annotations").is_none_or(Node::is_null) {
        let annotations =
            Node { tree: Tree::Map(Vec::new()), line: metadata.line, column: metadata.column };
        set_node(metadata, "annotations", annotations);
    }
    if let Some(annotations) = field_mut(metadata, "annotations") {
        set_field(annotations, name, value);
    }
}
