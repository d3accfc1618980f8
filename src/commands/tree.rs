//! The tree of commands: which there are, under which heading, and who runs them.

pub mod complete;

use anyhow::bail;
use clap::{ArgMatches, Args, Command};

use crate::model::refusal::Refusal;

use crate::commands::agent::host::ssh as agent_ssh;
use crate::commands::agent::{find as agent_find, host as agent_host, set as agent_set};
use crate::commands::claim::{extend, release};
use crate::commands::cluster::{credentials, extract, rotate};
use crate::commands::context::{Context, Globals};
use crate::commands::host::{add as host_add, hold as host_hold, import as host_import};
use crate::commands::infraenv::iso as infraenv_iso;
use crate::commands::ip::{claim as ip_claim, pool as ippool};
use crate::commands::pool::{advise, create as pool_create, dns, pause, render, scale};
use crate::commands::{
    Verb, agent, apply, backup, claim, cluster, completion, customization, delete, describe, diff,
    doctor, drain, driver, editor, events, explain, export, get, host, import, infraenv, ip, job,
    label, metrics, patch, plan, pool, reconcile, run, secret, state, status, supervise, template,
    version, wait, why,
};

/// A command; its arguments are made only when it is named.
struct Entry {
    name: &'static str,
    about: &'static str,
    arguments: fn(Command) -> Command,
    for_guests: bool,
    run: fn(&ArgMatches, &Context) -> anyhow::Result<()>,
}

/// What stands under a heading: commands, and words with commands below them.
enum Node {
    Command(Entry),
    Group(&'static str, &'static str, Vec<Entry>),
}

fn entry<V: Verb>() -> Entry {
    Entry {
        name: V::NAME,
        about: V::ABOUT,
        for_guests: V::FOR_GUESTS,
        arguments: |command| {
            let command = V::augment_args(command).about(V::ABOUT);
            command.after_help(format!("Example:\n  {}", V::EXAMPLE))
        },
        run: |matches, context| V::from_arg_matches(matches)?.run(context),
    }
}

fn one<V: Verb>() -> Node {
    Node::Command(entry::<V>())
}

fn cluster() -> Node {
    let below = vec![
        entry::<cluster::Hibernate>(),
        entry::<cluster::Resume>(),
        entry::<cluster::Retry>(),
        entry::<cluster::Logs>(),
    ];
    Node::Group("cluster", "Power of claimed clusters, and installations that fail", below)
}

fn pools() -> Vec<Node> {
    let pool = vec![
        entry::<pool_create::Create>(),
        entry::<pool::Scale>(),
        entry::<render::Render>(),
        entry::<rotate::RotateCredentials>(),
        entry::<pause::Pause>(),
        entry::<pause::Resume>(),
        entry::<advise::Advise>(),
        entry::<dns::Dns>(),
    ];
    let customization = vec![
        entry::<customization::Create>(),
        entry::<customization::Test>(),
        entry::<customization::Reset>(),
    ];
    let host = vec![
        entry::<host_add::Add>(),
        entry::<host_import::Import>(),
        entry::<host::Power>(),
        entry::<host::Boot>(),
        entry::<host::Eject>(),
        entry::<host_hold::Hold>(),
        entry::<host_hold::Unhold>(),
    ];
    let agent = vec![
        entry::<agent_host::Register>(),
        entry::<agent_host::Report>(),
        entry::<agent_host::CheckIn>(),
        entry::<agent_ssh::Ssh>(),
        entry::<agent_find::Discover>(),
        entry::<agent_set::Approve>(),
        entry::<agent_set::Set>(),
        entry::<agent::Bind>(),
        entry::<agent::Unbind>(),
        entry::<agent_find::Match>(),
    ];
    let infraenv =
        vec![entry::<infraenv::Create>(), entry::<infraenv_iso::Iso>(), entry::<infraenv::Token>()];
    let ippool = vec![entry::<ippool::Create>(), entry::<ippool::Map>()];
    let template = vec![entry::<template::Render>(), entry::<template::Release>()];
    let ip = vec![
        entry::<ip_claim::Claim>(),
        entry::<ip::Release>(),
        entry::<ip::Reserve>(),
        entry::<ip::Who>(),
    ];
    vec![
        cluster(),
        Node::Group("pool", "Create, scale, render and pause pools", pool),
        Node::Group("customization", "Make, try and reset customizations", customization),
        Node::Group("ippool", "Pools of addresses, and pictures of them", ippool),
        Node::Group("template", "What hosts are told: rendered, with addresses leased", template),
        Node::Group("ip", "Lease addresses, keep them, ask who has them", ip),
        Node::Group("infraenv", "What hosts are booted from to become agents", infraenv),
        Node::Group("agent", "Hosts that were booted or found: bind them to clusters", agent),
        Node::Group("host", "Machines: add them, power them, boot them from images", host),
    ]
}

