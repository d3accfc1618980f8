//! Renders an `InfraEnv` as input files of `openshift-install agent create unconfigured-ignition`.
//! The documents are JSON, which is valid YAML. This module writes no files.

use std::collections::BTreeMap;

use serde_json::json;

use crate::model::infra_env::{InfraEnv, InfraEnvSpec};
use crate::model::kinds::Kind;

use super::site::render_registries;

/// A file that the installer reads. The content may be secret.
pub struct ManifestFile {
    /// Its path below the installer's folder.
    pub path: &'static str,
    pub content: String,
}

/// Returns the `InfraEnv`, its pull secret, and the mirrors with the authorities of the site as
/// files. Left out are the network configurations,
/// because the installer would need nmstatectl for them (a script of poolctl applies them instead),
/// and the fields that an older installer would refuse.
pub fn render_manifests(
    infra_env: &InfraEnv,
    pull_secret: &str,
    mirrors: &BTreeMap<String, Vec<String>>,
) -> Vec<ManifestFile> {
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
    let mut files = vec![
        ManifestFile { path: "cluster-manifests/infraenv.yaml", content: infra_env.to_string() },
        ManifestFile { path: "cluster-manifests/pull-secret.yaml", content: secret.to_string() },
    ];
    if !mirrors.is_empty() {
        let content = render_registries(mirrors);
        files.push(ManifestFile { path: "mirror/registries.conf", content });
        // The installer reads it only beside the mirrors.
        if !spec.additional_trust_bundle.is_empty() {
            let content = spec.additional_trust_bundle.clone();
            files.push(ManifestFile { path: "mirror/ca-bundle.crt", content });
        }
    }
    files
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
        let files = render_manifests(&infra_env, "{}", &BTreeMap::new());
        assert_eq!(files.len(), 2);
        let infra_env: Value = serde_json::from_str(&files[0].content).unwrap();
        let secret: Value = serde_json::from_str(&files[1].content).unwrap();
        let expected = json!({"pullSecretRef": {"name": "pull"}, "cpuArchitecture": "aarch64"});
        assert_eq!(infra_env["spec"], expected);
        assert_eq!(secret["metadata"], json!({"name": "pull", "namespace": "lab"}));
        assert_eq!(secret["stringData"][".dockerconfigjson"], "{}");
    }

    #[test]
    fn mirrors_come_with_the_authorities_that_they_are_signed_by() {
        let mut infra_env = InfraEnv::default();
        infra_env.spec.additional_trust_bundle = "PEM".into();
        let mirrors = BTreeMap::from([("a.lab".to_owned(), vec!["b.lab".to_owned()])]);
        let files = render_manifests(&infra_env, "{}", &mirrors);
        let paths: Vec<&str> = files.iter().map(|file| file.path).collect();
        assert_eq!(paths[2..], ["mirror/registries.conf", "mirror/ca-bundle.crt"]);
        assert_eq!(files[3].content, "PEM");
    }
}
