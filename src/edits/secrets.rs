//! Edits of Secrets: values are decoded, and compared with those that are there.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::model::documents::{Secret, SecretValue, Stored};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;

use super::documents::{delete_document, finish_deletion, put_document};
use super::edited::Edited;
use super::verdict::Verdict;

impl Edited for Secret {
    fn put(state: &mut State, new: Self, merge: bool, tick: &Tick) -> Result<Verdict, Refusal> {
        let key = new.metadata.key();
        let verdict = put_secret(state, new, merge, tick)?;
        finish_deletion(&mut state.secrets, &key);
        Ok(verdict)
    }

    fn delete(state: &mut State, key: &Key, tick: &Tick) -> Option<bool> {
        delete_document(&mut state.secrets, key, tick.now)
    }

    fn import(state: &mut State, mut new: Self, _: &Tick) -> Result<(), Refusal> {
        take_values(&mut new)?;
        state.secrets.insert(new);
        Ok(())
    }
}

/// A Secret without any values leaves those that are there. Those of a manifest replace them all,
/// those of a patch are laid over them.
fn put_secret(
    state: &mut State,
    mut new: Secret,
    merge: bool,
    tick: &Tick,
) -> Result<Verdict, Refusal> {
    let known = state.secrets.by_key(&new.metadata.key()).map(|old| old.values.clone());
    let known = known.unwrap_or_default();
    let given = new.data.is_some() || new.string_data.is_some();
    let values = values(&new)?;
    let keep = |(key, value): (String, SecretValue)| match known.get(&key) {
        Some(Stored::Loaded(old)) if *old == value => (key, Stored::Loaded(value)),
        _ => (key, Stored::New(value)),
    };
    new.values = if given && merge { BTreeMap::new() } else { known.clone() };
    new.values.extend(values.into_iter().map(keep));
    (new.data, new.string_data) = (None, None);
    put_document(&mut state.secrets, new, merge, tick, |old, new| {
        (&old.values, &old.kind) != (&new.values, &new.kind)
    })
}

/// Makes what a manifest brings the values of the Secret, all of them new.
fn take_values(secret: &mut Secret) -> Result<(), Refusal> {
    let given = values(secret)?;
    secret.values = given.into_iter().map(|(key, value)| (key, Stored::New(value))).collect();
    (secret.data, secret.string_data) = (None, None);
    Ok(())
}

fn values(secret: &Secret) -> Result<BTreeMap<String, SecretValue>, Refusal> {
    let mut all = BTreeMap::new();
    for (key, value) in secret.data.iter().flatten() {
        let wrong = |why: String| {
            Refusal::invalid(format!("Secret `{}`: data.{key} is not base64", secret.metadata.name))
                .because(why)
                .next("put plain text under stringData")
        };
        let compact: String = value.reveal().split_whitespace().collect();
        let bytes = STANDARD.decode(compact).map_err(|error| wrong(error.to_string()))?;
        let text =
            String::from_utf8(bytes).map_err(|_| wrong("it decodes to binary data".into()))?;
        all.insert(key.clone(), SecretValue::new(text));
    }
    for (key, value) in secret.string_data.iter().flatten() {
        all.insert(key.clone(), value.clone());
    }
    Ok(all)
}