/// All commands, as `--help` lists them.
fn sections() -> [(&'static str, Vec<Node>); 5] {
    let everyday = vec![
        one::<claim::Claim>(),
        one::<release::Release>(),
        one::<extend::Extend>(),
        one::<run::Run>(),
        one::<credentials::Kubeconfig>(),
        one::<credentials::Credentials>(),
        one::<status::Status>(),
        one::<why::Why>(),
    ];
    let generic = vec![
        one::<apply::Apply>(),
        one::<get::Get>(),
        one::<describe::Describe>(),
        one::<delete::Delete>(),
        one::<editor::Edit>(),
        one::<patch::Patch>(),
        one::<scale::Scale>(),
        one::<label::Label>(),
        one::<label::Annotate>(),
        one::<diff::Diff>(),
        one::<wait::Wait>(),
        one::<extract::Extract>(),
        one::<events::Events>(),
        one::<explain::Explain>(),
        one::<export::Export>(),
        one::<import::Import>(),
    ];
    let reconcile = vec![
        one::<reconcile::Reconcile>(),
        one::<plan::Plan>(),
        Node::Group(
            "job",
            "Look at the jobs that drivers do",
            vec![
                entry::<job::List>(),
                entry::<job::Show>(),
                entry::<job::Logs>(),
                entry::<job::Kill>(),
            ],
        ),
        Node::Group(
            "driver",
            "Who makes clusters, and whether their programs are there",
            vec![entry::<driver::List>(), entry::<driver::Check>()],
        ),
    ];
    let upkeep = vec![
        one::<metrics::Metrics>(),
        one::<doctor::Doctor>(),
        one::<backup::Backup>(),
        one::<backup::Restore>(),
        Node::Group("secret", "Make secrets", vec![entry::<secret::Create>()]),
        Node::Group("state", "Where the state is", vec![entry::<state::Path>()]),
        one::<completion::Completion>(),
        one::<version::Version>(),
    ];
    [
        ("Everyday", everyday),
        ("Pools", pools()),
        ("Objects", generic),
        ("Reconcile", reconcile),
        ("Upkeep", upkeep),
    ]
}

/// What shells, passes and supervisors type.
fn hidden() -> [Entry; 3] {
    [entry::<complete::Complete>(), entry::<supervise::Supervise>(), entry::<drain::Drain>()]
}

/// One screen: everyday words with what they do, the others by name.
fn help(sections: &[(&'static str, Vec<Node>)]) -> String {
    let mut text = String::from("{about}\n\n{usage-heading} {usage}\n\n");
    for (title, nodes) in sections {
        let everyday = *title == "Everyday";
        let names = nodes.iter().map(|node| match node {
            Node::Command(entry) if everyday => format!("\n  {:<12} {}", entry.name, entry.about),
            Node::Command(entry) => entry.name.to_owned(),
            Node::Group(name, _, below) => {
                let below: Vec<&str> = below.iter().map(|entry| entry.name).collect();
                format!("{name} {}", below.join("|"))
            }
        });
        let names: Vec<String> = names.collect();
        if everyday {
            text += &[title, ":", &names.concat(), "\n\n"].concat();
        } else {
            text += &wrapped(&format!("{title}:"), &names);
        }
    }
    text + "\n{options}\n\n`poolctl COMMAND --help` explains a command and has an example."
}

/// Words after a title, in lines of less than 100 letters.
fn wrapped(title: &str, words: &[String]) -> String {
    let mut lines = vec![format!("{title:<12}")];
    for word in words {
        if lines.last().is_some_and(|line| line.len() + word.len() > 96) {
            lines.push(" ".repeat(12));
        }
        if let Some(line) = lines.last_mut() {
            let gap = if line.trim_end().len() > 11 && !line.ends_with("  ") { ", " } else { "" };
            *line += gap;
            *line += word;
        }
    }
    lines.join(",\n") + "\n"
}

/// The whole tree of commands.
pub fn tree() -> Command {
    let command = |one: &Entry| Command::new(one.name).about(one.about).defer(one.arguments);
    let sections = sections();
    let mut root = Globals::augment_args(Command::new("poolctl"))
        .about("Pools of ready OpenShift clusters: claim one, use it, release it")
        .version(version::VERSION.as_str())
        .override_usage("poolctl [OPTIONS] COMMAND")
        .help_template(help(&sections))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true);
    for node in sections.into_iter().flat_map(|(_, nodes)| nodes) {
        root = root.subcommand(match node {
            Node::Command(entry) => command(&entry),
            Node::Group(name, about, entries) => {
                let below = Command::new(name)
                    .about(about)
                    .subcommand_required(true)
                    .arg_required_else_help(true)
                    .disable_help_subcommand(true);
                entries.iter().fold(below, |below, entry| below.subcommand(command(entry)))
            }
        });
    }
    hidden().into_iter().fold(root, |root, one| root.subcommand(command(&one).hide(true)))
}

/// Whether a guest may run the command of a line like `poolctl get claim`.
pub fn for_guests(line: &str) -> bool {
    let mut words = line.split(' ').skip_while(|word| *word != "poolctl").skip(1);
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    sections().into_iter().flat_map(|(_, nodes)| nodes).any(|node| match node {
        Node::Command(entry) => entry.name == first && entry.for_guests,
        Node::Group(name, _, below) => {
            name == first && below.iter().any(|one| one.name == second && one.for_guests)
        }
    })
}

/// Runs the command that a command line names.
pub fn dispatch(matches: &ArgMatches, context: &Context) -> anyhow::Result<()> {
    let (name, matches) = matches.subcommand().unwrap_or(("", matches));
    let below = matches.subcommand();
    if let Some(hidden) = hidden().into_iter().find(|one| one.name == name) {
        context.admit(hidden.name, hidden.for_guests)?;
        return (hidden.run)(matches, context);
    }
    for node in sections().into_iter().flat_map(|(_, nodes)| nodes) {
        match (node, below) {
            (Node::Command(entry), _) if entry.name == name => {
                context.admit(name, entry.for_guests)?;
                return (entry.run)(matches, context);
            }
            (Node::Group(group, _, entries), Some((word, below))) if group == name => {
                if let Some(entry) = entries.iter().find(|entry| entry.name == word) {
                    context.admit(&format!("{name} {word}"), entry.for_guests)?;
                    return (entry.run)(below, context);
                }
            }
            _ => {}
        }
    }
    bail!(Refusal::usage(format!("there is no command `{name}`")))
}
