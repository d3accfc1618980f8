//! Edits: what commands do to a state, as functions of values. Each kind has a file of its own, and
//! `put`, `delete` and `import` edit objects of any kind. Knows no arguments, reads no files, and
//! is never used by a pass.

mod addresses;
pub mod agents;
mod claims;
mod clusters;
mod customizations;
mod data_templates;
mod delete;
mod documents;
mod edited;
mod events;
mod hold;
mod host_identities;
mod hosts;
mod infra_envs;
mod losses;
mod outcome;
mod pools;
mod put;
mod put_mode;
mod quarantine;
mod secrets;
mod settings;

pub use data_templates::restore_indexes;
pub use delete::delete_object;
pub use documents::{initialize_metadata, refuse_deleted};
pub use edited::import_object;
pub use events::{record_event, record_warning};
pub use hold::Holding;
pub use losses::{RestoreLoss, Snapshot, find_gone_clusters, find_losses};
pub use outcome::{DeleteOutcome, PutOutcome};
pub use pools::PoolSizes;
pub use put::put_object;
pub use put_mode::PutMode;
pub use quarantine::{FreedObject, hold_free_objects, is_free_cluster, release_quarantine};
