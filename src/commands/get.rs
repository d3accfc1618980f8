//! `get`: lists objects of one kind or several in columns, or shows them as whole documents. Values
//! of secrets are never shown.

pub mod sort;
pub mod watch;

use clap::Args;

use crate::model::event::Event;
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::{Exit, Refusal};
use crate::output::{self, Answer, CellTones, Colors, Entry, Layout, Name, Row, RowContext};
use crate::store::{Filter, Store};

use crate::commands::agent::fit;
use crate::commands::claim::queue;
use crate::commands::cluster::rotate;
use crate::commands::field_selector::FieldSelector;
use crate::commands::infraenv::iso as infraenv_iso;
use crate::commands::list_printer::ListPrinter;
use crate::commands::manifest_files::ManifestFiles;
use crate::commands::selector::Selector;
use crate::commands::{Audience, Context, RunCommand, events, job, target};

/// Arguments of `get`.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
#[derive(Args)]
pub struct Get {
    /// Kind, such as pool; or several, such as pool,claim; all; or an object, such as pool/lab
    #[arg(
        value_name = "KIND[,KIND]",
        required_unless_present_any = ["filename", "kustomize"],
        conflicts_with_all = ["filename", "kustomize"]
    )]
    kinds: Option<String>,
    /// Names of objects of the kind; by default all objects
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Only objects with these labels: a=b, a!=b, a, !a, a in (b,c), separated by commas
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<Selector>,
    /// Keep running and show objects that change
    #[arg(short, long)]
    watch: bool,
    /// Keep running and show objects that change from now on
    #[arg(long)]
    watch_only: bool,
    #[command(flatten)]
    files: ManifestFiles,
    /// Only objects with these fields, such as metadata.name=lab or status.powerState!=Running
    #[arg(long, value_name = "SELECTOR")]
    field_selector: Option<FieldSelector>,
    /// Add a column for each of these labels
    #[arg(
        short = 'L',
        long,
        value_name = "LABEL",
        value_delimiter = ',',
        value_parser = parse_label_column
    )]
    label_columns: Vec<LabelColumn>,
    /// Put the kind before each name
    #[arg(long)]
    show_kind: bool,
    /// Sort by the name of a column or by a jsonpath
    #[arg(long, value_name = "COLUMN|PATH")]
    sort_by: Option<String>,
    /// Do not print the header line
    #[arg(long)]
    no_headers: bool,
    /// Add a column with the labels
    #[arg(long)]
    show_labels: bool,
    /// Do not fail if a named object does not exist
    #[arg(long)]
    ignore_not_found: bool,
}

impl RunCommand for Get {
    const NAME: &'static str = "get";
    const ABOUT: &'static str = "List objects, or print them in full";
    const EXAMPLE: &'static str = "poolctl get pool,claim,cluster -A";
    const AUDIENCE: Audience = Audience::Guests;

    fn run(self, context: &Context) -> anyhow::Result<()> {
        if self.files.is_given() {
            return self.show_objects_of_files(context);
        }
        let wanted = self.wanted_objects()?;
        for (kind, _) in &wanted {
            let audience = match kind {
                Kind::ClusterPool | Kind::ClusterClaim | Kind::ClusterDeployment => {
                    Audience::Guests
                }
                _ => Audience::Owner,
            };
            context.check_command_access(&format!("get {}", kind.word()), audience)?;
        }
        let store = context.open_existing_state()?;
        if self.watch || self.watch_only {
            return watch::watch_objects(context, &store, &self, &wanted);
        }
        if self.is_long_list(context, &wanted) {
            self.print_list(context, &store, &wanted)?;
            hint_hidden_values(context, &wanted);
            return Ok(());
        }
        let is_single =
            matches!(&wanted[..], [(kind, names)] if names.len() == 1 && *kind != Kind::Event);
        let mut is_below_table = false;
        for (kind, names) in &wanted {
            if let Kind::Job | Kind::Event = kind {
                let (entries, tones) = self.list_records(context, &store, *kind, names)?;
                if entries.is_empty() {
                    hint_none(context, *kind)?;
                }
                let list = self.list_answer(context, entries, is_single);
                context.answer(if context.colors() == Colors::Ansi {
                    list.with_tones(&tones)
                } else {
                    list
                })?;
                continue;
            }
            let objects = self
                .find_objects(context, &store, *kind, names, self.ignore_not_found)
                .map_err(|refusal| self.explain_kind_among_names(refusal))?;
            if objects.is_empty() && !self.ignore_not_found {
                hint_none(context, *kind)?;
            }
            let entries = self.object_entries(context, &store, *kind, &objects)?;
            let mut answer =
                color_states(context, self.list_answer(context, entries, is_single), &objects);
            if is_below_table && !objects.is_empty() {
                answer = answer.after_gap();
            }
            is_below_table |= !objects.is_empty();
            context.answer(answer)?;
            if !context.wants_documents() {
                infraenv_iso::hint_stale_images(context, &store, &objects)?;
            }
        }
        hint_hidden_values(context, &wanted);
        Ok(())
    }
}

