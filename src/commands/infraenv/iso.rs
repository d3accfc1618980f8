//! `infraenv iso`: the image that hosts are booted from to become agents.

mod make;
mod ssh;

use std::cell::Cell;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};

use crate::causes::command_to_make_image;
use crate::model::condition::{self, Condition, ConditionReason};
use crate::model::documents::SettingsSpec;
use crate::model::event::Event;
use crate::model::event_reason::EventReason;
use crate::model::infra_env::{IMAGE_CREATED, InfraEnv};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::nmstate_config::NMStateConfig;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::reconcile::Door;
use crate::render::discovery::made_of;
use crate::store::{Need, Store, copies};

use crate::commands::infraenv::images;
use crate::commands::infraenv::iso::make::Parts;
use crate::commands::infraenv::iso::ssh::Known;
use crate::commands::{Context, Verb, infraenv};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum With {
    CoreosInstaller,
    OpenshiftInstall,
}

#[derive(Args)]
pub struct Iso {
    /// InfraEnv that its hosts are to belong to
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
    /// The live image of RHCOS that coreos-installer makes it of; without it only the Ignition is
    /// written
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// With openshift-install, its `agent create unconfigured-ignition` is what ours is merged
    /// over, so that the hosts take a config image, too
    #[arg(long, value_enum, value_name = "PROGRAM", default_value = "coreos-installer")]
    with: With,
    /// The file to write; without it, one below isoDirectory of the Settings that nobody guesses
    #[arg(long, value_name = "FILE", required_unless_present = "base")]
    out: Option<PathBuf>,
    /// Where management controllers fetch it, once somebody serves it there; below isoURL of the
    /// Settings without --out
    #[arg(long, value_name = "URL", requires = "out")]
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
    const EXAMPLE: &'static str = "poolctl infraenv iso rack --address poolctl@192.0.2.1 \
        --key \"$HOME/hosts\" --known-hosts \"$HOME/known_hosts\" --out \"$HOME/rack.ign\"";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let one = context.find::<InfraEnv>(&store, &self.name)?;
        self.check()?;
        let door = context.door(&store);
        let settings = door.settings()?;
        let (out, url) = self.place(context, &settings, &one.metadata.name)?;
        if copies::is_ours(store.path(), &out) {
            let what = format!("`{}` belongs to the state", out.display());
            return Err(Refusal::conflict(what).into());
        }
        self.check_files(&out)?;
        let configs = store.all::<NMStateConfig>()?;
        let hash = made_of(&one, &configs);
        // Programs run in groups of their own: a signal does not end them with us.
        context.world.catch_signals();
        let (token, known) = infraenv::grant(context, &door, &one.key(), self.expires, false)?;
        let (infra_env, settings, configs) = (&one, &settings, &configs);
        let (store, token, caught) = (&store, &*token, Cell::new(None));
        let parts = Parts { context, store, settings, infra_env, configs, token, caught };
        if let Err(error) = self.make(&parts, &out) {
            if let Some(exit) = parts.caught.get() {
                // Nothing is wrong with the image, which nobody has made.
                infraenv::revoke(&door, &one.key(), Some(&known.id))?;
                return Err(Refusal::new(exit, "interrupted").into());
            }
            let text = format!("Failed to create image: {}", in_a_line(&error));
            let new =
                Condition::new(IMAGE_CREATED, "False", ConditionReason::ImageCreationError, text);
            record(&door, &one.key(), new, |_, _| ())?;
            infraenv::revoke(&door, &one.key(), Some(&known.id))?;
            return Err(error);
        }
        record(&door, &one.key(), self.created(), |one, tick| {
            if one.status.image_hash != hash || one.status.iso_download_url != url {
                one.status.created_time = Some(tick.now);
            }
            one.status.image_hash = hash;
            one.status.iso_download_url.clone_from(&url);
        })?;
        self.warn(context, settings, infra_env, &url);
        let until = known.expires.map_or("for ever".into(), |end| format!("until {end}"));
        let what = if self.base.is_some() { "image" } else { "Ignition" };
        context.changed(
            Kind::InfraEnv,
            &one.key(),
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
    /// Where it is written, and where it is fetched from.
    fn place(
        &self,
        context: &Context,
        settings: &SettingsSpec,
        name: &str,
    ) -> anyhow::Result<(PathBuf, String)> {
        if let Some(out) = &self.out {
            return Ok((std::path::absolute(out)?, self.url.clone().unwrap_or_default()));
        }
        let (Some(folder), Some(url)) = (&settings.iso_directory, &settings.iso_url) else {
            let what = "there is no place for the image";
            let why = "isoDirectory and isoURL of the Settings are not set, and --out is not given";
            let next = "poolctl explain settings.spec.isoDirectory";
            return Err(Refusal::usage(what).because(why).next(next).into());
        };
        let (own, file) = (context.world.secret()?, format!("{name}.iso"));
        let url = format!("{}/{own}/{file}", url.trim_end_matches('/'));
        Ok((folder.join(own).join(file), url))
    }

    fn created(&self) -> Condition {
        // An Ignition alone is no image that a controller could boot from.
        if self.base.is_some() || self.url.is_some() {
            return Condition::new(
                IMAGE_CREATED,
                "True",
                ConditionReason::ImageCreated,
                "Image has been created",
            );
        }
        let text = "Only its Ignition has been made";
        Condition::new(IMAGE_CREATED, "False", ConditionReason::ImageNotCreated, text)
    }

    /// What of it is left to somebody else.
    fn warn(&self, context: &Context, settings: &SettingsSpec, old: &InfraEnv, url: &str) {
        if self.base.is_none() && !old.spec.kernel_arguments.is_empty() {
            context
                .warn("spec.kernelArguments are in no Ignition: --base makes an image with them");
        }
        if self.out.is_some() {
            return;
        }
        context.hint(&format!("it is fetched from {url}"));
        if let Some(path) = images::file_of(settings, old) {
            // A host that runs from a medium dies with it.
            context.hint(&format!("the former one is still in {}", path.display()));
        }
    }
}

/// An error as a condition has it: what, and why.
fn in_a_line(error: &anyhow::Error) -> String {
    let Some(one) = error.downcast_ref::<Refusal>() else { return format!("{error:#}") };
    let all: Vec<&str> =
        std::iter::once(&one.what).chain(&one.causes).map(String::as_str).collect();
    all.join(": ")
}

impl Iso {
    /// Whether an image of this would ever be heard of.
    fn check(&self) -> anyhow::Result<()> {
        let place = self.address.split_once('@').map_or(&*self.address, |(_, place)| place);
        let (host, port) = place_of(place)?;
        let user = self.address.split_once('@').map_or("poolctl", |(user, _)| user);
        let plain = |one: char| one.is_ascii_alphanumeric() || "._-".contains(one);
        if user.is_empty() || user.starts_with('-') || !user.chars().all(plain) {
            return Err(Refusal::usage(format!("--address: `{user}` is no user")).into());
        }
        infraenv::admits(self.expires)?;
        let key = text(&self.key)?;
        let make = "ssh-keygen -t ed25519 -N '' -f hosts";
        if !key.contains("PRIVATE KEY-----") {
            let what = format!("`{}` is no private key", self.key.display());
            return Err(Refusal::usage(what).advise(make).into());
        }
        if ssh::is_locked(&key) {
            let what = format!("`{}` has a passphrase", self.key.display());
            let why = "no host could type it, and none would report";
            return Err(Refusal::usage(what).because(why).advise(make).into());
        }
        let what = match ssh::known(&text(&self.known_hosts)?, &host, port) {
            Known::Nothing => Some("names no host's key".to_owned()),
            Known::Others => Some(format!("has no key of {place}, so no host would report")),
            Known::Place => None,
        };
        if let Some(what) = what {
            let what = format!("`{}` {what}", self.known_hosts.display());
            return Err(Refusal::usage(what).advise(scan(&host, port)).into());
        }
        if let Some(url) = &self.url
            && !url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
        {
            return Err(Refusal::usage(format!("--url `{url}` is no address by http")).into());
        }
        Ok(())
    }
}

impl Iso {
    /// What is read and written, before anything runs or anybody is admitted.
    fn check_files(&self, out: &Path) -> Result<(), Refusal> {
        let base = self.base.as_ref().filter(|path| !path.is_file());
        if let Some(path) = base {
            let what = format!("--base: there is no file `{}`", path.display());
            return Err(Refusal::usage(what).advise("coreos-installer download --format iso"));
        }
        if self.out.is_none() {
            return Ok(());
        }
        let (shown, folder) = (out.display(), copies::parent(out));
        if out.is_dir() {
            let name = if self.base.is_some() { "rack.iso" } else { "rack.ign" };
            return Err(Refusal::usage(format!("--out: `{shown}` is a folder"))
                .advise(format!("--out {}", out.join(name).display())));
        }
        if !folder.is_dir() {
            let folder = folder.display();
            let what = format!("--out: there is no folder `{folder}`");
            return Err(Refusal::usage(what).advise(format!("mkdir -p {folder}")));
        }
        Ok(())
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("`{}` cannot be read", path.display()))
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
    match port.parse() {
        Ok(0) | Err(_) => Err(wrong()),
        Ok(port) => Ok((host.to_owned(), port)),
    }
}

/// What prints the keys of a place.
fn scan(host: &str, port: u16) -> String {
    let port = if port == 22 { String::new() } else { format!("-p {port} ") };
    format!("ssh-keyscan {port}{host}")
}

/// Whether an image was made of something else than there is now.
pub fn is_stale(store: &Store, one: &InfraEnv) -> Result<bool, Refusal> {
    let hash = &one.status.image_hash;
    Ok(!hash.is_empty() && *hash != made_of(one, &store.all::<NMStateConfig>()?))
}

/// Says which images are older than what they would be made of now.
pub fn hint_stale(context: &Context, store: &Store, found: &[Object]) -> Result<(), Refusal> {
    for object in found {
        let Object::InfraEnv(one) = object else { continue };
        if is_stale(store, one)? {
            let (name, at) = (&one.metadata.name, context.in_namespace(&one.metadata.namespace));
            context.hint(&format!(
                "the image of infraenv/{name} is older than its spec or its NMStateConfigs: \
                 {}",
                command_to_make_image(name, &at)
            ));
        }
    }
    Ok(())
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
        let good = new.reason != ConditionReason::ImageCreationError;
        let text = if good { "Updated image information".into() } else { new.message.clone() };
        let reason =
            if good { EventReason::ImageInfoUpdated } else { EventReason::InfraEnvImageFailed };
        state.infra_envs.update(at, |one| {
            condition::set_unprobed(&mut one.status.conditions, new, tick.now);
            how(one, tick);
        });
        state.event(Event {
            time: tick.now,
            warning: !good,
            reason: reason.into(),
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
