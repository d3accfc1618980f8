//! Leases of addresses. A lease is one row; IPClaim and IPAddress are made from it when they are
//! read. It never chooses an address.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::Addr;
use super::annotations::CLUSTER_API;
use super::cluster_api::ClusterApiOrigin;
use super::condition::{Condition, ConditionReason, ConditionType};
use super::ip_pool::{AddressNetwork, IpPool, REQUESTED_ADDRESS};
use super::kinds::Kind;
use super::lease::{ClusterHolder, Holder, Lease, LeasedResource, owner_reference};
use super::meta::{Key, Meta};
use super::time::Time;

/// What has an address of its own in a cluster, beside its hosts.
pub const VIPS: [&str; 2] = ["api", "ingress"];

/// A claim of an address, and the address once it has one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IpLease {
    /// The namespace of the claim.
    pub namespace: String,
    /// The namespace of the pool, if that is another one which shares the pool. A claim that waits
    /// has one only if its manifest names it.
    pub pool_namespace: Option<String>,
    /// Name of the IPClaim.
    pub claim: String,
    /// Name of the IPPool.
    pub pool: String,
    /// None while the claim waits.
    pub address: Option<Addr>,
    /// The network settings that the pool had when the address was leased.
    pub network: AddressNetwork,
    /// When the claim was made.
    pub created: Time,
    /// When it got its address.
    pub leased: Option<Time>,
    /// The cluster that the address is released with, and the host that it is for. None if only the
    /// claim holds it.
    pub holder: Option<ClusterHolder>,
    /// Whether there is an IPClaim. If not, the address was leased by hand, in the name of a claim.
    pub claimed: bool,
    /// When the deletion of the claim was asked for.
    pub deleting: Option<Time>,
    /// Why the claim waits.
    pub error: String,
    /// The end of the lease that a warning event was about.
    pub warned_until: Option<Time>,
    /// The rest of the metadata of its IPClaim and its IPAddress.
    pub notes: Option<Box<LeaseMetadata>>,
    /// Order of insertion of a claim that waits.
    pub id: i64,
}

/// Metadata of an IPClaim and its IPAddress, beside names, times and holder, which the row has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeaseMetadata {
    pub claim: Meta,
    pub address: Meta,
}

impl IpLease {
    /// The namespace and the name of the claim.
    pub fn key(&self) -> Key {
        Key::new(&*self.namespace, &*self.claim)
    }

    /// The key of the pool. While a claim waits, a pool of its own namespace is meant; the plan looks
    /// for a shared one if there is none.
    pub fn pool_key(&self) -> Key {
        Key::new(self.address_namespace(), &*self.pool)
    }

    /// The namespace in which the address is leased once: that of the pool.
    pub fn address_namespace(&self) -> &str {
        self.pool_namespace.as_deref().unwrap_or(&self.namespace)
    }

    /// The IPAddressClaim of Cluster API that the claim stands for; none for metal3's own.
    pub fn cluster_api_origin(&self) -> Option<ClusterApiOrigin> {
        let notes = self.notes.as_ref()?;
        ClusterApiOrigin::of(&notes.claim).or_else(|| ClusterApiOrigin::of(&notes.address))
    }

