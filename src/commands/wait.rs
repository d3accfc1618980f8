//! `wait`: waits until a condition of objects holds, a field has a value, or the objects are
//! created or deleted. Passes go on meanwhile.

use anyhow::bail;
use clap::Args;
use serde_json::Value;

use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::time::Span;
use crate::output;
use crate::store::{Filter, Store};

use crate::commands::selector::Selector;
use crate::commands::waiting::stage::{Stage, find_stage_of_object};
use crate::commands::waiting::{Observation, WaitOutcome, WaitProgress, Waiting};
use crate::commands::{Context, RunCommand, target};

/// Arguments of `wait`. Passes run while it waits, so it needs no cron.
#[derive(Args)]
pub struct Wait {
    /// Object, such as claim/ci-17; or a kind, such as claim, with names after it
    #[arg(value_name = "KIND/NAME")]
    kind: String,
    /// Names of objects of the kind, or further objects such as claim/ci-18
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// What to wait for: condition=NAME[=STATUS], delete, create, or jsonpath=PATH[=VALUE]; given
    /// several times, all of it
    #[arg(long = "for", required = true, value_name = "WHAT")]
    goals: Vec<Goal>,
    /// Maximum time to wait; -1 waits without limit, 0 checks once
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "30s",
        value_parser = parse_timeout,
        allow_hyphen_values = true
    )]
    timeout: Span,
    /// Wait for all objects of the kind
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Wait for objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with_all = ["names", "all"])]
    selector: Option<Selector>,
}

/// What is waited for, as `--for` says.
#[derive(Clone, Debug)]
enum Goal {
    Condition {
        name: String,
        status: String,
    },
    /// A path has this value, or any value.
    Path {
        path: String,
        value: Option<String>,
    },
    Deleted,
    Created,
}

impl std::str::FromStr for Goal {
    type Err = String;

    fn from_str(argument: &str) -> Result<Self, String> {
        let (goal, rest) = argument.split_once('=').unwrap_or((argument, ""));
        match goal {
            "delete" if rest.is_empty() => Ok(Self::Deleted),
            "create" if rest.is_empty() => Ok(Self::Created),
            "condition" if !rest.is_empty() => {
                let (name, status) = rest.split_once('=').unwrap_or((rest, "True"));
                Ok(Self::Condition { name: name.to_owned(), status: unquote(status) })
            }
            "jsonpath" if !rest.is_empty() => Ok(parse_path(rest)),
            _ => Err("expected condition=NAME, delete, create or jsonpath=PATH".into()),
        }
    }
}

/// The goal of `PATH` or `PATH=VALUE`. An `=` inside the braces belongs to a filter of the path.
fn parse_path(argument: &str) -> Goal {
    let end_of_braces = argument.rfind('}').map_or(0, |index| index + 1);
    match argument[end_of_braces..].split_once('=') {
        Some((rest_of_path, value)) => Goal::Path {
            path: unquote(&format!("{}{rest_of_path}", &argument[..end_of_braces])),
            value: Some(unquote(value)),
        },
        None => Goal::Path { path: unquote(argument), value: None },
    }
}

fn unquote(argument: &str) -> String {
    argument.trim_matches(['\'', '"']).to_owned()
}

/// A negative time is no limit, as with kubectl.
pub fn parse_timeout(argument: &str) -> Result<Span, String> {
    let for_ever = Span::hours(24 * 365);
    match argument.strip_prefix('-') {
        None if argument == "0" => Ok(Span::default()),
        None => argument.parse(),
        Some("1") => Ok(for_ever),
        Some(duration) => duration.parse::<Span>().map(|_| for_ever),
    }
}

