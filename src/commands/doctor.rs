//! `doctor`: checks the state and the files beside it for what is wrong, and with `--fix` repairs
//! what can be repaired.

mod agents;

use std::collections::HashSet;

use clap::Args;
use serde_json::json;

use crate::model::claim::{Claim, ClusterRunning};
use crate::model::cluster::Cluster;
use crate::model::driver::Driver;
use crate::model::host::BareMetalHost;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::Scope;
use crate::model::time::Span;
use crate::output::{Answer, Name};
use crate::plan;
use crate::reconcile::Door;
use crate::store::Store;

use crate::commands::infraenv::images;
use crate::commands::{Context, Quit, RunCommand};

/// Work that is due for longer than this is due because nobody runs passes.
const OVERDUE: Span = Span::minutes(10);

#[derive(Args)]
pub struct Doctor {
    /// Repair the problems that can be repaired
    #[arg(long)]
    fix: bool,
}

/// What a check found.
struct Finding {
    check: &'static str,
    state: CheckState,
    detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckState {
    Fine,
    /// It was wrong, and is repaired.
    Fixed,
    Wrong,
}

impl CheckState {
    fn name(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Fixed => "fixed",
            Self::Wrong => "wrong",
        }
    }
}

/// What a check has found to be wrong, a sentence for each; empty if all is well.
type Problems = Result<Vec<String>, Refusal>;

/// Repairs what a check has found; looking again shows whether it did.
type Fix<'a> = Option<&'a dyn Fn() -> Result<(), Refusal>>;

impl RunCommand for Doctor {
    const NAME: &'static str = "doctor";
    const ABOUT: &'static str = "Check the state and the files beside it for errors";
    const EXAMPLE: &'static str = "poolctl doctor --fix";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let door = Door { store: &store, world: &context.world, plans_changes: false };
        let mut checks = Checks { context, fixes: self.fix, findings: Vec::new() };
        checks.run("constraints", &|| store.check_constraints(), None);
        checks.run("journal", &|| store.check_journal(), Some(&|| store.fix_journal()));
        checks.run("addresses", &|| store.check_addresses(), Some(&|| store.fix_addresses()));
        checks.run("links", &|| find_broken_links(&door), Some(&|| mend_links(&door)));
        checks.run("claims", &|| find_orphaned_claims(&store), None);
        checks.run("agents", &|| agents::find_problems(context, &door), None);
        checks.run(
            "files",
            &|| Ok(find_open_files(&store)),
            Some(&|| {
                store.close_files_to_others();
                Ok(())
            }),
        );
        checks.run("orphans", &|| find_orphans(&store), Some(&|| store.remove_orphans()));
        checks.run("images", &|| find_orphaned_images(&door), None);
        checks.run("jobs", &|| find_stray_folders(&store), None);
        checks.run("drivers", &|| find_missing_drivers(&store), None);
        checks.run("passes", &|| find_overdue_work(context, &door), None);
        checks.run("due", &|| door.find_missed_changes(), Some(&|| store.mark_everything_due()));
        report_findings(context, &checks.findings)
    }
}

/// Runs checks one after another and collects what they find.
struct Checks<'a> {
    context: &'a Context,
    fixes: bool,
    findings: Vec<Finding>,
}

impl Checks<'_> {
    /// Runs one check, and its fix if it finds problems and `--fix` was given. A fix counts only if
    /// the same check finds nothing afterwards.
    fn run(&mut self, check: &'static str, look: &dyn Fn() -> Problems, fix: Fix<'_>) {
        let problems = look_for_problems(look);
        if problems.is_empty() {
            let detail = String::new();
            self.findings.push(Finding { check, state: CheckState::Fine, detail });
            return;
        }
        let mut state = CheckState::Wrong;
        if self.fixes
            && let Some(fix) = fix
        {
            match fix() {
                Ok(()) if look_for_problems(look).is_empty() => state = CheckState::Fixed,
                Ok(()) => {}
                Err(refusal) => {
                    let why = in_a_line(&refusal);
                    self.context.warn(&format!("{check} could not be fixed: {why}"));
                }
            }
        }
        for detail in problems {
            self.findings.push(Finding { check, state, detail });
        }
    }
}

/// What a check finds. One that fails is itself a problem, and the other checks go on.
fn look_for_problems(look: &dyn Fn() -> Problems) -> Vec<String> {
    look().unwrap_or_else(|refusal| vec![in_a_line(&refusal)])
}

fn in_a_line(refusal: &Refusal) -> String {
    refusal.to_string().replace('\n', "; ")
}

/// Files of the state that other accounts may read or write.
fn find_open_files(store: &Store) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, problem) in store.find_files_open_to_others() {
        problems.push(format!("`{}` {problem}", path.display()));
    }
    problems
}

/// Files beside the state that belong to no object.
fn find_orphans(store: &Store) -> Problems {
    let mut problems = Vec::new();
    for path in store.find_orphans()? {
        problems.push(format!("`{}` belongs to no object", path.display()));
    }
    Ok(problems)
}

