//! `State`: the objects of a scope, as a pass or an edit sees and changes them. Each table remembers
//! what its rows were before, so that the difference can be written at the end. It decides nothing.
//! What is outside of the scope is looked up in the books that its methods are given.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use super::address::{Addr, IpRange};
use super::claim::Claim;
use super::cluster::Cluster;
use super::condition::Shortage;
use super::deferred::DecodeError;
use super::driver_description::DriverSighting;
use super::due::DueObject;
use super::event::Event;
use super::ip_lease::{IpAddress, IpClaim, IpLease, address_name};
use super::ip_pool::IpPool;
use super::job::Job;
use super::kinds::{Kind, every_kind};
use super::links::Linked;
use super::members::{Members, add_in_order};
use super::meta::{HasMeta, Key, Meta};
use super::object::{Object, Resource, match_object};
use super::pool_versions::PoolVersions;
use super::table::{Owner, Row, Table};
use super::template::Template;
use super::time::Time;
use super::wire::Wire;

pub use super::ids::{
    AgentId, ClaimId, ClusterId, CustomizationId, HostId, InfraEnvId, IpLeaseId, IpPoolId, JobId,
    PoolId,
};

/// Which objects are loaded and planned together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    Whole,
    /// All that belongs to no pool that exists: hosts, Agents, InfraEnvs, addresses, clusters and claims
    /// of no such pool, and customizations that no cluster of a pool has; and what they refer to.
    WithoutPool,
    /// These pools with their clusters and claims, and what they refer to by name.
    Pools(Vec<Key>),
}

impl Scope {
    /// The scope of one pool, with all that belongs to it.
    pub fn pool(key: Key) -> Self {
        Self::Pools(vec![key])
    }
}

