//! The tree of commands: which there are, under which heading help lists them, and what runs each.

pub mod complete;
pub mod man;

use anyhow::bail;
use clap::{ArgMatches, Args, Command};

use crate::model::refusal::Refusal;

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
struct Entry {
    name: &'static str,
    about: &'static str,
    arguments: fn(Command) -> Command,
    audience: Audience,
    run: fn(&ArgMatches, &Context) -> anyhow::Result<()>,
}

/// What stands under a heading of the help: a word that follows `poolctl`.
enum Node {
    Command(Entry),
    /// A noun with its commands, such as `pool create`.
    Group {
        name: &'static str,
        about: &'static str,
        entries: Vec<Entry>,
    },
}

/// A command below a noun, such as `create` in `pool create`.
fn entry<C: RunCommand>() -> Entry {
    Entry {
        name: C::NAME,
        about: C::ABOUT,
        audience: C::AUDIENCE,
        arguments: |command| {
            let command = C::augment_args(command).about(C::ABOUT);
            command.after_help(format!("Example:\n  {}", C::EXAMPLE))
        },
        run: |matches, context| C::from_arg_matches(matches)?.run(context),
    }
}

/// A command without a noun, such as `get`.
fn command<C: RunCommand>() -> Node {
    Node::Command(entry::<C>())
}

/// A noun with its commands.
fn group(name: &'static str, about: &'static str, entries: Vec<Entry>) -> Node {
    Node::Group { name, about, entries }
}

fn cluster_group() -> Node {
    let entries = vec![
        entry::<cluster::Hibernate>(),
        entry::<cluster::Resume>(),
        entry::<cluster::Retry>(),
        entry::<cluster::Logs>(),
        entry::<forget::Forget>(),
        entry::<cluster_pxe::Pxe>(),
    ];
    group("cluster", "Hibernate, resume and retry clusters, and show their installations", entries)
}

fn pool_nodes() -> Vec<Node> {
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
    ];
    let infraenv = vec![
        entry::<infraenv::Create>(),
        entry::<infraenv_iso::Iso>(),
        entry::<infraenv_pxe::Pxe>(),
        entry::<infraenv::Token>(),
    ];
    let ippool = vec![entry::<ippool::Create>(), entry::<ippool::Map>()];
    let template = vec![entry::<template::Render>(), entry::<template::Release>()];
    let ip = vec![
        entry::<ip_claim::Claim>(),
        entry::<ip::Release>(),
        entry::<ip::Reserve>(),
        entry::<ip_who::Who>(),
        entry::<ip_export::Export>(),
        entry::<ip_import::Import>(),
    ];
    vec![
        cluster_group(),
        group("pool", "Create, scale, render and pause pools", pool),
        group("customization", "Create, test and reset customizations", customization),
        group("ippool", "Create pools of IP addresses, and draw them", ippool),
        group("template", "Render Metal3DataTemplates for hosts, and release leases", template),
        group("ip", "Lease, release, reserve, look up, export and import IP addresses", ip),
        group("infraenv", "Create InfraEnvs, their discovery images and tokens", infraenv),
        group("agent", "Approve agents, and bind them to clusters", agent),
        group("host", "Add, power, boot and hold BareMetalHosts", host),
    ]
}

