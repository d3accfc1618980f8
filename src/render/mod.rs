//! Writes: pure functions from objects to the documents that installers read. Never does IO.

pub mod address_lists;
pub mod agent_config;
pub mod assisted_objects;
pub mod cluster_dns;
pub mod discovery;
pub mod hive_objects;
pub mod hive_schedules;
pub mod hive_version;
pub mod host_data;
pub mod install_config;
pub mod manifests;
pub mod metal3_objects;
pub mod patch;
pub mod pxe;
pub mod redact;
pub mod url_passwords;
pub mod wipe;
