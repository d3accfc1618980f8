//! An object of any kind, for what is the same with all of them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::agent::Agent;
use super::claim::{Claim, ClusterClaim};
use super::cluster::Cluster;
use super::customization::Customization;
use super::data_template::Metal3DataTemplate;
use super::deployment::ClusterDeployment;
use super::documents::{ClusterImageSet, Namespace, RoleBinding, Secret, Settings};
use super::event::EventDocument;
use super::host::BareMetalHost;
use super::infra_env::InfraEnv;
use super::ip_lease::{IpAddress, IpClaim};
use super::ip_pool::IpPool;
use super::job::JobDocument;
use super::kind::Kind;
use super::meta::{Key, Meta};
use super::nmstate_config::NMStateConfig;
use super::pool::ClusterPool;

#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    Pool(Box<ClusterPool>),
    Claim(Box<Claim>),
    Cluster(Box<Cluster>),
    Customization(Box<Customization>),
    ImageSet(ClusterImageSet),
    Host(Box<BareMetalHost>),
    Secret(Secret),
    Namespace(Namespace),
    RoleBinding(RoleBinding),
    Settings(Settings),
    IpPool(Box<IpPool>),
    IpClaim(Box<IpClaim>),
    IpAddress(Box<IpAddress>),
    DataTemplate(Box<Metal3DataTemplate>),
    InfraEnv(Box<InfraEnv>),
    Agent(Box<Agent>),
    NMStateConfig(Box<NMStateConfig>),
}

impl Object {
    /// Reads a checked document.
    pub fn from_wire(kind: Kind, wire: Value) -> Result<Self, serde_json::Error> {
        fn read<T: DeserializeOwned>(mut wire: Value) -> Result<T, serde_json::Error> {
            if let Some(fields) = wire.as_object_mut() {
                fields.remove("apiVersion");
                fields.remove("kind");
            }
            serde_json::from_value(wire)
        }
        Ok(match kind {
            Kind::ClusterPool => Self::Pool(read(wire)?),
            Kind::ClusterClaim => Self::Claim(Box::new(Claim::from_wire(read(wire)?))),
            Kind::ClusterDeployment => Self::Cluster(Box::new(Cluster::from_wire(read(wire)?))),
            Kind::Customization => Self::Customization(read(wire)?),
            Kind::ClusterImageSet => Self::ImageSet(read(wire)?),
            Kind::BareMetalHost => Self::Host(read(wire)?),
            Kind::Secret => Self::Secret(read(wire)?),
            Kind::Namespace => Self::Namespace(read(wire)?),
            Kind::RoleBinding => Self::RoleBinding(read(wire)?),
            Kind::Settings => Self::Settings(read(wire)?),
            Kind::IpPool => Self::IpPool(read(wire)?),
            Kind::IpClaim => Self::IpClaim(read(wire)?),
            Kind::IpAddress => Self::IpAddress(read(wire)?),
            Kind::DataTemplate => Self::DataTemplate(read(wire)?),
            Kind::InfraEnv => Self::InfraEnv(read(wire)?),
            Kind::Agent => Self::Agent(read(wire)?),
            Kind::NMStateConfig => Self::NMStateConfig(read(wire)?),
            Kind::Job | Kind::Event => {
                return Err(serde::de::Error::custom("is made by poolctl, not applied"));
            }
        })
    }

    /// The whole document. Clusters and claims need their bodies.
    pub fn to_wire(&self) -> Value {
        let kind = self.kind();
        match self {
            Self::Pool(one) => wired(kind, one),
            Self::Claim(one) => wired(kind, &one.to_wire()),
            Self::Cluster(one) => wired(kind, &one.to_wire()),
            Self::Customization(one) => wired(kind, one),
            Self::ImageSet(one) => wired(kind, one),
            Self::Host(one) => wired(kind, one),
            Self::Secret(one) => wired(kind, one),
            Self::Namespace(one) => wired(kind, one),
            Self::RoleBinding(one) => wired(kind, one),
            Self::Settings(one) => wired(kind, one),
            Self::IpPool(one) => wired(kind, one),
            Self::IpClaim(one) => wired(kind, one),
            Self::IpAddress(one) => wired(kind, one),
            Self::DataTemplate(one) => wired(kind, one),
            Self::InfraEnv(one) => wired(kind, one),
            Self::Agent(one) => wired(kind, one),
            Self::NMStateConfig(one) => wired(kind, one),
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Pool(_) => Kind::ClusterPool,
            Self::Claim(_) => Kind::ClusterClaim,
            Self::Cluster(_) => Kind::ClusterDeployment,
            Self::Customization(_) => Kind::Customization,
            Self::ImageSet(_) => Kind::ClusterImageSet,
            Self::Host(_) => Kind::BareMetalHost,
            Self::Secret(_) => Kind::Secret,
            Self::Namespace(_) => Kind::Namespace,
            Self::RoleBinding(_) => Kind::RoleBinding,
            Self::Settings(_) => Kind::Settings,
            Self::IpPool(_) => Kind::IpPool,
            Self::IpClaim(_) => Kind::IpClaim,
            Self::IpAddress(_) => Kind::IpAddress,
            Self::DataTemplate(_) => Kind::DataTemplate,
            Self::InfraEnv(_) => Kind::InfraEnv,
            Self::Agent(_) => Kind::Agent,
            Self::NMStateConfig(_) => Kind::NMStateConfig,
        }
    }

