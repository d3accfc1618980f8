//! `backup` copies the whole state into a file; `restore` puts such a copy in place of the state.
//! What was leased after the backup stops a restore, or is held in the restored state.

mod leases;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::edits;
use crate::model::annotations::QUARANTINE;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::RECONCILE_PAUSE;
use crate::model::refusal::{Exit, Refusal};
use crate::model::time::Time;
use crate::output::{Answer, Name};
use crate::store::{
    Lock, RestoreTarget, Store, copies, inspect_restore_target, list_job_folders, move_state_aside,
    path_for_replaced_state, read_backup, try_pass_lock,
};

use crate::commands::{Context, RunCommand, count_of};

/// The option as it is written into a command to type next.
const HOLD_OPTION: &str = " --leases-since=hold";
const NOTHING_OPTION: &str = " --nothing-since";
/// So many names of held objects are listed.
const MANY_NAMES: usize = 20;

/// Arguments of `backup`. The copy holds all Secrets in clear text, so only its owner may read the
/// file.
#[derive(Args)]
pub struct Backup {
    /// File to write; it may be an older backup. With --keep, a directory
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write a new file into the directory, and remove the oldest backups there beyond this number
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    keep: Option<u16>,
}

impl RunCommand for Backup {
    const NAME: &'static str = "backup";
    const ABOUT: &'static str = "Copy the whole state, including secrets, to a file";
    const EXAMPLE: &'static str = "poolctl backup \"$HOME/poolctl-backup.db\"";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        // On a read-only file system, for one, nothing can be stored, and the backup is made as well.
        if let Err(refusal) = context.door(&store).save_running_installations() {
            context.warn(&format!(
                "the backup lacks what running installations have made lately: {}",
                refusal.what
            ));
        }
        warn_of_changed_contents(context, &store, "the state");
        let Some(count) = self.keep else {
            store.backup(&self.file)?;
            store.note_backup(context.world.now());
            return context.answer(describe_result("backed up to", &self.file));
        };
        let time = spell_for_file_name(context.world.now());
        let path = store.backup_and_rotate(&self.file, &time, usize::from(count))?;
        store.note_backup(context.world.now());
        context.answer(describe_result("backed up to", &path))
    }
}

/// Warns if another program has changed a state: a backup or a restore would carry that on.
fn warn_of_changed_contents(context: &Context, store: &Store, subject: &str) {
    // What cannot be checked is a problem, too, and is copied all the same.
    let problems = store.check_contents().unwrap_or_else(|refusal| vec![refusal.what]);
    let Some(problem) = problems.first() else { return };
    let more = problems.len() - 1;
    let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
    context.warn(&format!(
        "another program has changed {subject}: {problem}{rest}; poolctl doctor lists all"
    ));
}

/// A time as a part of a file name: `20260302T120000Z`.
fn spell_for_file_name(time: Time) -> String {
    time.to_string().replace([':', '-'], "")
}

fn describe_result(result: &str, file: &Path) -> Answer {
    let file_name = file.display().to_string();
    let answer = Answer::text(format!("state {result} {file_name}\n"));
    let document = json!({"result": result, "file": file_name});
    answer.with_document(document).with_name(Name::plain(file_name))
}

/// What happens to leases that the backup does not have.
#[derive(Clone, Copy, ValueEnum)]
enum LeasesSince {
    /// Keep them in the restored state until a person releases them
    Hold,
}

/// Arguments of `restore`, which replaces the whole state.
#[derive(Args)]
pub struct Restore {
    /// File that `backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What to do with leases made after the backup; by default restore refuses to run
    #[arg(long, value_enum, value_name = "WHAT")]
    leases_since: Option<LeasesSince>,
    /// Hold nothing although the state to be replaced cannot tell what was leased after the backup
    #[arg(long, conflicts_with = "leases_since")]
    nothing_since: bool,
}

