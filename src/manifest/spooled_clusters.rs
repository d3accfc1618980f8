//! Clusters of a state that is too large to be held in memory, with their claims, Secrets and jobs:
//! they are put aside on the disk, and read again pool by pool. Of each only hashes are remembered.
//! Clusters that their pool would not make in the same way today stay in memory, and so do those with a
//! customization or with hosts. If objects contradict each other, or seem to because two hashes are the
//! same by accident, the caller reads the whole state into memory, where it can be told why.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::rc::Rc;

use serde_json::Value;

use crate::model::claim::Claim;
use crate::model::cluster::Cluster;
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::pool_versions::pool_version;
use crate::model::refusal::Refusal;
use crate::model::time::Time;
use crate::yaml::Node;

use super::chained_records::{ChainedRecords, refuse_temporary_file};
use super::parts::read_record;
use super::spooled_leases::hash_of;
use super::{Manifests, ReadOptions, string_field};

/// How many clusters are in memory at once.
const PORTION: usize = 200;

/// What may be put aside, by its name on the wire, because a job is no kind of object.
const KINDS: [&str; 5] = ["ClusterDeployment", "ClusterClaim", "Secret", "Namespace", "Job"];

/// The clusters of pools that are put aside.
pub struct SpooledClusters {
    /// What belongs to a cluster is in the group of its name, and so are the Secrets of a namespace
    /// that is named like it; claims are in the group of their pool.
    records: ChainedRecords,
    /// The pools that were read so far, in their order.
    pools: Vec<SpooledPool>,
    pool_positions: HashMap<Key, usize>,
    seen: SeenObjects,
    /// Whether jobs have ended whose cluster was not read before, or that were of hosts.
    has_past_jobs: bool,
    /// When the last job was begun, and in the end also the last event.
    last_record: Option<Time>,
    /// How many objects are put aside.
    pub object_count: usize,
    /// How many Secrets of these have no values, known once they were read again.
    pub empty_secret_count: usize,
}

/// What is remembered of all clusters, claims and jobs until the whole file was read, to find those that
/// contradict each other.
#[derive(Default)]
struct SeenObjects {
    /// All clusters, by the hashes of their names.
    clusters: HashMap<u64, Placement>,
    /// The hashes of the names that clusters have in DNS.
    domains: HashSet<u64>,
    /// The clusters that name a claim, by the hash of that claim.
    claimed: HashMap<u64, ClaimedCluster>,
    /// All claims, by their hashes.
    claims: HashMap<u64, ClaimFacts>,
    /// The hashes of the objects of live jobs that came before their clusters, if there are any.
    jobs_before_clusters: HashSet<u64>,
    /// The hashes of the ids of all jobs.
    job_ids: HashSet<u64>,
}

/// Where an object is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Among the objects in memory.
    Kept,
    Spooled,
}

/// Where a job is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum JobPlacement {
    /// It is put aside with its cluster.
    WithCluster,
    /// It is to be held in memory.
    Kept,
    /// It has ended, and no cluster was read before that it is of: it can be imported alone.
    Past,
}

/// A pool of the state.
struct SpooledPool {
    key: Key,
    /// The version of clusters that it would make now.
    version: Rc<str>,
    /// Its clusters that are put aside.
    clusters: Vec<SpooledCluster>,
    /// The place of each of its claims among all claims of the state.
    claims: Vec<i64>,
}

struct SpooledCluster {
    group: u64,
    /// Its place among all clusters of the state, which is the order in which they were made.
    number: i64,
}

/// A cluster that names its claim.
struct ClaimedCluster {
    cluster: u64,
    pool: u64,
}

/// What is remembered of a claim.
struct ClaimFacts {
    cluster: Option<u64>,
    pool: u64,
}

/// Clusters of a pool with what is theirs.
pub struct ClusterPart {
    pub pool: Key,
    /// Whether these are the last clusters of the pool. Its claims are among them.
    pub is_last: bool,
    pub manifests: Manifests,
}

