//! One binary for all tests. A module that is not named here is not run; `architecture` checks
//! that each file is. Tests begin in the order of their names: a module whose test takes minutes has
//! a name early in the alphabet.
//!
//! Tests are written in as few notations as possible, one for each purpose:
//!
//! - **A command that is run** is a line, as people type it: `sandbox.ok("pool create lab --fake")`
//!   must succeed, `sandbox.refused(4, "pool create lab", "there is a pool")` must fail with this
//!   exit code and message, `sandbox.run(...)` may do either. `sandbox.rs` is this fixture;
//!   `lab.rs` adds a stand-in for openshift-install, `rigs.rs` and `rack.rs` add management
//!   controllers.
//! - **What people see** is a transcript, `tests/cli/*.txt`: `$ command` and what it printed. A new
//!   command or message is tested there first, because a transcript is documentation as well.
//!   `transcripts.rs` plays them; `POOLCTL_BLESS=1` writes them anew. So are the blocks `console` of
//!   the book in `docs/`, which `chapters.rs` plays.
//! - **What happens step by step** is a scenario: a name, then a step or an expectation a line;
//!   scenarios are separated by empty lines. So are hosts (`cases/agents/`, a file per chapter),
//!   addresses (`cases/addresses.txt`), shortages of bare metal (`cases/shortages.txt`), the rules
//!   of agent-config.yaml (`cases/agent_config.txt`) and pools that heal by themselves
//!   (`cases/healing/`, a file per chapter). `cases.rs` reads them; the words of a
//!   file are explained at its head, or in the test that plays it.
//! - **What the planner makes of a state** is a row of columns separated by ` | `: pools
//!   (`cases/pools.txt`) and power states (`cases/power.txt`). The state of pools, clusters and
//!   claims before is a line such as `size 1; c1=R; claims k`, which `fixture.rs` reads; `claims`
//!   and `properties` use such lines, too.
//! - **What a function makes of a document** is a document itself, with what goes in and what comes
//!   out: patches, one JSON object a line (`cases/patches.txt`), and data templates in YAML
//!   (`cases/templates.txt`).
//! - **What people know from kubectl** is a row of a command, its exit code and what it prints
//!   (`cases/kubectl.txt`), which `kubectl.rs` plays.
//! - **What has no effect here** is a row of a kind, a path and a part of a spec
//!   (`cases/fields_without_effect.txt`), which `admission.rs` applies.
//! - **What the installer refuses of an install-config** is a row of a rule with an example that keeps
//!   it and one that breaks it (`cases/preflight.txt`), which `preflight.rs` reads.
//! - **Manifests in the shapes that metal3 publishes** are in `cases/metal3_shapes.txt`.
//! - **Laws over random histories** are properties: `properties.rs`, `sharing.rs`, `tenants.rs`.
//! - **What a lab goes through in weeks** is a history of the simulator, a step a line:
//!   `sim/step.rs` explains the words, and `cases/sim/` has those that once broke a law.
//! - **What processes, disks and machines do at the worst moment** is the torture suite
//!   (`torture/`); what reads the texts of others is fuzzed with a corpus (`fuzz/corpus/`, a folder
//!   per target). `POOLCTL_TORTURE=all` runs all of both, and `cargo test` a slice.
//!
//! `cases/index.txt` says for every scenario of the specification where it is tested, or why not.
//! A test has the name of the rule that it holds. One that cannot run here says SKIP and why; with
//! `POOLCTL_REQUIRE_ALL` it fails instead.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod address_lists;
mod addresses;
mod admins;
mod admission;
mod agent_config;
mod agents;
mod architecture;
mod bad_day;
mod bad_input;
mod baremetal;
mod baremetal_example;
mod baremetal_faults;
mod baremetal_rivals;
mod cases;
mod chapters;
mod ci_examples;
mod circles;
mod claims;
mod classifications;
mod cluster_install;
mod completions;
mod concurrency;
mod config_maps;
mod constraints;
mod contributing;
mod crowd;
mod discovery;
mod distress;
mod drivers;
mod due_agents;
mod due_rows;
mod durability;
mod everywhere;
mod evidence;
mod examples;
mod explain;
mod faults;
mod first_hour;
mod fixture;
mod followers;
mod foreign_leases;
mod fuzz;
mod given_back;
mod growing;
mod healing;
mod history;
mod hive_doors;
mod hubs;
mod images;
mod in_place;
mod index;
mod kubectl;
mod lab;
mod language;
mod large_labs;
mod large_moves;
mod leased_whole;
mod leases;
mod leases_of_hosts;
mod logs;
mod machines;
mod manifest_schema;
mod metal;
mod metal3_shapes;
mod migrations;
mod moved_leases;
mod moving;
mod network;
mod newest_schema;
mod nobodys_machines;
mod on_change;
mod once;
mod other_tools;
mod outage;
mod output;
mod own_drivers;
mod packages;
mod pages;
mod parts_of_agents;
mod patches;
mod picture;
mod planner;
mod power;
mod preflight;
mod properties;
mod published_shapes;
mod pxe;
mod queries;
mod rack;
mod readme;
mod realworld;
mod reference;
mod regressions;
mod restored;
mod returned;
mod returning;
mod rigs;
mod running;
mod sandbox;
mod schemas;
mod screens;
mod served;
mod sessions;
mod shared_pools;
mod sharing;
mod shortage;
mod sim;
mod site;
mod site_troubles;
mod skips;
mod slips;
mod spread;
mod status;
mod templates;
mod tenants;
mod terminal;
mod torture;
mod transcripts;
mod trust;
mod truth;
mod unusable_state;
mod updating;
mod upkeep;
mod vendors;
mod week;
mod wiping;
