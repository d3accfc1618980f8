//! Renders the install-config of a cluster: the pool's template, or one made from its platform,
//! with name and domain set, and patched. Never judges whether a cluster could be installed with
//! it.

use serde_json::{Map, Value, json};

use crate::model::annotations::ALLOWED_PATHS;
use crate::model::customization::CustomizationSpec;
use crate::model::documents::SecretValue;
use crate::model::pool::{ClusterPool, PoolSpec};
use crate::model::template::Template;
use crate::yaml;

use super::patch::{self, PatchRules};

/// A patched install-config, and the cluster's name in DNS that it says.
pub struct Rendered {
    pub cluster_name: String,
    /// Whether the cluster is called what it was to be called: no patch sets another name.
    pub keeps_name: bool,
    pub base_domain: String,
    pub document: Value,
    /// The document as YAML that Go programs read.
    pub text: SecretValue,
    /// Which patches were read leniently, and how.
    pub notes: Vec<String>,
}

/// The install-config of a pool, before the name and the patches of a cluster.
pub fn render_base(spec: &PoolSpec, template: Option<&Template>) -> Result<Value, String> {
    let mut document = match template {
        None => generate_document(spec),
        Some(template) => template_document(template)?.clone(),
    };
    if let Some(root) = document.as_object_mut() {
        root.insert("baseDomain".into(), spec.base_domain.clone().into());
    }
    Ok(document)
}

/// The document of a template, which is parsed only once.
pub fn template_document(template: &Template) -> Result<&Value, String> {
    template.read.get_or_init(|| parse_template(&template.text)).as_ref().map_err(String::clone)
}

/// Parses a template. It must be a mapping, and its metadata too.
fn parse_template(template: &SecretValue) -> Result<Value, String> {
    let mut document = yaml::parse_value(template.reveal())
        .map_err(|why| format!("install-config.yaml: {why}"))?;
    let Some(root) = document.as_object_mut() else {
        return Err("install-config.yaml is not a mapping".into());
    };
    let metadata = root.entry("metadata").or_insert(Value::Null);
    if metadata.is_null() {
        *metadata = json!({});
    }
    if !metadata.is_object() {
        return Err("install-config.yaml: metadata is not a mapping".into());
    }
    Ok(document)
}

/// Hive's default: 3 masters, 3 workers and the usual networks.
fn generate_document(spec: &PoolSpec) -> Value {
    json!({
        "apiVersion": "v1",
        "baseDomain": spec.base_domain,
        "controlPlane": {"name": "master", "replicas": 3},
        "compute": [{"name": "worker", "replicas": 3}],
        "metadata": {},
        "networking": {
            "clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}],
            "machineNetwork": [{"cidr": "10.0.0.0/16"}],
            "serviceNetwork": ["172.30.0.0/16"],
        },
        "platform": generate_platform(spec),
        "pullSecret": "",
    })
}

/// The platform as installers have it, without the references to Secrets, which they do not know.
fn generate_platform(spec: &PoolSpec) -> Value {
    let mut platform = spec.platform.clone();
    platform.remove_secret_refs();
    let mut document = serde_json::to_value(platform).unwrap_or_default();
    let infrastructure = document.pointer_mut("/vsphere/infrastructure").map(Value::take);
    if let Some(infrastructure) = infrastructure {
        // It is a platform of the installer already, in the place of the single fields.
        document["vsphere"] = infrastructure;
    }
    if let Some(nutanix) = document.get_mut("nutanix").and_then(Value::as_object_mut) {
        translate_nutanix(nutanix);
    }
    if let Some(ovirt) = document.get_mut("ovirt").and_then(Value::as_object_mut)
        && let Some(storage_domain) = ovirt.remove("storage_domain_id")
    {
        ovirt.insert("ovirt_storage_domain_id".into(), storage_domain);
    }
    document
}

