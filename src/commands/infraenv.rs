//! `infraenv create|token`: what hosts are booted from, and what admits them.

pub mod images;
pub mod iso;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::causes::command_to_make_image;
use crate::edits::{self, put};
use crate::model::agent::{ClusterReference, OWNER};
use crate::model::event_reason::EventReason;
use crate::model::hash::sha256;
use crate::model::infra_env::Token as Known;
use crate::model::infra_env::{AgentApproval, InfraEnv, InfraEnvSpec, Proxy};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, LocalRef, Meta};
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::model::time::{Span, Time};
use crate::output::{Answer, Name};
use crate::reconcile::Door;
use crate::rules;
use crate::store::Need;

use crate::commands::{Context, Verb, scope};

#[derive(Args)]
pub struct Create {
    /// Name of the InfraEnv
    #[arg(value_name = "NEW")]
    name: String,
    /// Secret with .dockerconfigjson, for the images of the discovery
    #[arg(long, value_name = "SECRET")]
    pull_secret: String,
    /// File with the public keys that may log in during discovery
    #[arg(long, value_name = "FILE")]
    ssh_key: Option<PathBuf>,
    /// Hosts belong to this cluster at once
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
    /// Label of every host that is booted from it
    #[arg(long, value_name = "KEY=VALUE")]
    agent_label: Vec<String>,
    /// Server of time beside those of the network
    #[arg(long, value_name = "HOST")]
    ntp: Vec<String>,
    /// Proxy of its hosts, for http and https
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,
    /// Hosts are approved by themselves
    #[arg(long)]
    auto_approve: bool,
    /// Processors of its hosts: x86_64, aarch64, ...
    #[arg(long, value_name = "ARCH")]
    cpu_architecture: Option<String>,
    /// Who looks after its hosts
    #[arg(long)]
    owner: Option<String>,
}

impl Verb for Create {
    const NAME: &'static str = "create";
    const ABOUT: &'static str = "Make an InfraEnv, whose image makes hosts into agents";
    const EXAMPLE: &'static str =
        "poolctl infraenv create rack-8 --pull-secret pull-secret --auto-approve";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let key = context.key(Kind::InfraEnv, &self.name)?;
        let one = self.made(&key)?;
        let object = Object::InfraEnv(Box::new(one));
        rules::check(&object)?;
        let what = [(Kind::InfraEnv, key.clone(), None)];
        let store = context.open()?;
        let scope = scope::scope_of(&store, &what)?;
        let (_, passed) =
            context.door(&store).change(&scope, &scope::needs_of(&what), |state, tick| {
                if state.infra_envs.find(&key).is_some() {
                    let what = format!("there is an InfraEnv `{}` already", key.name);
                    return Err(
                        Refusal::conflict(what).next(format!("poolctl edit infraenv {}", key.name))
                    );
                }
                put(state, object, true, tick)
            })?;
        context.changed(Kind::InfraEnv, &key, "created")?;
        let at = context.in_namespace(&key.namespace);
        context.hint(&format!("{} makes its image", command_to_make_image(&key.name, &at)));
        Ok(context.finish(&passed)?)
    }
}

