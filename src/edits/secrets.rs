//! Edits of Secrets: values are decoded, and compared with those that are there.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::model::documents::{Secret, SecretValue, Stored};
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::documents::{EditedDocument, put_and_finish_deletion};
use super::verdict::Verdict;

impl EditedDocument for Secret {
    fn carry_over(old: &Self, new: &mut Self, _: bool, _: &Tick) -> bool {
        (&old.values, &old.kind) != (&new.values, &new.kind)
    }

    fn put(state: &mut State, mut new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        let old = state.secrets.by_key(&new.metadata.key());
        let old_values = old.map(|old| old.values.clone()).unwrap_or_default();
        take_values(&mut new, &old_values, merge)?;
        put_and_finish_deletion(state, new, merge, tick)
    }

    fn prepare_import(&mut self, _: &Tick) -> Result<(), Refusal> {
        take_values(self, &BTreeMap::new(), false)
    }
}

/// Makes what a document brings under `data` and `stringData` the values of the Secret. A document
/// without either leaves the old values. Those of a manifest, which are merged, replace them all;
/// those of a patch are laid over them.
fn take_values(
    secret: &mut Secret,
    old_values: &BTreeMap<String, Stored>,
    merge: bool,
) -> Result<(), Refusal> {
    let are_given = secret.data.is_some() || secret.string_data.is_some();
    let mut values = if are_given && merge { BTreeMap::new() } else { old_values.clone() };
    for (key, value) in decode_values(secret)? {
        let is_same = matches!(old_values.get(&key), Some(Stored::Loaded(old)) if *old == value);
        let stored = if is_same { Stored::Loaded(value) } else { Stored::New(value) };
        values.insert(key, stored);
    }
    secret.values = values;
    secret.data = None;
    secret.string_data = None;
    Ok(())
}

/// The values of `data`, decoded, and those of `stringData`, which win.
fn decode_values(secret: &Secret) -> Result<BTreeMap<String, SecretValue>, Refusal> {
    let mut values = BTreeMap::new();
    for (key, value) in secret.data.iter().flatten() {
        let refuse = |why: String| {
            Refusal::invalid(format!("Secret `{}`: data.{key} is not base64", secret.metadata.name))
                .because(why)
                .advise("put plain text under stringData")
        };
        let compact: String = value.reveal().split_whitespace().collect();
        let bytes = STANDARD.decode(compact).map_err(|error| refuse(error.to_string()))?;
        let text =
            String::from_utf8(bytes).map_err(|_| refuse("it decodes to binary data".into()))?;
        values.insert(key.clone(), SecretValue::new(text));
    }
    for (key, value) in secret.string_data.iter().flatten() {
        values.insert(key.clone(), value.clone());
    }
    Ok(values)
}
