//! `import --check`: what an import would do, and what the first pass after it would. Everything is
//! imported into a state that is thrown away; the state of the user is neither read nor written.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::commands::{Context, count_of};
use crate::manifest::Manifests;
use crate::model::annotations::POWER;
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::output::{Answer, DifferenceLine, difference_lines, join_lines};
use crate::plan;
use crate::reconcile::{Door, Notes};
use crate::store::Store;

use super::fill::fill_state;

/// Says what is in a file, which links of it would be completed, and what the first pass would do.
pub fn check_import(context: &Context, manifests: Manifests) -> anyhow::Result<()> {
    // Values of Secrets are in it for a moment. Only its owner may enter the folder.
    let folder = tempfile::tempdir()
        .map_err(|error| Refusal::new(Exit::Failed, format!("no rehearsal: {error}")))?;
    let store = Store::open_or_create(&folder.path().join("state.db"))?;
    let door = Door { store: &store, world: &context.world, plans_changes: false };
    let counts = count_kinds(&manifests.objects);
    let clusters_before = names_of_live_clusters(&manifests.objects);
    let ((repairs, interrupted), _) = door.change(&Scope::Whole, &[], |state, tick| {
        let repairs = fill_state(state, manifests, tick)?;
        Ok((repairs, names_of_interrupted_clusters(state)))
    })?;
    let planned = door.preview_pass(&Scope::Whole, Notes::Trust)?.0;
    let clusters_after = names_of_live_rows(&planned);
    let created: Vec<&String> = clusters_after.difference(&clusters_before).collect();
    let destroyed: Vec<&String> = clusters_before.difference(&clusters_after).collect();
    let given_up = names_of_given_up_clusters(&planned, &interrupted);
    let asleep = names_of_sleeping_clusters(&planned);
    let changes = essential_lines_first(difference_lines(&planned));
    let mut lines: Vec<String> = Vec::new();
    for (kind, count) in &counts {
        lines.push(format!("{count:>6} {kind}"));
    }
    for repair in &repairs {
        lines.push(format!("corrected: {repair}"));
    }
    lines.push(format!("first pass creates {}{}", count_clusters(&created), list_names(&created)));
    let destroyed_names = list_names(&destroyed);
    lines.push(format!("first pass destroys {}{destroyed_names}", count_clusters(&destroyed)));
    lines.extend(describe_interruptions(&interrupted, &given_up));
    for cluster in &asleep {
        lines.push(format!(
            "cluster {cluster} hibernates and serves no claim: its driver cannot start it, unless \
             its annotation {POWER} names a program that can"
        ));
    }
    lines.extend(changes.iter().cloned());
    let document = json!({
        "objects": counts,
        "repairs": repairs,
        "created": created,
        "destroyed": destroyed,
        "interrupted": interrupted,
        "givenUp": given_up,
        "asleep": asleep,
        "changes": changes,
    });
    context.answer(Answer::text(join_lines(&lines)).with_document(document))?;
    context.hint("nothing is imported yet; the same command without --check imports it");
    Ok(())
}

/// How many objects there are of each kind, by the kind's name.
fn count_kinds(objects: &[Object]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for kind in Kind::OBJECTS {
        let count = objects.iter().filter(|object| object.kind() == *kind).count();
        if count > 0 {
            counts.insert(kind.name(), count);
        }
    }
    counts
}

/// The clusters of a file that nobody has deleted.
fn names_of_live_clusters(objects: &[Object]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for object in objects {
        if let Object::ClusterDeployment(cluster) = object
            && cluster.deleting.is_none()
        {
            names.insert(cluster.name.clone());
        }
    }
    names
}

fn names_of_live_rows(state: &State) -> BTreeSet<String> {
    let live_clusters = state.clusters.rows().filter(|cluster| cluster.deleting.is_none());
    live_clusters.map(|cluster| cluster.name.clone()).collect()
}

/// Clusters whose installation another program had begun, and whose remains the first pass destroys.
fn names_of_interrupted_clusters(state: &State) -> BTreeSet<String> {
    let clusters = state.clusters.rows();
    let interrupted = clusters.filter(|cluster| cluster.interrupted && cluster.deleting.is_none());
    interrupted.map(|cluster| cluster.name.clone()).collect()
}

/// Those of the interrupted clusters that are not installed anew, because their attempts are used up.
fn names_of_given_up_clusters(planned: &State, interrupted: &BTreeSet<String>) -> Vec<String> {
    let clusters = planned.clusters.rows();
    let given_up = clusters.filter(|cluster| {
        let is_given_up = cluster.stopped || plan::has_used_its_attempts(cluster);
        is_given_up && interrupted.contains(&cluster.name)
    });
    given_up.map(|cluster| cluster.name.clone()).collect()
}

/// Clusters that hibernate, and that nothing here can start.
fn names_of_sleeping_clusters(planned: &State) -> Vec<String> {
    let clusters = planned.clusters.rows();
    let asleep = clusters.filter(|cluster| plan::sleeps_for_good(planned, cluster));
    asleep.map(|cluster| cluster.name.clone()).collect()
}

/// What becomes of installations that another program had begun.
fn describe_interruptions(interrupted: &BTreeSet<String>, given_up: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    if interrupted.is_empty() {
        return lines;
    }
    let names: Vec<&String> = interrupted.iter().collect();
    let installations = count_of(names.len(), "installation");
    lines.push(format!("first pass interrupts {installations}{}", list_names(&names)));
    if !given_up.is_empty() {
        let names: Vec<&String> = given_up.iter().collect();
        let clusters = count_clusters(&names);
        lines.push(format!(
            "{clusters} not installed again, attempts used up{}",
            list_names(&names)
        ));
    }
    lines
}

/// The lines of a difference, those of objects first of which more than conditions and counters
/// changes.
fn essential_lines_first(lines: Vec<DifferenceLine>) -> Vec<String> {
    let mut essential_lines = Vec::new();
    let mut details = Vec::new();
    let mut is_essential = true;
    for line in lines {
        // The fields of an object stay below its name.
        if line.name.is_some() {
            is_essential = !line.is_detail;
        }
        let chosen_lines = if is_essential { &mut essential_lines } else { &mut details };
        chosen_lines.push(line.text);
    }
    essential_lines.append(&mut details);
    essential_lines
}

fn count_clusters(names: &[&String]) -> String {
    if names.is_empty() { "no cluster".to_owned() } else { count_of(names.len(), "cluster") }
}

/// The names in question after a colon; nothing if there are none.
fn list_names(names: &[&String]) -> String {
    let words: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) }
}
