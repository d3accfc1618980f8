//! Agents, and clusters with the Agents that are their hosts. A row of `agent` is short: the facts, the
//! secret, the time of the last contact, which a host that reports rewrites, and the program whose plan
//! has left the Agent as it is. The document is in `agent_body`.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Params, Row, params, params_from_iter};

use crate::model::agent::Agent;
use crate::model::agent::facts::AgentFacts;
use crate::model::cluster::Cluster;
use crate::model::deferred::DecodeError;
use crate::model::meta::Key;
use crate::model::nmstate_config::NMStateConfig;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::table::{Change, Owner};

use super::agent_parts::{decode_parts, read_parts, refuse_unreadable_parts, write_document};
use super::clusters::load_whole_cluster;
use super::connection::Store;
use super::documents::{load_document, read_document};
use super::facts::{overwrite_facts, select_facts, write_facts};
use super::filter::Filter;
use super::hosts::load_host;
use super::schema::{AGENT_BODIES, COLUMNS_OF_AGENT_BODIES, SOURCES_DIGEST};
use super::stored::{Stored, Visitor, select_ids, select_names};
use super::templates::load_template_of_cluster;

/// What is selected of Agents, up to the clauses. `read_agent` reads a row of it.
const AGENT: &str = "id, body, secret, seen, conditions, inventory, validations, settled_by \
                     FROM agent CROSS JOIN agent_body USING (id)";

/// The Agents of a host, by the namespace and the name of the host.
const OF_HOST: &str = "WHERE namespace = ?1 AND bare_metal_host = ?2";

/// The Agents of hosts that have left a cluster.
const THAT_LEFT: &str = "WHERE left_cluster = ?1";

/// Reads an Agent. Its longest parts are decoded only when somebody reads them.
fn read_agent(row: &Row<'_>, decode_error: &DecodeError) -> Result<Agent, Refusal> {
    let mut agent: Agent = read_document(row)?;
    agent.secret = row.get("secret")?;
    agent.status.last_contact_time = row.get("seen")?;
    read_parts(row, &mut agent, decode_error)?;
    Ok(agent)
}

/// Reads an Agent with all of its parts.
fn read_whole_agent(row: &Row<'_>) -> Result<Agent, Refusal> {
    let decode_error = DecodeError::default();
    let agent = read_agent(row, &decode_error)?;
    decode_parts(&agent);
    refuse_unreadable_parts(&decode_error)?;
    Ok(agent)
}

/// Visits the rows of the Agents that a WHERE clause names, in the order of insertion.
fn visit_rows(
    conn: &Connection,
    condition: &str,
    values: impl Params,
    mut visit: impl FnMut(&Row<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut statement = conn.prepare_cached(&format!("SELECT {AGENT} {condition} ORDER BY id"))?;
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        visit(row)?;
    }
    Ok(())
}

/// Reads the Agents that a WHERE clause names, in the order of insertion.
fn select_agents(
    conn: &Connection,
    condition: &str,
    values: impl Params,
) -> Result<Vec<Agent>, Refusal> {
    let mut agents = Vec::new();
    visit_rows(conn, condition, values, |row| {
        agents.push(read_whole_agent(row)?);
        Ok(())
    })?;
    Ok(agents)
}

/// Loads the Agents that a WHERE clause names, except those that are loaded or were removed. Many
/// ways lead to an Agent: by its cluster, its machine and each of its addresses. Its long columns are
/// read once.
fn load_agents(
    conn: &Connection,
    state: &mut State,
    condition: &str,
    values: impl Params,
) -> Result<(), Refusal> {
    let sql = format!("SELECT id FROM agent {condition} ORDER BY id");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut ids = statement.query(values)?;
    while let Some(row) = ids.next()? {
        let id: i64 = row.get(0)?;
        if !state.agents.has_or_had_stored(id) {
            visit_rows(conn, "WHERE id = ?1", [id], |row| load_row(state, row))?;
        }
    }
    Ok(())
}

