//! The chain of events. Each event has a link: the hash of the event and of the link before it. So
//! an event that was changed, removed or put in by another program is found. Old events that are
//! removed leave a gap, which has the link of the last of them. Nothing here decides what is removed.

use rusqlite::{Connection, OptionalExtension, Row, params};
use sha2::{Digest, Sha256};

use crate::model::event::{Event, EventType};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;

use super::state_row::read_state_row;

/// Bytes of a SHA-256 that a link keeps.
const LINK_SIZE: usize = 16;
/// More breaks than this are not listed.
const MOST_LISTED: usize = 20;

/// The columns of an event that its link covers, in the order of `LinkedEvent`.
const LINKED_COLUMNS: &str = "id, link, time, warning, reason, kind, namespace, name, actor, message, infra_env, cluster, \
     pool";

/// What a link is made of. The texts are those from `reason` to `pool`.
struct LinkedEvent {
    time: i64,
    is_warning: bool,
    texts: [Option<String>; 9],
}

impl LinkedEvent {
    fn of_event(event: &Event) -> Self {
        Self {
            time: event.time.0,
            is_warning: event.event_type == EventType::Warning,
            texts: [
                Some(event.reason.clone()),
                Some(event.kind.to_owned()),
                Some(event.object.namespace.clone()),
                Some(event.object.name.clone()),
                Some(event.actor.clone()),
                Some(event.message.clone()),
                event.infra_env.as_ref().map(Key::to_string),
                event.cluster.as_ref().map(Key::to_string),
                event.pool.as_ref().map(Key::to_string),
            ],
        }
    }

    /// Reads a row of `LINKED_COLUMNS`.
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let mut texts = <[Option<String>; 9]>::default();
        for (index, field) in texts.iter_mut().enumerate() {
            *field = row.get(4 + index)?;
        }
        Ok(Self { time: row.get(2)?, is_warning: row.get(3)?, texts })
    }

    /// The link of this event behind the one before it; the first event of all has none before.
    fn link_behind(&self, link_before: Option<&[u8]>) -> Vec<u8> {
        let mut hash = Sha256::new();
        hash.update(link_before.unwrap_or_default());
        hash.update(self.time.to_be_bytes());
        hash.update([u8::from(self.is_warning)]);
        for field in &self.texts {
            // With its length, so that no text can pass for the end of the one before.
            match field {
                Some(value) => {
                    hash.update([1_u8]);
                    hash.update((value.len() as u64).to_be_bytes());
                    hash.update(value.as_bytes());
                }
                None => hash.update([0_u8]),
            }
        }
        hash.finalize()[..LINK_SIZE].to_vec()
    }
}

/// The end of the chain, to which a transaction appends.
pub struct EventChain {
    last_link: Option<Vec<u8>>,
}

impl EventChain {
    /// Reads the end of the chain. Needs the write transaction that appends to it.
    pub fn load(conn: &Connection) -> Result<Self, Refusal> {
        Ok(Self { last_link: read_state_row(conn)?.last_link })
    }

    /// The link of an event, which is the end of the chain from now on.
    pub fn append(&mut self, event: &Event) -> Vec<u8> {
        let link = LinkedEvent::of_event(event).link_behind(self.last_link.as_deref());
        self.last_link = Some(link.clone());
        link
    }

    /// The end of the chain. The caller writes it with the mark of the commit.
    pub fn last_link(&self) -> Option<&[u8]> {
        self.last_link.as_deref()
    }
}

/// Notes that an event was removed because it was old, so that the chain goes on behind it.
pub fn note_removed_event(conn: &Connection, id: i64, link: Option<&[u8]>) -> Result<(), Refusal> {
    let sql = "DELETE FROM event_gap WHERE last = ?1 RETURNING first";
    let mut statement = conn.prepare_cached(sql)?;
    let first_of_stretch = statement.query_row([id - 1], |row| row.get(0)).optional()?;
    let first = first_of_stretch.unwrap_or(id);
    // The events behind it may have been removed before.
    let sql = "UPDATE event_gap SET first = ?2 \
               WHERE last = (SELECT min(last) FROM event_gap WHERE last > ?1) AND first = ?1 + 1";
    if conn.prepare_cached(sql)?.execute([id, first])? == 0 {
        let sql = "INSERT INTO event_gap (last, first, link) VALUES (?1, ?2, ?3)";
        conn.prepare_cached(sql)?.execute(params![id, first, link])?;
    }
    Ok(())
}

