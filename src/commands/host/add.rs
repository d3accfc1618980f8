//! `host add`: adds a machine as a BareMetalHost, with a Secret that has the credentials of its
//! management controller. It never asks the controller anything.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::edits::{PutMode, PutOutcome, put_object};
use crate::model::annotations::{AS_FOUND, PIN};
use crate::model::documents::{Secret, SecretValue};
use crate::model::host::{BareMetalHost, Bmc, BootMode, HostSpec, ROLE_ANNOTATION};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::{Object, Resource};
use crate::model::refusal::Refusal;
use crate::model::state::State;

use crate::reconcile::PassOutcome;
use crate::rules;
use crate::store::Store;

use crate::commands::scope::EditedObject;
use crate::commands::secret::read_secret_value;
use crate::commands::{Context, RunCommand, scope};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    Master,
    Worker,
}

/// Arguments of `host add`.
#[derive(Args)]
pub struct Add {
    /// Name of the host
    #[arg(value_name = "NAME")]
    name: String,
    /// Address of the management controller, such as ipmi://HOST or
    /// redfish-virtualmedia://HOST/redfish/v1/Systems/ID
    #[arg(long, value_name = "ADDRESS")]
    bmc: String,
    /// MAC address of the network interface that the host boots from
    #[arg(long, value_name = "MAC", default_value = "", hide_default_value = true)]
    mac: String,
    /// Secret with username and password of the management controller
    #[arg(long, value_name = "SECRET", conflicts_with = "user")]
    secret: Option<String>,
    /// User of the management controller; poolctl asks for the password
    #[arg(long, value_name = "USER", required_unless_present = "secret")]
    user: Option<String>,
    /// File with the password; - for stdin
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// PEM file with the CA certificate for the management controller
    #[arg(long, value_name = "FILE", requires = "user")]
    ca: Option<PathBuf>,
    /// SHA-256 of the only certificate to accept from the management controller
    #[arg(long, value_name = "SHA256")]
    pin: Option<String>,
    /// Accept any certificate of the management controller
    #[arg(long)]
    insecure: bool,
    /// Role of the host in its cluster
    #[arg(long, value_enum)]
    role: Option<Role>,
    /// Boot in legacy BIOS mode instead of UEFI
    #[arg(long)]
    legacy: bool,
    /// Power the host on or off; by default its power does not change
    #[arg(long, value_name = "true|false")]
    online: Option<bool>,
}

impl RunCommand for Add {
    const NAME: &'static str = "add";
    const ABOUT: &'static str = "Add a machine with a management controller";
    const EXAMPLE: &'static str = "\
poolctl host add node-9 --bmc ipmi://192.0.2.9 --mac 52:54:00:00:00:09 \\
  --secret bmc --no-reconcile";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let key = context.key(Kind::BareMetalHost, &self.name)?;
        let mut credentials = None;
        if let Some(user) = &self.user {
            let password = match &self.password_file {
                Some(path) => read_secret_value(path)?,
                None => {
                    context.ask_hidden(&format!("password of {user}: "), "--password-file -")?
                }
            };
            let ca_certificate = self.ca.as_deref().map(read_secret_value).transpose()?;
            credentials = Some(BmcCredentials { user: user.clone(), password, ca_certificate });
        }
        let new_host = NewHost::new(&key, self.make_host(&key), credentials);
        new_host.check(context)?;
        let store = context.open_or_create_state()?;
        let (outcomes, passed) = put_hosts(context, &store, vec![new_host], ExistingHosts::Refuse)?;
        let is_added = outcomes.contains(&PutOutcome::Created);
        let result = if is_added { "added" } else { "unchanged" };
        context.report_change(Kind::BareMetalHost, &key, result)?;
        Ok(context.report_pass(&passed)?)
    }
}

