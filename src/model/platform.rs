//! The platforms of `spec.platform`, with the fields that upstream has. It does not say what a driver
//! does with them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::meta::LocalRef;
use super::typed::read_value;

/// Declares the platforms: the field of each with its type, its name in manifests, whether its
/// clusters are made of hosts that are bound to them or made by the installer, and whether they
/// are given addresses for API and ingress.
macro_rules! platforms {
    ($(
        $(#[$attribute:meta])*
        $field:ident: $Type:ty = $name:literal { hosts: $hosts:ident, vips: $vips:ident },
    )*) => {
        /// Exactly one is set. Each is boxed, so that a pool reserves no memory for the others.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub struct Platform {
            $(
                $(#[$attribute])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<Box<$Type>>,
            )*
        }

        /// The traits of each platform, in the order of their names.
        pub const PLATFORMS: &[PlatformTraits] = &[$(PlatformTraits {
            name: $name,
            hosts: HostOrigin::$hosts,
            vips: VipOrigin::$vips,
        }),*];

        impl Platform {
            /// The names of the platforms that are set. A valid object has exactly one.
            pub fn names(&self) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(if self.$field.is_some() {
                    names.push($name);
                })*
                names
            }

            fn credentials_ref(&self) -> Option<&LocalRef> {
                let mut reference = None;
                $(
                    let platform = self.$field.as_deref();
                    reference = reference.or(platform.and_then(Credentials::credentials));
                )*
                reference
            }

            fn credentials_refs_mut(&mut self) -> Vec<&mut LocalRef> {
                let mut references = Vec::new();
                $(
                    let platform = self.$field.as_deref_mut();
                    references.extend(platform.and_then(Credentials::credentials_mut));
                )*
                references
            }

            fn certificates_ref(&self) -> Option<&LocalRef> {
                let mut reference = None;
                $(
                    let platform = self.$field.as_deref();
                    reference = reference.or(platform.and_then(Credentials::certificates));
                )*
                reference
            }

            fn certificates_refs_mut(&mut self) -> Vec<&mut LocalRef> {
                let mut references = Vec::new();
                $(
                    let platform = self.$field.as_deref_mut();
                    references.extend(platform.and_then(Credentials::certificates_mut));
                )*
                references
            }

            /// Removes the fields that refer to Secrets, because installers do not know them.
            pub fn remove_secret_refs(&mut self) {
                $(if let Some(platform) = &mut self.$field {
                    platform.remove_secret_refs();
                })*
            }
        }
    };
}

platforms! {
    /// Bare metal, installed by way of Agents.
    agent_bare_metal: AgentBareMetal = "agentBareMetal" { hosts: Bound, vips: None },
    /// Amazon Web Services.
    aws: Cloud = "aws" { hosts: Made, vips: None },
    /// Microsoft Azure.
    azure: Cloud = "azure" { hosts: Made, vips: None },
    /// Bare metal, installed from a provisioning host.
    baremetal: BareMetal = "baremetal" { hosts: Bound, vips: Given },
    /// Google Cloud Platform.
    gcp: Cloud = "gcp" { hosts: Made, vips: None },
    /// IBM Cloud.
    ibmcloud: Cloud = "ibmcloud" { hosts: Made, vips: None },
    /// Machines of any kind; the installation is platform-agnostic.
    none: NoPlatform = "none" { hosts: Bound, vips: None },
    /// Nutanix, by way of Prism Central.
    nutanix: Nutanix = "nutanix" { hosts: Made, vips: Given },
    /// OpenStack.
    openstack: OpenStack = "openstack" { hosts: Made, vips: Given },
    /// An oVirt engine.
    ovirt: Ovirt = "ovirt" { hosts: Made, vips: Given },
    /// VMware vSphere.
    vsphere: VSphere = "vsphere" { hosts: Made, vips: Given },
}

/// What poolctl has to know about a platform beside its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlatformTraits {
    pub name: &'static str,
    pub hosts: HostOrigin,
    pub vips: VipOrigin,
}

/// Where the hosts of a cluster come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostOrigin {
    /// They are Agents that are bound to it.
    Bound,
    /// Its installer makes machines.
    Made,
}

/// Where the addresses of a cluster's API and ingress come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VipOrigin {
    /// Its install-config gives them.
    Given,
    /// Its install-config gives none: the platform has load balancers, or needs no addresses.
    None,
}

