//! The annotations of other projects that poolctl reads: those of Hive, metal3, assisted installer and
//! Cluster API. Each is declared once for people, beside the constant that code uses. What they do is
//! decided elsewhere.

use super::annotations::{Annotation, AnnotationValue, FIRST_RELEASE};
use super::cluster::{
    DELETE_AFTER, POWER_PAUSED, PROTECTED_DELETE, REMOVE_FROM_POOL, TRY_INSTALL_ONCE,
};
use super::driver::FAKE_CLUSTER;
use super::host::{
    CLUSTER_REFERENCE, DETACHED, HOST_PAUSE_ANNOTATIONS, INSPECT, REBOOT, ROLE_ANNOTATION,
};
use super::ip_pool::{CAPI_PAUSED, REQUESTED_ADDRESS};
use super::kinds::Kind;
use super::pool::RECONCILE_PAUSE;

const CLUSTERS: &[Kind] = &[Kind::ClusterDeployment];
const HOSTS: &[Kind] = &[Kind::BareMetalHost];

/// Annotations that are declared elsewhere and read here, in the order of their projects.
pub const FOREIGN_ANNOTATIONS: &[Annotation] = &[
    foreign(
        FAKE_CLUSTER,
        "Whether the cluster is simulated: nothing is installed.",
        CLUSTERS,
        AnnotationValue::Bool,
    ),
    foreign(
        RECONCILE_PAUSE,
        "Pauses the object: nothing is done with it. On IPPools and IPClaims any value does so.",
        &[Kind::ClusterPool, Kind::ClusterDeployment, Kind::IpPool, Kind::IpClaim],
        AnnotationValue::Bool,
    ),
    foreign(
        PROTECTED_DELETE,
        "Keeps the cluster from being destroyed.",
        CLUSTERS,
        AnnotationValue::Bool,
    ),
    foreign(
        DELETE_AFTER,
        "How long after its creation the cluster is deleted, whoever has it.",
        CLUSTERS,
        AnnotationValue::Duration,
    ),
    foreign(
        POWER_PAUSED,
        "Leaves the power of the cluster as it is.",
        CLUSTERS,
        AnnotationValue::Bool,
    ),
    foreign(
        TRY_INSTALL_ONCE,
        "Gives the cluster up when its first installation fails.",
        CLUSTERS,
        AnnotationValue::Bool,
    ),
    foreign(REMOVE_FROM_POOL, "Has the pool remove this cluster.", CLUSTERS, AnnotationValue::Bool),
    foreign(
        CAPI_PAUSED,
        "Pauses the object, whatever the value is.",
        &[Kind::ClusterDeployment, Kind::IpPool, Kind::IpClaim],
        AnnotationValue::Presence,
    ),
    foreign(
        REQUESTED_ADDRESS,
        "The address that the claim asks for.",
        &[Kind::IpClaim],
        AnnotationValue::Text,
    ),
    foreign(
        REBOOT,
        "Powers the host off and on, once: nothing, or JSON with the mode hard or soft.",
        HOSTS,
        AnnotationValue::Text,
    ),
    foreign(INSPECT, "Asks for another inspection of the host.", HOSTS, AnnotationValue::Presence),
    foreign(
        HOST_PAUSE_ANNOTATIONS[0],
        "Pauses the host: nothing is done to it.",
        HOSTS,
        AnnotationValue::Presence,
    ),
    foreign(
        DETACHED,
        "Leaves the host alone while it goes on working.",
        HOSTS,
        AnnotationValue::Presence,
    ),
    foreign(ROLE_ANNOTATION, "The role of the host in its cluster.", HOSTS, AnnotationValue::Text),
    foreign(
        CLUSTER_REFERENCE,
        "The cluster that the host is to belong to, as NAMESPACE/NAME; empty for none.",
        HOSTS,
        AnnotationValue::Text,
    ),
];

const fn foreign(
    name: &'static str,
    about: &'static str,
    kinds: &'static [Kind],
    value: AnnotationValue,
) -> Annotation {
    Annotation { name, about, kinds, value, default: None, since: FIRST_RELEASE }
}
