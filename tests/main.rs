//! One binary for all tests. A module that is not named here is not run; `architecture` checks
//! that each file is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod addresses;
mod agent_config;
mod agents;
mod architecture;
mod bad_input;
mod baremetal;
mod baremetal_example;
mod claims;
mod completions;
mod concurrency;
mod constraints;
mod discovery;
mod drivers;
mod durability;
mod everywhere;
mod explain;
mod faults;
mod fixture;
mod growing;
mod images;
mod index;
mod lab;
mod leases;
mod machines;
mod moving;
mod patches;
mod planner;
mod power;
mod properties;
mod rack;
mod readme;
mod realworld;
mod regressions;
mod returning;
mod rigs;
mod running;
mod sandbox;
mod served;
mod sharing;
mod templates;
mod tenants;
mod terminal;
mod transcripts;
mod unusable_state;
mod updating;
mod upkeep;
mod vendors;