/// Tells that documents of Secrets have no values.
fn hint_hidden_values(context: &Context, wanted: &[(Kind, Vec<String>)]) {
    if context.wants_documents() && wanted.iter().any(|(kind, _)| *kind == Kind::Secret) {
        context
            .hint("values of secrets are not shown here; next: poolctl extract secret/NAME --to=-");
    }
}

/// Tells people that there is nothing of a kind to list.
fn hint_none(context: &Context, kind: Kind) -> Result<(), Refusal> {
    if context.is_for_people() && kind.is_record() {
        context.hint(&format!("no {}s", kind.word()));
    } else if context.is_for_people() {
        let namespace = context.namespace_filter_of(kind)?;
        let place = namespace.map(|name| format!(" in namespace {name}")).unwrap_or_default();
        context.hint(&format!("no {} found{place}", kind.name()));
    }
    Ok(())
}

impl Get {
    /// Shows the objects that manifests name, as they are in the state.
    fn show_objects_of_files(&self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let objects = self.files.find_objects(context, &store, self.ignore_not_found)?;
        let mut is_below_table = false;
        for kind in Kind::OBJECTS {
            let mut objects_of_kind = objects.clone();
            objects_of_kind.retain(|object| object.kind() == *kind);
            if objects_of_kind.is_empty() {
                continue;
            }
            let entries = self.object_entries(context, &store, *kind, &objects_of_kind)?;
            let list = self.list_answer(context, entries, objects.len() == 1);
            let mut answer = color_states(context, list, &objects_of_kind);
            if is_below_table {
                answer = answer.after_gap();
            }
            is_below_table = true;
            context.answer(answer)?;
        }
        Ok(())
    }

    /// Tells how objects of several kinds are named, if a name that is missing is the word of a
    /// kind.
    fn explain_kind_among_names(&self, refusal: Refusal) -> Refusal {
        let has_kind = self.names.iter().any(|name| Kind::from_word(name).is_some());
        if refusal.exit != Exit::NotFound || !has_kind {
            return refusal;
        }
        let cause = "objects of several kinds are each written as KIND/NAME";
        refusal.because(cause).next("poolctl get pool/lab claim/ci-17")
    }

    /// Whether whole documents of all objects of some kinds are wanted, in the order in which they
    /// are kept. There may be more of them than fit into memory.
    fn is_long_list(&self, context: &Context, wanted: &[(Kind, Vec<String>)]) -> bool {
        // Records have no labels: that is refused elsewhere.
        let asks_for_labels = self.selector.is_some() || self.show_labels;
        ListPrinter::fits(&context.globals.output)
            && self.sort_by.is_none()
            && self.field_selector.is_none()
            && wanted.iter().all(|(kind, names)| {
                // Portions are read of tables, and most namespaces are in none.
                let is_in_table = *kind != Kind::Namespace;
                names.is_empty() && is_in_table && !(kind.is_record() && asks_for_labels)
            })
    }

    /// Prints the documents of all objects of some kinds as a List, in portions.
    fn print_list(
        &self,
        context: &Context,
        store: &Store,
        wanted: &[(Kind, Vec<String>)],
    ) -> Result<(), Refusal> {
        let mut printer = ListPrinter::new(context);
        store.begin_read()?;
        for (kind, _) in wanted {
            match kind {
                Kind::Job => store.visit_jobs(&mut |job| printer.add(job::document(&job)))?,
                Kind::Event => print_events(context, store, &mut printer)?,
                _ => self.print_objects(context, store, *kind, &mut printer)?,
            }
        }
        store.rollback();
        printer.finish()
    }