impl RunCommand for Restore {
    const NAME: &'static str = "restore";
    const ABOUT: &'static str = "Replace the state with a backup";
    const EXAMPLE: &'static str = "\
poolctl backup \"$HOME/b.db\" && \\
  poolctl --state \"$HOME/other.db\" restore \"$HOME/b.db\"";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let state_path = context.state_path()?;
        let backup = read_backup(&self.file, &state_path, context.lock_wait())?;
        let current_state = inspect_restore_target(&state_path)?;
        let command = self.command();
        warn_of_changed_contents(context, backup.store(), "the backup");
        self.confirm_replacement(context, &current_state, backup.store())?;
        if let RestoreTarget::Empty = current_state {
            Store::open_or_create(&state_path)?;
        }
        let state_path = std::fs::canonicalize(&state_path).unwrap_or(state_path);
        // Until the backup is in place, no pass may act on the old state and no command write to
        // it.
        let Some(_pass) = try_pass_lock(&state_path)? else {
            bail!(Refusal::new(Exit::Busy, "a pass is running").next(command));
        };
        let _lock = Lock::to_write(&state_path, context.lock_wait())?;
        if let RestoreTarget::Usable(store) = &current_state {
            // Other commands may have changed a state of an earlier schema during the question.
            store.migrate()?;
            refuse_live_jobs(store)?;
        }
        // Held in the copy, before it is in place: other commands never see it without the holds.
        let held_leases = self.hold_leases(context, &current_state, backup.store())?;
        let time = spell_for_file_name(context.world.now());
        let kept_copy = path_for_replaced_state(&state_path, &time);
        let (store, clusters) = make_room(context, &state_path, &current_state, &kept_copy)?;
        store.replace(&backup)?;
        let known_clusters = backup.list_cluster_names()?;
        let known_jobs = backup.list_job_ids()?;
        for Key { name, .. } in clusters.iter().filter(|key| !known_clusters.contains(&key.name)) {
            copies::move_cluster_copies(&state_path, name, &kept_copy);
            context
                .warn(&format!("cluster `{name}` is not in the backup: its machines keep running"));
        }
        for held_lease in &held_leases {
            context.warn(held_lease);
        }
        warn_of_unknown_jobs(context, store.path(), &known_jobs);
        context.answer(describe_result("restored from", &self.file))?;
        if !held_leases.is_empty() {
            context.hint("poolctl doctor --release-quarantine gives back all that is held");
        }
        context.hint_next("poolctl doctor, then poolctl plan");
        Ok(())
    }
}

impl Restore {
    /// The command line to type again after a refusal.
    fn command(&self) -> String {
        let option = match self.leases_since {
            Some(LeasesSince::Hold) => HOLD_OPTION,
            None if self.nothing_since => NOTHING_OPTION,
            None => "",
        };
        format!("poolctl restore {}{option}", self.file.display())
    }

    /// Asks before a state is replaced, and warns if the backup is not one of that state.
    fn confirm_replacement(
        &self,
        context: &Context,
        current_state: &RestoreTarget,
        copy: &Store,
    ) -> Result<(), Refusal> {
        let loss = match current_state {
            RestoreTarget::Empty => return Ok(()),
            RestoreTarget::Broken(why) => format!("{why}; it would be replaced"),
            RestoreTarget::Usable(store) => {
                if is_of_another_state(store, copy)? {
                    context.warn("this is the backup of another state");
                } else if store.read_revision()? < copy.read_revision()? {
                    context.warn(
                        "the backup is newer than the state: was this state copied or restored \
                         from an older one?",
                    );
                }
                let cluster_count = store.list_names(Kind::ClusterDeployment)?.len();
                let clusters = count_of(cluster_count, "cluster");
                format!("the state with {clusters} would be replaced")
            }
        };
        context.confirm(&loss, &self.command())
    }

    /// Holds in the copy what was leased after it was made, or refuses to lose that and names each
    /// lease. Returns a sentence for each lease: how it is held.
    fn hold_leases(
        &self,
        context: &Context,
        current_state: &RestoreTarget,
        copy: &Store,
    ) -> Result<Vec<String>, Refusal> {
        let snapshot = match current_state {
            RestoreTarget::Usable(store) => leases::read_snapshot(store),
            RestoreTarget::Empty => Err(Refusal::new(Exit::State, "there is no state")),
            RestoreTarget::Broken(why) => Err(Refusal::new(Exit::State, why.as_str())),
        };
        let now = match snapshot {
            Err(refusal) if refusal.exit == Exit::State => {
                if self.nothing_since {
                    return Ok(Vec::new());
                }
                return hold_what_may_be_leased(context, &refusal.what, copy);
            }
            snapshot => snapshot?,
        };
        let backup = leases::read_snapshot(copy)?;
        let losses = edits::find_losses(&now, &backup);
        let why_unknown = why_leases_are_unknown(current_state, copy)?;
        let gone_clusters = match why_unknown {
            None => edits::find_gone_clusters(&now, &backup),
            // What such a state does not have may be in use.
            Some(_) => Vec::new(),
        };
        if self.leases_since.is_none() && !losses.is_empty() {
            let problem = "leases were made after the backup; a restore would forget them and \
                           lease again what is in use";
            let mut refusal = Refusal::conflict(problem);
            refusal.causes = losses.iter().map(|loss| leases::describe_loss(loss, &now)).collect();
            return Err(refusal.next(format!("{}{HOLD_OPTION} -y", self.command())));
        }
        let mut held_leases = leases::hold_losses(context, copy, &losses, &gone_clusters, &now)?;
        if let Some(why) = why_unknown
            && !self.nothing_since
        {
            held_leases.extend(hold_what_may_be_leased(context, why, copy)?);
        }
        Ok(held_leases)
    }
}

