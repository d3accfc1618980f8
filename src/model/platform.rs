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
    /// Bare metal, installed by way of Agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_bare_metal: Option<AgentBareMetal>,
    /// Amazon Web Services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<Cloud>,
    /// Microsoft Azure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure: Option<Cloud>,
    /// Bare metal, installed from a provisioning host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baremetal: Option<BareMetal>,
    /// Google Cloud Platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gcp: Option<Cloud>,
    /// IBM Cloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ibmcloud: Option<Cloud>,
    /// Machines of any kind; the installation is platform-agnostic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub none: Option<NoPlatform>,
    /// Nutanix, by way of Prism Central.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nutanix: Option<Nutanix>,
    /// OpenStack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openstack: Option<OpenStack>,
    /// An oVirt engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ovirt: Option<Ovirt>,
    /// VMware vSphere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<VSphere>,
}

/// aws, azure, gcp and ibmcloud: the union of their fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cloud {
    /// Region to install in; a pool on aws, azure or gcp needs one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// A Secret with the cloud's credentials, copied to each cluster of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<LocalRef>,
    /// On aws, the IAM role to assume for access to the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_assume_role: Option<Map<String, Value>>,
    /// On aws, access to the API server by PrivateLink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_link: Option<Map<String, Value>>,
    /// On gcp, access to the API server by Private Service Connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_service_connect: Option<Map<String, Value>>,
    /// On aws, tags for everything that is made there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub user_tags: BTreeMap<String, String>,
    /// On azure, the resource group with the DNS zone of the base domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_domain_resource_group_name: Option<String>,
    /// On azure, the environment; AzurePublicCloud without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_name: Option<String>,
    /// On gcp, whether what is on local SSDs is discarded when a cluster hibernates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard_local_ssd_on_hibernate: Option<bool>,
    /// On ibmcloud, the ID of the account.
    #[serde(rename = "accountID", skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// On ibmcloud, the CRN of the Internet Services instance.
    #[serde(rename = "cisInstanceCRN", skip_serializing_if = "Option::is_none")]
    pub cis_instance_crn: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OpenStack {
    /// Entry of clouds.yaml.
    pub cloud: String,
    /// A Secret with clouds.yaml, copied to each cluster of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<LocalRef>,
    /// A Secret with OpenStack's CA certificates. Kept and given back; never read here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates_secret_ref: Option<LocalRef>,
    /// Whether trunk ports are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trunk_support: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct VSphere {
    /// A Secret with vCenter's credentials, copied to each cluster of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<LocalRef>,
    /// A Secret with vCenter's CA certificates. Kept and given back; never read here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates_secret_ref: Option<LocalRef>,
    /// Name or address of the vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v_center: Option<String>,
    /// Datacenter in the vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datacenter: Option<String>,
    /// Datastore for volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_datastore: Option<String>,
    /// Folder for the machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The vSphere cluster for the machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Network of the machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The vCenters, failure domains and VIPs; upstream prefers it to the single fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Nutanix {
    /// A Secret with Nutanix's credentials, copied to each cluster of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<LocalRef>,
    /// A Secret with Prism Central's CA certificates. Kept and given back; never read here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates_secret_ref: Option<LocalRef>,
    /// Prism Elements, each with its subnets and storage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failure_domains: Vec<Value>,
    /// Address and port of Prism Central.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prism_central: Option<Map<String, Value>>,
}

/// Named as upstream names its fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ovirt {
    /// A Secret with oVirt's credentials, copied to each cluster of a pool.
    #[serde(rename = "credentialsSecretRef", skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<LocalRef>,
    /// A Secret with oVirt's CA certificates. Kept and given back; never read here.
    #[serde(rename = "certificatesSecretRef", skip_serializing_if = "Option::is_none")]
    pub certificates_secret_ref: Option<LocalRef>,
    /// The oVirt cluster that the machines run in.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ovirt_cluster_id: String,
    /// Network of the machines; ovirtmgmt without it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ovirt_network_name: String,
    /// Storage domain of the machines' disks.
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
    /// A Secret with the SSH key to the provisioning host, copied to each cluster of a pool.
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

    /// Whether a password stands in it, where everybody can read it.
    pub fn has_password(&self) -> bool {
        fn within(value: &Value) -> bool {
            let hidden = |(name, value): (&String, &Value)| {
                let text = value.as_str().is_some_and(|text| !text.is_empty());
                (name == "password" && text) || within(value)
            };
            match value {
                Value::Object(fields) => fields.iter().any(hidden),
                Value::Array(all) => all.iter().any(within),
                _ => false,
            }
        }
        serde_json::to_value(self).is_ok_and(|value| within(&value))
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
