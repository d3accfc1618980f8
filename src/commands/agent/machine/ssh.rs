//! `agent ssh`: serves one message of a machine over SSH, as the only command that its key may run.
//! A machine proves who it is with the token of its InfraEnv or with its own secret. What it
//! reports is recorded; no pass runs and no job begins.

use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::agent::report;
use crate::model::hash::sha256;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{AgentId, State};
use crate::model::tick::Tick;
use crate::plan::agents;
use crate::rules;
use crate::store::Store;

use crate::commands::agent::machine::configuration::{read_configuration, tell_to_install};
use crate::commands::agent::machine::{
    Machine, Surroundings, change_agent, read_short_file, read_stdin, register_machine, take_report,
};
use crate::commands::{Context, RunCommand};

/// The answer to a machine that reports under an id that is not its own, or whose secret was
/// replaced.
const WRONG_SECRET: &str = "the secret is not this host's; register again";

/// What a machine proves itself with.
#[derive(Debug)]
pub enum Proof {
    /// The token of its InfraEnv.
    Token(String),
    /// The secret that it was given when it registered.
    Secret(String),
}

/// What is stored of a secret or a token.
pub fn hash_secret(secret: &str) -> String {
    sha256(secret.as_bytes())
}

/// Refuses a machine that may not register. Its own secret always admits it. The token of its
/// InfraEnv admits it if it is new, or if no other machine reports under its id now.
pub fn check_proof(
    state: &State,
    infra_env_key: &Key,
    known_agent: Option<AgentId>,
    proof: &Proof,
    tick: &Tick,
) -> Result<(), Refusal> {
    let agent = known_agent.and_then(|agent_id| state.agents.get(agent_id));
    match proof {
        Proof::Secret(secret) => {
            let hash = hash_secret(secret);
            if agent.is_none_or(|agent| agent.secret.as_deref() != Some(&hash)) {
                let why = "the secret is not this host's; register with the token";
                return Err(refuse_proof(why));
            }
        }
        Proof::Token(token) => {
            let hash = hash_secret(token);
            let is_admitted = state.infra_envs.by_key(infra_env_key).is_some_and(|infra_env| {
                let mut tokens = infra_env.tokens.iter();
                tokens.any(|token| token.hash == hash && token.is_valid(tick.now))
            });
            if !is_admitted {
                return Err(refuse_proof("the token is unknown, revoked or expired"));
            }
            if let Some(agent) = agent
                && agent.secret.is_some()
                && !agent.state().is_returning()
                && !agent.is_silent(tick.now)
            {
                return Err(refuse_proof(&format!(
                    "host {} checked in a moment ago and has a secret of its own; without it, \
                     register again after three minutes of silence",
                    agent.status.host_id
                )));
            }
        }
    }
    Ok(())
}

fn refuse_proof(why: &str) -> Refusal {
    Refusal::new(Exit::Denied, why)
}

/// Arguments of `agent ssh`. The message of the machine comes from standard input, and its key says
/// for which InfraEnv it speaks.
#[derive(Args)]
pub struct Ssh {
    /// Serve hosts of this InfraEnv only
    #[arg(long, value_name = "INFRAENV")]
    infraenv: Option<String>,
    /// Print an authorized_keys line that lets this public key run only this command
    #[arg(long, value_name = "FILE")]
    authorize: Option<PathBuf>,
}

impl Ssh {
    /// The line of authorized_keys for a public key: it may run this command and nothing else.
    fn authorized_keys_line(&self, context: &Context, path: &PathBuf) -> anyhow::Result<String> {
        let content = read_short_file(path)?;
        let mut lines = content.lines().map(str::trim).filter(|line| !line.is_empty());
        let key = lines.next().unwrap_or_default();
        let has_more_lines = lines.next().is_some();
        if has_more_lines || key.is_empty() || !rules::infra_envs::is_ssh_key(key) {
            return Err(Refusal::usage("the file is not a single SSH public key")
                .advise("ssh-keygen -t ed25519 -f hosts, then give the file hosts.pub")
                .into());
        }
        let mut words = vec![std::env::current_exe()?.display().to_string(), "--state".into()];
        words.push(std::path::absolute(context.state_path()?)?.display().to_string());
        words.extend(["agent".into(), "ssh".into()]);
        if let Some(name) = &self.infraenv {
            words.extend(["--infraenv".into(), parse_infra_env_key(context, name)?.to_string()]);
        }
        for word in &words {
            if !word.chars().all(is_plain_in_shell) {
                let problem = format!("`{word}` cannot be written into authorized_keys");
                let why = "a shell would read something else";
                return Err(Refusal::invalid(problem).because(why).into());
            }
        }
        // The comment at its end stays out: only the type and the key are needed.
        let type_and_key: Vec<&str> = key.split_whitespace().take(2).collect();
        Ok(format!("restrict,command=\"{}\" {}\n", words.join(" "), type_and_key.join(" ")))
    }
}

/// Whether a shell, which reads the command of a key, takes a letter as it is.
fn is_plain_in_shell(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "/._-+@".contains(letter)
}

