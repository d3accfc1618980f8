//! `doctor`: looks for what is wrong with the state and what lies beside it.

use clap::Args;
use serde_json::json;

use crate::model::cluster::Driver;
use crate::model::kind::Kind;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::time::Span;
use crate::output;
use crate::plan;
use crate::reconcile::Door;
use crate::store::{Filter, Store};

use super::{Context, Quit, Verb};

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
    state: &'static str,
    detail: String,
}

/// How what is found can be put right; says whether it was.
type Fix<'a> = Option<Box<dyn Fn() -> Result<bool, Refusal> + 'a>>;

impl Verb for Doctor {
    const NAME: &'static str = "doctor";
    const ABOUT: &'static str = "Look for what is wrong with the state and beside it";
    const EXAMPLE: &'static str = "poolctl doctor --fix";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let door = Door { store: &store, world: &context.world, pass: false };
        let modes = store.open_to_others();
        let orphans = store.orphans()?;
        let said = |all: &[(std::path::PathBuf, String)]| {
            all.iter().map(|(path, what)| format!("`{}` {what}", path.display())).collect()
        };
        let mut found = Vec::new();
        let mut add = |check, wrong: Vec<String>, fix: Fix<'_>| -> Result<(), Refusal> {
            let fixed = match fix {
                Some(fix) if self.fix && !wrong.is_empty() => fix()?,
                _ => false,
            };
            let state = if fixed { "fixed" } else { "wrong" };
            if wrong.is_empty() {
                found.push(Finding { check, state: "ok", detail: String::new() });
            }
            found.extend(wrong.into_iter().map(|detail| Finding { check, state, detail }));
            Ok(())
        };
        add("constraints", store.constraints()?, None)?;
        add(
            "journal",
            store.journal()?,
            Some(Box::new(|| {
                store.fix_journal()?;
                Ok(store.journal()?.is_empty())
            })),
        )?;
        add(
            "links",
            links(&door)?,
            Some(Box::new(|| {
                door.change(&Scope::Whole, &[], |state, tick| {
                    plan::mend(state, tick);
                    Ok(())
                })?;
                Ok(links(&door)?.is_empty())
            })),
        )?;
        add("files", said(&modes), Some(Box::new(|| Ok(store.close_to_others(&modes)))))?;
        let names = orphans.iter().map(|path| format!("`{}` belongs to nothing", path.display()));
        add(
            "orphans",
            names.collect(),
            Some(Box::new(|| Ok(store.remove_orphans(&orphans)?.is_empty()))),
        )?;
        add("drivers", drivers(&store)?, None)?;
        add("passes", overdue(context, &door)?, None)?;
        show(context, &found)
    }
}

fn show(context: &Context, found: &[Finding]) -> anyhow::Result<()> {
    let format = &context.globals.output;
    if format.whole() {
        let all = found
            .iter()
            .map(|one| json!({"check": one.check, "state": one.state, "detail": one.detail}));
        context.print(&output::documents(format, all.collect(), false)?)?;
    } else {
        let rows: Vec<_> = found
            .iter()
            .map(|one| vec![one.check.into(), one.state.into(), one.detail.clone()])
            .collect();
        context.print(&output::table(&["check", "state", "detail"], &rows))?;
    }
    if found.iter().any(|one| one.state == "wrong") {
        return Err(Quit(Exit::Failed as u8).into());
    }
    Ok(())
}

/// Links of which only one end is written.
fn links(door: &Door<'_>) -> Result<Vec<String>, Refusal> {
    let (mut state, tick) = door.imagine(&Scope::Whole, &[])?;
    plan::mend(&mut state, &tick);
    let said = |state: &State| {
        let events = state.events.iter();
        events.map(|(one, _)| format!("{} {}: {}", one.kind, one.object, one.message)).collect()
    };
    Ok(said(&state))
}

/// Clusters and pools that nobody can do anything for.
fn drivers(store: &Store) -> Result<Vec<String>, Refusal> {
    let mut found = Vec::new();
    for object in store.objects(Kind::ClusterDeployment, &Filter::default())? {
        if let Object::Cluster(one) = object
            && one.driver == Driver::Missing
        {
            found.push(format!("cluster `{}`: no driver of this build serves it", one.name));
        }
    }
    for object in store.objects(Kind::ClusterPool, &Filter::default())? {
        if let Object::Pool(one) = object
            && one.driver() == Driver::Missing
        {
            let (name, platform) = (&one.metadata.name, one.spec.platform.name());
            found
                .push(format!("pool `{name}`: no driver of this build serves platform {platform}"));
        }
    }
    Ok(found)
}

/// Work that should have been done long ago.
fn overdue(context: &Context, door: &Door<'_>) -> Result<Vec<String>, Refusal> {
    let (state, _) = door.imagine(&Scope::Whole, &[])?;
    let due = [plan::due(&state), door.in_flight(None)?.due].into_iter().flatten().min();
    let late = due.filter(|due| due.plus(OVERDUE) < context.world.now());
    let text = |due| format!("work is due since {due}: does cron run `poolctl reconcile`?");
    Ok(late.map(text).into_iter().collect())
}
