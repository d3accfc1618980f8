//! `agent ssh`: one host over SSH, who proves who it is. It is recorded; no pass runs, and no job
//! begins.

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

use crate::commands::agent::host::{heard, record, registered, reported, text_of};
use crate::commands::{Context, Verb};

/// What a host proves itself with.
#[derive(Debug)]
pub enum Proof {
    /// Of its InfraEnv.
    Token(String),
    /// Its own.
    Secret(String),
}

pub fn hash(secret: &str) -> String {
    sha256(secret.as_bytes())
}

/// Whether a host may register: with its secret always; with the token of its InfraEnv if it is
/// new, or if nobody else speaks for it now.
pub fn admit(
    state: &State,
    infra_env: &Key,
    known: Option<AgentId>,
    proof: &Proof,
    tick: &Tick,
) -> Result<(), Refusal> {
    let denied = |why: &str| Err(Refusal::new(Exit::Denied, why));
    let agent = known.and_then(|at| state.agents.get(at));
    match proof {
        Proof::Secret(secret) => {
            let good = agent.is_some_and(|one| one.secret.as_deref() == Some(&hash(secret)));
            if good {
                Ok(())
            } else {
                denied("the secret is not this host's; register with the token")
            }
        }
        Proof::Token(token) => {
            let tokens = state.infra_envs.by_key(infra_env).map(|one| one.tokens.clone());
            let hash = hash(token);
            let mut tokens = tokens.unwrap_or_default().into_iter();
            if !tokens.any(|one| one.hash == hash && one.is_good(tick.now)) {
                return denied("the token is unknown, revoked or expired");
            }
            let speaks = agent.filter(|one| {
                let awaited = one.state().is_returning();
                one.secret.is_some() && !awaited && !one.is_silent(tick.now)
            });
            match speaks {
                None => Ok(()),
                Some(one) => denied(&format!(
                    "host {} checked in a moment ago and has a secret of its own; without it, \
                     register again after three minutes of silence",
                    one.status.host_id
                )),
            }
        }
    }
}

#[derive(Args)]
pub struct Ssh {
    /// Serve hosts of this InfraEnv only
    #[arg(long, value_name = "INFRAENV")]
    infraenv: Option<String>,
    /// Print the line of authorized_keys by which this public key may do that and nothing else
    #[arg(long, value_name = "FILE")]
    authorize: Option<PathBuf>,
}

impl Ssh {
    fn line(&self, context: &Context, key: &PathBuf) -> anyhow::Result<String> {
        let text = text_of(key)?;
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let (key, more) = (lines.next().unwrap_or_default(), lines.next().is_some());
        if more || key.is_empty() || !rules::infra_envs::is_key(key) {
            return Err(Refusal::usage("that is no file with one public key of SSH")
                .advise("ssh-keygen -t ed25519 -f hosts, and give hosts.pub")
                .into());
        }
        let mut words = vec![std::env::current_exe()?.display().to_string(), "--state".into()];
        words.push(std::path::absolute(context.path()?)?.display().to_string());
        words.extend(["agent".into(), "ssh".into()]);
        if let Some(name) = &self.infraenv {
            words.extend(["--infraenv".into(), only(context, name)?.to_string()]);
        }
        // A shell reads the command.
        let plain = |one: char| one.is_ascii_alphanumeric() || "/._-+@".contains(one);
        if let Some(word) = words.iter().find(|word| !word.chars().all(plain)) {
            let what = format!("`{word}` cannot be written into authorized_keys");
            return Err(Refusal::invalid(what).because("a shell would read something else").into());
        }
        let kept: Vec<&str> = key.split_whitespace().take(2).collect();
        Ok(format!("restrict,command=\"{}\" {}\n", words.join(" "), kept.join(" ")))
    }
}

