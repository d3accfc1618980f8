//! `infraenv iso`: the image that hosts are booted from to become agents.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use crate::drivers::discovery::{Build, PROGRAM};
use crate::drivers::programs;
use crate::model::condition::{self, Condition};
use crate::model::documents::SecretValue;
use crate::model::event::Event;
use crate::model::infra_env::InfraEnv;
use crate::model::kind::Kind;
use crate::model::meta::Key;
use crate::model::nmstate_config::NMStateConfig;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::text::sha256;
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::reconcile::Door;
use crate::render::discovery::{Discovery, ignition, kernel_arguments};
use crate::rules::infra_envs::is_key;
use crate::store::{Filter, Need, Store, copies};

use super::{Context, Verb, infraenv};

const PULL: &str = ".dockerconfigjson";
const CREATED: &str = "ImageCreated";

#[derive(Args)]
pub struct Iso {
    #[arg(value_name = "INFRAENV")]
    name: String,
    /// Where hosts reach poolctl by SSH
    #[arg(long, value_name = "[USER@]HOST[:PORT]")]
    address: String,
    /// Private key that is admitted there, to `poolctl agent ssh` alone
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The host keys that are believed there, as `ssh-keyscan` prints them
    #[arg(long, value_name = "FILE")]
    known_hosts: PathBuf,
    /// The live image that it is made of; without it only the Ignition is written
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Where management controllers fetch it, once somebody serves it there
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Image that hosts are to try to pull
    #[arg(long, value_name = "IMAGE")]
    image: Vec<String>,
    /// For how long the image admits hosts; without it, for ever
    #[arg(long, value_name = "DURATION")]
    expires: Option<Span>,
}

impl Verb for Iso {
    const NAME: &'static str = "iso";
    const ABOUT: &'static str = "Make the discovery image of an InfraEnv, or its Ignition";
    const EXAMPLE: &'static str = "poolctl infraenv iso rack --address poolctl@127.0.0.1 \
        --key \"$HOME/hosts\" --known-hosts \"$HOME/known_hosts\" --out \"$HOME/rack.ign\"";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let Object::InfraEnv(one) = context.find(&store, Kind::InfraEnv, &self.name)? else {
            return Ok(());
        };
        let out = std::path::absolute(&self.out)?;
        if copies::is_ours(store.path(), &out) {
            let what = format!("`{}` belongs to the state", out.display());
            return Err(Refusal::conflict(what).into());
        }
        self.check()?;
        let door = context.door(&store);
        let spec = serde_json::to_string(&one.spec)?;
        let configs = configs(&store)?;
        let made_of = sha256(&format!("{spec}{}", serde_json::to_string(&configs)?));
        let (token, known) = infraenv::grant(context, &door, &one.key(), self.expires, false)?;
        match self.make(context, &store, &one, &configs, &token, &out) {
            Ok(()) => {}
            Err(error) => {
                let text = format!("Failed to create image: {error:#}");
                let new = Condition::new(CREATED, "False", "ImageCreationError", text);
                record(&door, &one.key(), new, |_, _| ())?;
                infraenv::revoke(&door, &one.key(), Some(&known.id))?;
                return Err(error);
            }
        }
        // An Ignition alone is no image that a controller could boot from.
        let url = self.url.clone().unwrap_or_default();
        let new = if self.base.is_some() || self.url.is_some() {
            Condition::new(CREATED, "True", "ImageCreated", "Image has been created")
        } else {
            let text = "Only its Ignition has been made";
            Condition::new(CREATED, "False", "ImageNotCreated", text)
        };
        record(&door, &one.key(), new, |one, tick| {
            if one.status.image_hash != made_of || one.status.iso_download_url != url {
                one.status.created_time = Some(tick.now);
            }
            one.status.image_hash = made_of;
            one.status.iso_download_url = url;
        })?;
        let until = known.expires.map_or("for ever".into(), |end| format!("until {end}"));
        let what = if self.base.is_some() { "image" } else { "Ignition" };
        context.changed(
            Kind::InfraEnv,
            &one.metadata.name,
            &format!(
                "{what} is in {}; hosts report to {} and are admitted {until} (token {})",
                out.display(),
                self.address,
                known.id
            ),
        )
    }
}

