//! Reads JSON texts part by part: as one tree of nodes a List would take many times the memory of its
//! text.

use crate::yaml::{self, LARGEST_PART, Node, PartRole};

use super::{Manifests, ReadOptions, add_document, string_field};

/// Reads a JSON text about which there is nothing to tell: only then no place in it is needed, and
/// it is read in a small part of the time. None for any other text.
pub fn read_json(file: &str, content: &str, reading: &ReadOptions<'_>) -> Option<Manifests> {
    let mut manifests = Manifests::default();
    yaml::visit_json_within(content, reading.limit(), &mut |part| match part.role {
        PartRole::Item | PartRole::Document => {
            add_document(&mut manifests, file, part.node, reading).is_empty()
        }
        PartRole::RestOfList => is_list_of_objects(&part.node),
    })?;
    if needs_places(&manifests) { None } else { Some(manifests) }
}

/// Reads an object or a record again that was put aside as JSON. What there is to tell about it was
/// told when it was read first. None if it cannot be read.
pub fn read_record(json: &str, reading: &ReadOptions<'_>) -> Option<Manifests> {
    let mut manifests = Manifests::default();
    yaml::visit_json_within(json, LARGEST_PART, &mut |part| {
        add_document(&mut manifests, "", part.node, reading).is_empty()
    })?;
    Some(manifests)
}

/// Whether a document is a List, each item of which is an object. Items of another document are parts
/// of it.
pub fn is_list_of_objects(document: &Node) -> bool {
    string_field(document, "kind") == "List"
}

/// Whether something is to be told about a place in the text.
pub fn needs_places(manifests: &Manifests) -> bool {
    !manifests.warnings.is_empty() || has_troubles(manifests)
}

/// Whether something is to be told that concerns several objects.
pub fn has_troubles(manifests: &Manifests) -> bool {
    !manifests.foreign_leases.is_empty()
        || !manifests.refused_pools.is_empty()
        || manifests.places.has_repeated()
}
