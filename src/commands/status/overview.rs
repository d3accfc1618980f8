//! Reads what `status` shows, as values: the pools, their queues, the claims that end soon, what is
//! wrong, and whether the state is looked after. It writes no text.

use crate::causes::{Chain, QueuePosition};
use crate::model::claim::Claim;
use crate::model::ip_pool::IpPool;
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};
use crate::store::{Filter, Store};

use crate::commands::claim::queue::queue_positions;
use crate::commands::doctor::find_orphaned_claims;
use crate::commands::status::problems::{
    AgentSummary, HostSummary, TroubledClusters, explain_ip_pool,
};
use crate::commands::tell::find_untold_addresses;
use crate::commands::{Context, count_of};

/// Claims that end within this time are shown.
const SOON: Span = Span::hours(24);
/// cron runs a pass each minute. Where none has ended for this long, nobody runs any.
const OVERDUE: Span = Span::minutes(10);
/// A backup that is older than this may lack too much.
const OLD_BACKUP: Span = Span::hours(7 * 24);
/// Less free room than this is soon used up by the files of jobs: 1 GiB.
const LITTLE_ROOM: u64 = 1 << 30;

/// All that `status` shows.
pub struct Overview {
    pub now: Time,
    pub pools: Vec<PoolOverview>,
    /// Claims that wait, in the order in which they are served.
    pub queue: Vec<QueuedClaim>,
    /// Claims with a cluster, those first that end first: all of a guest, else those that end soon.
    pub claims: Vec<Claim>,
    pub ip_pools: Vec<IpPool>,
    /// What is wrong with anything but pools and their clusters.
    pub problems: Vec<Chain>,
    pub host_count: usize,
    pub agent_count: usize,
    /// How many claims the person has. Only guests are told that.
    pub own_claim_count: Option<usize>,
    /// How the state is looked after. Guests are not told.
    pub upkeep: Option<Upkeep>,
}

/// A pool as the screen shows it.
pub struct PoolOverview {
    pub pool: ClusterPool,
    /// What is wrong with it, the strongest cause first.
    pub troubles: Vec<Chain>,
}

/// A claim that waits for a cluster.
pub struct QueuedClaim {
    pub claim: Claim,
    pub position: QueuePosition,
}

/// How the state is looked after.
pub struct Upkeep {
    pub job_count: usize,
    /// When the last pass over everything ended, if that is known.
    pub last_pass: Option<Time>,
    pub last_backup: Option<Time>,
    /// Bytes that are free on the disk of the state, if that is known.
    pub free_disk: Option<u64>,
    /// Bytes of the state file.
    pub state_size: u64,
}

impl Overview {
    /// Reads what the person may see of the pools of a namespace, or of all.
    pub fn read(
        context: &Context,
        store: &Store,
        filter: &Filter,
        pools: Vec<ClusterPool>,
    ) -> Result<Self, Refusal> {
        let now = context.world.now().max(store.read_mark()?.now);
        if context.guest().is_some() {
            return Self::read_for_guest(context, store, filter, pools, now);
        }
        let mut overview = Self::read_for_owner(context, store, filter, pools, now)?;
        let troubles = overview.pools.iter_mut().flat_map(|pool| &mut pool.troubles);
        for problem in troubles.chain(&mut overview.problems) {
            problem.next = context.spell_commands(&problem.next);
        }
        Ok(overview)
    }

    /// The pools and the claims that the guest may see. What is wrong with a pool names clusters and
    /// claims of other people.
    fn read_for_guest(
        context: &Context,
        store: &Store,
        filter: &Filter,
        pools: Vec<ClusterPool>,
        now: Time,
    ) -> Result<Self, Refusal> {
        let objects = store.list_objects(Kind::ClusterClaim, filter)?;
        let mut own_claims = Vec::new();
        for object in context.filter_visible(store, objects)? {
            if let Object::ClusterClaim(claim) = object {
                own_claims.push(*claim);
            }
        }
        let own_claim_count = Some(own_claims.len());
        let (waiting, mut claims): (Vec<Claim>, Vec<Claim>) =
            own_claims.into_iter().partition(Claim::is_waiting);
        claims.sort_by_key(|claim| claim.expires_at().unwrap_or(Time(i64::MAX)));
        let mut untroubled_pools = Vec::new();
        for pool in pools {
            untroubled_pools.push(PoolOverview { pool, troubles: Vec::new() });
        }
        Ok(Self {
            now,
            pools: untroubled_pools,
            queue: read_queue(store, waiting, now)?,
            claims,
            ip_pools: Vec::new(),
            problems: Vec::new(),
            host_count: 0,
            agent_count: 0,
            own_claim_count,
            upkeep: None,
        })
    }

