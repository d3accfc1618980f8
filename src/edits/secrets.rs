//! Edits Secrets: decodes their values and compares them with the existing ones, so that only
//! values that differ are written. Never shows a value.

use std::collections::BTreeMap;

use crate::model::documents::{Secret, SecretValue, StoredValue, decode_base64};
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::documents::{EditedDocument, put_and_finish_deletion};
use super::outcome::PutOutcome;
use super::put_mode::PutMode;

impl EditedDocument for Secret {
    fn carry_over(existing: &Self, desired: &mut Self, _: PutMode, _: &Tick) -> bool {
        existing.values != desired.values || existing.kind != desired.kind
    }

    fn put(
        state: &mut State,
        mut secret: Self,
        mode: PutMode,
        tick: &Tick,
    ) -> Result<PutOutcome, Refusal> {
        let existing = state.secrets.by_key(&secret.metadata.key());
        let existing_values = existing.map(|existing| existing.values.clone()).unwrap_or_default();
        take_values(&mut secret, &existing_values, mode)?;
        put_and_finish_deletion(state, secret, mode, tick)
    }

    fn prepare_import(&mut self, _: &Tick) -> Result<(), Refusal> {
        take_values(self, &BTreeMap::new(), PutMode::Apply)
    }
}

/// Moves what a document has under `data` and `stringData` into the values of the Secret. A
/// document without either leaves the existing values. The values of a manifest that is applied are
/// all that the Secret has afterwards. A document that was edited does not show the existing values,
/// so those that it has are laid over them.
fn take_values(
    secret: &mut Secret,
    existing_values: &BTreeMap<String, StoredValue>,
    mode: PutMode,
) -> Result<(), Refusal> {
    let has_values = secret.data.is_some() || secret.string_data.is_some();
    let replaces_all = has_values && mode == PutMode::Apply;
    let mut values = if replaces_all { BTreeMap::new() } else { existing_values.clone() };
    for (key, value) in decode_values(secret)? {
        let is_same = matches!(
            existing_values.get(&key),
            Some(StoredValue::Loaded(existing_value)) if *existing_value == value
        );
        let stored = if is_same { StoredValue::Loaded(value) } else { StoredValue::New(value) };
        values.insert(key, stored);
    }
    secret.values = values;
    secret.data = None;
    secret.string_data = None;
    Ok(())
}

/// The values of `data`, decoded, and those of `stringData`, which win over them.
fn decode_values(secret: &Secret) -> Result<BTreeMap<String, SecretValue>, Refusal> {
    let mut values = BTreeMap::new();
    for (key, value) in secret.data.iter().flatten() {
        let decoded = decode_value(value).map_err(|why| {
            Refusal::invalid(format!("Secret `{}`: data.{key} is not base64", secret.metadata.name))
                .because(why)
                .advise("put plain text under stringData")
        })?;
        values.insert(key.clone(), decoded);
    }
    for (key, value) in secret.string_data.iter().flatten() {
        values.insert(key.clone(), value.clone());
    }
    Ok(values)
}

/// Decodes a value. The error is the reason as text.
fn decode_value(value: &SecretValue) -> Result<SecretValue, String> {
    let bytes = decode_base64(value.reveal())?;
    let plain = String::from_utf8(bytes).map_err(|_| "it decodes to binary data".to_owned())?;
    Ok(SecretValue::new(plain))
}
