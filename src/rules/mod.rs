//! Refuses: pure validation of objects, and of what must always hold. Changes nothing.

pub mod access;
mod addresses;
pub mod agents;
mod annotations;
pub mod data_templates;
mod holders;
mod hosts;
pub mod infra_envs;
mod invariants;
mod names;
mod objects;
mod patches;
mod selectors;
pub mod validations;

pub use holders::one_holder_each;
pub use invariants::invariants;
pub use names::{installer_variable, label, label_key, label_value, name_of};
pub use objects::{check, warnings};
