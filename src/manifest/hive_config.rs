//! Reads the configuration of a Hive, as far as the Settings have a place for it. It is no object of
//! a state.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::documents::SettingsSpec;
use crate::model::meta::LocalRef;
use crate::model::refusal::Refusal;
use crate::model::site::SecretReference;
use crate::model::typed::read_value;
use crate::yaml::Node;

use crate::manifest::{Manifests, refuse_node};

/// The namespace of a Hive that names none.
const DEFAULT_NAMESPACE: &str = "hive";

/// What the Settings take from the configuration of a Hive.
#[derive(Clone, Default)]
pub struct HiveConfig {
    authorities: Vec<SecretReference>,
    pull_secret: Option<SecretReference>,
    retry_reasons: Option<Vec<String>>,
}

/// The fields that have a meaning here, and all others.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    target_namespace: String,
    additional_certificate_authorities_secret_ref: Vec<LocalRef>,
    global_pull_secret_ref: Option<LocalRef>,
    failed_provision_config: FailedProvisions,
    #[serde(flatten)]
    unused: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FailedProvisions {
    retry_reasons: Option<Vec<String>>,
    #[serde(flatten)]
    unused: Map<String, Value>,
}

impl HiveConfig {
    /// Whether a document is the configuration of a Hive.
    pub fn is_manifest(version: &str, kind_name: &str) -> bool {
        version.starts_with("hive.openshift.io/") && kind_name == "HiveConfig"
    }

    /// Puts what it says into Settings. What it does not say stays.
    pub fn write_to(&self, settings: &mut SettingsSpec) {
        let site = settings.site.get_or_insert_default();
        if !self.authorities.is_empty() {
            site.additional_certificate_authorities.clone_from(&self.authorities);
        }
        if self.pull_secret.is_some() {
            site.pull_secret_ref.clone_from(&self.pull_secret);
        }
        if self.retry_reasons.is_some() {
            site.retry_reasons.clone_from(&self.retry_reasons);
        }
    }
}

/// Adds the configuration of a Hive, with a warning for each field that has no effect. Returns what
/// is wrong with it.
pub fn add_hive_config(manifests: &mut Manifests, file: &str, document: &Node) -> Vec<Refusal> {
    let mut wire = document.to_value();
    let fields = wire.get_mut("spec").map(Value::take).unwrap_or_default();
    let spec: Spec = match fields {
        Value::Null => Spec::default(),
        fields => match read_value(&fields) {
            Ok(spec) => spec,
            Err(message) => return vec![refuse_node(file, document, &format!("spec: {message}"))],
        },
    };
    let unused_of_provisions = spec.failed_provision_config.unused.keys();
    let unused_paths = unused_of_provisions.map(|name| format!("failedProvisionConfig.{name}"));
    for path in spec.unused.keys().cloned().chain(unused_paths) {
        let warning = format!("{file}: spec.{path} of HiveConfig has no effect here");
        manifests.warnings.push(warning);
    }
    if spec.failed_provision_config.retry_reasons.is_some() {
        manifests.warnings.push(format!(
            "{file}: spec.failedProvisionConfig.retryReasons of HiveConfig has no effect here, \
             but is stored: poolctl tries again by the class of a failure; limit the attempts of a \
             pool by installAttemptsLimit"
        ));
    }
    let namespace = match spec.target_namespace.as_str() {
        "" => DEFAULT_NAMESPACE,
        namespace => namespace,
    };
    let authorities = spec.additional_certificate_authorities_secret_ref.iter();
    manifests.hive_configs.push(HiveConfig {
        authorities: authorities.map(|reference| in_namespace(reference, namespace)).collect(),
        pull_secret: spec
            .global_pull_secret_ref
            .as_ref()
            .map(|reference| in_namespace(reference, namespace)),
        retry_reasons: spec.failed_provision_config.retry_reasons.clone(),
    });
    Vec::new()
}

fn in_namespace(reference: &LocalRef, namespace: &str) -> SecretReference {
    SecretReference { name: reference.name.clone(), namespace: namespace.to_owned() }
}
