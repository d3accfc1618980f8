//! Namespaces as they are listed: those that were applied, `default`, and those that clusters have. A
//! cluster that is alone in a namespace of its own name brings that along, with Hive's label, and takes
//! it away again. Such a namespace is in no table: it follows from the cluster.

use std::collections::HashMap;

use crate::model::cluster::Cluster;
use crate::model::documents::{CLUSTER_POOL_LABEL, DEFAULT_NAMESPACE, Namespace, NamespaceOrigin};
use crate::model::meta::Meta;
use crate::model::object::{Object, Resource};
use crate::model::refusal::Refusal;

use super::connection::Store;
use super::filter::Filter;

impl Store {
    /// Adds to the namespaces that were applied those that are there without it, as far as a filter
    /// names them.
    pub(super) fn add_implied_namespaces(
        &self,
        objects: &mut Vec<Object>,
        filter: &Filter,
    ) -> Result<(), Refusal> {
        self.add_namespaces_of_clusters(objects, filter)?;
        let is_wanted = filter.name.as_ref().is_none_or(|name| name == DEFAULT_NAMESPACE);
        if is_wanted && objects.iter().all(|object| object.key().name != DEFAULT_NAMESPACE) {
            let metadata = Meta { name: DEFAULT_NAMESPACE.into(), ..Meta::default() };
            let origin = NamespaceOrigin::EveryState;
            objects.insert(0, Namespace { metadata, origin, ..Namespace::default() }.into_object());
        }
        Ok(())
    }

    /// Adds to the namespaces that were applied those of the clusters that a filter names. A
    /// namespace that is both stays what it is, with the label of the other.
    fn add_namespaces_of_clusters(
        &self,
        objects: &mut Vec<Object>,
        filter: &Filter,
    ) -> Result<(), Refusal> {
        let mut places = HashMap::new();
        for (place, object) in objects.iter().enumerate() {
            places.insert(object.key().name, place);
        }
        let by_name = Filter { name: filter.name.clone(), ..Filter::default() };
        for cluster in self.list::<Cluster>(&by_name)? {
            if cluster.namespace != cluster.name {
                continue;
            }
            let implied = namespace_of(&cluster);
            let applied = places.get(&cluster.name).and_then(|place| objects.get_mut(*place));
            match applied.and_then(Object::meta_mut) {
                Some(meta) => meta.labels.extend(implied.metadata.labels),
                None => objects.push(implied.into_object()),
            }
        }
        Ok(())
    }
}

/// The namespace that a cluster brings along.
fn namespace_of(cluster: &Cluster) -> Namespace {
    let mut metadata = Meta {
        name: cluster.name.clone(),
        creation_timestamp: Some(cluster.created),
        generation: 1,
        ..Meta::default()
    };
    if let Some(pool) = &cluster.pool {
        metadata.labels.insert(CLUSTER_POOL_LABEL.into(), pool.name.clone());
    }
    let origin = NamespaceOrigin::Cluster(cluster.name.clone());
    Namespace { metadata, origin, ..Namespace::default() }
}
