//! The options of `pool create` that say where clusters are made, and as whom. Each is a field of a
//! platform; a platform without that field refuses it.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::model::platform::{Platform, platform_names};
use crate::model::refusal::Refusal;

use crate::commands::suggest;

/// The options that set the fields of platforms.
const OPTIONS_OF_FIELDS: [(&str, &str); 10] = [
    ("credentialsSecretRef", "--credentials"),
    ("certificatesSecretRef", "--certificates"),
    ("vCenter", "--vcenter"),
    ("datacenter", "--datacenter"),
    ("defaultDatastore", "--datastore"),
    ("cluster", "--compute-cluster"),
    ("network", "--network"),
    ("folder", "--folder"),
    ("cloud", "--cloud"),
    ("region", "--region"),
];

/// The option that sets a field of a pool, such as `spec.platform.vsphere.vCenter`; none if it is no
/// field of a platform, or one without an option.
pub fn option_of_field(field: &str) -> Option<&'static str> {
    let of_platform = field.strip_prefix("spec.platform.")?;
    let name = of_platform.split('.').nth(1)?;
    OPTIONS_OF_FIELDS.iter().find(|(field, _)| *field == name).map(|(_, option)| *option)
}

/// The options of `pool create` that are about a platform. Which of them must be given follows from
/// the platform.
#[derive(Args)]
pub struct PlatformOptions {
    /// Platform of the clusters: openstack, vsphere, agentBareMetal, ...
    #[arg(long, required_unless_present = "fake", value_name = "PLATFORM")]
    platform: Option<String>,
    /// Secret with the credentials of the platform
    #[arg(long, value_name = "SECRET")]
    credentials: Option<String>,
    /// Secret with the CA certificates of the platform's API
    #[arg(long, value_name = "SECRET")]
    certificates: Option<String>,
    /// vSphere: name or address of the vCenter
    #[arg(long, value_name = "HOST")]
    vcenter: Option<String>,
    /// vSphere: datacenter
    #[arg(long, value_name = "NAME")]
    datacenter: Option<String>,
    /// vSphere: datastore for volumes
    #[arg(long, value_name = "NAME")]
    datastore: Option<String>,
    /// vSphere: cluster of ESXi hosts for the machines
    #[arg(long, value_name = "NAME")]
    compute_cluster: Option<String>,
    /// vSphere: network of the machines
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    /// vSphere: folder for the machines
    #[arg(long, value_name = "PATH")]
    folder: Option<String>,
    /// OpenStack: name of the entry in clouds.yaml
    #[arg(long, value_name = "NAME")]
    cloud: Option<String>,
    /// AWS, Azure, GCP and IBM Cloud: region to install in
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// agentBareMetal: label of the Agents that clusters are made of; may be repeated
    #[arg(long, value_name = "LABEL=VALUE")]
    agent_selector: Vec<String>,
}

impl PlatformOptions {
    /// The platform that the options describe. It may still lack fields, which admission refuses.
    pub fn platform(&self) -> Result<Platform, Refusal> {
        let name = self.platform.as_deref().unwrap_or("none");
        if Platform::named(name).is_none() {
            let cause = suggest(name, platform_names())
                .unwrap_or_else(|| format!("the platforms are {}", platform_names().join(", ")));
            return Err(Refusal::usage(format!("there is no platform `{name}`")).because(cause));
        }
        let fields = self.fields()?;
        serde_json::from_value(json!({ name: fields })).map_err(|error| {
            Refusal::usage(format!("an option is not one of platform `{name}`"))
                .because(error.to_string())
                .advise(format!("poolctl explain pool.spec.platform.{name}"))
        })
    }

    /// What the options set, by the names that the fields have in manifests.
    fn fields(&self) -> Result<Map<String, Value>, Refusal> {
        let mut fields = Map::new();
        for (field, secret) in [
            ("credentialsSecretRef", &self.credentials),
            ("certificatesSecretRef", &self.certificates),
        ] {
            if let Some(secret) = secret {
                fields.insert(field.into(), json!({ "name": secret }));
            }
        }
        for (field, value) in [
            ("vCenter", &self.vcenter),
            ("datacenter", &self.datacenter),
            ("defaultDatastore", &self.datastore),
            ("cluster", &self.compute_cluster),
            ("network", &self.network),
            ("folder", &self.folder),
            ("cloud", &self.cloud),
            ("region", &self.region),
        ] {
            if let Some(value) = value {
                fields.insert(field.into(), value.as_str().into());
            }
        }
        if !self.agent_selector.is_empty() {
            let labels = self.selected_labels()?;
            fields.insert("agentSelector".into(), json!({ "matchLabels": labels }));
        }
        Ok(fields)
    }

    fn selected_labels(&self) -> Result<Map<String, Value>, Refusal> {
        let mut labels = Map::new();
        for pair in &self.agent_selector {
            let Some((label, value)) = pair.split_once('=') else {
                return Err(Refusal::usage(format!("`{pair}` is not LABEL=VALUE"))
                    .advise("--agent-selector rack=7"));
            };
            labels.insert(label.to_owned(), value.into());
        }
        Ok(labels)
    }
}
