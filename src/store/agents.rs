//! Agents with what they belong to: their InfraEnv, their clusters and the other hosts of those,
//! and whoever else says that it is the same machine.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params, params_from_iter};

use crate::model::agent::Agent;
use crate::model::infra_env::{InfraEnv, Token};
use crate::model::job::Verb;
use crate::model::meta::Key;
use crate::model::nmstate_config::NMStateConfig;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::table::{Change, Owner};
use crate::model::time::Time;

use super::documents::{self, decode, need};
use super::hosts;
use super::load::{cluster_body, cluster_facts};
use super::open::Store;
use super::read::Filter;
use super::references::cluster_template;
use super::stored::Stored;

const AGENT: &str = "id, body, secret, seen FROM agent";

fn agent(row: &SqlRow<'_>) -> Result<Agent, Refusal> {
    let mut one: Agent = decode(row)?;
    one.secret = row.get(2)?;
    one.status.last_contact_time = row.get::<_, Option<i64>>(3)?.map(Time);
    Ok(one)
}

fn some(conn: &Connection, which: &str, who: impl rusqlite::Params) -> Result<Vec<Agent>, Refusal> {
    let mut statement = conn.prepare_cached(&format!("SELECT {AGENT} {which} ORDER BY id"))?;
    let (mut rows, mut found) = (statement.query(who)?, Vec::new());
    while let Some(row) = rows.next()? {
        found.push(agent(row)?);
    }
    Ok(found)
}

fn put(state: &mut State, all: Vec<Agent>) {
    for one in all {
        if !state.agents.knows(&one.key()) {
            state.agents.load(one);
        }
    }
}

pub fn whole(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    for mut one in documents::all::<InfraEnv>(conn, None)? {
        one.tokens = tokens(conn, one.metadata.id)?;
        state.infra_envs.load(one);
    }
    put(state, some(conn, "", [])?);
    Ok(())
}

/// All Agents that a pool may pick.
pub fn of_namespace(conn: &Connection, state: &mut State, namespace: &str) -> Result<(), Refusal> {
    put(state, some(conn, "WHERE namespace = ?1", [namespace])?);
    Ok(())
}

pub fn one(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if !state.agents.knows(key) {
        let which = "WHERE namespace = ?1 AND name = ?2";
        put(state, some(conn, which, params![key.namespace, key.name])?);
    }
    Ok(())
}

/// All NMStateConfigs of a namespace: no two of them may be for one interface.
pub fn networks(conn: &Connection, state: &mut State, namespace: &str) -> Result<(), Refusal> {
    if state.nmstate_configs.rows().any(|one| one.metadata.namespace == namespace) {
        return Ok(());
    }
    for one in documents::all::<NMStateConfig>(conn, Some(namespace))? {
        if !state.nmstate_configs.knows(&one.metadata.key()) {
            state.nmstate_configs.load(one);
        }
    }
    Ok(())
}

/// An InfraEnv with its tokens, and with its Agents: whoever changes it changes them.
pub fn infra_env(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    with_tokens(conn, state, key)?;
    let which = "WHERE namespace = ?1 AND infra_env = ?2";
    put(state, some(conn, which, params![key.namespace, key.name])?);
    Ok(())
}

fn with_tokens(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if state.infra_envs.knows(key) {
        return Ok(());
    }
    need(conn, &mut state.infra_envs, key)?;
    if let Some(at) = state.infra_envs.find(key) {
        let id = state.infra_envs.get(at).map_or(0, |one| one.metadata.id);
        let tokens = tokens(conn, id)?;
        state.infra_envs.fill(at, |one| one.tokens = tokens);
    }
    of_infra_env(conn, state, key)
}

/// The cluster that all hosts of an InfraEnv belong to.
fn of_infra_env(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    let cluster = state.infra_envs.by_key(key).and_then(InfraEnv::cluster);
    let Some(cluster) = cluster.filter(|_| !state.whole) else { return Ok(()) };
    cluster_facts(conn, state, &cluster.name)?;
    if state.cluster(&cluster.name).is_some() {
        of_cluster(conn, state, &cluster.name)?;
    }
    Ok(())
}