    fn read_for_owner(
        context: &Context,
        store: &Store,
        filter: &Filter,
        pools: Vec<ClusterPool>,
        now: Time,
    ) -> Result<Self, Refusal> {
        let agents = AgentSummary::read(store, filter)?;
        let hosts = HostSummary::read(store, filter, &pools)?;
        let lost = &agents.clusters_with_lost_hosts;
        let mut clusters = TroubledClusters::read(store, filter, &pools, lost, now)?;
        let mut pool_overviews = Vec::new();
        for pool in pools {
            let troubles = clusters.explain_pool(context, store, &pool)?;
            pool_overviews.push(PoolOverview { pool, troubles });
        }
        let host_count = hosts.count;
        let agent_count = agents.count;
        let upkeep = Upkeep::read(context, store)?;
        let mut problems = upkeep.find_neglect(store, now)?;
        problems.extend(find_untold_addresses(store)?);
        problems.extend(find_orphaned_claims(store)?);
        problems.extend(clusters.explain_rest(context, store)?);
        problems.extend(hosts.explain(context, store)?);
        problems.extend(agents.explain(context, store)?);
        let ip_pools = store.list::<IpPool>(filter)?;
        for ip_pool in &ip_pools {
            problems.extend(explain_ip_pool(context, store, ip_pool)?);
        }
        let (waiting, mut claims): (Vec<Claim>, Vec<Claim>) =
            store.list::<Claim>(filter)?.into_iter().partition(Claim::is_waiting);
        claims.retain(|claim| ends_soon(claim, now));
        claims.sort_by_key(Claim::expires_at);
        Ok(Self {
            now,
            pools: pool_overviews,
            queue: read_queue(store, waiting, now)?,
            claims,
            ip_pools,
            problems,
            host_count,
            agent_count,
            own_claim_count: None,
            upkeep: Some(upkeep),
        })
    }

    /// Whether there is neither a pool nor an Agent, so that somebody may just have begun.
    pub fn is_without_objects(&self) -> bool {
        self.pools.is_empty() && self.agent_count == 0 && self.own_claim_count.is_none()
    }

    /// How much there is of what: `1 pool, 3 hosts, 2 jobs running`.
    pub fn describe_counts(&self) -> String {
        let mut counts = vec![count_of(self.pools.len(), "pool")];
        if let Some(count) = self.own_claim_count {
            counts.push(count_of(count, "claim"));
        }
        for (count, noun) in [
            (self.ip_pools.len(), "IPPool"),
            (self.host_count, "host"),
            (self.agent_count, "agent"),
        ] {
            if count > 0 {
                counts.push(count_of(count, noun));
            }
        }
        if let Some(upkeep) = &self.upkeep {
            counts.push(format!("{} running", count_of(upkeep.job_count, "job")));
        }
        counts.join(", ")
    }
}

/// Whether a claim ends soon by itself.
fn ends_soon(claim: &Claim, now: Time) -> bool {
    let end = claim.expires_at();
    claim.deleting.is_none() && end.is_some_and(|end| end <= now.plus(SOON))
}

/// The places of claims that wait, in the order in which their pools serve them.
fn read_queue(store: &Store, waiting: Vec<Claim>, now: Time) -> Result<Vec<QueuedClaim>, Refusal> {
    if waiting.is_empty() {
        return Ok(Vec::new());
    }
    let mut positions = queue_positions(store, None, now)?;
    let mut queue = Vec::new();
    for claim in waiting {
        let place = positions.remove(&claim.key());
        let position = place.unwrap_or_else(|| QueuePosition::at(1, now));
        queue.push(QueuedClaim { claim, position });
    }
    queue.sort_by_key(|queued| (queued.claim.pool_key(), queued.position.number));
    Ok(queue)
}

impl Upkeep {
    fn read(context: &Context, store: &Store) -> Result<Self, Refusal> {
        let path = store.path();
        Ok(Self {
            job_count: store.live_jobs()?.len(),
            last_pass: store.last_pass(),
            last_backup: store.last_backup(),
            free_disk: context.world.free_disk_space(path.parent().unwrap_or(path)),
            state_size: std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
        })
    }

    /// What nobody does, or what will soon be used up.
    fn find_neglect(&self, store: &Store, now: Time) -> Result<Vec<Chain>, Refusal> {
        let mut neglect = Vec::new();
        if let Some(since) = self.without_passes_since(store, now)? {
            let time = now.since(since).to_short_text();
            let cause = format!("no pass has run for {time}: does cron run `poolctl reconcile`?");
            neglect.push(Chain::new(cause, "poolctl reconcile, then poolctl doctor"));
        }
        if let Some(free) = self.free_disk
            && free < LITTLE_ROOM
        {
            let cause = format!("the disk of the state is nearly full: {} free", in_units(free));
            neglect.push(Chain::new(cause, "df -h \"$(dirname \"$(poolctl state path)\")\""));
        }
        if let Some(last_backup) = self.last_backup
            && last_backup.plus(OLD_BACKUP) < now
        {
            let age = now.since(last_backup).to_short_text();
            let cause = format!("the last backup is {age} old");
            neglect.push(Chain::new(cause, "poolctl backup FILE"));
        }
        Ok(neglect)
    }

    /// Since when somebody should have run passes, if nobody does: since the last one, or since
    /// something was due if there was none.
    fn without_passes_since(&self, store: &Store, now: Time) -> Result<Option<Time>, Refusal> {
        let since = match self.last_pass {
            Some(last_pass) => Some(last_pass),
            None => store.next_due_at(None, store.read_mark()?.now)?,
        };
        Ok(since.filter(|since| since.plus(OVERDUE) < now))
    }
}

/// A number of bytes for people: `12.3 GiB`.
pub fn in_units(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.into_iter().find(|(size, _)| bytes >= *size);
    let Some((size, name)) = unit else { return format!("{bytes} B") };
    let tenths = u128::from(bytes) * 10 / u128::from(size);
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}
