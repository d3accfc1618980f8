//! Edits of objects that are documents with metadata: what of them is the user's and what stays.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::kinds::Kind;
use crate::model::meta::{HasMeta, Key, Meta};
use crate::model::object::Resource;
use crate::model::refusal::Refusal;
use crate::model::table::{Row, Table};
use crate::model::tick::Tick;
use crate::model::time::Time;

use super::verdict::Verdict;

/// `keep` carries over what is not the user's and says whether the spec is another one.
pub fn put_document<T: Resource + Row + HasMeta>(
    table: &mut Table<T>,
    mut new: T,
    merge: bool,
    tick: &Tick,
    keep: impl FnOnce(&T, &mut T) -> bool,
) -> Result<Verdict, Refusal> {
    let kind = T::KIND;
    let key = Row::key(&new);
    let Some((id, old)) = table.find(&key).and_then(|id| Some((id, table.get(id)?.clone()))) else {
        initialize_metadata(HasMeta::meta_mut(&mut new), kind, tick);
        table.insert(new);
        return Ok(Verdict::Created);
    };
    let other_spec = keep(&old, &mut new);
    // A pool on its way out can still be changed: its maxConcurrent says how fast it goes.
    let is_going = HasMeta::meta(&old).deletion_timestamp.is_some() && kind != Kind::ClusterPool;
    if is_going && other_spec {
        let word = kind.word();
        return Err(Refusal::conflict(format!("{word} `{}` is being deleted", key.name))
            .next(format!("poolctl describe {word} {}", key.name)));
    }
    inherit_metadata(HasMeta::meta(&old), HasMeta::meta_mut(&mut new), merge, other_spec);
    Ok(Verdict::of_update(table.update(id, |row| *row = new)))
}

/// An object whose deletion was asked for goes when its last finalizer is taken away.
pub fn finish_deletion<T: Row + HasMeta>(table: &mut Table<T>, key: &Key) {
    let Some(id) = table.find(key) else { return };
    let Some(meta) = table.get(id).map(HasMeta::meta) else { return };
    if meta.deletion_timestamp.is_some() && meta.finalizers.is_empty() {
        table.remove(id);
    }
}

/// Identity and age of a new object.
pub fn initialize_metadata(meta: &mut Meta, kind: Kind, tick: &Tick) {
    let owner = format!("{}/{}/{}", kind.name(), meta.namespace, meta.name);
    meta.uid = tick.uid("uid", &owner, tick.revision).to_string();
    meta.creation_timestamp = Some(tick.now);
    meta.generation = 1;
}

pub fn inherit_metadata(old: &Meta, new: &mut Meta, merge: bool, other_spec: bool) {
    new.id = old.id;
    new.uid.clone_from(&old.uid);
    new.creation_timestamp = old.creation_timestamp;
    new.deletion_timestamp = old.deletion_timestamp;
    new.generation = old.generation + i64::from(other_spec);
    if merge {
        new.labels = merge_maps(&old.labels, &new.labels);
        new.annotations = merge_maps(&old.annotations, &new.annotations);
        if new.finalizers.is_empty() {
            new.finalizers.clone_from(&old.finalizers);
        }
        if new.owner_references.is_empty() {
            new.owner_references.clone_from(&old.owner_references);
        }
    }
}

pub fn merge_maps(
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    old.iter().chain(new).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Asks for an object's deletion. Returns whether anything changed, None without such an object.
pub fn mark_for_deletion<T: Row + HasMeta>(
    table: &mut Table<T>,
    key: &Key,
    now: Time,
) -> Option<bool> {
    let id = table.find(key)?;
    Some(table.update(id, |row| {
        row.meta_mut().deletion_timestamp.get_or_insert(now);
    }))
}

/// Removes an object, unless a finalizer of another program holds it.
pub fn delete_document<T: Row + HasMeta>(
    table: &mut Table<T>,
    key: &Key,
    now: Time,
) -> Option<bool> {
    let id = table.find(key)?;
    if table.get(id).is_some_and(|row| !row.meta().finalizers.is_empty()) {
        return mark_for_deletion(table, key, now);
    }
    table.remove(id);
    Some(true)
}

/// What of an object says what it is to be.
pub fn without_metadata<R: Resource>(resource: &R) -> Value {
    let mut document = serde_json::to_value(&*resource.to_document()).unwrap_or_default();
    if let Some(fields) = document.as_object_mut() {
        fields.remove("metadata");
    }
    document
}