    pub fn key(&self) -> Key {
        match self {
            Self::Claim(one) => one.key(),
            Self::Cluster(one) => one.key(),
            _ => self.meta().map(Meta::key).unwrap_or_default(),
        }
    }

    /// What of the metadata the object keeps itself: all of it, but for clusters and claims.
    pub fn meta(&self) -> Option<&Meta> {
        match self {
            Self::Pool(one) => Some(&one.metadata),
            Self::Claim(one) => one.body.as_ref().map(|body| &body.metadata),
            Self::Cluster(one) => one.body.as_ref().map(|body| &body.metadata),
            Self::Customization(one) => Some(&one.metadata),
            Self::ImageSet(one) => Some(&one.metadata),
            Self::Host(one) => Some(&one.metadata),
            Self::Secret(one) => Some(&one.metadata),
            Self::Namespace(one) => Some(&one.metadata),
            Self::RoleBinding(one) => Some(&one.metadata),
            Self::Settings(one) => Some(&one.metadata),
            Self::IpPool(one) => Some(&one.metadata),
            Self::IpClaim(one) => Some(&one.metadata),
            Self::IpAddress(one) => Some(&one.metadata),
            Self::DataTemplate(one) => Some(&one.metadata),
            Self::InfraEnv(one) => Some(&one.metadata),
            Self::Agent(one) => Some(&one.metadata),
            Self::NMStateConfig(one) => Some(&one.metadata),
        }
    }

    pub fn meta_mut(&mut self) -> Option<&mut Meta> {
        match self {
            Self::Pool(one) => Some(&mut one.metadata),
            Self::Claim(one) => one.body.as_mut().map(|body| &mut body.metadata),
            Self::Cluster(one) => one.body.as_mut().map(|body| &mut body.metadata),
            Self::Customization(one) => Some(&mut one.metadata),
            Self::ImageSet(one) => Some(&mut one.metadata),
            Self::Host(one) => Some(&mut one.metadata),
            Self::Secret(one) => Some(&mut one.metadata),
            Self::Namespace(one) => Some(&mut one.metadata),
            Self::RoleBinding(one) => Some(&mut one.metadata),
            Self::Settings(one) => Some(&mut one.metadata),
            Self::IpPool(one) => Some(&mut one.metadata),
            Self::IpClaim(one) => Some(&mut one.metadata),
            Self::IpAddress(one) => Some(&mut one.metadata),
            Self::DataTemplate(one) => Some(&mut one.metadata),
            Self::InfraEnv(one) => Some(&mut one.metadata),
            Self::Agent(one) => Some(&mut one.metadata),
            Self::NMStateConfig(one) => Some(&mut one.metadata),
        }
    }

    pub fn labels(&self) -> BTreeMap<String, String> {
        self.meta().map(|meta| meta.labels.clone()).unwrap_or_default()
    }
}

/// The fields of a kind with their types and help, as JSON Schema.
pub fn schema(kind: Kind) -> &'static Value {
    static SCHEMAS: [OnceLock<Value>; Kind::ALL.len()] =
        [const { OnceLock::new() }; Kind::ALL.len()];
    SCHEMAS[kind as usize].get_or_init(|| generate(kind))
}

fn generate(kind: Kind) -> Value {
    fn of<T: JsonSchema>() -> Value {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
        });
        settings.into_generator().into_root_schema_for::<T>().to_value()
    }
    match kind {
        Kind::ClusterPool => of::<ClusterPool>(),
        Kind::ClusterClaim => of::<ClusterClaim>(),
        Kind::ClusterDeployment => of::<ClusterDeployment>(),
        Kind::Customization => of::<Customization>(),
        Kind::ClusterImageSet => of::<ClusterImageSet>(),
        Kind::BareMetalHost => of::<BareMetalHost>(),
        Kind::Secret => of::<Secret>(),
        Kind::Namespace => of::<Namespace>(),
        Kind::RoleBinding => of::<RoleBinding>(),
        Kind::Settings => of::<Settings>(),
        Kind::IpPool => of::<IpPool>(),
        Kind::IpClaim => of::<IpClaim>(),
        Kind::IpAddress => of::<IpAddress>(),
        Kind::DataTemplate => of::<Metal3DataTemplate>(),
        Kind::InfraEnv => of::<InfraEnv>(),
        Kind::Agent => of::<Agent>(),
        Kind::NMStateConfig => of::<NMStateConfig>(),
        Kind::Job => of::<JobDocument>(),
        Kind::Event => of::<EventDocument>(),
    }
}

/// A document with its kind before it.
pub fn wired(kind: Kind, body: &impl Serialize) -> Value {
    let mut wire = json!({"apiVersion": kind.api_version(), "kind": kind.name()});
    if let (Some(wire), Ok(Value::Object(body))) =
        (wire.as_object_mut(), serde_json::to_value(body))
    {
        wire.extend(body);
    }
    wire
}
