//! `doctor`: checks the state and the files beside it for what is wrong, and with `--fix` repairs
//! what can be repaired.

mod agents;
mod hosts;
mod power;
mod quarantine;
mod salvage;

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::causes::Chain;
use crate::model::driver::Driver;
use crate::model::host::BareMetalHost;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::Scope;
use crate::model::time::Span;
use crate::output::{Answer, Name};
use crate::plan;
use crate::reconcile::{Door, Notes};
use crate::store::{Store, find_frozen_writer, read_beside_writers};

use crate::commands::infraenv::images;
use crate::commands::tell::find_untold_addresses;
use crate::commands::{Context, Quit, RunCommand};

/// Work that is due for longer than this is due because nobody runs passes.
const OVERDUE: Span = Span::minutes(10);
/// What takes contents as they are.
const ACCEPT_COMMAND: &str = "poolctl doctor --accept-contents";
/// How long after the first look at files the second one is.
const SECOND_LOOK: Span = Span(200_000);

/// Arguments of `doctor`. Without `--fix` it only reads.
#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
pub struct Doctor {
    /// Repair the problems that can be repaired
    #[arg(long)]
    fix: bool,
    /// Ask the controllers of hosts that no cluster has; machines that are on for nobody are
    /// switched off
    #[arg(long, requires = "fix")]
    ask_controllers: bool,
    /// Read what can be read of this corrupt state file into a new one
    #[arg(long, value_name = "FILE", requires = "to", conflicts_with = "fix")]
    salvage: Option<PathBuf>,
    /// The new state file
    #[arg(long, value_name = "NEW-FILE", requires = "salvage")]
    to: Option<PathBuf>,
    /// Give back everything that a restore holds; clusters claimed after the backup are destroyed
    #[arg(long, conflicts_with_all = ["fix", "salvage"])]
    release_quarantine: bool,
    /// Take documents and events that another program has changed as they are
    #[arg(long, conflicts_with_all = ["fix", "salvage", "release_quarantine"])]
    accept_contents: bool,
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

/// A check, and how what it finds is repaired if that is possible.
struct Check<'a> {
    name: &'static str,
    look: Box<dyn Fn() -> Problems + 'a>,
    fix: Option<Box<dyn Fn() -> Result<(), Refusal> + 'a>>,
}

impl<'a> Check<'a> {
    fn new(name: &'static str, look: impl Fn() -> Problems + 'a) -> Self {
        Self { name, look: Box::new(look), fix: None }
    }

    /// The same check with a repair. Looking again shows whether it did help.
    fn fixed_by(self, fix: impl Fn() -> Result<(), Refusal> + 'a) -> Self {
        Self { fix: Some(Box::new(fix)), ..self }
    }

    /// What the check finds. One that fails is itself a problem, and the other checks go on.
    fn find_problems(&self, store: &Store) -> Vec<String> {
        read_beside_writers(store.path(), &self.look)
            .unwrap_or_else(|refusal| vec![in_a_line(&refusal)])
    }

    /// What the check finds now and a moment later. Files are made and removed soon after the
    /// commit that has them, so beside other commands a single look may come in between.
    fn find_lasting_problems(&self, context: &Context, store: &Store) -> Vec<String> {
        let mut problems = self.find_problems(store);
        if !problems.is_empty() {
            context.world.sleep(SECOND_LOOK);
            let problems_later = self.find_problems(store);
            problems.retain(|problem| problems_later.contains(problem));
        }
        problems
    }
}

