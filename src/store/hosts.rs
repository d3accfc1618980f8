//! Hosts. A host is loaded with the Secret of its management controller and the live jobs that work
//! on it. Nothing here loads the values of Secrets.

use rusqlite::{Connection, OptionalExtension, Params, params};

use crate::model::bmc::BmcAddress;
use crate::model::data_template::Metal3DataTemplate;
use crate::model::host::BareMetalHost;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::table::{Owner, Row};

use super::connection::Store;
use super::documents::{load_document, read_document, select_documents, write_changed_documents};
use super::ip_leases::{load_lease, select_leases_of_host};
use super::jobs::load_jobs;
use super::secrets::load_secret;
use super::stored::StoredDocument;

/// Loads all hosts with the Secrets of their controllers. The caller loads all live jobs.
pub fn load_all_hosts(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    for host in select_documents::<BareMetalHost>(conn, None)? {
        load_with_credentials(conn, state, host)?;
    }
    Ok(())
}

/// Loads a host and the live jobs that work on it.
pub fn load_host(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if state.hosts.has_or_had(key) {
        return Ok(());
    }
    load_document(conn, &mut state.hosts, key)?;
    load_jobs_on_host(conn, state, key)
}

/// Loads the hosts that clusters of a pool use.
pub fn load_hosts_of_pool(conn: &Connection, state: &mut State, pool: &Key) -> Result<(), Refusal> {
    // In many labs no cluster uses hosts. This statement is prepared faster than the join below.
    let sql = "SELECT 1 FROM host WHERE consumer IS NOT NULL";
    if !conn.prepare_cached(sql)?.exists([])? {
        return Ok(());
    }
    let sql = "SELECT h.id, h.body FROM host h JOIN cluster c ON c.name = h.consumer \
               WHERE h.consumer IS NOT NULL AND c.pool_namespace = ?1 AND c.pool = ?2 \
               ORDER BY h.id";
    load_hosts(conn, state, sql, params![pool.namespace, pool.name])
}

/// Loads the hosts that a cluster uses.
pub fn load_hosts_of_cluster(
    conn: &Connection,
    state: &mut State,
    cluster: &str,
) -> Result<(), Refusal> {
    let sql = "SELECT id, body FROM host WHERE consumer = ?1 ORDER BY id";
    load_hosts(conn, state, sql, [cluster])
}

/// Loads the host that boots from a MAC address.
pub fn load_hosts_with_mac(conn: &Connection, state: &mut State, mac: &str) -> Result<(), Refusal> {
    load_hosts(conn, state, "SELECT id, body FROM host WHERE mac = ?1", [mac])
}

/// Loads the hosts that a query finds, with the live jobs that work on them. The query selects `id`
/// and `body`.
fn load_hosts(
    conn: &Connection,
    state: &mut State,
    sql: &str,
    values: impl Params,
) -> Result<(), Refusal> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        let host: BareMetalHost = read_document(row)?;
        let key = host.key();
        load_with_credentials(conn, state, host)?;
        load_jobs_on_host(conn, state, &key)?;
    }
    Ok(())
}

/// What makes a host the machine that it is. No two hosts may share the MAC address or the
/// controller.
#[derive(PartialEq)]
struct Identity {
    /// The MAC address that it boots from, in lower case.
    mac: Option<String>,
    /// Its management controller, in the one spelling that `BmcAddress::canonical_name` gives it.
    controller: Option<String>,
}

impl Identity {
    fn read(host: &BareMetalHost) -> Self {
        let mac = host.spec.boot_mac_address.to_lowercase();
        Self {
            mac: if mac.is_empty() { None } else { Some(mac) },
            controller: host.bmc_address().map(|address| address.canonical_name()),
        }
    }

    fn collides_with(&self, other: &Self) -> bool {
        (self.mac.is_some() && self.mac == other.mac)
            || (self.controller.is_some() && self.controller == other.controller)
    }
}

/// Loads hosts that have the MAC address or the controller of a host that an edit has made or
/// changed, the Secrets that edited hosts name, and the hosts that use edited Secrets.
pub fn load_rivals_of_edited_hosts(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let mut edited_hosts = Vec::new();
    let mut new_identities = Vec::new();
    for change in state.hosts.difference() {
        let Some(host) = change.after else { continue };
        edited_hosts.push(host.clone());
        let identity = Identity::read(host);
        if change.before.is_none_or(|before| Identity::read(before) != identity) {
            new_identities.push(identity);
        }
    }
    if !new_identities.is_empty() {
        for key in select_hosts_colliding_with(conn, &new_identities)? {
            load_host(conn, state, &key)?;
        }
    }
    for host in edited_hosts {
        load_credentials(conn, state, &host)?;
    }
    load_users_of_edited_secrets(conn, state)
}

/// Finds the hosts that collide with one of these identities. A controller has many spellings, so
/// that no index helps: the identities of all hosts are read.
fn select_hosts_colliding_with(
    conn: &Connection,
    identities: &[Identity],
) -> Result<Vec<Key>, Refusal> {
    let sql = "SELECT namespace, name, mac, bmc FROM host";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut colliding = Vec::new();
    while let Some(row) = rows.next()? {
        let bmc: Option<String> = row.get(3)?;
        let address = bmc.and_then(|bmc| bmc.parse::<BmcAddress>().ok());
        let controller = address.map(|address| address.canonical_name());
        let kept_identity = Identity { mac: row.get(2)?, controller };
        if identities.iter().any(|identity| identity.collides_with(&kept_identity)) {
            colliding.push(Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?));
        }
    }
    Ok(colliding)
}

