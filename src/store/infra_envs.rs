//! InfraEnvs and the tokens by which their hosts register. An InfraEnv is loaded with the cluster
//! that all its hosts belong to, if it names one. Hashes of tokens are kept, never the tokens
//! themselves.

use rusqlite::{Connection, params};

use crate::model::infra_env::{InfraEnv, Token};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::table::Change;
use crate::model::time::Time;

use super::agents::{load_agents_of_infra_env, load_agents_of_machine, load_cluster_with_agents};
use super::clusters::load_cluster;
use super::connection::Store;
use super::documents::{load_document, select_documents, write_document};
use super::filter::Filter;
use super::stored::StoredDocument;

/// Loads all InfraEnvs. The caller loads all clusters.
pub fn load_all_infra_envs(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    for mut infra_env in select_documents::<InfraEnv>(conn, None)? {
        infra_env.tokens = select_tokens(conn, infra_env.metadata.id)?;
        state.infra_envs.load(infra_env);
    }
    Ok(())
}

/// Loads an InfraEnv and its cluster, without its Agents.
pub fn load_infra_env(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if state.infra_envs.has_or_had(key) {
        return Ok(());
    }
    load_document(conn, &mut state.infra_envs, key)?;
    if let Some(infra_env_id) = state.infra_envs.find(key)
        && let Some(infra_env) = state.infra_envs.get(infra_env_id)
    {
        let tokens = select_tokens(conn, infra_env.metadata.id)?;
        state.infra_envs.fill_part(infra_env_id, |infra_env| infra_env.tokens = tokens);
    }
    load_cluster_of_infra_env(conn, state, key)
}

/// Loads the cluster that all hosts of an InfraEnv belong to, with its Agents.
pub fn load_cluster_of_infra_env(
    conn: &Connection,
    state: &mut State,
    key: &Key,
) -> Result<(), Refusal> {
    if state.is_whole {
        return Ok(());
    }
    let infra_env = state.infra_envs.by_key(key);
    let Some(cluster) = infra_env.and_then(InfraEnv::cluster_key) else { return Ok(()) };
    load_cluster(conn, state, &cluster.name)?;
    if state.find_cluster(&cluster.name).is_some() {
        load_cluster_with_agents(conn, state, &cluster.name)?;
    }
    Ok(())
}

/// The tokens of an InfraEnv, the oldest first.
fn select_tokens(conn: &Connection, infra_env: i64) -> Result<Vec<Token>, Refusal> {
    let sql = "SELECT id, hash, created, expires, revoked FROM infra_env_token \
               WHERE infra_env = ?1 ORDER BY created, id";
    let mut statement = conn.prepare_cached(sql)?;
    let tokens = statement.query_map([infra_env], |row| {
        Ok(Token {
            id: row.get(0)?,
            hash: row.get(1)?,
            created: Time(row.get(2)?),
            expires: row.get(3)?,
            revoked: row.get(4)?,
        })
    })?;
    Ok(tokens.collect::<Result<_, _>>()?)
}

impl StoredDocument for InfraEnv {
    /// Loads an InfraEnv with its Agents, which change with it.
    fn load_for_edit(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_infra_env(conn, state, key)?;
        load_agents_of_infra_env(conn, state, key)
    }

    fn read_beside_document(&mut self, store: &Store, _: &Filter) -> Result<(), Refusal> {
        self.tokens = select_tokens(store.conn(), self.metadata.id)?;
        Ok(())
    }
}

impl Store {
    /// Loads an InfraEnv and the Agent of a machine in it, without its other Agents.
    pub fn load_infra_env_with_machine(
        &self,
        state: &mut State,
        infra_env: &Key,
        machine_id: &str,
    ) -> Result<(), Refusal> {
        load_infra_env(self.conn(), state, infra_env)?;
        // A machine has an Agent in every InfraEnv it was booted from, and another one may be
        // bound.
        load_agents_of_machine(self.conn(), state, machine_id)
    }
}

/// Writes an InfraEnv that was made, changed or deleted, and its tokens if they changed.
pub fn write_infra_env(conn: &Connection, change: &Change<'_, InfraEnv>) -> Result<(), Refusal> {
    let id = write_document(conn, change)?;
    let Some(infra_env) = change.after else { return Ok(()) };
    if change.before.is_some_and(|before| before.tokens == infra_env.tokens) {
        return Ok(());
    }
    conn.prepare_cached("DELETE FROM infra_env_token WHERE infra_env = ?1")?.execute([id])?;
    for token in &infra_env.tokens {
        let sql = "INSERT INTO infra_env_token VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let Token { id: token_id, hash, created, expires, revoked } = token;
        let values = params![id, token_id, hash, created.0, expires, revoked];
        conn.prepare_cached(sql)?.execute(values)?;
    }
    Ok(())
}
