//! What a pass or an edit sees: the objects of its scope, each remembering what it was.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::Value;

use super::address::{Addr, Stretch};
use super::agent::Agent;
use super::claim::Claim;
use super::cluster::Cluster;
use super::condition::Shortage;
use super::customization::Customization;
use super::data_template::Metal3DataTemplate;
use super::documents::{ClusterImageSet, Namespace, RoleBinding, Secret, SecretValue, Settings};
use super::event::Event;
use super::host::BareMetalHost;
use super::infra_env::InfraEnv;
use super::ip_lease::{IpLease, address_name};
use super::ip_pool::IpPool;
use super::job::Job;
use super::meta::{HasMeta, Key, Meta};
use super::nmstate_config::NMStateConfig;
use super::object::Object;
use super::pool::ClusterPool;
use super::table::{Owner, Row, Table};
use super::time::Time;

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

#[derive(Debug, Default)]
pub struct State {
    pub pools: Table<ClusterPool>,
    pub clusters: Table<Cluster>,
    pub claims: Table<Claim>,
    pub customizations: Table<Customization>,
    pub image_sets: Table<ClusterImageSet>,
    pub hosts: Table<BareMetalHost>,
    pub secrets: Table<Secret>,
    pub namespaces: Table<Namespace>,
    pub role_bindings: Table<RoleBinding>,
    pub settings: Table<Settings>,
    pub data_templates: Table<Metal3DataTemplate>,
    pub infra_envs: Table<InfraEnv>,
    pub agents: Table<Agent>,
    pub nmstate_configs: Table<NMStateConfig>,
    pub ip_pools: Table<IpPool>,
    /// Claims of addresses: those that wait, that go, and that somebody edits.
    pub ip_leases: Table<IpLease>,
    /// What does not fit in pools of addresses that an edit has changed.
    pub ip_offenders: HashMap<Key, Vec<String>>,
    /// Live jobs, and those that ended in this pass.
    pub jobs: Table<Job>,
    /// Install-config templates of the pools in scope, by Secret.
    pub templates: HashMap<Key, Template>,
    pub events: Vec<(Event, Owner)>,
    /// Everything is here: what is not here does not exist.
    pub whole: bool,
    members: HashMap<Key, Members>,
    /// Pools that have no addresses or hosts for another cluster, and why.
    pub short: HashMap<Key, Shortage>,
    /// When the first address that a claim waits for will have rested.
    pub rested: Option<Time>,
    /// Provision jobs begun in this pass, by pool; `status.provisions` is written at its end.
    pub begun: HashMap<usize, u32>,
    /// Names in DNS given in this pass, and to whom.
    named: HashMap<(String, String), String>,
    acting: Owner,
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

/// What belongs to a pool, as places in the tables, in order of insertion.
#[derive(Clone, Debug, Default)]
pub struct Members {
    pub clusters: Vec<usize>,
    pub claims: Vec<usize>,
}

impl State {
    /// Everything that changes from here on changes because of this pool.
    pub fn act_for(&mut self, owner: Owner) {
        self.pools.act_for(&owner);
        self.clusters.act_for(&owner);
        self.claims.act_for(&owner);
        self.customizations.act_for(&owner);
        self.hosts.act_for(&owner);
        self.infra_envs.act_for(&owner);
        self.agents.act_for(&owner);
        self.ip_leases.act_for(&owner);
        self.secrets.act_for(&owner);
        self.jobs.act_for(&owner);
        self.acting = owner;
    }

    /// Grows whenever anything that plan may change has changed.
    pub fn changes_made(&self) -> usize {
        self.pools.changes_made()
            + self.clusters.changes_made()
            + self.claims.changes_made()
            + self.customizations.changes_made()
            + self.hosts.changes_made()
            + self.infra_envs.changes_made()
            + self.agents.changes_made()
            + self.secrets.changes_made()
            + self.ip_leases.changes_made()
            + self.jobs.changes_made()
    }

    pub fn members(&self, pool: &Key) -> Members {
        self.members.get(pool).cloned().unwrap_or_default()
    }

    /// Names of pools that clusters or claims in scope belong to, existing or not.
    pub fn pools_with_members(&self) -> impl Iterator<Item = &Key> {
        self.members.keys()
    }

