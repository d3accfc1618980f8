//! What objects name: the objects that one needs, belongs to or has, and with which objects it is
//! listed because it names them. It does not say whether what is named exists.

use super::agent::Agent;
use super::agent_classification::AgentClassification;
use super::claim::Claim;
use super::cluster::Cluster;
use super::customization::Customization;
use super::data_template::Metal3DataTemplate;
use super::deployment::config_maps_with_manifests;
use super::documents::{ClusterImageSet, ConfigMap, Namespace, RoleBinding, Secret, Settings};
use super::host::BareMetalHost;
use super::infra_env::InfraEnv;
use super::ip_lease::Reference;
use super::ip_lease::{IpAddress, IpClaim};
use super::ip_pool::IpPool;
use super::kinds::Kind;
use super::meta::{Key, LocalRef};
use super::metal3_data::{Metal3Data, Metal3DataClaim};
use super::nmstate_config::NMStateConfig;
use super::object::{Object, match_kind, match_object};
use super::pool::ClusterPool;

/// An object by its kind and its key. The name of a cluster is unique, so the namespace of its key
/// is empty.
pub type NamedObject = (Kind, Key);

/// A kind whose objects may name others.
trait Refers {
    /// The kinds of objects with which those of this kind are listed that name them. Kinds of which
    /// one object may have thousands are not listed.
    const LISTED_WITH: &'static [Kind] = &[];

    /// The objects that this one names, none of them twice in a row.
    fn references(&self) -> Vec<NamedObject> {
        Vec::new()
    }
}

impl Object {
    /// The objects that this one names.
    pub fn references(&self) -> Vec<NamedObject> {
        match_object!(self, resource => Refers::references(&**resource))
    }

    /// Whether this object names another one.
    pub fn refers_to(&self, kind: Kind, key: &Key) -> bool {
        self.references().iter().any(|(named_kind, named_key)| {
            *named_kind == kind
                && named_key.name == key.name
                && (kind == Kind::ClusterDeployment || named_key.namespace == key.namespace)
        })
    }
}

/// The kinds whose objects are listed with an object of a kind if they name it.
pub fn kinds_listed_with(kind: Kind) -> Vec<Kind> {
    fn listed_with<R: Refers>() -> &'static [Kind] {
        R::LISTED_WITH
    }
    let mut kinds = Vec::new();
    for referring_kind in Kind::OBJECTS {
        let listed_with: &[Kind] = match_kind!(*referring_kind, R => listed_with::<R>(), &[]);
        if listed_with.contains(&kind) {
            kinds.push(*referring_kind);
        }
    }
    kinds
}

fn cluster_named(name: &str) -> NamedObject {
    (Kind::ClusterDeployment, Key::new("", name))
}

/// The Secrets in a namespace that references name.
fn secrets_named<'a>(
    namespace: &str,
    names: impl IntoIterator<Item = Option<&'a str>>,
) -> Vec<NamedObject> {
    let given_names = names.into_iter().flatten().filter(|name| !name.is_empty());
    given_names.map(|name| (Kind::Secret, Key::new(namespace, name))).collect()
}

fn name_of(reference: Option<&LocalRef>) -> Option<&str> {
    reference.map(|reference| reference.name.as_str())
}

impl Refers for Settings {}
impl Refers for Namespace {}
impl Refers for RoleBinding {}
impl Refers for ClusterImageSet {}
impl Refers for Secret {}
impl Refers for ConfigMap {}
impl Refers for Metal3DataTemplate {}
impl Refers for IpPool {}
impl Refers for NMStateConfig {}
impl Refers for AgentClassification {}

impl Refers for ClusterPool {
    const LISTED_WITH: &'static [Kind] =
        &[Kind::ClusterImageSet, Kind::Secret, Kind::ConfigMap, Kind::Customization, Kind::IpPool];

    fn references(&self) -> Vec<NamedObject> {
        let spec = &self.spec;
        let namespace = self.metadata.namespace.as_str();
        let mut named = vec![(Kind::ClusterImageSet, Key::new("", &*spec.image_set_ref.name))];
        named.extend(secrets_named(
            namespace,
            [
                name_of(spec.pull_secret_ref.as_ref()),
                name_of(spec.install_config_secret_template_ref.as_ref()),
                self.credentials_secret(),
                spec.platform.certificates(),
                self.ssh_key_secret(),
            ],
        ));
        let variable_secrets = self.variable_secrets();
        let names_of_variables = variable_secrets.iter().map(|name| Some(name.as_str()));
        named.extend(secrets_named(namespace, names_of_variables));
        for name in self.config_maps() {
            named.push((Kind::ConfigMap, Key::new(namespace, name)));
        }
        let listed_names = spec.inventory.iter().flatten().map(|entry| entry.name.as_str());
        for name in name_of(spec.customization_ref.as_ref()).into_iter().chain(listed_names) {
            named.push((Kind::Customization, Key::new(namespace, name)));
        }
        for name in self.vip_pools().into_iter().chain(self.node_address_pools()) {
            named.push((Kind::IpPool, Key::new(namespace, name)));
        }
        named.dedup();
        named
    }
}

impl Refers for Cluster {
    const LISTED_WITH: &'static [Kind] = &[Kind::ClusterPool];

