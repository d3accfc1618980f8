//! The objects that a description lists: those that the object names, and those of other kinds that
//! name it. Which these are is declared with the kinds.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::model::claim::Claim;
use crate::model::cluster::Cluster;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::{Object, Resource};
use crate::model::refers::kinds_listed_with;
use crate::model::refusal::Refusal;
use crate::model::time::Time;
use crate::output::{self, Name, RowContext, clean_line};
use crate::store::{Filter, Store};

use crate::commands::{Context, count_of};

/// Objects of a kind that are listed with another one; the others are counted.
const MAX_OF_KIND: usize = 20;

/// Something that a description lists.
pub struct RelatedObject {
    name: Name,
    /// How it is, in a word or two; empty if its kind has no states.
    state: String,
    document: Value,
}

impl RelatedObject {
    fn new(kind: Kind, key: &Key, state: String) -> Self {
        let document = json!({
            "kind": kind.name(),
            "namespace": key.namespace,
            "name": key.name,
            "state": state,
        });
        Self { name: Name::of(kind, key), state, document }
    }

    /// The object for programs.
    pub fn document(&self) -> &Value {
        &self.document
    }
}

/// The objects that an object names, and then those that name it, as far as the person who asks may
/// see them.
pub fn find_related_objects(
    context: &Context,
    store: &Store,
    object: &Object,
    now: Time,
) -> Result<Vec<RelatedObject>, Refusal> {
    let view = RowContext { now, ..RowContext::default() };
    let mut related = Vec::new();
    for (kind, key) in object.references() {
        // The name of a cluster is found without its namespace.
        let namespace = (!key.namespace.is_empty()).then(|| key.namespace.clone());
        let filter = Filter { namespace, name: Some(key.name.clone()), whole: false };
        let named_objects = store.list_objects(kind, &filter)?;
        if named_objects.is_empty() && context.guest().is_none() {
            related.push(RelatedObject::new(kind, &key, "does not exist".to_owned()));
        }
        for named_object in context.filter_visible(store, named_objects)? {
            let state = output::state_words(&named_object, &view);
            related.push(RelatedObject::new(kind, &named_object.key(), state));
        }
    }
    let key = object.key();
    for kind in kinds_listed_with(object.kind()) {
        let mut referring_objects = list_candidates(store, kind, object.kind(), &key)?;
        referring_objects.retain(|referring| referring.refers_to(object.kind(), &key));
        for referring in context.filter_visible(store, referring_objects)? {
            let state = output::state_words(&referring, &view);
            related.push(RelatedObject::new(kind, &referring.key(), state));
        }
    }
    Ok(related)
}

/// Objects of a kind among which are all that name an object. What a pool has is found by an index:
/// there may be a hundred thousand claims and clusters of others.
fn list_candidates(
    store: &Store,
    kind: Kind,
    named_kind: Kind,
    key: &Key,
) -> Result<Vec<Object>, Refusal> {
    match (named_kind, kind) {
        (Kind::ClusterPool, Kind::ClusterClaim) => {
            Ok(store.claims_of_pool(key)?.into_iter().map(Claim::into_object).collect())
        }
        (Kind::ClusterPool, Kind::ClusterDeployment) => {
            Ok(store.clusters_of_pool(key)?.into_iter().map(Cluster::into_object).collect())
        }
        _ => store.list_objects(kind, &Filter::default()),
    }
}

/// The lines of related objects: the first of each kind, and how many more there are.
pub fn draw_related_objects(related: &[RelatedObject]) -> String {
    let widths = related.iter().map(|object| object.name.to_string().chars().count());
    let name_width = widths.max().unwrap_or_default();
    let mut lines = String::new();
    for same_kind in related.chunk_by(|left, right| left.document["kind"] == right.document["kind"])
    {
        for object in same_kind.iter().take(MAX_OF_KIND) {
            let name = object.name.to_string();
            let line = format!("  {name:name_width$}  {}", clean_line(&object.state));
            lines += line.trim_end();
            lines.push('\n');
        }
        let more_count = same_kind.len().saturating_sub(MAX_OF_KIND);
        if more_count > 0 {
            let _ = writeln!(lines, "  and {}", count_of(more_count, "more object"));
        }
    }
    lines
}
