//! The tree of commands: which there are, under which heading help lists them, and what runs each.

pub mod complete;
pub mod man;

use std::ffi::OsString;

use anyhow::bail;
use clap::{ArgMatches, Args, Command};

use crate::model::refusal::Refusal;
use crate::output::WIDTH;

use crate::commands::agent::machine::ssh as agent_ssh;
use crate::commands::agent::{
    find as agent_find, machine as agent_machine, remove as agent_remove, set as agent_set,
};
use crate::commands::claim::{extend, release};
use crate::commands::cluster::{credentials, extract, forget, pxe as cluster_pxe, rotate};
use crate::commands::context::{Context, Globals};
use crate::commands::host::{add as host_add, hold as host_hold, import as host_import};
use crate::commands::infraenv::{iso as infraenv_iso, pxe as infraenv_pxe};
use crate::commands::ip::{
    claim as ip_claim, export as ip_export, import as ip_import, pool as ippool, who as ip_who,
};
use crate::commands::pool::{advise, create as pool_create, dns, pause, render, scale};
use crate::commands::{
    Audience, RunCommand, agent, api, apply, auth, backup, claim, cluster, completion, config,
    create, customization, delete, describe, diff, doctor, drain, driver, editor, events, explain,
    export, get, guard, host, import, infraenv, init, ip, job, label, logs, metrics, patch, plan,
    pool, reconcile, replace, run, schema, secret, state, status, supervise, tell, template,
    version, wait, why,
};

/// A command. Its arguments are made only when it is named, so that the program starts quickly.
pub struct Entry {
    name: &'static str,
    about: &'static str,
    /// Paragraphs of its help; empty if its line explains it.
    pub description: &'static str,
    /// The command line that its help shows as an example.
    pub example: &'static str,
    arguments: fn(Command) -> Command,
    audience: Audience,
    run: fn(&ArgMatches, &Context) -> anyhow::Result<()>,
}

/// The line of each help that stands for the options of every command.
const GLOBAL_OPTIONS_HINT: &str = "`poolctl --help` lists the options of every command.";

/// Hides the options of every command, which clap has added to this one: the first page of help
/// lists them.
fn hide_global_options(command: Command) -> Command {
    command.mut_args(|argument| {
        let is_global = argument.is_global_set();
        if is_global { argument.hide(true) } else { argument }
    })
}

/// What stands under a heading of the help: a word that follows `poolctl`.
enum Node {
    Command(Entry),
    /// A noun with its commands, such as `pool create`.
    Group {
        name: &'static str,
        about: &'static str,
        entries: &'static [Entry],
    },
}

/// A heading of the help, and what stands under it.
type Section = (&'static str, &'static [Node]);

/// A command below a noun, such as `create` in `pool create`.
const fn entry<C: RunCommand>() -> Entry {
    Entry {
        name: C::NAME,
        about: C::ABOUT,
        description: C::DESCRIPTION,
        example: C::EXAMPLE,
        audience: C::AUDIENCE,
        arguments: |command| {
            let command = hide_global_options(C::augment_args(command).about(C::ABOUT));
            command.after_help(help_below_arguments(C::DESCRIPTION, C::EXAMPLE))
        },
        run: |matches, context| C::from_arg_matches(matches)?.run(context),
    }
}

/// What the help of a command says below its arguments.
fn help_below_arguments(description: &str, example: &str) -> String {
    let gap = if description.is_empty() { "" } else { "\n\n" };
    let example = example.replace('\n', "\n  ");
    format!("{description}{gap}Example:\n  {example}\n\n{GLOBAL_OPTIONS_HINT}")
}

/// A command without a noun, such as `get`.
const fn command<C: RunCommand>() -> Node {
    Node::Command(entry::<C>())
}

/// A noun with its commands.
const fn group(name: &'static str, about: &'static str, entries: &'static [Entry]) -> Node {
    Node::Group { name, about, entries }
}