impl RunCommand for Doctor {
    const NAME: &'static str = "doctor";
    const ABOUT: &'static str = "Check the state and the files beside it for errors";
    const EXAMPLE: &'static str = "poolctl doctor --fix";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        if let (Some(from), Some(to)) = (&self.salvage, &self.to) {
            return salvage::salvage_and_report(context, from, to);
        }
        if self.release_quarantine {
            return quarantine::release_and_report(context);
        }
        let store = context.open_existing_state()?;
        if self.accept_contents {
            accept_contents(context, &store)?;
        }
        let mut findings = Vec::new();
        if self.ask_controllers {
            findings.extend(power::ask_controllers(context, &store)?);
        }
        let door = Door { store: &store, world: &context.world, plans_changes: false };
        let checks_of_state = checks_of_state(context, &door);
        // In one snapshot, so that what others commit meanwhile looks like no fault.
        let problems_of_checks: Vec<Vec<String>> = store.read_snapshot(|| {
            Ok::<_, Refusal>(
                checks_of_state.iter().map(|check| check.find_problems(&store)).collect(),
            )
        })?;
        for (check, problems) in checks_of_state.iter().zip(problems_of_checks) {
            findings.extend(self.conclude(context, &store, check, problems));
        }
        for check in checks_of_files(&door) {
            let problems = check.find_lasting_problems(context, &store);
            findings.extend(self.conclude(context, &store, &check, problems));
        }
        if let Err(refusal) = quarantine::mention_quarantine(context, &store) {
            context.warn(&in_a_line(&refusal));
        }
        report_findings(context, &findings)
    }
}

/// The checks that read only the state.
fn checks_of_state<'a>(context: &'a Context, door: &'a Door<'a>) -> Vec<Check<'a>> {
    let store = door.store;
    vec![
        Check::new("constraints", move || store.check_constraints())
            .fixed_by(move || store.fix_repeated_columns()),
        Check::new("contents", move || find_changed_contents(store)),
        Check::new("journal", move || store.check_journal()).fixed_by(move || store.fix_journal()),
        Check::new("addresses", move || store.check_addresses())
            .fixed_by(move || store.fix_addresses()),
        Check::new("links", move || find_broken_links(door)).fixed_by(move || mend_links(door)),
        Check::new("claims", move || {
            Ok(find_orphaned_claims(store)?.iter().map(in_words).collect())
        }),
        Check::new("agents", move || agents::find_problems(context, store)),
        Check::new("hosts", move || hosts::find_problems(context, door))
            .fixed_by(move || hosts::switch_off(door)),
        Check::new("drivers", move || find_missing_drivers(store)),
        Check::new("passes", move || find_overdue_work(context, door)),
        Check::new("due", move || door.find_missed_changes())
            .fixed_by(move || store.forget_plans_of_everything()),
    ]
}

/// The checks that compare files with the state. Each reads the state after the files, because what
/// is in a file was committed before.
fn checks_of_files<'a>(door: &'a Door<'a>) -> Vec<Check<'a>> {
    let store = door.store;
    vec![
        Check::new("files", move || Ok(find_open_files(store))).fixed_by(move || {
            store.close_files_to_others();
            Ok(())
        }),
        Check::new("orphans", move || find_orphans(store)).fixed_by(move || store.remove_orphans()),
        Check::new("images", move || find_orphaned_images(door)),
        Check::new("jobs", move || find_stray_folders(store)),
        Check::new("writers", move || Ok(find_frozen_writer(store.path()).into_iter().collect())),
    ]
}

impl Doctor {
    /// What to say of a check after it has found these problems. With `--fix` they are repaired
    /// first; that counts only if the same check finds nothing afterwards.
    fn conclude(
        &self,
        context: &Context,
        store: &Store,
        check: &Check<'_>,
        mut problems: Vec<String>,
    ) -> Vec<Finding> {
        if self.fix && !problems.is_empty() {
            // What was repaired before may have mended this, too.
            problems = check.find_problems(store);
        }
        if problems.is_empty() {
            let detail = String::new();
            return vec![Finding { check: check.name, state: CheckState::Fine, detail }];
        }
        let mut state = CheckState::Wrong;
        if self.fix
            && let Some(fix) = &check.fix
        {
            match fix() {
                Ok(()) if check.find_problems(store).is_empty() => state = CheckState::Fixed,
                Ok(()) => {}
                Err(refusal) => {
                    let why = in_a_line(&refusal);
                    context.warn(&format!("{} could not be fixed: {why}", check.name));
                }
            }
        }
        let details = problems.into_iter().map(|problem| context.spell_commands(&problem));
        details.map(|detail| Finding { check: check.name, state, detail }).collect()
    }
}

