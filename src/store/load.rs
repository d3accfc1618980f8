//! Loads what a scope needs, and no more.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use crate::model::claim::Claim;
use crate::model::cluster::Cluster;
use crate::model::customization::{Customization, Holder};
use crate::model::data_template::Metal3DataTemplate;
use crate::model::documents::{self as secrets, Secret, SecretValue};
use crate::model::facts::SharedTexts;
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};

use super::addresses;
use super::agents;
use super::documents::{self, need, one};
use super::facts;
use super::hosts;
use super::open::Store;
use super::read::Filter;
use super::references::references;
use super::stored::{Stored, fetch};

/// An object that a command edits or looks at whole, beyond what the scope loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub kind: Kind,
    pub key: Key,
}

pub fn load(conn: &Connection, scope: &Scope, needs: &[Need]) -> Result<State, Refusal> {
    let mut state = State::default();
    match scope {
        Scope::Whole => whole(conn, &mut state)?,
        Scope::Pools(keys) => {
            for key in keys {
                pool(conn, &mut state, key)?;
            }
        }
    }
    references(conn, scope, &mut state)?;
    for one in needs {
        fetch(conn, &mut state, one.kind, &one.key)?;
    }
    Ok(state)
}

fn whole(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    state.whole = true;
    for pool in documents::all(conn, None)? {
        state.pools.load(pool);
    }
    clusters(conn, "ORDER BY id", [], state)?;
    claims(conn, "ORDER BY id", [], state)?;
    customizations(conn, None, state)?;
    hosts::all(conn, state)?;
    agents::whole(conn, state)?;
    addresses::whole(conn, state)?;
    jobs(conn, "ended IS NULL", [], state)
}

fn pool(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    need(conn, &mut state.pools, key)?;
    if state.pools.by_key(key).is_some_and(ClusterPool::picks_hosts) {
        agents::of_namespace(conn, state, &key.namespace)?;
    }
    let who = params![key.namespace, key.name];
    clusters(conn, "WHERE pool_namespace = ?1 AND pool = ?2 ORDER BY id", who, state)?;
    claims(conn, "WHERE namespace = ?1 AND pool = ?2 ORDER BY id", who, state)?;
    let members = state.members(key).clusters;
    let held = members.iter().filter_map(|at| state.clusters.get(*at)?.customization.clone());
    let names: HashSet<String> = held.collect();
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort_unstable();
    for name in names {
        customization(conn, state, &Key::new(&*key.namespace, name))?;
    }
    jobs(conn, "ended IS NULL AND pool_namespace = ?1 AND pool = ?2", who, state)?;
    hosts::of_pool(conn, state, key)
}

/// Pools that an edit sent a claim or a cluster to: without them it would look as if there were
/// none.
pub fn newly_named_pools(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let claims = state.claims.rows().map(Claim::pool_key);
    let clusters =
        state.clusters.difference().filter_map(|one| one.after?.pool.as_deref().cloned());
    let named: Vec<Key> = claims.chain(clusters).collect();
    pools(conn, state, named)
}

/// Pools of all that is here: nothing is decided for a cluster without its pool.
pub fn pools_of_members(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let named = state.pools_with_members().cloned().collect();
    pools(conn, state, named)
}

fn pools(conn: &Connection, state: &mut State, named: Vec<Key>) -> Result<(), Refusal> {
    for key in named {
        if !state.pools.knows(&key) && one::<ClusterPool>(conn, &key)?.is_some() {
            pool(conn, state, &key)?;
        }
    }
    Ok(())
}

pub fn jobs(
    conn: &Connection,
    which: &str,
    who: impl rusqlite::Params,
    state: &mut State,
) -> Result<(), Refusal> {
    let columns = facts::columns::<Job>();
    let sql = format!("SELECT {columns} FROM job WHERE {which} ORDER BY started, id");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(who)?;
    let mut shared = SharedTexts::default();
    while let Some(row) = rows.next()? {
        let job: Job = facts::read(row, &mut shared)?;
        if state.live_job(&job.object).is_none() {
            state.jobs.load(job);
        }
    }
    Ok(())
}

fn clusters(
    conn: &Connection,
    which: &str,
    who: impl rusqlite::Params,
    state: &mut State,
) -> Result<(), Refusal> {
    let sql = format!("SELECT {} FROM cluster {which}", facts::columns::<Cluster>());
    let mut statement = conn.prepare_cached(&sql)?;
    let (mut rows, mut shared) = (statement.query(who)?, SharedTexts::default());
    while let Some(row) = rows.next()? {
        let cluster: Cluster = facts::read(row, &mut shared)?;
        if state.cluster(&cluster.name).is_none() {
            state.load_cluster(cluster);
        }
    }
    Ok(())
}