/// Why the state that is replaced cannot tell what was leased and destroyed after the backup was
/// made; none if it is the one that went on since.
fn why_leases_are_unknown(
    current_state: &RestoreTarget,
    copy: &Store,
) -> Result<Option<&'static str>, Refusal> {
    let RestoreTarget::Usable(store) = current_state else { return Ok(None) };
    if is_of_another_state(store, copy)? {
        return Ok(Some("the state that is replaced is another one"));
    }
    let is_older = store.read_revision()? < copy.read_revision()?;
    Ok(if is_older { Some("the state that is replaced is older than the backup") } else { None })
}

/// Whether two states are known not to be the same one at different times.
fn is_of_another_state(state: &Store, copy: &Store) -> Result<bool, Refusal> {
    Ok(match (state.read_lineage()?, copy.read_lineage()?) {
        (Some(lineage), Some(lineage_of_copy)) => lineage != lineage_of_copy,
        // One of them is from before states had a lineage.
        _ => false,
    })
}

/// Holds in the copy what is free there: there is no state that tells what was leased since. Returns
/// a sentence about it for each kind.
fn hold_what_may_be_leased(
    context: &Context,
    why: &str,
    copy: &Store,
) -> Result<Vec<String>, Refusal> {
    let last_pass = copy.read_mark()?.now;
    context.warn(&format!(
        "what was leased after {last_pass}, the last pass of the backup, is not known: {why}"
    ));
    let mut names_by_kind: BTreeMap<Kind, Vec<String>> = BTreeMap::new();
    for (kind, key) in leases::hold_free_objects(context, copy)? {
        // A cluster is in a namespace of its own name.
        let name = if kind == Kind::ClusterDeployment { key.name } else { key.to_string() };
        names_by_kind.entry(kind).or_default().push(name);
    }
    let mut sentences = Vec::new();
    for (kind, mut names) in names_by_kind {
        let unnamed = names.len().saturating_sub(MANY_NAMES);
        names.truncate(MANY_NAMES);
        if unnamed > 0 {
            names.push(format!("{unnamed} more"));
        }
        let give_back = match kind {
            Kind::ClusterDeployment => {
                format!("annotate cluster NAME {RECONCILE_PAUSE}- {QUARANTINE}-")
            }
            Kind::IpPool => "ip reserve NAME RANGE --remove".to_owned(),
            _ => "host unhold NAME".to_owned(),
        };
        sentences.push(format!(
            "held, because it was free in the backup: {} {}; by name: poolctl {give_back}",
            kind.word(),
            names.join(", ")
        ));
    }
    if !sentences.is_empty() {
        context.hint(
            "compare `poolctl get cluster,claim,ipaddress,host,agent -A` with what is in use; \
             protect what is missing: poolctl ip reserve, host hold, pool pause; then give back \
             what is held: poolctl doctor --release-quarantine",
        );
    }
    Ok(sentences)
}

/// Keeps the current state as `kept_copy`. Returns the state to write to, and the clusters that the
/// current one has.
fn make_room(
    context: &Context,
    state_path: &Path,
    current_state: &RestoreTarget,
    kept_copy: &Path,
) -> Result<(Store, Vec<Key>), Refusal> {
    let mut clusters = Vec::new();
    match current_state {
        RestoreTarget::Empty => return Ok((Store::open(state_path)?, clusters)),
        RestoreTarget::Usable(store) => {
            clusters = store.list_names(Kind::ClusterDeployment)?;
            store.backup(kept_copy)?;
        }
        RestoreTarget::Broken(_) => move_state_aside(state_path, kept_copy)?,
    }
    context.hint(&format!("the replaced state is kept as {}", kept_copy.display()));
    Ok((Store::open_or_create(state_path)?, clusters))
}

/// Refuses to replace a state whose jobs run: their outcome would be recorded nowhere.
fn refuse_live_jobs(store: &Store) -> Result<(), Refusal> {
    let live_jobs = store.live_jobs()?;
    let Some(job) = live_jobs.first() else { return Ok(()) };
    let problem = format!(
        "the state has {}, such as {} of cluster `{}`",
        count_of(live_jobs.len(), "running job"),
        job.verb.name(),
        job.object
    );
    Err(Refusal::conflict(problem)
        .because("a restore would forget what these jobs do")
        .next("poolctl reconcile --wait"))
}

/// Warns about each job that has a folder and is not in the restored state.
fn warn_of_unknown_jobs(context: &Context, state_path: &Path, known_jobs: &[String]) {
    for folder in list_job_folders(state_path) {
        let job_id = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !known_jobs.contains(&job_id) {
            context.warn(&format!(
                "job `{job_id}` ran after the backup; its folder is {}",
                folder.display()
            ));
        }
    }
}