    /// The name of the claim as its pool knows it, in `preAllocations` and in its status: that of
    /// the IPAddressClaim, if the claim stands for one. For a claim of another namespace than the
    /// pool's it is `NAMESPACE/NAME`.
    pub fn name_in_pool(&self) -> Cow<'_, str> {
        let name = match self.cluster_api_origin() {
            Some(origin) => Cow::Owned(origin.claim),
            None => Cow::Borrowed(self.claim.as_str()),
        };
        self.name_for_pool(name)
    }

    /// What the pool's owner is told the claim is called: with its namespace, if that is not the
    /// pool's.
    pub fn claim_for_pool(&self) -> Cow<'_, str> {
        self.name_for_pool(Cow::Borrowed(&self.claim))
    }

    fn name_for_pool<'a>(&self, name: Cow<'a, str>) -> Cow<'a, str> {
        match &self.pool_namespace {
            Some(_) => Cow::Owned(format!("{}/{name}", self.namespace)),
            None => name,
        }
    }

    /// The pool, as a claim or an address names it.
    fn pool_reference(&self) -> Reference {
        Reference {
            namespace: self.pool_namespace.clone().unwrap_or_default(),
            ..Reference::named(&self.pool)
        }
    }

    /// The name of the IPAddress, if it was given one: one that was made by hand may have a name of
    /// its own. Otherwise the name follows from the pool and the address.
    pub fn given_address_name(&self) -> Option<&str> {
        let name = self.notes.as_ref()?.address.name.as_str();
        if name.is_empty() { None } else { Some(name) }
    }

    /// The cluster that the address is released with.
    pub fn cluster(&self) -> Option<&str> {
        Some(&self.holder.as_ref()?.cluster)
    }

    /// The Agent whose host has the address in its cluster. None for the addresses of the cluster's
    /// API and ingress, and for an address that belongs to no cluster.
    pub fn agent(&self) -> Option<&str> {
        self.holder.as_ref()?.agent.as_deref()
    }

    /// Whether a host has the address in a cluster. The host is given by the name of its Agent.
    pub fn is_of_agent(&self, cluster: &str, agent: &str) -> bool {
        self.cluster() == Some(cluster) && self.agent() == Some(agent)
    }

    /// The BareMetalHost that the claim was made for.
    pub fn host(&self) -> Option<&str> {
        let mut owners = self.stored_claim_meta()?.owner_references.iter();
        let owner = owners.find(|owner| owner.kind == Kind::BareMetalHost.name())?;
        Some(&owner.name)
    }

    /// Whether the claim goes with a BareMetalHost: it is for that host and for nobody else, and no
    /// person has leased the address by hand.
    pub fn goes_with_host(&self, host: &str) -> bool {
        let owner_count = self.stored_claim_meta().map_or(0, |meta| meta.owner_references.len());
        self.claimed && self.holder.is_none() && self.host() == Some(host) && owner_count == 1
    }

    /// Makes the address outlive its cluster, until somebody releases it. The claim still names its
    /// owners.
    pub fn keep_without_cluster(&mut self) {
        if let Some(holder) = self.holder.take() {
            let owners = holder.owner_references();
            self.claim_meta_mut().owner_references.splice(0..0, owners);
        }
    }

    /// Whether a finalizer keeps the claim from being deleted. A cluster counts as one.
    pub fn has_finalizer(&self) -> bool {
        self.holder.is_some()
            || self.stored_claim_meta().is_some_and(|meta| !meta.finalizers.is_empty())
    }

    /// The lease of the address; none while the claim waits.
    pub fn lease(&self) -> Option<Lease> {
        let namespace = self.address_namespace().to_owned();
        let resource = LeasedResource::Address { namespace, address: self.address? };
        let by_hand = !self.claimed;
        Some(Lease {
            by_hand,
            until: self.expires_at(),
            ..Lease::new(resource, Holder::Claim(self.key()))
        })
    }

    /// The stored part of the claim's metadata, if there is any.
    pub fn stored_claim_meta(&self) -> Option<&Meta> {
        Some(&self.notes.as_ref()?.claim)
    }

    /// The stored part of the claim's metadata with its holder, as on the wire.
    pub fn claim_metadata(&self) -> Meta {
        let mut metadata = self.stored_claim_meta().cloned().unwrap_or_default();
        if let Some(holder) = &self.holder {
            holder.write_to(&mut metadata);
        }
        metadata
    }

    /// The stored part of the claim's metadata, to be changed.
    pub fn claim_meta_mut(&mut self) -> &mut Meta {
        &mut self.notes.get_or_insert_default().claim
    }

    /// The stored part of the metadata of the IPClaim, or of the IPAddress if there is no IPClaim.
    pub fn object_meta_mut(&mut self) -> &mut Meta {
        let is_claimed = self.claimed;
        let notes = self.notes.get_or_insert_default();
        if is_claimed { &mut notes.claim } else { &mut notes.address }
    }

    /// The address that the claim asks for, as it is written.
    pub fn requested_address(&self) -> Option<&str> {
        self.stored_claim_meta()?
            .annotation(REQUESTED_ADDRESS)
            .filter(|address| !address.is_empty())
    }

    /// The IPClaim of the lease. `address_name` is the name of its IPAddress.
    pub fn to_claim(&self, address_name: &str) -> IpClaim {
        let metadata = Meta {
            name: self.claim.clone(),
            namespace: self.namespace.clone(),
            creation_timestamp: Some(self.created),
            deletion_timestamp: self.deleting,
            ..self.claim_metadata()
        };
        let address = self.address.map(|_| Reference {
            namespace: self.namespace.clone(),
            ..Reference::named(address_name)
        });
        let status = IpClaimStatus {
            address,
            ip_address: None,
            error_message: self.error.clone(),
            conditions: vec![self.ready_condition()],
        };
        let spec = IpClaimSpec { pool: self.pool_reference(), owner: None };
        IpClaim { metadata, spec, status }
    }

    /// The condition that says whether the claim has its address.
    fn ready_condition(&self) -> Condition {
        let mut condition = if let Some(address) = self.address {
            let message = format!("It has {address}");
            Condition::new(ConditionType::Ready, "True", ConditionReason::Leased, message)
        } else {
            let reason = ConditionReason::AllocationFailed;
            Condition::new(ConditionType::Ready, "False", reason, self.error.as_str())
        };
        let since = if self.address.is_some() { self.leased } else { None };
        condition.last_transition_time = Some(since.unwrap_or(self.created));
        condition
    }

    /// The IPAddress of the lease, by its name; none while the claim waits.
    pub fn to_address(&self, name: &str) -> Option<IpAddress> {
        let address = self.address?;
        let AddressNetwork { prefix, gateway, dns_servers } = self.network.clone();
        let spec = IpAddressSpec {
            address: address.to_string(),
            prefix: (prefix > 0).then_some(i64::from(prefix)),
            gateway,
            dns_servers,
            pool: self.pool_reference(),
            claim: Reference::named(&self.claim),
        };
        Some(IpAddress { metadata: self.address_metadata(name), spec, status: None })
    }

    /// The metadata of the IPAddress. Without labels of its own it has those of the claim.
    fn address_metadata(&self, name: &str) -> Meta {
        let stored = self.notes.as_ref().map(|notes| notes.address.clone()).unwrap_or_default();
        let labels = if stored.labels.is_empty() {
            self.stored_claim_meta().map(|meta| meta.labels.clone()).unwrap_or_default()
        } else {
            stored.labels
        };
        let mut owners = vec![owner_reference(Kind::IpPool, &self.pool)];
        if self.claimed {
            owners.push(owner_reference(Kind::IpClaim, &self.claim));
        }
        owners.extend(stored.owner_references);
        let mut annotations = stored.annotations;
        if let Some(origin) = self.cluster_api_origin() {
            // The address of an IPAddressClaim is one of Cluster API, too. It names no cluster.
            let origin = ClusterApiOrigin { cluster_name: String::new(), ..origin };
            annotations.entry(CLUSTER_API.to_owned()).or_insert_with(|| origin.to_annotation());
        }
        Meta {
            name: name.into(),
            namespace: self.namespace.clone(),
            creation_timestamp: Some(self.leased.unwrap_or(self.created)),
            labels,
            annotations,
            finalizers: stored.finalizers,
            uid: stored.uid,
            owner_references: owners,
            ..Meta::default()
        }
    }
}

