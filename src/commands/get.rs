//! `get`: objects of one kind or several, in columns or whole.

pub mod sort;
pub mod watch;

use clap::Args;

use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::{Exit, Refusal};
use crate::output::{self, Answer, Entry, Name, Row, View};
use crate::store::{Filter, Store};

use crate::commands::agent::fit;
use crate::commands::claim::queue;
use crate::commands::cluster::rotate;
use crate::commands::infraenv::iso as infraenv_iso;
use crate::commands::selector::Selector;
use crate::commands::{Context, Verb, events, job, target};

#[expect(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
#[derive(Args)]
pub struct Get {
    /// Kinds, separated by commas, or KIND/NAME
    #[arg(value_name = "KIND[,KIND]")]
    kinds: String,
    /// Names; all without any
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Only with these labels: a=b, a!=b, a, !a, a in (b,c), separated by commas
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<Selector>,
    /// Go on, and show what changes
    #[arg(short, long)]
    watch: bool,
    /// By a column's name or a jsonpath
    #[arg(long, value_name = "COLUMN|PATH")]
    sort_by: Option<String>,
    /// Without the line of headers
    #[arg(long)]
    no_headers: bool,
    /// With a column of labels
    #[arg(long)]
    show_labels: bool,
    /// What is not there is no error
    #[arg(long)]
    ignore_not_found: bool,
}

impl Verb for Get {
    const NAME: &'static str = "get";
    const ABOUT: &'static str = "List objects, or show them whole";
    const EXAMPLE: &'static str = "poolctl get pool,claim,cluster -A";
    const FOR_GUESTS: bool = true;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let wanted = self.wanted()?;
        for (kind, _) in &wanted {
            let theirs =
                matches!(kind, Kind::ClusterPool | Kind::ClusterClaim | Kind::ClusterDeployment);
            context.admit(&format!("get {}", kind.word()), theirs)?;
        }
        let store = context.look()?;
        if self.watch {
            return watch::follow(context, &store, &self, &wanted);
        }
        let single =
            matches!(&wanted[..], [(kind, names)] if names.len() == 1 && *kind != Kind::Event);
        let mut is_below_another = false;
        for (kind, names) in &wanted {
            if let Kind::Job | Kind::Event = kind {
                let entries = self.records(context, &store, *kind, names)?;
                if entries.is_empty() {
                    hint_none(context, *kind)?;
                }
                context.answer(self.list(entries, single))?;
                continue;
            }
            let found = self.find(context, &store, *kind, names, self.ignore_not_found)?;
            if found.is_empty() {
                hint_none(context, *kind)?;
            }
            let entries = self.entries(context, &store, *kind, &found)?;
            let mut answer = self.list(entries, single);
            if is_below_another && !found.is_empty() {
                answer = answer.after_gap();
            }
            is_below_another |= !found.is_empty();
            context.answer(answer)?;
            if !context.wants_documents() {
                infraenv_iso::hint_stale(context, &store, &found)?;
            }
        }
        if context.wants_documents() && wanted.iter().any(|(kind, _)| *kind == Kind::Secret) {
            context.hint("values of secrets are never shown; poolctl extract secret/NAME --to=-");
        }
        Ok(())
    }
}

/// What lists nothing says so to people.
fn hint_none(context: &Context, kind: Kind) -> Result<(), Refusal> {
    if context.is_for_people() && kind.is_record() {
        context.hint(&format!("no {}s", kind.word()));
    } else if context.is_for_people() {
        let place = if kind.namespaced() { context.namespaces()? } else { None };
        let place = place.map(|name| format!(" in namespace {name}")).unwrap_or_default();
        context.hint(&format!("no {} found{place}", kind.name()));
    }
    Ok(())
}