    /// Prints the documents of the objects of a kind that the person may see.
    fn print_objects(
        &self,
        context: &Context,
        store: &Store,
        kind: Kind,
        printer: &mut ListPrinter<'_>,
    ) -> Result<(), Refusal> {
        let namespace = context.namespace_filter_of(kind)?;
        store.visit_objects(kind, namespace.as_deref(), &mut |object| {
            for visible in context.filter_visible(store, vec![object])? {
                let selector = self.selector.as_ref();
                if selector.is_none_or(|selector| selector.matches(&visible.labels())) {
                    printer.add(visible.to_wire())?;
                }
            }
            Ok(())
        })
    }

    /// The kinds that are asked for, each with the names of its objects; no names mean all.
    fn wanted_objects(&self) -> Result<Vec<(Kind, Vec<String>)>, Refusal> {
        let words = self.kinds.as_deref().unwrap_or_default();
        let words = if words == ALL_KINDS { KINDS_OF_ALL } else { words };
        if !words.contains('/') {
            let kinds = words.split(',').map(target::parse_kind);
            return kinds.map(|kind| Ok((kind?, self.names.clone()))).collect();
        }
        let mut wanted: Vec<(Kind, Vec<String>)> = Vec::new();
        for (kind, name) in target::parse_objects(words, &self.names)? {
            match wanted.iter_mut().find(|(wanted_kind, _)| *wanted_kind == kind) {
                Some((_, names)) => names.push(name),
                None => wanted.push((kind, vec![name])),
            }
        }
        Ok(wanted)
    }

    /// The objects of a kind with these names, or all without names, filtered and sorted as the
    /// arguments ask. If `may_be_missing`, names without an object are passed over.
    pub fn find_objects(
        &self,
        context: &Context,
        store: &Store,
        kind: Kind,
        names: &[String],
        may_be_missing: bool,
    ) -> Result<Vec<Object>, Refusal> {
        // The labels of Agents are a column. Those of clusters and claims are in their documents.
        let asks_for_labels =
            self.show_labels || !self.label_columns.is_empty() || self.selector.is_some();
        let whole = context.wants_documents()
            || self.watch
            || self.watch_only
            || self.field_selector.is_some()
            || self.sort_by.is_some()
            || (asks_for_labels && kind != Kind::Agent)
            || (matches!(kind, Kind::ClusterDeployment | Kind::Agent)
                && context.globals.output.is_wide());
        let listed = match list_objects(context, store, kind, names, whole) {
            Err(absent) if absent.exit == Exit::NotFound && may_be_missing => {
                let objects = names.iter().map(|name| find_named(context, store, kind, name));
                objects.filter_map(Result::ok).collect()
            }
            listed => listed?,
        };
        let mut objects = context.filter_visible(store, listed)?;
        if let Some(selector) = &self.selector {
            objects.retain(|object| selector.matches(&object.labels()));
        }
        if let Some(selector) = &self.field_selector {
            selector.retain(&mut objects, Object::to_wire)?;
        }
        if let Some(column) = &self.sort_by {
            let view = gather_view(context, store, kind, &objects)?;
            sort::sort_by(
                &mut objects,
                column,
                |object| output::object_row(object, &view),
                Object::to_wire,
            )?;
        }
        Ok(objects)
    }

    /// Jobs or events. They are records of what happened to objects, and are listed by the names of
    /// those.
    fn list_records(
        &self,
        context: &Context,
        store: &Store,
        kind: Kind,
        names: &[String],
    ) -> Result<(Vec<Entry>, Vec<CellTones>), Refusal> {
        if self.selector.is_some() || self.show_labels {
            return Err(Refusal::usage(format!("a {} has no labels", kind.word())));
        }
        if kind == Kind::Job {
            let jobs = self.find_jobs(context, store, names)?;
            let tones = jobs.iter().map(output::job_tones).collect();
            Ok((job::entries(context, store, &jobs), tones))
        } else {
            let events = self.find_events(context, store, names)?;
            let tones = events.iter().map(output::event_tones).collect();
            Ok((events::event_entries(context, &events), tones))
        }
    }

