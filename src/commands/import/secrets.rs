//! Secrets and ConfigMaps in the dump of a hub that belong to other programs: `oc get secret -A`
//! prints those of the whole platform. They are left out, so that no state keeps what it does not
//! need, least of all credentials.

use std::collections::{BTreeSet, HashSet};

use crate::manifest::Manifests;
use crate::model::kinds::Kind;
use crate::model::refers::NamedObject;

use crate::commands::count_of;

/// Leaves out Secrets and ConfigMaps that a server of Kubernetes has printed, unless something of the
/// file names them. Secrets also stay that are in the namespaces of the file's objects. What a
/// person or poolctl has written down is all kept.
pub fn leave_out_foreign_objects(manifests: &mut Manifests) {
    let mut namespaces: HashSet<String> = HashSet::new();
    let mut named_objects: HashSet<NamedObject> = HashSet::new();
    for object in &manifests.objects {
        let is_of_platform = matches!(
            object.kind(),
            Kind::Secret | Kind::ConfigMap | Kind::Namespace | Kind::RoleBinding
        );
        if !is_of_platform {
            namespaces.insert(object.key().namespace);
        }
        named_objects.extend(object.references());
    }
    for kind in [Kind::Secret, Kind::ConfigMap] {
        let mut foreign_namespaces: BTreeSet<String> = BTreeSet::new();
        let count_before = manifests.objects.len();
        let server_objects = &manifests.server_objects;
        manifests.objects.retain(|object| {
            let named = (kind, object.key());
            let is_needed = object.kind() != kind
                || (kind == Kind::Secret && namespaces.contains(&named.1.namespace))
                || named_objects.contains(&named);
            let is_foreign = !is_needed && server_objects.contains(&named);
            if is_foreign {
                foreign_namespaces.insert(named.1.namespace);
            }
            !is_foreign
        });
        let count = count_before - manifests.objects.len();
        if count > 0 {
            let objects = count_of(count, kind.word());
            let namespaces: Vec<String> = foreign_namespaces.into_iter().collect();
            manifests.warnings.push(format!(
                "{objects} left out, which nothing in the file needs; namespaces: {}",
                namespaces.join(", ")
            ));
        }
    }
}