const CLUSTER: Node = group(
    "cluster",
    "Hibernate, resume and retry clusters, and show their installations",
    &[
        entry::<cluster::Hibernate>(),
        entry::<cluster::Resume>(),
        entry::<cluster::Retry>(),
        entry::<cluster::Logs>(),
        entry::<forget::Forget>(),
        entry::<cluster_pxe::Pxe>(),
    ],
);

const POOL: Node = group(
    "pool",
    "Create, scale, render and pause pools",
    &[
        entry::<pool_create::Create>(),
        entry::<pool::Scale>(),
        entry::<render::Render>(),
        entry::<rotate::RotateCredentials>(),
        entry::<pause::Pause>(),
        entry::<pause::Resume>(),
        entry::<advise::Advise>(),
        entry::<dns::Dns>(),
    ],
);

const CUSTOMIZATION: Node = group(
    "customization",
    "Create, test and reset customizations",
    &[
        entry::<customization::Create>(),
        entry::<customization::Test>(),
        entry::<customization::Reset>(),
    ],
);

const IP_POOL: Node = group(
    "ippool",
    "Create pools of IP addresses, and draw them",
    &[entry::<ippool::Create>(), entry::<ippool::Map>()],
);

const TEMPLATE: Node = group(
    "template",
    "Render Metal3DataTemplates for hosts, and release leases",
    &[entry::<template::Render>(), entry::<template::Release>()],
);

const IP: Node = group(
    "ip",
    "Lease, release, reserve, look up, export and import IP addresses",
    &[
        entry::<ip_claim::Claim>(),
        entry::<ip::Release>(),
        entry::<ip::Reserve>(),
        entry::<ip_who::Who>(),
        entry::<ip_export::Export>(),
        entry::<ip_import::Import>(),
    ],
);

const INFRA_ENV: Node = group(
    "infraenv",
    "Create InfraEnvs, their discovery images and tokens",
    &[
        entry::<infraenv::Create>(),
        entry::<infraenv_iso::Iso>(),
        entry::<infraenv_pxe::Pxe>(),
        entry::<infraenv::Token>(),
    ],
);

const AGENT: Node = group(
    "agent",
    "Approve agents, and bind them to clusters",
    &[
        entry::<agent_machine::Register>(),
        entry::<agent_machine::Report>(),
        entry::<agent_machine::CheckIn>(),
        entry::<agent_ssh::Ssh>(),
        entry::<agent_find::Discover>(),
        entry::<agent_set::Approve>(),
        entry::<agent_set::Set>(),
        entry::<agent::Bind>(),
        entry::<agent::Unbind>(),
        entry::<agent_find::Match>(),
        entry::<agent_remove::Delete>(),
    ],
);

const HOST: Node = group(
    "host",
    "Add, power, boot and hold BareMetalHosts",
    &[
        entry::<host_add::Add>(),
        entry::<host_import::Import>(),
        entry::<host::Power>(),
        entry::<host::Boot>(),
        entry::<host::Eject>(),
        entry::<host_hold::Hold>(),
        entry::<host_hold::Unhold>(),
    ],
);

const JOB: Node = group(
    "job",
    "List, show and kill the jobs that drivers run",
    &[entry::<job::List>(), entry::<job::Show>(), entry::<job::Logs>(), entry::<job::Kill>()],
);

const DRIVER: Node = group(
    "driver",
    "List drivers, and check whether their programs are installed",
    &[entry::<driver::List>(), entry::<driver::Check>()],
);

