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
        let url = self.url.clone().unwrap_or_else(|| format!("file://{}", out.display()));
        let new = Condition::new(CREATED, "True", "ImageCreated", "Image has been created");
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
        let text = |path: &PathBuf| {
            std::fs::read_to_string(path)
                .with_context(|| format!("`{}` cannot be read", path.display()))
        };
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
        let good = new.status == "True";
        let text = if good { "Updated image information".into() } else { new.message.clone() };
        state.infra_envs.update(at, |one| {
            condition::set(&mut one.status.conditions, new, tick.now);
            for one in &mut one.status.conditions {
                one.last_probe_time = None;
            }
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
