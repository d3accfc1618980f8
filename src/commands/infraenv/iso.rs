//! `infraenv iso`: makes the discovery image of an InfraEnv, from which machines are booted to
//! become agents. It never serves the image or boots a machine.

mod make;
mod ssh;

use std::cell::Cell;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};

use crate::causes::command_to_make_image;
use crate::model::condition::{self, Condition, ConditionReason};
use crate::model::documents::SettingsSpec;
use crate::model::event::{Event, EventType};
use crate::model::event_reason::EventReason;
use crate::model::infra_env::{IMAGE_CREATED, InfraEnv};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::nmstate_config::NMStateConfig;
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::state::Scope;
use crate::model::tick::Tick;
use crate::model::time::Span;
use crate::reconcile::Door;
use crate::render::discovery::hash_image_sources;
use crate::store::{NeededObject, Store, copies};

use crate::commands::infraenv::OtherTokens;
use crate::commands::infraenv::images;
use crate::commands::infraenv::iso::make::ImageSources;
use crate::commands::infraenv::iso::ssh::KnownHostsMatch;
use crate::commands::{Context, RunCommand, infraenv};

/// The program that the Ignition of the image begins with.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Program {
    CoreosInstaller,
    OpenshiftInstall,
}

/// Arguments of `infraenv iso`. The image holds secrets, so only its owner may read the file.
#[derive(Args)]
pub struct Iso {
    /// InfraEnv of the hosts that are booted from the image
    #[arg(value_name = "INFRAENV")]
    name: String,
    /// SSH address at which hosts reach poolctl
    #[arg(long, value_name = "[USER@]HOST[:PORT]")]
    address: String,
    /// SSH private key for hosts; it may only run `poolctl agent ssh`
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// File with the SSH host keys of that address, as printed by `ssh-keyscan`
    #[arg(long, value_name = "FILE")]
    known_hosts: PathBuf,
    /// RHCOS live image that coreos-installer customizes; without it, poolctl writes only the
    /// Ignition
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// Program that makes the image; with openshift-install, poolctl also runs `agent create
    /// unconfigured-ignition`, so that hosts accept a config image
    #[arg(long, value_enum, value_name = "PROGRAM", default_value = "coreos-installer")]
    with: Program,
    /// File to write; by default a file with a random name below isoDirectory of the Settings
    #[arg(long, value_name = "FILE", required_unless_present = "base")]
    out: Option<PathBuf>,
    /// URL from which management controllers download the image; without --out it is below isoURL
    /// of the Settings
    #[arg(long, value_name = "URL", requires = "out")]
    url: Option<String>,
    /// Container image that hosts try to pull as a test; may be repeated
    #[arg(long, value_name = "IMAGE")]
    image: Vec<String>,
    /// How long hosts can register with the image, such as 30d; by default without limit
    #[arg(long, value_name = "DURATION")]
    expires: Option<Span>,
}

impl RunCommand for Iso {
    const NAME: &'static str = "iso";
    const ABOUT: &'static str = "Make the discovery image of an InfraEnv, or only its Ignition";
    const EXAMPLE: &'static str = "\
poolctl infraenv iso rack --address poolctl@192.0.2.1 --key \"$HOME/hosts\" \\
  --known-hosts \"$HOME/known_hosts\" --out \"$HOME/rack.ign\"";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let infra_env = context.find::<InfraEnv>(&store, &self.name)?;
        self.check_arguments()?;
        let key = infra_env.key();
        let door = context.door(&store);
        let settings = door.read_settings()?;
        let (file, url) = self.choose_place(context, &settings, &key.name)?;
        if copies::is_file_of_state(store.path(), &file) {
            let problem = format!("`{}` belongs to the state", file.display());
            return Err(Refusal::conflict(problem).into());
        }
        self.check_files(&file)?;
        let configs = store.list_all::<NMStateConfig>()?;
        let image_hash = hash_image_sources(&infra_env, &configs);
        // Programs run in groups of their own: a signal does not end them with us.
        context.world.catch_signals();
        let (token, stored_token) =
            infraenv::create_token(context, &door, &key, self.expires, OtherTokens::Keep)?;
        let sources = ImageSources {
            context,
            store: &store,
            settings: &settings,
            infra_env: &infra_env,
            configs: &configs,
            token: &token,
            caught: Cell::new(None),
        };
        if let Err(error) = self.make_image(&sources, &file) {
            // An interruption says nothing about the image, and leaves no condition.
            let interrupted = sources.caught.get();
            if interrupted.is_none() {
                record_image(&door, &key, failed_condition(&error), |_, _| ())?;
            }
            infraenv::revoke_tokens(&door, &key, Some(&stored_token.id))?;
            return Err(match interrupted {
                Some(exit) => Refusal::new(exit, "interrupted").into(),
                None => error,
            });
        }
        record_image(&door, &key, self.made_condition(), |infra_env, tick| {
            let status = &mut infra_env.status;
            if status.image_hash != image_hash || status.iso_download_url != url {
                status.created_time = Some(tick.now);
            }
            status.image_hash = image_hash;
            status.iso_download_url.clone_from(&url);
            status.image_file = self.path_below_images(&settings, &file);
        })?;
        self.hint_next(context, &settings, &infra_env, &url);
        let until = stored_token.expires.map_or("for ever".into(), |end| format!("until {end}"));
        let product = if self.base.is_some() { "image" } else { "Ignition" };
        let result = format!(
            "{product} is in {}; hosts report to {} and are admitted {until} (token {})",
            file.display(),
            self.address,
            stored_token.id
        );
        context.report_change(Kind::InfraEnv, &key, &result)
    }
}

