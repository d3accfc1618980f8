//! Events: what happened, to which object, and because of whom. It does not say when one is
//! recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kinds::Kind;
use super::meta::Key;
use super::time::Time;

/// Whether an event says that something went wrong; the `type` of an event on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventType {
    #[default]
    Normal,
    Warning,
}

impl EventType {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }

    /// Warning if something went wrong.
    pub fn warning_if(is_wrong: bool) -> Self {
        if is_wrong { Self::Warning } else { Self::Normal }
    }
}

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub time: Time,
    pub event_type: EventType,
    /// A name of `EventReason`, or that of an event which another program recorded.
    pub reason: String,
    /// Kind of the object, as on the wire.
    pub kind: &'static str,
    pub object: Key,
    /// The account that made it happen.
    pub actor: String,
    pub message: String,
    /// The `InfraEnv` of an Agent, among whose events this one is listed, too.
    pub infra_env: Option<Key>,
    /// The cluster of an Agent, among whose events this one is listed, too.
    pub cluster: Option<Key>,
    /// The pool that a new claim asked for a cluster. How busy a pool was is found by it after its
    /// claims are gone.
    pub pool: Option<Key>,
}

/// An event as the wire has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventDocument {
    /// Type of the event: Normal or Warning.
    #[serde(rename = "type")]
    pub kind: String,
    /// What happened, in one word.
    #[serde(default)]
    pub reason: String,
    /// What happened, in a sentence.
    #[serde(default)]
    pub message: String,
    /// The object to which it happened.
    pub involved_object: Involved,
    /// When it happened.
    #[serde(default)]
    pub event_time: Option<Time>,
    /// The same time, in the field of older versions of Kubernetes.
    #[serde(default, skip_serializing)]
    pub last_timestamp: Option<Time>,
    /// The program that recorded the event.
    #[serde(default)]
    pub reporting_component: String,
    /// The account that caused the event.
    #[serde(default)]
    pub source: Source,
    /// The `InfraEnv` and the cluster whose events include this event, and the pool of a new claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Involved>,
}

/// The object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Involved {
    /// Kind of the object.
    pub kind: String,
    /// Its namespace, empty for kinds that have none.
    #[serde(default)]
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The program that recorded the event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// The account.
    #[serde(default)]
    pub component: String,
}

impl Involved {
    fn new(kind: &str, key: &Key) -> Self {
        Self { kind: kind.into(), namespace: key.namespace.clone(), name: key.name.clone() }
    }
}

impl Event {
    /// The event in the wire format of Kubernetes. What it is about comes first: the object, then
    /// its InfraEnv, cluster and pool.
    pub fn to_wire(&self) -> EventDocument {
        let infra_env = self.infra_env.as_ref();
        let cluster = self.cluster.as_ref();
        let pool = self.pool.as_ref();
        let mut scopes = Vec::new();
        scopes.extend(infra_env.map(|key| Involved::new(Kind::InfraEnv.name(), key)));
        scopes.extend(cluster.map(|key| Involved::new(Kind::ClusterDeployment.name(), key)));
        scopes.extend(pool.map(|key| Involved::new(Kind::ClusterPool.name(), key)));
        EventDocument {
            kind: self.event_type.name().into(),
            reason: self.reason.clone(),
            message: self.message.clone(),
            involved_object: Involved::new(self.kind, &self.object),
            event_time: Some(self.time),
            last_timestamp: None,
            reporting_component: "poolctl".into(),
            source: Source { component: self.actor.clone() },
            scopes,
        }
    }

    /// None for an event of an object whose kind is not kept here.
    pub fn from_wire(wire: EventDocument) -> Option<Self> {
        let involved = wire.involved_object;
        Some(Self {
            time: wire.event_time.or(wire.last_timestamp).unwrap_or_default(),
            event_type: EventType::warning_if(wire.kind == EventType::Warning.name()),
            reason: wire.reason,
            kind: Kind::from_name(&involved.kind)?.name(),
            object: Key::new(involved.namespace, involved.name),
            actor: wire.source.component,
            message: wire.message,
            infra_env: find_scope(&wire.scopes, Kind::InfraEnv),
            cluster: find_scope(&wire.scopes, Kind::ClusterDeployment),
            pool: find_scope(&wire.scopes, Kind::ClusterPool),
        })
    }
}

fn find_scope(scopes: &[Involved], kind: Kind) -> Option<Key> {
    let scope = scopes.iter().find(|scope| scope.kind == kind.name())?;
    Some(Key::new(&*scope.namespace, &*scope.name))
}