/// All commands, as `--help` lists them.
static SECTIONS: [Section; 5] = [
    (
        "Everyday",
        &[
            command::<claim::Claim>(),
            command::<release::Release>(),
            command::<extend::Extend>(),
            command::<run::Run>(),
            command::<credentials::Kubeconfig>(),
            command::<credentials::Credentials>(),
            command::<status::Status>(),
            command::<why::Why>(),
        ],
    ),
    ("Pools", &[CLUSTER, POOL, CUSTOMIZATION, IP_POOL, TEMPLATE, IP, INFRA_ENV, AGENT, HOST]),
    (
        "Objects",
        &[
            command::<apply::Apply>(),
            command::<get::Get>(),
            command::<describe::Describe>(),
            command::<delete::Delete>(),
            command::<editor::Edit>(),
            command::<patch::Patch>(),
            command::<scale::Scale>(),
            command::<label::Label>(),
            command::<label::Annotate>(),
            command::<diff::Diff>(),
            command::<wait::Wait>(),
            command::<extract::Extract>(),
            command::<events::Events>(),
            command::<explain::Explain>(),
            command::<schema::Schema>(),
            command::<export::Export>(),
            command::<import::Import>(),
        ],
    ),
    ("Reconcile", &[command::<reconcile::Reconcile>(), command::<plan::Plan>(), JOB, DRIVER]),
    (
        "Upkeep",
        &[
            command::<init::Init>(),
            command::<metrics::Metrics>(),
            command::<doctor::Doctor>(),
            command::<backup::Backup>(),
            command::<backup::Restore>(),
            group("secret", "Create Secrets", &[entry::<secret::Create>()]),
            group("state", "Print where the state is kept", &[entry::<state::Path>()]),
            command::<completion::Completion>(),
            command::<version::Version>(),
        ],
    ),
];

/// Commands that people type who know them from kubectl. The first page of help does not list them.
static KUBECTL_ENTRIES: [Entry; 7] = [
    entry::<create::Create>(),
    entry::<replace::Replace>(),
    entry::<logs::Logs>(),
    entry::<api::Resources>(),
    entry::<api::Versions>(),
    entry::<auth::Auth>(),
    entry::<config::Config>(),
];

/// Commands that shells, passes and packages run. The first page of help does not list them.
static INTERNAL_ENTRIES: [Entry; 6] = [
    entry::<complete::Complete>(),
    entry::<supervise::Supervise>(),
    entry::<tell::Tell>(),
    entry::<drain::Drain>(),
    entry::<guard::Guard>(),
    entry::<man::Man>(),
];

/// What the first page of help lists, in its order.
fn nodes() -> impl Iterator<Item = &'static Node> {
    SECTIONS.iter().flat_map(|(_, nodes)| nodes.iter())
}

/// Commands that the first page of help does not list, in no order that matters.
fn hidden_entries() -> impl Iterator<Item = &'static Entry> {
    KUBECTL_ENTRIES.iter().chain(&INTERNAL_ENTRIES)
}

/// The names of the commands that people type who know them from kubectl.
pub fn names_from_kubectl() -> impl Iterator<Item = &'static str> {
    KUBECTL_ENTRIES.iter().map(|entry| entry.name)
}

/// The template of `poolctl --help`, one screen: everyday commands each with a line of its own, the
/// others by name.
fn help_template() -> String {
    let mut template = String::from("{about}\n\n{usage-heading} {usage}\n\n");
    for (title, nodes) in &SECTIONS {
        let is_everyday = *title == "Everyday";
        let mut words = Vec::new();
        for node in *nodes {
            words.push(match node {
                Node::Command(entry) if is_everyday => {
                    format!("\n  {:<12} {}", entry.name, entry.about)
                }
                Node::Command(entry) => entry.name.to_owned(),
                Node::Group { name, entries, .. } => {
                    let verbs: Vec<&str> = entries.iter().map(|entry| entry.name).collect();
                    format!("{name} {}", verbs.join("|"))
                }
            });
        }
        if is_everyday {
            template += &[title, ":", &words.concat(), "\n\n"].concat();
        } else {
            template += &wrap_words(&format!("{title}:"), &words);
        }
    }
    template + "\n{options}\n\n`poolctl COMMAND --help` explains a command and has an example."
}

/// How far words stand from the left that follow a title.
const TITLE_WIDTH: usize = 12;

