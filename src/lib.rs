//! poolctl keeps pools of OpenShift clusters ready, without a hub. It is a functional core with one
//! door to its state. A folder says what its lines may do, and a file says what they are about.
//!
//! | room | does | never |
//! |---|---|---|
//! | `commands/` | hears: a folder per noun, and a file per verb with its arguments and its edit | decides |
//! | `manifest/` | reads: files and standard input become objects | changes a state |
//! | `edits/` | changes: what commands do to a state, a file per kind | knows arguments, or is used by a pass |
//! | `causes/` | explains: why an object is as it is, and what helps | opens a state |
//! | `reconcile/` | is the door and the pass: load, edit, rules, plan, write, commit, act | has an `if` about pools |
//! | `plan/` | decides: a state and a tick become a state, purely and totally | touches clock, dice, disk or programs |
//! | `rules/` | refuses: validation and invariants | changes anything |
//! | `render/` | writes documents: install-config, patches | reads or writes files |
//! | `store/` | keeps: the only SQL | knows rules |
//! | `drivers/` | acts, and reports what became of jobs | decides |
//! | `output/` | shows: rows and documents become text in every format of `-o` | reads the state |
//! | `model/` | names: pure data, a file per kind | does anything |
//! | `world.rs` | touches clock, dice and environment | decides |
//! | `yaml.rs` | is the only YAML | knows kinds |
//!
//! Direction of imports: `main -> commands -> reconcile -> { plan -> { rules, render }, store,
//! drivers, output } -> model`, and `commands -> { edits, causes, manifest } -> { plan, rules,
//! render, model }`; plan, store, drivers and output never name each other. `tests/architecture.rs`
//! checks all of it against the code.
//!
//! # Words
//!
//! - A *host* in the code is a BareMetalHost: what poolctl knows of a machine with a management
//!   controller, by which it switches the machine on and off.
//! - A *machine* is the hardware itself. An Agent stands for one that reports itself, and may be of
//!   the same machine as a host. Help and events call it a host, as the assisted installer does.
//! - A *controller* is the management controller of a machine (BMC), never a loop of a hub.
//! - A *job* is a program that a driver runs in the background; its *verb* is what it is to do.
//! - A *pass* plans and writes a state once; a *tick* is what it knows of clock and chance.
//!
//! # Choices
//!
//! The design leaves these open. Each choice is the one that keeps the code smallest.
//!
//! - The facts of clusters and claims are a table of their own beside their bodies, instead of an
//!   index that covers them. Conditions of clusters and claims follow from the facts and are not
//!   stored.
//! - A cluster at its attempts limit is given up at once; upstream lets a back-off pass first.
//! - A command's own edit and its pass are one transaction, all or nothing. A pass over everything
//!   undoes only the pools that are refused.
//! - A lease outlives the row of a cluster that is left running.
//! - Commands that wait run passes themselves, because nobody else might run any.
//! - `import` and `restore` run no pass, so that a state that was moved can be looked at first. An
//!   export shows work in flight as the other side will find it: interrupted.
//! - Text with characters that a terminal obeys is written as JSON, which is YAML, too, and has
//!   escapes for all of them.
//! - Hosts register again with the token of their InfraEnv only after three minutes of silence, or
//!   when they are awaited.
//! - A host that somebody found and a host that reports are two Agents, of which one counts.
//! - Checks that nobody has reported yet hold up no installation.
//! - The addresses of a cluster are given to nobody else before those of its hosts are back that
//!   somebody has to boot.
//! - Hosts that were picked have an hour to be ready before their cluster is given up.
//! - An Agent that is a node of a living cluster is deleted once its node is.
//! - What a driver prints after its supervisor was killed is thrown away, because nobody will know
//!   how it ended either.

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
