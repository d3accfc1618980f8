//! `infraenv create|token`: makes InfraEnvs, whose discovery images make machines into agents, and
//! the tokens with which such machines register. Of a token only its hash is stored.

pub mod images;
pub mod iso;
pub mod pxe;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::causes::command_to_make_image;
use crate::edits::{self, PutMode, put_object};
use crate::model::agent::ClusterReference;
use crate::model::annotations::OWNER;
use crate::model::event_reason::EventReason;
use crate::model::hash::sha256;
use crate::model::infra_env::Token as StoredToken;
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
use crate::store::NeededObject;

use crate::commands::scope::EditedObject;
use crate::commands::{Context, RunCommand, count_of, scope};

/// Arguments of `infraenv create`.
#[derive(Args)]
pub struct Create {
    /// Name of the InfraEnv
    #[arg(value_name = "NEW")]
    name: String,
    /// Secret with the pull secret (.dockerconfigjson) for container images
    #[arg(long, value_name = "SECRET")]
    pull_secret: String,
    /// File with SSH public keys that may log in to hosts during discovery
    #[arg(long, value_name = "FILE")]
    ssh_key: Option<PathBuf>,
    /// Cluster that hosts are bound to when they register
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
    /// Label for all agents of the InfraEnv; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    agent_label: Vec<String>,
    /// Additional NTP server of the hosts; may be repeated
    #[arg(long, value_name = "HOST")]
    ntp: Vec<String>,
    /// Proxy of the hosts for HTTP and HTTPS
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,
    /// Approve the hosts automatically
    #[arg(long)]
    auto_approve: bool,
    /// CPU architecture of the hosts: x86_64, aarch64, ...
    #[arg(long, value_name = "ARCH")]
    cpu_architecture: Option<String>,
    /// Person or team responsible for the hosts
    #[arg(long)]
    owner: Option<String>,
}

impl RunCommand for Create {
    const NAME: &'static str = "create";
    const ABOUT: &'static str = "Create an InfraEnv; hosts that boot its image become agents";
    const EXAMPLE: &'static str =
        "poolctl infraenv create rack-8 --pull-secret pull-secret --auto-approve";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let key = context.key(Kind::InfraEnv, &self.name)?;
        let object = Object::InfraEnv(Box::new(self.make_infra_env(&key)?));
        rules::check_object(&object)?;
        let edited = [EditedObject::new(Kind::InfraEnv, key.clone())];
        let store = context.open_or_create_state()?;
        let scope = scope::scope_of(&store, &edited)?;
        let needs = scope::needs_of(&edited);
        let (_, passed) = context.door(&store).change(&scope, &needs, |state, tick| {
            if state.infra_envs.find(&key).is_some() {
                let problem = format!("there is an InfraEnv `{}` already", key.name);
                let next = format!("poolctl edit infraenv {}", key.name);
                return Err(Refusal::conflict(problem).next(next));
            }
            put_object(state, object, PutMode::Apply, tick)
        })?;
        context.report_change(Kind::InfraEnv, &key, "created")?;
        let namespace_option = context.namespace_option(&key.namespace);
        let command = command_to_make_image(&key.name, &namespace_option);
        context.hint(&format!("{command} makes its image"));
        Ok(context.report_pass(&passed)?)
    }
}

