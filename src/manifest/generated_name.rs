//! `metadata.generateName`: the beginning of a name that is completed when an object is created. It
//! looks at one document, and knows no names that are taken.

use crate::model::refusal::Refusal;
use crate::yaml::Node;

use super::{ReadOptions, field_mut, refuse_node, set_field, string_field};

/// Letters of the beginning that are kept, as in Kubernetes: a name of 63 letters is always allowed.
const LONGEST_BEGINNING: usize = 58;

/// Gives a document that has only the beginning of a name a whole one. `ordinal` tells the documents
/// of a file apart. It is refused where no names are made.
pub fn complete_name(
    document: &mut Node,
    file: &str,
    ordinal: usize,
    reading: &ReadOptions<'_>,
) -> Result<(), Refusal> {
    let Some(metadata) = document.get("metadata") else { return Ok(()) };
    let beginning = string_field(metadata, "generateName");
    if beginning.is_empty() || !string_field(metadata, "name").is_empty() {
        return Ok(());
    }
    let Some(tick) = reading.name_maker else {
        let problem = "`metadata.name` is missing; only `create` makes one of `generateName`";
        return Err(refuse_node(file, metadata, problem).next("poolctl create -f FILE"));
    };
    let purpose = format!("name {ordinal} of {file}");
    let suffix = tick.random_suffix(&purpose, beginning, tick.revision);
    let mut name: String = beginning.chars().take(LONGEST_BEGINNING).collect();
    name += &suffix;
    if let Some(metadata) = field_mut(document, "metadata") {
        set_field(metadata, "name", &name);
    }
    Ok(())
}