/// `NAMESPACE/NAME`, or a name in the namespace of the command.
fn only(context: &Context, name: &str) -> Result<Key, Refusal> {
    let (namespace, name) = match name.split_once('/') {
        Some((namespace, name)) => (namespace.to_owned(), name),
        None => (context.namespace()?, name),
    };
    rules::name_of(Kind::Namespace, &namespace)?;
    rules::name_of(Kind::InfraEnv, name)?;
    Ok(Key::new(namespace, name))
}

/// What a host says over SSH.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    /// Namespace and name.
    infra_env: String,
    #[serde(rename = "hostID")]
    host_id: String,
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    secret: Option<String>,
    #[serde(default)]
    report: Option<Value>,
}

impl Verb for Ssh {
    const NAME: &'static str = "ssh";
    const ABOUT: &'static str = "Serve one host over SSH, as the command of its key";
    const EXAMPLE: &'static str = "poolctl agent ssh --authorize examples/agents/id.pub";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        if let Some(key) = &self.authorize {
            return context.print(&self.line(context, key)?);
        }
        // Heard before the state is looked at: whoever is slow keeps nobody waiting.
        let words = context.world.variable("SSH_ORIGINAL_COMMAND").unwrap_or_default();
        if !matches!(words, "register" | "report" | "check-in") {
            return Err(Refusal::new(Exit::Denied, "this key may register, report and check-in")
                .because("it was given to hosts of a discovery image, for nothing else")
                .into());
        }
        let text = heard()?;
        let wrong = |why: String| Refusal::usage("this is no message of a host").because(why);
        let said: Said = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let (namespace, name) = said
            .infra_env
            .split_once('/')
            .ok_or_else(|| wrong("infraEnv is not NAMESPACE/NAME".into()))?;
        let only = self.infraenv.as_ref().map(|name| only(context, name)).transpose()?;
        if only.is_some_and(|only| only != Key::new(namespace, name)) {
            return Err(Refusal::new(Exit::Denied, "this key is of another InfraEnv").into());
        }
        for (kind, name) in [(Kind::Namespace, namespace), (Kind::InfraEnv, name)] {
            rules::name_of(kind, name)?;
        }
        let infra_env = Key::new(namespace, name);
        let store = context.look()?;
        let answer = match words {
            "register" => {
                let proof = match (said.secret, said.token) {
                    (Some(secret), _) => Proof::Secret(secret),
                    (None, Some(token)) => Proof::Token(token),
                    (None, None) => return Err(wrong("no token and no secret".into()).into()),
                };
                let (_, secret) =
                    registered(context, &store, &infra_env, &said.host_id, Some(&proof))?;
                json!({"secret": secret, "next": "none", "after": 60})
            }
            _ => {
                crate::commands::agent::host::ssh::answer(context, &store, &infra_env, said, words)?
            }
        };
        context.print(&format!("{answer}\n"))
    }
}

/// A report or a check-in of a host that proves who it is.
fn answer(
    context: &Context,
    store: &Store,
    infra_env: &Key,
    said: Said,
    words: &str,
) -> Result<Value, Refusal> {
    let denied = || Refusal::new(Exit::Denied, "the secret is not this host's; register again");
    let key = store.agent_of(infra_env, &said.host_id)?.ok_or_else(denied)?;
    let secret = said.secret.map(|secret| hash(&secret)).ok_or_else(denied)?;
    record(context, store, &key, |state, at, tick| {
        let known = state.agents.get(at).and_then(|one| one.secret.clone());
        if known.as_ref() != Some(&secret) {
            return Err(denied());
        }
        if words == "report" {
            let report = said.report.unwrap_or_default();
            let report = report::read(&report.to_string()).map_err(Refusal::invalid)?;
            reported(store, state, at, report, tick)?;
        }
        state.agents.update(at, |one| {
            one.status.last_contact_time = Some(tick.now);
            one.status.media_disconnected &= words == "report";
        });
        let agent = state.agents.get(at);
        Ok(agent.map(|one| agents::after_check_in(state, one)).unwrap_or_default())
    })
}