impl Create {
    fn make_infra_env(&self, key: &Key) -> anyhow::Result<InfraEnv> {
        let mut agent_labels = BTreeMap::new();
        for label in &self.agent_label {
            let (name, value) = label.split_once('=').ok_or_else(|| {
                Refusal::usage(format!("--agent-label `{label}` is not KEY=VALUE"))
            })?;
            agent_labels.insert(name.to_owned(), value.to_owned());
        }
        let ssh_keys = match &self.ssh_key {
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("`{}` cannot be read", path.display()))?,
            None => String::new(),
        };
        let proxy = self.proxy.as_ref().map(|url| Proxy {
            http_proxy: url.clone(),
            https_proxy: url.clone(),
            ..Proxy::default()
        });
        let annotations = self.owner.iter().map(|owner| (OWNER.to_owned(), owner.clone()));
        Ok(InfraEnv {
            metadata: Meta {
                name: key.name.clone(),
                namespace: key.namespace.clone(),
                annotations: annotations.collect(),
                ..Meta::default()
            },
            spec: InfraEnvSpec {
                pull_secret_ref: LocalRef::to_name(&*self.pull_secret),
                cluster_ref: self.cluster.as_ref().map(|name| ClusterReference {
                    name: name.clone(),
                    namespace: key.namespace.clone(),
                }),
                cpu_architecture: self.cpu_architecture.clone().unwrap_or_default(),
                additional_ntp_sources: self.ntp.clone(),
                ssh_authorized_key: ssh_keys.trim_end().to_owned(),
                agent_approval: self.auto_approve.then_some(AgentApproval { auto_approve: true }),
                agent_labels,
                proxy,
                ..InfraEnvSpec::default()
            },
            ..InfraEnv::default()
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TokenAction {
    /// Create a token and print it once
    Create,
    /// Revoke a token or all tokens: hosts cannot register with them any more
    Revoke,
    /// Create a token and revoke all other tokens
    Rotate,
    /// List the tokens without their values
    List,
}

/// Arguments of `infraenv token`. A token is shown once; the state keeps only its hash.
#[derive(Args)]
pub struct Token {
    /// What to do
    #[arg(value_enum)]
    action: TokenAction,
    /// InfraEnv of the tokens
    #[arg(value_name = "INFRAENV")]
    name: String,
    /// Id of the token to revoke; by default all tokens
    #[arg(long, value_name = "TOKEN-ID")]
    id: Option<String>,
    /// How long hosts can register with the token, such as 30d; by default without limit
    #[arg(long, value_name = "DURATION")]
    expires: Option<Span>,
}

impl RunCommand for Token {
    const NAME: &'static str = "token";
    const ABOUT: &'static str = "Create, revoke and list the tokens with which hosts register";
    const EXAMPLE: &'static str = "poolctl infraenv token create rack --expires 30d";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let infra_env = context.find::<InfraEnv>(&store, &self.name)?;
        let key = infra_env.key();
        let door = context.door(&store);
        match self.action {
            TokenAction::List => {
                if infra_env.tokens.is_empty() && context.is_for_people() {
                    context.hint("no tokens");
                }
                context.answer(list_tokens(context, &infra_env.tokens))
            }
            TokenAction::Create | TokenAction::Rotate => {
                let is_rotation = self.action == TokenAction::Rotate;
                let other_tokens =
                    if is_rotation { OtherTokens::Revoke } else { OtherTokens::Keep };
                let (token, stored_token) =
                    create_token(context, &door, &key, self.expires, other_tokens)?;
                let StoredToken { id, expires, .. } = &stored_token;
                let until = expires.map_or("for ever".into(), |end| format!("until {end}"));
                context.hint(&format!(
                    "token {id} of infraenv/{} admits hosts {until}; it is shown only once",
                    key.name
                ));
                let document = json!({"id": id, "token": token, "expires": expires});
                let answer = Answer::text(format!("{token}\n")).with_document(document);
                context.answer(answer.with_name(Name::plain(token)).verbatim())
            }
            TokenAction::Revoke => {
                let count = revoke_tokens(&door, &key, self.id.as_deref())?;
                context.report_change(
                    Kind::InfraEnv,
                    &key,
                    &format!("{} revoked", count_of(count, "token")),
                )
            }
        }
    }
}

/// Tokens as they are listed: without their hashes.
fn list_tokens(context: &Context, tokens: &[StoredToken]) -> Answer {
    let mut entries = Vec::new();
    for token in tokens {
        entries.push(context.entry(
            Some(Name::plain(token.id.as_str())),
            || {
                vec![
                    ("id", token.id.clone()),
                    ("created", token.created.to_string()),
                    ("expires", time_or_empty(token.expires)),
                    ("revoked", time_or_empty(token.revoked)),
                ]
            },
            || {
                json!({"id": token.id, "created": token.created, "expires": token.expires,
                       "revoked": token.revoked})
            },
        ));
    }
    Answer::list(entries)
}

fn time_or_empty(time: Option<Time>) -> String {
    time.map(|time| time.to_string()).unwrap_or_default()
}

fn infra_env_need(key: &Key) -> [NeededObject; 1] {
    [NeededObject { kind: Kind::InfraEnv, key: key.clone() }]
}

/// Refuses a token that would never admit a machine.
pub fn check_token_lifetime(lifetime: Option<Span>) -> Result<(), Refusal> {
    match lifetime {
        Some(Span(0)) => Err(Refusal::usage("--expires 0s would admit no hosts")),
        _ => Ok(()),
    }
}

/// What becomes of the other tokens of an InfraEnv when one is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherTokens {
    Keep,
    Revoke,
}

/// Makes a token, and returns it with what is stored of it. The value is kept nowhere, so only the
/// caller can show it or write it into an image.
pub fn create_token(
    context: &Context,
    door: &Door<'_>,
    infra_env_key: &Key,
    lifetime: Option<Span>,
    other_tokens: OtherTokens,
) -> Result<(String, StoredToken), Refusal> {
    check_token_lifetime(lifetime)?;
    let token = context.world.random_secret()?;
    let scope = Scope::Pools(Vec::new());
    let (stored_token, _) =
        door.change(&scope, &infra_env_need(infra_env_key), |state, tick| {
            let stored_token = StoredToken {
                id: tick.random_suffix("token", &infra_env_key.to_string(), tick.revision),
                hash: sha256(token.as_bytes()),
                created: tick.now,
                expires: lifetime.map(|lifetime| tick.now.plus(lifetime)),
                revoked: None,
            };
            let infra_env_id = state.infra_envs.find(infra_env_key).ok_or_else(|| {
                Refusal::not_found(format!("there is no InfraEnv `{}`", infra_env_key.name))
            })?;
            let mut revoked_ids = Vec::new();
            state.infra_envs.update(infra_env_id, |infra_env| {
                if other_tokens == OtherTokens::Revoke {
                    revoked_ids = mark_revoked(&mut infra_env.tokens, None, tick.now);
                }
                infra_env.tokens.push(stored_token.clone());
            });
            record_revoked_tokens(state, infra_env_key, &revoked_ids, tick);
            let message = format!("Token {} admits hosts", stored_token.id);
            edits::record_event(
                state,
                tick,
                Kind::InfraEnv,
                infra_env_key.clone(),
                EventReason::TokenCreated,
                &message,
            );
            Ok(stored_token)
        })?;
    Ok((token, stored_token))
}

/// Revokes the token of this id, or all tokens; returns how many admitted machines until now.
pub fn revoke_tokens(
    door: &Door<'_>,
    infra_env_key: &Key,
    token_id: Option<&str>,
) -> Result<usize, Refusal> {
    let scope = Scope::Pools(Vec::new());
    let (count, _) = door.change(&scope, &infra_env_need(infra_env_key), |state, tick| {
        let Some(infra_env_id) = state.infra_envs.find(infra_env_key) else { return Ok(0) };
        let mut revoked_ids = Vec::new();
        state.infra_envs.update(infra_env_id, |infra_env| {
            revoked_ids = mark_revoked(&mut infra_env.tokens, token_id, tick.now);
        });
        if let Some(token_id) = token_id
            && revoked_ids.is_empty()
        {
            let name = &infra_env_key.name;
            let problem = format!("InfraEnv `{name}` has no valid token {token_id}");
            let next = format!("poolctl infraenv token list {name}");
            return Err(Refusal::not_found(problem).next(next));
        }
        record_revoked_tokens(state, infra_env_key, &revoked_ids, tick);
        Ok(revoked_ids.len())
    })?;
    Ok(count)
}

/// Marks the token of this id as revoked, or all tokens; returns the ids of those that were not.
fn mark_revoked(tokens: &mut [StoredToken], token_id: Option<&str>, now: Time) -> Vec<String> {
    let mut revoked_ids = Vec::new();
    for token in tokens {
        if token.revoked.is_none() && token_id.is_none_or(|token_id| token.id == token_id) {
            token.revoked = Some(now);
            revoked_ids.push(token.id.clone());
        }
    }
    revoked_ids
}

fn record_revoked_tokens(
    state: &mut State,
    infra_env_key: &Key,
    revoked_ids: &[String],
    tick: &Tick,
) {
    for token_id in revoked_ids {
        let message = format!("Token {token_id} was revoked");
        edits::record_event(
            state,
            tick,
            Kind::InfraEnv,
            infra_env_key.clone(),
            EventReason::TokenRevoked,
            &message,
        );
    }
}
