//! The platforms of `spec.platform`, with the fields upstream knows.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::meta::LocalRef;

/// Exactly one is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Platform {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_bare_metal: Option<AgentBareMetal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<Cloud>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure: Option<Cloud>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baremetal: Option<BareMetal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gcp: Option<Cloud>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ibmcloud: Option<Cloud>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub none: Option<NoPlatform>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nutanix: Option<Nutanix>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openstack: Option<OpenStack>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ovirt: Option<Ovirt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<VSphere>,
}

/// aws, azure, gcp and ibmcloud: the union of their fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cloud {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<LocalRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_assume_role: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_link: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_service_connect: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub user_tags: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_domain_resource_group_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard_local_ssd_on_hibernate: Option<bool>,
    #[serde(rename = "accountID", skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    #[serde(rename = "cisInstanceCRN", skip_serializing_if = "Option::is_none")]
    pub cis_instance_crn: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OpenStack {
    /// Entry of clouds.yaml.
    pub cloud: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<LocalRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates_secret_ref: Option<LocalRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trunk_support: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct VSphere {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<LocalRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates_secret_ref: Option<LocalRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v_center: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datacenter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_datastore: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Nutanix {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<LocalRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates_secret_ref: Option<LocalRef>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failure_domains: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prism_central: Option<Map<String, Value>>,
}

/// Named as upstream names its fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ovirt {
    #[serde(rename = "credentialsSecretRef", skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<LocalRef>,
    #[serde(rename = "certificatesSecretRef", skip_serializing_if = "Option::is_none")]
    pub certificates_secret_ref: Option<LocalRef>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ovirt_cluster_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ovirt_network_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub storage_domain_id: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentBareMetal {
    /// A label selector over Agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_selector: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BareMetal {
    #[serde(rename = "libvirtSSHPrivateKeySecretRef", skip_serializing_if = "Option::is_none")]
    pub libvirt_ssh_private_key_secret_ref: Option<LocalRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoPlatform {}

pub const NAMES: [&str; 11] = [
    "agentBareMetal",
    "aws",
    "azure",
    "baremetal",
    "gcp",
    "ibmcloud",
    "none",
    "nutanix",
    "openstack",
    "ovirt",
    "vsphere",
];

impl Platform {
    /// An empty platform of that name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        serde_json::from_value(serde_json::json!({ name: {} })).ok()
    }

    /// The names of those that are set; one, when valid.
    pub fn names(&self) -> Vec<&'static str> {
        let set = [
            self.agent_bare_metal.is_some(),
            self.aws.is_some(),
            self.azure.is_some(),
            self.baremetal.is_some(),
            self.gcp.is_some(),
            self.ibmcloud.is_some(),
            self.none.is_some(),
            self.nutanix.is_some(),
            self.openstack.is_some(),
            self.ovirt.is_some(),
            self.vsphere.is_some(),
        ];
        NAMES.into_iter().zip(set).filter_map(|(name, set)| set.then_some(name)).collect()
    }

    pub fn name(&self) -> &'static str {
        self.names().first().copied().unwrap_or("none")
    }

    /// The Secret with its credentials.
    pub fn credentials(&self) -> Option<&str> {
        let clouds = [&self.aws, &self.azure, &self.gcp, &self.ibmcloud];
        clouds
            .into_iter()
            .flatten()
            .find_map(|cloud| cloud.credentials_secret_ref.as_ref())
            .or_else(|| self.openstack.as_ref()?.credentials_secret_ref.as_ref())
            .or_else(|| self.vsphere.as_ref()?.credentials_secret_ref.as_ref())
            .or_else(|| self.nutanix.as_ref()?.credentials_secret_ref.as_ref())
            .or_else(|| self.ovirt.as_ref()?.credentials_secret_ref.as_ref())
            .or_else(|| self.baremetal.as_ref()?.libvirt_ssh_private_key_secret_ref.as_ref())
            .map(|reference| reference.name.as_str())
            .filter(|name| !name.is_empty())
    }

    /// Points it to another Secret.
    pub fn set_credentials(&mut self, name: &str) {
        let clouds = [&mut self.aws, &mut self.azure, &mut self.gcp, &mut self.ibmcloud];
        let clouds = clouds.into_iter().flatten().map(|one| &mut one.credentials_secret_ref);
        let others = [
            self.openstack.as_mut().map(|one| &mut one.credentials_secret_ref),
            self.vsphere.as_mut().map(|one| &mut one.credentials_secret_ref),
            self.nutanix.as_mut().map(|one| &mut one.credentials_secret_ref),
            self.ovirt.as_mut().map(|one| &mut one.credentials_secret_ref),
            self.baremetal.as_mut().map(|one| &mut one.libvirt_ssh_private_key_secret_ref),
        ];
        for reference in clouds.chain(others.into_iter().flatten()).flatten() {
            name.clone_into(&mut reference.name);
        }
    }
}
