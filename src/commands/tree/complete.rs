//! `__complete`: prints the words that could come next while somebody types a command line. Shells
//! run it. It only reads, and prints nothing if something is wrong.

use clap::{Arg, ArgAction, Args, Command};

use crate::model::kinds::Kind;
use crate::model::platform::platform_names;
use crate::output::{Format, join_lines};
use crate::store::{Filter, Store};

use crate::commands::context::{Context, Globals};
use crate::commands::explain::names_of_fields_below;
use crate::commands::explain::words::names_of_topic;
use crate::commands::{RunCommand, tree};

/// Arguments of `__complete`: the words of a line so far. Completion scripts run it.
#[derive(Args)]
pub struct Complete {
    /// The words of the command line so far; the last one is being typed
    #[arg(last = true)]
    words: Vec<String>,
}

impl RunCommand for Complete {
    const NAME: &'static str = "__complete";
    const ABOUT: &'static str = "Print the words that could come next";
    const EXAMPLE: &'static str = "poolctl __complete -- claim ''";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let (typed, words_before) = match self.words.split_last() {
            Some((typed, words_before)) => (typed.as_str(), words_before),
            None => ("", &[][..]),
        };
        let line = CommandLine::read(words_before);
        let mut candidates = line.candidates(context, typed);
        candidates.retain(|candidate| candidate.starts_with(typed));
        candidates.sort_unstable();
        candidates.dedup();
        context.print(&join_lines(&candidates))
    }
}

/// What the words before the one that is being typed say.
struct CommandLine {
    /// The command that was named so far.
    command: Command,
    /// Options of every command.
    globals: Command,
    /// The option whose value comes next.
    pending_option: Option<Arg>,
    positionals: Vec<String>,
    namespace: Option<String>,
    all_namespaces: bool,
    state: Option<String>,
    /// Whether `--` was typed: what follows is the command of another program.
    is_after_separator: bool,
}

impl CommandLine {
    /// Reads the words before the one that is being typed; unknown ones are passed over.
    fn read(words: &[String]) -> Self {
        let globals = Globals::augment_args(Command::new("poolctl"));
        let mut line = Self {
            command: tree(),
            globals,
            pending_option: None,
            positionals: Vec::new(),
            namespace: None,
            all_namespaces: false,
            state: None,
            is_after_separator: false,
        };
        for word in words {
            line.read_word(word);
        }
        line
    }

    /// Takes one word: the value of the option before it, an option, a subcommand, or a positional
    /// argument.
    fn read_word(&mut self, word: &str) {
        // bash cuts words at `=`.
        if word == "=" {
            return;
        }
        if let Some(option) = self.pending_option.take() {
            return self.read_value(&option, word);
        }
        if word == "--" {
            self.is_after_separator = true;
        } else if let Some(option) = word.strip_prefix("--") {
            match option.split_once('=') {
                Some((name, value)) => self.read_long_option(name, Some(value)),
                None => self.read_long_option(word.trim_start_matches('-'), None),
            }
        } else if let Some(letter) = word.strip_prefix('-').and_then(|rest| rest.chars().last()) {
            self.read_option(|option| option.get_short() == Some(letter), None);
        } else if self.positionals.is_empty()
            && let Some(subcommand) = self.command.find_subcommand(word)
        {
            let mut subcommand = subcommand.clone();
            // The arguments of a command are made only when it is built.
            subcommand.build();
            self.command = subcommand;
        } else {
            self.positionals.push(word.to_owned());
        }
    }

    fn read_long_option(&mut self, name: &str, value: Option<&str>) {
        self.read_option(|option| option.get_long() == Some(name), value);
    }

    /// Reads an option of the command or of all commands. What is no option is passed over.
    fn read_option(&mut self, is_typed: impl Fn(&Arg) -> bool, value: Option<&str>) {
        let Some(option) = self.options().find(|option| is_typed(option)).cloned() else { return };
        if option.get_id() == "all_namespaces" {
            self.all_namespaces = true;
        }
        let takes_value = matches!(option.get_action(), ArgAction::Set | ArgAction::Append);
        if let Some(value) = value {
            self.read_value(&option, value);
        } else if takes_value && !option.is_require_equals_set() {
            // An option that may stand alone takes its value only behind `=`.
            self.pending_option = Some(option);
        }
    }

    fn options(&self) -> impl Iterator<Item = &Arg> {
        self.command.get_arguments().chain(self.globals.get_arguments())
    }

    /// Keeps the values that decide which state is read, and which objects of it are named.
    fn read_value(&mut self, option: &Arg, value: &str) {
        match option.get_id().as_str() {
            "namespace" => self.namespace = Some(value.to_owned()),
            "state" => self.state = Some(value.to_owned()),
            _ => {}
        }
    }

    /// The words that could stand where `typed` is being typed; some of them begin otherwise.
    fn candidates(&self, context: &Context, typed: &str) -> Vec<String> {
        if self.is_after_separator {
            return Vec::new();
        }
        if let Some(option) = &self.pending_option {
            return self.values_of(context, option, typed.trim_start_matches('='));
        }
        if let Some((name, value)) = typed.strip_prefix("--").and_then(|rest| rest.split_once('='))
        {
            let Some(option) = self.options().find(|option| option.get_long() == Some(name)) else {
                return Vec::new();
            };
            let values = self.values_of(context, option, value);
            return values.into_iter().map(|value| format!("--{name}={value}")).collect();
        }
        if typed.starts_with('-') {
            let shown = self.options().filter(|option| !option.is_hide_set());
            return shown.filter_map(|option| Some(format!("--{}", option.get_long()?))).collect();
        }
        if self.command.has_subcommands() {
            return self.subcommand_names();
        }
        self.positional_values(context, typed)
    }

