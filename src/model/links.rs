//! The names by which documents are looked up in their tables, beside their own. A name that many
//! documents have in common stands for all of them.

use std::borrow::Cow;

use super::agent::Agent;
use super::customization::Customization;
use super::data_template::Metal3DataTemplate;
use super::documents::Secret;
use super::host::BareMetalHost;
use super::infra_env::InfraEnv;
use super::ip_pool::IpPool;
use super::nmstate_config::NMStateConfig;
use super::pool::ClusterPool;

/// A document that may be looked up by other names than its own.
pub trait Linked {
    /// None, unless a kind says otherwise.
    fn links(&self) -> Vec<Cow<'_, str>> {
        Vec::new()
    }
}

impl Linked for Agent {
    /// The cluster that it is bound to.
    fn links(&self) -> Vec<Cow<'_, str>> {
        self.status.bound_to.iter().map(|cluster| Cow::from(&cluster.name)).collect()
    }
}

impl Linked for BareMetalHost {
    /// The cluster that uses it.
    fn links(&self) -> Vec<Cow<'_, str>> {
        self.cluster().map(Cow::from).into_iter().collect()
    }
}

impl Linked for Customization {
    /// The name in DNS that it keeps for a cluster which was left running.
    fn links(&self) -> Vec<Cow<'_, str>> {
        let name = &self.status.preserved_name;
        if name.is_empty() { Vec::new() } else { vec![name.into()] }
    }
}

impl Linked for ClusterPool {}
impl Linked for InfraEnv {}
impl Linked for IpPool {}
impl Linked for Metal3DataTemplate {}
impl Linked for NMStateConfig {}
impl Linked for Secret {}
