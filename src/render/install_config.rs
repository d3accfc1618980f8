//! The install-config of a cluster: the pool's template or one made from its platform, with name
//! and domain set, patched.

use serde_json::{Value, json};

use crate::model::customization::CustomizationSpec;
use crate::model::documents::SecretValue;
use crate::model::pool::{ALLOWED_PATHS, ClusterPool, PoolSpec};
use crate::model::state::Template;
use crate::yaml;

use super::patch::{self, Rules};

/// A patched install-config, and what it says of the cluster's name in DNS.
pub struct Rendered {
    pub cluster_name: String,
    /// It is called as it was given: no patch sets another name.
    pub keeps_name: bool,
    pub base_domain: String,
    pub document: Value,
    /// The same for Go readers.
    pub text: SecretValue,
    /// What of the patches was read with leniency.
    pub notes: Vec<String>,
}

/// The document before name and patches.
pub fn base(spec: &PoolSpec, template: Option<&Template>) -> Result<Value, String> {
    let mut document = match template {
        None => generated(spec),
        Some(template) => template.read.get_or_init(|| read(&template.text)).clone()?,
    };
    if let Some(root) = document.as_object_mut() {
        root.insert("baseDomain".into(), spec.base_domain.clone().into());
    }
    Ok(document)
}

/// What a template says.
pub fn document(template: &Template) -> Result<&Value, String> {
    template.read.get_or_init(|| read(&template.text)).as_ref().map_err(String::clone)
}

/// A template must be a mapping, and its metadata too.
fn read(text: &SecretValue) -> Result<Value, String> {
    let wrong = |why: &str| format!("install-config.yaml: {why}");
    let mut document = yaml::value(text.reveal()).map_err(|why| wrong(&why.to_string()))?;
    let root = document.as_object_mut().ok_or_else(|| wrong("is not a mapping"))?;
    let metadata = root.entry("metadata").or_insert(Value::Null);
    if metadata.is_null() {
        *metadata = json!({});
    }
    let is_mapping = metadata.is_object();
    if is_mapping { Ok(document) } else { Err(wrong("metadata is not a mapping")) }
}

/// Hive's default: 3 masters, 3 workers, the usual networks.
fn generated(spec: &PoolSpec) -> Value {
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
        "platform": platform(spec),
        "pullSecret": "",
    })
}

/// The platform without the references to Secrets, which installers do not know.
fn platform(spec: &PoolSpec) -> Value {
    let mut platform = spec.platform.clone();
    platform.remove_secret_refs();
    serde_json::to_value(platform).unwrap_or_default()
}

/// Sets the name, applies the patches, and reads back what the document now says.
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
        let rules = Rules::of(pool);
        if rules.allowed.is_some() && !spec.installer_manifest_patches.is_empty() {
            return Err(format!("the pool allows no patches of manifests ({ALLOWED_PATHS})"));
        }
        notes = patch::apply(&mut document, &spec.install_config_patches, rules)?;
    }
    let said = |path: &str| match document.pointer(path) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(_) => Err(format!("{path} of the patched install-config is not a string")),
        None => Err(format!("{path} is missing in the patched install-config")),
    };
    let (cluster_name, base_domain) = (said("/metadata/name")?, said("/baseDomain")?);
    let text = yaml::text(&document).map_err(|error| error.to_string())?;
    let keeps_name = cluster_name == name;
    let text = SecretValue::new(text);
    Ok(Rendered { cluster_name, keeps_name, base_domain, document, text, notes })
}
