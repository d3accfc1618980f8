//! Explains an InfraEnv: whether it has an image, and whether the image is up to date.

use super::chain::Chain;
use super::evidence::Evidence;
use crate::model::agent::INFRA_ENV_LABEL;
use crate::model::condition::{self, Condition, ConditionReason};
use crate::model::infra_env::{IMAGE_CREATED, InfraEnv};

/// Reasons of the condition `ImageCreated` that only a person can mend.
const FAILURES: [ConditionReason; 2] =
    [ConditionReason::ImageCreationError, ConditionReason::MissingClusterDeployment];

/// Explains an InfraEnv by its image: missing, failed, out of date, or ready to boot hosts from.
pub fn explain_infra_env(evidence: &Evidence, infra_env: &InfraEnv) -> Chain {
    let name = &infra_env.metadata.name;
    let option = &evidence.namespace_option;
    let image_created = condition::find_condition(&infra_env.status.conditions, IMAGE_CREATED);
    let first_cause = describe_image(infra_env, image_created);
    let make_image = command_to_make_image(name, option);
    if let Some(condition) = image_created
        && FAILURES.iter().any(|failure| condition.reason == *failure)
    {
        return Chain::new(first_cause, make_image).because(&*condition.message);
    }
    if evidence.image_is_stale {
        let why = "its spec, or an NMStateConfig that it selects, was changed later";
        return Chain::new(first_cause, make_image).because(why);
    }
    if infra_env.status.created_time.is_none() {
        return Chain::new(first_cause, make_image);
    }
    Chain::new(first_cause, format!("poolctl get agent -l {INFRA_ENV_LABEL}={name}{option}"))
}

/// The command that makes the image of an InfraEnv.
pub fn command_to_make_image(infra_env: &str, namespace_option: &str) -> String {
    format!(
        "poolctl infraenv iso {infra_env} --address USER@HOST --key FILE --known-hosts FILE \
         --base ISO{namespace_option}"
    )
}

/// A sentence about the image of an InfraEnv: when it was made, and where it is.
fn describe_image(infra_env: &InfraEnv, image_created: Option<&Condition>) -> String {
    let name = &infra_env.metadata.name;
    let Some(time) = infra_env.status.created_time else {
        return format!("infraenv {name} has no image yet");
    };
    let is_image = image_created.is_some_and(|condition| condition.status == "True");
    let product = if is_image { "image" } else { "Ignition" };
    let url = infra_env.image_url().map(|url| format!(", {url}")).unwrap_or_default();
    format!("infraenv {name} has an {product} made at {time}{url}")
}
