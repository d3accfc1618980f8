//! Starts the jobs of clusters: works out which try a job is, which hosts it works on, and which
//! driver does it. It never decides whether a cluster needs a job.

use crate::model::cluster::Cluster;
use crate::model::driver::Driver;
use crate::model::event_reason::EventReason;
use crate::model::job::{Job, Verb};
use crate::model::kinds::Kind;
use crate::model::state::{ClusterId, State};
use crate::model::tick::Tick;

use super::{cluster_hosts, record_event};

/// What a job does, and with what.
pub struct JobPlan {
    pub verb: Verb,
    /// Which try it is, from 1.
    pub attempt: u32,
    /// The hosts that nothing else may work on meanwhile, by namespace and name.
    pub hosts: Vec<String>,
    pub driver: Driver,
}

/// Starts a job that installs, destroys, starts or stops a cluster, or asks how it does.
pub fn start_job(state: &mut State, cluster_id: ClusterId, verb: Verb, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let plan = plan_job(state, cluster, verb);
    start_planned_job(state, cluster_id, plan, tick);
}

/// Says which attempt a job of a cluster is, which hosts it works on, by `NAMESPACE/NAME`, and
/// which driver does it.
fn plan_job(state: &State, cluster: &Cluster, verb: Verb) -> JobPlan {
    let attempt = match verb {
        Verb::Provision => cluster.restarts + 1,
        Verb::Deprovision => cluster.undo_failures + 1,
        _ => 1,
    };
    let is_by_agents = cluster.driver == Driver::Agent;
    let makes_or_destroys = matches!(verb, Verb::Provision | Verb::Deprovision);
    let is_of_power = matches!(verb, Verb::Start | Verb::Stop | Verb::Health);
    let hosts = match verb {
        Verb::Provision if is_by_agents => cluster_hosts::image_booted_hosts(state, &cluster.name),
        Verb::Deprovision if is_by_agents => cluster_hosts::controlled_hosts(state, &cluster.name),
        _ if is_of_power => cluster_hosts::power_hosts(state, cluster),
        _ => Vec::new(),
    };
    // Whichever driver installed a cluster, its hosts are started and stopped by that of the
    // installer, which talks to their controllers.
    let driver = if hosts.is_empty() || (is_by_agents && makes_or_destroys) {
        cluster.driver
    } else {
        Driver::Installer
    };
    JobPlan { verb, attempt, hosts, driver }
}

/// Starts a job as it was planned. It gets an id of its own, and an ordinal among the installations
/// of its pool if it is one.
pub fn start_planned_job(state: &mut State, cluster_id: ClusterId, plan: JobPlan, tick: &Tick) {
    state.clusters.update(cluster_id, |cluster| cluster.ordinal += 1);
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let JobPlan { verb, attempt, hosts, driver } = plan;
    let key = cluster.key();
    let object = cluster.name.clone();
    let pool = cluster.pool.clone();
    let id = tick.random_uid("job", &object, u64::from(cluster.ordinal));
    let mut ordinal = 0;
    if verb == Verb::Provision
        && let Some(pool_id) = pool.as_ref().and_then(|key| state.pools.find(key))
    {
        let begun = state.begun_provisions.entry(pool_id).or_default();
        *begun += 1;
        ordinal = *begun + state.pools.get(pool_id).map_or(0, |pool| pool.status.provisions);
    }
    state.jobs.insert(Job {
        id,
        verb,
        object,
        pool,
        driver,
        attempt,
        ordinal,
        hosts,
        started: tick.now,
        ended: None,
        outcome: None,
        message: None,
        class: None,
        begun: false,
    });
    // A job that only asks is worth no event: there is one when the answer is news.
    if verb != Verb::Health {
        let message = format!("{} started (attempt {attempt})", verb.name());
        record_event(state, tick, Kind::ClusterDeployment, key, EventReason::JobStarted, message);
    }
}
