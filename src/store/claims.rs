//! Claims of clusters. Their facts are columns, which every pass reads; their documents are in a
//! table beside them and are read only when a claim is edited or shown whole.

use rusqlite::{Connection, Params, params, params_from_iter};

use crate::model::claim::{Claim, ClaimCounts, ClusterRunning};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::table::Change;

use super::clusters::load_clusters;
use super::connection::Store;
use super::facts::{read_body, select_facts, visit_facts, write_body, write_facts};
use super::filter::Filter;
use super::stored::{Stored, Visitor, select_ids, select_names};

/// Loads claims without their documents. `clauses` are those after FROM, such as
/// `WHERE namespace = ?1 ORDER BY id`.
pub fn load_claims(
    conn: &Connection,
    state: &mut State,
    clauses: &str,
    values: impl Params,
) -> Result<(), Refusal> {
    for claim in select_facts::<Claim>(conn, clauses, values)? {
        if state.claims.find(&claim.key()).is_none() {
            state.load_claim(claim);
        }
    }
    Ok(())
}

/// Loads a claim with its document.
fn load_whole_claim(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
    let values = params![key.namespace, key.name];
    if state.claims.find(key).is_none() {
        load_claims(conn, state, "WHERE namespace = ?1 AND name = ?2", values)?;
    }
    if state.claims.find(key).is_none() {
        // There is no such claim any more. A cluster that was assigned to it may still name it, in
        // any pool.
        load_clusters(conn, state, "WHERE pool_namespace = ?1 AND claim = ?2", values)?;
    }
    let Some(claim_id) = state.claims.find(key) else { return Ok(()) };
    // A document that is loaded may have been edited and stays.
    if let Some(claim) = state.claims.get(claim_id)
        && claim.body.is_none()
    {
        let body = read_body(conn, "claim_body", claim.id)?;
        state.claims.fill_part(claim_id, |claim| claim.body = body);
    }
    Ok(())
}

impl Store {
    /// Finds the claims whose cluster is gone and that nobody has released, in the order of
    /// insertion.
    pub fn find_claims_of_gone_clusters(&self) -> Result<Vec<Key>, Refusal> {
        let sql = "SELECT namespace, name FROM claim \
                   WHERE running = ?1 AND deleting IS NULL ORDER BY id";
        let mut statement = self.conn().prepare_cached(sql)?;
        let keys = statement.query_map([ClusterRunning::Deleted.name()], |row| {
            Ok(Key::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?;
        Ok(keys.collect::<Result<_, _>>()?)
    }

    /// Finds the clusters that are held by a claim which is gone, each with the key of that claim,
    /// in the order of insertion.
    pub fn find_clusters_of_gone_claims(&self) -> Result<Vec<(String, Key)>, Refusal> {
        let sql = "SELECT name, pool_namespace, claim FROM cluster c \
                   WHERE claim IS NOT NULL AND pool IS NOT NULL AND NOT EXISTS (\
                   SELECT 1 FROM claim l WHERE l.namespace = c.pool_namespace AND l.name = c.claim) \
                   ORDER BY id";
        let mut statement = self.conn().prepare_cached(sql)?;
        let clusters = statement.query_map([], |row| {
            let namespace: Option<String> = row.get(1)?;
            let claim = Key::new(namespace.unwrap_or_default(), row.get::<_, String>(2)?);
            Ok((row.get(0)?, claim))
        })?;
        Ok(clusters.collect::<Result<_, _>>()?)
    }

    /// Reads the claims of a pool without their documents, in the order of insertion.
    pub fn claims_of_pool(&self, pool: &Key) -> Result<Vec<Claim>, Refusal> {
        let clauses = "WHERE namespace = ?1 AND pool = ?2 ORDER BY id";
        select_facts(self.conn(), clauses, params![pool.namespace, pool.name])
    }

    /// Counts the claims of a person in all namespaces.
    pub fn count_claims_of(&self, owner: &str) -> Result<ClaimCounts, Refusal> {
        let sql = "SELECT count(*), count(*) - count(cluster) FROM claim \
                   WHERE owner = ?1 AND deleting IS NULL";
        let mut statement = self.conn().prepare_cached(sql)?;
        let counts = statement
            .query_row([owner], |row| Ok(ClaimCounts { open: row.get(0)?, waiting: row.get(1)? }));
        Ok(counts?)
    }
}

impl Stored for Claim {
    fn load_for_edit(conn: &Connection, state: &mut State, key: &Key) -> Result<(), Refusal> {
        load_whole_claim(conn, state, key)
    }

    fn list(store: &Store, filter: &Filter) -> Result<Vec<Self>, Refusal> {
        let (condition, values) = filter.where_clause("namespace = #", Some("name = #"));
        let clauses = format!("{condition} ORDER BY id");
        let mut claims: Vec<Self> = select_facts(store.conn(), &clauses, params_from_iter(values))?;
        if filter.whole {
            for claim in &mut claims {
                claim.body = read_body(store.conn(), "claim_body", claim.id)?;
            }
        }
        Ok(claims)
    }

    fn list_names(store: &Store) -> Result<Vec<Key>, Refusal> {
        select_names(store.conn(), "claim")
    }

    fn visit_all(
        store: &Store,
        namespace: Option<&str>,
        visit: &mut Visitor<'_, Self>,
    ) -> Result<(), Refusal> {
        let conn = store.conn();
        let source = if namespace.is_some() { "claim WHERE namespace = ?1" } else { "claim" };
        for id in select_ids(conn, source, namespace)? {
            visit_facts(conn, "WHERE id = ?1", [id], &mut |mut claim: Self| {
                claim.body = read_body(conn, "claim_body", claim.id)?;
                visit(claim)
            })?;
        }
        Ok(())
    }
}

/// Writes a claim that was made, changed or deleted.
pub fn write_claim(conn: &Connection, change: &Change<'_, Claim>) -> Result<(), Refusal> {
    let Some(claim) = change.after else {
        let id = change.before.map(|before| before.id);
        conn.prepare_cached("DELETE FROM claim WHERE id = ?1")?.execute([id])?;
        return Ok(());
    };
    let id = write_facts(conn, change.before, claim)?;
    let body_before = change.before.and_then(|before| before.body.as_ref());
    write_body(conn, "claim_body", id, body_before, claim.body.as_ref())
}