    /// The jobs of the named objects, or those with these ids; all jobs without names.
    fn find_jobs(
        &self,
        context: &Context,
        store: &Store,
        names: &[String],
    ) -> Result<Vec<Job>, Refusal> {
        let now = context.world.now();
        let mut jobs = store.all_jobs()?;
        jobs.retain(|job| {
            is_asked_for(names, &job.object)
                || names.iter().any(|name| job::is_named_by_id(job, name))
        });
        if let Some(selector) = &self.field_selector {
            selector.retain(&mut jobs, job::document)?;
        }
        if let Some(column) = &self.sort_by {
            sort::sort_by(&mut jobs, column, |job| output::job_row(job, now), job::document)?;
        }
        Ok(jobs)
    }

    /// The events of objects with these names, or of all objects without names; the oldest first,
    /// as kubectl has them. Only `-n` leaves out other namespaces.
    fn find_events(
        &self,
        context: &Context,
        store: &Store,
        names: &[String],
    ) -> Result<Vec<Event>, Refusal> {
        let now = context.world.now();
        let globals = &context.globals;
        let namespace = if globals.all_namespaces { None } else { globals.namespace.as_ref() };
        let mut events = store.list_events(None, usize::MAX)?;
        events.retain(|event| {
            is_asked_for(names, &event.object.name)
                && namespace.is_none_or(|name| event.object.namespace == *name)
        });
        events.reverse();
        if let Some(selector) = &self.field_selector {
            selector.retain(&mut events, events::event_document)?;
        }
        if let Some(column) = &self.sort_by {
            sort::sort_by(
                &mut events,
                column,
                |event| events::event_table_row(event, now),
                events::event_document,
            )?;
        }
        Ok(events)
    }

    /// Several objects are a List; one that was named is a document of its own. With
    /// `--ignore-not-found` one that is missing is an empty answer, as with kubectl.
    fn list_answer(&self, context: &Context, entries: Vec<Entry>, is_single: bool) -> Answer {
        let is_own_document = is_single && (self.ignore_not_found || !entries.is_empty());
        let mut answer = Answer::list(entries);
        if self.no_headers {
            answer = answer.without_headers();
        }
        answer = answer.fitted(self.layout(context));
        if is_own_document { answer.single() } else { answer }
    }

    /// How tables are laid out. Columns that are asked for are never left out to fit a terminal, so
    /// tables with them look as in a pipe.
    pub fn layout(&self, context: &Context) -> Layout {
        if self.show_labels || self.show_kind || !self.label_columns.is_empty() {
            Layout::Pipe
        } else {
            context.table_layout()
        }
    }

    /// The entries of objects of a kind, with the columns that the arguments ask for.
    pub fn object_entries(
        &self,
        context: &Context,
        store: &Store,
        kind: Kind,
        objects: &[Object],
    ) -> Result<Vec<Entry>, Refusal> {
        let view = if context.wants_rows() {
            gather_view(context, store, kind, objects)?
        } else {
            RowContext::default()
        };
        let mut entries = Vec::new();
        for object in objects {
            let name = Name::of(kind, &object.key());
            entries.push(context.entry(
                Some(name),
                || self.labeled_row(object, &view),
                || object.to_wire(),
            ));
        }
        Ok(entries)
    }

    fn labeled_row(&self, object: &Object, view: &RowContext) -> Row {
        let mut row = output::object_row(object, view);
        let is_of_all = self.kinds.as_deref() == Some(ALL_KINDS);
        if (self.show_kind || is_of_all)
            && let Some((_, cell)) = row.iter_mut().find(|(column, _)| *column == "name")
        {
            *cell = Name::of(object.kind(), &object.key()).to_string();
        }
        for column in &self.label_columns {
            let value = object.labels().get(&column.label).cloned().unwrap_or_default();
            row.push((column.header, value));
        }
        if self.show_labels {
            let labels = object.labels().into_iter();
            let pairs: Vec<String> =
                labels.map(|(name, value)| format!("{name}={value}")).collect();
            row.push(("labels", pairs.join(",")));
        }
        row
    }
}

/// Colours the states of objects in their table, where colours are wanted.
pub fn color_states(context: &Context, answer: Answer, objects: &[Object]) -> Answer {
    if context.colors() == Colors::Plain {
        return answer;
    }
    let tones: Vec<CellTones> = objects.iter().map(output::state_tones).collect();
    answer.with_tones(&tones)
}

