//! Templates of install-configs: the text of a key of a Secret.

use rusqlite::Connection;

use crate::model::cluster::Cluster;
use crate::model::documents::Stored as StoredValue;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::{State, Template};

use super::secrets::{load_secret, select_secret_value};

const TEMPLATE: &str = "install-config.yaml";

/// What a cluster that was applied by hand is installed from.
pub fn load_template_of_cluster(
    conn: &Connection,
    state: &mut State,
    name: &str,
) -> Result<(), Refusal> {
    let cluster = state.cluster(name).and_then(|place| state.clusters.get(place));
    let Some(key) = cluster.and_then(Cluster::install_config) else { return Ok(()) };
    load_secret(conn, state, &key)?;
    load_template(conn, state, key)
}

/// The text of a template whose Secret is loaded: as an edit has it, else as the state has it.
pub fn load_template(conn: &Connection, state: &mut State, key: Key) -> Result<(), Refusal> {
    let secret = state.secrets.by_key(&key);
    match secret.and_then(|secret| secret.values.get(TEMPLATE)) {
        Some(StoredValue::New(text) | StoredValue::Loaded(text)) => {
            let template = Template::new(text.clone());
            state.templates.insert(key, template);
        }
        Some(StoredValue::Kept) if !state.templates.contains_key(&key) => {
            if let Some(text) = select_secret_value(conn, &key, TEMPLATE)? {
                state.templates.insert(key, Template::new(text));
            }
        }
        Some(StoredValue::Kept) => {}
        Some(StoredValue::CopyOf(_)) | None => {
            state.templates.remove(&key);
        }
    }
    Ok(())
}
