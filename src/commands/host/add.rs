//! `host add`: a machine and what opens its management controller.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::edits::{Verdict, put};
use crate::model::documents::{Secret, SecretValue};
use crate::model::host::{AS_FOUND, BareMetalHost, Bmc, BootMode, HostSpec, PIN, ROLE};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::{Object, Resource};
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::model::tick::Tick;
use crate::reconcile::Passed;
use crate::rules;
use crate::store::Store;

use crate::commands::secret::content;
use crate::commands::{Context, Verb, scope};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    Master,
    Worker,
}

#[derive(Args)]
pub struct Add {
    /// Name of the host
    #[arg(value_name = "NAME")]
    name: String,
    /// ipmi://HOST, redfish-virtualmedia://HOST/redfish/v1/Systems/ID, ...
    #[arg(long, value_name = "ADDRESS")]
    bmc: String,
    /// MAC address of the interface that it boots from
    #[arg(long, value_name = "MAC", default_value = "", hide_default_value = true)]
    mac: String,
    /// Secret with username and password
    #[arg(long, value_name = "SECRET", conflicts_with = "user")]
    secret: Option<String>,
    /// User of the management controller; its password is asked for
    #[arg(long, value_name = "USER", required_unless_present = "secret")]
    user: Option<String>,
    /// File with the password, - for stdin
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// PEM file of who may sign its certificate
    #[arg(long, value_name = "FILE", requires = "user")]
    ca: Option<PathBuf>,
    /// SHA-256 of its certificate
    #[arg(long, value_name = "SHA256")]
    pin: Option<String>,
    /// Take any certificate
    #[arg(long)]
    insecure: bool,
    /// What it is in its cluster
    #[arg(long, value_enum)]
    role: Option<Role>,
    /// Boots by BIOS, not by UEFI
    #[arg(long)]
    legacy: bool,
    /// Whether it is to be on; without it, as it is found
    #[arg(long, value_name = "true|false")]
    online: Option<bool>,
}

impl Verb for Add {
    const NAME: &'static str = "add";
    const ABOUT: &'static str = "Add a machine with a management controller";
    const EXAMPLE: &'static str = "poolctl host add node-9 --bmc ipmi://127.0.0.1:9 \
                                   --mac 52:54:00:00:00:09 --secret bmc --no-reconcile";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let key = context.key(Kind::BareMetalHost, &self.name)?;
        let mut made = Made::new(&key, self.host(&key), None);
        if let Some(user) = &self.user {
            let password = match &self.password_file {
                Some(path) => content(path)?,
                None => {
                    context.ask_hidden(&format!("password of {user}: "), "--password-file -")?
                }
            };
            let ca = self.ca.as_deref().map(content).transpose()?;
            made = Made::new(&key, made.host, Some((user, password, ca)));
        }
        made.check(context)?;
        let store = context.open()?;
        let (verdicts, passed) = put_all(context, &store, vec![made], true)?;
        let done = if verdicts.contains(&Verdict::Created) { "added" } else { "unchanged" };
        context.changed(Kind::BareMetalHost, &key, done)?;
        Ok(context.finish(&passed)?)
    }
}

impl Add {
    fn host(&self, key: &Key) -> BareMetalHost {
        let mut annotations = BTreeMap::new();
        let role = self.role.map(|role| match role {
            Role::Master => "master".to_owned(),
            Role::Worker => "worker".to_owned(),
        });
        annotations.extend(role.map(|role| (ROLE.to_owned(), role)));
        annotations.extend(self.pin.clone().map(|pin| (PIN.to_owned(), pin)));
        let found = self.online.is_none().then(|| (AS_FOUND.to_owned(), "true".to_owned()));
        annotations.extend(found);
        let credentials_name = self.secret.clone().unwrap_or_else(|| secret_of(&key.name));
        BareMetalHost {
            metadata: Meta {
                name: key.name.clone(),
                namespace: key.namespace.clone(),
                annotations,
                ..Meta::default()
            },
            spec: HostSpec {
                online: self.online.unwrap_or_default(),
                boot_mac_address: self.mac.clone(),
                boot_mode: self.legacy.then_some(BootMode::Legacy),
                bmc: Some(Bmc {
                    address: self.bmc.clone(),
                    credentials_name,
                    disable_certificate_verification: self.insecure,
                }),
                ..HostSpec::default()
            },
            ..BareMetalHost::default()
        }
    }
}