/// A stretch of events that were removed because they were old.
struct EventGap {
    last: i64,
    first: i64,
    link: Option<Vec<u8>>,
}

fn select_gaps(conn: &Connection) -> Result<Vec<EventGap>, Refusal> {
    let mut statement = conn.prepare("SELECT last, first, link FROM event_gap ORDER BY last")?;
    let gaps = statement.query_map([], |row| {
        Ok(EventGap { last: row.get(0)?, first: row.get(1)?, link: row.get(2)? })
    })?;
    Ok(gaps.collect::<Result<_, _>>()?)
}

/// Follows the chain, and notes where it breaks.
#[derive(Default)]
struct ChainWalk {
    /// The number of the last event that was passed.
    position: i64,
    /// The link of that event; none before the chain begins.
    link: Option<Vec<u8>>,
    /// A sentence about each break.
    breaks: Vec<String>,
}

impl ChainWalk {
    /// Goes on to the events from this number on. Whether none are missing in between.
    fn reach(&mut self, first: i64) -> bool {
        let missing = self.position + 1;
        let is_whole = first == missing;
        if first > missing + 1 {
            self.note_break(format!("the events {missing} to {} are missing", first - 1));
        } else if !is_whole {
            self.note_break(format!("event {missing} is missing"));
        }
        is_whole
    }

    fn pass_gap(&mut self, gap: EventGap) {
        self.reach(gap.first);
        self.position = gap.last;
        self.link = gap.link;
    }

    fn pass_event(&mut self, id: i64, kept_link: Option<Vec<u8>>, event: &LinkedEvent) {
        let is_next = self.reach(id);
        self.position = id;
        let Some(kept_link) = kept_link else {
            if self.link.is_some() {
                self.note_break(format!("event {id} was not written by poolctl"));
            }
            return;
        };
        // Behind a missing event every link is another one.
        if is_next && event.link_behind(self.link.as_deref()) != kept_link {
            self.note_break(format!("event {id} has changed, or the one before it is another"));
        }
        self.link = Some(kept_link);
    }

    fn note_break(&mut self, sentence: String) {
        if self.breaks.len() < MOST_LISTED {
            self.breaks.push(sentence);
        }
    }
}

/// Finds events that were changed, removed or put in by another program. Returns a sentence about
/// each.
pub fn find_breaks_of_chain(conn: &Connection) -> Result<Vec<String>, Refusal> {
    let mut walk = ChainWalk::default();
    let mut gaps = select_gaps(conn)?.into_iter().peekable();
    let sql = format!("SELECT {LINKED_COLUMNS} FROM event ORDER BY id");
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        while let Some(gap) = gaps.next_if(|gap| gap.last < id) {
            walk.pass_gap(gap);
        }
        walk.pass_event(id, row.get(1)?, &LinkedEvent::read(row)?);
    }
    for gap in gaps {
        walk.pass_gap(gap);
    }
    if EventChain::load(conn)?.last_link != walk.link {
        let position = walk.position;
        walk.note_break(format!("events behind {position}, the newest one, are missing"));
    }
    Ok(walk.breaks)
}

/// Makes the chain anew from the events that there are; what is missing counts as removed. Needs an
/// open write transaction.
pub fn rebuild_chain(conn: &Connection) -> Result<(), Refusal> {
    conn.execute("DELETE FROM event_gap", [])?;
    let mut statement = conn.prepare("SELECT id FROM event ORDER BY id")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    let ids: Vec<i64> = rows.collect::<Result<_, _>>()?;
    let sql = format!("SELECT {LINKED_COLUMNS} FROM event WHERE id = ?1");
    let mut select = conn.prepare(&sql)?;
    let mut update = conn.prepare("UPDATE event SET link = ?2 WHERE id = ?1")?;
    let mut chain = EventChain { last_link: None };
    let mut position = 0;
    for id in ids {
        if id > position + 1 {
            let sql = "INSERT INTO event_gap (last, first, link) VALUES (?1, ?2, ?3)";
            conn.execute(sql, params![id - 1, position + 1, chain.last_link])?;
        }
        let event = select.query_row([id], LinkedEvent::read)?;
        let link = event.link_behind(chain.last_link.as_deref());
        update.execute(params![id, link])?;
        chain.last_link = Some(link);
        position = id;
    }
    conn.execute("UPDATE state SET last_link = ?1", [chain.last_link])?;
    Ok(())
}
