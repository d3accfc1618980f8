//! InfraEnv: the discovery image that hosts are booted from to become Agents, and how those are
//! treated. Its wire format is assisted installer's. It makes no image.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::agent::ClusterReference;
use super::condition::{Condition, ConditionType};
use super::meta::{Key, LocalRef, Meta, is_zero};
use super::time::Time;

/// Annotation of an `InfraEnv`: the keys of the labels that the nodes of its Agents get, separated
/// by commas.
pub const PROPAGATED_LABELS: &str = "propagate-node-labels";
/// Annotation of an Agent: the keys of the node labels that come from its `InfraEnv`, separated by
/// commas.
pub const INHERITED_LABELS: &str = "agent.agent-install.openshift.io/inherited-node-labels";
/// The architecture of hosts whose `InfraEnv` gives no `cpuArchitecture`.
pub const DEFAULT_ARCHITECTURE: &str = "x86_64";

/// The condition that says whether there is an image.
pub const IMAGE_CREATED: ConditionType = ConditionType::ImageCreated;

/// An environment in which machines boot a discovery image, in the wire format of assisted-service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InfraEnv {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// Settings of the discovery image and of the hosts that boot it.
    #[serde(default)]
    pub spec: InfraEnvSpec,
    /// The state of the discovery image, written by poolctl.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: InfraEnvStatus,
    /// Tokens with which hosts register; never on the wire.
    #[serde(skip)]
    pub tokens: Vec<Token>,
}

/// What is in the image, and what machines that boot it get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct InfraEnvSpec {
    /// A Secret with the pull secret (.dockerconfigjson) for discovery. Clusters have their own.
    pub pull_secret_ref: LocalRef,
    /// Hosts that boot the image are bound to this cluster. It cannot be changed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ClusterReference>,
    /// Architecture of its hosts: `x86_64` (default), aarch64, arm64, ppc64le or s390x; immutable.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cpu_architecture: String,
    /// Version of the discovery image; not with clusterRef.
    #[schemars(extend("x-no-effect" = "hosts boot the image that `poolctl infraenv iso --base` names"))]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub os_image_version: String,
    /// Proxies of the hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Additional NTP servers of the hosts.
    #[serde(rename = "additionalNTPSources", skip_serializing_if = "Vec::is_empty")]
    pub additional_ntp_sources: Vec<String>,
    /// NTP servers of the hosts, instead of those of the network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ntp_sources: Vec<String>,
    /// SSH public keys that may log in to the hosts during discovery.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ssh_authorized_key: String,
    /// Labels for new Agents. A later change does not apply to existing Agents.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub agent_labels: BTreeMap<String, String>,
    /// Selects the `NMStateConfigs` for the image; an empty selector selects none.
    #[serde(rename = "nmStateConfigLabelSelector", skip_serializing_if = "is_zero")]
    pub nm_state_config_label_selector: LabelSelector,
    /// Ignition config in JSON that is merged into that of the image.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ignition_config_override: String,
    /// `DiscoveryImageAlways` or `BootOrderControl`.
    #[schemars(extend(
        "x-no-effect" = "it makes no iPXE script; hosts boot from an image",
        "x-as-here" = "DiscoveryImageAlways"
    ))]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ipxe_script_type: String,
    /// Changes of the kernel arguments of the image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernel_arguments: Vec<KernelArgument>,
    /// CA certificates that the hosts trust, in PEM.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub additional_trust_bundle: String,
    /// Mirrors of registries, for the hosts.
    #[schemars(extend("x-no-effect" = "use ignitionConfigOverride to add a registries.conf"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror_registry_ref: Option<Value>,
    /// full-iso or minimal-iso.
    #[schemars(extend(
        "x-no-effect" = "the image is always as large as the one of --base",
        "x-as-here" = "full-iso"
    ))]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image_type: String,
    /// How many seconds a host waits for its network before it reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_discovery_delay_seconds: Option<u64>,
    /// Whether the hosts are approved automatically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_approval: Option<AgentApproval>,
}

