//! Networks of hosts: all of a namespace are loaded together.

use rusqlite::Connection;

use crate::model::meta::Key;
use crate::model::nmstate_config::NMStateConfig;
use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::connection::Store;
use super::documents::{list_documents, select_documents};
use super::filter::Filter;
use super::stored::Stored;

impl Stored for NMStateConfig {
    /// All of its namespace: no two of them may be for one interface.
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        let namespace = key.namespace.as_str();
        if state.nmstate_configs.rows().any(|config| config.metadata.namespace == namespace) {
            return Ok(());
        }
        for config in select_documents::<Self>(conn, Some(namespace))? {
            if !state.nmstate_configs.knows(&config.metadata.key()) {
                state.nmstate_configs.load(config);
            }
        }
        Ok(())
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        list_documents(store.conn(), filter)
    }
}
