//! Claims of clusters. Their facts are columns, which every pass reads; their documents are in a
//! table beside them and are read only when a claim is edited or shown whole.

use rusqlite::{Connection, Params, params, params_from_iter};

use crate::model::claim::{Claim, ClaimCounts};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::table::Change;

use super::clusters::load_clusters;
use super::connection::Store;
use super::facts::{read_body, select_facts, visit_facts, write_body, write_facts};
use super::filter::Filter;
use super::stored::{OF_NAMESPACE, Stored, Visitor, select_ids, select_names};

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
    /// Hands on all claims without their documents, one by one, in the order of insertion.
    pub fn visit_claims(
        &self,
        visit: &mut dyn FnMut(Claim) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        visit_facts(self.conn(), "ORDER BY id", [], visit)
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
        for id in select_ids(conn, "claim", OF_NAMESPACE, namespace)? {
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
