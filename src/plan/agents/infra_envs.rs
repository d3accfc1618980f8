//! What plans write into an InfraEnv: which Agents are its own, and why it can have no image. It
//! never makes an image.

use std::collections::BTreeMap;

use crate::model::agent::INFRA_ENV_LABEL;
use crate::model::condition::{self, Condition, ConditionReason, set_condition_without_probe};
use crate::model::event_reason::EventReason;
use crate::model::infra_env::{IMAGE_CREATED, InfraEnv, LabelSelector};
use crate::model::kinds::Kind;
use crate::model::state::{InfraEnvId, State};
use crate::model::tick::Tick;
use crate::plan::record_event;

use super::clusters::{self, cluster_architecture, normalize_architecture};

/// Brings the status of all InfraEnvs up to date, and records those that are new.
pub fn update_infra_envs(state: &mut State, tick: &Tick) {
    let infra_env_ids: Vec<InfraEnvId> =
        state.infra_envs.iter().map(|(infra_env_id, _)| infra_env_id).collect();
    for infra_env_id in infra_env_ids {
        let Some(infra_env) = state.infra_envs.get(infra_env_id) else { continue };
        let key = infra_env.key();
        let is_new = infra_env.status.agent_label_selector.is_empty();
        let condition = image_condition(state, infra_env);
        state.infra_envs.update(infra_env_id, |infra_env| {
            let name = infra_env.metadata.name.clone();
            let match_labels = BTreeMap::from([(INFRA_ENV_LABEL.to_owned(), name)]);
            infra_env.status.agent_label_selector =
                LabelSelector { match_labels, ..LabelSelector::default() };
            if let Some(condition) = condition {
                set_condition_without_probe(&mut infra_env.status.conditions, condition, tick.now);
            }
        });
        if is_new {
            let message = "Registered infra env".to_owned();
            record_event(
                state,
                tick,
                Kind::InfraEnv,
                key,
                EventReason::InfraEnvRegistered,
                message,
            );
        }
    }
}

/// `ImageCreated`, where something about the cluster of an InfraEnv keeps it from having an image,
/// or has just stopped to do so. Otherwise the condition stays as it is.
fn image_condition(state: &State, infra_env: &InfraEnv) -> Option<Condition> {
    if let Some(cluster_key) = infra_env.cluster_key() {
        let Some(cluster) = clusters::find_cluster(state, &cluster_key) else {
            let name = &cluster_key.name;
            let namespace = &cluster_key.namespace;
            let message = format!("ClusterDeployment is missing: {name} in namespace {namespace}");
            let reason = ConditionReason::MissingClusterDeployment;
            return Some(Condition::new(IMAGE_CREATED, "Unknown", reason, message));
        };
        let architecture = infra_env.architecture();
        let required = cluster_architecture(state, cluster);
        if let Some(required) = required
            && required != normalize_architecture(architecture)
        {
            let message = format!(
                "Failed to create image: Specified CPU architecture ({architecture}) doesn't match \
                 the cluster ({required})"
            );
            let reason = ConditionReason::ImageCreationError;
            return Some(Condition::new(IMAGE_CREATED, "False", reason, message));
        }
    }
    let condition = condition::find_condition(&infra_env.status.conditions, IMAGE_CREATED)?;
    if condition.status != "Unknown" {
        return None;
    }
    // The cluster is there by now. Whether there is an image the next command finds out.
    let reason = ConditionReason::ImageNotCreated;
    Some(Condition::new(IMAGE_CREATED, "False", reason, "There is no image yet"))
}
