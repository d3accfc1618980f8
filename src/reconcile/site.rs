//! What the drivers of a job are told of the site: of its Settings and of the Secrets that those
//! name. What may be secret becomes files of the job. Never changes the state.

use std::collections::BTreeMap;

use crate::drivers::programs;
use crate::model::deployment::ClusterDeployment;
use crate::model::documents::{SecretValue, SettingsSpec};
use crate::model::meta::Key;
use crate::model::order::SiteOrder;
use crate::model::pull_secret::merge_pull_secrets;
use crate::model::refusal::Refusal;
use crate::store::copies;

use super::Door;
use super::order::Inputs;

/// The input with the pull secret, and its key in a Secret.
const PULL_SECRET: &str = "pull-secret.json";
const PULL_SECRET_KEY: &str = ".dockerconfigjson";

impl Door<'_> {
    /// What is not secret of the site. Why installers cannot be used is added to `missing`, by the
    /// version or the digest that they are listed under.
    pub(super) fn describe_site(
        &self,
        settings: &SettingsSpec,
        missing: &mut BTreeMap<String, String>,
    ) -> SiteOrder {
        let site = settings.site.clone().unwrap_or_default();
        let mut installers = BTreeMap::new();
        for (key, path) in site.installers {
            match programs::check_listed_program(&path) {
                Ok(()) => drop(installers.insert(key, path)),
                Err(why) => drop(missing.insert(key, why)),
            }
        }
        let cache_directory = site
            .cache_directory
            .unwrap_or_else(|| copies::folder_beside(self.store.path(), "cache"));
        SiteOrder { mirrors: site.mirrors, cache_directory, installers }
    }

    /// The files of the site: its proxies and the certificates that programs trust.
    pub(super) fn read_site_inputs(&self, settings: &SettingsSpec) -> Result<Inputs, Refusal> {
        let mut inputs = Inputs::new();
        let Some(site) = &settings.site else { return Ok(inputs) };
        if let Some(proxy) = &site.proxy {
            let json = serde_json::to_string(proxy)
                .map_err(|error| Refusal::invalid(format!("spec.site.proxy: {error}")))?;
            inputs.push(("site/proxy.json".into(), SecretValue::new(json)));
        }
        if !site.trust_bundle.is_empty() {
            inputs.push(("site/trust.pem".into(), SecretValue::new(&*site.trust_bundle)));
        }
        for reference in &site.additional_certificate_authorities {
            self.add_certificates(&reference.key(), "site/authorities", &mut inputs)?;
        }
        Ok(inputs)
    }

    /// The certificates that the platform of a cluster names.
    pub(super) fn read_platform_certificates(
        &self,
        wire: &ClusterDeployment,
    ) -> Result<Inputs, Refusal> {
        let mut inputs = Inputs::new();
        if let Some(name) = wire.spec.platform.certificates() {
            let secret = Key::new(&*wire.metadata.namespace, name);
            self.add_certificates(&secret, "certificates", &mut inputs)?;
        }
        Ok(inputs)
    }

    /// Adds every value of a Secret as a numbered file of a folder. Its keys may begin with a dot.
    fn add_certificates(
        &self,
        secret: &Key,
        folder: &str,
        inputs: &mut Inputs,
    ) -> Result<(), Refusal> {
        for key in self.store.list_secret_keys(secret)? {
            if let Some(value) = self.store.read_secret_value(secret, &key)? {
                let number = inputs.len();
                inputs.push((format!("{folder}/{number}.pem"), value));
            }
        }
        Ok(())
    }

    /// Adds the logins of the site to the pull secret among the inputs of a cluster.
    pub(super) fn add_site_pull_secret(
        &self,
        settings: &SettingsSpec,
        inputs: &mut Inputs,
    ) -> Result<(), Refusal> {
        let site = settings.site.as_ref();
        let Some(reference) = site.and_then(|site| site.pull_secret_ref.as_ref()) else {
            return Ok(());
        };
        let pull_secret = self.store.read_secret_value(&reference.key(), PULL_SECRET_KEY)?;
        let Some(of_site) = pull_secret else { return Ok(()) };
        let position = inputs.iter().position(|(name, _)| name == PULL_SECRET);
        let own = position.map(|position| inputs.remove(position).1);
        inputs.push((PULL_SECRET.to_owned(), merge_pull_secrets(own, of_site)));
        Ok(())
    }
}