/// Hive has the address of Prism Central where installers have an endpoint with a login beside it.
/// The Prism Element and the subnets of machines without a failure domain are those of the first
/// one.
fn translate_nutanix(nutanix: &mut Map<String, Value>) {
    if let Some(endpoint) = nutanix.remove("prismCentral") {
        nutanix.insert("prismCentral".into(), json!({"endpoint": endpoint}));
    }
    let failure_domain = nutanix.get("failureDomains").and_then(|domains| domains.get(0)).cloned();
    if let Some(failure_domain) = failure_domain {
        nutanix.insert("prismElements".into(), json!([failure_domain["prismElement"]]));
        nutanix.insert("subnetUUIDs".into(), failure_domain["subnetUUIDs"].clone());
    }
}

/// Sets the name, applies the patches, and reads the cluster's name in DNS back from the document,
/// because patches may change it.
pub fn render(
    base: &Value,
    name: &str,
    patches: Option<&CustomizationSpec>,
    pool: &ClusterPool,
) -> Result<Rendered, String> {
    let mut document = base.clone();
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".into(), name.into());
    }
    let mut notes = Vec::new();
    if let Some(spec) = patches {
        let rules = PatchRules::of_pool(pool);
        if rules.allowed.is_some() && !spec.installer_manifest_patches.is_empty() {
            return Err(format!("the pool allows no patches of manifests ({ALLOWED_PATHS})"));
        }
        notes = patch::apply_patches(&mut document, &spec.install_config_patches, rules)?;
    }
    let cluster_name = read_string(&document, "/metadata/name")?;
    let base_domain = read_string(&document, "/baseDomain")?;
    let text = SecretValue::new(yaml::to_text(&document).map_err(|error| error.to_string())?);
    let keeps_name = cluster_name == name;
    Ok(Rendered { cluster_name, keeps_name, base_domain, document, text, notes })
}

/// The string at a pointer; the error tells a person which patch to look at.
fn read_string(document: &Value, pointer: &str) -> Result<String, String> {
    match document.pointer(pointer) {
        Some(Value::String(string)) if !string.is_empty() => Ok(string.clone()),
        Some(_) => Err(format!("{pointer} of the patched install-config is not a string")),
        None => Err(format!("{pointer} is missing in the patched install-config")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The platform of the install-config of a pool with this one.
    fn generate(platform: &Value) -> Value {
        let platform = serde_json::from_value(platform.clone()).unwrap();
        generate_platform(&PoolSpec { platform, ..PoolSpec::default() })
    }

    #[test]
    fn platforms_are_written_as_installers_have_them() {
        for (platform, expected) in [
            (
                json!({"nutanix": {
                    "credentialsSecretRef": {"name": "s"},
                    "prismCentral": {"address": "prism.example.com", "port": 9440},
                    "failureDomains": [{"name": "a", "prismElement": {"uuid": "1"},
                        "subnetUUIDs": ["2"]}],
                }}),
                json!({"nutanix": {
                    "prismCentral": {"endpoint": {"address": "prism.example.com", "port": 9440}},
                    "prismElements": [{"uuid": "1"}],
                    "subnetUUIDs": ["2"],
                    "failureDomains": [{"name": "a", "prismElement": {"uuid": "1"},
                        "subnetUUIDs": ["2"]}],
                }}),
            ),
            (
                json!({"vsphere": {
                    "certificatesSecretRef": {"name": "s"}, "vCenter": "v",
                    "infrastructure": {"vcenters": [{"server": "v"}]},
                }}),
                json!({"vsphere": {"vcenters": [{"server": "v"}]}}),
            ),
            (
                json!({"ovirt": {"ovirt_cluster_id": "a", "storage_domain_id": "b"}}),
                json!({"ovirt": {"ovirt_cluster_id": "a", "ovirt_storage_domain_id": "b"}}),
            ),
        ] {
            assert_eq!(generate(&platform), expected);
        }
    }
}
