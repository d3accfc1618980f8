//! Reads JSON texts part by part: as one tree of nodes a List would take many times the memory of its
//! text.

use crate::yaml::{self, PartRole};

use super::{Manifests, ReadOptions, add_document, string_field};

/// Reads a JSON text about which there is nothing to tell: only then no place in it is needed, and
/// it is read in a small part of the time. None for any other text.
pub fn read_json(file: &str, content: &str, reading: &ReadOptions<'_>) -> Option<Manifests> {
    let mut manifests = Manifests::default();
    yaml::visit_json_within(content, reading.limit(), &mut |part| match part.role {
        PartRole::Item | PartRole::Document => {
            add_document(&mut manifests, file, part.node, reading).is_empty()
        }
        // Of another document its items are no documents.
        PartRole::RestOfList => string_field(&part.node, "kind") == "List",
    })?;
    if needs_places(&manifests) { None } else { Some(manifests) }
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