/// Loads an Agent from a row, unless another one of its name was loaded or removed.
fn load_row(state: &mut State, row: &Row<'_>) -> Result<(), Refusal> {
    let agent = read_agent(row, &state.decode_error)?;
    if state.agents.has_or_had(&agent.key()) {
        return Ok(());
    }
    let settled_by: Option<String> = row.get("settled_by")?;
    if settled_by.as_deref() == Some(SOURCES_DIGEST) {
        state.agents.load_settled(agent);
    } else {
        state.agents.load(agent);
    }
    Ok(())
}

/// Adds all agents to the state. Fails if a row cannot be read.
pub fn load_all_agents(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    visit_rows(conn, "", [], |row| {
        if state.agents.has_or_had_stored(row.get(0)?) { Ok(()) } else { load_row(state, row) }
    })
}

/// Loads the Agents that a pool of a namespace may pick: those that have no cluster and ask for none.
pub fn load_free_agents_of_namespace(
    conn: &Connection,
    state: &mut State,
    namespace: &str,
) -> Result<(), Refusal> {
    let condition = "WHERE namespace = ?1 AND bound IS NULL AND wanted IS NULL";
    load_agents(conn, state, condition, [namespace])
}

/// Loads all Agents of a namespace.
pub fn load_agents_of_namespace(
    conn: &Connection,
    state: &mut State,
    namespace: &str,
) -> Result<(), Refusal> {
    load_agents(conn, state, "WHERE namespace = ?1", [namespace])
}

/// Loads all Agents of an InfraEnv, bound or free.
pub fn load_agents_of_infra_env(
    conn: &Connection,
    state: &mut State,
    infra_env: &Key,
) -> Result<(), Refusal> {
    let values = params![infra_env.namespace, infra_env.name];
    load_agents(conn, state, "WHERE namespace = ?1 AND infra_env = ?2", values)
}

/// Loads the Agents of a machine. It has one in each InfraEnv that it was booted from.
pub fn load_agents_of_machine(
    conn: &Connection,
    state: &mut State,
    machine_id: &str,
) -> Result<(), Refusal> {
    load_agents(conn, state, "WHERE machine = lower(?1)", [machine_id])
}

/// Loads the Agents of machines that have a MAC address, or another identity that Agents are known
/// by.
pub fn load_agents_with_mac(
    conn: &Connection,
    state: &mut State,
    mac: &str,
) -> Result<(), Refusal> {
    let condition = "WHERE id IN (SELECT agent FROM agent_mac WHERE mac = ?1)";
    load_agents(conn, state, condition, [mac])
}

/// Loads the Agents that run on a host.
pub fn load_agents_of_host(
    conn: &Connection,
    state: &mut State,
    host: &Key,
) -> Result<(), Refusal> {
    load_agents(conn, state, OF_HOST, [&host.namespace, &host.name])
}

/// Loads the Agents of hosts that have left a cluster. They may still run as its nodes: the
/// addresses of the cluster are not free before all of these hosts are off.
pub fn load_agents_that_left(
    conn: &Connection,
    state: &mut State,
    cluster: &str,
) -> Result<(), Refusal> {
    load_agents(conn, state, THAT_LEFT, [cluster])
}

/// Loads a cluster with its document, the Agents that are or were its hosts, and the template that
/// it is installed from.
pub fn load_cluster_with_agents(
    conn: &Connection,
    state: &mut State,
    cluster: &str,
) -> Result<(), Refusal> {
    if !state.is_whole {
        load_agents(conn, state, "WHERE bound = ?1 OR wanted = ?1", [cluster])?;
        load_agents_that_left(conn, state, cluster)?;
    }
    load_whole_cluster(conn, state, cluster)?;
    load_template_of_cluster(conn, state, cluster)
}

impl Stored for Agent {
    fn load_for_edit(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        if state.agents.has_or_had(key) {
            return Ok(());
        }
        let values = params![key.namespace, key.name];
        load_agents(conn, state, "WHERE namespace = ?1 AND name = ?2", values)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let (condition, values) = filter.where_clause("namespace = #", Some("name = #"));
        select_agents(store.conn(), &condition, params_from_iter(values))
    }

