//! What a shell asks for while a command line is typed: words that could come next. Reads only,
//! and says nothing when something is wrong.

use clap::{Arg, ArgAction, Args, Command};

use crate::model::kinds::Kind;
use crate::model::platform::platform_names;
use crate::output::{Format, joined};
use crate::store::{Filter, Store};

use crate::commands::context::{Context, Globals};
use crate::commands::explain::field_names;
use crate::commands::{Verb, tree};

#[derive(Args)]
pub struct Complete {
    /// The command line so far, the word that is typed last
    #[arg(last = true)]
    words: Vec<String>,
}

impl Verb for Complete {
    const NAME: &'static str = "__complete";
    const ABOUT: &'static str = "Words that could come next";
    const EXAMPLE: &'static str = "poolctl __complete -- claim ''";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let (typed, before) =
            self.words.split_last().map_or(("", &[][..]), |(last, all)| (last, all));
        let line = Line::read(before);
        let mut found = line.candidates(context, typed);
        found.retain(|one| one.starts_with(typed));
        found.sort();
        found.dedup();
        context.print(&joined(&found))
    }
}

/// What the words before the typed one say.
struct Line {
    node: Command,
    /// Options of every command.
    globals: Command,
    /// The option whose value is typed.
    option: Option<Arg>,
    positionals: Vec<String>,
    namespace: Option<String>,
    everywhere: bool,
    state: Option<String>,
    /// After `--` comes a command of another program.
    other: bool,
}

impl Line {
    fn read(words: &[String]) -> Self {
        let globals = Globals::augment_args(Command::new("poolctl"));
        let mut line = Self {
            node: tree(),
            globals,
            option: None,
            positionals: Vec::new(),
            namespace: None,
            everywhere: false,
            state: None,
            other: false,
        };
        for word in words {
            line.take(word);
        }
        line
    }

    fn take(&mut self, word: &str) {
        // bash breaks words at `=`.
        if word == "=" {
            return;
        }
        if let Some(option) = self.option.take() {
            return self.value(&option, word);
        }
        if word == "--" {
            self.other = true;
        } else if let Some(name) = word.strip_prefix("--") {
            let (name, value) = name.split_once('=').unzip();
            let name = name.unwrap_or(word.trim_start_matches('-'));
            self.named(|arg| arg.get_long() == Some(name), value);
        } else if let Some(short) = word.strip_prefix('-').and_then(|rest| rest.chars().last()) {
            self.named(|arg| arg.get_short() == Some(short), None);
        } else if let Some(below) =
            self.node.find_subcommand(word).filter(|_| self.positionals.is_empty())
        {
            let mut below = below.clone();
            // Its arguments are made only now.
            below.build();
            self.node = below;
        } else {
            self.positionals.push(word.to_owned());
        }
    }

    fn named(&mut self, is: impl Fn(&Arg) -> bool, value: Option<&str>) {
        let all = self.node.get_arguments().chain(self.globals.get_arguments());
        let Some(arg) = all.into_iter().find(|arg| is(arg)).cloned() else { return };
        if arg.get_id() == "all_namespaces" {
            self.everywhere = true;
        }
        let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
        match value {
            Some(value) => self.value(&arg, value),
            // One that may stand alone takes its value only behind `=`.
            None if takes && !arg.is_require_equals_set() => self.option = Some(arg),
            None => {}
        }
    }

    fn value(&mut self, option: &Arg, value: &str) {
        match option.get_id().as_str() {
            "namespace" => self.namespace = Some(value.to_owned()),
            "state" => self.state = Some(value.to_owned()),
            _ => {}
        }
    }

    fn candidates(&self, context: &Context, typed: &str) -> Vec<String> {
        if self.other {
            return Vec::new();
        }
        if let Some(option) = &self.option {
            return self.values(context, option, typed.trim_start_matches('='));
        }
        if let Some((name, typed)) = typed.strip_prefix("--").and_then(|rest| rest.split_once('='))
        {
            let mut all = self.node.get_arguments().chain(self.globals.get_arguments());
            let option = all.find(|arg| arg.get_long() == Some(name));
            let values = option.map(|arg| self.values(context, arg, typed)).unwrap_or_default();
            return values.into_iter().map(|value| format!("--{name}={value}")).collect();
        }
        if typed.starts_with('-') {
            let all = self.node.get_arguments().chain(self.globals.get_arguments());
            let shown = all.filter(|arg| !arg.is_hide_set());
            return shown.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
        }
        if self.node.has_subcommands() {
            if !self.positionals.is_empty() {
                return Vec::new();
            }
            let shown = self.node.get_subcommands().filter(|one| !one.is_hide_set());
            return shown.map(|one| one.get_name().to_owned()).collect();
        }
        let at = self.positionals.len();
        let all: Vec<&Arg> = self.node.get_positionals().collect();
        let several = |arg: &&&Arg| matches!(arg.get_action(), ArgAction::Append);
        let arg = all.get(at).or_else(|| all.last().filter(several));
        let mut found = arg.map(|arg| self.values(context, arg, typed)).unwrap_or_default();
        // What was said is not said again.
        found.retain(|one| !self.positionals.contains(one));
        found
    }

