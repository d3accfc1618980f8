//! NMStateConfigs, which say how the networks of hosts are to be. Those of a namespace are loaded
//! together, never one alone.

use rusqlite::Connection;

use crate::model::meta::Key;
use crate::model::nmstate_config::NMStateConfig;
use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::documents::select_documents;
use super::stored::StoredDocument;

impl StoredDocument for NMStateConfig {
    /// Loads all NMStateConfigs of the namespace: no two of them may be for one interface, which
    /// the rules can only tell if they see all.
    fn load_for_edit(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        let namespace = key.namespace.as_str();
        if state.nmstate_configs.rows().any(|config| config.metadata.namespace == namespace) {
            return Ok(());
        }
        for config in select_documents::<Self>(conn, Some(namespace))? {
            if !state.nmstate_configs.has_or_had(&config.metadata.key()) {
                state.nmstate_configs.load(config);
            }
        }
        Ok(())
    }
}