    /// The subcommands that can follow; none behind a positional argument, and no hidden ones.
    fn subcommand_names(&self) -> Vec<String> {
        if !self.positionals.is_empty() {
            return Vec::new();
        }
        let shown = self.command.get_subcommands().filter(|command| !command.is_hide_set());
        shown.map(|command| command.get_name().to_owned()).collect()
    }

    /// Values of the next positional argument. The last one may take several, but none twice.
    fn positional_values(&self, context: &Context, typed: &str) -> Vec<String> {
        let arguments: Vec<&Arg> = self.command.get_positionals().collect();
        let repeated =
            arguments.last().filter(|argument| matches!(argument.get_action(), ArgAction::Append));
        let Some(argument) = arguments.get(self.positionals.len()).or(repeated) else {
            return Vec::new();
        };
        let mut values = self.values_of(context, argument, typed);
        values.retain(|value| !self.positionals.contains(value));
        values
    }

    /// The values that an argument can have, by the name that help gives its value.
    fn values_of(&self, context: &Context, argument: &Arg, typed: &str) -> Vec<String> {
        let possible_values = argument.get_possible_values();
        if !possible_values.is_empty() {
            return possible_values.iter().map(|value| value.get_name().to_owned()).collect();
        }
        let value_name = argument.get_value_names().and_then(<[_]>::first).map(ToString::to_string);
        match value_name.as_deref().unwrap_or_default() {
            "POOL" => self.names(context, Kind::ClusterPool),
            "CLAIM" => self.names(context, Kind::ClusterClaim),
            "CLAIM|CLUSTER" => {
                let claims = self.names(context, Kind::ClusterClaim);
                [claims, self.names(context, Kind::ClusterDeployment)].concat()
            }
            "JOB|CLUSTER|HOST" => self.names(context, Kind::ClusterDeployment),
            "CUSTOMIZATION" => self.names(context, Kind::Customization),
            "HOST" => self.names(context, Kind::BareMetalHost),
            "IPPOOL" | "IPPOOL[,IPPOOL]" => self.names(context, Kind::IpPool),
            "TEMPLATE" => self.names(context, Kind::DataTemplate),
            "IPCLAIM" => self.names(context, Kind::IpClaim),
            "IMAGESET" => self.names(context, Kind::ClusterImageSet),
            "PLATFORM" => owned(&platform_names()),
            "NAMESPACE" => self.namespaces(context),
            "FORMAT" => owned(&Format::names()),
            "secret/NAME" => self.slashed_names(context, Kind::Secret.word(), Kind::Secret),
            "KIND[.FIELD]" => kinds_or_fields(typed),
            "KIND[,KIND]" | "KIND/NAME" | "KIND/NAME|KEY=VALUE|KEY-" => {
                self.kinds_or_names(context, typed)
            }
            "NAME" => match self.typed_kind() {
                Some(kind) => self.names(context, kind),
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// The kind that the first positional argument names.
    fn typed_kind(&self) -> Option<Kind> {
        self.positionals.first().and_then(|word| Kind::from_word(word))
    }

    /// Kinds; after a kind, its names; after a kind and a slash, its names with both before them.
    fn kinds_or_names(&self, context: &Context, typed: &str) -> Vec<String> {
        if let Some((word, _)) = typed.split_once('/') {
            return match Kind::from_word(word) {
                Some(kind) => self.slashed_names(context, word, kind),
                None => Vec::new(),
            };
        }
        match self.typed_kind() {
            Some(kind) => self.names(context, kind),
            None => Kind::all_words().map(str::to_owned).collect(),
        }
    }

    fn slashed_names(&self, context: &Context, word: &str, kind: Kind) -> Vec<String> {
        self.names(context, kind).iter().map(|name| format!("{word}/{name}")).collect()
    }

    fn store(&self, context: &Context) -> Option<Store> {
        let path = self.state.clone().map(Into::into).or_else(|| context.state_path().ok())?;
        Store::open(&path).ok()
    }

    /// The names of all objects of a kind in the namespace that the line names.
    fn names(&self, context: &Context, kind: Kind) -> Vec<String> {
        let namespace = if self.all_namespaces || !kind.is_namespaced() {
            None
        } else {
            self.namespace.clone().or_else(|| context.namespace().ok())
        };
        let filter = Filter { namespace, ..Filter::default() };
        let objects = self.store(context).and_then(|store| store.list_rows(kind, &filter).ok());
        objects.unwrap_or_default().iter().map(|object| object.key().name).collect()
    }

    /// The namespaces of what most commands are about.
    fn namespaces(&self, context: &Context) -> Vec<String> {
        let Some(store) = self.store(context) else { return Vec::new() };
        let kinds = [Kind::ClusterPool, Kind::ClusterClaim, Kind::ClusterDeployment, Kind::Secret];
        let keys = kinds.into_iter().filter_map(|kind| store.list_names(kind).ok()).flatten();
        keys.map(|key| key.namespace).collect()
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Kinds; after a kind and a dot, the fields below the path that is typed; after a topic and a slash,
/// the words of the topic.
fn kinds_or_fields(typed: &str) -> Vec<String> {
    if let Some((topic, _)) = typed.split_once('/') {
        let names = names_of_topic(topic);
        return names.into_iter().map(|name| format!("{topic}/{name}")).collect();
    }
    let Some((kind, rest)) = typed.split_once('.') else {
        return Kind::ALL.iter().map(|kind| kind.word().to_owned()).collect();
    };
    let (path, _) = rest.rsplit_once('.').unwrap_or(("", rest));
    let dot = if path.is_empty() { "" } else { "." };
    let names = names_of_fields_below(kind, path);
    names.into_iter().map(|name| format!("{kind}.{path}{dot}{name}")).collect()
}
