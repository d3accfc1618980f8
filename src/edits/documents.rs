//! Edits of objects that are documents with metadata: what of them is the user's and what stays.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::kinds::Kind;
use crate::model::meta::{HasMeta, Key, Meta};
use crate::model::object::Resource;
use crate::model::refusal::Refusal;
use crate::model::state::{Plain, State, Tabled};
use crate::model::table::Row;
use crate::model::tick::Tick;
use crate::model::time::Time;

use super::verdict::Verdict;

/// A kind whose objects are documents in a table of the state. Every kind says what stays of an
/// object that is put again; where it says nothing else, its objects are edited as Namespaces are.
pub trait EditedDocument: Resource + Tabled + HasMeta {
    /// Carries over into the new object what is not the user's, and says whether its spec differs
    /// from that of the old one.
    fn carry_over(old: &Self, new: &mut Self, merge: bool, tick: &Tick) -> bool;

    /// As `Edited::put`.
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        put_and_finish_deletion(state, new, merge, tick)
    }

    /// As `Edited::delete`.
    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        delete_document::<Self>(state, key, tick.now)
    }

    /// Moves what another state has exported of an object to where this state keeps it.
    fn prepare_import(&mut self, _: &Tick) -> Result<(), Refusal> {
        Ok(())
    }
}

impl<T: Plain> EditedDocument for T {
    fn carry_over(old: &Self, new: &mut Self, _: bool, _: &Tick) -> bool {
        without_metadata(old) != without_metadata(new)
    }
}

/// Puts an object into its table, new or in place of the old one.
pub fn put_document<T: EditedDocument>(
    state: &mut State,
    mut new: T,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let kind = T::KIND;
    let key = Row::key(&new);
    let table = T::table_mut(state);
    let Some((id, old)) = table.find(&key).and_then(|id| Some((id, table.get(id)?.clone()))) else {
        initialize_metadata(HasMeta::meta_mut(&mut new), kind, tick);
        table.insert(new);
        return Ok(Verdict::Created);
    };
    let other_spec = T::carry_over(&old, &mut new, merge, tick);
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

/// Puts an object that no pass removes: one whose deletion was asked for goes with its last
/// finalizer.
pub fn put_and_finish_deletion<T: EditedDocument>(
    state: &mut State,
    new: T,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let key = Row::key(&new);
    let verdict = put_document(state, new, merge, tick)?;
    finish_deletion::<T>(state, &key);
    Ok(verdict)
}

/// An object whose deletion was asked for goes when its last finalizer is taken away.
pub fn finish_deletion<T: Tabled + HasMeta>(state: &mut State, key: &Key) {
    let table = T::table_mut(state);
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

/// Carries over what is not the user's. `merge`: what the new object leaves out stays, too.
pub fn inherit_metadata(old: &Meta, new: &mut Meta, merge: bool, other_spec: bool) {
    new.id = old.id;
    new.uid.clone_from(&old.uid);
    new.creation_timestamp = old.creation_timestamp;
    new.deletion_timestamp = old.deletion_timestamp;
    new.generation = old.generation + i64::from(other_spec);
    if merge {
        merge_metadata(old, new);
    }
}

/// Carries over the labels, annotations, finalizers and owners that the new metadata leave out.
pub fn merge_metadata(old: &Meta, new: &mut Meta) {
    new.labels = merge_maps(&old.labels, &new.labels);
    new.annotations = merge_maps(&old.annotations, &new.annotations);
    if new.finalizers.is_empty() {
        new.finalizers.clone_from(&old.finalizers);
    }
    if new.owner_references.is_empty() {
        new.owner_references.clone_from(&old.owner_references);
    }
}

fn merge_maps(
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    old.iter().chain(new).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Asks for an object's deletion. Returns whether anything changed, None without such an object.
pub fn mark_for_deletion<T: Tabled + HasMeta>(
    state: &mut State,
    key: &Key,
    now: Time,
) -> Option<bool> {
    let table = T::table_mut(state);
    let id = table.find(key)?;
    Some(table.update(id, |row| {
        row.meta_mut().deletion_timestamp.get_or_insert(now);
    }))
}

/// Removes an object; one that a finalizer of another program holds is only marked.
pub fn delete_document<T: Tabled + HasMeta>(
    state: &mut State,
    key: &Key,
    now: Time,
) -> Option<bool> {
    let table = T::table_mut(state);
    let id = table.find(key)?;
    if table.get(id).is_some_and(|row| !row.meta().finalizers.is_empty()) {
        return mark_for_deletion::<T>(state, key, now);
    }
    table.remove(id);
    Some(true)
}

/// What of an object says what it is to be.
fn without_metadata<R: Resource>(resource: &R) -> Value {
    let mut document = serde_json::to_value(&*resource.to_document()).unwrap_or_default();
    if let Some(fields) = document.as_object_mut() {
        fields.remove("metadata");
    }
    document
}
