//! Hashes what a discovery image is made of, so that a change of it can be seen. Never reads an
//! image.

use serde_json::json;

use crate::model::hash::sha256;
use crate::model::infra_env::InfraEnv;
use crate::model::nmstate_config::NMStateConfig;

/// A SHA-256 of what an image is made of. `configs` are all NMStateConfigs; those that the
/// `InfraEnv` selects count.
pub fn hash_image_sources(infra_env: &InfraEnv, configs: &[NMStateConfig]) -> String {
    let mut spec = infra_env.spec.clone();
    // These have an effect on hosts that are known already, so they are not in the image.
    (spec.agent_labels, spec.agent_approval) = Default::default();
    (spec.ipxe_script_type, spec.mirror_registry_ref) = Default::default();
    // The selector itself does not count either, only what it selects.
    let selector = std::mem::take(&mut spec.nm_state_config_label_selector);
    let mut selected = Vec::new();
    for config in configs {
        // An empty selector selects nothing.
        if !selector.is_empty() && selector.matches(&config.metadata.labels) {
            selected.push((config.metadata.key().to_string(), &config.spec));
        }
    }
    selected.sort_unstable_by(|(first_key, _), (second_key, _)| first_key.cmp(second_key));
    sha256(json!([spec, selected]).to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::infra_env::AgentApproval;

    #[test]
    fn only_what_is_in_an_image_changes_its_hash() {
        let mut infra_env = InfraEnv::default();
        infra_env.metadata.name = "rack".into();
        let mut config = NMStateConfig::default();
        config.metadata.labels.insert("rack".into(), "7".into());
        let unlabelled = NMStateConfig::default();
        let empty = hash_image_sources(&infra_env, &[]);
        assert_eq!(hash_image_sources(&infra_env, &[config.clone(), unlabelled.clone()]), empty);
        infra_env.spec.agent_approval = Some(AgentApproval { auto_approve: true });
        infra_env.metadata.labels.insert("a".into(), "b".into());
        infra_env.spec.nm_state_config_label_selector.match_labels = config.metadata.labels.clone();
        assert_eq!(hash_image_sources(&infra_env, std::slice::from_ref(&unlabelled)), empty);
        let with_config = hash_image_sources(&infra_env, &[unlabelled.clone(), config.clone()]);
        assert_ne!(with_config, empty);
        assert_eq!(hash_image_sources(&infra_env, &[config.clone(), unlabelled]), with_config);
        config.spec.config = json!({"interfaces": []});
        assert_ne!(hash_image_sources(&infra_env, &[config]), with_config);
        infra_env.spec.additional_ntp_sources.push("ntp.lab".into());
        assert_ne!(hash_image_sources(&infra_env, &[]), empty);
    }
}