fn tokens(conn: &Connection, infra_env: i64) -> Result<Vec<Token>, Refusal> {
    let sql = "SELECT id, hash, created, expires, revoked FROM infra_env_token \
               WHERE infra_env = ?1 ORDER BY created, id";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([infra_env], |row| {
        let time = |at: usize| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(Time));
        Ok(Token {
            id: row.get(0)?,
            hash: row.get(1)?,
            created: Time(row.get(2)?),
            expires: time(3)?,
            revoked: time(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What Agents that are here belong to, and what belongs to clusters of hosts: until nothing is
/// added.
pub fn beside(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let keys: Vec<Key> = state.infra_envs.rows().map(InfraEnv::key).collect();
    for key in keys {
        of_infra_env(conn, state, &key)?;
    }
    let mut looked_at = 0;
    loop {
        let known = (state.agents.places(), state.clusters.places());
        let agents: Vec<Agent> =
            state.agents.iter_from(looked_at).map(|(_, agent)| agent.clone()).collect();
        looked_at = known.0;
        if !state.whole {
            for one in &agents {
                around(conn, state, one)?;
            }
        }
        let clusters: Vec<String> = state
            .clusters
            .rows()
            .filter(|one| one.takes_hosts() || is_joined(state, &one.name))
            .map(|one| one.name.clone())
            .collect();
        for name in clusters {
            of_cluster(conn, state, &name)?;
        }
        if known == (state.agents.places(), state.clusters.places()) {
            return Ok(());
        }
    }
}

/// Whether hosts join a cluster just now: what becomes of that becomes of them.
fn is_joined(state: &State, cluster: &str) -> bool {
    state.live_job(cluster).is_some_and(|(_, job)| job.verb == Verb::AddNodes)
}

fn around(conn: &Connection, state: &mut State, one: &Agent) -> Result<(), Refusal> {
    if let Some(key) = one.infra_env() {
        with_tokens(conn, state, &key)?;
    }
    let left = one.status.deprovision_info.as_ref().map(|info| info.cluster_name.clone());
    let clusters = [one.wanted(), one.bound_to()].into_iter().flatten().map(|key| key.name);
    for name in clusters.chain(left) {
        cluster_facts(conn, state, &name)?;
        if state.cluster(&name).is_some() {
            of_cluster(conn, state, &name)?;
        }
    }
    if let Some(key) = one.bmh() {
        hosts::one(conn, state, &key)?;
    }
    put(state, some(conn, "WHERE host = lower(?1)", [&one.status.host_id])?);
    for mac in one.identities() {
        let which = "WHERE id IN (SELECT agent FROM agent_mac WHERE mac = ?1)";
        put(state, some(conn, which, [&mac])?);
        hosts::by_mac(conn, state, &mac)?;
    }
    Ok(())
}

/// Its hosts, its document and what that says of its installation.
fn of_cluster(conn: &Connection, state: &mut State, name: &str) -> Result<(), Refusal> {
    if !state.whole {
        put(state, some(conn, "WHERE bound = ?1 OR wanted = ?1", [name])?);
    }
    cluster_body(conn, state, name)?;
    cluster_template(conn, state, name)
}

pub fn write(conn: &Connection, state: &State, owner: Option<&Owner>) -> Result<(), Refusal> {
    for change in state.infra_envs.difference().filter(|change| change.is_of(owner)) {
        infra_env_row(conn, &change)?;
    }
    documents::write_changes(conn, &state.nmstate_configs, owner)?;
    let all: Vec<_> = state.agents.difference().filter(|change| change.is_of(owner)).collect();
    // Those that let go of a machine first: another may have it.
    let lets_go = |one: &&Change<'_, Agent>| {
        one.before.is_some() && one.after.is_none_or(|one| one.status.bound_to.is_none())
    };
    for change in all.iter().filter(lets_go).chain(all.iter().filter(|one| !lets_go(one))) {
        agent_row(conn, change)?;
    }
    Ok(())
}

fn infra_env_row(conn: &Connection, change: &Change<'_, InfraEnv>) -> Result<(), Refusal> {
    let id = documents::write(conn, change)?;
    let (Some(after), before) = (change.after, change.before) else { return Ok(()) };
    if before.is_some_and(|before| before.tokens == after.tokens) {
        return Ok(());
    }
    conn.prepare_cached("DELETE FROM infra_env_token WHERE infra_env = ?1")?.execute([id])?;
    for one in &after.tokens {
        let sql = "INSERT INTO infra_env_token VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let micros = |time: Option<Time>| time.map(|time| time.0);
        let (expires, revoked) = (micros(one.expires), micros(one.revoked));
        let values = params![id, one.id, one.hash, one.created.0, expires, revoked];
        conn.prepare_cached(sql)?.execute(values)?;
    }
    Ok(())
}

/// When it was heard of is a column: saying that it is there rewrites nothing else.
fn agent_row(conn: &Connection, change: &Change<'_, Agent>) -> Result<(), Refusal> {
    let bare = |one: &Agent| {
        let mut one = one.clone();
        one.status.last_contact_time = None;
        one
    };
    let (before, after) = (change.before.map(bare), change.after.map(bare));
    let Some(new) = change.after else {
        let owner = change.owner;
        documents::write(conn, &Change { owner, before: before.as_ref(), after: None })?;
        return Ok(());
    };
    let mut id = new.metadata.id;
    if before != after {
        let owner = change.owner;
        id = documents::write(
            conn,
            &Change { owner, before: before.as_ref(), after: after.as_ref() },
        )?;
    }
    let seen = new.status.last_contact_time.map(|time| time.0);
    let sql = "UPDATE agent SET secret = ?2, seen = ?3 WHERE id = ?1";
    conn.prepare_cached(sql)?.execute(params![id, new.secret, seen])?;
    let has = |one: &Agent| (one.identities().collect::<Vec<_>>(), one.status.bound_to.is_some());
    let (macs, bound) = has(new);
    if change.before.is_none_or(|before| has(before) != (macs.clone(), bound)) {
        conn.prepare_cached("DELETE FROM agent_mac WHERE agent = ?1")?.execute([id])?;
        for mac in macs {
            let sql = "INSERT OR IGNORE INTO agent_mac VALUES (?1, ?2, ?3)";
            conn.prepare_cached(sql)?.execute(params![id, mac, bound.then_some(1)])?;
        }
    }
    Ok(())
}

impl Stored for InfraEnv {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        infra_env(conn, state, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let mut infra_envs: Vec<Self> = documents::list(store.conn(), filter)?;
        for infra_env in &mut infra_envs {
            infra_env.tokens = tokens(store.conn(), infra_env.metadata.id)?;
        }
        Ok(infra_envs)
    }
}

impl Stored for Agent {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        one(conn, state, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let (which, values) = filter.conditions("namespace = #", Some("name = #"));
        some(store.conn(), &which, params_from_iter(values))
    }
}

impl Stored for NMStateConfig {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        networks(conn, state, &key.namespace)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        documents::list(store.conn(), filter)
    }
}

impl Store {
    /// Loads an InfraEnv and the Agent that a host is in it, without its other Agents.
    pub fn load_host(&self, state: &mut State, infra_env: &Key, id: &str) -> Result<(), Refusal> {
        with_tokens(self.conn(), state, infra_env)?;
        // In every InfraEnv: one of them may be bound.
        put(state, some(self.conn(), "WHERE host = lower(?1)", [id])?);
        Ok(())
    }

    /// Loads Agents whose machines have one of these addresses.
    pub fn load_machines(&self, state: &mut State, macs: &[String]) -> Result<(), Refusal> {
        for mac in macs {
            let which = "WHERE id IN (SELECT agent FROM agent_mac WHERE mac = ?1)";
            put(state, some(self.conn(), which, [mac])?);
        }
        Ok(())
    }

    /// How many Agents of an InfraEnv nobody has approved.
    pub fn unapproved(&self, infra_env: &Key) -> Result<usize, Refusal> {
        let sql = "SELECT count(*) FROM agent WHERE namespace = ?1 AND infra_env = ?2 \
                   AND NOT (body ->> '$.spec.approved')";
        let who = params![infra_env.namespace, infra_env.name];
        let many: i64 = self.conn().prepare_cached(sql)?.query_row(who, |row| row.get(0))?;
        Ok(usize::try_from(many).unwrap_or_default())
    }

    /// The Agent that a host is in an InfraEnv.
    pub fn agent_of(&self, infra_env: &Key, host_id: &str) -> Result<Option<Key>, Refusal> {
        let sql = "SELECT name FROM agent \
                   WHERE namespace = ?1 AND infra_env = ?2 AND host = lower(?3)";
        let who = params![infra_env.namespace, infra_env.name, host_id];
        let name: Option<String> =
            self.conn().prepare_cached(sql)?.query_row(who, |row| row.get(0)).optional()?;
        Ok(name.map(|name| Key::new(&*infra_env.namespace, name)))
    }
}
