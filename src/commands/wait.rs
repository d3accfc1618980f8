//! `wait`: until a condition holds, a field has a value, or objects are gone.

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
use crate::commands::waiting::{Ended, Look, Waiting};
use crate::commands::{Context, Verb, target};

#[derive(Args)]
pub struct Wait {
    /// Kind, or KIND/NAME
    #[arg(value_name = "KIND/NAME")]
    kind: String,
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// condition=NAME[=STATUS], delete, create, or jsonpath=PATH[=VALUE]
    #[arg(long = "for", value_name = "WHAT")]
    what: What,
    /// At most this long; -1 waits for ever, 0 looks once
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = limit, allow_hyphen_values = true)]
    timeout: Span,
    /// Every object of the kind
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Those with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with_all = ["names", "all"])]
    selector: Option<Selector>,
}

#[derive(Clone, Debug)]
enum What {
    Condition(String, String),
    Path(String, Option<String>),
    Gone,
    There,
}

impl std::str::FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value = |text: &str| text.trim_matches(['\'', '"']).to_owned();
        let (kind, rest) = text.split_once('=').unwrap_or((text, ""));
        Ok(match (kind, rest) {
            ("delete", "") => Self::Gone,
            ("create", "") => Self::There,
            ("condition", rest) if !rest.is_empty() => {
                let (name, status) = rest.split_once('=').unwrap_or((rest, "True"));
                Self::Condition(name.into(), value(status))
            }
            ("jsonpath", rest) if !rest.is_empty() => {
                // An `=` inside the braces belongs to a filter.
                let end = rest.rfind('}').map_or(0, |end| end + 1);
                match rest[end..].split_once('=') {
                    Some((path, wanted)) => {
                        Self::Path(value(&format!("{}{path}", &rest[..end])), Some(value(wanted)))
                    }
                    None => Self::Path(value(rest), None),
                }
            }
            _ => return Err("it is none of condition=NAME, delete, create, jsonpath=PATH".into()),
        })
    }
}

fn limit(text: &str) -> Result<Span, String> {
    match text {
        "0" => Ok(Span::default()),
        // As with kubectl: a time below none is no limit.
        "-1" => Ok(Span::hours(24 * 365)),
        text => match text.strip_prefix('-') {
            Some(span) => span.parse::<Span>().map(|_| Span::hours(24 * 365)),
            None => text.parse(),
        },
    }
}

impl What {
    fn holds(&self, object: Option<&Object>) -> Result<bool, Refusal> {
        let Some(object) = object else {
            return Ok(matches!(self, Self::Gone));
        };
        let document = object.to_wire();
        Ok(match self {
            Self::Gone => false,
            Self::There => true,
            Self::Condition(name, status) => {
                let same = |one: &&Value, field: &str, text: &str| {
                    one[field].as_str().is_some_and(|found| found.eq_ignore_ascii_case(text))
                };
                let all = document["status"]["conditions"].as_array();
                let found = all.into_iter().flatten().find(|one| same(one, "type", name));
                found.is_some_and(|one| same(&one, "status", status))
            }
            Self::Path(path, wanted) => {
                let found = output::find(path, &document)?;
                let shown =
                    found.iter().map(|one| output::shown(one)).collect::<Vec<_>>().join(" ");
                wanted.as_ref().map_or(!found.is_empty(), |wanted| *wanted == shown)
            }
        })
    }

    fn name(&self) -> String {
        match self {
            Self::Gone => "its deletion".into(),
            Self::There => "its creation".into(),
            Self::Condition(name, status) => format!("condition {name}={status}"),
            Self::Path(path, Some(value)) => format!("{path} to be {value}"),
            Self::Path(path, None) => format!("{path} to be there"),
        }
    }
}

impl Verb for Wait {
    const NAME: &'static str = "wait";
    const ABOUT: &'static str = "Wait until objects are as they should be, or gone";
    const EXAMPLE: &'static str =
        "poolctl wait claim/ci-17 --for=condition=ClusterRunning --timeout=30m";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let mut waits = self.objects(context, &store)?;
        if waits.is_empty() {
            bail!(Refusal::not_found("there is nothing to wait for").next(Self::EXAMPLE));
        }
        let door = context.door(&store);
        let waiting = Waiting { context, door: &door, pool: None, limit: self.timeout };
        context.world.catch_signals();
        let all = waits.len() as u64;
        let mut printed = Ok(());
        let ended = waiting.until(|_| {
            let mut left = Vec::new();
            for (kind, key) in waits.drain(..) {
                let found = present(&store, kind, &key)?;
                if found.is_none() && !matches!(self.what, What::Gone | What::There) {
                    context.find_object(&store, kind, &key.name)?;
                }
                if self.what.holds(found.as_ref())? {
                    let said = context.changed(kind, &key, "condition met");
                    printed = std::mem::replace(&mut printed, Ok(())).and(said);
                } else {
                    left.push((kind, key));
                }
            }
            waits = left;
            let Some((kind, key)) = waits.first() else {
                return Ok(Look::Met(()));
            };
            let done = all - waits.len() as u64;
            let text = format!("{}/{}: {}", kind.word(), key.name, self.what.name());
            Ok(Look::Not(done, all, text))
        })?;
        printed?;
        let Some((kind, Key { name, namespace })) = waits.first() else { return Ok(()) };
        let (word, what) = (kind.word(), self.what.name());
        let at = context.in_namespace(namespace);
        let refuse = |exit, how: &str| {
            let said = format!("{how} {what} of {word} `{name}`");
            Err(Refusal::new(exit, said).advise(format!("poolctl why {word}/{name}{at}")).into())
        };
        match ended {
            Ended::Met(()) => Ok(()),
            Ended::Late => refuse(Exit::Timeout, "timed out waiting for"),
            Ended::Interrupted(exit) => refuse(exit, "interrupted waiting for"),
        }
    }
}

impl Wait {
    fn objects(&self, context: &Context, store: &Store) -> Result<Vec<(Kind, Key)>, Refusal> {
        if self.all || self.selector.is_some() {
            let kind = target::kind_of(&self.kind)?;
            let namespace = if kind.namespaced() { context.namespaces()? } else { None };
            let mut found = store.objects(kind, &Filter { namespace, name: None, whole: true })?;
            found.retain(|one| self.selector.as_ref().is_none_or(|all| all.matches(&one.labels())));
            return Ok(found.iter().map(|one| (kind, one.key())).collect());
        }
        if context.globals.all_namespaces {
            return Err(Refusal::usage("-A needs --all or -l; a name is in one namespace"));
        }
        let named = target::several(&self.kind, &self.names)?.into_iter();
        named.map(|(kind, name)| Ok((kind, context.key(kind, &name)?))).collect()
    }
}

/// The object if it is there.
fn present(store: &Store, kind: Kind, key: &Key) -> Result<Option<Object>, Refusal> {
    let filter = Filter { whole: true, ..Filter::named(key) };
    Ok(store.objects(kind, &filter)?.into_iter().next())
}