/// The proxy of the machines. An empty field means none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Proxy {
    /// Proxy for http.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub http_proxy: String,
    /// Proxy for https.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub https_proxy: String,
    /// Hosts and networks that are reached without a proxy, separated by commas.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub no_proxy: String,
}

/// A change of the kernel's arguments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelArgument {
    /// Operation: append, replace or delete.
    pub operation: String,
    /// The argument, such as rd.net.timeout.carrier=60.
    pub value: String,
}

/// Whether machines need no approval of a person.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentApproval {
    /// Every Agent of the `InfraEnv` is approved.
    pub auto_approve: bool,
}

/// A selector in the wire format of Kubernetes. All its parts must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LabelSelector {
    /// Labels that must have these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements on labels, of which each must be met.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
}

/// One requirement of a selector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelRequirement {
    /// Key of the label.
    pub key: String,
    /// Operator: In, `NotIn`, Exists or `DoesNotExist`.
    pub operator: String,
    /// Values for In and `NotIn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// Whether nothing is required, so that every label set matches.
    pub fn is_empty(&self) -> bool {
        is_zero(self)
    }

    /// Whether labels are selected. As in Kubernetes, an empty selector matches all labels. Where an
    /// empty one is to select nothing, the caller asks `is_empty` first.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.is_met_by(labels))
    }
}

impl LabelRequirement {
    /// False for an unknown operator.
    fn is_met_by(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator.as_str() {
            "In" => value.is_some_and(|value| self.values.contains(value)),
            "NotIn" => value.is_none_or(|value| !self.values.contains(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}

/// What has become of the image. `infraenv iso` and the plan write it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InfraEnvStatus {
    /// The URL of its image.
    #[serde(rename = "isoDownloadURL", skip_serializing_if = "String::is_empty")]
    pub iso_download_url: String,
    /// The path of its image below isoDirectory of the Settings; empty if the image is elsewhere.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image_file: String,
    /// When the image was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_time: Option<Time>,
    /// The condition `ImageCreated`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Label selector of the Agents of the `InfraEnv`.
    #[serde(skip_serializing_if = "is_zero")]
    pub agent_label_selector: LabelSelector,
    /// SHA-256 of the settings in the image. If they change, the image is outdated.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image_hash: String,
    /// Tokens with which hosts register. Only an export with secrets contains them.
    #[serde(skip_serializing)]
    pub tokens: Vec<Token>,
}

/// A token with which hosts register with an `InfraEnv`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Token {
    /// The id of the token.
    pub id: String,
    /// SHA-256 of the token that a host sends.
    pub hash: String,
    /// When the token was created.
    pub created: Time,
    /// When the token expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Time>,
    /// When the token was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Time>,
}

impl Token {
    /// Whether the token admits hosts now.
    pub fn is_valid(&self, now: Time) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| now < expires)
    }
}

impl InfraEnv {
    /// The namespace and the name.
    pub fn key(&self) -> Key {
        self.metadata.key()
    }

    /// The URL of its image, once there is one.
    pub fn image_url(&self) -> Option<&str> {
        Some(self.status.iso_download_url.as_str()).filter(|url| !url.is_empty())
    }

    /// Whether its image is below isoDirectory, so that other images can be made of it.
    pub fn has_own_image(&self) -> bool {
        !self.status.image_file.is_empty()
    }

    /// The architecture of its hosts.
    pub fn architecture(&self) -> &str {
        let architecture = self.spec.cpu_architecture.as_str();
        if architecture.is_empty() { DEFAULT_ARCHITECTURE } else { architecture }
    }

    /// The cluster that its hosts belong to from the beginning.
    pub fn cluster_key(&self) -> Option<Key> {
        self.spec.cluster_ref.as_ref().map(ClusterReference::key)
    }

    /// Whether its Agents are approved without a person.
    pub fn approves_agents(&self) -> bool {
        self.spec.agent_approval.as_ref().is_some_and(|approval| approval.auto_approve)
    }
}
