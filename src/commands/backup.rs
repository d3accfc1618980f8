//! `backup` and `restore`: a copy of the whole state, and back.

mod leases;

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::edits;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::output::{Answer, Name};
use crate::store::{
    Lock, Place, Store, before_restore, copies, job_folders, place, read_backup, set_aside,
    try_pass_lock,
};

use crate::commands::{Context, Verb};

const HOLD_OPTION: &str = " --leases-since=hold";

#[derive(Args)]
pub struct Backup {
    /// File to write; an older backup is replaced
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Verb for Backup {
    const NAME: &'static str = "backup";
    const ABOUT: &'static str = "Copy the whole state, secrets too, while others go on";
    const EXAMPLE: &'static str = "poolctl backup \"$HOME/poolctl-backup.db\"";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        store.backup(&self.file)?;
        context.answer(answer("backed up to", &self.file))
    }
}

fn answer(result: &str, file: &Path) -> Answer {
    let file = file.display().to_string();
    let answer = Answer::text(format!("state {result} {file}\n"));
    let document = json!({"result": result, "file": file});
    answer.with_document(document).with_name(Name::plain(file))
}

/// What becomes of leases that the backup does not have.
#[derive(Clone, Copy, ValueEnum)]
enum LeasesSince {
    /// Held in the restored state until somebody gives them back
    Hold,
}

#[derive(Args)]
pub struct Restore {
    /// What `backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What to do with leases made after the backup; without it they stop the restore
    #[arg(long, value_enum, value_name = "WHAT")]
    leases_since: Option<LeasesSince>,
}

impl Verb for Restore {
    const NAME: &'static str = "restore";
    const ABOUT: &'static str = "Put a backup in place of the state";
    const EXAMPLE: &'static str = "poolctl backup \"$HOME/b.db\" && poolctl --state \"$HOME/other.db\" restore \"$HOME/b.db\"";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let copied = read_backup(&self.file)?;
        let path = context.path()?;
        let found = place(&path)?;
        let command = self.command();
        match &found {
            Place::Empty => {}
            Place::Usable(store) => {
                let many = store.names(Kind::ClusterDeployment)?.len();
                context.confirm(
                    &format!("the state with {many} clusters would be replaced"),
                    &command,
                )?;
            }
            Place::Broken(why) => {
                context.confirm(&format!("{why}; it would be replaced"), &command)?;
            }
        }
        if let Place::Empty = found {
            Store::open_or_create(&path)?;
        }
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        let Some(_pass) = try_pass_lock(&path)? else {
            bail!(Refusal::new(Exit::Busy, "a pass is running").next(command));
        };
        let _lock = Lock::to_write(&path)?;
        if let Place::Usable(store) = &found {
            // Others may have changed a state of an earlier schema during the question.
            store.migrate()?;
            refuse_live_jobs(store)?;
        }
        // In the copy, before it is in place: others never see it without what is held.
        let held = self.hold_leases(context, &found, copied.store())?;
        let time = context.world.now().to_string().replace([':', '-'], "");
        let kept = before_restore(&path, &time);
        let (mut store, clusters) = make_room(context, &path, &found, &kept)?;
        store.replace(&copied)?;
        let (known, jobs) = copied.knows()?;
        for Key { name, .. } in clusters.iter().filter(|key| !known.contains(&key.name)) {
            copies::hand_on(&path, name, &kept);
            context.warn(&format!(
                "the backup does not know cluster `{name}`: what it has made is left running"
            ));
        }
        for text in held {
            context.warn(&text);
        }
        report_jobs(context, store.path(), &jobs);
        context.answer(answer("restored from", &self.file))?;
        context.hint("next: poolctl doctor, then poolctl plan");
        Ok(())
    }
}

impl Restore {
    fn command(&self) -> String {
        let option = if self.leases_since.is_some() { HOLD_OPTION } else { "" };
        format!("poolctl restore {}{option}", self.file.display())
    }

    /// Holds in the copy what was leased after it was made, or refuses by name to lose that. Says
    /// of each lease how it is held.
    fn hold_leases(
        &self,
        context: &Context,
        found: &Place,
        copy: &Store,
    ) -> Result<Vec<String>, Refusal> {
        let now = match found {
            Place::Usable(store) => leases::read_snapshot(store),
            Place::Empty => Err(Refusal::new(Exit::State, "there is no state")),
            Place::Broken(why) => Err(Refusal::new(Exit::State, why.as_str())),
        };
        let now = match now {
            Err(refusal) if refusal.exit == Exit::State => {
                warn_of_unknown_leases(context, &refusal.what, copy)?;
                return Ok(Vec::new());
            }
            now => now?,
        };
        let backup = leases::read_snapshot(copy)?;
        let losses = edits::find_losses(&now, &backup);
        let gone = edits::find_gone_clusters(&now, &backup);
        if self.leases_since.is_none() && !losses.is_empty() {
            let what = "leases were made after the backup: restoring it would give away what is in \
                        use";
            let mut refusal = Refusal::conflict(what);
            refusal.causes = losses.iter().map(|loss| leases::describe(loss, &now)).collect();
            return Err(refusal.next(format!("{}{HOLD_OPTION} -y", self.command())));
        }
        leases::hold(context, copy, &losses, &gone, &now)
    }
}

/// Without a state to compare it with, nobody knows what the backup would give away.
fn warn_of_unknown_leases(context: &Context, why: &str, copy: &Store) -> Result<(), Refusal> {
    let last = copy.mark()?.1.now;
    context.warn(&format!(
        "what was leased after {last}, the last pass of the backup, is not known: {why}"
    ));
    context.hint(
        "before the next pass, compare `poolctl get cluster,claim,ipaddress,host,agent -A` with \
         what is in use, and keep the rest: poolctl ip reserve, host hold, pool pause",
    );
    Ok(())
}

/// Keeps what is there under another name; returns the state to write to, and the clusters it had.
fn make_room(
    context: &Context,
    path: &Path,
    found: &Place,
    kept: &Path,
) -> Result<(Store, Vec<Key>), Refusal> {
    let mut clusters = Vec::new();
    match found {
        Place::Empty => return Ok((Store::open(path)?, clusters)),
        Place::Usable(store) => {
            clusters = store.names(Kind::ClusterDeployment)?;
            store.backup(kept)?;
        }
        Place::Broken(_) => set_aside(path, kept)?,
    }
    context.hint(&format!("what was there is kept as {}", kept.display()));
    Ok((Store::open_or_create(path)?, clusters))
}

fn refuse_live_jobs(store: &Store) -> Result<(), Refusal> {
    let live = store.live_jobs()?;
    let Some(job) = live.first() else { return Ok(()) };
    let what = format!(
        "{} jobs are running, {} of cluster `{}` among them",
        live.len(),
        job.verb.name(),
        job.object
    );
    Err(Refusal::conflict(what)
        .because("what they do would be forgotten")
        .next("poolctl reconcile --wait"))
}

/// What the folders of jobs know and the restored state does not.
fn report_jobs(context: &Context, state: &Path, known: &[String]) {
    for folder in job_folders(state) {
        let id = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !known.contains(&id) {
            let place = folder.display();
            context.warn(&format!("job `{id}` was done after the backup; its folder is {place}"));
        }
    }
}
