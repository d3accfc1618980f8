//! Jobs and events of a state that is moved, which are no objects. It adds them as they are.

use serde::de::DeserializeOwned;

use crate::model::event::Event;
use crate::model::job::Job;
use crate::model::refusal::Refusal;
use crate::model::typed::read_value;
use crate::yaml::Node;

use crate::manifest::{Manifests, refuse_node, remove_fields};

/// Adds a job or an event of a state that is moved. Returns whether the document is one of these.
pub fn add_record(
    manifests: &mut Manifests,
    version: &str,
    kind_name: &str,
    document: &Node,
) -> Result<bool, Refusal> {
    match (version, kind_name) {
        ("poolctl.dev/v1", "Job") => {
            let mut wire = document.clone();
            remove_fields(&mut wire, &["apiVersion", "kind"]);
            let job = Job::from_wire(parse_record(kind_name, &wire)?);
            manifests.records_left_out += usize::from(job.is_none());
            manifests.jobs.extend(job);
        }
        ("v1", "Event") => {
            let event = Event::from_wire(parse_record(kind_name, document)?);
            manifests.records_left_out += usize::from(event.is_none());
            manifests.events.extend(event);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn parse_record<T: DeserializeOwned>(kind_name: &str, document: &Node) -> Result<T, Refusal> {
    read_value(&document.to_value()).map_err(|message| refuse_node(kind_name, document, &message))
}