/// Prints the documents of all events, the oldest first. Only `-n` leaves out other namespaces.
fn print_events(
    context: &Context,
    store: &Store,
    printer: &mut ListPrinter<'_>,
) -> Result<(), Refusal> {
    let namespace = context.globals.namespace.as_ref();
    store.visit_events(&mut |event| {
        if namespace.is_none_or(|name| event.object.namespace == *name) {
            printer.add(events::event_document(&event))?;
        }
        Ok(())
    })
}

/// The word that asks for the kinds of everyday work.
const ALL_KINDS: &str = "all";
const KINDS_OF_ALL: &str = "pool,claim,cluster";

/// A column with the values of a label.
#[derive(Clone, Debug)]
struct LabelColumn {
    label: String,
    /// The last part of the label's name. It lives as long as the program, as other headers do.
    header: &'static str,
}

/// A column for a label, as `-L` names it. It never fails.
#[expect(clippy::unnecessary_wraps, reason = "clap asks for a Result")]
fn parse_label_column(label: &str) -> Result<LabelColumn, String> {
    let last_part = label.rsplit('/').next().unwrap_or(label);
    Ok(LabelColumn { label: label.to_owned(), header: last_part.to_owned().leak() })
}

/// Whether a name is among those that are asked for; no names ask for everything.
fn is_asked_for(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|wanted| wanted == name)
}

/// The objects of a kind with these names, or all of them without names. A name without an object
/// is refused. Bodies are complete only if `whole`, or if the objects are named.
fn list_objects(
    context: &Context,
    store: &Store,
    kind: Kind,
    names: &[String],
    whole: bool,
) -> Result<Vec<Object>, Refusal> {
    let lists_all = names.is_empty() || (context.globals.all_namespaces && kind.is_namespaced());
    if !lists_all {
        return names.iter().map(|name| find_named(context, store, kind, name)).collect();
    }
    let namespace = context.namespace_filter_of(kind)?;
    let mut objects = store.list_rows(kind, &Filter { namespace, name: None, whole })?;
    objects.retain(|object| is_asked_for(names, &object.key().name));
    for name in names {
        if !objects.iter().any(|object| object.key().name == *name) {
            return Err(Refusal::not_found(format!("there is no {} `{name}`", kind.word())));
        }
    }
    Ok(objects)
}

/// An object by its name. Guests may name every pool, but of other kinds only what is theirs.
fn find_named(context: &Context, store: &Store, kind: Kind, name: &str) -> Result<Object, Refusal> {
    if kind == Kind::ClusterPool {
        context.load_object(store, kind, name, Filter::named_whole)
    } else {
        context.find_object(store, kind, name)
    }
}

/// Whether any of the objects is being deleted, which their table then says.
pub fn shows_deletion(objects: &[Object]) -> bool {
    objects.iter().any(|object| object.deletion_time().is_some())
}

/// Reads what the rows of a kind show besides their objects. Each fact is read only if a row of
/// this list shows it.
fn gather_view(
    context: &Context,
    store: &Store,
    kind: Kind,
    objects: &[Object],
) -> Result<RowContext, Refusal> {
    let mut view = RowContext {
        now: context.world.now().max(store.read_mark()?.now),
        is_wide: context.globals.output.is_wide(),
        shows_namespaces: context.globals.all_namespaces && kind.is_namespaced(),
        shows_deletion: shows_deletion(objects),
        ..RowContext::default()
    };
    if objects
        .iter()
        .any(|object| matches!(object, Object::ClusterClaim(claim) if claim.is_waiting()))
    {
        for (claim, position) in queue::queue_positions(store, None, view.now)? {
            let text = if view.is_wide { position.to_string() } else { position.to_table_text() };
            view.queue_positions.insert(claim, text);
        }
    }
    view.hibernating_claims = queue::hibernating_claims(store, objects)?;
    if view.is_wide && kind == Kind::ClusterDeployment {
        view.credential_states = rotate::credential_states(store, objects)?;
    }
    if view.is_wide && kind == Kind::Agent {
        for object in objects {
            if let Object::Agent(agent) = object
                && let Some(roles) = fit::suitable_roles(agent)
            {
                view.suitable_roles.insert(agent.key(), roles);
            }
        }
    }
    if kind == Kind::Customization {
        view.pools = store.list_all::<ClusterPool>()?;
    }
    Ok(view)
}