    pub fn load_cluster(&mut self, cluster: Cluster) {
        let pool = cluster.pool.clone();
        let at = self.clusters.load(cluster);
        self.join(pool.as_deref(), at);
    }

    pub fn insert_cluster(&mut self, cluster: Cluster) -> usize {
        let dns = (cluster.cluster_name.clone(), cluster.base_domain.clone());
        self.named.insert(dns, cluster.name.clone());
        let pool = cluster.pool.clone();
        let at = self.clusters.insert(cluster);
        self.join(pool.as_deref(), at);
        at
    }

    fn join(&mut self, pool: Option<&Key>, at: usize) {
        if let Some(pool) = pool {
            self.members.entry(pool.clone()).or_default().clusters.push(at);
        }
    }

    pub fn load_claim(&mut self, claim: Claim) {
        let pool = claim.pool_key();
        let at = self.claims.load(claim);
        self.members.entry(pool).or_default().claims.push(at);
    }

    pub fn insert_claim(&mut self, claim: Claim) -> usize {
        let pool = claim.pool_key();
        let at = self.claims.insert(claim);
        self.members.entry(pool).or_default().claims.push(at);
        at
    }

    /// A claim that waits may be sent to another pool.
    pub fn move_claim(&mut self, at: usize, pool: &str) {
        let Some(old) = self.claims.get(at).map(Claim::pool_key) else {
            return;
        };
        self.claims.update(at, |claim| pool.clone_into(&mut claim.pool));
        let new = Key::new(&*old.namespace, pool);
        self.members.entry(old).or_default().claims.retain(|one| *one != at);
        self.members.entry(new).or_default().claims.push(at);
    }

    pub fn cluster(&self, name: &str) -> Option<usize> {
        self.clusters.find(&Key::new("", name))
    }

    /// The cluster that has a name in DNS, here or beyond the scope.
    pub fn holder_of(&self, names: &dyn NameBook, name: &str, domain: &str) -> Option<String> {
        let by = |one: Option<&Customization>| Some(one?.holder.as_ref()?.cluster.clone());
        let moved = |found: &String| {
            let mut all = self.customizations.difference();
            all.any(|one| by(one.before).as_ref() == Some(found) && by(one.after).is_none())
        };
        let there = |found: &String| {
            let gone = self.clusters.was_removed(&Key::new("", &**found));
            !gone && (self.cluster(found).is_some() || !moved(found))
        };
        let made = self.named.get(&(name.to_owned(), domain.to_owned())).cloned();
        let full = format!("{name}.{domain}");
        // What was left running keeps its name; what was given back in this pass does not.
        let kept = self.customizations.rows().find(|one| one.status.preserved_name == full);
        let kept = kept.and_then(|one| Some(one.holder.as_ref()?.cluster.clone()));
        let book = || names.holder(name, domain).filter(there);
        made.filter(there).or(kept).or_else(book)
    }

