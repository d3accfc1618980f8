//! Reads large texts part by part: as one tree of nodes a whole state would take many times the memory
//! of its text.

use crate::yaml::{self, JsonPart};

use super::{Manifests, ReadOptions, add_document, string_field};

/// Reads a text whose documents, or the items of its List, can be read one by one, if there is nothing
/// to tell about them. None for any other text, of which the places are needed.
pub fn read_in_parts(file: &str, content: &str, reading: &ReadOptions<'_>) -> Option<Manifests> {
    read_json(file, content, reading).or_else(|| read_yaml_list(file, content, reading))
}

/// Reads a JSON text about which there is nothing to tell: only then no place in it is needed, and
/// a large state is read in a small part of the time.
fn read_json(file: &str, content: &str, reading: &ReadOptions<'_>) -> Option<Manifests> {
    let mut manifests = Manifests::default();
    yaml::visit_json_within(content, reading.limit(), &mut |part| match part {
        JsonPart::Item(document) | JsonPart::Document(document) => {
            add_document(&mut manifests, file, document, reading).is_empty()
        }
        // Of another document its items are no documents.
        JsonPart::RestOfList(list) => string_field(&list, "kind") == "List",
    })?;
    if needs_places(&manifests) { None } else { Some(manifests) }
}

/// Reads a whole state in YAML item by item, on the same condition.
fn read_yaml_list(file: &str, content: &str, reading: &ReadOptions<'_>) -> Option<Manifests> {
    if !reading.moves_state {
        return None;
    }
    let mut manifests = Manifests::default();
    yaml::visit_list_within(content.as_bytes(), reading.limit(), &mut |item| {
        add_document(&mut manifests, file, item, reading).is_empty()
    })?;
    if needs_places(&manifests) { None } else { Some(manifests) }
}

/// Whether something is to be told about a place in the text.
pub fn needs_places(manifests: &Manifests) -> bool {
    !manifests.warnings.is_empty()
        || !manifests.foreign_leases.is_empty()
        || !manifests.refused_pools.is_empty()
        || manifests.places.has_repeated()
}