/// Whether a document may be put aside.
pub fn may_be_put_aside(document: &Node) -> bool {
    KINDS.contains(&string_field(document, "kind"))
}

impl SpooledClusters {
    /// Makes the file of what is put aside in a folder.
    pub fn create_in(folder: &Path) -> io::Result<Self> {
        Ok(Self {
            records: ChainedRecords::create_in(folder)?,
            pools: Vec::new(),
            pool_positions: HashMap::new(),
            seen: SeenObjects::default(),
            has_past_jobs: false,
            last_record: None,
            object_count: 0,
            empty_secret_count: 0,
        })
    }

    /// Puts an object aside, or says that it is to be kept. None if it contradicts an object that was
    /// read before, or if it cannot be written.
    pub fn place_object(&mut self, object: &mut Object, document: &Value) -> Option<Placement> {
        let placement = match object {
            Object::ClusterPool(pool) => self.add_pool(pool)?,
            Object::ClusterDeployment(cluster) => self.add_cluster(cluster)?,
            Object::ClusterClaim(claim) => self.add_claim(claim)?,
            // Whether there is a cluster of that name is known at the end.
            Object::Secret(_) | Object::Namespace(_) => Placement::Spooled,
            _ => Placement::Kept,
        };
        if placement == Placement::Kept {
            return Some(Placement::Kept);
        }
        self.records.add(group_of(object), document).ok()?;
        self.object_count += 1;
        Some(Placement::Spooled)
    }

    /// Puts the job of a cluster aside that is put aside, or says where it belongs. None if it does
    /// not go together with others.
    pub fn take_job(&mut self, job: &Job, document: &Value) -> Option<JobPlacement> {
        if !self.seen.job_ids.insert(hash_of(&job.id)) {
            return None;
        }
        self.last_record = self.last_record.max(Some(job.started));
        let group = hash_of(&job.object);
        match self.seen.clusters.get(&group) {
            Some(Placement::Spooled) => {
                self.records.add(group, document).ok()?;
                Some(JobPlacement::WithCluster)
            }
            Some(Placement::Kept) => Some(JobPlacement::Kept),
            // One without a beginning is completed beside all that the state has.
            None if job.ended.is_some() && job.started != Time::default() => {
                self.has_past_jobs = true;
                Some(JobPlacement::Past)
            }
            None => {
                self.seen.jobs_before_clusters.insert(group);
                Some(JobPlacement::Kept)
            }
        }
    }

    fn add_pool(&mut self, pool: &ClusterPool) -> Option<Placement> {
        let key = pool.metadata.key();
        let version = pool_version(pool).into();
        let position = self.pools.len();
        self.pools.push(SpooledPool {
            key: key.clone(),
            version,
            clusters: Vec::new(),
            claims: Vec::new(),
        });
        self.pool_positions.insert(key, position).is_none().then_some(Placement::Kept)
    }

    /// Remembers a cluster and numbers it. One that is put aside is what its pool, which was read before,
    /// would make now, and it has nothing that other objects have, too.
    fn add_cluster(&mut self, cluster: &mut Cluster) -> Option<Placement> {
        // Jobs that have ended count how often a cluster was tried, so they must not come before it.
        if self.has_past_jobs {
            return None;
        }
        let name = hash_of(&cluster.name);
        cluster.id = i64::try_from(self.seen.clusters.len()).ok()? + 1;
        let position = cluster.pool.as_deref().and_then(|pool| self.pool_positions.get(pool));
        let pool = position.and_then(|position| self.pools.get_mut(*position));
        let pool = pool.filter(|pool| {
            let is_current = cluster.version.as_deref() == Some(&*pool.version);
            (is_current || cluster.deleting.is_some())
                && cluster.customization.is_none()
                && !cluster.is_made_of_agents()
                && !self.seen.jobs_before_clusters.contains(&name)
        });
        let placement = if pool.is_some() { Placement::Spooled } else { Placement::Kept };
        if let Some(pool) = pool {
            pool.clusters.push(SpooledCluster { group: name, number: cluster.id });
        }
        let is_new = self.seen.clusters.insert(name, placement).is_none()
            && self.seen.domains.insert(hash_of(&(&cluster.cluster_name, &cluster.base_domain)));
        if let Some(claim) = cluster.claim_key() {
            let claimed = ClaimedCluster { cluster: name, pool: hash_of(&cluster.pool) };
            if self.seen.claimed.insert(hash_of(&claim), claimed).is_some() {
                return None;
            }
        }
        is_new.then_some(placement)
    }