impl Iso {
    /// The file to write, and the URL from which controllers fetch it (empty if there is none).
    fn choose_place(
        &self,
        context: &Context,
        settings: &SettingsSpec,
        name: &str,
    ) -> anyhow::Result<(PathBuf, String)> {
        if let Some(out) = &self.out {
            return Ok((std::path::absolute(out)?, self.url.clone().unwrap_or_default()));
        }
        let (Some(folder), Some(base_url)) = (&settings.iso_directory, &settings.iso_url) else {
            let problem = "there is no place for the image";
            let why = "isoDirectory and isoURL of the Settings are not set, and --out is not given";
            let next = "poolctl explain settings.spec.isoDirectory";
            return Err(Refusal::usage(problem).because(why).next(next).into());
        };
        // The image has a token in it: its URL must not be guessed.
        let secret_folder = context.world.random_secret()?;
        let url = format!("{}/{secret_folder}/{name}.iso", base_url.trim_end_matches('/'));
        Ok((folder.join(secret_folder).join(format!("{name}.iso")), url))
    }

    /// The path of the image below isoDirectory; empty for an image or an Ignition elsewhere.
    fn path_below_images(&self, settings: &SettingsSpec, file: &Path) -> String {
        let Some(folder) = &settings.iso_directory else { return String::new() };
        match file.strip_prefix(folder) {
            Ok(path) if self.out.is_none() => path.display().to_string(),
            _ => String::new(),
        }
    }

    /// The condition of an InfraEnv whose image was made just now.
    fn made_condition(&self) -> Condition {
        // An Ignition alone is no image that a controller could boot from.
        let is_bootable = self.base.is_some() || self.url.is_some();
        let (status, reason, message) = if is_bootable {
            ("True", ConditionReason::ImageCreated, "Image has been created")
        } else {
            ("False", ConditionReason::ImageNotCreated, "Only the Ignition has been created")
        };
        Condition::new(IMAGE_CREATED, status, reason, message)
    }

    /// Tells what is left to do by hand. `former` is the InfraEnv with the image before this one.
    fn hint_next(&self, context: &Context, settings: &SettingsSpec, former: &InfraEnv, url: &str) {
        if self.base.is_none() && !former.spec.kernel_arguments.is_empty() {
            context
                .warn("an Ignition has no spec.kernelArguments; --base makes an image with them");
        }
        if self.out.is_some() {
            return;
        }
        context.hint(&format!("management controllers fetch the image from {url}"));
        if let Some(path) = images::find_image_file(settings, former) {
            // It stays: a machine that runs from an image dies with it.
            context.hint(&format!("the previous image is still in {}", path.display()));
        }
    }
}

/// The condition of an InfraEnv whose image could not be made: the error and its causes.
fn failed_condition(error: &anyhow::Error) -> Condition {
    let problem = match error.downcast_ref::<Refusal>() {
        Some(refusal) => {
            let mut sentences = vec![refusal.what.as_str()];
            sentences.extend(refusal.causes.iter().map(String::as_str));
            sentences.join(": ")
        }
        None => format!("{error:#}"),
    };
    let message = format!("Failed to create image: {problem}");
    Condition::new(IMAGE_CREATED, "False", ConditionReason::ImageCreationError, message)
}

impl Iso {
    /// Refuses arguments with which no machine would ever report.
    fn check_arguments(&self) -> anyhow::Result<()> {
        let (user, place) = self.split_address();
        let (host, port) = parse_place(place)?;
        if user.is_empty() || user.starts_with('-') || !user.chars().all(is_user_letter) {
            return Err(Refusal::usage(format!("--address: `{user}` is not a user name")).into());
        }
        infraenv::check_token_lifetime(self.expires)?;
        self.check_key()?;
        let problem = match ssh::match_known_hosts(&read_text(&self.known_hosts)?, &host, port) {
            KnownHostsMatch::NoHost => Some("has no host keys".to_owned()),
            KnownHostsMatch::OtherHosts => {
                Some(format!("has no key of {place}, so no host would report"))
            }
            KnownHostsMatch::Host => None,
        };
        if let Some(problem) = problem {
            let problem = format!("`{}` {problem}", self.known_hosts.display());
            return Err(Refusal::usage(problem).advise(command_to_scan(&host, port)).into());
        }
        if let Some(url) = &self.url
            && !url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
        {
            return Err(Refusal::usage(format!("--url `{url}` is not an http or https URL")).into());
        }
        Ok(())
    }

    /// The user and the `HOST[:PORT]` of the address.
    fn split_address(&self) -> (&str, &str) {
        self.address.split_once('@').unwrap_or(("poolctl", &self.address))
    }

