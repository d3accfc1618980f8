//! poolctl: pools of ready OpenShift clusters, without a hub. A functional core with one door to
//! its state. A folder says what its lines may do; a file says what they are about.
//!
//! | room | may | never |
//! |---|---|---|
//! | `commands/` | hears: a folder per noun, a file per verb, its arguments and the edit it calls | decides |
//! | `manifest.rs` | reads: files and standard input to objects | changes |
//! | `edits/` | changes: what commands do to a state, a file per kind | knows arguments, or is used by a pass |
//! | `causes.rs` | explains: why an object is as it is, and what helps | opens a state |
//! | `reconcile.rs` | is the door and the pass: load, edit, rules, plan, write, commit, act | an `if` about pools |
//! | `plan/` | decides: State + Tick to State, pure and total | touches clock, dice, disk, programs |
//! | `rules/` | refuses: validation and invariants | changes |
//! | `render/` | writes documents: install-config, patches | does IO |
//! | `store/` | keeps: the only SQL | knows rules |
//! | `drivers/` | acts, and reports what became of jobs | decides |
//! | `output/` | shows: rows to table, json, yaml, name, jsonpath | reads the state |
//! | `model/` | names: pure data, one file per kind | does anything |
//! | `world.rs` | touches clock, dice and environment | decides |
//! | `yaml.rs` | is the only YAML | knows kinds |
//!
//! Direction: `main -> commands -> reconcile -> { plan -> { rules, render }, store, drivers,
//! output } -> model`, and `commands -> { edits, causes, manifest } -> { plan, rules, render, model }`;
//! plan, store, drivers and output never name each other. `tests/architecture.rs` holds all of it
//! against the code.
//!
//! Choices where the design is silent, each because it keeps the code smallest: the facts of
//! clusters and claims are a table of their own beside their bodies (instead of an index that
//! covers them); conditions of clusters and claims follow from the facts and are not stored; a
//! cluster at its attempts limit is given up at once (upstream lets a back-off pass first); a
//! command's own edit and its pass are one transaction, all or nothing, while a pass over
//! everything undoes only the pools that are refused; a lease outlives the row of a cluster that
//! is left running; commands that wait run passes themselves, for there is nobody else who would;
//! `import` and `restore` run none, so that what was moved can be looked at first; an export
//! shows work in flight as the other side will find it, interrupted; text with characters that a
//! terminal obeys is written as JSON, which is YAML and has escapes for all of them; hosts register
//! again with their InfraEnv's token only after three minutes of silence or when they are awaited; a
//! host that somebody found and one that reports are two Agents of which one counts; checks that nobody
//! has reported yet hold up no installation; a cluster's addresses are nobody else's until those of
//! its hosts are back that somebody has to boot; hosts that were picked have an hour to be ready before
//! their cluster is given up; an Agent that is a node of a living cluster is deleted once its node is;
//! what a driver prints after its supervisor was killed is thrown away, for nobody will know how it
//! ended either.

pub mod causes;
pub mod commands;
pub mod drivers;
pub mod edits;
pub mod manifest;
pub mod model;
pub mod output;
pub mod plan;
pub mod reconcile;
pub mod render;
pub mod rules;
pub mod store;
pub mod world;
pub mod yaml;