    fn references(&self) -> Vec<NamedObject> {
        let mut named = Vec::new();
        named.extend(self.pool.as_deref().map(|pool| (Kind::ClusterPool, pool.clone())));
        named.extend(self.claim_key().map(|claim| (Kind::ClusterClaim, claim)));
        if let Some(name) = &self.customization {
            let namespace = self.pool.as_ref().map_or(&self.namespace, |pool| &pool.namespace);
            named.push((Kind::Customization, Key::new(&**namespace, &**name)));
        }
        named.extend(self.required_image_set().map(|key| (Kind::ClusterImageSet, key)));
        if let Some(body) = &self.body {
            let provisioning = body.spec.provisioning.as_ref();
            let reference = provisioning
                .and_then(|provisioning| provisioning.manifests_config_map_ref.as_ref());
            let own_name = name_of(reference).filter(|name| !name.is_empty());
            named.extend(own_name.map(|name| (Kind::ConfigMap, Key::new(&*self.namespace, name))));
            // A pool gives its clusters the ConfigMaps of its own namespace.
            let namespace = self.pool.as_ref().map_or(&self.namespace, |pool| &pool.namespace);
            for name in config_maps_with_manifests(&body.metadata.annotations) {
                named.push((Kind::ConfigMap, Key::new(&**namespace, name)));
            }
        }
        named
    }
}

impl Refers for Claim {
    const LISTED_WITH: &'static [Kind] = &[Kind::ClusterPool];

    fn references(&self) -> Vec<NamedObject> {
        let mut named = vec![(Kind::ClusterPool, self.pool_key())];
        named.extend(self.cluster.as_deref().map(cluster_named));
        named
    }
}

impl Refers for Customization {
    fn references(&self) -> Vec<NamedObject> {
        let Some(holder) = &self.holder else { return Vec::new() };
        let mut named = vec![cluster_named(&holder.cluster)];
        named.extend(holder.pool.clone().map(|pool| (Kind::ClusterPool, pool)));
        named
    }
}

impl Refers for BareMetalHost {
    const LISTED_WITH: &'static [Kind] = &[Kind::Secret, Kind::ClusterDeployment];

    fn references(&self) -> Vec<NamedObject> {
        let mut named: Vec<NamedObject> = self.cluster().map(cluster_named).into_iter().collect();
        let credentials = self.spec.bmc.as_ref().map(|bmc| bmc.credentials_name.as_str());
        named.extend(secrets_named(&self.metadata.namespace, [credentials]));
        named
    }
}

impl Refers for InfraEnv {
    const LISTED_WITH: &'static [Kind] = &[Kind::Secret, Kind::ClusterDeployment];

    fn references(&self) -> Vec<NamedObject> {
        let cluster = self.cluster_key().map(|key| cluster_named(&key.name));
        let mut named: Vec<NamedObject> = cluster.into_iter().collect();
        let pull_secret = name_of(Some(&self.spec.pull_secret_ref));
        named.extend(secrets_named(&self.metadata.namespace, [pull_secret]));
        named
    }
}

impl Refers for Agent {
    const LISTED_WITH: &'static [Kind] =
        &[Kind::InfraEnv, Kind::BareMetalHost, Kind::ClusterDeployment];

    fn references(&self) -> Vec<NamedObject> {
        let mut named = Vec::new();
        let cluster = self.bound_cluster().or(self.requested_cluster());
        named.extend(cluster.map(|key| cluster_named(&key.name)));
        named.extend(self.infra_env_key().map(|key| (Kind::InfraEnv, key)));
        named.extend(self.host_key().map(|key| (Kind::BareMetalHost, key)));
        named
    }
}

/// The pool of an address, which another namespace may share.
fn leased_pool(own_namespace: &str, pool: &Reference) -> Key {
    let namespace = if pool.namespace.is_empty() { own_namespace } else { &pool.namespace };
    Key::new(namespace, &*pool.name)
}

impl Refers for IpClaim {
    fn references(&self) -> Vec<NamedObject> {
        let namespace = self.metadata.namespace.as_str();
        let mut named = vec![(Kind::IpPool, leased_pool(namespace, &self.spec.pool))];
        let address = self.status.address.as_ref();
        named.extend(address.map(|name| (Kind::IpAddress, Key::new(namespace, &*name.name))));
        named
    }
}

impl Refers for IpAddress {
    fn references(&self) -> Vec<NamedObject> {
        let namespace = self.metadata.namespace.as_str();
        let mut named = vec![(Kind::IpPool, leased_pool(namespace, &self.spec.pool))];
        // An address that was leased by hand has no claim.
        let claim = self.spec.claim.name.as_str();
        if !claim.is_empty() {
            named.push((Kind::IpClaim, Key::new(namespace, claim)));
        }
        named
    }
}

impl Refers for Metal3DataClaim {
    const LISTED_WITH: &'static [Kind] = &[Kind::DataTemplate];

    fn references(&self) -> Vec<NamedObject> {
        let namespace = self.metadata.namespace.as_str();
        let mut named = vec![(Kind::DataTemplate, Key::new(namespace, &*self.spec.template.name))];
        let data = self.status.rendered_data.as_ref();
        named.extend(data.map(|data| (Kind::Metal3Data, Key::new(namespace, &*data.name))));
        named
    }
}

impl Refers for Metal3Data {
    const LISTED_WITH: &'static [Kind] = &[Kind::DataTemplate];

    fn references(&self) -> Vec<NamedObject> {
        vec![(Kind::DataTemplate, self.template_key())]
    }
}