/// Loads the hosts whose controllers are reached with Secrets that an edit has changed.
fn load_users_of_edited_secrets(conn: &Connection, state: &mut State) -> Result<(), Refusal> {
    let edited = state.secrets.difference().filter_map(|change| change.after.or(change.before));
    let secrets: Vec<Key> = edited.map(Row::key).collect();
    let sql = "SELECT id, body FROM host \
               WHERE namespace = ?1 AND body ->> '$.spec.bmc.credentialsName' = ?2";
    for secret in secrets {
        load_hosts(conn, state, sql, params![secret.namespace, secret.name])?;
    }
    Ok(())
}

/// Puts a host that was read into the state, with the Secret of its controller, unless it is there
/// or was removed.
fn load_with_credentials(
    conn: &Connection,
    state: &mut State,
    host: BareMetalHost,
) -> Result<(), Refusal> {
    if state.hosts.has_or_had(&host.key()) {
        return Ok(());
    }
    load_credentials(conn, state, &host)?;
    state.hosts.load(host);
    Ok(())
}

/// Loads the Secret of a host's controller.
fn load_credentials(
    conn: &Connection,
    state: &mut State,
    host: &BareMetalHost,
) -> Result<(), Refusal> {
    let Some(bmc) = &host.spec.bmc else { return Ok(()) };
    load_secret(conn, state, &Key::new(&*host.metadata.namespace, &*bmc.credentials_name))
}

/// Loads the live jobs on a host, and the Secret of its controller, which they need.
fn load_jobs_on_host(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if let Some(host) = state.hosts.by_key(key).cloned() {
        load_credentials(conn, state, &host)?;
    }
    let condition = "ended IS NULL AND id IN (SELECT job FROM job_host WHERE host = ?1 AND live)";
    load_jobs(conn, state, condition, [key.to_string()])
}

/// Writes the hosts that changed, on behalf of an owner or of all. Controllers and MACs may have been
/// exchanged between hosts: what changes is taken off all of them first, because the database lets
/// no two hosts have the same, not even for a moment.
pub fn write_changed_hosts(
    conn: &Connection,
    state: &State,
    owner: Option<&Owner>,
) -> Result<(), Refusal> {
    let sql = "UPDATE host SET body = json_remove(body, '$.spec.bmc', '$.spec.bootMACAddress') \
               WHERE id = ?1";
    for change in state.hosts.difference().filter(|change| change.is_on_behalf_of(owner)) {
        let Some(before) = change.before else { continue };
        let keeps_identity =
            change.after.is_some_and(|after| Identity::read(before) == Identity::read(after));
        if !keeps_identity {
            conn.prepare_cached(sql)?.execute([before.metadata.id])?;
        }
    }
    write_changed_documents(conn, &state.hosts, owner)
}

impl StoredDocument for BareMetalHost {
    fn load_for_edit(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_host(conn, state, key)?;
        load_leases_of_host(conn, state, key)
    }
}

/// Loads the Metal3Data of the number that a host has of a template.
fn load_data_of_host(
    conn: &Connection,
    state: &mut State,
    template: &Metal3DataTemplate,
    host: &str,
) -> Result<(), Refusal> {
    let Some(index) = template.index_of(host) else { return Ok(()) };
    load_document(conn, &mut state.metal3_data, &template.data_key(index))
}

/// Loads what goes when a host is removed: the templates that have given it a number, and the
/// addresses that are claimed for it.
fn load_leases_of_host(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    for template in select_documents::<Metal3DataTemplate>(conn, Some(&key.namespace))? {
        if template.index_of(&key.name).is_some()
            && !state.data_templates.has_or_had(&template.key())
        {
            load_data_of_host(conn, state, &template, &key.name)?;
            state.data_templates.load(template);
        }
    }
    for lease in select_leases_of_host(conn, key)? {
        load_lease(state, lease);
    }
    Ok(())
}

impl Store {
    /// Finds the cluster that uses a host, if there is one.
    pub fn find_cluster_of_host(&self, host: &Key) -> Result<Option<Key>, Refusal> {
        let sql = "SELECT c.namespace, c.name FROM host h JOIN cluster c ON c.name = h.consumer \
                   WHERE h.namespace = ?1 AND h.name = ?2";
        let mut statement = self.conn().prepare_cached(sql)?;
        let cluster = statement.query_row(params![host.namespace, host.name], |row| {
            Ok(Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        });
        Ok(cluster.optional()?)
    }

    /// Whether a cluster uses any host.
    pub fn uses_hosts(&self, cluster: &str) -> Result<bool, Refusal> {
        let sql = "SELECT EXISTS (SELECT 1 FROM host WHERE consumer = ?1)";
        Ok(self.conn().prepare_cached(sql)?.query_row([cluster], |row| row.get(0))?)
    }
}
