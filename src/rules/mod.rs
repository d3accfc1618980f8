//! Refuses: pure validation of objects, and of what must always hold. Changes nothing.

pub mod access;
mod addresses;
mod admission;
pub mod agents;
mod annotations;
mod certificates;
pub mod data_templates;
mod holders;
mod hosts;
pub mod infra_envs;
mod invariants;
mod limits;
mod names;
mod nmstate;
mod objects;
mod patches;
pub mod preflight;
mod problems;
pub mod query;
mod selectors;
mod site;
pub mod validations;
mod without_effect;

pub use addresses::check_pools_apart;
pub use admission::{check_admission, describe_kept_problems, find_fixed_changes, missing_fields};
pub use annotations::find_hive_problem;
pub use holders::check_single_holders;
pub use invariants::check_invariants;
pub use limits::find_limited_values;
pub use names::{
    check_dns_label, check_dns_name, check_name, is_data_key, is_installer_variable, is_label_key,
    is_label_value,
};
pub use objects::{check_editable, check_object, manifest_warnings, object_warnings};