    fn list_names(store: &Store) -> Result<Vec<Key>, Refusal> {
        select_names(store.conn(), "agent")
    }

    fn visit_all(
        store: &Store,
        namespace: Option<&str>,
        visit: &mut Visitor<'_, Self>,
    ) -> Result<(), Refusal> {
        let mut statement =
            store.conn().prepare_cached(&format!("SELECT {AGENT} WHERE id = ?1"))?;
        let of_namespace = if namespace.is_some() { "agent WHERE namespace = ?1" } else { "agent" };
        for id in select_ids(store.conn(), of_namespace, namespace)? {
            // `doctor` finds an Agent without a document.
            let agent = statement.query_row([id], |row| Ok(read_whole_agent(row))).optional()?;
            agent.transpose()?.map_or(Ok(()), &mut *visit)?;
        }
        Ok(())
    }
}

impl Store {
    /// Loads what an Agent depends on when it checks in, and the answer that it gets: its host, and
    /// unless it is installed, its cluster and the other hosts there.
    pub fn load_for_check_in(&self, state: &mut State, agent_key: &Key) -> Result<(), Refusal> {
        let conn = self.conn();
        let Some(agent) = state.agents.by_key(agent_key) else { return Ok(()) };
        let host = agent.host_key();
        let cluster = agent.cluster_to_reach();
        if let Some(host) = host {
            load_host(conn, state, &host)?;
        }
        let Some(cluster) = cluster else { return Ok(()) };
        load_agents(conn, state, "WHERE bound = ?1", [&cluster.name])?;
        load_whole_cluster(conn, state, &cluster.name)?;
        load_template_of_cluster(conn, state, &cluster.name)?;
        let cluster_id = state.find_cluster(&cluster.name);
        let cluster = cluster_id.and_then(|cluster_id| state.clusters.get(cluster_id));
        let made_of_agents = cluster.filter(|cluster| cluster.is_made_of_agents());
        match made_of_agents.and_then(Cluster::named_image_set) {
            Some(image_set) => load_document(conn, &mut state.image_sets, &image_set),
            None => Ok(()),
        }
    }

    /// Whether there is an Agent of this name. Its document is not read.
    pub fn has_agent(&self, key: &Key) -> Result<bool, Refusal> {
        let sql = "SELECT EXISTS (SELECT 1 FROM agent WHERE namespace = ?1 AND name = ?2)";
        let values = params![key.namespace, key.name];
        Ok(self.conn().prepare_cached(sql)?.query_row(values, |row| row.get(0))?)
    }

    /// Whether an image admits hosts, or a host has a secret.
    pub fn has_credentials_of_hosts(&self) -> Result<bool, Refusal> {
        let sql = "SELECT EXISTS (SELECT 1 FROM infra_env_token) \
                   OR EXISTS (SELECT 1 FROM agent WHERE secret IS NOT NULL)";
        Ok(self.conn().prepare_cached(sql)?.query_row([], |row| row.get(0))?)
    }

    /// Reads the facts of the Agents that a filter names, in the order of insertion.
    pub fn list_agent_facts(&self, filter: &Filter) -> Result<Vec<AgentFacts>, Refusal> {
        let (condition, values) = filter.where_clause("namespace = #", Some("name = #"));
        let clauses = format!("{condition} ORDER BY id");
        select_facts(self.conn(), &clauses, params_from_iter(values))
    }

    /// Reads the facts of all Agents of an InfraEnv, in the order of insertion.
    pub fn list_agents_of_infra_env(&self, infra_env: &Key) -> Result<Vec<AgentFacts>, Refusal> {
        let clauses = "WHERE namespace = ?1 AND infra_env = ?2 ORDER BY id";
        select_facts(self.conn(), clauses, [&infra_env.namespace, &infra_env.name])
    }