fn claims(
    conn: &Connection,
    which: &str,
    who: impl rusqlite::Params,
    state: &mut State,
) -> Result<(), Refusal> {
    let sql = format!("SELECT {} FROM claim {which}", facts::columns::<Claim>());
    let mut statement = conn.prepare_cached(&sql)?;
    let (mut rows, mut shared) = (statement.query(who)?, SharedTexts::default());
    while let Some(row) = rows.next()? {
        let claim: Claim = facts::read(row, &mut shared)?;
        if state.claims.find(&claim.key()).is_none() {
            state.load_claim(claim);
        }
    }
    Ok(())
}

/// All customizations, of a namespace if one is given, and who holds them.
pub fn customizations(
    conn: &Connection,
    namespace: Option<&str>,
    state: &mut State,
) -> Result<(), Refusal> {
    let mut loaded = HashSet::new();
    for customization in documents::all::<Customization>(conn, namespace)? {
        if !state.customizations.knows(&customization.key()) {
            loaded.insert(state.customizations.load(customization));
        }
    }
    let filter = Filter { namespace: namespace.map(str::to_owned), ..Filter::default() };
    let (which, who) = filter.conditions("u.namespace = #", None);
    let sql = format!(
        "SELECT l.holder, l.pool_namespace, l.pool, l.cluster, u.namespace, u.name \
         FROM lease l JOIN customization u ON u.id = l.customization {which}"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(who))?;
    while let Some(row) = rows.next()? {
        let key = Key::new(row.get::<_, String>(4)?, row.get::<_, String>(5)?);
        let holder = read_holder(row)?;
        // A holder that an edit has changed stays as the edit has it: it is loaded already.
        if let Some(id) = state.customizations.find(&key).filter(|id| loaded.contains(id)) {
            state.customizations.fill(id, |customization| customization.holder = Some(holder));
        }
    }
    Ok(())
}

/// A customization and who holds it.
pub fn customization(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if state.customizations.knows(key) {
        return Ok(());
    }
    let Some(mut found) = one::<Customization>(conn, key)? else {
        return Ok(());
    };
    found.holder = holder(conn, found.metadata.id)?;
    state.customizations.load(found);
    Ok(())
}

/// Who holds a customization.
pub fn holder(conn: &Connection, customization: i64) -> Result<Option<Holder>, Refusal> {
    let sql = "SELECT holder, pool_namespace, pool, cluster FROM lease WHERE customization = ?1";
    let found = conn.prepare_cached(sql)?.query_row([customization], read_holder);
    Ok(found.optional()?)
}

fn read_holder(row: &rusqlite::Row<'_>) -> rusqlite::Result<Holder> {
    let pool = row.get::<_, Option<String>>(1)?.zip(row.get::<_, Option<String>>(2)?);
    let pool = pool.map(|(namespace, name)| Key::new(namespace, name));
    let preserved = row.get::<_, Option<i64>>(3)?.is_none();
    Ok(Holder { cluster: row.get(0)?, pool, preserved })
}

pub fn secret(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if state.secrets.knows(key) {
        return Ok(());
    }
    let Some(mut found) = one::<Secret>(conn, key)? else {
        return Ok(());
    };
    found.values = secret_keys(conn, found.metadata.id)?;
    state.secrets.load(found);
    Ok(())
}

/// For a Secret that is edited: what is new shows only beside what was.
fn secret_values(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    secret(conn, state, key)?;
    let Some(at) = state.secrets.find(key) else {
        return Ok(());
    };
    let keys: Vec<String> =
        state.secrets.get(at).map(|one| one.values.keys().cloned().collect()).unwrap_or_default();
    for name in keys {
        if let Some(value) = secret_value(conn, key, &name)? {
            state.secrets.fill(at, |one| {
                one.values.insert(name, secrets::Stored::Loaded(value));
            });
        }
    }
    Ok(())
}

pub fn secret_keys(
    conn: &Connection,
    id: i64,
) -> Result<std::collections::BTreeMap<String, secrets::Stored>, Refusal> {
    let mut statement = conn.prepare_cached("SELECT key FROM secret WHERE object = ?1")?;
    let keys = statement.query_map([id], |row| Ok((row.get(0)?, secrets::Stored::Kept)))?;
    Ok(keys.collect::<Result<_, _>>()?)
}

/// The value of a key of a Secret.
pub fn secret_value(
    conn: &Connection,
    key: &Key,
    name: &str,
) -> Result<Option<SecretValue>, Refusal> {
    let sql = "SELECT v.value FROM secret v JOIN secret_object o ON o.id = v.object \
               WHERE o.namespace = ?1 AND o.name = ?2 AND v.key = ?3";
    let mut statement = conn.prepare_cached(sql)?;
    let found: Option<Vec<u8>> =
        statement.query_row(params![key.namespace, key.name, name], |row| row.get(0)).optional()?;
    Ok(found.map(|bytes| SecretValue::new(String::from_utf8_lossy(&bytes))))
}

