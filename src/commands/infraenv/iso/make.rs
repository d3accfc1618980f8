//! Makes a discovery image: collects what it is made of, and runs the programs that make it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::drivers::discovery::{
    COREOS_INSTALLER, DiscoveryImage, OPENSHIFT_INSTALL, UnconfiguredIgnition,
};
use crate::drivers::{image_folder, programs, site};
use crate::model::documents::{SecretValue, SettingsSpec};
use crate::model::infra_env::InfraEnv;
use crate::model::meta::{Key, Meta};
use crate::model::nmstate_config::NMStateConfig;
use crate::model::refusal::{Exit, Refusal};
use crate::render::discovery::{
    Discovery, complete_infra_env, kernel_arguments, render_ignition, render_manifests,
};
use crate::render::redact;
use crate::store::Store;
use crate::store::copies::{self, ExistingFile};

use crate::commands::infraenv::iso::{Context, Iso, Program, parse_place, read_text};

/// Key of a pull secret.
const PULL_SECRET_KEY: &str = ".dockerconfigjson";
const EXPLAIN_PROGRAMS: &str = "poolctl explain settings.spec.programs";

/// What an image is made of, beside what the command line gives.
pub struct ImageSources<'a> {
    pub context: &'a Context,
    pub store: &'a Store,
    pub settings: &'a SettingsSpec,
    pub infra_env: &'a InfraEnv,
    pub configs: &'a [NMStateConfig],
    pub token: &'a str,
    /// The exit code of the signal that has ended a program, if one has.
    pub caught: Cell<Option<Exit>>,
}

impl Iso {
    /// Writes the image, or its Ignition if there is no base image.
    pub(super) fn make_image(&self, sources: &ImageSources<'_>, out: &Path) -> anyhow::Result<()> {
        let ignition = self.make_ignition(sources)?;
        let Some(base_image) = &self.base else {
            return Ok(copies::write_private_file(
                out,
                ignition.as_bytes(),
                ExistingFile::Replace,
            )?);
        };
        let program = sources.find_program(COREOS_INSTALLER)?;
        let work_folder = tempfile::tempdir()?;
        let ignition_file = work_folder.path().join("discovery.ign");
        copies::write_private_file(&ignition_file, ignition.as_bytes(), ExistingFile::Keep)?;
        let build = DiscoveryImage {
            program: &program,
            base_iso: &std::path::absolute(base_image)?,
            ignition: &ignition_file,
            kernel_arguments: &kernel_arguments(sources.infra_env),
            output_path: out,
        };
        // Below isoDirectory every image has a folder of its own.
        let own_folder = if self.out.is_none() { Some(copies::parent_folder(out)) } else { None };
        if let Some(folder) = own_folder {
            image_folder::create_image_folder(folder)
                .map_err(|error| Refusal::unwritable(folder, &error))?;
        }
        if let Err(why) = build.make(|| sources.is_interrupted()) {
            if let Some(folder) = own_folder {
                // Only an empty folder is removed.
                drop(std::fs::remove_dir(folder));
            }
            let base_image = base_image.display();
            return Err(Refusal::invalid("the image was not made")
                .because(why)
                .advise(format!("{COREOS_INSTALLER} iso ignition show {base_image}"))
                .into());
        }
        Ok(())
    }

    /// The Ignition of the image, as JSON.
    fn make_ignition(&self, sources: &ImageSources<'_>) -> anyhow::Result<String> {
        let pull_secret = sources.pull_secret()?;
        let base = match self.with {
            Program::CoreosInstaller => String::new(),
            Program::OpenshiftInstall => sources.unconfigured_ignition(pull_secret.reveal())?,
        };
        let discovery = Discovery {
            infra_env: &sources.infra_env_in_site(),
            configs: sources.configs,
            pull_secret: Some(pull_secret.reveal()),
            config: self.agent_config(sources.token)?,
            base: &base,
            mirrors: &sources.mirrors(),
        };
        let document = render_ignition(&discovery).map_err(|why| sources.refuse_ignition(&why))?;
        Ok(document.to_string())
    }