    /// The object as the state has it.
    pub fn object(&self, like: &Object) -> Option<Object> {
        let key = like.key();
        Some(match like {
            Object::Pool(_) => Object::Pool(Box::new(self.pools.by_key(&key)?.clone())),
            Object::Claim(_) => Object::Claim(Box::new(self.claims.by_key(&key)?.clone())),
            Object::Cluster(_) => {
                Object::Cluster(Box::new(self.clusters.get(self.cluster(&key.name)?)?.clone()))
            }
            Object::Customization(_) => {
                Object::Customization(Box::new(self.customizations.by_key(&key)?.clone()))
            }
            Object::ImageSet(_) => Object::ImageSet(self.image_sets.by_key(&key)?.clone()),
            Object::Host(_) => Object::Host(Box::new(self.hosts.by_key(&key)?.clone())),
            Object::Secret(_) => Object::Secret(self.secrets.by_key(&key)?.clone()),
            Object::Namespace(_) => Object::Namespace(self.namespaces.by_key(&key)?.clone()),
            Object::RoleBinding(_) => Object::RoleBinding(self.role_bindings.by_key(&key)?.clone()),
            Object::Settings(_) => Object::Settings(self.settings.by_key(&key)?.clone()),
            Object::DataTemplate(_) => {
                Object::DataTemplate(Box::new(self.data_templates.by_key(&key)?.clone()))
            }
            Object::InfraEnv(_) => {
                Object::InfraEnv(Box::new(self.infra_envs.by_key(&key)?.clone()))
            }
            Object::Agent(_) => Object::Agent(Box::new(self.agents.by_key(&key)?.clone())),
            Object::NMStateConfig(_) => {
                Object::NMStateConfig(Box::new(self.nmstate_configs.by_key(&key)?.clone()))
            }
            Object::IpPool(_) => Object::IpPool(Box::new(self.ip_pools.by_key(&key)?.clone())),
            Object::IpClaim(_) => {
                let one = self.ip_leases.by_key(&key).filter(|one| one.claimed)?;
                Object::IpClaim(Box::new(one.to_claim(&self.name_of(one))))
            }
            Object::IpAddress(_) => {
                let mut all = self.ip_leases.rows();
                let one = all.find(|one| self.name_of(one) == key.name)?;
                Object::IpAddress(Box::new(one.to_address(&key.name)?))
            }
        })
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

    /// The hosts that a cluster uses, as places.
    pub fn hosts_of(&self, cluster: &str) -> Vec<usize> {
        let uses = |(_, host): &(usize, &BareMetalHost)| host.cluster() == Some(cluster);
        self.hosts.iter().filter(uses).map(|(at, _)| at).collect()
    }

    /// The live job on a cluster, or on a host by its namespace and name.
    pub fn live_job(&self, cluster: &str) -> Option<(usize, &Job)> {
        let at = self.jobs.find(&Key::new("", cluster))?;
        Some((at, self.jobs.get(at).filter(|job| job.ended.is_none())?))
    }

    pub fn event(&mut self, event: Event) {
        let owner = self.acting.clone();
        self.events.push((event, owner));
    }

    /// Whose changes there are, the commands' own first.
    pub fn owners(&self) -> Vec<Owner> {
        let mut owners: Vec<Owner> = vec![None];
        let pools = self.pools.difference().map(|one| one.owner);
        let clusters = self.clusters.difference().map(|one| one.owner);
        let claims = self.claims.difference().map(|one| one.owner);
        let customizations = self.customizations.difference().map(|one| one.owner);
        let secrets = self.secrets.difference().map(|one| one.owner);
        let hosts = self.hosts.difference().map(|one| one.owner);
        let agents = self.agents.difference().map(|one| one.owner);
        let jobs = self.jobs.difference().map(|one| one.owner);
        let leases = self.ip_leases.difference().map(|one| one.owner);
        let tables = pools.chain(clusters).chain(claims).chain(customizations).chain(secrets);
        let mut seen = HashSet::new();
        for owner in tables.chain(hosts).chain(agents).chain(leases).chain(jobs).flatten() {
            if seen.insert(Rc::clone(owner)) {
                owners.push(Some(Rc::clone(owner)));
            }
        }
        owners
    }

    pub fn is_unchanged(&self) -> bool {
        self.events.is_empty()
            && self.pools.difference().next().is_none()
            && self.clusters.difference().next().is_none()
            && self.claims.difference().next().is_none()
            && self.customizations.difference().next().is_none()
            && self.hosts.difference().next().is_none()
            && self.secrets.difference().next().is_none()
            && self.jobs.difference().next().is_none()
            && self.image_sets.difference().next().is_none()
            && self.namespaces.difference().next().is_none()
            && self.role_bindings.difference().next().is_none()
            && self.settings.difference().next().is_none()
            && self.data_templates.difference().next().is_none()
            && self.infra_envs.difference().next().is_none()
            && self.agents.difference().next().is_none()
            && self.nmstate_configs.difference().next().is_none()
            && self.ip_pools.difference().next().is_none()
            && self.ip_leases.difference().next().is_none()
    }
}

macro_rules! found_by_metadata {
    ($($kind:ty),*) => {
        $(impl HasMeta for $kind {
            fn meta(&self) -> &Meta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut Meta {
                &mut self.metadata
            }
        }
        impl Row for $kind {
            fn key(&self) -> Key {
                self.metadata.key()
            }
        })*
    };
}
found_by_metadata!(ClusterPool, Customization, ClusterImageSet, Secret);
found_by_metadata!(InfraEnv, Agent, NMStateConfig);
found_by_metadata!(Namespace, RoleBinding, Settings, BareMetalHost, IpPool, Metal3DataTemplate);

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