/// Declares `State` with a table for each kind that has one, and the methods that go over all
/// tables. A view has no table: its objects are made from the rows of another type.
macro_rules! declare_state {
    (
        {}
        objects { $($Kind:ident($Type:ty) {
            about: $about:literal,
            wire: $api_version:literal $name:literal,
            words: [$($word:literal),+],
            namespaced: $namespaced:literal,
            names: $names:ident,
            $(plain: $plain:ident,)?
            $(document: $document:ident $($document_table:literal)?,)?
            $(facts: $facts:ident,)?
            $(view: $view:ident,)?
        })* }
        records { $($records:tt)* }
    ) => {
        /// Everything that was loaded of the state, as tables in memory. A plan is a function of
        /// it.
        #[derive(Debug, Default)]
        pub struct State {
            $(
                $(pub $plain: Table<$Type>,)?
                $(pub $document: Table<$Type>,)?
                $(pub $facts: Table<$Type>,)?
            )*
            /// Leases of addresses: those that wait or are being deleted, and those that an edit
            /// changes.
            pub ip_leases: Table<IpLease>,
            /// Live jobs, and those that ended in this pass.
            pub jobs: Table<Job>,
            /// The leases that do not fit into an IPPool which an edit has changed, by that pool:
            /// a sentence for each.
            pub ip_offenders: HashMap<Key, Vec<String>>,
            /// Install-config templates of the pools in scope, by the key of their Secret.
            pub templates: HashMap<Key, Template>,
            /// The objects that a command has put, of which the install-configs are checked.
            pub put_objects: Vec<(Kind, Key)>,
            /// Events recorded so far, each with the pool on whose behalf.
            pub events: Vec<(Event, Owner)>,
            /// Why a part that somebody has read is unreadable. Then nothing may follow from it.
            pub decode_error: DecodeError,
            /// Whether everything was loaded, so that what is not here does not exist.
            pub is_whole: bool,
            /// Whether all hosts were loaded, with their Agents and clusters.
            pub has_all_hosts: bool,
            /// Programs that pools in scope name as their drivers, by their names. None is here if
            /// nobody looked, as in a rehearsal.
            pub drivers: HashMap<String, DriverSighting>,
            members: HashMap<Key, Members>,
            /// The versions of pools that were computed so far.
            pub pool_versions: PoolVersions,
            /// Pools that lack addresses or hosts for another cluster, and what they lack.
            pub shortages: HashMap<Key, Shortage>,
            /// IPPools whose claims wait for an address with a reuse delay, and until when.
            pub resting_until: HashMap<Key, Time>,
            /// The objects without a pool that were loaded with all that a pass needs to settle them.
            pub looked_at: Vec<DueObject>,
            /// How many provision jobs were begun in this pass, by pool. They are added to
            /// `status.provisions` at its end.
            pub begun_provisions: HashMap<PoolId, u32>,
            /// The clusters inserted in this pass, by their names in DNS: name and base domain.
            new_dns_names: HashMap<(String, String), String>,
            /// The pool on whose behalf events are recorded now.
            acting: Owner,
        }

        impl State {
            /// From here on, rows change and events are recorded on behalf of this owner.
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

            /// How often a row was changed so far. A round of a plan that leaves this number as it
            /// was has changed nothing.
            pub fn changes_made(&self) -> usize {
                let changes_beside_objects =
                    self.ip_leases.changes_made() + self.jobs.changes_made();
                changes_beside_objects
                    $(
                        $(+ self.$plain.changes_made())?
                        $(+ self.$document.changes_made())?
                        $(+ self.$facts.changes_made())?
                    )*
            }

            /// On whose behalf rows have changed, each owner once; first None, for what a command
            /// changed itself.
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

            /// Whether there is nothing to write: no changed row and no event.
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

            /// The kinds of which an object is not what it was. Views are not among them.
            pub fn changed_kinds(&self) -> BTreeSet<Kind> {
                let mut changed = BTreeSet::new();
                $(
                    $(if !self.$plain.is_unchanged() { changed.insert(Kind::$Kind); })?
                    $(if !self.$document.is_unchanged() { changed.insert(Kind::$Kind); })?
                    $(if !self.$facts.is_unchanged() { changed.insert(Kind::$Kind); })?
                )*
                changed
            }

            /// Objects that are not what they were, in the order of kinds. Objects of views are not
            /// among them.
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
                tabled!($Type, $document, by_metadata_and_links);
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
            fn stored_id(&self) -> i64 {
                self.metadata.id
            }
        }
        tabled!($Type, $table, found_by_key);
    };
    ($Type:ty, $table:ident, by_metadata_and_links) => {
        impl Row for $Type {
            fn key(&self) -> Key {
                self.metadata.key()
            }
            fn stored_id(&self) -> i64 {
                self.metadata.id
            }
            fn links(&self) -> Vec<Cow<'_, str>> {
                Linked::links(self)
            }
        }
        tabled!($Type, $table, found_by_key);
    };
    ($Type:ty, $table:ident, found_by_key) => {
        impl FindInState for $Type {
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

/// A kind that only commands change and that no rule or plan looks at.
pub trait Plain: Resource + Tabled + HasMeta {}

/// A kind whose objects are found in the state by their keys.
pub trait FindInState: Resource {
    /// A copy of the object as the state has it now.
    fn find_in(state: &State, key: &Key) -> Option<Self>;
}

every_kind!(declare_state);

/// An object that was made, changed or removed.
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
    /// The kind of the object that was changed; none if it is not there before and after.
    pub fn kind(&self) -> Option<Kind> {
        self.after.as_ref().or(self.before.as_ref()).map(Object::kind)
    }
}

/// Owners of changes, each once, in the order in which they are collected.
struct Owners {
    in_order: Vec<Owner>,
    seen: HashSet<Rc<Key>>,
}

impl Default for Owners {
    /// What a command changes itself has no owner and comes first.
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

impl State {
    /// The clusters and claims of a pool.
    pub fn members(&self, pool: &Key) -> Members {
        self.members.get(pool).cloned().unwrap_or_default()
    }

    /// The pools that clusters or claims in scope belong to, even if there is no such pool.
    pub fn pools_with_members(&self) -> impl Iterator<Item = &Key> {
        self.members.keys()
    }

    /// Takes a cluster as the store has it: no change.
    pub fn load_cluster(&mut self, cluster: Cluster) {
        let pool = cluster.pool.clone();
        let cluster_id = self.clusters.load(cluster);
        self.add_member(pool.as_deref(), cluster_id);
    }

    /// Adds a new cluster. From now on its name in DNS is taken.
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
            let members = self.members.entry(pool.clone()).or_default();
            add_in_order(&mut members.clusters, cluster_id, |id| Some(self.clusters.get(id)?.id));
        }
    }

    /// Takes a claim as the store has it: no change.
    pub fn load_claim(&mut self, claim: Claim) {
        let pool = claim.pool_key();
        let claim_id = self.claims.load(claim);
        let members = self.members.entry(pool).or_default();
        add_in_order(&mut members.claims, claim_id, |id| Some(self.claims.get(id)?.id));
    }

    /// Adds a new claim.
    pub fn insert_claim(&mut self, claim: Claim) -> ClaimId {
        let pool = claim.pool_key();
        let claim_id = self.claims.insert(claim);
        self.members.entry(pool).or_default().claims.push(claim_id);
        claim_id
    }

    /// Sends a claim that waits to another pool of its namespace.
    pub fn move_claim(&mut self, claim_id: ClaimId, pool: &str) {
        let Some(old_pool) = self.claims.get(claim_id).map(Claim::pool_key) else {
            return;
        };
        self.claims.update(claim_id, |claim| pool.clone_into(&mut claim.pool));
        let new_pool = Key::new(&*old_pool.namespace, pool);
        self.members.entry(old_pool).or_default().claims.retain(|member| *member != claim_id);
        let members = self.members.entry(new_pool).or_default();
        add_in_order(&mut members.claims, claim_id, |id| Some(self.claims.get(id)?.id));
    }

    /// The cluster with this name. Names of clusters are unique over all namespaces.
    pub fn find_cluster(&self, name: &str) -> Option<ClusterId> {
        self.clusters.find(&Key::new("", name))
    }

    /// The name of the cluster that has a name in DNS, be it in scope or not.
    pub fn dns_name_holder(
        &self,
        names: &dyn NameBook,
        name: &str,
        domain: &str,
    ) -> Option<String> {
        let dns_name = (name.to_owned(), domain.to_owned());
        let inserted = self.new_dns_names.get(&dns_name);
        if let Some(cluster) = inserted.filter(|cluster| self.keeps_dns_name(cluster)) {
            return Some(cluster.clone());
        }
        // A cluster that was left running keeps its name until its customization is given back.
        let full_name = format!("{name}.{domain}");
        let mut preserving_ids = self.customizations.linked_to(&full_name);
        let preserving = preserving_ids.next().and_then(|id| self.customizations.get(id));
        if let Some(holder) = preserving.and_then(|customization| customization.holder.as_ref()) {
            return Some(holder.cluster.clone());
        }
        names.holder(name, domain).filter(|cluster| self.keeps_dns_name(cluster))
    }

    /// Whether a cluster that had a name in DNS still has it. It has not if it was removed in this
    /// pass, nor if it is outside of the scope and its customization was given back.
    fn keeps_dns_name(&self, cluster: &str) -> bool {
        if self.clusters.was_removed(&Key::new("", cluster)) {
            return false;
        }
        if self.find_cluster(cluster).is_some() {
            return true;
        }
        !self.customizations.difference().any(|change| {
            let holder_before = change.before.and_then(|before| before.holder.as_ref());
            let holder_after = change.after.and_then(|after| after.holder.as_ref());
            holder_before.is_some_and(|holder| holder.cluster == cluster) && holder_after.is_none()
        })
    }

    /// The object of the same kind and key, as the state has it now.
    pub fn find_object(&self, like: &Object) -> Option<Object> {
        fn find_like<R: FindInState>(state: &State, like: &R) -> Option<Object> {
            R::find_in(state, &Wire::key(like)).map(Resource::into_object)
        }
        match_object!(like, resource => find_like(self, &**resource))
    }

    /// The name of a lease's IPAddress. It is empty if it follows from a pool that is not in scope.
    pub fn address_name_of(&self, lease: &IpLease) -> String {
        if let Some(name) = lease.given_address_name() {
            return name.to_owned();
        }
        let pool = self.ip_pools.by_key(&lease.pool_key());
        pool.map(|pool| address_name(pool, lease)).unwrap_or_default()
    }

    /// Whether a live job works on a host, which is given as `NAMESPACE/NAME`.
    pub fn is_host_busy(&self, host: &str) -> bool {
        self.jobs.linked_to(host).next().is_some()
    }

    /// The BareMetalHosts that a cluster uses.
    pub fn hosts_of(&self, cluster: &str) -> Vec<HostId> {
        self.hosts.linked_to(cluster).collect()
    }

    /// The live job on an object: the name of a cluster, or `NAMESPACE/NAME` of a host.
    pub fn live_job(&self, object: &str) -> Option<(JobId, &Job)> {
        let job_id = self.jobs.find(&Key::new("", object))?;
        Some((job_id, self.jobs.get(job_id).filter(|job| job.ended.is_none())?))
    }

    /// Records an event on behalf of the current owner.
    pub fn record_event(&mut self, event: Event) {
        let owner = self.acting.clone();
        self.events.push((event, owner));
    }
}