    /// Remembers a claim and numbers it. It is put aside if its pool was read before.
    fn add_claim(&mut self, claim: &mut Claim) -> Option<Placement> {
        claim.id = i64::try_from(self.seen.claims.len()).ok()? + 1;
        let pool_key = Some(Rc::new(claim.pool_key()));
        let facts =
            ClaimFacts { cluster: claim.cluster.as_ref().map(hash_of), pool: hash_of(&pool_key) };
        if self.seen.claims.insert(hash_of(&claim.key()), facts).is_some() {
            return None;
        }
        let position = self.pool_positions.get(&claim.pool_key());
        let Some(pool) = position.and_then(|position| self.pools.get_mut(*position)) else {
            return Some(Placement::Kept);
        };
        pool.claims.push(claim.id);
        Some(Placement::Spooled)
    }

    /// Whether clusters or claims are put aside. Then all claims and clusters go together.
    pub fn has_any(&self) -> bool {
        self.pools.iter().any(|pool| !pool.clusters.is_empty() || !pool.claims.is_empty())
    }

    /// Gives back to the objects in memory what belongs to no cluster that is put aside. None if
    /// objects do not go together, or if something in memory has to do with what is put aside.
    pub fn finish(&mut self, kept: &mut Manifests, reading: &ReadOptions<'_>) -> Option<()> {
        self.last_record = self.last_record.max(kept.last_spooled_record);
        kept.last_spooled_record = self.last_record;
        kept.has_spooled_jobs = self.seen.job_ids.len() > kept.jobs.len();
        let mut groups_of_claims = HashSet::new();
        for pool in self.pools.iter().filter(|pool| !pool.claims.is_empty()) {
            groups_of_claims.insert(group_of_claims(&pool.key));
        }
        let mut given_back = HashSet::new();
        for group in self.records.groups() {
            if self.seen.clusters.get(&group) == Some(&Placement::Spooled)
                || groups_of_claims.contains(&group)
            {
                continue;
            }
            for record in self.records.read_group(group).ok()? {
                for object in read_record(&record, reading)?.objects {
                    if !given_back.insert((object.kind(), object.key())) {
                        return None;
                    }
                    kept.objects.push(object);
                    self.object_count -= 1;
                }
            }
        }
        if !self.has_any() {
            return Some(());
        }
        let is_plain = kept.server_objects.is_empty() && kept.cluster_installs.is_empty();
        let is_whole = is_plain
            && self.do_claims_and_clusters_match()
            && !self.are_clusters_used_by(&kept.objects);
        self.seen = SeenObjects::default();
        is_whole.then_some(())
    }

    /// Whether each claim and its cluster name each other and one pool. A claim that waits may be named
    /// by a cluster already.
    fn do_claims_and_clusters_match(&self) -> bool {
        let are_clusters_fine = self.seen.claimed.iter().all(|(claim, claimed)| {
            self.seen.claims.get(claim).is_some_and(|facts| facts.pool == claimed.pool)
        });
        let are_claims_fine = self.seen.claims.iter().all(|(claim, facts)| {
            facts.cluster.is_none_or(|cluster| {
                self.seen.claimed.get(claim).is_some_and(|claimed| claimed.cluster == cluster)
            })
        });
        are_clusters_fine && are_claims_fine
    }

