//! `doctor`: looks for what is wrong with the state and what lies beside it.

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
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::output::{Answer, Name};
use crate::plan;
use crate::reconcile::Door;
use crate::store::Store;

use crate::commands::infraenv::images;
use crate::commands::{Context, Quit, Verb};

/// Work that is due for longer is due because nobody does it.
const OVERDUE: Span = Span::minutes(10);

#[derive(Args)]
pub struct Doctor {
    /// Put right what can be
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
    /// It was wrong, and was put right.
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

type Looked = Result<Vec<String>, Refusal>;

/// How what is found can be put right; looking again shows whether it was.
type Fix<'a> = Option<&'a dyn Fn() -> Result<(), Refusal>>;

impl Verb for Doctor {
    const NAME: &'static str = "doctor";
    const ABOUT: &'static str = "Look for what is wrong with the state and beside it";
    const EXAMPLE: &'static str = "poolctl doctor --fix";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let door = Door { store: &store, world: &context.world, pass: false };
        let mut found = Vec::new();
        let mut check = |check, look: &dyn Fn() -> Looked, fix: Fix<'_>| {
            // What cannot even be looked at is wrong, and the other checks go on.
            let look =
                || look().unwrap_or_else(|refusal| vec![refusal.to_string().replace('\n', "; ")]);
            let wrong = look();
            let mended = match fix {
                Some(fix) if self.fix && !wrong.is_empty() => match fix() {
                    Ok(()) => look().is_empty(),
                    Err(refusal) => {
                        let why = refusal.to_string().replace('\n', "; ");
                        context.warn(&format!("{check} could not be put right: {why}"));
                        false
                    }
                },
                _ => false,
            };
            let state = if mended { CheckState::Fixed } else { CheckState::Wrong };
            if wrong.is_empty() {
                found.push(Finding { check, state: CheckState::Fine, detail: String::new() });
            }
            found.extend(wrong.into_iter().map(|detail| Finding { check, state, detail }));
        };
        check("constraints", &|| store.constraints(), None);
        check("journal", &|| store.journal(), Some(&|| store.fix_journal()));
        check("addresses", &|| store.addresses(), Some(&|| store.fix_addresses()));
        check("links", &|| links(&door), Some(&|| mend(&door)));
        check("claims", &|| orphaned(&store), None);
        check("agents", &|| agents::look(context, &door), None);
        check(
            "files",
            &|| Ok(said(store.open_to_others())),
            Some(&|| {
                store.close_to_others();
                Ok(())
            }),
        );
        let nothing =
            |path: &std::path::PathBuf| format!("`{}` belongs to nothing", path.display());
        let orphans = || Ok(store.orphans()?.iter().map(nothing).collect());
        check("orphans", &orphans, Some(&|| store.remove_orphans()));
        check("images", &|| images_of_nobody(&door), None);
        check("jobs", &|| strays(&store), None);
        check("drivers", &|| drivers(&store), None);
        check("passes", &|| overdue(context, &door), None);
        show(context, &found)
    }
}

fn said(found: Vec<(std::path::PathBuf, String)>) -> Vec<String> {
    found.into_iter().map(|(path, what)| format!("`{}` {what}", path.display())).collect()
}

fn mend(door: &Door<'_>) -> Result<(), Refusal> {
    let edit = |state: &mut State, tick: &Tick| {
        plan::mend(state, tick);
        Ok(())
    };
    door.change(&Scope::Whole, &[], edit).map(drop)
}

