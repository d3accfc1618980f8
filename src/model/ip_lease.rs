//! Leases of addresses. IPClaim and IPAddress are two views of one row.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::Addr;
use super::ip_pool::{IpPool, Network, WANTED};
use super::kinds::Kind;
use super::lease::{ClusterHolder, Holder, Lease, Resource, owner_reference};
use super::meta::{Key, Meta};
use super::time::Time;

/// What of a cluster has an address beside its hosts.
pub const VIPS: [&str; 2] = ["api", "ingress"];

/// A claim, and the address it has, if it has one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IpLease {
    pub namespace: String,
    pub claim: String,
    pub pool: String,
    /// None: it waits.
    pub address: Option<Addr>,
    /// As the pool had it when the address was given.
    pub network: Network,
    pub created: Time,
    /// Since when it has its address.
    pub leased: Option<Time>,
    /// The cluster that it goes with, and the host that it is for. None: it is its claim's alone.
    pub holder: Option<ClusterHolder>,
    /// Whether somebody claimed it; else it was leased by hand, for a claim of that name.
    pub claimed: bool,
    pub deleting: Option<Time>,
    /// Why it waits.
    pub error: String,
    /// What else its IPClaim and its IPAddress say of themselves.
    pub notes: Option<Box<Notes>>,
    /// Order of insertion of one that waits.
    pub id: i64,
}

/// Metadata of both beyond their names, their times and their holder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Notes {
    pub claim: Meta,
    pub address: Meta,
}

impl IpLease {
    pub fn key(&self) -> Key {
        Key::new(&*self.namespace, &*self.claim)
    }

    pub fn pool_key(&self) -> Key {
        Key::new(&*self.namespace, &*self.pool)
    }

    /// The cluster that it goes with.
    pub fn cluster(&self) -> Option<&str> {
        Some(&self.holder.as_ref()?.cluster)
    }

    /// The Agent whose host has this address in its cluster. None for the addresses of the cluster's
    /// API and ingress, and for a claim that goes with no cluster.
    pub fn agent(&self) -> Option<&str> {
        self.holder.as_ref()?.agent.as_deref()
    }

    /// Whether it is the address of a host, by the name of its Agent, in a cluster.
    pub fn is_of_host(&self, cluster: &str, agent: &str) -> bool {
        self.cluster() == Some(cluster) && self.agent() == Some(agent)
    }

    /// From here on it stays until somebody releases it. Its claim still names the owners.
    pub fn keep_without_cluster(&mut self) {
        if let Some(holder) = self.holder.take() {
            let owners = holder.owner_references();
            self.claim_meta_mut().owner_references.splice(0..0, owners);
        }
    }

    /// Whether finalizers keep its claim.
    pub fn is_kept(&self) -> bool {
        self.holder.is_some() || self.claim_meta().is_some_and(|meta| !meta.finalizers.is_empty())
    }

    /// None of a claim that waits.
    pub fn lease(&self) -> Option<Lease> {
        let resource =
            Resource::Address { namespace: self.namespace.clone(), address: self.address? };
        let by_hand = !self.claimed;
        Some(Lease { by_hand, ..Lease::new(resource, Holder::Claim(self.key())) })
    }

    pub fn claim_meta(&self) -> Option<&Meta> {
        Some(&self.notes.as_ref()?.claim)
    }

    /// What its IPClaim says of itself and of its holder, as on the wire.
    pub fn claim_metadata(&self) -> Meta {
        let mut metadata = self.claim_meta().cloned().unwrap_or_default();
        if let Some(holder) = &self.holder {
            holder.write_to(&mut metadata);
        }
        metadata
    }

    pub fn claim_meta_mut(&mut self) -> &mut Meta {
        &mut self.notes.get_or_insert_default().claim
    }

    /// The address it asks for, as it is written.
    pub fn wanted(&self) -> Option<&str> {
        self.claim_meta()?.annotation(WANTED).filter(|text| !text.is_empty())
    }