/// Words after a title, separated by commas, in lines that fit a terminal. A noun with more verbs
/// than a line has room for goes on in the next one.
fn wrap_words(title: &str, words: &[String]) -> String {
    let next_line = format!("\n{}", " ".repeat(TITLE_WIDTH));
    let mut text = format!("{title:<TITLE_WIDTH$}");
    let mut column = TITLE_WIDTH;
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            // A comma and a space stand before the word, and perhaps a comma after it.
            let fits = column + word.len() + 3 <= WIDTH;
            text += if fits { ", " } else { "," };
            column += ", ".len();
            if !fits {
                text += &next_line;
                column = TITLE_WIDTH;
            }
        }
        for verb in word.split_inclusive('|') {
            if column + verb.len() >= WIDTH {
                text += &next_line;
                column = TITLE_WIDTH;
            }
            text += verb;
            column += verb.len();
        }
    }
    text + "\n"
}

/// The whole tree of commands, for clap.
pub fn tree() -> Command {
    tree_of(|_| true).help_template(help_template())
}

/// The commands that a command line may name: clap copies the options of every command into each
/// command that it has, which for the whole tree costs more than everything else that it does. If
/// the command line is refused or asks for help, the caller parses it again with the whole tree.
pub fn tree_for(arguments: &[OsString]) -> Command {
    tree_of(|name| arguments.iter().any(|word| word == name))
}

/// The tree of the commands and nouns whose names are wanted.
fn tree_of(is_wanted: impl Fn(&str) -> bool) -> Command {
    let mut root = Globals::augment_args(Command::new("poolctl"))
        .about("Pools of ready OpenShift clusters: claim one, use it, release it")
        .version(version::VERSION.as_str())
        .override_usage("poolctl [OPTIONS] COMMAND")
        .max_term_width(WIDTH)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true);
    for node in nodes() {
        match node {
            Node::Command(entry) if is_wanted(entry.name) => {
                root = root.subcommand(clap_command(entry));
            }
            Node::Group { name, about, entries } if is_wanted(name) => {
                let entries = entries.iter().filter(|entry| is_wanted(entry.name));
                root = root.subcommand(clap_group(name, about, entries));
            }
            _ => {}
        }
    }
    for entry in hidden_entries().filter(|entry| is_wanted(entry.name)) {
        root = root.subcommand(clap_command(entry).hide(true));
    }
    root
}

/// A command for clap, which makes its arguments only when it is named.
fn clap_command(entry: &Entry) -> Command {
    Command::new(entry.name).about(entry.about).defer(entry.arguments)
}

/// A noun for clap. Without a command after it, its help is shown.
fn clap_group<'a>(
    name: &'static str,
    about: &'static str,
    entries: impl Iterator<Item = &'a Entry>,
) -> Command {
    Command::new(name)
        .about(about)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .after_help(GLOBAL_OPTIONS_HINT)
        .defer(hide_global_options)
        .subcommands(entries.map(clap_command))
}

/// The command that the words after `poolctl` name: the first one, or a noun and its verb.
pub fn find_entry<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<&'static Entry> {
    let first = words.next().unwrap_or_default();
    let second = words.next().unwrap_or_default();
    let mut named_entries = nodes().filter_map(|node| match node {
        Node::Command(entry) if entry.name == first => Some(entry),
        Node::Group { name, entries, .. } if *name == first => {
            entries.iter().find(|entry| entry.name == second)
        }
        _ => None,
    });
    named_entries.next().or_else(|| hidden_entries().find(|entry| entry.name == first))
}

/// Whether guests may run the command that a line names by its first word, or by its first two.
pub fn is_for_guests(first: &str, second: &str) -> bool {
    find_entry([first, second].into_iter()).is_some_and(|entry| entry.audience == Audience::Guests)
}

/// Runs the command that a command line names, if whoever asks may run it.
pub fn dispatch(matches: &ArgMatches, context: &Context) -> anyhow::Result<()> {
    let (name, matches) = matches.subcommand().unwrap_or(("", matches));
    let (verb, matches) = matches.subcommand().unwrap_or(("", matches));
    let Some(entry) = find_entry([name, verb].into_iter()) else {
        bail!(Refusal::usage(format!("there is no command `{name}`")));
    };
    context.check_command_access([name, verb].join(" ").trim_end(), entry.audience)?;
    (entry.run)(matches, context)
}
