//! `run`: claims a cluster, runs a command with it, and releases it whatever happens.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};

use anyhow::bail;
use clap::Args;

use crate::drivers::process::{self, Foreground};
use crate::model::refusal::{Exit, Refusal};
use crate::model::time::Span;
use crate::store::Store;
use crate::world;

use crate::commands::claim::{Made, Terms};
use crate::commands::cluster::credentials;
use crate::commands::{Context, Quit, Verb, claim};

#[derive(Args)]
pub struct Run {
    #[arg(value_name = "POOL")]
    pool: String,
    #[command(flatten)]
    terms: Terms,
    /// How long to wait for a cluster
    #[arg(long, value_name = "DURATION", default_value = "45m")]
    wait: Span,
    /// The command and its arguments; it finds KUBECONFIG, POOLCTL_CLAIM and POOLCTL_CLUSTER set
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const TERMINATE: i32 = 15;
const KILL: i32 = 9;

impl Verb for Run {
    const NAME: &'static str = "run";
    const ABOUT: &'static str = "Run a command with a cluster that is released afterwards";
    const EXAMPLE: &'static str =
        "poolctl run lab --lifetime 2h -- sh -c 'test -r \"$KUBECONFIG\"'";
    /// Guests get this far to be told what helps: behind sudo nobody may run anything.
    const FOR_GUESTS: bool = true;

    /// Whatever is wrong with poolctl's own part is exit 125; else the command's code.
    fn run(self, context: &Context) -> anyhow::Result<()> {
        if context.world.is_behind_sudo() {
            let what = "`poolctl run` is for the account's owner, not behind sudo";
            let why = format!("its command would run as {}", context.world.account());
            let next = format!("poolctl claim --wait {}", self.pool);
            bail!(Refusal::new(Exit::Denied, what).because(why).next(next));
        }
        let own = |refusal: Refusal| match refusal.exit {
            Exit::Interrupted | Exit::Terminated => refusal,
            _ => Refusal { exit: Exit::Run, ..refusal },
        };
        // Before anything is claimed: a cluster would be destroyed for a mistyped command.
        if let Some(program) = self.command.first() {
            process::look_up(program, &world::program_folders())
                .map_err(|error| cannot_run(program, &error))?;
        }
        context.world.catch_signals();
        let store = context.look().map_err(own)?;
        let made = claim::take(context, &store, &self.pool, None, &self.terms).map_err(own)?;
        let ran = self.with_cluster(context, &store, &made);
        let released = claim::give_back(context, &store, &made).map_err(own);
        if released.is_ok() {
            context.hint(&format!("claim/{} released", made.key.name));
        }
        let code = ran.map_err(own)?;
        if code == 0 {
            released?;
        } else if let Err(refusal) = released {
            context.warn(&format!(
                "claim `{}` could not be released: {}",
                made.key.name, refusal.what
            ));
        }
        bail!(Quit(code))
    }
}

impl Run {
    fn with_cluster(&self, context: &Context, store: &Store, made: &Made) -> Result<u8, Refusal> {
        let key = &made.key;
        claim::wait(context, store, made, self.wait)?;
        if let Some(caught) = context.world.interrupted() {
            return Err(Refusal::new(Exit::by_signal(caught.signal), "interrupted"));
        }
        let gone = || Refusal::not_found(format!("claim `{}` is gone", key.name));
        let claim = made.look(store)?.ok_or_else(gone)?;
        if claim.expires().is_none() {
            context.hint("the claim has no lifetime: if this poolctl is killed, it stays");
        }
        let cluster = claim.cluster.clone().ok_or_else(gone)?;
        let kubeconfig = credentials::kubeconfig_of(context, store, &key.name)?;
        let variables = vec![
            ("KUBECONFIG", kubeconfig.into()),
            ("POOLCTL_CLAIM", key.name.clone().into()),
            ("POOLCTL_CLUSTER", cluster.into()),
            // What it calls of poolctl finds the same claim.
            ("POOLCTL_STATE", store.path().into()),
            ("POOLCTL_NAMESPACE", key.namespace.clone().into()),
        ];
        let (program, arguments) = self.command.split_first().ok_or_else(gone)?;
        let (program, arguments) = (program.clone(), arguments.to_vec());
        let umask = context.world.umask;
        let command = Foreground { program, arguments, variables, umask };
        // What is typed at a terminal reaches the command by itself.
        let sent = Cell::new(0);
        let signal = || {
            let caught = context.world.interrupted().filter(|caught| !caught.typed)?;
            sent.set(sent.get() + 1);
            // Whoever has to say it again means it.
            Some(match sent.get() {
                1 => caught.signal,
                2 => TERMINATE,
                _ => KILL,
            })
        };
        command.attend(signal).or_else(|error| {
            let name = self.command.first().map(|name| name.to_string_lossy().into_owned());
            context.warn(&format!("`{}` cannot be run: {error}", name.unwrap_or_default()));
            Ok(exit_of(&error) as u8)
        })
    }
}

/// Why the command was not started, as shells have it: it is not there, or it cannot be run.
fn exit_of(error: &io::Error) -> Exit {
    if error.kind() == ErrorKind::NotFound {
        Exit::CommandNotFound
    } else {
        Exit::CommandNotExecutable
    }
}

fn cannot_run(program: &OsStr, error: &io::Error) -> Refusal {
    let name = program.to_string_lossy();
    let next = if name.contains('/') {
        format!("ls -ld '{name}'")
    } else {
        "echo \"$PATH\" shows where it was looked for".to_owned()
    };
    Refusal::new(exit_of(error), format!("`{name}` cannot be run; nothing was claimed"))
        .because(error.to_string())
        .advise(next)
}
