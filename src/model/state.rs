//! What a pass or an edit sees: the objects of its scope, each remembering what it was. It decides
//! nothing, and what is beyond the scope it looks up only in the books that it is given.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::Value;

use super::address::{Addr, Stretch};
use super::claim::Claim;
use super::cluster::Cluster;
use super::condition::Shortage;
use super::customization::Customization;
use super::documents::SecretValue;
use super::event::Event;
use super::host::BareMetalHost;
use super::ip_lease::{IpAddress, IpClaim, IpLease, address_name};
use super::ip_pool::IpPool;
use super::job::Job;
use super::kinds::{Kind, every_kind};
use super::meta::{HasMeta, Key, Meta};
use super::object::{Object, Resource, match_object};
use super::table::{Id, Owner, Row, Table};
use super::time::Time;
use super::wire::Wire;

/// Which objects are looked at together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Whole,
    /// These pools with their clusters and claims, and what they refer to by name.
    Pools(Vec<Key>),
}

impl Scope {
    pub fn pool(key: Key) -> Self {
        Self::Pools(vec![key])
    }
}

/// Declares `State` with a table for each kind that has one, and what is done with all of them. A
/// view has no table: its objects are found by way of the rows that they are made from.
macro_rules! declare_state {
    (
        {}
        objects { $($Kind:ident($Type:ty) {
            about: $about:literal,
            wire: $api_version:literal $name:literal,
            words: [$($word:literal),+],
            namespaced: $namespaced:literal,
            names: $names:ident,
            $(plain: $plain:ident $plain_table:literal,)?
            $(document: $document:ident $document_table:literal,)?
            $(facts: $facts:ident,)?
            $(view: $view:ident,)?
        })* }
        records { $($records:tt)* }
    ) => {
        #[derive(Debug, Default)]
        pub struct State {
            $(
                $(pub $plain: Table<$Type>,)?
                $(pub $document: Table<$Type>,)?
                $(pub $facts: Table<$Type>,)?
            )*
            /// Claims of addresses: those that wait, that go, and that somebody edits.
            pub ip_leases: Table<IpLease>,
            /// Live jobs, and those that ended in this pass.
            pub jobs: Table<Job>,
            /// What does not fit in pools of addresses that an edit has changed.
            pub ip_offenders: HashMap<Key, Vec<String>>,
            /// Install-config templates of the pools in scope, by Secret.
            pub templates: HashMap<Key, Template>,
            pub events: Vec<(Event, Owner)>,
            /// Everything is here: what is not here does not exist.
            pub whole: bool,
            members: HashMap<Key, Members>,
            /// Pools that have no addresses or hosts for another cluster, and why.
            pub short: HashMap<Key, Shortage>,
            /// Pools of addresses whose claims wait for an address that rests, and until when.
            pub resting: HashMap<Key, Time>,
            /// Provision jobs begun in this pass, by pool; `status.provisions` is written at its
            /// end.
            pub begun: HashMap<PoolId, u32>,
            /// The clusters inserted in this pass, by their names in DNS: name and base domain.
            new_dns_names: HashMap<(String, String), String>,
            /// On whose behalf events are recorded now.
            acting: Owner,
        }

        impl State {
            /// Everything that changes from here on changes because of this pool.
            pub fn act_for(&mut self, owner: Owner) {
                $(
                    $(self.$plain.act_for(&owner);)?
                    $(self.$document.act_for(&owner);)?
                    $(self.$facts.act_for(&owner);)?
                )*
                self.ip_leases.act_for(&owner);
                self.jobs.act_for(&owner);
                self.acting = owner;
            }

            /// Grows whenever a row has changed.
            pub fn changes_made(&self) -> usize {
                let rows_beside_objects = self.ip_leases.changes_made() + self.jobs.changes_made();
                rows_beside_objects
                    $(
                        $(+ self.$plain.changes_made())?
                        $(+ self.$document.changes_made())?
                        $(+ self.$facts.changes_made())?
                    )*
            }

            /// Whose changes there are, the commands' own first.
            pub fn owners(&self) -> Vec<Owner> {
                let mut owners = Owners::default();
                $(
                    $(owners.collect(&self.$plain);)?
                    $(owners.collect(&self.$document);)?
                    $(owners.collect(&self.$facts);)?
                )*
                owners.collect(&self.ip_leases);
                owners.collect(&self.jobs);
                owners.in_order
            }

            pub fn is_unchanged(&self) -> bool {
                self.events.is_empty()
                    && self.ip_leases.is_unchanged()
                    && self.jobs.is_unchanged()
                    $(
                        $(&& self.$plain.is_unchanged())?
                        $(&& self.$document.is_unchanged())?
                        $(&& self.$facts.is_unchanged())?
                    )*
            }

            /// Objects that are not what they were, in the order of kinds; what was made from rows
            /// of another type is not among them.
            pub fn changed_objects(&self) -> Vec<ChangedObject> {
                let mut changed = Vec::new();
                $(
                    $(changed.extend(changed_rows(&self.$plain));)?
                    $(changed.extend(changed_rows(&self.$document));)?
                    $(changed.extend(changed_rows(&self.$facts));)?
                )*
                changed
            }
        }

        $(
            $(
                has_meta!($Type);
                tabled!($Type, $plain, by_metadata);
                impl Plain for $Type {}
            )?
            $(
                has_meta!($Type);
                tabled!($Type, $document, by_metadata);
            )?
            $(tabled!($Type, $facts);)?
            $(view!($Type, $view);)?
        )*
    };
}