/// The Secret of a host whose credentials are given with it.
pub fn secret_of(host: &str) -> String {
    format!("{host}-bmc-secret")
}

/// A host, and the Secret that comes with it.
pub struct Made {
    pub host: BareMetalHost,
    secret: Option<Secret>,
}

impl Made {
    pub fn new(
        key: &Key,
        host: BareMetalHost,
        credentials: Option<(&str, SecretValue, Option<SecretValue>)>,
    ) -> Self {
        let secret = credentials.map(|(user, password, ca)| {
            let mut values = BTreeMap::from([
                ("username".to_owned(), SecretValue::new(user)),
                ("password".to_owned(), password),
            ]);
            values.extend(ca.map(|ca| ("ca.crt".to_owned(), ca)));
            let metadata = Meta {
                name: secret_of(&key.name),
                namespace: key.namespace.clone(),
                ..Meta::default()
            };
            let (kind, string_data) = ("Opaque".into(), Some(values));
            Secret { metadata, kind, string_data, ..Secret::default() }
        });
        Self { host, secret }
    }

    fn objects(self) -> Vec<Object> {
        let secret = self.secret.map(Resource::into_object);
        secret.into_iter().chain([Object::BareMetalHost(Box::new(self.host))]).collect()
    }

    /// Refuses what cannot be meant, and says what is worth a word.
    pub fn check(&self, context: &Context) -> Result<(), Refusal> {
        let host = Object::BareMetalHost(Box::new(self.host.clone()));
        rules::check(&host)?;
        for warning in rules::warnings(&host) {
            context.warn(&warning);
        }
        Ok(())
    }
}

/// What is said of a host that is there already; what is not said stays.
fn over(known: &HostSpec, new: &HostSpec) -> HostSpec {
    let text = |new: &str, known: &str| if new.is_empty() { known } else { new }.to_owned();
    HostSpec {
        online: new.online,
        bmc: new.bmc.clone(),
        boot_mac_address: text(&new.boot_mac_address, &known.boot_mac_address),
        boot_mode: new.boot_mode.or(known.boot_mode),
        description: text(&new.description, &known.description),
        ..known.clone()
    }
}

/// Puts hosts in with their Secrets, all or none.
pub fn put_all(
    context: &Context,
    store: &Store,
    all: Vec<Made>,
    new: bool,
) -> Result<(Vec<Verdict>, Passed), Refusal> {
    let objects: Vec<Object> = all.into_iter().flat_map(Made::objects).collect();
    let what: Vec<_> = objects.iter().map(|one| (one.kind(), one.key(), None)).collect();
    let scope = scope::scope_of(store, &what)?;
    context.door(store).change(&scope, &scope::needs_of(&what), |state: &mut State, tick: &Tick| {
        let mut verdicts = Vec::new();
        for mut object in objects {
            let key = object.key();
            if let Object::BareMetalHost(one) = &mut object
                && let Some(known) = state.hosts.by_key(&key)
            {
                one.spec = over(&known.spec, &one.spec);
            }
            if new && object.kind() == Kind::BareMetalHost && state.hosts.find(&key).is_some() {
                return Err(Refusal::conflict(format!("there is a host `{}` already", key.name))
                    .next(format!("poolctl edit host {}", key.name)));
            }
            if new && object.kind() == Kind::Secret && state.secrets.find(&key).is_some() {
                return Err(Refusal::conflict(format!("there is a secret `{}` already", key.name))
                    .advise(format!("--secret {} uses it; else delete it first", key.name)));
            }
            let is_host = object.kind() == Kind::BareMetalHost;
            let verdict = put(state, object, true, tick)?;
            verdicts.extend(is_host.then_some(verdict));
        }
        Ok(verdicts)
    })
}
