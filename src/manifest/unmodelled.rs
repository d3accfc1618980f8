//! Objects of kinds that are not modelled. They are left out with a warning, but those that hold
//! an address, a host or a cluster are noted where a state is moved.

use crate::model::foreign_kind::ForeignKind;
use crate::model::meta::Key;
use crate::yaml::Node;

use crate::manifest::{Manifests, Reading};

/// An object of another program that holds an address, a host or a cluster.
#[derive(Clone)]
pub struct ForeignLease {
    pub kind: ForeignKind,
    pub key: Key,
    /// The file, and the line and column in it.
    pub place: String,
    /// The address, if the object says it.
    pub address: Option<String>,
}

/// Notes an object that is not modelled, and where it is.
pub fn leave_out(found: &mut Manifests, name: &str, document: &Node, reading: &Reading<'_>) {
    let version = document.get("apiVersion").and_then(Node::text).unwrap_or_default();
    let kind = document.get("kind").and_then(Node::text).unwrap_or_default();
    match ForeignKind::from_manifest(version, kind).filter(|_| reading.moved) {
        Some(kind) => found.foreign_leases.push(foreign_lease(kind, name, document, reading)),
        None => found.warnings.push(format!("{name}: {kind} ({version}) is not modelled; skipped")),
    }
}

fn foreign_lease(
    kind: ForeignKind,
    name: &str,
    document: &Node,
    reading: &Reading<'_>,
) -> ForeignLease {
    let namespace = text(document, "metadata", "namespace");
    ForeignLease {
        kind,
        key: Key::new(
            namespace.unwrap_or(reading.namespace),
            text(document, "metadata", "name").unwrap_or_default(),
        ),
        place: format!("{name}:{}:{}", document.line, document.column),
        address: text(document, "spec", "address").map(str::to_owned),
    }
}

fn text<'a>(document: &'a Node, part: &str, field: &str) -> Option<&'a str> {
    document.get(part)?.get(field)?.text()
}
