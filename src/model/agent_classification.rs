//! AgentClassification: a label that hosts get whose inventory meets a query, in the wire format of
//! assisted-service. It evaluates no query.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::meta::{Meta, is_zero};

/// What the labels of classifications begin with, before the key.
pub const CLASSIFICATION_LABEL_PREFIX: &str = "agentclassification.agent-install.openshift.io/";
/// What the value of the label begins with if the query cannot tell whether the host is meant.
pub const QUERY_ERROR_PREFIX: &str = "QUERYERROR-";

/// A label that all machines get whose inventory meets a query, in the wire format of
/// assisted-service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentClassification {
    /// Name, namespace, labels and annotations.
    pub metadata: Meta,
    /// The label, and which hosts get it.
    #[serde(default)]
    pub spec: AgentClassificationSpec,
    /// Accepted but not used.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: AgentClassificationStatus,
}

/// The query, and the label that it stands for. The query is in the language of jq.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentClassificationSpec {
    /// The key of the label, without its prefix agentclassification.agent-install.openshift.io.
    pub label_key: String,
    /// The value of the label.
    pub label_value: String,
    /// A query of the inventory, in a part of the jq language. It must be true for the hosts that
    /// get the label, and false for the others.
    pub query: String,
}

/// Counts that assisted-service keeps. They are accepted but not used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentClassificationStatus {
    /// Accepted but not used.
    #[serde(skip_serializing_if = "is_zero")]
    pub matched_count: u64,
    /// Accepted but not used.
    #[serde(skip_serializing_if = "is_zero")]
    pub error_count: u64,
}