macro_rules! has_meta {
    ($Type:ty) => {
        impl HasMeta for $Type {
            fn meta(&self) -> &Meta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut Meta {
                &mut self.metadata
            }
        }
    };
}

macro_rules! view {
    ($Type:ty, $table:ident) => {
        has_meta!($Type);
    };
}

macro_rules! tabled {
    ($Type:ty, $table:ident, by_metadata) => {
        impl Row for $Type {
            fn key(&self) -> Key {
                self.metadata.key()
            }
        }
        impl Kept for $Type {
            fn find_in(state: &State, key: &Key) -> Option<Self> {
                state.$table.by_key(key).cloned()
            }
        }
        tabled!($Type, $table);
    };
    ($Type:ty, $table:ident) => {
        impl Tabled for $Type {
            fn table(state: &State) -> &Table<Self> {
                &state.$table
            }
            fn table_mut(state: &mut State) -> &mut Table<Self> {
                &mut state.$table
            }
        }
    };
}

/// A type with a table of its own in the state.
pub trait Tabled: Row {
    fn table(state: &State) -> &Table<Self>;
    fn table_mut(state: &mut State) -> &mut Table<Self>;
}

/// A kind whose objects nothing but commands changes and that no logic looks at.
pub trait Plain: Resource + Tabled + HasMeta {}

/// A kind whose objects are found in the state by their names.
pub trait Kept: Resource {
    /// A copy of the object of a name, as the state has it by now.
    fn find_in(state: &State, key: &Key) -> Option<Self>;
}

every_kind!(declare_state);

pub type PoolId = Id<super::pool::ClusterPool>;
pub type ClusterId = Id<Cluster>;
pub type ClaimId = Id<Claim>;
pub type CustomizationId = Id<Customization>;
pub type HostId = Id<BareMetalHost>;
pub type InfraEnvId = Id<super::infra_env::InfraEnv>;
pub type AgentId = Id<super::agent::Agent>;
pub type IpPoolId = Id<super::ip_pool::IpPool>;
pub type IpLeaseId = Id<IpLease>;
pub type JobId = Id<Job>;

/// An object that is not what it was.
#[derive(Debug)]
pub struct ChangedObject {
    pub before: Option<Object>,
    pub after: Option<Object>,
}

fn changed_rows<R: Resource + Row>(table: &Table<R>) -> impl Iterator<Item = ChangedObject> {
    table.difference().map(|change| ChangedObject {
        before: change.before.cloned().map(R::into_object),
        after: change.after.cloned().map(R::into_object),
    })
}

impl ChangedObject {
    pub fn kind(&self) -> Option<Kind> {
        self.after.as_ref().or(self.before.as_ref()).map(Object::kind)
    }
}

/// Owners of changes in the order in which they are found, each once.
struct Owners {
    in_order: Vec<Owner>,
    seen: HashSet<Rc<Key>>,
}

impl Default for Owners {
    /// What commands change themselves belongs to nobody and comes first.
    fn default() -> Self {
        Self { in_order: vec![None], seen: HashSet::new() }
    }
}

impl Owners {
    fn collect<T: Row>(&mut self, table: &Table<T>) {
        for owner in table.difference().filter_map(|change| change.owner.as_ref()) {
            if self.seen.insert(Rc::clone(owner)) {
                self.in_order.push(Some(Rc::clone(owner)));
            }
        }
    }
}

