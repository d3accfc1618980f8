//! What an image is made of, in one word: made of something else it would have another.

use serde_json::json;

use crate::model::hash::sha256;
use crate::model::infra_env::InfraEnv;
use crate::model::nmstate_config::NMStateConfig;

/// As a SHA-256. `configs`: all that there are; those that the `InfraEnv` selects count.
pub fn made_of(infra_env: &InfraEnv, configs: &[NMStateConfig]) -> String {
    let mut spec = infra_env.spec.clone();
    // What becomes of hosts once they are known is not in their image.
    (spec.agent_labels, spec.agent_approval) = Default::default();
    (spec.ipxe_script_type, spec.mirror_registry_ref) = Default::default();
    let selector = std::mem::take(&mut spec.nm_state_config_label_selector);
    let chosen = configs.iter().filter(|one| selector.matches(&one.metadata.labels));
    let chosen = chosen.filter(|_| !selector.is_empty());
    let mut chosen: Vec<_> =
        chosen.map(|one| (one.metadata.key().to_string(), &one.spec)).collect();
    chosen.sort_by(|(one, _), (two, _)| one.cmp(two));
    sha256(json!([spec, chosen]).to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::infra_env::AgentApproval;

    #[test]
    fn what_is_in_an_image_counts_and_nothing_else() {
        let mut one = InfraEnv::default();
        one.metadata.name = "rack".into();
        let mut config = NMStateConfig::default();
        config.metadata.labels.insert("rack".into(), "7".into());
        let other = NMStateConfig::default();
        let empty = made_of(&one, &[]);
        assert_eq!(made_of(&one, &[config.clone(), other.clone()]), empty);
        one.spec.agent_approval = Some(AgentApproval { auto_approve: true });
        one.metadata.labels.insert("a".into(), "b".into());
        one.spec.nm_state_config_label_selector.match_labels = config.metadata.labels.clone();
        assert_eq!(made_of(&one, std::slice::from_ref(&other)), empty);
        let with = made_of(&one, &[other.clone(), config.clone()]);
        assert_ne!(with, empty);
        assert_eq!(made_of(&one, &[config.clone(), other]), with);
        config.spec.config = json!({"interfaces": []});
        assert_ne!(made_of(&one, &[config]), with);
        one.spec.additional_ntp_sources.push("ntp.lab".into());
        assert_ne!(made_of(&one, &[]), empty);
    }
}