impl Iso {
    /// Whether an image of this would ever be heard of.
    fn check(&self) -> anyhow::Result<()> {
        let place = self.address.split_once('@').map_or(&*self.address, |(_, place)| place);
        place_of(place)?;
        let user = self.address.split_once('@').map_or("poolctl", |(user, _)| user);
        let plain = |one: char| one.is_ascii_alphanumeric() || "._-".contains(one);
        if user.is_empty() || user.starts_with('-') || !user.chars().all(plain) {
            return Err(Refusal::usage(format!("--address: `{user}` is no user")).into());
        }
        if self.expires.is_some_and(|span| span.0 == 0) {
            return Err(Refusal::usage("--expires 0s would admit nobody").into());
        }
        if !text(&self.key)?.contains("PRIVATE KEY-----") {
            let what = format!("`{}` is no private key", self.key.display());
            return Err(Refusal::usage(what).next("ssh-keygen -t ed25519 -f hosts").into());
        }
        let known = text(&self.known_hosts)?;
        let mut keys = known.lines().filter_map(|line| line.split_once(' ').map(|(_, key)| key));
        if !keys.any(|key| is_key(key) && !key.trim().is_empty()) {
            let what = format!("`{}` names no host's key", self.known_hosts.display());
            return Err(Refusal::usage(what).next(format!("ssh-keyscan {place}")).into());
        }
        if let Some(url) = &self.url
            && !url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
        {
            return Err(Refusal::usage(format!("--url `{url}` is no address by http")).into());
        }
        Ok(())
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("`{}` cannot be read", path.display()))
}

/// All NMStateConfigs there are; the `InfraEnv` selects.
fn configs(store: &Store) -> Result<Vec<NMStateConfig>, Refusal> {
    let all = store.objects(Kind::NMStateConfig, &Filter::default())?;
    let config = |one| if let Object::NMStateConfig(one) = one { Some(*one) } else { None };
    Ok(all.into_iter().filter_map(config).collect())
}

impl Iso {
    fn make(
        &self,
        context: &Context,
        store: &Store,
        one: &InfraEnv,
        configs: &[NMStateConfig],
        token: &str,
        out: &Path,
    ) -> anyhow::Result<()> {
        let (user, place) = self.address.split_once('@').unwrap_or(("poolctl", &self.address));
        let (host, port) = place_of(place)?;
        let secret = Key::new(&*one.metadata.namespace, &*one.spec.pull_secret_ref.name);
        let pull = store.secret_value(&secret, PULL)?;
        if pull.is_none() {
            return Err(Refusal::not_found(format!("secret `{}` has no {PULL}", secret.name))
                .next(format!("poolctl secret create {} --from-file={PULL}=FILE", secret.name))
                .into());
        }
        let config = json!({
            "token": token, "address": host, "port": port, "user": user,
            "key": text(&self.key)?, "knownHosts": text(&self.known_hosts)?,
            "images": self.image,
        });
        let pull_secret = pull.as_ref().map(SecretValue::reveal);
        let all = Discovery { infra_env: one, configs, pull_secret, config };
        let document = ignition(&all).map_err(Refusal::invalid)?.to_string();
        let Some(base) = &self.base else {
            copies::place(out, document.as_bytes(), true)?;
            return Ok(());
        };
        let settings = context.door(store).settings()?;
        let program = programs::find(&settings, PROGRAM).map_err(Refusal::invalid)?;
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("discovery.ign");
        copies::place(&file, document.as_bytes(), false)?;
        let build = Build {
            program: &program,
            base_iso: &std::path::absolute(base)?,
            ignition: &file,
            kargs: &kernel_arguments(one),
            out,
        };
        context.world.catch_signals();
        let interrupted = || context.world.interrupted().is_some();
        Ok(build.run(interrupted).map_err(Refusal::invalid)?)
    }
}

fn place_of(text: &str) -> Result<(String, u16), Refusal> {
    let wrong = || Refusal::usage(format!("--address `{text}` is not [USER@]HOST[:PORT]"));
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port),
        _ => (text, "22"),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let good = |one: char| one.is_ascii_alphanumeric() || ".-:_".contains(one);
    if host.is_empty() || host.starts_with('-') || !host.chars().all(good) {
        return Err(wrong());
    }
    Ok((host.to_owned(), port.parse().map_err(|_| wrong())?))
}

/// What became of the image.
fn record(
    door: &Door<'_>,
    key: &Key,
    new: Condition,
    how: impl FnOnce(&mut InfraEnv, &Tick),
) -> Result<(), Refusal> {
    let needs = [Need { kind: Kind::InfraEnv, key: key.clone() }];
    door.change(&Scope::Pools(Vec::new()), &needs, |state: &mut State, tick| {
        let Some(at) = state.infra_envs.find(key) else { return Ok(()) };
        let good = new.reason != "ImageCreationError";
        let text = if good { "Updated image information".into() } else { new.message.clone() };
        state.infra_envs.update(at, |one| {
            condition::set_unprobed(&mut one.status.conditions, new, tick.now);
            how(one, tick);
        });
        state.event(Event {
            time: tick.now,
            warning: !good,
            reason: if good { "image_info_updated" } else { "infra_env_image_failed" }.into(),
            kind: Kind::InfraEnv.name(),
            object: key.clone(),
            actor: tick.actor.clone(),
            message: text,
            ..Event::default()
        });
        Ok(())
    })?;
    Ok(())
}