    /// Whether one of these objects has to do with a cluster that is put aside.
    fn are_clusters_used_by(&self, objects: &[Object]) -> bool {
        objects.iter().any(|object| match object {
            Object::Agent(_) => true,
            Object::BareMetalHost(host) => host.cluster().is_some(),
            Object::Customization(customization) => {
                let holder = &customization.status.cluster_deployment_ref;
                holder.as_ref().is_some_and(|cluster| {
                    self.seen.clusters.get(&hash_of(&cluster.name)) == Some(&Placement::Spooled)
                })
            }
            _ => false,
        })
    }

    /// Hands on what was put aside, pool by pool and in portions. No more than a portion is in memory.
    pub fn visit_parts(
        &mut self,
        reading: &ReadOptions<'_>,
        visit: &mut dyn FnMut(ClusterPart) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let Self { records, pools, last_record, .. } = self;
        // In this order links are completed, too, if everything is in memory.
        let mut pools: Vec<&SpooledPool> = pools.iter().collect();
        pools.sort_unstable_by_key(|pool| &pool.key);
        for pool in pools {
            let mut portions: Vec<&[SpooledCluster]> = pool.clusters.chunks(PORTION).collect();
            if portions.is_empty() && !pool.claims.is_empty() {
                portions.push(&[]);
            }
            let portion_count = portions.len();
            for (index, portion) in portions.into_iter().enumerate() {
                let is_last = index + 1 == portion_count;
                let mut manifests =
                    Manifests { last_spooled_record: *last_record, ..Manifests::default() };
                for cluster in portion {
                    let objects = add_group(&mut manifests, records, cluster.group, reading)?;
                    number_cluster(objects, cluster.number);
                }
                if is_last {
                    let group = group_of_claims(&pool.key);
                    let objects = add_group(&mut manifests, records, group, reading)?;
                    number_claims(objects, &pool.claims);
                }
                visit(ClusterPart { pool: pool.key.clone(), is_last, manifests })?;
            }
        }
        Ok(())
    }
}

/// Adds the objects and jobs of a group, and returns these objects.
fn add_group<'a>(
    manifests: &'a mut Manifests,
    records: &mut ChainedRecords,
    group: u64,
    reading: &ReadOptions<'_>,
) -> Result<&'a mut [Object], Refusal> {
    let first_object = manifests.objects.len();
    for record in records.read_group(group).map_err(|error| refuse_temporary_file(&error))? {
        let Some(record) = read_record(&record, reading) else {
            return Err(refuse_temporary_file(&io::ErrorKind::InvalidData.into()));
        };
        manifests.objects.extend(record.objects);
        manifests.jobs.extend(record.jobs);
    }
    Ok(&mut manifests.objects[first_object..])
}

/// Gives the cluster of a group its place among all clusters of the state.
fn number_cluster(objects: &mut [Object], number: i64) {
    for object in objects {
        if let Object::ClusterDeployment(cluster) = object {
            cluster.id = number;
        }
    }
}

/// Gives the claims of a pool, in the order in which they were put aside, their places among all claims
/// of the state.
fn number_claims(objects: &mut [Object], numbers: &[i64]) {
    for (object, number) in objects.iter_mut().zip(numbers) {
        if let Object::ClusterClaim(claim) = object {
            claim.id = *number;
        }
    }
}

/// The group of an object that is put aside: that of its cluster, or that of the claims of its pool.
fn group_of(object: &Object) -> u64 {
    match object {
        Object::ClusterClaim(claim) => group_of_claims(&claim.pool_key()),
        Object::Secret(secret) => hash_of(&secret.metadata.namespace),
        _ => hash_of(&object.key().name),
    }
}

/// The group of the claims of a pool.
fn group_of_claims(pool: &Key) -> u64 {
    hash_of(&(Kind::ClusterClaim.name(), pool))
}
