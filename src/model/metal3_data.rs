//! Metal3Data, the number that a machine has of a data template, and Metal3DataClaim, the request for
//! one, in metal3's wire format. The data themselves are rendered from the template, never kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_template::Metal3DataTemplate;
use super::ip_lease::Reference;
use super::meta::{Key, Meta, is_zero};

/// The index that a machine has of a data template, in metal3's wire format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metal3Data {
    /// Name, namespace, labels and annotations. The name is that of the template and the index.
    pub metadata: Meta,
    /// The template, the machine and its index.
    #[serde(default)]
    pub spec: Metal3DataSpec,
    /// What has become of it, written by poolctl.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: Metal3DataStatus,
}

/// The template, the machine and the index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Metal3DataSpec {
    /// The index of the machine, from 0.
    pub index: i64,
    /// The Metal3DataTemplate.
    pub template: Reference,
    /// The Metal3DataClaim of the machine, or its host.
    pub claim: Reference,
    /// The Secret with the metadata of the machine.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<Reference>,
    /// The Secret with the network data of the machine.
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<Reference>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template_reference: String,
}

/// Whether the data can be rendered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metal3DataStatus {
    /// Whether the data can be rendered.
    pub ready: bool,
}

/// A request of a machine for an index, in metal3's wire format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metal3DataClaim {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// The template that an index is asked of.
    #[serde(default)]
    pub spec: Metal3DataClaimSpec,
    /// The Metal3Data of the claim.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: Metal3DataClaimStatus,
}

/// The template that an index is asked of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Metal3DataClaimSpec {
    /// The Metal3DataTemplate.
    pub template: Reference,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<Reference>,
    #[schemars(extend("x-no-effect" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<Reference>,
}

/// The answer to the request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metal3DataClaimStatus {
    /// The Metal3Data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered_data: Option<Reference>,
}

impl Metal3Data {
    /// The Metal3Data of a host that has an index of a template.
    pub fn of_host(template: &Key, index: u64, host: &str) -> Self {
        let metadata = Meta {
            name: Metal3DataTemplate::data_name(&template.name, index),
            namespace: template.namespace.clone(),
            ..Meta::default()
        };
        let spec = Metal3DataSpec {
            index: i64::try_from(index).unwrap_or(i64::MAX),
            template: Reference { name: template.name.clone(), ..Reference::default() },
            claim: Reference { name: host.to_owned(), ..Reference::default() },
            ..Metal3DataSpec::default()
        };
        Self { metadata, spec, status: Metal3DataStatus { ready: true } }
    }

    /// The machine that has the index: the name of its claim.
    pub fn machine(&self) -> &str {
        &self.spec.claim.name
    }

    /// The template, which is in the namespace of the data.
    pub fn template_key(&self) -> Key {
        Key::new(&*self.metadata.namespace, &*self.spec.template.name)
    }
}
