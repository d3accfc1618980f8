//! Edits objects that are documents with metadata: which fields a user may set and which ones stay
//! as they are. Never waits for a pass.

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

use super::outcome::{DeleteOutcome, PutOutcome};
use super::put_mode::PutMode;

/// A kind whose objects are documents in a table of the state. Every kind defines what stays of an
/// object that is put again. The other methods have defaults that suit a kind which nothing depends
/// on, such as a Namespace.
pub trait EditedDocument: Resource + Tabled + HasMeta {
    /// Copies from the existing object into the desired one what a user does not set, and returns
    /// whether their specs differ.
    fn carry_over(existing: &Self, desired: &mut Self, mode: PutMode, tick: &Tick) -> bool;

    /// Whether the specs differ only in what the deletion of the object may need.
    fn differs_for_deletion_only(_existing: &Self, _desired: &Self) -> bool {
        false
    }

    /// As `Edited::put`.
    fn put(
        state: &mut State,
        desired: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal> {
        put_and_finish_deletion(state, desired, mode, tick)
    }

    /// As `Edited::delete`.
    fn delete(state: &mut State, key: &Key, tick: &Tick) -> DeleteOutcome {
        delete_document::<Self>(state, key, tick.now)
    }

    /// Moves what another state has exported of an object to where this state keeps it.
    fn prepare_import(&mut self, _: &Tick) -> Result<(), Refusal> {
        Ok(())
    }
}

impl<T: Plain> EditedDocument for T {
    fn carry_over(existing: &Self, desired: &mut Self, _: PutMode, _: &Tick) -> bool {
        without_metadata(existing) != without_metadata(desired)
    }
}

/// Puts an object into its table, or in place of the existing one of its name.
pub fn put_document<T: EditedDocument>(
    state: &mut State,
    mut desired: T,
    mode: PutMode,
    tick: &Tick,
) -> Result<PutOutcome, Refusal> {
    let kind = T::KIND;
    let key = Row::key(&desired);
    let table = T::table_mut(state);
    let Some((id, existing)) = table.find(&key).and_then(|id| Some((id, table.get(id)?.clone())))
    else {
        initialize_metadata(HasMeta::meta_mut(&mut desired), kind, tick);
        table.insert(desired);
        return Ok(PutOutcome::Created);
    };
    let is_spec_changed = T::carry_over(&existing, &mut desired, mode, tick);
    let existing_meta = HasMeta::meta(&existing);
    inherit_metadata(existing_meta, HasMeta::meta_mut(&mut desired), mode, is_spec_changed);
    let is_spec_refused = is_spec_changed && !T::differs_for_deletion_only(&existing, &desired);
    if existing_meta.deletion_timestamp.is_some()
        && (is_spec_refused || has_new_finalizer(existing_meta, HasMeta::meta(&desired)))
    {
        return Err(refuse_deleted(kind, &key));
    }
    Ok(PutOutcome::of_update(table.update(id, |row| *row = desired)))
}

/// The refusal to change an object that is being deleted. Its labels and annotations may change,
/// and finalizers may be taken away.
pub fn refuse_deleted(kind: Kind, key: &Key) -> Refusal {
    let word = kind.word();
    Refusal::conflict(format!("{word} `{}` is being deleted", key.name))
        .next(format!("poolctl describe {word} {}", key.name))
}

/// Whether the desired metadata has a finalizer that the object does not have yet. Once the
/// deletion was asked for, nothing else may hold it.
pub fn has_new_finalizer(existing: &Meta, desired: &Meta) -> bool {
    desired.finalizers.iter().any(|finalizer| !existing.finalizers.contains(finalizer))
}

/// Puts an object of a kind that no pass removes. If its deletion was asked for and the put takes
/// away its last finalizer, it is removed here.
pub fn put_and_finish_deletion<T: EditedDocument>(
    state: &mut State,
    desired: T,
    mode: PutMode,
    tick: &Tick,
) -> Result<PutOutcome, Refusal> {
    let key = Row::key(&desired);
    let outcome = put_document(state, desired, mode, tick)?;
    finish_deletion::<T>(state, &key);
    Ok(outcome)
}

/// Removes an object whose deletion was asked for, if it has no finalizers any more.
pub fn finish_deletion<T: Tabled + HasMeta>(state: &mut State, key: &Key) {
    let table = T::table_mut(state);
    let Some(id) = table.find(key) else { return };
    let Some(meta) = table.get(id).map(HasMeta::meta) else { return };
    if meta.deletion_timestamp.is_some() && meta.finalizers.is_empty() {
        table.remove(id);
    }
}

/// Gives a new object its uid, its age and its first generation.
pub fn initialize_metadata(meta: &mut Meta, kind: Kind, tick: &Tick) {
    let owner = format!("{}/{}/{}", kind.name(), meta.namespace, meta.name);
    meta.uid = tick.random_uid("uid", &owner, tick.revision).to_string();
    meta.creation_timestamp = Some(tick.now);
    meta.generation = 1;
}

/// Copies the metadata that a user does not set. With `PutMode::Apply`, labels, annotations,
/// finalizers and owners that the desired metadata leave out stay, too. A changed spec is a new
/// generation.
pub fn inherit_metadata(existing: &Meta, desired: &mut Meta, mode: PutMode, is_spec_changed: bool) {
    desired.id = existing.id;
    desired.uid.clone_from(&existing.uid);
    desired.creation_timestamp = existing.creation_timestamp;
    desired.deletion_timestamp = existing.deletion_timestamp;
    desired.generation = existing.generation + i64::from(is_spec_changed);
    if mode == PutMode::Apply {
        merge_metadata(existing, desired);
    }
}

/// Copies the labels, annotations, finalizers and owners that the desired metadata leave out.
pub fn merge_metadata(existing: &Meta, desired: &mut Meta) {
    desired.labels = merge_maps(&existing.labels, &desired.labels);
    desired.annotations = merge_maps(&existing.annotations, &desired.annotations);
    if desired.finalizers.is_empty() {
        desired.finalizers.clone_from(&existing.finalizers);
    }
    if desired.owner_references.is_empty() {
        desired.owner_references.clone_from(&existing.owner_references);
    }
}

/// All entries of both maps; those of `desired` win.
fn merge_maps(
    existing: &BTreeMap<String, String>,
    desired: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    existing.iter().chain(desired).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Marks an object as to be deleted; a pass removes it.
pub fn mark_for_deletion<T: Tabled + HasMeta>(
    state: &mut State,
    key: &Key,
    now: Time,
) -> DeleteOutcome {
    let table = T::table_mut(state);
    let Some(id) = table.find(key) else { return DeleteOutcome::NotFound };
    DeleteOutcome::of_mark(table.update(id, |row| {
        row.meta_mut().deletion_timestamp.get_or_insert(now);
    }))
}

/// Removes an object, or only marks it as to be deleted if it has finalizers of other programs.
pub fn delete_document<T: Tabled + HasMeta>(
    state: &mut State,
    key: &Key,
    now: Time,
) -> DeleteOutcome {
    let table = T::table_mut(state);
    let Some(id) = table.find(key) else { return DeleteOutcome::NotFound };
    if table.get(id).is_some_and(|row| !row.meta().finalizers.is_empty()) {
        return mark_for_deletion::<T>(state, key, now);
    }
    table.remove(id);
    DeleteOutcome::Requested
}

/// The document of an object without its metadata, to compare what is desired of it.
fn without_metadata<R: Resource>(resource: &R) -> Value {
    let mut document = serde_json::to_value(&*resource.to_document()).unwrap_or_default();
    if let Some(fields) = document.as_object_mut() {
        fields.remove("metadata");
    }
    document
}