impl FindInState for Cluster {
    fn find_in(state: &State, key: &Key) -> Option<Self> {
        state.clusters.get(state.find_cluster(&key.name)?).cloned()
    }
}

impl FindInState for Claim {
    fn find_in(state: &State, key: &Key) -> Option<Self> {
        state.claims.by_key(key).cloned()
    }
}

impl FindInState for IpClaim {
    fn find_in(state: &State, key: &Key) -> Option<Self> {
        let lease = state.ip_leases.by_key(key).filter(|lease| lease.claimed)?;
        Some(lease.to_claim(&state.address_name_of(lease)))
    }
}

impl FindInState for IpAddress {
    fn find_in(state: &State, key: &Key) -> Option<Self> {
        let mut lease_ids: Vec<IpLeaseId> = state.ip_leases.linked_to(&key.name).collect();
        for pool in state.ip_pools.rows() {
            for address in pool.addresses_with_name(&key.name) {
                lease_ids.extend(state.ip_leases.linked_to(&address.to_string()));
            }
        }
        lease_ids.sort_unstable();
        let mut leases = lease_ids.into_iter().filter_map(|id| state.ip_leases.get(id));
        let lease = leases.find(|lease| {
            lease.namespace == key.namespace && state.address_name_of(lease) == key.name
        })?;
        lease.to_address(&key.name)
    }
}