impl Goal {
    /// Whether an object, or its absence, is what is waited for.
    fn is_reached(&self, object: Option<&Object>) -> Result<bool, Refusal> {
        let Some(object) = object else {
            return Ok(matches!(self, Self::Deleted));
        };
        let document = object.to_wire();
        Ok(match self {
            Self::Deleted => false,
            Self::Created => true,
            Self::Condition { name, status } => has_condition(&document, name, status),
            Self::Path { path, value } => {
                let values = output::select_values(path, &document)?;
                match value {
                    Some(wanted) => {
                        let shown: Vec<String> =
                            values.into_iter().map(output::print_value).collect();
                        shown.join(" ") == *wanted
                    }
                    None => !values.is_empty(),
                }
            }
        })
    }

    /// The goal as it stands after "waiting for" and before "of" an object.
    fn description(&self) -> String {
        match self {
            Self::Deleted => "deletion".into(),
            Self::Created => "creation".into(),
            Self::Condition { name, status } => format!("condition {name}={status}"),
            Self::Path { path, value: Some(value) } => format!("{path}={value}"),
            Self::Path { path, value: None } => path.clone(),
        }
    }
}

/// Whether the status of an object has a condition. The case of letters does not matter, as with
/// kubectl.
fn has_condition(document: &Value, name: &str, status: &str) -> bool {
    let conditions = document["status"]["conditions"].as_array();
    let condition = conditions.into_iter().flatten().find(|condition| {
        condition["type"].as_str().is_some_and(|found_name| found_name.eq_ignore_ascii_case(name))
    });
    condition
        .and_then(|condition| condition["status"].as_str())
        .is_some_and(|found_status| found_status.eq_ignore_ascii_case(status))
}

impl RunCommand for Wait {
    const NAME: &'static str = "wait";
    const ABOUT: &'static str = "Wait until objects reach a condition, or are created or deleted";
    const EXAMPLE: &'static str =
        "poolctl wait claim/ci-17 --for=condition=ClusterRunning --timeout=30m";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let objects = self.objects_to_wait_for(context, &store)?;
        if objects.is_empty() {
            bail!(Refusal::not_found("there is nothing to wait for").next(Self::EXAMPLE));
        }
        if self.goals.iter().any(|goal| matches!(goal, Goal::Deleted)) {
            for (kind, key) in &objects {
                warn_if_never_seen(context, &store, *kind, key)?;
            }
        }
        self.wait_for(context, &store, objects)
    }
}

/// Warns of an object that is waited to be deleted, and of which nothing shows that it ever was
/// there: its name is probably wrong. That it is deleted is true all the same.
fn warn_if_never_seen(
    context: &Context,
    store: &Store,
    kind: Kind,
    key: &Key,
) -> Result<(), Refusal> {
    let Err(absent) = context.find_object(store, kind, &key.name) else { return Ok(()) };
    if absent.exit == Exit::NotFound && store.list_events(Some((kind, key)), 1)?.is_empty() {
        let mut warning = format!("{}, nor an event of it", absent.what);
        for cause in &absent.causes {
            warning = format!("{warning}; {cause}");
        }
        context.warn(&warning);
    }
    Ok(())
}

/// Waits until none of these objects exists any more, as `delete --wait` does.
pub fn wait_for_deletion(
    context: &Context,
    store: &Store,
    objects: Vec<(Kind, Key)>,
    timeout: Span,
) -> anyhow::Result<()> {
    let wait = Wait {
        kind: String::new(),
        names: Vec::new(),
        goals: vec![Goal::Deleted],
        timeout,
        all: false,
        selector: None,
    };
    wait.wait_for(context, store, objects)
}

