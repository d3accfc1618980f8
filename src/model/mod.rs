//! Names: pure data. One file per kind, and what they have in common. Never does IO, decides
//! nothing.

pub mod address;
pub mod agent;
pub mod bmc;
pub mod claim;
pub mod clock;
pub mod cluster;
pub mod condition;
pub mod customization;
pub mod data_template;
pub mod deployment;
pub mod documents;
pub mod driver;
pub mod event;
pub mod hardware;
pub mod host;
pub mod infra_env;
pub mod inventory;
pub mod ip_lease;
pub mod ip_pool;
pub mod job;
pub mod kind;
pub mod meta;
pub mod nmstate_config;
pub mod object;
pub mod order;
pub mod platform;
pub mod pool;
pub mod power;
pub mod refusal;
pub mod schedule;
pub mod state;
pub mod table;
pub mod text;
pub mod tick;
pub mod time;
