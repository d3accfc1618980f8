//! Objects as assisted-service on Kubernetes reads them: InfraEnvs, networks of hosts, the settings of
//! Agents, and AgentClusterInstalls for clusters that are made of Agents. It writes no files.

use serde_json::{Value, json};

use crate::model::cluster::Cluster;
use crate::model::object::Object;

use super::cluster_dns::cluster_records;
use super::hive_objects::{keep_fields, remove_field, trim_metadata};

/// How many hosts of each kind a cluster has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    pub masters: usize,
    pub workers: usize,
}

/// The document of an InfraEnv, a network of a host, a classification of hosts or an Agent; none of
/// another object.
pub fn render_for_assisted(object: &Object) -> Option<Value> {
    if object.deletion_time().is_some() {
        return None;
    }
    let is_carried = matches!(
        object,
        Object::InfraEnv(_)
            | Object::NMStateConfig(_)
            | Object::AgentClassification(_)
            | Object::Agent(_)
    );
    if !is_carried {
        return None;
    }
    let mut document = object.to_wire();
    // The service finds out itself what there is.
    remove_field(&mut document, "status");
    trim_metadata(&mut document);
    Some(document)
}

/// The AgentClusterInstall of a cluster, from the document of its ClusterDeployment, and from its
/// install-config if that is known.
pub fn render_cluster_install(
    cluster: &Cluster,
    deployment: &Value,
    host_counts: HostCounts,
    install_config: Option<&Value>,
) -> Value {
    let mut spec = json!({
        "clusterDeploymentRef": {"name": cluster.name},
        "networking": {},
        "provisionRequirements": {
            "controlPlaneAgents": host_counts.masters,
            "workerAgents": host_counts.workers,
        },
    });
    if let Some(config) = install_config {
        take_install_config(config, &mut spec);
    }
    if let Some(image_set) = &cluster.image_set {
        spec["imageSetRef"] = json!({"name": image_set});
    }
    let mut metadata = deployment["spec"]["clusterMetadata"].clone();
    if metadata.is_object() {
        let fields = [
            "adminKubeconfigSecretRef",
            "adminPasswordSecretRef",
            "clusterID",
            "infraID",
            "metadataJSONSecretRef",
        ];
        keep_fields(&mut metadata, &fields);
        spec["clusterMetadata"] = metadata;
    }
    json!({
        "apiVersion": "extensions.hive.openshift.io/v1beta1",
        "kind": "AgentClusterInstall",
        "metadata": {"name": cluster.name, "namespace": cluster.namespace},
        "spec": spec,
    })
}

/// Writes what an install-config says of hosts, networks and addresses as an AgentClusterInstall has
/// it.
fn take_install_config(config: &Value, spec: &mut Value) {
    let requirements = &mut spec["provisionRequirements"];
    if let Some(replicas) = config["controlPlane"]["replicas"].as_u64() {
        requirements["controlPlaneAgents"] = replicas.into();
    }
    if let Some(pools) = config["compute"].as_array() {
        let replicas = pools.iter().filter_map(|pool| pool["replicas"].as_u64());
        requirements["workerAgents"] = replicas.sum::<u64>().into();
    }
    for field in ["clusterNetwork", "machineNetwork", "serviceNetwork", "networkType"] {
        if let Some(value) = config["networking"].get(field) {
            spec["networking"][field] = value.clone();
        }
    }
    if config["platform"].get("none").is_some() {
        spec["networking"]["userManagedNetworking"] = true.into();
    }
    for (field, record) in ["apiVIPs", "ingressVIPs"].into_iter().zip(cluster_records(config)) {
        if !record.addresses.is_empty() {
            spec[field] = record.addresses.into();
        }
    }
    for (field, own_field) in [("sshPublicKey", "sshKey"), ("proxy", "proxy")] {
        if let Some(value) = config.get(own_field) {
            spec[field] = value.clone();
        }
    }
}

/// Lets a ClusterDeployment name its AgentClusterInstall, which says all of its installation: Hive
/// accepts only one of the two.
pub fn refer_to_cluster_install(cluster: &Cluster, deployment: &mut Value) {
    remove_field(&mut deployment["spec"], "provisioning");
    deployment["spec"]["clusterInstallRef"] = json!({
        "group": "extensions.hive.openshift.io",
        "version": "v1beta1",
        "kind": "AgentClusterInstall",
        "name": cluster.name,
    });
}