impl Wait {
    /// Waits until all of these objects are as wanted, and answers for each when it is.
    fn wait_for(
        &self,
        context: &Context,
        store: &Store,
        mut waiting_objects: Vec<(Kind, Key)>,
    ) -> anyhow::Result<()> {
        let door = context.door(store);
        let waiting = Waiting { context, door: &door, pool: None, limit: self.timeout };
        context.world.catch_signals();
        let total = waiting_objects.len() as u64;
        let mut printed = Ok(());
        let ended = waiting.wait_until(|_| {
            let mut remaining = Vec::new();
            for (kind, key) in waiting_objects.drain(..) {
                if self.is_met(context, store, kind, &key)? {
                    let answered = context.report_change(kind, &key, "condition met");
                    printed = std::mem::replace(&mut printed, Ok(())).and(answered);
                } else {
                    remaining.push((kind, key));
                }
            }
            waiting_objects = remaining;
            let Some((kind, key)) = waiting_objects.first() else {
                return Ok(Observation::Met(()));
            };
            let met_count = total - waiting_objects.len() as u64;
            let description = format!("{}/{}: {}", kind.word(), key.name, self.description());
            let filter = Filter::named(key);
            let stage = match store.list_objects(*kind, &filter)?.first() {
                Some(object) => find_stage_of_object(store, object, context.world.now())?,
                None => Stage::default(),
            };
            let estimate = String::new();
            Ok(Observation::NotYet(WaitProgress {
                done: met_count,
                total,
                description,
                stage,
                estimate,
            }))
        })?;
        printed?;
        let Some((kind, key)) = waiting_objects.first() else { return Ok(()) };
        match ended {
            WaitOutcome::Met(()) => Ok(()),
            WaitOutcome::Late => {
                let problem = "timed out waiting for";
                Err(self.refuse_wait(context, Exit::Timeout, problem, *kind, key).into())
            }
            WaitOutcome::Interrupted(exit) => {
                let problem = "interrupted waiting for";
                Err(self.refuse_wait(context, exit, problem, *kind, key).into())
            }
        }
    }

    /// What is waited for.
    fn description(&self) -> String {
        self.goals.iter().map(Goal::description).collect::<Vec<_>>().join(" and ")
    }

    /// The objects to wait for. Those that are named need not exist yet.
    fn objects_to_wait_for(
        &self,
        context: &Context,
        store: &Store,
    ) -> Result<Vec<(Kind, Key)>, Refusal> {
        if self.all || self.selector.is_some() {
            let kind = target::parse_kind(&self.kind)?;
            let objects = context.select_objects(store, kind, self.selector.as_ref())?;
            return Ok(objects.iter().map(|object| (kind, object.key())).collect());
        }
        if context.globals.all_namespaces {
            return Err(Refusal::usage("-A needs --all or -l; a name is in one namespace"));
        }
        let mut objects = Vec::new();
        for (kind, name) in target::parse_objects(&self.kind, &self.names)? {
            objects.push((kind, context.find_key(store, kind, &name)?));
        }
        Ok(objects)
    }

    /// Whether an object is what it is waited to be. If its existence is not what is waited for, an
    /// object that does not exist is refused.
    fn is_met(
        &self,
        context: &Context,
        store: &Store,
        kind: Kind,
        key: &Key,
    ) -> Result<bool, Refusal> {
        let filter = Filter::named_whole(key);
        let object = store.list_objects(kind, &filter)?.into_iter().next();
        let may_be_absent =
            self.goals.iter().any(|goal| matches!(goal, Goal::Deleted | Goal::Created));
        if object.is_none() && !may_be_absent {
            context.find_object(store, kind, &key.name)?;
        }
        for goal in &self.goals {
            if !goal.is_reached(object.as_ref())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The refusal for an object that did not become what it was waited to be; `problem` says how
    /// the waiting ended.
    fn refuse_wait(
        &self,
        context: &Context,
        exit: Exit,
        problem: &str,
        kind: Kind,
        key: &Key,
    ) -> Refusal {
        let word = kind.word();
        let Key { name, namespace } = key;
        let namespace_option = context.namespace_option(namespace);
        let goal = self.description();
        Refusal::new(exit, format!("{problem} {goal} of {word} `{name}`"))
            .advise(format!("poolctl why {word}/{name}{namespace_option}"))
    }
}
