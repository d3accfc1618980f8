//! Keeps the state: the only SQL of the program. The store makes and opens the state file, loads
//! what a scope needs and writes a difference. It knows no rules and decides nothing.
//!
//! A kind of objects has one file, with its queries and the order in which its rows are written.
//! `load.rs` and `references.rs` say what belongs to a scope, and `write.rs` says in which order
//! the kinds are written.

mod address_book;
mod address_news;
mod agent_parts;
mod agents;
mod backup;
mod body_checksums;
mod changed_leases;
mod claims;
mod clusters;
mod connection;
pub mod copies;
mod customizations;
mod doctor;
mod documents;
mod due;
mod event_chain;
mod events;
mod facts;
mod filter;
mod free_addresses;
mod hosts;
mod infra_envs;
mod instants;
mod ip_claims;
mod ip_counts;
mod ip_leases;
mod ip_pools;
mod jobs;
mod last_commit;
mod load;
mod lock;
mod lock_holder;
mod log_damage;
mod log_match;
mod mark;
mod migrate;
mod names;
mod namespaces;
mod nmstate_configs;
mod open;
mod pages;
mod pools;
mod prune;
mod references;
mod repeated_columns;
mod reserve;
mod salvage;
mod schema;
mod second_names;
mod secrets;
mod snapshot;
mod state_row;
mod stored;
mod table_list;
mod templates;
mod temporary;
mod tenants;
mod transactions;
mod write;

pub use agent_parts::{decode_all_parts, refuse_unreadable_parts};
pub use backup::{
    RestoreTarget, inspect_restore_target, move_state_aside, path_for_replaced_state, read_backup,
};
pub use connection::Store;
pub use doctor::list_job_folders;
pub use due::DueFilter;
pub use filter::Filter;
pub use load::NeededObject;
pub use lock::{Lock, LockWait, find_frozen_writer, read_beside_writers, try_pass_lock};
pub use mark::CommitMark;
pub use prune::SweepProgress;
pub use salvage::{SalvagedTable, salvage_state};
pub use schema::{MIGRATIONS_DIGEST, SCHEMA};
pub use stored::Stored;
pub use write::{RefusedPools, invariant_violated_event, write, write_pool_by_pool};

use rusqlite::ErrorCode;

use crate::model::refusal::{Exit, Refusal};

/// What helps whoever has a state that is corrupt.
const WAYS_OUT_OF_CORRUPTION: &str = "poolctl restore BACKUP keeps it aside; without a backup: \
                                      poolctl doctor --salvage \"$(poolctl state path)\" --to NEW";

impl From<rusqlite::Error> for Refusal {
    /// Says what SQLite reports in terms of the state file. Only a violated constraint is a
    /// conflict, which a pass answers by writing pool by pool; everything else makes the state
    /// unusable.
    fn from(error: rusqlite::Error) -> Self {
        let Some(code) = error.sqlite_error_code() else {
            return unusable_state(
                "the state file contains data that this poolctl cannot read",
                &error,
            )
            .next("poolctl version");
        };
        match code {
            ErrorCode::ConstraintViolation => {
                Self::conflict("the state file refuses the change").because(error.to_string())
            }
            ErrorCode::DiskFull => {
                unusable_state("the disk with the state file is full; nothing was changed", &error)
                    .advise("make room, then run the command again")
            }
            ErrorCode::SystemIoFailure => unusable_state(
                "the state file cannot be read or written; nothing was changed",
                &error,
            )
            .advise("look at the disk: df -h \"$(dirname \"$(poolctl state path)\")\""),
            ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied => {
                unusable_state("the state file is read-only", &error)
            }
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
                unusable_state("the state file is corrupt; it was left as it is", &error)
                    .advise(WAYS_OUT_OF_CORRUPTION)
            }
            ErrorCode::DatabaseBusy => {
                Self::new(Exit::Busy, "the state file is locked by another program")
                    .because(error.to_string())
                    .advise(
                        "find the process: fuser -v \"$(poolctl state path)\"; kill -CONT PID lets \
                         one go on that is stopped",
                    )
            }
            // SQLite begins to read a hundred times before it gives up.
            ErrorCode::FileLockingProtocolFailed => Self::new(
                Exit::Busy,
                "other commands changed the state without a pause, so that it could not be read",
            )
            .because(error.to_string())
            .advise("run the command again"),
            _ => unusable_state("the state file cannot be used", &error),
        }
    }
}

fn unusable_state(problem: &str, error: &rusqlite::Error) -> Refusal {
    Refusal::new(Exit::State, problem).because(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that was stopped while SQLite made the index of the log makes everybody wait.
    #[test]
    fn a_state_that_another_program_has_locked_is_busy_and_not_unusable() {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        let refusal = Refusal::from(rusqlite::Error::SqliteFailure(code, None));
        assert_eq!(refusal.exit, Exit::Busy);
        assert!(refusal.to_string().contains("next: find the process: fuser -v"), "{refusal}");
        assert!(refusal.is_about_state_file());
    }
}