/// Documents and events that another program has changed, each with what helps.
fn find_changed_contents(store: &Store) -> Problems {
    let mut problems = store.check_contents()?;
    for problem in &mut problems {
        problem.push_str("; to take it as it is: ");
        problem.push_str(ACCEPT_COMMAND);
    }
    Ok(problems)
}

/// Takes contents as they are that another program has changed, after a question.
fn accept_contents(context: &Context, store: &Store) -> Result<(), Refusal> {
    let problems = store.check_contents()?;
    if problems.is_empty() {
        return Ok(());
    }
    let loss = format!("nobody would be told again: {}", problems.join("; "));
    context.confirm(&loss, ACCEPT_COMMAND)?;
    store.accept_contents()
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
        problems.push(format!("`{}` belongs to no object: poolctl doctor --fix", path.display()));
    }
    Ok(problems)
}

/// Links between objects of which only one end is written.
fn find_broken_links(door: &Door<'_>) -> Problems {
    let mut problems = BTreeSet::new();
    for scope in door.scopes_of_everything()? {
        let (mut state, tick) = door.load_with_holders(&scope)?;
        // Each link that is mended leaves an event, which describes it.
        plan::repair_links(&mut state, &tick);
        for (event, _) in &state.events {
            problems.insert(format!("{} {}: {}", event.kind, event.object, event.message));
        }
    }
    Ok(problems.into_iter().collect())
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

/// A cause and what helps, in a line.
fn in_words(chain: &Chain) -> String {
    format!("{}: {}", chain.causes.join("; "), chain.next)
}

/// Claims whose cluster does not exist, which get no other one; and clusters whose claim does not
/// exist, which nobody will release.
pub fn find_orphaned_claims(store: &Store) -> Result<Vec<Chain>, Refusal> {
    let mut problems = Vec::new();
    for claim in store.find_claims_of_gone_clusters()? {
        let Key { namespace, name } = &claim;
        let next = format!("poolctl release {name} -n {namespace}");
        problems.push(Chain::new(format!("the cluster of claim `{claim}` is gone"), next));
    }
    for (cluster, claim) in store.find_clusters_of_gone_claims()? {
        let cause = format!("cluster `{cluster}` is held by claim `{claim}`, which is gone");
        problems.push(Chain::new(cause, format!("poolctl delete cluster {cluster}")));
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

/// Clusters and pools that no driver serves, and a program of `onChange` that fails.
fn find_missing_drivers(store: &Store) -> Problems {
    let untold_addresses = find_untold_addresses(store)?;
    let mut problems: Vec<String> = untold_addresses.iter().map(in_words).collect();
    let mut clusters_with_hosts: HashSet<String> = HashSet::new();
    store.visit_resources::<BareMetalHost>(None, &mut |host| {
        clusters_with_hosts.extend(host.cluster().map(str::to_owned));
        Ok(())
    })?;
    store.visit_clusters(&mut |cluster| {
        let name = &cluster.name;
        if cluster.driver == Driver::Missing && !clusters_with_hosts.contains(name) {
            problems.push(format!("cluster `{name}`: no driver of this build serves it"));
        }
        Ok(())
    })?;
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
        && would_pass_change_anything(door)
    {
        problems.push(format!("work has been due since {due}: does cron run `poolctl reconcile`?"));
    }
    Ok(problems)
}

/// Whether a pass would change anything now. What is due may also wait for something else, such as
/// its turn. A pass that is refused would change something if it could.
fn would_pass_change_anything(door: &Door<'_>) -> bool {
    let Ok(scopes) = door.scopes_of_everything() else { return true };
    !scopes
        .iter()
        .map(|scope| door.preview_pass(scope, Notes::Trust))
        .all(|planned| planned.is_ok_and(|(state, _)| state.is_unchanged()))
}
