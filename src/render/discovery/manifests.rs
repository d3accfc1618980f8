//! What `openshift-install agent create unconfigured-ignition` reads of an `InfraEnv`: JSON, which
//! is YAML.

use serde_json::json;

use crate::model::infra_env::{InfraEnv, InfraEnvSpec};
use crate::model::kinds::Kind;

/// Files of its folder `cluster-manifests` by name. No networks are among them: it would need
/// nmstatectl where it runs, and ours are set up by a script of ours.
pub fn manifests(one: &InfraEnv, pull_secret: &str) -> [(&'static str, String); 2] {
    let spec = &one.spec;
    // It calls processors as they call themselves, and refuses what it does not know.
    let architecture =
        if spec.cpu_architecture == "arm64" { "aarch64" } else { &spec.cpu_architecture };
    let known = InfraEnvSpec {
        pull_secret_ref: spec.pull_secret_ref.clone(),
        cpu_architecture: architecture.to_owned(),
        proxy: spec.proxy.clone(),
        additional_ntp_sources: spec.additional_ntp_sources.clone(),
        ssh_authorized_key: spec.ssh_authorized_key.clone(),
        ..InfraEnvSpec::default()
    };
    let named = |name: &str| json!({"name": name, "namespace": one.metadata.namespace});
    let infra_env = json!({
        "apiVersion": Kind::InfraEnv.api_version(), "kind": Kind::InfraEnv.name(),
        "metadata": named(&one.metadata.name), "spec": known,
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": named(&spec.pull_secret_ref.name),
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
        let mut one = InfraEnv::default();
        one.metadata.name = "rack".into();
        one.metadata.namespace = "lab".into();
        one.spec.pull_secret_ref.name = "pull".into();
        one.spec.cpu_architecture = "arm64".into();
        one.spec.network_discovery_delay_seconds = Some(60);
        one.spec.agent_labels.insert("rack".into(), "7".into());
        let [(_, infra_env), (_, secret)] = manifests(&one, "{}");
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let expected = json!({"pullSecretRef": {"name": "pull"}, "cpuArchitecture": "aarch64"});
        assert_eq!(read(&infra_env)["spec"], expected);
        let metadata = json!({"name": "pull", "namespace": "lab"});
        assert_eq!(read(&secret)["metadata"], metadata);
        assert_eq!(read(&secret)["stringData"][".dockerconfigjson"], "{}");
    }
}
