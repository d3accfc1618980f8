//! Templates of install-configs. A template is the value of a Secret under the key
//! `install-config.yaml`. Nothing here parses it.

use rusqlite::Connection;

use crate::model::cluster::Cluster;
use crate::model::documents::StoredValue;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::template::Template;

use super::secrets::{load_secret, select_secret_value};

/// The key of a Secret that has a template.
const TEMPLATE_KEY: &str = "install-config.yaml";

/// Loads the template that a cluster names, as one that was applied by hand does. The cluster is
/// loaded with its document.
pub fn load_template_of_cluster(
    conn: &Connection,
    state: &mut State,
    name: &str,
) -> Result<(), Refusal> {
    let cluster = state.find_cluster(name).and_then(|cluster_id| state.clusters.get(cluster_id));
    let Some(key) = cluster.and_then(Cluster::install_config_secret) else { return Ok(()) };
    load_secret(conn, state, &key)?;
    load_template(conn, state, key)
}

/// Loads the text of a template whose Secret is loaded. If an edit has changed the Secret, the text
/// is that of the edit, else it is read from the state file.
pub fn load_template(conn: &Connection, state: &mut State, key: Key) -> Result<(), Refusal> {
    let secret = state.secrets.by_key(&key);
    match secret.and_then(|secret| secret.values.get(TEMPLATE_KEY)) {
        Some(StoredValue::New(value) | StoredValue::Loaded(value)) => {
            let template = Template::new(value.clone());
            state.templates.insert(key, template);
        }
        Some(StoredValue::Kept) if !state.templates.contains_key(&key) => {
            if let Some(value) = select_secret_value(conn, &key, TEMPLATE_KEY)? {
                state.templates.insert(key, Template::new(value));
            }
        }
        // The value is unchanged, and so is the template that was loaded from it.
        Some(StoredValue::Kept) => {}
        Some(StoredValue::CopyOf(_)) | None => {
            state.templates.remove(&key);
        }
    }
    Ok(())
}