    /// The configuration of the agent on the hosts: where it reports, and with what.
    fn agent_config(&self, token: &str) -> anyhow::Result<Value> {
        let (user, place) = self.split_address();
        let (host, port) = parse_place(place)?;
        Ok(json!({
            "token": token, "address": host, "port": port, "user": user,
            "key": read_text(&self.key)?, "knownHosts": read_text(&self.known_hosts)?,
            "images": self.image,
        }))
    }
}

impl ImageSources<'_> {
    fn pull_secret(&self) -> Result<SecretValue, Refusal> {
        let name = &*self.infra_env.spec.pull_secret_ref.name;
        let secret = Key::new(&*self.infra_env.metadata.namespace, name);
        self.store.read_secret_value(&secret, PULL_SECRET_KEY)?.ok_or_else(|| {
            Refusal::not_found(format!("secret `{name}` has no {PULL_SECRET_KEY}"))
                .next(format!("poolctl secret create {name} --from-file={PULL_SECRET_KEY}=FILE"))
        })
    }

    /// The `InfraEnv` with what the Settings say of the site.
    fn infra_env_in_site(&self) -> InfraEnv {
        match &self.settings.site {
            Some(site) => complete_infra_env(self.infra_env, site),
            None => self.infra_env.clone(),
        }
    }

    /// The mirrors of the site.
    fn mirrors(&self) -> BTreeMap<String, Vec<String>> {
        self.settings.site.as_ref().map(|site| site.mirrors.clone()).unwrap_or_default()
    }

    /// How programs reach the world; empty for a site that the Settings say nothing of.
    fn site_environment(&self) -> Result<BTreeMap<String, String>, Refusal> {
        let Some(site) = &self.settings.site else { return Ok(BTreeMap::new()) };
        let cache = match &site.cache_directory {
            Some(directory) => directory.clone(),
            None => copies::folder_beside(self.store.path(), "cache"),
        };
        site::environment_in_site(site, &cache).map_err(Refusal::invalid)
    }

    fn find_program(&self, name: &str) -> Result<PathBuf, Refusal> {
        programs::find_program(self.settings, name)
            .map_err(|why| Refusal::invalid(why).next(EXPLAIN_PROGRAMS))
    }

    /// What `openshift-install agent create unconfigured-ignition` makes.
    fn unconfigured_ignition(&self, pull_secret: &str) -> Result<String, Refusal> {
        let program = self.find_program(OPENSHIFT_INSTALL)?;
        // Its messages are shown, and must not show these.
        let mut secrets = redact::secrets_of_credentials(pull_secret);
        let infra_env = self.infra_env_in_site();
        if let Some(proxy) = &infra_env.spec.proxy {
            for url in [&proxy.http_proxy, &proxy.https_proxy] {
                secrets.extend(redact::secrets_of_variable("PROXY", url));
            }
        }
        let run = UnconfiguredIgnition {
            program: &program,
            manifests: &render_manifests(&infra_env, pull_secret, &self.mirrors()),
            secrets: &secrets,
            environment: &self.site_environment()?,
        };
        run.make(|| self.is_interrupted()).map_err(|why| {
            let Meta { name, namespace, .. } = &self.infra_env.metadata;
            let namespace_option = self.context.namespace_option(namespace);
            Refusal::invalid("the Ignition was not begun")
                .because(why)
                .advise(format!("poolctl get infraenv {name} -o yaml{namespace_option}"))
        })
    }

    fn refuse_ignition(&self, why: &str) -> Refusal {
        let Meta { name, namespace, .. } = &self.infra_env.metadata;
        let namespace_option = self.context.namespace_option(namespace);
        Refusal::invalid("the Ignition was not made")
            .because(why)
            .advise(format!("poolctl edit infraenv {name}{namespace_option}"))
    }

    /// Whether a signal has asked to end; it is remembered in `caught`.
    fn is_interrupted(&self) -> bool {
        let caught = self.context.world.take_signal();
        self.caught.set(caught.map(|caught| Exit::by_signal(caught.signal)).or(self.caught.get()));
        self.caught.get().is_some()
    }
}