/// The text of an install-config template, and what it says once somebody has read it.
#[derive(Debug)]
pub struct Template {
    pub text: SecretValue,
    pub read: OnceCell<Result<Value, String>>,
}

impl Template {
    pub fn new(text: SecretValue) -> Self {
        Self { text, read: OnceCell::new() }
    }
}

/// What belongs to a pool, in order of insertion.
#[derive(Clone, Debug, Default)]
pub struct Members {
    pub clusters: Vec<ClusterId>,
    pub claims: Vec<ClaimId>,
}

impl State {
    pub fn members(&self, pool: &Key) -> Members {
        self.members.get(pool).cloned().unwrap_or_default()
    }

    /// Names of pools that clusters or claims in scope belong to, existing or not.
    pub fn pools_with_members(&self) -> impl Iterator<Item = &Key> {
        self.members.keys()
    }

    pub fn load_cluster(&mut self, cluster: Cluster) {
        let pool = cluster.pool.clone();
        let cluster_id = self.clusters.load(cluster);
        self.add_member(pool.as_deref(), cluster_id);
    }

    pub fn insert_cluster(&mut self, cluster: Cluster) -> ClusterId {
        let dns_name = (cluster.cluster_name.clone(), cluster.base_domain.clone());
        self.new_dns_names.insert(dns_name, cluster.name.clone());
        let pool = cluster.pool.clone();
        let cluster_id = self.clusters.insert(cluster);
        self.add_member(pool.as_deref(), cluster_id);
        cluster_id
    }

    fn add_member(&mut self, pool: Option<&Key>, cluster_id: ClusterId) {
        if let Some(pool) = pool {
            self.members.entry(pool.clone()).or_default().clusters.push(cluster_id);
        }
    }

    pub fn load_claim(&mut self, claim: Claim) {
        let pool = claim.pool_key();
        let claim_id = self.claims.load(claim);
        self.members.entry(pool).or_default().claims.push(claim_id);
    }

    pub fn insert_claim(&mut self, claim: Claim) -> ClaimId {
        let pool = claim.pool_key();
        let claim_id = self.claims.insert(claim);
        self.members.entry(pool).or_default().claims.push(claim_id);
        claim_id
    }

    /// A claim that waits may be sent to another pool.
    pub fn move_claim(&mut self, claim_id: ClaimId, pool: &str) {
        let Some(old_pool) = self.claims.get(claim_id).map(Claim::pool_key) else {
            return;
        };
        self.claims.update(claim_id, |claim| pool.clone_into(&mut claim.pool));
        let new_pool = Key::new(&*old_pool.namespace, pool);
        self.members.entry(old_pool).or_default().claims.retain(|member| *member != claim_id);
        self.members.entry(new_pool).or_default().claims.push(claim_id);
    }

    /// The cluster of a name, which is unique over all namespaces.
    pub fn cluster(&self, name: &str) -> Option<ClusterId> {
        self.clusters.find(&Key::new("", name))
    }

    /// The cluster that has a name in DNS, here or beyond the scope.
    pub fn holder_of(&self, names: &dyn NameBook, name: &str, domain: &str) -> Option<String> {
        let dns_name = (name.to_owned(), domain.to_owned());
        let inserted = self.new_dns_names.get(&dns_name);
        if let Some(cluster) = inserted.filter(|cluster| self.keeps_dns_name(cluster)) {
            return Some(cluster.clone());
        }
        // What was left running keeps its name; what was given back in this pass does not.
        let full_name = format!("{name}.{domain}");
        let mut customizations = self.customizations.rows();
        let preserving = customizations.find(|row| row.status.preserved_name == full_name);
        if let Some(holder) = preserving.and_then(|customization| customization.holder.as_ref()) {
            return Some(holder.cluster.clone());
        }
        names.holder(name, domain).filter(|cluster| self.keeps_dns_name(cluster))
    }

    /// Whether a cluster that had a name in DNS still has it: not if it was removed, nor if it is
    /// beyond the scope and its customization was given back.
    fn keeps_dns_name(&self, cluster: &str) -> bool {
        if self.clusters.was_removed(&Key::new("", cluster)) {
            return false;
        }
        if self.cluster(cluster).is_some() {
            return true;
        }
        !self.customizations.difference().any(|change| {
            let holder_before = change.before.and_then(|before| before.holder.as_ref());
            let holder_after = change.after.and_then(|after| after.holder.as_ref());
            holder_before.is_some_and(|holder| holder.cluster == cluster) && holder_after.is_none()
        })
    }