impl Get {
    /// Kinds with the names that are wanted of each; all without any.
    fn wanted(&self) -> Result<Vec<(Kind, Vec<String>)>, Refusal> {
        if !self.kinds.contains('/') {
            let kinds = self.kinds.split(',').map(target::kind_of);
            return kinds.map(|kind| Ok((kind?, self.names.clone()))).collect();
        }
        let mut wanted: Vec<(Kind, Vec<String>)> = Vec::new();
        for (kind, name) in target::several(&self.kinds, &self.names)? {
            match wanted.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, names)) => names.push(name),
                None => wanted.push((kind, vec![name])),
            }
        }
        Ok(wanted)
    }

    /// The objects of a kind that are asked for, sorted as asked; all, or those that are there.
    pub fn find(
        &self,
        context: &Context,
        store: &Store,
        kind: Kind,
        names: &[String],
        those_there: bool,
    ) -> Result<Vec<Object>, Refusal> {
        let whole = context.wants_documents()
            || self.watch
            || self.show_labels
            || self.selector.is_some()
            || self.sort_by.is_some()
            || (kind == Kind::ClusterDeployment && context.globals.output.is_wide());
        let found = match list(context, store, kind, names, whole) {
            Err(absent) if absent.exit == Exit::NotFound && those_there => {
                let there = names.iter().map(|name| named(context, store, kind, name));
                there.filter_map(Result::ok).collect()
            }
            found => found?,
        };
        let mut found = context.visible(store, found)?;
        if let Some(selector) = &self.selector {
            found.retain(|one| selector.matches(&one.labels()));
        }
        if let Some(by) = &self.sort_by {
            let view = view(context, store, kind, &found)?;
            sort::by(&mut found, by, |one| output::row(one, &view), Object::to_wire)?;
        }
        Ok(found)
    }

    /// Jobs and events: what happened, not what is. Names are those of the objects.
    fn records(
        &self,
        context: &Context,
        store: &Store,
        kind: Kind,
        names: &[String],
    ) -> Result<Vec<Entry>, Refusal> {
        if self.selector.is_some() || self.show_labels {
            return Err(Refusal::usage(format!("a {} has no labels", kind.word())));
        }
        let wanted = |one: &str| names.is_empty() || names.iter().any(|name| name == one);
        let now = context.world.now();
        if kind == Kind::Job {
            let mut all = store.all_jobs()?;
            all.retain(|job| wanted(&job.object) || wanted(&job.id.to_string()));
            if let Some(by) = &self.sort_by {
                sort::by(&mut all, by, |one| output::job_row(one, now), job::document)?;
            }
            return Ok(job::entries(context, &all));
        }
        let namespace = context.globals.namespace.as_ref();
        let mut all = store.events(None, usize::MAX)?;
        all.retain(|one| wanted(&one.object.name));
        all.retain(|one| namespace.is_none_or(|name| one.object.namespace == *name));
        all.reverse();
        if let Some(by) = &self.sort_by {
            sort::by(&mut all, by, |one| events::row(one, now), events::document)?;
        }
        Ok(events::entries(context, &all))
    }

    /// Several things are a List, one that is named is itself. One that may be missing is nothing
    /// at all, as with kubectl.
    fn list(&self, entries: Vec<Entry>, single: bool) -> Answer {
        let is_single = single && (self.ignore_not_found || !entries.is_empty());
        let answer = Answer::list(entries).with_headers(!self.no_headers);
        if is_single { answer.single() } else { answer }
    }

    /// Objects as they are listed.
    pub fn entries(
        &self,
        context: &Context,
        store: &Store,
        kind: Kind,
        found: &[Object],
    ) -> Result<Vec<Entry>, Refusal> {
        let view = if context.is_for_people() {
            view(context, store, kind, found)?
        } else {
            View::default()
        };
        let entry = |object: &Object| {
            let name = Name::of(kind, &object.key());
            context.entry(Some(name), || self.row(object, &view), || object.to_wire())
        };
        Ok(found.iter().map(entry).collect())
    }

    fn row(&self, object: &Object, view: &View) -> Row {
        let mut row = output::row(object, view);
        if self.show_labels {
            let labels = object.labels().into_iter();
            let pairs: Vec<String> =
                labels.map(|(name, value)| format!("{name}={value}")).collect();
            row.push(("labels", pairs.join(",")));
        }
        row
    }
}

fn list(
    context: &Context,
    store: &Store,
    kind: Kind,
    names: &[String],
    whole: bool,
) -> Result<Vec<Object>, Refusal> {
    if names.is_empty() || (context.globals.all_namespaces && kind.namespaced()) {
        let namespace = if kind.namespaced() { context.namespaces()? } else { None };
        let mut found = store.objects(kind, &Filter { namespace, name: None, whole })?;
        found.retain(|one| names.is_empty() || names.contains(&one.key().name));
        let missing = names.iter().find(|name| !found.iter().any(|one| one.key().name == **name));
        return match missing {
            Some(name) => Err(Refusal::not_found(format!("there is no {} `{name}`", kind.word()))),
            None => Ok(found),
        };
    }
    names.iter().map(|name| named(context, store, kind, name)).collect()
}

/// An object by its name. Pools are everybody's to see; what else guests name must be theirs.
fn named(context: &Context, store: &Store, kind: Kind, name: &str) -> Result<Object, Refusal> {
    if kind == Kind::ClusterPool {
        context.there(store, kind, name)
    } else {
        context.find_object(store, kind, name)
    }
}

/// What the rows of a kind need to know of others.
fn view(context: &Context, store: &Store, kind: Kind, found: &[Object]) -> Result<View, Refusal> {
    let mut view = View {
        now: context.world.now().max(store.mark()?.1.now),
        wide: context.globals.output.is_wide(),
        namespaces: context.globals.all_namespaces && kind.namespaced(),
        ..View::default()
    };
    let waits = |one: &Object| matches!(one, Object::ClusterClaim(claim) if claim.waits());
    if found.iter().any(waits) {
        view.queue = queue::places(store, view.now)?;
    }
    if view.wide && kind == Kind::ClusterDeployment {
        view.credentials = rotate::states(store, found)?;
    }
    if view.wide && kind == Kind::Agent {
        let good = |one: &Object| match one {
            Object::Agent(one) => Some((one.key(), fit::roles(one)?)),
            _ => None,
        };
        view.fits = found.iter().filter_map(good).collect();
    }
    if kind == Kind::Customization {
        view.pools = store.all::<ClusterPool>()?;
    }
    Ok(view)
}