/// The names of all platforms.
pub fn platform_names() -> Vec<&'static str> {
    PLATFORMS.iter().map(|platform| platform.name).collect()
}

/// The traits of the platform with this name; none if there is no such platform.
pub fn traits_of(name: &str) -> Option<&'static PlatformTraits> {
    PLATFORMS.iter().find(|platform| platform.name == name)
}

/// How a platform refers to Secrets: to the one with its credentials, and to the one with the
/// certificates that signed those of its API.
trait Credentials {
    fn credentials(&self) -> Option<&LocalRef>;
    fn credentials_mut(&mut self) -> Option<&mut LocalRef>;
    fn remove_secret_refs(&mut self);

    fn certificates(&self) -> Option<&LocalRef> {
        None
    }

    fn certificates_mut(&mut self) -> Option<&mut LocalRef> {
        None
    }
}

/// Declares which field of a platform refers to the Secret with its credentials, and which one to
/// the Secret with its certificates, if there are such.
macro_rules! credentials_in {
    ($Type:ty, $field:ident, $certificates:ident) => {
        impl Credentials for $Type {
            fn credentials(&self) -> Option<&LocalRef> {
                self.$field.as_ref()
            }

            fn credentials_mut(&mut self) -> Option<&mut LocalRef> {
                self.$field.as_mut()
            }

            fn remove_secret_refs(&mut self) {
                self.$field = None;
                self.$certificates = None;
            }

            fn certificates(&self) -> Option<&LocalRef> {
                self.$certificates.as_ref()
            }

            fn certificates_mut(&mut self) -> Option<&mut LocalRef> {
                self.$certificates.as_mut()
            }
        }
    };
    ($Type:ty, $field:ident) => {
        impl Credentials for $Type {
            fn credentials(&self) -> Option<&LocalRef> {
                self.$field.as_ref()
            }

            fn credentials_mut(&mut self) -> Option<&mut LocalRef> {
                self.$field.as_mut()
            }

            fn remove_secret_refs(&mut self) {
                self.$field = None;
            }
        }
    };
    ($Type:ty) => {
        impl Credentials for $Type {
            fn credentials(&self) -> Option<&LocalRef> {
                None
            }

            fn credentials_mut(&mut self) -> Option<&mut LocalRef> {
                None
            }

            fn remove_secret_refs(&mut self) {}
        }
    };
}
credentials_in!(AgentBareMetal);
credentials_in!(Cloud, credentials_secret_ref);
credentials_in!(BareMetal, libvirt_ssh_private_key_secret_ref);
credentials_in!(NoPlatform);
credentials_in!(Nutanix, credentials_secret_ref, certificates_secret_ref);
credentials_in!(OpenStack, credentials_secret_ref, certificates_secret_ref);
credentials_in!(Ovirt, credentials_secret_ref, certificates_secret_ref);
credentials_in!(VSphere, credentials_secret_ref, certificates_secret_ref);

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
    #[schemars(extend("x-no-effect" = "use credentialsSecretRef"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_assume_role: Option<Map<String, Value>>,
    /// On aws, access to the API server by PrivateLink.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_link: Option<Map<String, Value>>,
    /// On gcp, access to the API server by Private Service Connect.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_service_connect: Option<Map<String, Value>>,
    /// On aws, tags for all resources that are created.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub user_tags: BTreeMap<String, String>,
    /// On azure, the resource group with the DNS zone of the base domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_domain_resource_group_name: Option<String>,
    /// On azure, the cloud environment; AzurePublicCloud by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_name: Option<String>,
    /// On gcp, whether data on local SSDs is discarded when a cluster hibernates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard_local_ssd_on_hibernate: Option<bool>,
    /// On ibmcloud, the ID of the account.
    #[serde(rename = "accountID", skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// On ibmcloud, the CRN of the Internet Services instance.
    #[serde(rename = "cisInstanceCRN", skip_serializing_if = "Option::is_none")]
    pub cis_instance_crn: Option<String>,
}

/// The fields of Hive for OpenStack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OpenStack {
    /// Name of the entry in clouds.yaml.
    pub cloud: String,
    /// A Secret with clouds.yaml, copied to each cluster of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<LocalRef>,
    /// A Secret with OpenStack's CA certificates, copied to each cluster of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates_secret_ref: Option<LocalRef>,
    /// Whether trunk ports are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trunk_support: Option<bool>,
}

