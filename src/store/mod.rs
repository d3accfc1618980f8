//! Keeps: the only SQL. Opens and makes the state file, loads a scope, writes a difference.
//! Knows no rules.

mod address_book;
mod agents;
mod backup;
mod claims;
mod clusters;
mod connection;
pub mod copies;
mod customizations;
mod doctor;
mod documents;
mod events;
mod facts;
mod filter;
mod free_addresses;
mod hosts;
mod infra_envs;
mod ip_claims;
mod ip_counts;
mod ip_leases;
mod ip_pools;
mod jobs;
mod load;
mod lock;
mod mark;
mod migrate;
mod names;
mod nmstate_configs;
mod open;
mod pools;
mod prune;
mod references;
mod schema;
mod secrets;
mod snapshot;
mod stored;
mod templates;
mod tenants;
mod transactions;
mod write;

pub use backup::{Place, before_restore, place, read_backup, set_aside};
pub use connection::Store;
pub use doctor::job_folders;
pub use filter::Filter;
pub use load::Need;
pub use lock::{Lock, try_pass_lock};
pub use mark::Mark;
pub use schema::SCHEMA;
pub use stored::Stored;
pub use write::{Refused, violated, write, write_pool_by_pool};

use rusqlite::ErrorCode;

use crate::model::refusal::{Exit, Refusal};

/// What SQLite says, in terms of the state file.
impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        let unusable = |what: &str| Self::new(Exit::State, what).because(error.to_string());
        let Some(code) = error.sqlite_error_code() else {
            return unusable("the state file holds what this poolctl cannot read")
                .next("poolctl version");
        };
        match code {
            ErrorCode::ConstraintViolation => {
                Self::conflict("the state file refuses the change").because(error.to_string())
            }
            ErrorCode::DiskFull => {
                unusable("the disk with the state file is full; nothing was changed")
                    .advise("make room, then run the command again")
            }
            ErrorCode::SystemIoFailure => {
                unusable("the state file cannot be read or written; nothing was changed")
                    .advise("look at the disk: df -h \"$(dirname \"$(poolctl state path)\")\"")
            }
            ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied => {
                unusable("the state file is read-only")
            }
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
                unusable("the state file is corrupt; it was left as it is")
            }
            ErrorCode::DatabaseBusy => unusable("the state file is locked by another program"),
            _ => unusable("the state file cannot be used"),
        }
    }
}