/// All commands, as `--help` lists them.
fn sections() -> [(&'static str, Vec<Node>); 5] {
    let everyday = vec![
        command::<claim::Claim>(),
        command::<release::Release>(),
        command::<extend::Extend>(),
        command::<run::Run>(),
        command::<credentials::Kubeconfig>(),
        command::<credentials::Credentials>(),
        command::<status::Status>(),
        command::<why::Why>(),
    ];
    let generic = vec![
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
    ];
    let job = vec![
        entry::<job::List>(),
        entry::<job::Show>(),
        entry::<job::Logs>(),
        entry::<job::Kill>(),
    ];
    let driver = vec![entry::<driver::List>(), entry::<driver::Check>()];
    let reconcile = vec![
        command::<reconcile::Reconcile>(),
        command::<plan::Plan>(),
        group("job", "List, show and kill the jobs that drivers run", job),
        group("driver", "List drivers, and check whether their programs are installed", driver),
    ];
    let upkeep = vec![
        command::<init::Init>(),
        command::<metrics::Metrics>(),
        command::<doctor::Doctor>(),
        command::<backup::Backup>(),
        command::<backup::Restore>(),
        group("secret", "Create Secrets", vec![entry::<secret::Create>()]),
        group("state", "Print where the state is kept", vec![entry::<state::Path>()]),
        command::<completion::Completion>(),
        command::<version::Version>(),
    ];
    [
        ("Everyday", everyday),
        ("Pools", pool_nodes()),
        ("Objects", generic),
        ("Reconcile", reconcile),
        ("Upkeep", upkeep),
    ]
}

/// Commands that the first page of help does not list: shells and passes run some of them, and
/// people who know them from kubectl type the others.
fn hidden_entries() -> [Entry; 13] {
    [
        entry::<create::Create>(),
        entry::<replace::Replace>(),
        entry::<logs::Logs>(),
        entry::<api::Resources>(),
        entry::<api::Versions>(),
        entry::<auth::Auth>(),
        entry::<config::Config>(),
        entry::<complete::Complete>(),
        entry::<supervise::Supervise>(),
        entry::<tell::Tell>(),
        entry::<drain::Drain>(),
        entry::<guard::Guard>(),
        entry::<man::Man>(),
    ]
}

/// The template of `poolctl --help`, one screen: everyday commands each with a line of its own, the
/// others by name.
fn help_template(sections: &[(&'static str, Vec<Node>)]) -> String {
    let mut template = String::from("{about}\n\n{usage-heading} {usage}\n\n");
    for (title, nodes) in sections {
        let is_everyday = *title == "Everyday";
        let mut words = Vec::new();
        for node in nodes {
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

/// Words after a title, separated by commas, in lines of less than 100 letters.
fn wrap_words(title: &str, words: &[String]) -> String {
    let mut lines = vec![format!("{title:<12}")];
    for word in words {
        if lines.last().is_some_and(|line| line.len() + word.len() > 96) {
            lines.push(" ".repeat(12));
        }
        if let Some(line) = lines.last_mut() {
            let is_first = line.trim_end().len() <= 11 || line.ends_with("  ");
            *line += if is_first { "" } else { ", " };
            *line += word;
        }
    }
    lines.join(",\n") + "\n"
}

/// The whole tree of commands, for clap.
pub fn tree() -> Command {
    let sections = sections();
    let mut root = Globals::augment_args(Command::new("poolctl"))
        .about("Pools of ready OpenShift clusters: claim one, use it, release it")
        .version(version::VERSION.as_str())
        .override_usage("poolctl [OPTIONS] COMMAND")
        .help_template(help_template(&sections))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true);
    for (_, nodes) in sections {
        for node in nodes {
            root = root.subcommand(match node {
                Node::Command(entry) => clap_command(&entry),
                Node::Group { name, about, entries } => clap_group(name, about, &entries),
            });
        }
    }
    for entry in hidden_entries() {
        root = root.subcommand(clap_command(&entry).hide(true));
    }
    root
}

/// A command for clap, which makes its arguments only when it is named.
fn clap_command(entry: &Entry) -> Command {
    Command::new(entry.name).about(entry.about).defer(entry.arguments)
}

/// A noun for clap. Without a command after it, its help is shown.
fn clap_group(name: &'static str, about: &'static str, entries: &[Entry]) -> Command {
    Command::new(name)
        .about(about)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommands(entries.iter().map(clap_command))
}

/// Whether guests may run the command of a line like `poolctl get claim`.
pub fn is_for_guests(line: &str) -> bool {
    let mut words = line.split(' ').skip_while(|word| *word != "poolctl").skip(1);
    let first = words.next().unwrap_or_default();
    let second = words.next().unwrap_or_default();
    sections().into_iter().flat_map(|(_, nodes)| nodes).any(|node| match node {
        Node::Command(entry) => entry.name == first && entry.audience == Audience::Guests,
        Node::Group { name, entries, .. } => {
            name == first
                && entries
                    .iter()
                    .any(|entry| entry.name == second && entry.audience == Audience::Guests)
        }
    })
}

/// Runs the command that a command line names, if whoever asks may run it.
pub fn dispatch(matches: &ArgMatches, context: &Context) -> anyhow::Result<()> {
    let (name, matches) = matches.subcommand().unwrap_or(("", matches));
    if let Some(hidden) = hidden_entries().into_iter().find(|entry| entry.name == name) {
        context.check_command_access(hidden.name, hidden.audience)?;
        return (hidden.run)(matches, context);
    }
    for node in sections().into_iter().flat_map(|(_, nodes)| nodes) {
        match node {
            Node::Command(entry) if entry.name == name => {
                context.check_command_access(name, entry.audience)?;
                return (entry.run)(matches, context);
            }
            Node::Group { name: group, entries, .. } if group == name => {
                let Some((verb, matches)) = matches.subcommand() else { continue };
                if let Some(entry) = entries.iter().find(|entry| entry.name == verb) {
                    context.check_command_access(&format!("{name} {verb}"), entry.audience)?;
                    return (entry.run)(matches, context);
                }
            }
            _ => {}
        }
    }
    bail!(Refusal::usage(format!("there is no command `{name}`")))
}