impl Reference {
    /// The key of the object that is meant, as an object of a namespace refers to it.
    pub fn key_from(&self, namespace: &str) -> Key {
        let namespace: &str = if self.namespace.is_empty() { namespace } else { &self.namespace };
        Key::new(namespace, &*self.name)
    }

    fn named(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// A request for an address, in metal3's wire format. It is made of a lease when it is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IpClaim {
    /// Name, namespace, labels and annotations. The annotation ipAddress requests one address.
    pub metadata: Meta,
    /// The pool to lease from.
    pub spec: IpClaimSpec,
    /// The lease, written by poolctl.
    #[serde(default)]
    pub status: IpClaimStatus,
}

/// The pool that is asked, and for whom.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IpClaimSpec {
    /// The IPPool.
    pub pool: Reference,
    /// The object that needs the address. Accepted but not stored.
    #[serde(default, skip_serializing)]
    pub owner: Option<Reference>,
}

/// The address of the claim, or why it has none yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IpClaimStatus {
    /// The IPAddress of the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Reference>,
    /// The same, under an earlier name. Accepted but not stored.
    #[serde(skip_serializing)]
    pub ip_address: Option<Reference>,
    /// Why the claim has no address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error_message: String,
    /// Whether the claim has its address. Written by poolctl, and not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// An object that another one names, with the fields that metal3 and Cluster API have for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reference {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its namespace; that of the object which refers to it, unless given.
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
    /// Its uid; accepted but not used.
    #[serde(default, skip_serializing)]
    pub uid: String,
    /// Accepted but not used.
    #[serde(default, skip_serializing)]
    pub resource_version: String,
    /// Accepted but not used.
    #[serde(default, skip_serializing)]
    pub field_path: String,
}

/// A leased address, in metal3's wire format. It is made of a lease when it is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IpAddress {
    /// Name, namespace, labels.
    pub metadata: Meta,
    /// The lease.
    pub spec: IpAddressSpec,
    /// Accepted but not stored.
    #[serde(default, skip_serializing)]
    pub status: Option<AnyStatus>,
}

/// A status that metal3's manifests may have. Nothing of it is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AnyStatus {
    /// Accepted but not stored.
    pub ready: bool,
}

/// The address, and what a machine needs to use it.
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

/// The name of a lease's IPAddress; empty while the claim waits.
pub fn address_name(pool: &IpPool, lease: &IpLease) -> String {
    if let Some(name) = lease.given_address_name() {
        return name.to_owned();
    }
    lease.address.map(|address| pool.address_name(address)).unwrap_or_default()
}