    /// The object as the state has it.
    pub fn object(&self, like: &Object) -> Option<Object> {
        fn find<R: Kept>(state: &State, like: &R) -> Option<Object> {
            R::find_in(state, &Wire::key(like)).map(Resource::into_object)
        }
        match_object!(like, resource => find(self, &**resource))
    }

    /// What the IPAddress of a lease is called.
    pub fn name_of(&self, lease: &IpLease) -> String {
        let pool = self.ip_pools.by_key(&lease.pool_key());
        pool.map(|pool| address_name(pool, lease)).unwrap_or_default()
    }

    /// Hosts that a live job works on.
    pub fn busy_hosts(&self) -> HashSet<String> {
        let live = self.jobs.rows().filter(|job| job.ended.is_none());
        live.flat_map(|job| job.hosts.iter().cloned()).collect()
    }

    /// The hosts that a cluster uses.
    pub fn hosts_of(&self, cluster: &str) -> Vec<HostId> {
        let hosts = self.hosts.iter().filter(|(_, host)| host.cluster() == Some(cluster));
        hosts.map(|(host_id, _)| host_id).collect()
    }

    /// The live job on a cluster, or on a host by its namespace and name.
    pub fn live_job(&self, cluster: &str) -> Option<(JobId, &Job)> {
        let job_id = self.jobs.find(&Key::new("", cluster))?;
        Some((job_id, self.jobs.get(job_id).filter(|job| job.ended.is_none())?))
    }

    pub fn event(&mut self, event: Event) {
        let owner = self.acting.clone();
        self.events.push((event, owner));
    }
}

impl Kept for Cluster {
    fn find_in(state: &State, key: &Key) -> Option<Self> {
        state.clusters.get(state.cluster(&key.name)?).cloned()
    }
}

impl Kept for Claim {
    fn find_in(state: &State, key: &Key) -> Option<Self> {
        state.claims.by_key(key).cloned()
    }
}

impl Kept for IpClaim {
    fn find_in(state: &State, key: &Key) -> Option<Self> {
        let lease = state.ip_leases.by_key(key).filter(|lease| lease.claimed)?;
        Some(lease.to_claim(&state.name_of(lease)))
    }
}

impl Kept for IpAddress {
    fn find_in(state: &State, key: &Key) -> Option<Self> {
        let lease = state.ip_leases.rows().find(|lease| state.name_of(lease) == key.name)?;
        lease.to_address(&key.name)
    }
}

impl Row for IpLease {
    /// A claim has one address.
    fn key(&self) -> Key {
        Self::key(self)
    }
}

impl Row for Cluster {
    /// A cluster's name is unique over the state.
    fn key(&self) -> Key {
        Key::new("", &*self.name)
    }
}

impl Row for Claim {
    fn key(&self) -> Key {
        Self::key(self)
    }
}

impl Row for Job {
    /// At most one live job per object.
    fn key(&self) -> Key {
        Key::new("", &*self.object)
    }
}

/// Names in use beyond the scope. Read only.
pub trait NameBook {
    /// Whether any cluster object has this name.
    fn cluster_exists(&self, name: &str) -> bool;
    /// The cluster object that has this name in DNS.
    fn holder(&self, cluster_name: &str, base_domain: &str) -> Option<String>;
}

/// Addresses beyond the scope. Read only.
pub trait AddressBook {
    /// The claim that has an address in a namespace.
    fn holder(&self, namespace: &str, address: Addr) -> Option<String>;
    /// Free stretches of a pool in its order, some at a time, after an address.
    fn free(&self, pool: &IpPool, after: Option<Addr>) -> Vec<Stretch>;
    /// When an address was released, where a pool remembers that.
    fn released(&self, pool: &IpPool, address: Addr) -> Option<Time>;
    /// Addresses that were released before a time and are nobody's, in the pool's order, some at a
    /// time, after one of them.
    fn rested(&self, pool: &IpPool, before: Time, after: Option<(Addr, Time)>)
    -> Vec<(Addr, Time)>;
    /// Whether so few are free that drawing would take long.
    fn is_scarce(&self, pool: &IpPool) -> bool;
}

/// All that plan looks up.
pub trait Books: NameBook + AddressBook {}
impl<T: NameBook + AddressBook> Books for T {}