/// The fields of Hive for vSphere, in the layouts of old and new releases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct VSphere {
    /// A Secret with vCenter's credentials, copied to each cluster of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<LocalRef>,
    /// A Secret with vCenter's CA certificates, copied to each cluster of a pool.
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
    /// The vCenters, failure domains and VIPs. Prefer it to the single fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<Map<String, Value>>,
}

/// The fields of Hive for Nutanix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Nutanix {
    /// A Secret with Nutanix's credentials, copied to each cluster of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<LocalRef>,
    /// A Secret with Prism Central's CA certificates, copied to each cluster of a pool.
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
    /// A Secret with oVirt's CA certificates, copied to each cluster of a pool.
    #[serde(rename = "certificatesSecretRef", skip_serializing_if = "Option::is_none")]
    pub certificates_secret_ref: Option<LocalRef>,
    /// The oVirt cluster that the machines run in.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ovirt_cluster_id: String,
    /// Network of the machines; ovirtmgmt by default.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ovirt_network_name: String,
    /// Storage domain of the machines' disks.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub storage_domain_id: String,
}

/// The fields of Hive for machines that are found by agents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentBareMetal {
    /// A label selector over Agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_selector: Option<Map<String, Value>>,
}

/// The fields of Hive for machines that the installer boots through libvirt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BareMetal {
    /// A Secret with the SSH key to the provisioning host, copied to each cluster of a pool.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(rename = "libvirtSSHPrivateKeySecretRef", skip_serializing_if = "Option::is_none")]
    pub libvirt_ssh_private_key_secret_ref: Option<LocalRef>,
}

/// Platform `none`, which has no fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoPlatform {}

impl Platform {
    /// The platform with this name, without any settings; none if there is no such platform.
    pub fn named(name: &str) -> Option<Self> {
        read_value(&serde_json::json!({ name: {} })).ok()
    }

    /// The name of the platform that is set; `none` if there is none.
    pub fn name(&self) -> &'static str {
        self.names().first().copied().unwrap_or("none")
    }

    /// The labels that Hive gives each cluster: its platform, and where that is. A platform without
    /// regions is somewhere unknown; machines that are there already are in no region.
    pub fn labels(&self) -> Vec<(&'static str, &str)> {
        let mut labels = vec![("hive.openshift.io/cluster-platform", self.name())];
        let clouds = [&self.aws, &self.azure, &self.gcp, &self.ibmcloud];
        let cloud = clouds.into_iter().flatten().next();
        let is_made = traits_of(self.name()).is_some_and(|traits| traits.hosts == HostOrigin::Made);
        if is_made {
            let region = cloud.map_or("", |cloud| cloud.region.as_str());
            let region_or_unknown = if region.is_empty() { "unknown" } else { region };
            labels.push(("hive.openshift.io/cluster-region", region_or_unknown));
        }
        labels
    }

    /// The name of the Secret with its credentials, if it names one.
    pub fn credentials(&self) -> Option<&str> {
        let name = self.credentials_ref()?.name.as_str();
        (!name.is_empty()).then_some(name)
    }

    /// Whether a field of it, at any depth, is a password, which everybody could read there.
    pub fn has_password(&self) -> bool {
        fn contains_password(value: &Value) -> bool {
            match value {
                Value::Object(fields) => fields.iter().any(|(name, value)| {
                    let is_text = value.as_str().is_some_and(|word| !word.is_empty());
                    (name == "password" && is_text) || contains_password(value)
                }),
                Value::Array(elements) => elements.iter().any(contains_password),
                _ => false,
            }
        }
        serde_json::to_value(self).is_ok_and(|value| contains_password(&value))
    }

    /// The name of the Secret with the certificates of its API, if it names one.
    pub fn certificates(&self) -> Option<&str> {
        let name = self.certificates_ref()?.name.as_str();
        (!name.is_empty()).then_some(name)
    }

    /// Changes the name of the Secret with its certificates, if it names one.
    pub fn set_certificates(&mut self, name: &str) {
        for reference in self.certificates_refs_mut() {
            name.clone_into(&mut reference.name);
        }
    }

    /// Changes the name of the Secret with its credentials, if it names one.
    pub fn set_credentials(&mut self, name: &str) {
        for reference in self.credentials_refs_mut() {
            name.clone_into(&mut reference.name);
        }
    }
}