/// Clusters that a claim has which is not there: nobody will release them. Claims whose cluster is
/// not there: nobody will give them another.
pub fn orphaned(store: &Store) -> Looked {
    let claims = store.all::<Claim>()?;
    let mut problems = Vec::new();
    for claim in &claims {
        if claim.running == ClusterRunning::Deleted && claim.deleting.is_none() {
            let (name, namespace) = (&claim.name, &claim.namespace);
            problems.push(format!(
                "the cluster of claim `{}` is gone: poolctl release {name} -n {namespace}",
                claim.key()
            ));
        }
    }
    let keys: HashSet<Key> = claims.iter().map(Claim::key).collect();
    for cluster in store.all::<Cluster>()? {
        if let Some(claim) = cluster.claim_key().filter(|claim| !keys.contains(claim)) {
            let name = &cluster.name;
            problems.push(format!("cluster `{name}` is held by claim `{claim}`, which is gone: poolctl delete cluster {name}"));
        }
    }
    Ok(problems)
}

/// Folders of jobs that nobody knows.
fn strays(store: &Store) -> Looked {
    let text = |path: &std::path::PathBuf| {
        format!("`{}` belongs to no job: look at what it made, then remove it", path.display())
    };
    Ok(store.strays()?.iter().map(text).collect())
}

/// Images that nobody names; a host may run from one, so that nobody but the operator removes it.
fn images_of_nobody(door: &Door<'_>) -> Looked {
    let found = images::nobodys(door.store, &door.settings()?)?;
    let text = |path: &std::path::PathBuf| {
        let path = path.display();
        format!("`{path}` belongs to no InfraEnv and no job: remove it once no host runs from it")
    };
    Ok(found.iter().map(text).collect())
}

fn show(context: &Context, found: &[Finding]) -> anyhow::Result<()> {
    let entry = |finding: &Finding| {
        let Finding { check, detail, .. } = finding;
        let state = finding.state.name();
        let row = || {
            let check = (*check).to_owned();
            vec![("check", check), ("state", state.to_owned()), ("detail", detail.clone())]
        };
        let document = || json!({"check": check, "state": state, "detail": detail});
        context.entry(Some(Name::plain(*check)), row, document)
    };
    context.answer(Answer::list(found.iter().map(entry).collect()))?;
    if found.iter().any(|one| one.state == CheckState::Wrong) {
        return Err(Quit(Exit::Failed as u8).into());
    }
    Ok(())
}

/// Links of which only one end is written.
fn links(door: &Door<'_>) -> Looked {
    let (mut state, tick) = door.imagine(&Scope::Whole, &[])?;
    plan::mend(&mut state, &tick);
    let said = |state: &State| {
        let events = state.events.iter();
        events.map(|(one, _)| format!("{} {}: {}", one.kind, one.object, one.message)).collect()
    };
    Ok(said(&state))
}

/// Clusters and pools that nobody can do anything for.
fn drivers(store: &Store) -> Looked {
    let mut problems = Vec::new();
    let hosts = store.all::<BareMetalHost>()?;
    for cluster in store.all::<Cluster>()? {
        let name = &*cluster.name;
        let is_missing = cluster.driver == Driver::Missing;
        if is_missing && !hosts.iter().any(|host| host.cluster() == Some(name)) {
            problems.push(format!("cluster `{name}`: no driver of this build serves it"));
        }
    }
    for pool in store.all::<ClusterPool>()? {
        if pool.driver() == Driver::Missing {
            let (name, platform) = (&pool.metadata.name, pool.spec.platform.name());
            problems
                .push(format!("pool `{name}`: no driver of this build serves platform {platform}"));
        }
    }
    Ok(problems)
}

/// Work that should have been done long ago.
fn overdue(context: &Context, door: &Door<'_>) -> Looked {
    let (state, _) = door.imagine(&Scope::Whole, &[])?;
    // Since the last pass: what was due before that was done by it.
    let last_pass = door.store.mark()?.1.now;
    let due = [plan::due(&state, last_pass), door.in_flight(None)?.due].into_iter().flatten().min();
    let late = due.filter(|due| due.plus(OVERDUE) < context.world.now());
    let text = |due| format!("work is due since {due}: does cron run `poolctl reconcile`?");
    Ok(late.map(text).into_iter().collect())
}
