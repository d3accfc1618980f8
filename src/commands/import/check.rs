//! `import --check`: what an import would do, and what the first pass after it would. Everything is
//! imported into a state that is thrown away; the state of the user is neither read nor written.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::commands::{Context, count_of};
use crate::manifest::Manifests;
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::output::{Answer, difference_lines, join_lines};
use crate::reconcile::Door;
use crate::store::Store;

use super::fill_state;

/// Says what is in a file, which links of it would be completed, and what the first pass would do.
pub fn check_import(context: &Context, manifests: Manifests) -> anyhow::Result<()> {
    // Values of Secrets are in it for a moment. Only its owner may enter the folder.
    let folder = tempfile::tempdir()
        .map_err(|error| Refusal::new(Exit::Failed, format!("no rehearsal: {error}")))?;
    let store = Store::open_or_create(&folder.path().join("state.db"))?;
    let door = Door { store: &store, world: &context.world, plans_changes: false };
    let counts = count_kinds(&manifests.objects);
    let clusters_before = names_of_live_clusters(&manifests.objects);
    let (repairs, _) =
        door.change(&Scope::Whole, &[], |state, tick| fill_state(state, manifests, tick))?;
    let planned = door.preview_pass(&Scope::Whole)?.0;
    let clusters_after = names_of_live_rows(&planned);
    let created: Vec<&String> = clusters_after.difference(&clusters_before).collect();
    let destroyed: Vec<&String> = clusters_before.difference(&clusters_after).collect();
    let changes: Vec<String> =
        difference_lines(&planned).into_iter().map(|line| line.text).collect();
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
    lines.extend(changes.iter().cloned());
    let document = json!({
        "objects": counts,
        "repairs": repairs,
        "created": created,
        "destroyed": destroyed,
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

fn count_clusters(names: &[&String]) -> String {
    if names.is_empty() { "no cluster".to_owned() } else { count_of(names.len(), "cluster") }
}

/// The names in question after a colon; nothing if there are none.
fn list_names(names: &[&String]) -> String {
    let words: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) }
}