impl Stored for ClusterPool {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        need(conn, &mut state.pools, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        documents::list(store.conn(), filter)
    }
}

impl Stored for Metal3DataTemplate {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        need(conn, &mut state.data_templates, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        documents::list(store.conn(), filter)
    }
}

impl Stored for Customization {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        customization(conn, state, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let mut customizations: Vec<Self> = documents::list(store.conn(), filter)?;
        for customization in &mut customizations {
            customization.holder = holder(store.conn(), customization.metadata.id)?;
        }
        Ok(customizations)
    }
}

impl Stored for Secret {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        secret_values(conn, state, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let mut secrets: Vec<Self> = documents::list(store.conn(), filter)?;
        for secret in &mut secrets {
            secret.values = secret_keys(store.conn(), secret.metadata.id)?;
        }
        Ok(secrets)
    }
}

impl Stored for Claim {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        claim_body(conn, state, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let (which, values) = filter.conditions("namespace = #", Some("name = #"));
        let columns = facts::columns::<Self>();
        let sql = format!("SELECT {columns} FROM claim {which} ORDER BY id");
        let mut statement = store.conn().prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        let mut claims = Vec::new();
        while let Some(row) = rows.next()? {
            let mut claim: Self = facts::read(row, &mut SharedTexts::default())?;
            if filter.whole {
                claim.body = body(store.conn(), "claim_body", claim.id)?;
            }
            claims.push(claim);
        }
        Ok(claims)
    }
}

impl Stored for Cluster {
    fn fetch(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        cluster_body(conn, state, &key.name)
    }

    /// A cluster is found by its own namespace and by that of its pool.
    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let (which, values) =
            filter.conditions("(namespace = # OR pool_namespace = #)", Some("name = #"));
        let columns = facts::columns::<Self>();
        let sql = format!("SELECT {columns} FROM cluster {which} ORDER BY id");
        let mut statement = store.conn().prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        let (mut clusters, mut shared) = (Vec::new(), SharedTexts::default());
        while let Some(row) = rows.next()? {
            let mut cluster: Self = facts::read(row, &mut shared)?;
            if filter.whole {
                cluster.body = body(store.conn(), "cluster_body", cluster.id)?;
            }
            clusters.push(cluster);
        }
        Ok(clusters)
    }
}

fn claim_body(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    let who = params![key.namespace, key.name];
    if state.claims.find(key).is_none() {
        claims(conn, "WHERE namespace = ?1 AND name = ?2", who, state)?;
    }
    if state.claims.find(key).is_none() {
        // A claim that is gone may have left a cluster, of any pool.
        clusters(conn, "WHERE pool_namespace = ?1 AND claim = ?2", who, state)?;
    }
    let Some(at) = state.claims.find(key) else {
        return Ok(());
    };
    let id = state.claims.get(at).map_or(0, |claim| claim.id);
    if state.claims.get(at).is_some_and(|claim| claim.body.is_none()) {
        let body = body(conn, "claim_body", id)?;
        state.claims.fill(at, |claim| claim.body = body);
    }
    Ok(())
}

/// A cluster beyond the scope, without its document.
pub fn cluster_facts(conn: &Connection, state: &mut State, name: &str) -> Result<(), Refusal> {
    if state.cluster(name).is_none() {
        clusters(conn, "WHERE name = ?1", [name], state)?;
        jobs(conn, "ended IS NULL AND object = ?1", [name], state)?;
    }
    Ok(())
}

pub fn cluster_body(conn: &Connection, state: &mut State, name: &str) -> Result<(), Refusal> {
    cluster_facts(conn, state, name)?;
    let Some(at) = state.cluster(name) else {
        return Ok(());
    };
    let id = state.clusters.get(at).map_or(0, |cluster| cluster.id);
    // A body that is there may have been edited.
    if state.clusters.get(at).is_some_and(|cluster| cluster.body.is_none()) {
        let body = body(conn, "cluster_body", id)?;
        state.clusters.fill(at, |cluster| cluster.body = body);
    }
    Ok(())
}

/// The document beside a row's facts.
pub fn body<T: serde::de::DeserializeOwned>(
    conn: &Connection,
    table: &str,
    id: i64,
) -> Result<Option<Box<T>>, Refusal> {
    let mut statement = conn.prepare_cached(&format!("SELECT body FROM {table} WHERE id = ?1"))?;
    let text: Option<String> = statement.query_row([id], |row| row.get(0)).optional()?;
    text.map(|text| serde_json::from_str(&text).map(Box::new)).transpose().map_err(|error| {
        Refusal::new(crate::model::refusal::Exit::State, format!("a row of {table} cannot be read"))
            .because(error.to_string())
    })
}
