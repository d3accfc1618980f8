//! Renders what `openshift-install agent create unconfigured-ignition` reads of an `InfraEnv`. The
//! documents are JSON, which is YAML.

use serde_json::json;

use crate::model::infra_env::{InfraEnv, InfraEnvSpec};
use crate::model::kinds::Kind;

/// The files of its folder `cluster-manifests`, by name. No networks are among them: for those the
/// installer would need nmstatectl, and a script of poolctl sets them up.
pub fn render_manifests(infra_env: &InfraEnv, pull_secret: &str) -> [(&'static str, String); 2] {
    let spec = &infra_env.spec;
    let metadata = &infra_env.metadata;
    // The installer accepts no other name for this architecture.
    let architecture =
        if spec.cpu_architecture == "arm64" { "aarch64" } else { &spec.cpu_architecture };
    // Older installers refuse fields that they do not know, so only these are passed on.
    let passed_on = InfraEnvSpec {
        pull_secret_ref: spec.pull_secret_ref.clone(),
        cpu_architecture: architecture.to_owned(),
        proxy: spec.proxy.clone(),
        additional_ntp_sources: spec.additional_ntp_sources.clone(),
        ssh_authorized_key: spec.ssh_authorized_key.clone(),
        ..InfraEnvSpec::default()
    };
    let infra_env = json!({
        "apiVersion": Kind::InfraEnv.api_version(), "kind": Kind::InfraEnv.name(),
        "metadata": {"name": metadata.name, "namespace": metadata.namespace},
        "spec": passed_on,
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": spec.pull_secret_ref.name, "namespace": metadata.namespace},
        "stringData": {".dockerconfigjson": pull_secret},
    });
    [("infraenv.yaml", infra_env.to_string()), ("pull-secret.yaml", secret.to_string())]
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn an_older_installer_meets_no_field_that_it_does_not_know() {
        let mut infra_env = InfraEnv::default();
        infra_env.metadata.name = "rack".into();
        infra_env.metadata.namespace = "lab".into();
        infra_env.spec.pull_secret_ref.name = "pull".into();
        infra_env.spec.cpu_architecture = "arm64".into();
        infra_env.spec.network_discovery_delay_seconds = Some(60);
        infra_env.spec.agent_labels.insert("rack".into(), "7".into());
        let [(_, infra_env), (_, secret)] = render_manifests(&infra_env, "{}");
        let infra_env: Value = serde_json::from_str(&infra_env).unwrap();
        let secret: Value = serde_json::from_str(&secret).unwrap();
        let expected = json!({"pullSecretRef": {"name": "pull"}, "cpuArchitecture": "aarch64"});
        assert_eq!(infra_env["spec"], expected);
        assert_eq!(secret["metadata"], json!({"name": "pull", "namespace": "lab"}));
        assert_eq!(secret["stringData"][".dockerconfigjson"], "{}");
    }
}