    /// Reads the facts of the Agents of hosts that have left a cluster.
    pub fn list_agents_that_left(&self, cluster: &str) -> Result<Vec<AgentFacts>, Refusal> {
        select_facts(self.conn(), THAT_LEFT, [cluster])
    }

    /// Reads the Agents of a host, in the order of insertion.
    pub fn list_agents_of_host(&self, host: &Key) -> Result<Vec<Agent>, Refusal> {
        select_agents(self.conn(), OF_HOST, [&host.namespace, &host.name])
    }

    /// Reads the Agents that are bound to a cluster, in the order of insertion.
    pub fn list_agents_of_cluster(&self, cluster: &str) -> Result<Vec<Agent>, Refusal> {
        select_agents(self.conn(), "WHERE bound = ?1", [cluster])
    }

    /// The Agents whose hosts are in a cluster, are to join it, or have left it.
    pub fn list_names_of_agents_of(&self, cluster: &str) -> Result<Vec<Key>, Refusal> {
        // Most clusters have none, and a query for ids alone takes half the time to prepare.
        let sql = "SELECT id FROM agent WHERE bound = ?1 \
                   UNION ALL SELECT id FROM agent WHERE wanted = ?1 \
                   UNION ALL SELECT id FROM agent WHERE left_cluster = ?1";
        let mut statement = self.conn().prepare_cached(sql)?;
        let mut ids = statement.query([cluster])?;
        let mut keys = Vec::new();
        while let Some(row) = ids.next()? {
            let sql = "SELECT namespace, name FROM agent WHERE id = ?1";
            let mut statement = self.conn().prepare_cached(sql)?;
            keys.push(statement.query_row([row.get::<_, i64>(0)?], |row| {
                Ok(Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })?);
        }
        Ok(keys)
    }

    /// Loads the Agents of machines that have one of these MAC addresses.
    pub fn load_agents_with_macs(&self, state: &mut State, macs: &[String]) -> Result<(), Refusal> {
        for mac in macs {
            load_agents_with_mac(self.conn(), state, mac)?;
        }
        Ok(())
    }

    /// Counts the Agents of an InfraEnv that nobody has approved.
    pub fn count_unapproved_agents(&self, infra_env: &Key) -> Result<usize, Refusal> {
        let sql = "SELECT count(*) FROM agent WHERE namespace = ?1 AND infra_env = ?2 \
                   AND NOT approved";
        let values = params![infra_env.namespace, infra_env.name];
        let count: i64 = self.conn().prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    /// How many hosts somebody expects in the namespace of an InfraEnv, if one of these MAC addresses
    /// is among them; otherwise none. Expected are the hosts and the network configurations that
    /// somebody has written.
    pub fn count_expected_hosts(&self, infra_env: &Key, macs: &[String]) -> Result<usize, Refusal> {
        let sql = "SELECT mac FROM host WHERE namespace = ?1 AND mac IS NOT NULL";
        let mut statement = self.conn().prepare_cached(sql)?;
        let rows = statement.query_map([&infra_env.namespace], |row| row.get::<_, String>(0))?;
        let mut expected_macs = rows.collect::<Result<BTreeSet<String>, _>>()?;
        for config in self.list_all::<NMStateConfig>()? {
            let interfaces = config.spec.interfaces.iter();
            expected_macs.extend(interfaces.map(|nic| nic.mac_address.to_lowercase()));
        }
        let is_expected = macs.iter().any(|mac| expected_macs.contains(&mac.to_lowercase()));
        Ok(if is_expected { expected_macs.len() } else { 0 })
    }

    /// The Agent of a machine in an InfraEnv, if it has registered there.
    pub fn find_agent_of_machine(
        &self,
        infra_env: &Key,
        machine_id: &str,
    ) -> Result<Option<Key>, Refusal> {
        let sql = "SELECT name FROM agent \
                   WHERE namespace = ?1 AND infra_env = ?2 AND machine = lower(?3)";
        let values = params![infra_env.namespace, infra_env.name, machine_id];
        let name: Option<String> =
            self.conn().prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?;
        Ok(name.map(|name| Key::new(&*infra_env.namespace, name)))
    }
}

/// Writes the Agents that changed, on behalf of an owner or of all. Agents that are unbound or
/// deleted come first: no two bound Agents may be the same machine, and another one may be bound
/// now.
pub fn write_changed_agents(
    conn: &Connection,
    state: &State,
    owner: Option<&Owner>,
) -> Result<(), Refusal> {
    let changes = state.agents.difference().filter(|change| change.is_on_behalf_of(owner));
    let (unbinding, remaining): (Vec<_>, Vec<_>) = changes.partition(releases_machine);
    for change in unbinding.iter().chain(&remaining) {
        write_agent(conn, change)?;
    }
    let belongs_to_no_pool = owner.is_none_or(Option::is_none);
    if belongs_to_no_pool {
        for agent in state.agents.newly_settled() {
            note_settled(conn, agent.metadata.id)?;
        }
    }
    // Facts follow from the inventories: this may have been the first to decode one.
    refuse_unreadable_parts(&state.decode_error)
}

/// Whether an Agent that was there is bound to no cluster any more.
fn releases_machine(change: &Change<'_, Agent>) -> bool {
    change.before.is_some() && change.after.is_none_or(|agent| agent.status.bound_to.is_none())
}

/// Writes an Agent that was made, changed or deleted. If only its contact time has changed, its
/// document is not written.
fn write_agent(conn: &Connection, change: &Change<'_, Agent>) -> Result<(), Refusal> {
    let Some(agent) = change.after else {
        let id = change.before.map(|before| before.metadata.id);
        conn.prepare_cached("DELETE FROM agent WHERE id = ?1")?.execute([id])?;
        return Ok(());
    };
    let before = change.before.map(without_contact_time);
    let id = if before == Some(without_contact_time(agent)) {
        let sql = "UPDATE agent SET seen = ?2 WHERE id = ?1";
        let values = params![agent.metadata.id, agent.status.last_contact_time];
        conn.prepare_cached(sql)?.execute(values)?;
        if change.is_settled {
            note_settled(conn, agent.metadata.id)?;
        }
        agent.metadata.id
    } else {
        write_whole_agent(conn, change.before, agent, change.is_settled)?
    };
    write_macs(conn, id, change.before, agent)
}

/// Notes that a plan of this program has left an Agent as it is. The note is lost when the document is
/// written again.
fn note_settled(conn: &Connection, id: i64) -> Result<(), Refusal> {
    let sql = "UPDATE agent SET settled_by = ?2 WHERE id = ?1 AND settled_by IS NOT ?2";
    conn.prepare_cached(sql)?.execute(params![id, SOURCES_DIGEST])?;
    Ok(())
}

/// Writes all columns of an Agent, and returns the number of its row.
fn write_whole_agent(
    conn: &Connection,
    before: Option<&Agent>,
    agent: &Agent,
    is_settled: bool,
) -> Result<i64, Refusal> {
    let facts_before = before.map(AgentFacts::of);
    let id = write_facts(conn, facts_before.as_ref(), &AgentFacts::of(agent))?;
    let settled_by = is_settled.then_some(SOURCES_DIGEST);
    let sql = "UPDATE agent SET secret = ?2, settled_by = ?3 \
               WHERE id = ?1 AND (secret IS NOT ?2 OR settled_by IS NOT ?3)";
    conn.prepare_cached(sql)?.execute(params![id, agent.secret, settled_by])?;
    write_document(conn, id, without_contact_time(agent))?;
    Ok(id)
}

/// Removes all notes of what plans have left as it is: the next plan works everything out again. Needs a
/// write transaction.
pub fn forget_settled_agents(conn: &Connection) -> Result<(), Refusal> {
    let sql = "UPDATE agent SET settled_by = NULL WHERE settled_by IS NOT NULL";
    conn.prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// Writes the facts of all Agents as they follow from their documents. An Agent that cannot be decoded
/// keeps those that it has. Needs a write transaction.
pub fn overwrite_facts_of_agents(conn: &Connection) -> Result<(), Refusal> {
    visit_decodable_agents(conn, &mut |agent| Ok(overwrite_facts(conn, &AgentFacts::of(&agent))?))
}

/// Makes the rows anew that are lost of Agents whose documents are there, without their secrets and the
/// time of the last contact. Needs a write transaction.
pub fn insert_lost_rows_of_agents(conn: &Connection) -> Result<usize, Refusal> {
    let lost = "agent_body WHERE id NOT IN (SELECT id FROM agent)";
    let columns = COLUMNS_OF_AGENT_BODIES.join(", ");
    let sql = &format!(
        "SELECT id, {columns}, NULL AS secret, NULL AS seen FROM agent_body WHERE id = ?1"
    );
    let mut inserted = 0;
    for id in select_ids(conn, lost, None)? {
        let mut statement = conn.prepare_cached(sql)?;
        if let Ok(agent) = statement.query_row([id], |row| Ok(read_whole_agent(row)))? {
            inserted += usize::from(write_facts(conn, None, &AgentFacts::of(&agent)).is_ok());
        }
    }
    Ok(inserted)
}

/// Hands on the Agents that can be decoded, one by one, in the order of insertion.
pub fn visit_decodable_agents(
    conn: &Connection,
    visit: &mut Visitor<'_, Agent>,
) -> Result<(), Refusal> {
    let mut statement = conn.prepare_cached(&format!("SELECT {AGENT} WHERE id = ?1"))?;
    for id in select_ids(conn, AGENT_BODIES, None)? {
        let agent = statement.query_row([id], |row| Ok(read_whole_agent(row))).optional()?;
        agent.and_then(Result::ok).map_or(Ok(()), &mut *visit)?;
    }
    Ok(())
}

fn without_contact_time(agent: &Agent) -> Agent {
    let mut agent = agent.clone();
    agent.status.last_contact_time = None;
    agent
}

/// Writes the identities that a machine is known by, such as its MAC addresses. Of two bound Agents with
/// a common one, such as the MAC address of a virtual interface, only the first has it.
fn write_macs(
    conn: &Connection,
    id: i64,
    before: Option<&Agent>,
    agent: &Agent,
) -> Result<(), Refusal> {
    let macs: Vec<String> = agent.identities().collect();
    let is_bound = agent.status.bound_to.is_some();
    let is_same = before.is_some_and(|before| {
        before.identities().eq(macs.iter().cloned()) && before.status.bound_to.is_some() == is_bound
    });
    if is_same {
        return Ok(());
    }
    overwrite_identities(conn, id, &macs, is_bound)
}

/// Writes the identities of an Agent anew. Needs a write transaction.
pub fn overwrite_identities(
    conn: &Connection,
    id: i64,
    identities: &[String],
    is_bound: bool,
) -> Result<(), Refusal> {
    conn.prepare_cached("DELETE FROM agent_mac WHERE agent = ?1")?.execute([id])?;
    for identity in identities {
        let sql = "INSERT OR IGNORE INTO agent_mac VALUES (?1, ?2, ?3)";
        conn.prepare_cached(sql)?.execute(params![id, identity, is_bound.then_some(1)])?;
    }
    Ok(())
}

/// The identities of an Agent that have no row: whoever looks for the machine by one of them would not
/// find the Agent, and could use the machine a second time.
pub fn select_lost_identities(conn: &Connection, agent: &Agent) -> Result<Vec<String>, Refusal> {
    let is_bound = agent.status.bound_to.is_some();
    // Of bound Agents with a common identity only one has it.
    let sql = "SELECT 1 FROM agent_mac \
               WHERE mac = ?2 AND (agent = ?1 AND bound IS ?3 OR ?3 = 1 AND bound = 1)";
    let mut statement = conn.prepare_cached(sql)?;
    let mut lost = Vec::new();
    for identity in agent.identities() {
        if !statement.exists(params![agent.metadata.id, identity, is_bound.then_some(1)])? {
            lost.push(identity);
        }
    }
    Ok(lost)
}