impl Add {
    fn make_host(&self, key: &Key) -> BareMetalHost {
        let mut annotations = BTreeMap::new();
        if let Some(role) = self.role {
            let word = match role {
                Role::Master => "master",
                Role::Worker => "worker",
            };
            annotations.insert(ROLE_ANNOTATION.to_owned(), word.to_owned());
        }
        if let Some(pin) = &self.pin {
            annotations.insert(PIN.to_owned(), pin.clone());
        }
        if self.online.is_none() {
            annotations.insert(AS_FOUND.to_owned(), "true".to_owned());
        }
        let credentials_name =
            self.secret.clone().unwrap_or_else(|| credentials_secret_name(&key.name));
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

/// The name of the Secret of a host whose credentials are given with it.
pub fn credentials_secret_name(host: &str) -> String {
    format!("{host}-bmc-secret")
}

/// What a management controller is asked with.
pub struct BmcCredentials {
    pub user: String,
    pub password: SecretValue,
    /// The certificate authority of the controller, in PEM.
    pub ca_certificate: Option<SecretValue>,
}

/// A host to be put into the state, and the Secret that comes with it.
pub struct NewHost {
    pub host: BareMetalHost,
    secret: Option<Secret>,
}

impl NewHost {
    /// A host with the credentials that are kept in a Secret of its own. Without credentials, the
    /// host names a Secret that exists.
    pub fn new(key: &Key, host: BareMetalHost, credentials: Option<BmcCredentials>) -> Self {
        let secret = credentials.map(|credentials| {
            let mut values = BTreeMap::from([
                ("username".to_owned(), SecretValue::new(credentials.user)),
                ("password".to_owned(), credentials.password),
            ]);
            let certificate = credentials.ca_certificate;
            values.extend(certificate.map(|certificate| ("ca.crt".to_owned(), certificate)));
            let metadata = Meta {
                name: credentials_secret_name(&key.name),
                namespace: key.namespace.clone(),
                ..Meta::default()
            };
            let string_data = Some(values);
            Secret { metadata, kind: "Opaque".into(), string_data, ..Secret::default() }
        });
        Self { host, secret }
    }

    fn into_objects(self) -> Vec<Object> {
        let secret = self.secret.map(Resource::into_object);
        secret.into_iter().chain([Object::BareMetalHost(Box::new(self.host))]).collect()
    }

    /// Refuses a host that breaks a rule, and warns about what is probably a mistake.
    pub fn check(&self, context: &Context) -> Result<(), Refusal> {
        let host = Object::BareMetalHost(Box::new(self.host.clone()));
        rules::check_object(&host)?;
        for warning in rules::object_warnings(&host) {
            context.warn(&warning);
        }
        Ok(())
    }
}

/// The spec of a host that exists already, with what is given now; empty fields stay as they are.
fn merge_spec(existing: &HostSpec, given: &HostSpec) -> HostSpec {
    let mut spec = existing.clone();
    spec.online = given.online;
    spec.bmc.clone_from(&given.bmc);
    spec.boot_mode = given.boot_mode.or(existing.boot_mode);
    if !given.boot_mac_address.is_empty() {
        spec.boot_mac_address.clone_from(&given.boot_mac_address);
    }
    if !given.description.is_empty() {
        spec.description.clone_from(&given.description);
    }
    spec
}

/// What is done with hosts, and Secrets of them, that exist before they are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingHosts {
    Refuse,
    Change,
}

/// Puts hosts into the state with their Secrets, all or none. Returns the outcome for each host, in
/// their order, and that of the pass.
pub fn put_hosts(
    context: &Context,
    store: &Store,
    new_hosts: Vec<NewHost>,
    existing_hosts: ExistingHosts,
) -> Result<(Vec<PutOutcome>, PassOutcome), Refusal> {
    let objects: Vec<Object> = new_hosts.into_iter().flat_map(NewHost::into_objects).collect();
    let edited: Vec<EditedObject> = objects.iter().map(EditedObject::from_object).collect();
    let scope = scope::scope_of(store, &edited)?;
    context.door(store).change(&scope, &scope::needs_of(&edited), |state, tick| {
        let mut outcomes = Vec::new();
        for mut object in objects {
            if existing_hosts == ExistingHosts::Refuse {
                refuse_existing(state, &object)?;
            }
            if let Object::BareMetalHost(host) = &mut object
                && let Some(existing) = state.hosts.by_key(&host.key())
            {
                host.spec = merge_spec(&existing.spec, &host.spec);
            }
            let is_host = object.kind() == Kind::BareMetalHost;
            let outcome = put_object(state, object, PutMode::Apply, tick)?;
            if is_host {
                outcomes.push(outcome);
            }
        }
        Ok(outcomes)
    })
}

/// Refuses a host or a Secret that exists: what a person adds must not replace somebody else's.
fn refuse_existing(state: &State, object: &Object) -> Result<(), Refusal> {
    let key = object.key();
    let name = &key.name;
    match object.kind() {
        Kind::BareMetalHost if state.hosts.find(&key).is_some() => {
            Err(Refusal::conflict(format!("there is a host `{name}` already"))
                .next(format!("poolctl edit host {name}")))
        }
        Kind::Secret if state.secrets.find(&key).is_some() => {
            Err(Refusal::conflict(format!("there is a secret `{name}` already"))
                .advise(format!("use it with --secret {name}, or delete it first")))
        }
        _ => Ok(()),
    }
}
