//! Leaves out objects of kinds that are not modelled, with a warning for each kind. Where a state is moved, those
//! that hold an address, a host or a cluster are noted: poolctl must not give these to anybody. It
//! never adds an object.

use crate::model::foreign_kind::ForeignKind;
use crate::model::meta::Key;
use crate::yaml::Node;

use crate::manifest::{Manifests, ReadOptions, string_field};

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

/// Leaves out an object that is not modelled: notes what it holds, or counts it.
pub fn leave_out_unmodelled(
    manifests: &mut Manifests,
    file: &str,
    document: &Node,
    reading: &ReadOptions<'_>,
) {
    let version = string_field(document, "apiVersion");
    let kind_name = string_field(document, "kind");
    if reading.moves_state
        && let Some(kind) = ForeignKind::from_manifest(version, kind_name)
    {
        manifests.foreign_leases.push(foreign_lease(kind, file, document, reading));
        return;
    }
    *manifests.skipped.entry((kind_name.to_owned(), version.to_owned())).or_default() += 1;
}

/// Warns of the objects that were left out, once for each of their kinds.
pub fn warn_of_skipped(manifests: &mut Manifests) {
    for ((kind_name, version), count) in &manifests.skipped {
        let group = if version.is_empty() { String::new() } else { format!(" ({version})") };
        let objects = if *count == 1 { "object is" } else { "objects are" };
        let warning = format!("{kind_name}{group} is not modelled; {count} {objects} skipped");
        manifests.warnings.push(warning);
    }
}

/// What an object of another program holds: who it is, where it stands in which file, and the
/// address, if it is about one.
fn foreign_lease(
    kind: ForeignKind,
    file: &str,
    document: &Node,
    reading: &ReadOptions<'_>,
) -> ForeignLease {
    let namespace = string_in(document, "metadata", "namespace");
    let name = string_in(document, "metadata", "name");
    ForeignLease {
        kind,
        key: Key::new(namespace.unwrap_or(reading.namespace), name.unwrap_or_default()),
        place: format!("{file}:{}:{}", document.line, document.column),
        address: string_in(document, "spec", "address").map(str::to_owned),
    }
}

/// A string in a part of a document: `metadata` and `name` for `metadata.name`.
fn string_in<'a>(document: &'a Node, part: &str, field: &str) -> Option<&'a str> {
    document.get(part)?.get(field)?.as_str()
}
