//! Loads and writes customizations with their holders. A lease of a customization is a row of its
//! own. Never decides who holds one.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use crate::model::customization::Customization;
use crate::model::lease::ClusterHolder;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::table::{Change, Owner};

use super::connection::Store;
use super::documents::{select_document, select_documents, write_document};
use super::filter::Filter;
use super::stored::StoredDocument;

/// Loads all customizations, or those of a namespace, with their holders.
pub fn load_customizations(
    conn: &Connection,
    state: &mut State,
    namespace: Option<&str>,
) -> Result<(), Refusal> {
    let mut loaded = HashSet::new();
    for customization in select_documents::<Customization>(conn, namespace)? {
        if !state.customizations.has_or_had(&customization.key()) {
            loaded.insert(state.customizations.load(customization));
        }
    }
    let filter = Filter { namespace: namespace.map(str::to_owned), ..Filter::default() };
    let (condition, values) = filter.where_clause("u.namespace = #", None);
    let sql = format!(
        "SELECT l.holder, l.pool_namespace, l.pool, l.cluster, u.namespace, u.name \
         FROM lease l JOIN document u ON u.id = l.customization \
         AND u.kind = 'ClusterDeploymentCustomization' {condition}"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        let key = Key::new(row.get::<_, String>(4)?, row.get::<_, String>(5)?);
        let holder = read_holder(row)?;
        // A customization that was loaded before may have been edited, so its holder stays as it
        // is.
        let customization_id = state.customizations.find(&key);
        if let Some(id) = customization_id.filter(|id| loaded.contains(id)) {
            state.customizations.fill_part(id, |customization| customization.holder = Some(holder));
        }
    }
    Ok(())
}

/// Loads the customizations that no cluster of a pool that exists has and uses, with their holders.
pub fn load_customizations_without_cluster(
    conn: &Connection,
    state: &mut State,
) -> Result<(), Refusal> {
    let sql = "SELECT namespace, name FROM document \
               WHERE kind = 'ClusterDeploymentCustomization' AND id NOT IN (\
               SELECT l.customization FROM lease l JOIN cluster c ON c.id = l.cluster \
               JOIN document u ON u.id = l.customization \
               JOIN document p ON p.kind = 'ClusterPool' \
               AND p.namespace = c.pool_namespace AND p.name = c.pool \
               WHERE c.customization = u.name AND c.pool_namespace = u.namespace) ORDER BY id";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        load_customization(
            conn,
            state,
            &Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?),
        )?;
    }
    Ok(())
}

/// Loads a customization with its holder.
pub fn load_customization(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    if state.customizations.has_or_had(key) {
        return Ok(());
    }
    let Some(mut customization) = select_document::<Customization>(conn, key)? else {
        return Ok(());
    };
    customization.holder = select_holder(conn, customization.metadata.id)?;
    state.customizations.load(customization);
    Ok(())
}

fn select_holder(conn: &Connection, customization: i64) -> Result<Option<ClusterHolder>, Refusal> {
    let sql = "SELECT holder, pool_namespace, pool, cluster FROM lease WHERE customization = ?1";
    let holder = conn.prepare_cached(sql)?.query_row([customization], read_holder);
    Ok(holder.optional()?)
}

/// Reads a row of the cluster's name, its pool's namespace and name, and the cluster's id. A lease
/// without that id belongs to a cluster that was left running.
fn read_holder(row: &Row<'_>) -> rusqlite::Result<ClusterHolder> {
    let pool_namespace: Option<String> = row.get(1)?;
    let pool_name: Option<String> = row.get(2)?;
    let pool = pool_namespace.zip(pool_name).map(|(namespace, name)| Key::new(namespace, name));
    let cluster_id: Option<i64> = row.get(3)?;
    let preserved = cluster_id.is_none();
    Ok(ClusterHolder { cluster: row.get(0)?, agent: None, pool, preserved })
}

impl StoredDocument for Customization {
    fn load_for_edit(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_customization(conn, state, key)
    }

    fn read_beside_document(&mut self, store: &Store, _: &Filter) -> Result<(), Refusal> {
        self.holder = select_holder(store.conn(), self.metadata.id)?;
        Ok(())
    }
}

/// Removes the leases of a cluster that is being removed.
pub fn remove_leases_of_cluster(conn: &Connection, cluster: i64) -> Result<(), Refusal> {
    conn.prepare_cached("DELETE FROM lease WHERE cluster = ?1")?.execute([cluster])?;
    Ok(())
}

/// Writes the customizations that changed, and their leases. The clusters that those point to must
/// be written already.
pub fn write_changed_customizations(
    conn: &Connection,
    state: &State,
    owner: Option<&Owner>,
) -> Result<(), Refusal> {
    for change in state.customizations.difference().filter(|change| change.is_on_behalf_of(owner)) {
        write_change(conn, &change)?;
    }
    Ok(())
}

/// Writes a customization and its lease. A lease that passes to another cluster is deleted first: a
/// customization has one row of a lease at most.
fn write_change(conn: &Connection, change: &Change<'_, Customization>) -> Result<(), Refusal> {
    let holder_before = change.before.and_then(|before| before.holder.as_ref());
    let holder_after = change.after.and_then(|after| after.holder.as_ref());
    let is_same_cluster =
        holder_before.map(|holder| &holder.cluster) == holder_after.map(|holder| &holder.cluster);
    if let Some(before) = change.before
        && (change.after.is_none() || !is_same_cluster)
    {
        let sql = "DELETE FROM lease WHERE customization = ?1";
        conn.prepare_cached(sql)?.execute([before.metadata.id])?;
    }
    let id = write_document(conn, change)?;
    match holder_after {
        Some(holder) if !is_same_cluster => insert_lease(conn, id, holder),
        _ => Ok(()),
    }
}

/// Writes the lease of a customization. That of a cluster that was left running points to no row of
/// a cluster; that of any other refers to the row of its cluster, and is refused if there is none.
fn insert_lease(
    conn: &Connection,
    customization: i64,
    holder: &ClusterHolder,
) -> Result<(), Refusal> {
    let sql = if holder.preserved {
        "INSERT INTO lease VALUES (?1, NULL, ?2, ?3, ?4)"
    } else {
        "INSERT INTO lease SELECT ?1, id, name, pool_namespace, pool FROM cluster \
         WHERE name = ?2 AND pool_namespace IS ?3 AND pool IS ?4"
    };
    let (namespace, pool) = holder.pool.as_ref().map(|key| (&key.namespace, &key.name)).unzip();
    let values = params![customization, holder.cluster, namespace, pool];
    let inserted = conn.prepare_cached(sql)?.execute(values)?;
    if inserted == 0 {
        let what = format!(
            "a customization would be leased to cluster `{}`, which does not exist",
            holder.cluster
        );
        return Err(Refusal::conflict(what));
    }
    Ok(())
}
