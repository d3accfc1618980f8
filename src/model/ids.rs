//! The places of rows in the tables of a state: a type for each table, so that one cannot be taken
//! for another. A place is good for the state that it comes from, and is never stored.

use super::agent::Agent;
use super::claim::Claim;
use super::cluster::Cluster;
use super::customization::Customization;
use super::host::BareMetalHost;
use super::infra_env::InfraEnv;
use super::ip_lease::IpLease;
use super::ip_pool::IpPool;
use super::job::Job;
use super::pool::ClusterPool;
use super::table::Id;

/// The place of a pool.
pub type PoolId = Id<ClusterPool>;
/// The place of a cluster.
pub type ClusterId = Id<Cluster>;
/// The place of a claim.
pub type ClaimId = Id<Claim>;
/// The place of a customization.
pub type CustomizationId = Id<Customization>;
/// The place of a host.
pub type HostId = Id<BareMetalHost>;
/// The place of an InfraEnv.
pub type InfraEnvId = Id<InfraEnv>;
/// The place of an agent.
pub type AgentId = Id<Agent>;
/// The place of a pool of addresses.
pub type IpPoolId = Id<IpPool>;
/// The place of a lease of an address. Waiting claims are leases without an address.
pub type IpLeaseId = Id<IpLease>;
/// The place of a job.
pub type JobId = Id<Job>;