impl Create {
    fn made(&self, key: &Key) -> anyhow::Result<InfraEnv> {
        let mut labels = BTreeMap::new();
        for text in &self.agent_label {
            let wrong = || Refusal::usage(format!("--agent-label `{text}` is not KEY=VALUE"));
            let (name, value) = text.split_once('=').ok_or_else(wrong)?;
            labels.insert(name.to_owned(), value.to_owned());
        }
        let keys = match &self.ssh_key {
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("`{}` cannot be read", path.display()))?,
            None => String::new(),
        };
        let proxy = self.proxy.as_ref().map(|url| Proxy {
            http_proxy: url.clone(),
            https_proxy: url.clone(),
            ..Proxy::default()
        });
        let notes = self.owner.iter().map(|owner| (OWNER.to_owned(), owner.clone()));
        Ok(InfraEnv {
            metadata: Meta {
                name: key.name.clone(),
                namespace: key.namespace.clone(),
                annotations: notes.collect(),
                ..Meta::default()
            },
            spec: InfraEnvSpec {
                pull_secret_ref: LocalRef::to(&*self.pull_secret),
                cluster_ref: self.cluster.as_ref().map(|name| ClusterReference {
                    name: name.clone(),
                    namespace: key.namespace.clone(),
                }),
                cpu_architecture: self.cpu_architecture.clone().unwrap_or_default(),
                additional_ntp_sources: self.ntp.clone(),
                ssh_authorized_key: keys.trim_end().to_owned(),
                agent_approval: self.auto_approve.then_some(AgentApproval { auto_approve: true }),
                agent_labels: labels,
                proxy,
                ..InfraEnvSpec::default()
            },
            ..InfraEnv::default()
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Make another one, and show it once
    Create,
    /// Let nobody in by it any more
    Revoke,
    /// Make another one and revoke all others
    Rotate,
    /// Show which there are
    List,
}

#[derive(Args)]
pub struct Token {
    /// What to do
    #[arg(value_enum)]
    action: Action,
    /// InfraEnv whose tokens they are
    #[arg(value_name = "INFRAENV")]
    name: String,
    /// Which one is revoked; without it, all of them
    #[arg(long, value_name = "TOKEN-ID")]
    id: Option<String>,
    /// For how long it admits hosts; without it, for ever
    #[arg(long, value_name = "DURATION")]
    expires: Option<Span>,
}

impl Verb for Token {
    const NAME: &'static str = "token";
    const ABOUT: &'static str = "Make, revoke and list what admits hosts of an InfraEnv";
    const EXAMPLE: &'static str = "poolctl infraenv token create rack --expires 30d";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let one = context.find::<InfraEnv>(&store, &self.name)?;
        let key = one.key();
        let door = context.door(&store);
        match self.action {
            Action::List => {
                if one.tokens.is_empty() && context.is_for_people() {
                    context.hint("no tokens");
                }
                context.answer(list(context, &one.tokens))
            }
            Action::Create | Action::Rotate => {
                let rotates = self.action == Action::Rotate;
                let (token, known) = grant(context, &door, &key, self.expires, rotates)?;
                let until = known.expires.map_or("for ever".into(), |end| format!("until {end}"));
                let name = &key.name;
                context.hint(&format!(
                    "token {} of infraenv/{name} admits hosts {until}; it is shown once",
                    known.id
                ));
                let document = json!({"id": known.id, "token": token, "expires": known.expires});
                let answer = Answer::text(format!("{token}\n")).with_document(document);
                context.answer(answer.with_name(Name::plain(token)).verbatim())
            }
            Action::Revoke => {
                let many = revoke(&door, &key, self.id.as_deref())?;
                context.changed(Kind::InfraEnv, &key, &format!("{many} tokens revoked"))
            }
        }
    }
}

/// What they are known by is shown to nobody.
fn list(context: &Context, tokens: &[Known]) -> Answer {
    let time = |time: Option<Time>| time.map(|time| time.to_string()).unwrap_or_default();
    let entry = |token: &Known| {
        let row = || {
            vec![
                ("id", token.id.clone()),
                ("created", token.created.to_string()),
                ("expires", time(token.expires)),
                ("revoked", time(token.revoked)),
            ]
        };
        let document = || {
            json!({"id": token.id, "created": token.created, "expires": token.expires,
                   "revoked": token.revoked})
        };
        context.entry(Some(Name::plain(token.id.as_str())), row, document)
    };
    Answer::list(tokens.iter().map(entry).collect())
}

fn need(key: &Key) -> [Need; 1] {
    [Need { kind: Kind::InfraEnv, key: key.clone() }]
}

/// Whether a token that lasts as long lets anybody in.
pub fn admits(lasts: Option<Span>) -> Result<(), Refusal> {
    match lasts {
        Some(Span(0)) => Err(Refusal::usage("--expires 0s would admit nobody")),
        _ => Ok(()),
    }
}

/// A new token, and what is kept of it.
pub fn grant(
    context: &Context,
    door: &Door<'_>,
    key: &Key,
    lasts: Option<Span>,
    rotates: bool,
) -> Result<(String, Known), Refusal> {
    admits(lasts)?;
    let token = context.world.secret()?;
    let edit = |state: &mut State, tick: &Tick| {
        let known = Known {
            id: tick.suffix("token", &key.to_string(), tick.revision),
            hash: sha256(token.as_bytes()),
            created: tick.now,
            expires: lasts.map(|span| tick.now.plus(span)),
            revoked: None,
        };
        let at = state.infra_envs.find(key);
        let at =
            at.ok_or_else(|| Refusal::not_found(format!("there is no InfraEnv `{}`", key.name)))?;
        let mut gone = Vec::new();
        state.infra_envs.update(at, |one| {
            if rotates {
                gone = ended(&mut one.tokens, None, tick.now);
            }
            one.tokens.push(known.clone());
        });
        tell_ended(state, key, &gone, tick);
        let text = format!("Token {} admits hosts", known.id);
        edits::record_event(
            state,
            tick,
            Kind::InfraEnv,
            key.clone(),
            EventReason::TokenCreated,
            &text,
        );
        Ok(known)
    };
    let (known, _) = door.change(&Scope::Pools(Vec::new()), &need(key), edit)?;
    Ok((token, known))
}

/// Lets nobody in any more by a token, or by all of them; says how many those were.
pub fn revoke(door: &Door<'_>, key: &Key, id: Option<&str>) -> Result<usize, Refusal> {
    let edit = |state: &mut State, tick: &Tick| {
        let Some(at) = state.infra_envs.find(key) else { return Ok(0) };
        let mut ids = Vec::new();
        state.infra_envs.update(at, |one| ids = ended(&mut one.tokens, id, tick.now));
        if let Some(id) = id.filter(|_| ids.is_empty()) {
            return Err(Refusal::not_found(format!(
                "InfraEnv `{}` has no token {id} that admits",
                key.name
            ))
            .next(format!("poolctl infraenv token list {}", key.name)));
        }
        tell_ended(state, key, &ids, tick);
        Ok(ids.len())
    };
    Ok(door.change(&Scope::Pools(Vec::new()), &need(key), edit)?.0)
}

/// One token, or all of them, admit nobody from now on; which those were.
fn ended(tokens: &mut [Known], id: Option<&str>, now: Time) -> Vec<String> {
    let which = |one: &&mut Known| one.revoked.is_none() && id.is_none_or(|id| one.id == id);
    let which = tokens.iter_mut().filter(which);
    which
        .map(|one| {
            one.revoked = Some(now);
            one.id.clone()
        })
        .collect()
}

fn tell_ended(state: &mut State, key: &Key, ids: &[String], tick: &Tick) {
    for id in ids {
        let text = format!("Token {id} admits nobody any more");
        edits::record_event(
            state,
            tick,
            Kind::InfraEnv,
            key.clone(),
            EventReason::TokenRevoked,
            &text,
        );
    }
}