    pub fn to_claim(&self, name: &str) -> IpClaim {
        let metadata = Meta {
            name: self.claim.clone(),
            namespace: self.namespace.clone(),
            creation_timestamp: Some(self.created),
            deletion_timestamp: self.deleting,
            ..self.claim_metadata()
        };
        let reference = Reference {
            name: name.into(),
            namespace: self.namespace.clone(),
            ..Reference::default()
        };
        let address = self.address.map(|_| reference);
        let status = IpClaimStatus { address, ip_address: None, error_message: self.error.clone() };
        let pool = Reference { name: self.pool.clone(), ..Reference::default() };
        IpClaim { metadata, spec: IpClaimSpec { pool, owner: None }, status }
    }

    /// None of one that waits.
    pub fn to_address(&self, name: &str) -> Option<IpAddress> {
        let address = self.address?;
        let note = self.notes.as_ref().map(|notes| notes.address.clone()).unwrap_or_default();
        let labels = if note.labels.is_empty() {
            self.claim_meta().map(|meta| meta.labels.clone()).unwrap_or_default()
        } else {
            note.labels.clone()
        };
        let mut owners = vec![owner_reference(Kind::IpPool, &self.pool)];
        owners.extend(self.claimed.then(|| owner_reference(Kind::IpClaim, &self.claim)));
        owners.extend(note.owner_references);
        let metadata = Meta {
            name: name.into(),
            namespace: self.namespace.clone(),
            creation_timestamp: Some(self.leased.unwrap_or(self.created)),
            labels,
            annotations: note.annotations,
            finalizers: note.finalizers,
            uid: note.uid,
            owner_references: owners,
            ..Meta::default()
        };
        let Network { prefix, gateway, dns_servers } = self.network.clone();
        let named = |name: &str| Reference { name: name.into(), ..Reference::default() };
        Some(IpAddress {
            metadata,
            spec: IpAddressSpec {
                address: address.to_string(),
                prefix: (prefix > 0).then_some(i64::from(prefix)),
                gateway,
                dns_servers,
                pool: named(&self.pool),
                claim: named(&self.claim),
            },
            status: None,
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IpClaim {
    /// Name, namespace, labels; annotation ipAddress asks for one address.
    pub metadata: Meta,
    /// Of which pool.
    pub spec: IpClaimSpec,
    /// What it got, kept by poolctl.
    #[serde(default)]
    pub status: IpClaimStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IpClaimSpec {
    /// The IPPool.
    pub pool: Reference,
    /// For whom; accepted, not kept.
    #[serde(default, skip_serializing)]
    pub owner: Option<Reference>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IpClaimStatus {
    /// Its IPAddress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Reference>,
    /// The same, as the first design called it; accepted, not kept.
    #[serde(skip_serializing)]
    pub ip_address: Option<Reference>,
    /// Why it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error_message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reference {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its namespace; that of whoever refers to it, unless given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its group and version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Its group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// Its uid; accepted, not used.
    #[serde(default, skip_serializing)]
    pub uid: String,
    /// Accepted, not used.
    #[serde(default, skip_serializing)]
    pub resource_version: String,
    /// Accepted, not used.
    #[serde(default, skip_serializing)]
    pub field_path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IpAddress {
    /// Name, namespace, labels.
    pub metadata: Meta,
    /// The lease.
    pub spec: IpAddressSpec,
    /// Accepted, not kept.
    #[serde(default, skip_serializing)]
    pub status: Option<AnyStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AnyStatus {
    /// Accepted, not kept.
    pub ready: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IpAddressSpec {
    /// The address.
    pub address: String,
    /// Length of the network prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<i64>,
    /// Gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// DNS servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<String>,
    /// The IPPool.
    pub pool: Reference,
    /// The IPClaim.
    pub claim: Reference,
}

/// What a pool's lease is called.
pub fn address_name(pool: &IpPool, lease: &IpLease) -> String {
    // One that was made by hand may be called otherwise.
    let given = lease.notes.as_ref().map(|notes| notes.address.name.clone());
    let usual = || lease.address.map(|address| pool.name_of(address));
    given.filter(|name| !name.is_empty()).or_else(usual).unwrap_or_default()
}
