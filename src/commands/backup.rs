//! `backup` and `restore`: a copy of the whole state, and back.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;

use crate::model::kind::Kind;
use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::store::{
    Lock, Place, Store, before_restore, copies, job_folders, place, read_backup, set_aside,
    try_pass_lock,
};

use super::{Context, Verb};

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
        context.print(&format!("state backed up to {}\n", self.file.display()))
    }
}

#[derive(Args)]
pub struct Restore {
    /// What `backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Verb for Restore {
    const NAME: &'static str = "restore";
    const ABOUT: &'static str = "Put a backup in place of the state";
    const EXAMPLE: &'static str = "poolctl backup \"$HOME/b.db\" && poolctl --state \"$HOME/other.db\" restore \"$HOME/b.db\"";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let copied = read_backup(&self.file)?;
        let path = context.path()?;
        let found = place(&path)?;
        let command = format!("poolctl restore {}", self.file.display());
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
        let back = known.iter().filter(|name| !clusters.iter().any(|key| key.name == **name));
        for name in back.filter(|_| matches!(found, Place::Usable(_))) {
            context.warn(&format!(
                "the backup brings back cluster `{name}`, which was gone: if it is, \
                 poolctl delete cluster {name}"
            ));
        }
        report_jobs(context, store.path(), &jobs);
        context.print(&format!("state restored from {}\n", self.file.display()))?;
        context.hint("next: poolctl doctor, then poolctl plan");
        Ok(())
    }
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
            refuse_live_jobs(store)?;
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
