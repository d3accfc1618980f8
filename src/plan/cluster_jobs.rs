//! Starts the jobs of clusters: which try it is, which hosts a job works on, and who does it. It
//! never decides whether a cluster needs a job.

use crate::model::cluster::Cluster;
use crate::model::driver::Driver;
use crate::model::event_reason::EventReason;
use crate::model::job::{Job, Verb};
use crate::model::state::{ClusterId, State};
use crate::model::tick::Tick;

use super::{CLUSTER, clusters_hosts, say};

/// What a job does, and with what.
pub struct JobPlan {
    pub verb: Verb,
    /// Which try it is, from 1.
    pub attempt: u32,
    /// The hosts that nothing else may work on meanwhile, by namespace and name.
    pub hosts: Vec<String>,
    pub driver: Driver,
}

/// Starts a job that makes, destroys, starts or stops a cluster, or asks how it does.
pub fn start_job(state: &mut State, cluster_id: ClusterId, verb: Verb, tick: &Tick) {
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let plan = plan_job(state, cluster, verb);
    start_planned_job(state, cluster_id, plan, tick);
}

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
        Verb::Provision if is_by_agents => clusters_hosts::that_boot(state, &cluster.name),
        Verb::Deprovision if is_by_agents => clusters_hosts::with_controller(state, &cluster.name),
        _ if is_of_power => clusters_hosts::that_drive(state, cluster),
        _ => Vec::new(),
    };
    // Whatever made a cluster, its hosts are started and stopped by the driver of the installer.
    let driver = if hosts.is_empty() || (is_by_agents && makes_or_destroys) {
        cluster.driver
    } else {
        Driver::Installer
    };
    JobPlan { verb, attempt, hosts, driver }
}

/// Starts a job of which everything is known.
pub fn start_planned_job(state: &mut State, cluster_id: ClusterId, plan: JobPlan, tick: &Tick) {
    state.clusters.update(cluster_id, |cluster| cluster.ordinal += 1);
    let Some(cluster) = state.clusters.get(cluster_id) else { return };
    let JobPlan { verb, attempt, hosts, driver } = plan;
    let key = cluster.key();
    let object = cluster.name.clone();
    let pool = cluster.pool.clone();
    let id = tick.uid("job", &object, u64::from(cluster.ordinal));
    let mut ordinal = 0;
    if verb == Verb::Provision
        && let Some(pool_id) = pool.as_ref().and_then(|key| state.pools.find(key))
    {
        let begun = state.begun.entry(pool_id).or_default();
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
        begun: false,
    });
    // That a cluster is asked how it does is said when the answer is news.
    if verb != Verb::Health {
        let text = format!("{} started (attempt {attempt})", verb.name());
        say(state, tick, EventReason::JobStarted, (CLUSTER, key), text);
    }
}
