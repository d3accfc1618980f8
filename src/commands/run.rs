//! `run`: claims a cluster, runs a command with it, and releases the cluster whatever happens.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};

use anyhow::bail;
use clap::Args;

use crate::drivers::process::{self, ForegroundProgram};
use crate::model::refusal::{Exit, Refusal};
use crate::model::time::Span;
use crate::store::Store;
use crate::world;

use crate::commands::claim::{NewClaim, Terms};
use crate::commands::cluster::credentials;
use crate::commands::{Audience, Context, Quit, RunCommand, claim};

/// Arguments of `run`. Its exit code is that of the command that it runs.
#[derive(Args)]
pub struct Run {
    /// Pool to claim the cluster from
    #[arg(value_name = "POOL")]
    pool: String,
    #[command(flatten)]
    terms: Terms,
    /// Maximum time to wait for a cluster
    #[arg(long, value_name = "DURATION", default_value = "45m")]
    wait: Span,
    /// Command with arguments; it gets KUBECONFIG, POOLCTL_CLAIM and POOLCTL_CLUSTER
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Numbers of the signals that end a command: SIGTERM asks it to, SIGKILL does not ask.
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

impl RunCommand for Run {
    const NAME: &'static str = "run";
    const ABOUT: &'static str = "Claim a cluster, run a command with it, and release it";
    const EXAMPLE: &'static str =
        "poolctl run lab --lifetime 2h -- sh -c 'test -r \"$KUBECONFIG\"'";
    /// Nobody may run a command behind sudo, but guests are told here what to type instead.
    const AUDIENCE: Audience = Audience::Guests;

    /// Exits with the code of the command, or with 125 if poolctl's own part fails.
    fn run(self, context: &Context) -> anyhow::Result<()> {
        if context.world.is_behind_sudo() {
            bail!(refuse_behind_sudo(context, &self.pool));
        }
        // Looked up before anything is claimed: a cluster is destroyed after its claim, which a
        // mistyped command is not worth.
        if let Some(program) = self.command.first() {
            process::check_program_exists(program, &world::program_folders())
                .map_err(|error| cannot_run(program, &error))?;
        }
        context.world.catch_signals();
        let store = context.open_existing_state().map_err(as_failure_of_run)?;
        let created_claim = claim::make_new_claim(context, &store, &self.pool, None, &self.terms)
            .map_err(as_failure_of_run)?;
        let ran = self.run_with_cluster(context, &store, &created_claim);
        let released =
            claim::release_new_claim(context, &store, &created_claim).map_err(as_failure_of_run);
        if released.is_ok() {
            context.hint(&format!("claim/{} released", created_claim.key.name));
        }
        let code = ran.map_err(as_failure_of_run)?;
        if code == 0 {
            released?;
        } else if let Err(refusal) = released {
            context.warn(&format!(
                "claim `{}` could not be released: {}",
                created_claim.key.name, refusal.what
            ));
        }
        bail!(Quit(code))
    }
}

/// The same refusal with exit 125, so that it is not taken for a failure of the command. An
/// interruption keeps its own code.
fn as_failure_of_run(refusal: Refusal) -> Refusal {
    match refusal.exit {
        Exit::Interrupted | Exit::Terminated => refusal,
        _ => Refusal { exit: Exit::Run, ..refusal },
    }
}

fn refuse_behind_sudo(context: &Context, pool: &str) -> Refusal {
    Refusal::new(Exit::Denied, "`poolctl run` cannot be used with sudo")
        .because(format!("its command would run as {}", context.world.account_name()))
        .next(format!("poolctl claim --wait {pool}"))
}

impl Run {
    /// Waits for the cluster of a claim, runs the command with it, and returns the command's exit
    /// code.
    fn run_with_cluster(
        &self,
        context: &Context,
        store: &Store,
        created_claim: &NewClaim,
    ) -> Result<u8, Refusal> {
        let key = &created_claim.key;
        claim::wait_for_running_cluster(context, store, created_claim, self.wait)?;
        if let Some(caught) = context.world.take_signal() {
            return Err(Refusal::new(Exit::by_signal(caught.signal), "interrupted"));
        }
        let claim =
            created_claim.read_live_claim(store)?.ok_or_else(|| claim_is_gone(created_claim))?;
        if claim.expires_at().is_none() {
            context.hint("the claim has no lifetime: if poolctl is killed, nothing releases it");
        }
        let cluster = claim.cluster.clone().ok_or_else(|| claim_is_gone(created_claim))?;
        let kubeconfig = credentials::write_kubeconfig_of(context, store, &key.name)?;
        let variables = vec![
            ("KUBECONFIG", kubeconfig.into()),
            ("POOLCTL_CLAIM", key.name.clone().into()),
            ("POOLCTL_CLUSTER", cluster.into()),
            // A poolctl that the command calls finds the same claim.
            ("POOLCTL_STATE", store.path().into()),
            ("POOLCTL_NAMESPACE", key.namespace.clone().into()),
        ];
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(claim_is_gone(created_claim));
        };
        let command = ForegroundProgram {
            program: program.clone(),
            arguments: arguments.to_vec(),
            variables,
            umask: context.world.umask,
        };
        let signals_sent = Cell::new(0);
        let next_signal = || {
            // A signal that was typed at the terminal has reached the command by itself.
            let caught = context.world.take_signal().filter(|caught| !caught.is_typed)?;
            signals_sent.set(signals_sent.get() + 1);
            // A signal that is repeated means that the last one was not enough.
            Some(match signals_sent.get() {
                1 => caught.signal,
                2 => SIGTERM,
                _ => SIGKILL,
            })
        };
        command.run_to_end(next_signal).or_else(|error| {
            context.warn(&format!("`{}` cannot be run: {error}", program.to_string_lossy()));
            Ok(start_failure_exit(&error) as u8)
        })
    }
}

fn claim_is_gone(created_claim: &NewClaim) -> Refusal {
    Refusal::not_found(format!("claim `{}` is gone", created_claim.key.name))
}

/// The exit code of shells for a program that was not started: 127 if there is none, else 126.
fn start_failure_exit(error: &io::Error) -> Exit {
    if error.kind() == ErrorKind::NotFound {
        Exit::CommandNotFound
    } else {
        Exit::CommandNotExecutable
    }
}

fn cannot_run(program: &OsStr, error: &io::Error) -> Refusal {
    let name = program.to_string_lossy();
    let advice = if name.contains('/') {
        format!("ls -ld '{name}'")
    } else {
        "echo \"$PATH\" shows the folders that were searched".to_owned()
    };
    Refusal::new(start_failure_exit(error), format!("`{name}` cannot be run; nothing was claimed"))
        .because(error.to_string())
        .advise(advice)
}