    /// By the name that help gives a value.
    fn values(&self, context: &Context, arg: &Arg, typed: &str) -> Vec<String> {
        let possible = arg.get_possible_values();
        if !possible.is_empty() {
            return possible.iter().map(|one| one.get_name().to_owned()).collect();
        }
        let name = arg.get_value_names().and_then(<[_]>::first).map(ToString::to_string);
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let of = |kinds: &[Kind]| -> Vec<String> {
            kinds.iter().flat_map(|kind| self.names(context, *kind)).collect()
        };
        match name.as_deref().unwrap_or_default() {
            "POOL" => of(&[Kind::ClusterPool]),
            "CLAIM" => of(&[Kind::ClusterClaim]),
            "CLAIM|CLUSTER" => of(&[Kind::ClusterClaim, Kind::ClusterDeployment]),
            "JOB|CLUSTER" => of(&[Kind::ClusterDeployment]),
            "CUSTOMIZATION" => of(&[Kind::Customization]),
            "HOST" => of(&[Kind::BareMetalHost]),
            "IPPOOL" | "IPPOOL[,IPPOOL]" => of(&[Kind::IpPool]),
            "TEMPLATE" => of(&[Kind::DataTemplate]),
            "IPCLAIM" => of(&[Kind::IpClaim]),
            "IMAGESET" => of(&[Kind::ClusterImageSet]),
            "PLATFORM" => words(&platform_names()),
            "NAMESPACE" => self.namespaces(context),
            "FORMAT" => words(&Format::names()),
            "secret/NAME" => self.slashed(context, Kind::Secret),
            "KIND[.FIELD]" => fields(typed),
            "KIND[,KIND]" | "KIND/NAME" | "KIND/NAME|KEY=VALUE|KEY-" => {
                self.objects(context, typed)
            }
            "NAME" => {
                let kind = self.positionals.first().and_then(|word| Kind::from_word(word));
                kind.map(|kind| self.names(context, kind)).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// A kind; with its slash, one of its names; after a kind, a name.
    fn objects(&self, context: &Context, typed: &str) -> Vec<String> {
        let known = self.positionals.first().and_then(|word| Kind::from_word(word));
        match (known, typed.split_once('/')) {
            (Some(kind), None) => self.names(context, kind),
            (_, Some((word, _))) => {
                let names = Kind::from_word(word).map(|kind| self.names(context, kind));
                names.unwrap_or_default().iter().map(|name| format!("{word}/{name}")).collect()
            }
            (None, None) => Kind::all_words().map(str::to_owned).collect(),
        }
    }

    fn slashed(&self, context: &Context, kind: Kind) -> Vec<String> {
        let word = kind.word();
        self.names(context, kind).iter().map(|name| format!("{word}/{name}")).collect()
    }

    fn store(&self, context: &Context) -> Option<Store> {
        let path = self.state.clone().map(Into::into).or_else(|| context.path().ok())?;
        Store::open(&path).ok()
    }

    fn names(&self, context: &Context, kind: Kind) -> Vec<String> {
        let here = || self.namespace.clone().or_else(|| context.namespace().ok());
        let namespace = if self.everywhere || !kind.namespaced() { None } else { here() };
        let filter = Filter { namespace, ..Filter::default() };
        let found = self.store(context).and_then(|store| store.objects(kind, &filter).ok());
        found.unwrap_or_default().iter().map(|one| one.key().name).collect()
    }

    /// Namespaces that something is in.
    fn namespaces(&self, context: &Context) -> Vec<String> {
        let Some(store) = self.store(context) else { return Vec::new() };
        let kinds = [Kind::ClusterPool, Kind::ClusterClaim, Kind::ClusterDeployment, Kind::Secret];
        let found = kinds.into_iter().filter_map(|kind| store.names(kind).ok()).flatten();
        found.map(|key| key.namespace).collect()
    }
}

/// Kinds, or the fields below what is typed of a path.
fn fields(typed: &str) -> Vec<String> {
    let Some((kind, rest)) = typed.split_once('.') else {
        return Kind::ALL.iter().map(|kind| kind.word().to_owned()).collect();
    };
    let (path, _) = rest.rsplit_once('.').unwrap_or(("", rest));
    let dot = if path.is_empty() { "" } else { "." };
    let names = field_names(kind, path);
    names.into_iter().map(|name| format!("{kind}.{path}{dot}{name}")).collect()
}
