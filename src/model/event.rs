//! What happened, to what, because of whom.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kinds::Kind;
use super::meta::Key;
use super::time::Time;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub time: Time,
    /// Normal, or Warning.
    pub warning: bool,
    pub reason: String,
    /// Kind of the object, as on the wire.
    pub kind: &'static str,
    pub object: Key,
    pub actor: String,
    pub message: String,
    /// Of what happened to an Agent: where else it is seen.
    pub infra_env: Option<Key>,
    pub cluster: Option<Key>,
}

/// An event as the wire has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventDocument {
    /// Normal or Warning.
    #[serde(rename = "type")]
    pub kind: String,
    /// One word for what happened.
    #[serde(default)]
    pub reason: String,
    /// The same in a sentence.
    #[serde(default)]
    pub message: String,
    /// What it happened to.
    pub involved_object: Involved,
    /// When.
    #[serde(default)]
    pub event_time: Option<Time>,
    /// When, as older servers spell it.
    #[serde(default, skip_serializing)]
    pub last_timestamp: Option<Time>,
    /// The program that saw it.
    #[serde(default)]
    pub reporting_component: String,
    /// Who made it happen.
    #[serde(default)]
    pub source: Source,
    /// The `InfraEnv` and the cluster it is seen in as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Involved>,
}

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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// The account.
    #[serde(default)]
    pub component: String,
}

impl Involved {
    fn of(kind: Kind, key: &Key) -> Self {
        let (namespace, name) = (key.namespace.clone(), key.name.clone());
        Self { kind: kind.name().into(), namespace, name }
    }
}

impl Event {
    pub fn to_wire(&self) -> EventDocument {
        EventDocument {
            kind: if self.warning { "Warning" } else { "Normal" }.into(),
            reason: self.reason.clone(),
            message: self.message.clone(),
            involved_object: Involved {
                kind: self.kind.into(),
                namespace: self.object.namespace.clone(),
                name: self.object.name.clone(),
            },
            event_time: Some(self.time),
            last_timestamp: None,
            reporting_component: "poolctl".into(),
            source: Source { component: self.actor.clone() },
            scopes: [(Kind::InfraEnv, &self.infra_env), (Kind::ClusterDeployment, &self.cluster)]
                .into_iter()
                .filter_map(|(kind, key)| Some(Involved::of(kind, key.as_ref()?)))
                .collect(),
        }
    }

    /// None for events of kinds that are not kept here.
    pub fn from_wire(wire: EventDocument) -> Option<Self> {
        let involved = wire.involved_object;
        let scope = |kind: Kind| {
            let one = wire.scopes.iter().find(|one| one.kind == kind.name())?;
            Some(Key::new(&*one.namespace, &*one.name))
        };
        let (infra_env, cluster) = (scope(Kind::InfraEnv), scope(Kind::ClusterDeployment));
        Some(Self {
            time: wire.event_time.or(wire.last_timestamp).unwrap_or_default(),
            warning: wire.kind == "Warning",
            reason: wire.reason,
            kind: Kind::from_name(&involved.kind)?.name(),
            object: Key::new(involved.namespace, involved.name),
            actor: wire.source.component,
            message: wire.message,
            infra_env,
            cluster,
        })
    }
}
