//! Checksums of documents. SQLite keeps none: a bit that flips inside a document passes its
//! integrity check. Each checksum is written with its document; nothing here repairs one.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::model::refusal::Refusal;

use super::schema::{AGENT_BODIES, COLUMNS_OF_AGENT_BODIES, SHARED_TABLE};

/// More damaged documents of a table than this are not listed.
const MOST_LISTED: usize = 20;

/// The first eight bytes of the SHA-256 of a document, as a number for a column.
pub fn checksum_of(document: &[u8]) -> i64 {
    let digest = Sha256::digest(document);
    let mut first_bytes = [0; 8];
    first_bytes.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(first_bytes)
}

/// Finds the documents that differ from what was written. Returns a sentence about each.
pub fn find_changed_documents(conn: &Connection) -> Result<Vec<String>, Refusal> {
    let mut problems = Vec::new();
    for table in select_tables_with_checksums(conn)? {
        problems.extend(find_changed_documents_of(conn, &table)?);
    }
    Ok(problems)
}

fn select_tables_with_checksums(conn: &Connection) -> Result<Vec<String>, Refusal> {
    let sql = "SELECT t.name FROM sqlite_schema t, pragma_table_info(t.name) c \
               WHERE t.type = 'table' AND c.name = 'checksum' ORDER BY t.name";
    let mut statement = conn.prepare(sql)?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

fn find_changed_documents_of(conn: &Connection, table: &str) -> Result<Vec<String>, Refusal> {
    // Documents of an earlier schema have no checksum until they are written again.
    let kind_column = if table == SHARED_TABLE { "kind || ' '" } else { "''" };
    let document_sql = document_of(table);
    let sql = format!(
        "SELECT id, body, checksum, {document_sql}, {kind_column} FROM {table} \
         WHERE checksum IS NOT NULL"
    );
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut problems = Vec::new();
    while let Some(row) = rows.next()? {
        let checksum: i64 = row.get(2)?;
        if problems.len() < MOST_LISTED && checksum_of(bytes_of(row, 3)?) != checksum {
            let kind: String = row.get(4)?;
            let name = describe_document(row)?;
            problems.push(format!(
                "the document of {kind}{name} in table {table} is not the one that was \
                 written: compare it with a backup, then edit it or restore that"
            ));
        }
    }
    Ok(problems)
}

/// Takes the documents as they are: from now on they count as what was written. Needs an open write
/// transaction.
pub fn accept_documents(conn: &Connection) -> Result<(), Refusal> {
    for table in select_tables_with_checksums(conn)? {
        write_new_checksums(conn, &table, "checksum IS NOT NULL")?;
    }
    Ok(())
}

/// The numbers of the Agents that differ from what was written, in a state of schema 13.
pub fn select_damaged_agents_of_schema_13(conn: &Connection) -> Result<Vec<i64>, Refusal> {
    let sql = "SELECT id, body || coalesce(inventory, '') || coalesce(validations, ''), checksum \
               FROM agent_body WHERE checksum IS NOT NULL";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut damaged = Vec::new();
    while let Some(row) = rows.next()? {
        if checksum_of(bytes_of(row, 1)?) != row.get::<_, i64>(2)? {
            damaged.push(row.get(0)?);
        }
    }
    Ok(damaged)
}

/// Gives checksums to the Agents that have none because a migration has moved their parts. Those of
/// damaged ones are wrong, as they were before: a migration must not hide what is damaged. Needs an open
/// write transaction.
pub fn write_missing_checksums_of_agents(
    conn: &Connection,
    damaged: &[i64],
) -> Result<(), Refusal> {
    write_new_checksums(conn, AGENT_BODIES, "checksum IS NULL")?;
    for id in damaged {
        conn.execute("UPDATE agent_body SET checksum = ~checksum WHERE id = ?1", [id])?;
    }
    Ok(())
}

/// Writes the checksums that have changed of the documents which a condition in SQL names.
fn write_new_checksums(conn: &Connection, table: &str, condition: &str) -> Result<(), Refusal> {
    let document_sql = document_of(table);
    let sql = format!("SELECT id, {document_sql}, checksum FROM {table} WHERE {condition}");
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut new_checksums: Vec<(i64, i64)> = Vec::new();
    while let Some(row) = rows.next()? {
        let checksum: Option<i64> = row.get(2)?;
        let new_checksum = checksum_of(bytes_of(row, 1)?);
        if checksum != Some(new_checksum) {
            new_checksums.push((row.get(0)?, new_checksum));
        }
    }
    let sql = format!("UPDATE {table} SET checksum = ?2 WHERE id = ?1");
    let mut statement = conn.prepare(&sql)?;
    for values in new_checksums {
        statement.execute(values)?;
    }
    Ok(())
}

/// The whole document of a row, in SQL.
fn document_of(table: &str) -> String {
    if table == AGENT_BODIES {
        COLUMNS_OF_AGENT_BODIES.map(|column| format!("coalesce({column}, '')")).join(" || ")
    } else {
        "body".to_owned()
    }
}

/// The bytes of a column with a document, also of one that is no text any more.
fn bytes_of<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a [u8], Refusal> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        _ => &[],
    })
}

/// The name in a document, the second column, if it still has one; else the number of its row.
fn describe_document(row: &Row<'_>) -> Result<String, Refusal> {
    let document: Option<Value> = serde_json::from_slice(bytes_of(row, 1)?).ok();
    let name = document.as_ref().and_then(|document| document.pointer("/metadata/name")?.as_str());
    Ok(match name {
        Some(name) => format!("`{name}`"),
        None => format!("row {}", row.get::<_, i64>(0)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_has_changed_is_found_whatever_is_left_of_it() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "CREATE TABLE document (id INTEGER PRIMARY KEY, kind, body, checksum INTEGER)",
        )
        .unwrap();
        let body = r#"{"metadata":{"name":"lab"}}"#;
        let sql = "INSERT INTO document (kind, body, checksum) VALUES ('Secret', ?1, ?2)";
        for _ in 0..2 {
            conn.execute(sql, (body, checksum_of(body.as_bytes()))).unwrap();
        }
        conn.execute(sql, (body, None::<i64>)).unwrap();
        assert!(find_changed_documents(&conn).unwrap().is_empty());
        let sql = "UPDATE document SET body = replace(body, '}}', ',\"uid\":1}}') WHERE id = 1";
        conn.execute(sql, []).unwrap();
        conn.execute("UPDATE document SET body = x'ff00' WHERE id = 2", []).unwrap();
        let problems = find_changed_documents(&conn).unwrap();
        assert_eq!(problems.len(), 2);
        assert!(
            problems[0].starts_with("the document of Secret `lab` in table document"),
            "{problems:?}"
        );
        assert!(
            problems[1].starts_with("the document of Secret row 2 in table document"),
            "{problems:?}"
        );
    }
}