/// The InfraEnv that `--infraenv` names: NAMESPACE/NAME, or NAME in the namespace of the command.
fn parse_infra_env_key(context: &Context, name: &str) -> Result<Key, Refusal> {
    let (namespace, name) = match name.split_once('/') {
        Some((namespace, name)) => (namespace.to_owned(), name),
        None => (context.namespace()?, name),
    };
    rules::check_name(Kind::Namespace, &namespace)?;
    rules::check_name(Kind::InfraEnv, name)?;
    Ok(Key::new(namespace, name))
}

/// What a machine sends over SSH, as JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    /// NAMESPACE/NAME.
    infra_env: String,
    #[serde(rename = "hostID")]
    host_id: String,
    /// Its MAC addresses, when it registers. Images of earlier versions send none.
    #[serde(default)]
    macs: Vec<String>,
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    secret: Option<String>,
    #[serde(default)]
    report: Option<Value>,
}

impl RunCommand for Ssh {
    const NAME: &'static str = "ssh";
    const ABOUT: &'static str = "Answer one host over SSH, as the forced command of its key";
    const EXAMPLE: &'static str = "poolctl agent ssh --authorize examples/agents/id.pub";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        if let Some(path) = &self.authorize {
            return context.print(&self.authorized_keys_line(context, path)?);
        }
        let request = context.world.variable("SSH_ORIGINAL_COMMAND").unwrap_or_default();
        if !matches!(request, "register" | "report" | "check-in" | "config") {
            return Err(Refusal::new(Exit::Denied, "this key may register, report and check-in")
                .because("it was given to hosts of a discovery image, for nothing else")
                .into());
        }
        // Read before the state is opened, so that a slow machine keeps nobody waiting.
        let message: Message = serde_json::from_str(&read_stdin()?)
            .map_err(|error| refuse_message(&error.to_string()))?;
        let (namespace, name) = message
            .infra_env
            .split_once('/')
            .ok_or_else(|| refuse_message("infraEnv is not NAMESPACE/NAME"))?;
        if let Some(served) = &self.infraenv
            && parse_infra_env_key(context, served)? != Key::new(namespace, name)
        {
            return Err(Refusal::new(Exit::Denied, "this key is of another InfraEnv").into());
        }
        for (kind, name) in [(Kind::Namespace, namespace), (Kind::InfraEnv, name)] {
            rules::check_name(kind, name)?;
        }
        let infra_env_key = Key::new(namespace, name);
        let store = context.open_existing_state()?;
        let reply = match request {
            "register" => {
                let proof = match (message.secret, message.token) {
                    (Some(secret), _) => Proof::Secret(secret),
                    (None, Some(token)) => Proof::Token(token),
                    (None, None) => {
                        return Err(refuse_message("it has neither a token nor a secret").into());
                    }
                };
                let machine = Machine { id: &message.host_id, macs: &message.macs };
                let (_, secret) =
                    register_machine(context, &store, &infra_env_key, &machine, Some(&proof))?;
                json!({"secret": secret, "next": "none", "after": 60})
            }
            _ => take_message(context, &store, &infra_env_key, message, request)?,
        };
        context.print(&format!("{reply}\n"))
    }
}

fn refuse_message(why: &str) -> Refusal {
    Refusal::usage("this is not a message from a host").because(why)
}

/// Records a report or a check-in of a machine that proves with its secret who it is. Returns what
/// it is told to do, or the configuration of its cluster if it asks for that.
fn take_message(
    context: &Context,
    store: &Store,
    infra_env_key: &Key,
    message: Message,
    request: &str,
) -> Result<Value, Refusal> {
    let agent_key = store
        .find_agent_of_machine(infra_env_key, &message.host_id)?
        .ok_or_else(|| refuse_proof(WRONG_SECRET))?;
    let secret = message.secret.ok_or_else(|| refuse_proof(WRONG_SECRET))?;
    let hash = hash_secret(&secret);
    let surroundings = if request == "report" { Surroundings::All } else { Surroundings::OfAnswer };
    let answer =
        change_agent(context, store, &agent_key, surroundings, |state, agent_id, tick| {
            let stored_hash = state.agents.get(agent_id).and_then(|agent| agent.secret.clone());
            if stored_hash.as_ref() != Some(&hash) {
                return Err(refuse_proof(WRONG_SECRET));
            }
            if request == "report" {
                let document = message.report.unwrap_or_default();
                let report =
                    report::parse_report(&document.to_string()).map_err(Refusal::invalid)?;
                take_report(store, state, agent_id, report, tick)?;
            }
            state.agents.update(agent_id, |agent| {
                agent.status.last_contact_time = Some(tick.now);
                // A report has just set it; a check-in means that the image can be read again.
                agent.status.media_disconnected &= request == "report";
            });
            let agent = state.agents.get(agent_id);
            Ok(agent.map(|agent| agents::check_in_answer(state, agent)).unwrap_or_default())
        })?;
    if request == "config" {
        return read_configuration(context, store, &agent_key);
    }
    tell_to_install(context, store, &agent_key, answer)
}
