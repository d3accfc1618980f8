//! Reads AgentClusterInstalls: what they say of a cluster becomes the install-config of the
//! ClusterDeployment that is read beside them. It is no object of a state.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::model::annotations::MANIFESTS;
use crate::model::cluster::Cluster;
use crate::model::deployment::Provisioning;
use crate::model::documents::{Secret, SecretValue};
use crate::model::meta::{LocalRef, Meta};
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::yaml::Node;

use crate::manifest::{Manifests, refuse_node};

const KIND: &str = "AgentClusterInstall";
const GROUP: &str = "extensions.hive.openshift.io/";
/// The key of an install-config in its Secret.
const INSTALL_CONFIG: &str = "install-config.yaml";
const DEFAULT_NETWORK_TYPE: &str = "OVNKubernetes";

/// What is taken from an AgentClusterInstall.
#[derive(Clone)]
pub struct ClusterInstall {
    name: String,
    version: String,
    spec: Spec,
}

/// The fields that have a meaning here, and all others.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    cluster_deployment_ref: LocalRef,
    image_set_ref: Option<LocalRef>,
    networking: Networking,
    provision_requirements: Requirements,
    #[serde(rename = "apiVIP")]
    api_vip: String,
    #[serde(rename = "apiVIPs")]
    api_vips: Vec<String>,
    #[serde(rename = "ingressVIP")]
    ingress_vip: String,
    #[serde(rename = "ingressVIPs")]
    ingress_vips: Vec<String>,
    ssh_public_key: String,
    platform_type: String,
    proxy: Option<Value>,
    manifests_config_map_ref: Option<LocalRef>,
    manifests_config_map_refs: Vec<LocalRef>,
    #[serde(flatten)]
    unused: Map<String, Value>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Networking {
    cluster_network: Vec<Value>,
    machine_network: Vec<Value>,
    service_network: Vec<Value>,
    network_type: String,
    #[serde(rename = "userManagedNetworking")]
    is_user_managed: Option<bool>,
    #[serde(flatten)]
    unused: Map<String, Value>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Requirements {
    control_plane_agents: u64,
    worker_agents: u64,
    #[serde(flatten)]
    unused: Map<String, Value>,
}

impl ClusterInstall {
    /// Whether a document is an AgentClusterInstall.
    pub fn is_manifest(version: &str, kind_name: &str) -> bool {
        version.starts_with(GROUP) && kind_name == KIND
    }

    /// Whether it is about this cluster.
    fn is_of(&self, cluster: &Cluster) -> bool {
        self.spec.cluster_deployment_ref.name == cluster.name
    }

    /// The install-config that it describes.
    fn install_config(&self, cluster: &Cluster) -> Value {
        let spec = &self.spec;
        let networking = &spec.networking;
        let network_type = match networking.network_type.as_str() {
            "" => DEFAULT_NETWORK_TYPE,
            network_type => network_type,
        };
        let mut config = json!({
            "apiVersion": "v1", "baseDomain": cluster.base_domain,
            "metadata": {"name": cluster.cluster_name},
            "controlPlane": {"name": "master",
                "replicas": spec.provision_requirements.control_plane_agents},
            "compute": [{"name": "worker",
                "replicas": spec.provision_requirements.worker_agents}],
            "networking": {"networkType": network_type},
            "platform": self.platform(),
        });
        for (field, networks) in [
            ("clusterNetwork", &networking.cluster_network),
            ("machineNetwork", &networking.machine_network),
            ("serviceNetwork", &networking.service_network),
        ] {
            if !networks.is_empty() {
                config["networking"][field] = networks.clone().into();
            }
        }
        if !spec.ssh_public_key.is_empty() {
            config["sshKey"] = spec.ssh_public_key.clone().into();
        }
        if let Some(proxy) = &spec.proxy {
            config["proxy"] = proxy.clone();
        }
        config
    }

    /// The names of the ConfigMaps with manifests. The list replaces the one reference, as upstream
    /// has it.
    fn config_maps_with_manifests(&self) -> Vec<&str> {
        let spec = &self.spec;
        let references = match &spec.manifests_config_map_refs[..] {
            [] => spec.manifests_config_map_ref.as_slice(),
            references => references,
        };
        let names = references.iter().map(|reference| reference.name.as_str());
        names.filter(|name| !name.is_empty()).collect()
    }

    /// The platform of the install-config: none where somebody else manages the networks, which is
    /// the default for a single node.
    fn platform(&self) -> Value {
        let spec = &self.spec;
        let requirements = &spec.provision_requirements;
        let is_single_node =
            requirements.control_plane_agents == 1 && requirements.worker_agents == 0;
        let is_user_managed = spec.networking.is_user_managed.unwrap_or(is_single_node);
        if is_user_managed || spec.platform_type == "None" {
            return json!({"none": {}});
        }
        let mut settings = Map::new();
        for (field, addresses, address) in [
            ("apiVIPs", &spec.api_vips, &spec.api_vip),
            ("ingressVIPs", &spec.ingress_vips, &spec.ingress_vip),
        ] {
            if !addresses.is_empty() {
                settings.insert(field.to_owned(), addresses.clone().into());
            } else if !address.is_empty() {
                settings.insert(field.to_owned(), json!([address]));
            }
        }
        json!({"baremetal": settings})
    }
}

/// Adds an AgentClusterInstall, with a warning for each field that has no effect. Returns what is
/// wrong with it.
pub fn add_cluster_install(
    manifests: &mut Manifests,
    file: &str,
    version: &str,
    document: &Node,
) -> Vec<Refusal> {
    let mut wire = document.to_value();
    let name = wire["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let fields = wire.get_mut("spec").map(Value::take).unwrap_or_default();
    let spec: Spec = match serde_json::from_value(fields) {
        Ok(spec) => spec,
        Err(error) => return vec![refuse_node(file, document, &format!("spec: {error}"))],
    };
    if !matches!(spec.platform_type.as_str(), "" | "BareMetal" | "None") {
        let platform = &spec.platform_type;
        let problem =
            format!("spec.platformType `{platform}` is not supported, only BareMetal and None");
        return vec![refuse_node(file, document, &problem)];
    }
    let of_spec = spec.unused.keys().cloned();
    let of_networking = spec.networking.unused.keys().map(|field| format!("networking.{field}"));
    let unused_requirements = spec.provision_requirements.unused.keys();
    let of_requirements = unused_requirements.map(|field| format!("provisionRequirements.{field}"));
    for path in of_spec.chain(of_networking).chain(of_requirements) {
        let warning = format!("{file}: spec.{path} of {KIND} has no effect here");
        manifests.warnings.push(warning);
    }
    let version = version.to_owned();
    manifests.cluster_installs.push(ClusterInstall { name, version, spec });
    Vec::new()
}

/// Gives the clusters that were read the install-configs of their AgentClusterInstalls. One whose
/// cluster was not read is left out.
pub fn complete_clusters(manifests: &mut Manifests) {
    for install in std::mem::take(&mut manifests.cluster_installs) {
        let place = manifests.objects.iter().position(
            |object| matches!(object, Object::ClusterDeployment(cluster) if install.is_of(cluster)),
        );
        let Some(place) = place else {
            *manifests.skipped.entry((KIND.to_owned(), install.version)).or_default() += 1;
            continue;
        };
        let Some(Object::ClusterDeployment(cluster)) = manifests.objects.get_mut(place) else {
            continue;
        };
        // An installed cluster needs no install-config; but only there its networks and addresses
        // are kept.
        let is_installed = cluster.is_installed();
        take_manifests(cluster, &install);
        if let Some(secret) = complete_cluster(cluster, &install) {
            // The cluster refers to it.
            manifests.objects.insert(place, Object::Secret(Box::new(secret)));
            continue;
        }
        if is_installed {
            continue;
        }
        let name = &install.name;
        manifests.warnings.push(format!(
            "{KIND} `{name}`: the cluster has an installConfigSecretRef, which is used instead"
        ));
    }
}

/// Lets a cluster refer to the ConfigMaps with manifests: to one as Hive does, to several by an
/// annotation.
fn take_manifests(cluster: &mut Cluster, install: &ClusterInstall) {
    let names = install.config_maps_with_manifests();
    if names.is_empty() {
        return;
    }
    let mut wire = cluster.to_wire();
    let provisioning = wire.spec.provisioning.get_or_insert_default();
    let has_manifests = provisioning.manifests_config_map_ref.is_some()
        || provisioning.manifests_secret_ref.is_some();
    match names[..] {
        [name] if !has_manifests => {
            provisioning.manifests_config_map_ref = Some(LocalRef::to_name(name));
        }
        _ => drop(wire.metadata.annotations.insert(MANIFESTS.to_owned(), names.join(","))),
    }
    *cluster = Cluster::from_wire(wire);
}

/// Lets a cluster refer to an install-config, which is returned. None for a cluster that has one.
fn complete_cluster(cluster: &mut Cluster, install: &ClusterInstall) -> Option<Secret> {
    let mut wire = cluster.to_wire();
    let mut provisioning: Provisioning = wire.spec.provisioning.take().unwrap_or_default();
    if provisioning.install_config_secret_ref.is_some() {
        return None;
    }
    let name = format!("{}-install-config", cluster.name);
    let config = install.install_config(cluster).to_string();
    let namespace = cluster.namespace.clone();
    provisioning.install_config_secret_ref = Some(LocalRef { name: name.clone() });
    if provisioning.image_set_ref.is_none() {
        provisioning.image_set_ref.clone_from(&install.spec.image_set_ref);
    }
    wire.spec.provisioning = Some(provisioning);
    wire.spec.cluster_install_ref = None;
    *cluster = Cluster::from_wire(wire);
    let metadata = Meta { name, namespace, ..Meta::default() };
    let values = BTreeMap::from([(INSTALL_CONFIG.to_owned(), SecretValue::new(&config))]);
    Some(Secret { metadata, string_data: Some(values), ..Secret::default() })
}
