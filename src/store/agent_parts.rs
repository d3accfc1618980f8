//! The document of an Agent is in the columns of a row of `agent_body`: the body, and its longest parts
//! beside it. The parts are decoded when somebody reads them; most commands read none.

use std::mem;
use std::rc::Rc;

use rusqlite::{Connection, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::agent::inventory::Inventory;
use crate::model::agent::{Agent, Validations};
use crate::model::condition::Condition;
use crate::model::deferred::{DecodeError, Deferred};
use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::body_checksums::checksum_of;
use super::documents::{to_body, unreadable_row};
use super::schema::AGENT_BODIES;
use super::stored::select_ids;

/// Reads the parts of an Agent, whose columns are selected by their names.
pub fn read_parts(
    row: &Row<'_>,
    agent: &mut Agent,
    decode_error: &DecodeError,
) -> Result<(), Refusal> {
    let status = &mut agent.status;
    status.conditions = read_part(row, "conditions", decode_error)?.unwrap_or_default();
    status.inventory = read_part(row, "inventory", decode_error)?;
    status.validations_info = read_part(row, "validations", decode_error)?.unwrap_or_default();
    Ok(())
}

fn read_part<T: DeserializeOwned + Default>(
    row: &Row<'_>,
    column: &str,
    decode_error: &DecodeError,
) -> Result<Option<Rc<Deferred<T>>>, Refusal> {
    let json: Option<String> = row.get(column)?;
    Ok(json.map(|json| Rc::new(Deferred::from_json(json, decode_error))))
}

/// Decodes the parts of an Agent that nobody has read yet.
pub fn decode_parts(agent: &Agent) {
    agent.conditions();
    agent.inventory();
    agent.status.validations_info.get();
}

/// Decodes all parts of the Agents in a state that is shown, and refuses those that cannot be decoded.
pub fn decode_all_parts(state: &State) -> Result<(), Refusal> {
    state.agents.rows().for_each(decode_parts);
    refuse_unreadable_parts(&state.decode_error)
}

/// Refuses to go on with Agents of which a part could not be decoded.
pub fn refuse_unreadable_parts(decode_error: &DecodeError) -> Result<(), Refusal> {
    decode_error.get().map_or(Ok(()), |why| {
        Err(unreadable_row(Kind::Agent, AGENT_BODIES, why).next("poolctl doctor"))
    })
}

/// A part of an Agent that cannot be decoded.
pub struct UnreadablePart {
    /// The number of the Agent's row.
    id: i64,
    /// The name of the Agent.
    pub agent: String,
    pub column: &'static str,
    pub why: String,
}

/// Finds the parts of Agents that cannot be decoded.
pub fn find_unreadable_parts(conn: &Connection) -> Result<Vec<UnreadablePart>, Refusal> {
    let sql = "SELECT name, conditions, inventory, validations \
               FROM agent CROSS JOIN agent_body USING (id) WHERE id = ?1";
    let mut unreadable = Vec::new();
    for id in select_ids(conn, AGENT_BODIES, None)? {
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query([id])?;
        let Some(row) = rows.next()? else { continue };
        let errors = [
            ("conditions", why_unreadable::<Vec<Condition>>(row, "conditions")?),
            ("inventory", why_unreadable::<Inventory>(row, "inventory")?),
            ("validations", why_unreadable::<Validations>(row, "validations")?),
        ];
        for (column, why) in errors {
            let Some(why) = why else { continue };
            unreadable.push(UnreadablePart { id, agent: row.get("name")?, column, why });
        }
    }
    Ok(unreadable)
}

fn why_unreadable<T: DeserializeOwned + Default>(
    row: &Row<'_>,
    column: &str,
) -> Result<Option<String>, Refusal> {
    let decode_error = DecodeError::default();
    if let Some(part) = read_part::<T>(row, column, &decode_error)? {
        part.get();
    }
    Ok(decode_error.get().cloned())
}

/// Drops the parts of Agents that cannot be decoded. The next pass works out conditions and results of
/// checks again, and a free host reports its hardware again. Needs a write transaction.
pub fn drop_unreadable_parts(conn: &Connection) -> Result<(), Refusal> {
    for UnreadablePart { id, column, .. } in find_unreadable_parts(conn)? {
        let sql = format!("UPDATE agent_body SET {column} = NULL, checksum = NULL WHERE id = ?1");
        conn.prepare_cached(&sql)?.execute([id])?;
        conn.prepare_cached("UPDATE agent SET settled_by = NULL WHERE id = ?1")?.execute([id])?;
    }
    Ok(())
}

/// What the columns of a document hold. A part that is empty is absent.
struct AgentParts {
    body: String,
    conditions: Option<String>,
    inventory: Option<String>,
    validations: Option<String>,
}

impl AgentParts {
    fn of(mut agent: Agent) -> Result<Self, Refusal> {
        let conditions = mem::take(&mut agent.status.conditions);
        let inventory = agent.status.inventory.take();
        let validations = mem::take(&mut agent.status.validations_info);
        Ok(Self {
            body: to_body(&agent)?,
            conditions: json_unless_empty(&conditions)?,
            inventory: inventory.map(|inventory| json_of(&inventory)).transpose()?,
            validations: json_unless_empty(&validations)?,
        })
    }

    /// The checksum of all columns, in the order of `COLUMNS_OF_AGENT_BODIES`.
    fn checksum(&self) -> i64 {
        let parts = [&self.conditions, &self.inventory, &self.validations];
        let present = parts.into_iter().flatten().map(String::as_str);
        let document: String = [&*self.body].into_iter().chain(present).collect();
        checksum_of(document.as_bytes())
    }
}

/// Writes the document of an Agent. What has a column in the row beside it is not in it.
pub fn write_document(conn: &Connection, id: i64, agent: Agent) -> Result<(), Refusal> {
    let parts = AgentParts::of(agent)?;
    let checksum = parts.checksum();
    let AgentParts { body, conditions, inventory, validations } = parts;
    let sql = "INSERT OR REPLACE INTO agent_body \
               (id, body, conditions, inventory, validations, checksum) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let values = params![id, body, conditions, inventory, validations, checksum];
    conn.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// The JSON of a part, unless the part is empty. What is stored is not decoded only to find out.
fn json_unless_empty<T: DeserializeOwned + Default + PartialEq + Serialize>(
    part: &Deferred<T>,
) -> Result<Option<String>, Refusal> {
    let is_empty = part.stored_json().is_none() && *part.get() == T::default();
    (!is_empty).then(|| json_of(part)).transpose()
}

/// The JSON of a part: as it is stored already, or else made anew.
fn json_of<T: DeserializeOwned + Default + Serialize>(
    part: &Deferred<T>,
) -> Result<String, Refusal> {
    part.stored_json().map_or_else(|| to_body(part), |json| Ok(json.to_owned()))
}