    /// Refuses a file that is no private key, or whose passphrase no machine could type.
    fn check_key(&self) -> anyhow::Result<()> {
        let key = read_text(&self.key)?;
        let advice = "ssh-keygen -t ed25519 -N '' -f hosts";
        if !key.contains("PRIVATE KEY-----") {
            let problem = format!("`{}` is not a private key", self.key.display());
            return Err(Refusal::usage(problem).advise(advice).into());
        }
        if ssh::has_passphrase(&key) {
            let problem = format!("`{}` has a passphrase", self.key.display());
            let why = "hosts cannot type a passphrase, so none would report";
            return Err(Refusal::usage(problem).because(why).advise(advice).into());
        }
        Ok(())
    }

    /// Refuses files that cannot be read or written, before a program runs or a token exists.
    fn check_files(&self, file: &Path) -> Result<(), Refusal> {
        if let Some(base) = &self.base
            && !base.is_file()
        {
            let problem = format!("--base: there is no file `{}`", base.display());
            let advice = "coreos-installer download --format iso";
            return Err(Refusal::usage(problem).advise(advice));
        }
        if self.out.is_none() {
            return Ok(());
        }
        if file.is_dir() {
            let name = if self.base.is_some() { "rack.iso" } else { "rack.ign" };
            return Err(Refusal::usage(format!("--out: `{}` is a folder", file.display()))
                .advise(format!("--out {}", file.join(name).display())));
        }
        let folder = copies::parent_folder(file);
        if !folder.is_dir() {
            let folder = folder.display();
            let problem = format!("--out: there is no folder `{folder}`");
            return Err(Refusal::usage(problem).advise(format!("mkdir -p {folder}")));
        }
        Ok(())
    }
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("`{}` cannot be read", path.display()))
}

/// Host and port of `HOST[:PORT]`; a host with colons is in brackets if a port follows.
fn parse_place(place: &str) -> Result<(String, u16), Refusal> {
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port),
        _ => (place, "22"),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_host = !host.is_empty() && !host.starts_with('-') && host.chars().all(is_host_letter);
    match port.parse() {
        Ok(port) if is_host && port != 0 => Ok((host.to_owned(), port)),
        _ => Err(Refusal::usage(format!("--address `{place}` is not [USER@]HOST[:PORT]"))),
    }
}

fn is_user_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "._-".contains(letter)
}

fn is_host_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || ".-:_".contains(letter)
}

/// The command that prints the host keys of an address.
fn command_to_scan(host: &str, port: u16) -> String {
    let port_option = if port == 22 { String::new() } else { format!("-p {port} ") };
    format!("ssh-keyscan {port_option}{host}")
}

/// Whether the image of an InfraEnv is older than what it would be made of now.
pub fn is_image_stale(store: &Store, infra_env: &InfraEnv) -> Result<bool, Refusal> {
    let image_hash = &infra_env.status.image_hash;
    Ok(!image_hash.is_empty()
        && *image_hash != hash_image_sources(infra_env, &store.list_all::<NMStateConfig>()?))
}

/// Tells for each InfraEnv with a stale image how to make it again.
pub fn hint_stale_images(
    context: &Context,
    store: &Store,
    objects: &[Object],
) -> Result<(), Refusal> {
    for object in objects {
        let Object::InfraEnv(infra_env) = object else { continue };
        if is_image_stale(store, infra_env)? {
            let Key { name, namespace } = &infra_env.key();
            let command = command_to_make_image(name, &context.namespace_option(namespace));
            context.hint(&format!(
                "the image of infraenv/{name} is older than its spec or its NMStateConfigs: \
                 {command}"
            ));
        }
    }
    Ok(())
}

/// Records what became of an image: the condition, an event, and what `edit` changes.
fn record_image(
    door: &Door<'_>,
    infra_env_key: &Key,
    condition: Condition,
    edit: impl FnOnce(&mut InfraEnv, &Tick),
) -> Result<(), Refusal> {
    let needs = [NeededObject { kind: Kind::InfraEnv, key: infra_env_key.clone() }];
    door.change(&Scope::Pools(Vec::new()), &needs, |state, tick| {
        let Some(infra_env_id) = state.infra_envs.find(infra_env_key) else { return Ok(()) };
        let is_failed = condition.reason == ConditionReason::ImageCreationError;
        let (reason, message) = if is_failed {
            (EventReason::InfraEnvImageFailed, condition.message.clone())
        } else {
            (EventReason::ImageInfoUpdated, "Updated image information".into())
        };
        state.infra_envs.update(infra_env_id, |infra_env| {
            condition::set_condition_without_probe(
                &mut infra_env.status.conditions,
                condition,
                tick.now,
            );
            edit(infra_env, tick);
        });
        state.record_event(Event {
            time: tick.now,
            event_type: EventType::warning_if(is_failed),
            reason: reason.into(),
            kind: Kind::InfraEnv.name(),
            object: infra_env_key.clone(),
            actor: tick.actor.clone(),
            message,
            ..Event::default()
        });
        Ok(())
    })?;
    Ok(())
}
