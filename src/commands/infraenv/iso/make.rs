//! What a discovery image is made of, and the programs that make it.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::drivers::discovery::{Build, COREOS_INSTALLER, OPENSHIFT_INSTALL, Unconfigured};
use crate::drivers::{programs, shelf};
use crate::model::documents::{SecretValue, SettingsSpec};
use crate::model::infra_env::InfraEnv;
use crate::model::meta::{Key, Meta};
use crate::model::nmstate_config::NMStateConfig;
use crate::model::refusal::{Exit, Refusal};
use crate::render::discovery::{Discovery, ignition, kernel_arguments, manifests};
use crate::render::redact;
use crate::store::{Store, copies};

use crate::commands::infraenv::iso::{Context, Iso, With, place_of, text};

const PULL: &str = ".dockerconfigjson";
const PROGRAMS: &str = "poolctl explain settings.spec.programs";

/// What an image is made of, beside what is said on the command line.
pub struct Parts<'a> {
    pub context: &'a Context,
    pub store: &'a Store,
    pub settings: &'a SettingsSpec,
    pub infra_env: &'a InfraEnv,
    pub configs: &'a [NMStateConfig],
    pub token: &'a str,
    /// Whether somebody wants it to end.
    pub caught: Cell<Option<Exit>>,
}

impl Iso {
    /// Writes the image, or its Ignition without a base.
    pub(super) fn make(&self, parts: &Parts<'_>, out: &Path) -> anyhow::Result<()> {
        let pull = parts.pull_secret()?;
        let base = match self.with {
            With::CoreosInstaller => String::new(),
            With::OpenshiftInstall => parts.unconfigured(pull.reveal())?,
        };
        let all = Discovery {
            infra_env: parts.infra_env,
            configs: parts.configs,
            pull_secret: Some(pull.reveal()),
            config: self.config(parts.token)?,
            base: &base,
        };
        let document = ignition(&all).map_err(|why| parts.no_ignition(&why))?.to_string();
        let Some(base) = &self.base else {
            return Ok(copies::place(out, document.as_bytes(), true)?);
        };
        let program = parts.program(COREOS_INSTALLER)?;
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("discovery.ign");
        copies::place(&file, document.as_bytes(), false)?;
        let build = Build {
            program: &program,
            base_iso: &std::path::absolute(base)?,
            ignition: &file,
            kargs: &kernel_arguments(parts.infra_env),
            out,
        };
        let own = self.out.is_none().then(|| copies::parent(out));
        if let Some(own) = own {
            shelf::folder(own).map_err(|error| Refusal::unwritable(own, &error))?;
        }
        let made = build.run(|| parts.interrupted());
        if let (Some(own), Err(_)) = (own, &made) {
            // Nothing is in it.
            drop(std::fs::remove_dir(own));
        }
        let failed = |why: String| {
            let look = format!("{COREOS_INSTALLER} iso ignition show {}", base.display());
            Refusal::invalid("the image was not made").because(why).advise(look)
        };
        Ok(made.map_err(failed)?)
    }

    /// What the agent on the hosts is told.
    fn config(&self, token: &str) -> anyhow::Result<Value> {
        let (user, place) = self.address.split_once('@').unwrap_or(("poolctl", &self.address));
        let (host, port) = place_of(place)?;
        Ok(json!({
            "token": token, "address": host, "port": port, "user": user,
            "key": text(&self.key)?, "knownHosts": text(&self.known_hosts)?,
            "images": self.image,
        }))
    }
}

impl Parts<'_> {
    fn pull_secret(&self) -> Result<SecretValue, Refusal> {
        let name = &*self.infra_env.spec.pull_secret_ref.name;
        let secret = Key::new(&*self.infra_env.metadata.namespace, name);
        self.store.secret_value(&secret, PULL)?.ok_or_else(|| {
            Refusal::not_found(format!("secret `{name}` has no {PULL}"))
                .next(format!("poolctl secret create {name} --from-file={PULL}=FILE"))
        })
    }

    fn program(&self, name: &str) -> Result<PathBuf, Refusal> {
        programs::find(self.settings, name).map_err(|why| Refusal::invalid(why).next(PROGRAMS))
    }

    /// The Ignition of openshift-install.
    fn unconfigured(&self, pull_secret: &str) -> Result<String, Refusal> {
        let program = self.program(OPENSHIFT_INSTALL)?;
        let mut secrets = redact::secrets_in(pull_secret, true);
        let proxy = self.infra_env.spec.proxy.iter();
        let urls = proxy.flat_map(|one| [&one.http_proxy, &one.https_proxy]);
        secrets.extend(urls.flat_map(|url| redact::secrets_of_variable("PROXY", url)));
        let manifests = manifests(self.infra_env, pull_secret);
        let made = Unconfigured { program: &program, manifests: &manifests, secrets: &secrets }
            .run(|| self.interrupted());
        made.map_err(|why| {
            let Meta { name, namespace, .. } = &self.infra_env.metadata;
            let at = self.context.in_namespace(namespace);
            Refusal::invalid("the Ignition was not begun")
                .because(why)
                .advise(format!("poolctl get infraenv {name} -o yaml{at}"))
        })
    }

    fn no_ignition(&self, why: &str) -> Refusal {
        let Meta { name, namespace, .. } = &self.infra_env.metadata;
        let at = self.context.in_namespace(namespace);
        Refusal::invalid("the Ignition was not made")
            .because(why)
            .advise(format!("poolctl edit infraenv {name}{at}"))
    }

    fn interrupted(&self) -> bool {
        let caught = self.context.world.interrupted();
        self.caught.set(caught.map(|caught| Exit::by_signal(caught.signal)).or(self.caught.get()));
        self.caught.get().is_some()
    }
}
