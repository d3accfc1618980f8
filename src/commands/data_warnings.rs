//! Warnings about Secrets and ConfigMaps that an applied object names and that are not there. They
//! concern what is left out without them: what waits for its Secret says so in its conditions.

use crate::model::annotations::MANIFESTS;
use crate::model::deployment::{ClusterDeployment, config_maps_with_manifests};
use crate::model::documents::{ConfigMap, command_to_create};
use crate::model::driver::Driver;
use crate::model::kinds::Kind;
use crate::model::meta::{Key, LocalRef};
use crate::model::object::Object;
use crate::model::refusal::Refusal;
use crate::model::site::Site;
use crate::store::Store;

use crate::commands::Context;
use crate::commands::scope::EditedObject;

/// A Secret or a ConfigMap that an object names.
pub struct NamedData {
    /// The object and its field, for people.
    field: String,
    kind: Kind,
    key: Key,
}

/// The Secrets and ConfigMaps that objects name, if these do not wait for them.
pub fn collect_named_data(objects: &[Object]) -> Vec<NamedData> {
    let mut named_data = Vec::new();
    for object in objects {
        match object {
            Object::Settings(settings) => {
                if let Some(site) = &settings.spec.site {
                    named_data.extend(secrets_of_site(site));
                }
            }
            Object::ClusterDeployment(cluster) => {
                let wire = cluster.to_wire();
                named_data.extend(data_of_cluster(&wire));
                // A simulated installation needs none of these, and an installed cluster no more.
                if cluster.driver != Driver::Fake && !cluster.is_installed() {
                    named_data.extend(secrets_of_installation(&wire));
                }
            }
            _ => {}
        }
    }
    named_data
}

fn secrets_of_site(site: &Site) -> Vec<NamedData> {
    let mut named_data = Vec::new();
    for reference in &site.additional_certificate_authorities {
        let field = "spec.site.additionalCertificateAuthorities of the Settings".to_owned();
        let key = reference.key();
        named_data.push(NamedData { field, kind: Kind::Secret, key });
    }
    if let Some(reference) = &site.pull_secret_ref {
        let field = "spec.site.pullSecretRef of the Settings".to_owned();
        let key = reference.key();
        named_data.push(NamedData { field, kind: Kind::Secret, key });
    }
    named_data
}

fn secrets_of_installation(cluster: &ClusterDeployment) -> Vec<NamedData> {
    let mut named_data = Vec::new();
    for secret in cluster.installation_secrets() {
        let field = format!("{} of cluster `{}`", secret.field, cluster.metadata.name);
        let key = Key::new(&*cluster.metadata.namespace, secret.name);
        named_data.push(NamedData { field, kind: Kind::Secret, key });
    }
    named_data
}

fn data_of_cluster(cluster: &ClusterDeployment) -> Vec<NamedData> {
    let mut named_data = Vec::new();
    for name in config_maps_with_manifests(&cluster.metadata.annotations) {
        let field = format!("{MANIFESTS} of cluster `{}`", cluster.metadata.name);
        let key = Key::new(&*cluster.metadata.namespace, name);
        named_data.push(NamedData { field, kind: Kind::ConfigMap, key });
    }
    let Some(provisioning) = &cluster.spec.provisioning else { return named_data };
    for (field, kind, reference) in [
        ("sshPrivateKeySecretRef", Kind::Secret, &provisioning.ssh_private_key_secret_ref),
        ("manifestsSecretRef", Kind::Secret, &provisioning.manifests_secret_ref),
        ("manifestsConfigMapRef", Kind::ConfigMap, &provisioning.manifests_config_map_ref),
    ] {
        if let Some(LocalRef { name }) = reference
            && !name.is_empty()
        {
            let cluster_name = &cluster.metadata.name;
            let field = format!("spec.provisioning.{field} of cluster `{cluster_name}`");
            let key = Key::new(&*cluster.metadata.namespace, &**name);
            named_data.push(NamedData { field, kind, key });
        }
    }
    named_data
}

/// Warns of the Secrets and ConfigMaps that are neither there nor among the objects that were
/// applied.
pub fn warn_about_missing_data(
    context: &Context,
    store: &Store,
    named_data: &[NamedData],
    applied: &[EditedObject],
) -> Result<(), Refusal> {
    for NamedData { field, kind, key } in named_data {
        let is_applied = applied.iter().any(|object| object.kind == *kind && object.key == *key);
        if is_applied || is_stored(store, *kind, key)? {
            continue;
        }
        let Key { namespace, name } = key;
        let command = command_to_create(*kind);
        context.warn(&format!(
            "{field}: there is no {} `{name}`; next: poolctl {command} {name} -n {namespace} \
             --from-file=KEY=FILE",
            kind.name()
        ));
    }
    Ok(())
}

/// Whether there is a Secret with values, or a ConfigMap.
fn is_stored(store: &Store, kind: Kind, key: &Key) -> Result<bool, Refusal> {
    Ok(match kind {
        Kind::ConfigMap => store.find::<ConfigMap>(key)?.is_some(),
        _ => !store.list_secret_keys(key)?.is_empty(),
    })
}