/// Links between objects of which only one end is written.
fn find_broken_links(door: &Door<'_>) -> Problems {
    let (mut state, tick) = door.load_for_dry_run(&Scope::Whole, &[])?;
    // Each link that is mended leaves an event, which describes it.
    plan::repair_links(&mut state, &tick);
    let mut problems = Vec::new();
    for (event, _) in &state.events {
        problems.push(format!("{} {}: {}", event.kind, event.object, event.message));
    }
    Ok(problems)
}

/// Mends references between clusters, claims and leases in a transaction of its own, as a pass
/// does.
fn mend_links(door: &Door<'_>) -> Result<(), Refusal> {
    door.change(&Scope::Whole, &[], |state, tick| {
        plan::repair_links(state, tick);
        Ok(())
    })?;
    Ok(())
}

/// Claims whose cluster does not exist, which get no other one; and clusters whose claim does not
/// exist, which nobody will release.
pub fn find_orphaned_claims(store: &Store) -> Problems {
    let claims = store.list_all::<Claim>()?;
    let mut problems = Vec::new();
    for claim in &claims {
        if claim.running == ClusterRunning::Deleted && claim.deleting.is_none() {
            let Claim { name, namespace, .. } = claim;
            problems.push(format!(
                "the cluster of claim `{}` is gone: poolctl release {name} -n {namespace}",
                claim.key()
            ));
        }
    }
    let claim_keys: HashSet<Key> = claims.iter().map(Claim::key).collect();
    for cluster in store.list_all::<Cluster>()? {
        if let Some(claim) = cluster.claim_key()
            && !claim_keys.contains(&claim)
        {
            problems.push(format!(
                "cluster `{0}` is held by claim `{claim}`, which is gone: \
                 poolctl delete cluster {0}",
                cluster.name
            ));
        }
    }
    Ok(problems)
}

/// Folders of jobs that the state does not know.
fn find_stray_folders(store: &Store) -> Problems {
    let mut problems = Vec::new();
    for path in store.find_unknown_job_folders()? {
        problems.push(format!(
            "`{}` belongs to no job: check what it created, then remove it",
            path.display()
        ));
    }
    Ok(problems)
}

/// Images that no InfraEnv names. They are not removed here: a host may run from one.
fn find_orphaned_images(door: &Door<'_>) -> Problems {
    let mut problems = Vec::new();
    for path in images::find_orphaned_images(door.store, &door.read_settings()?)? {
        problems.push(format!(
            "`{}` belongs to no InfraEnv and no job: remove it once no host runs from it",
            path.display()
        ));
    }
    Ok(problems)
}

/// Prints the findings; exit code 1 if something is wrong.
fn report_findings(context: &Context, findings: &[Finding]) -> anyhow::Result<()> {
    let mut entries = Vec::new();
    for Finding { check, state, detail } in findings {
        let state = state.name();
        entries.push(context.entry(
            Some(Name::plain(*check)),
            || {
                let check = (*check).to_owned();
                vec![("check", check), ("state", state.to_owned()), ("detail", detail.clone())]
            },
            || json!({"check": check, "state": state, "detail": detail}),
        ));
    }
    context.answer(Answer::list(entries))?;
    if findings.iter().any(|finding| finding.state == CheckState::Wrong) {
        return Err(Quit(Exit::Failed as u8).into());
    }
    Ok(())
}

/// Clusters and pools that no driver serves.
fn find_missing_drivers(store: &Store) -> Problems {
    let mut problems = Vec::new();
    let hosts = store.list_all::<BareMetalHost>()?;
    for cluster in store.list_all::<Cluster>()? {
        let name = &*cluster.name;
        let is_missing = cluster.driver == Driver::Missing;
        if is_missing && !hosts.iter().any(|host| host.cluster() == Some(name)) {
            problems.push(format!("cluster `{name}`: no driver of this build serves it"));
        }
    }
    for pool in store.list_all::<ClusterPool>()? {
        if pool.driver() == Driver::Missing {
            let name = &pool.metadata.name;
            let platform = pool.spec.platform.name();
            problems
                .push(format!("pool `{name}`: no driver of this build serves platform {platform}"));
        }
    }
    Ok(problems)
}

/// Work that has been due for long.
fn find_overdue_work(context: &Context, door: &Door<'_>) -> Problems {
    // What was due before the last pass was done by it.
    let last_pass = door.store.read_mark()?.now;
    let due = [door.store.next_due_at(None, last_pass)?, door.find_live_jobs(None)?.due]
        .into_iter()
        .flatten()
        .min();
    let mut problems = Vec::new();
    if let Some(due) = due
        && due.plus(OVERDUE) < context.world.now()
    {
        problems.push(format!("work has been due since {due}: does cron run `poolctl reconcile`?"));
    }
    Ok(problems)
}
