//! Templates of the data of hosts.

use rusqlite::Connection;

use crate::model::data_template::Metal3DataTemplate;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::connection::Store;
use super::documents::{list_documents, load_document};
use super::filter::Filter;
use super::stored::Stored;

impl Stored for Metal3DataTemplate {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_document(conn, &mut state.data_templates, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        list_documents(store.conn(), filter)
    }
}