impl Row for IpLease {
    /// The key of its claim, because a claim has one address at most.
    fn key(&self) -> Key {
        Self::key(self)
    }

    /// Its address, and the name that a person gave to its IPAddress.
    fn links(&self) -> Vec<Cow<'_, str>> {
        let mut links: Vec<Cow<'_, str>> = Vec::new();
        links.extend(self.address.map(|address| Cow::Owned(address.to_string())));
        links.extend(self.given_address_name().map(Cow::from));
        links
    }
}

impl Row for Cluster {
    /// Without the namespace, because names of clusters are unique over all namespaces.
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
    /// The key of its object, because an object has one live job at most.
    fn key(&self) -> Key {
        Key::new("", &*self.object)
    }

    /// The hosts that it works on, as `NAMESPACE/NAME`, until it ends.
    fn links(&self) -> Vec<Cow<'_, str>> {
        if self.ended.is_some() {
            return Vec::new();
        }
        self.hosts.iter().map(Cow::from).collect()
    }
}

/// The names of all clusters, be they in scope or not. Read only.
pub trait NameBook {
    /// Whether there is a cluster object with this name.
    fn cluster_exists(&self, name: &str) -> bool;
    /// The name of the cluster object that has this name in DNS.
    fn holder(&self, cluster_name: &str, base_domain: &str) -> Option<String>;
}

/// The leases of all addresses, be they in scope or not. Read only.
pub trait AddressBook {
    /// The claim that has an address in a namespace.
    fn holder(&self, namespace: &str, address: Addr) -> Option<String>;
    /// Whether an IPAddress of a namespace has this name because a manifest or a pass gave it one,
    /// and not because of its pool and its address.
    fn is_address_name_given(&self, namespace: &str, name: &str) -> bool;
    /// Free ranges of a pool, in its order. They come in portions: the next one begins after an
    /// address of the last, and an empty one is the end.
    fn free_ranges(&self, pool: &IpPool, after: Option<Addr>) -> Vec<IpRange>;
    /// When an address was last released. None if the pool does not remember it.
    fn released_at(&self, pool: &IpPool, address: Addr) -> Option<Time>;
    /// Addresses that were released before a time and are free, with the time of their release, in
    /// the pool's order. They come in portions, as with `free`.
    fn released_addresses(
        &self,
        pool: &IpPool,
        before: Time,
        after: Option<(Addr, Time)>,
    ) -> Vec<(Addr, Time)>;
    /// Whether so few addresses are free that drawing one at random would take long.
    fn is_scarce(&self, pool: &IpPool) -> bool;
}

/// Everything that a plan looks up outside of its state.
pub trait Books: NameBook + AddressBook + super::agent::facts::HostBook {}
impl<T: NameBook + AddressBook + super::agent::facts::HostBook> Books for T {}
