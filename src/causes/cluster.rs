//! Explains a cluster: why it is not ready, or why it is not gone yet.

use super::chain::Chain;
use super::checks::describe_failing_checks;
use super::evidence::Evidence;
use crate::model::agent::{Agent, HostState};
use crate::model::annotations::QUARANTINE;
use crate::model::cluster::{Cluster, POWER_PAUSED, PROTECTED_DELETE, Phase, Power};
use crate::model::driver::Driver;
use crate::model::failure::FailureClass;
use crate::model::host::{BareMetalHost, DETACHED};
use crate::model::job::Job;
use crate::model::meta::Key;
use crate::model::pool::{ClusterPool, RECONCILE_PAUSE};
use crate::model::quarantine::Quarantine;
use crate::model::time::{Span, Time};
use crate::plan;

/// So long a cluster may wake or stop before somebody should look at it.
const LATE_AFTER: Span = Span::minutes(30);

/// Explains a cluster by what holds all work on it, and else by its phase. Until it is installed,
/// the checks that its hosts fail follow.
pub fn explain_cluster(evidence: &Evidence, cluster: &Cluster) -> Chain {
    let chain = match explain_hold(evidence, cluster) {
        Some(chain) => chain,
        None => explain_phase(evidence, cluster),
    };
    if cluster.is_installed() || cluster.deleting.is_some() {
        return chain;
    }
    let hosts = evidence.state.agents.rows();
    let hosts_of_cluster = hosts.filter(|agent| is_bound_to(agent, cluster));
    chain.because_of_each(hosts_of_cluster.flat_map(list_failing_checks))
}

/// Whether somebody should know of a cluster: its installation, its deletion or its start fails, it
/// does not wake, or nothing in this build can install it. Some of that passes by itself.
pub fn is_in_trouble(cluster: &Cluster) -> bool {
    let fails = match cluster.phase() {
        Phase::Retrying | Phase::Broken => true,
        Phase::Installing => cluster.failed_at.is_some() || cluster.driver == Driver::Missing,
        Phase::Installed => cluster.start_failure().is_some() || was_called_in_vain(cluster),
        Phase::Deprovisioning => cluster.undo_failed_at.is_some(),
    };
    fails || cluster.undo_blocked.is_some()
}

/// No cluster that wakes counts as late before this, however fast others of its pool are.
const LEAST_LATE: Span = Span::minutes(10);

/// Whether a cluster that its pool has called takes much longer to wake than others of the pool.
pub fn is_late_to_wake(pool: &ClusterPool, cluster: &Cluster, now: Time) -> bool {
    let is_looked_after = cluster.is_installed() && cluster.deleting.is_none() && !cluster.paused;
    let is_waking = is_looked_after && cluster.claim.is_none() && cluster.power.is_waking();
    let limit = pool.wake_next_after().max(LEAST_LATE);
    is_waking && cluster.awake_since.is_some_and(|since| since.plus(limit) <= now)
}

/// Whether a cluster that its pool keeps for claims did not run in time when one needed it.
fn was_called_in_vain(cluster: &Cluster) -> bool {
    cluster.passed_over.is_some() && cluster.claim.is_none() && !cluster.power.is_running()
}

/// Whether a cluster has been waking or stopping for too long. `pool` is its pool, if that is there.
pub fn is_late(pool: Option<&ClusterPool>, cluster: &Cluster, now: Time) -> bool {
    let is_kept_for_claims = cluster.claim.is_none() && cluster.pool.is_some();
    if is_kept_for_claims {
        return pool.is_some_and(|pool| is_late_to_wake(pool, cluster, now));
    }
    cluster.phase() == Phase::Installed && is_late_for_its_holder(cluster, now)
}

/// Whether a cluster that no pool keeps for claims has been waking or stopping for long, or its
/// machines could not be stopped.
fn is_late_for_its_holder(cluster: &Cluster, now: Time) -> bool {
    let since = match cluster.power {
        Power::FailedToStop => return true,
        Power::WaitingForStop => cluster.power_since,
        power if power.is_waking() => cluster.awake_since,
        _ => None,
    };
    since.is_some_and(|since| now.since(since) >= LATE_AFTER)
}

fn is_bound_to(agent: &Agent, cluster: &Cluster) -> bool {
    agent.bound_cluster().is_some_and(|key| key.name == cluster.name)
}

/// The checks that a host of a cluster fails, with its name.
fn list_failing_checks(agent: &Agent) -> Vec<String> {
    let hostname = agent.hostname();
    let failing_checks = describe_failing_checks(agent).into_iter();
    failing_checks.map(|check| format!("host {hostname} fails {check}")).collect()
}

/// Explains a cluster that nothing holds by its phase.
fn explain_phase(evidence: &Evidence, cluster: &Cluster) -> Chain {
    let name = &cluster.name;
    let job = describe_live_job(evidence, name);
    let show_logs = format!("poolctl cluster logs {name}");
    match cluster.phase() {
        Phase::Deprovisioning => explain_deprovisioning(evidence, cluster, &job),
        Phase::Broken => {
            let why_given_up = describe_giving_up(cluster);
            let reason = cluster.failure.as_deref().unwrap_or("no reason was given");
            let cause = format!("cluster {name} was given up {why_given_up}: {reason}");
            Chain::new(cause, show_logs)
        }
        Phase::Retrying => {
            let next_attempt = describe_next_attempt(evidence, cluster);
            let times = describe_failures(cluster);
            let cause = format!(
                "cluster {name} failed to install {times}; {next_attempt}{job}: {}",
                cluster.failure.as_deref().unwrap_or_default()
            );
            Chain::new(cause, show_logs)
        }
        Phase::Installing if cluster.failed_at.is_some() => {
            let attempt = cluster.restarts + 1;
            let activity = evidence.describe_activity("running", cluster.attempt_since);
            let failure = cluster.failure.as_deref().unwrap_or("no reason was given");
            let cause = format!(
                "attempt {attempt} of cluster {name} {activity}; the last one failed: {failure}"
            );
            Chain::new(cause, show_logs)
        }
        Phase::Installing => {
            let cause = if cluster.interrupted {
                format!(
                    "an installation of cluster {name} was interrupted; its remains are destroyed \
                     first{job}"
                )
            } else {
                let activity = evidence.describe_activity("installing", cluster.started_at);
                format!("cluster {name} {activity}{job}")
            };
            Chain::new(cause, "poolctl reconcile --wait")
        }
        Phase::Installed => explain_installed_cluster(evidence, cluster, &job),
    }
}

/// After what a cluster was given up.
fn describe_giving_up(cluster: &Cluster) -> String {
    if cluster.failure_class == Some(FailureClass::InputWrong) {
        return "because its configuration is refused".to_owned();
    }
    let failures = cluster.restarts;
    let installations = if failures == 1 { "installation" } else { "installations" };
    format!("after {failures} failed {installations}")
}

/// How often a cluster failed to install, and whether the last failure counts as an attempt.
fn describe_failures(cluster: &Cluster) -> String {
    let times = match cluster.restarts {
        0 => return "(this does not count as an attempt)".to_owned(),
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    if cluster.uncounted_failures == 0 {
        return times;
    }
    format!("{times} (the last failure does not count as an attempt)")
}

/// When a cluster that has failed is tried again, or what the attempt waits for: `the next attempt
/// is in 5m`.
fn describe_next_attempt(evidence: &Evidence, cluster: &Cluster) -> String {
    let next_attempt_at = plan::next_attempt_at(&evidence.state, cluster);
    let is_due = next_attempt_at.is_some_and(|time| time <= evidence.now);
    let next_attempt = evidence.describe_next_attempt(next_attempt_at);
    if cluster.interrupted {
        return format!("what is left of it is destroyed first; {next_attempt}");
    }
    let state = &evidence.state;
    let pool = cluster.pool.as_deref().and_then(|key| state.pools.by_key(key));
    let limit = pool.and_then(|pool| pool.spec.max_concurrent);
    if is_due && let Some((limit, clusters)) = limit.zip(plan::crowding_clusters(state, cluster)) {
        let attempt = cluster.restarts + 1;
        let users = describe_used_places(limit, &clusters);
        return format!("attempt {attempt} waits for its turn: {users}");
    }
    next_attempt
}

/// Which clusters use the places that maxConcurrent allows: `maxConcurrent 1 is used by lab-x
/// (installing)`.
pub fn describe_used_places(limit: u32, clusters: &[&Cluster]) -> String {
    if limit == 0 {
        return "maxConcurrent 0 allows no cluster to be made or destroyed".to_owned();
    }
    let mut users = Vec::new();
    for cluster in clusters {
        users.push(format!("{} ({})", cluster.name, cluster.phase().name().to_lowercase()));
    }
    format!("maxConcurrent {limit} is used by {}", users.join(", "))
}

/// The job that works on a cluster now, as the end of a sentence: `; a provision job runs for 5m`.
/// Empty if there is none.
fn describe_live_job(evidence: &Evidence, cluster: &str) -> String {
    let Some((_, job)) = evidence.state.live_job(cluster) else { return String::new() };
    let activity = evidence.describe_activity("running", Some(job.started));
    format!("; its {} job {activity}", job.verb.name())
}

/// Explains a cluster with which nothing is done at all, whatever its phase.
fn explain_hold(evidence: &Evidence, cluster: &Cluster) -> Option<Chain> {
    let name = &cluster.name;
    let option = &evidence.namespace_option;
    if cluster.driver == Driver::Missing && !cluster.is_installed() {
        let cause = format!("no driver of this build serves the platform of cluster {name}");
        return Some(Chain::new(cause, format!("poolctl describe cluster {name}{option}")));
    }
    let metadata = cluster.body.as_ref().map(|body| &body.metadata);
    if cluster.paused && metadata.is_some_and(|metadata| Quarantine::of(metadata).is_some()) {
        let cause = format!(
            "cluster {name} is held by a restore, so no claim gets it: somebody may have it since"
        );
        let next =
            format!("poolctl annotate cluster {name} {RECONCILE_PAUSE}- {QUARANTINE}-{option}");
        return Some(Chain::new(cause, next));
    }
    if cluster.paused {
        let cause = format!("cluster {name} is paused, so poolctl does not change it");
        let next = format!("poolctl annotate cluster {name} {RECONCILE_PAUSE}-{option}");
        return Some(Chain::new(cause, next));
    }
    if let Some(reason) = &cluster.undo_blocked
        && !cluster.protected
    {
        return Some(explain_blocked_destruction(cluster, reason));
    }
    if let Some(shortage) = &cluster.shortage {
        if !cluster.waits_for_hosts() {
            let cause = format!("cluster {name} waits: {}", shortage.message);
            return Some(Chain::new(cause, "poolctl get clusterimageset"));
        }
        let cause = format!("cluster {name} waits for its hosts: {}", shortage.message);
        return Some(explain_wait_for_hosts(evidence, cluster, cause));
    }
    if cluster.unmet.is_some()
        && let Some(Key { namespace, name: customization }) = cluster.required_customization()
    {
        let cause =
            format!("cluster {name} needs customization {customization}, which does not exist");
        return Some(Chain::new(cause, format!("poolctl get customization -n {namespace}")));
    }
    None
}

/// Explains a cluster that poolctl cannot destroy, so that a person has to. One whose deletion was
/// not asked for waits to be installed anew.
fn explain_blocked_destruction(cluster: &Cluster, reason: &str) -> Chain {
    let name = &cluster.name;
    // Always with the namespace: what this names is destroyed by hand.
    let option = format!(" -n {}", cluster.namespace);
    let object = if cluster.deleting.is_some() {
        format!("cluster {name}")
    } else {
        format!("what a failed installation of cluster {name} has left")
    };
    let cause = format!("{object} cannot be destroyed: {reason}");
    if cluster.deleting.is_none() {
        return Chain::new(cause, format!("poolctl delete cluster {name}{option}"));
    }
    Chain::new(cause, format!("poolctl cluster forget {name}{option} --i-have-destroyed-it"))
        .because(format!(
            "mend what it lacks and type `poolctl cluster retry {name}{option}`, or destroy what is \
             left of it by hand and have it forgotten"
        ))
}

/// Explains a cluster that waits for its hosts before it can be installed.
fn explain_wait_for_hosts(evidence: &Evidence, cluster: &Cluster, cause: String) -> Chain {
    let name = &cluster.name;
    let option = &evidence.namespace_option;
    let mut late_agents: Vec<&Agent> = evidence.state.agents.rows().collect();
    late_agents.retain(|agent| is_bound_to(agent, cluster) && agent.state() != HostState::Known);
    let given_up_at = plan::waits_for_hosts_until(cluster);
    // An agent that is being booted needs no help. One that is lost may never come.
    let next = if given_up_at.is_some()
        && late_agents.iter().any(|agent| agent.state().has_become_unfit())
    {
        format!("poolctl delete cluster {name}{option}")
    } else {
        format!("poolctl get agent{option}")
    };
    let first_cause = match given_up_at {
        Some(end) => {
            let remaining = end.since(evidence.now).to_short_text();
            format!("{cause}; poolctl gives it up at {end}, in {remaining}")
        }
        None => cause,
    };
    Chain::new(first_cause, next).because_of_each(late_agents.into_iter().map(describe_agent))
}

/// An agent that is not ready for its cluster, and what it says about that. Checks that fail are
/// listed after all agents.
fn describe_agent(agent: &Agent) -> String {
    let is_explained = !agent.is_duplicate() && !describe_failing_checks(agent).is_empty();
    if agent.state() == HostState::Insufficient && is_explained {
        return format!("host {} is {}", agent.hostname(), agent.state());
    }
    let info = &agent.status.debug_info.state_info;
    format!("host {} is {}: {info}", agent.hostname(), agent.state())
}

/// Explains a cluster that is being deleted: what protects or holds it, or why the last attempt to
/// destroy it failed. `job` tells of a job that runs, and is empty if none does.
fn explain_deprovisioning(evidence: &Evidence, cluster: &Cluster, job: &str) -> Chain {
    let name = &cluster.name;
    let option = &evidence.namespace_option;
    if cluster.protected {
        let cause = format!("cluster {name} is being deleted, but is protected against that");
        return Chain::new(
            cause,
            format!("poolctl annotate cluster {name} {PROTECTED_DELETE}-{option}"),
        );
    }
    if cluster.held && (cluster.started_at.is_none() || cluster.preserve) {
        let path = "jsonpath='{.metadata.finalizers}'";
        let cause = format!("cluster {name} is held by a finalizer of another program");
        return Chain::new(cause, format!("poolctl get cluster {name} -o {path}{option}"));
    }
    let activity = evidence.describe_activity("deprovisioning", cluster.deleting);
    let cause = format!("cluster {name} {activity}{job}");
    let last_attempt = evidence.last_deprovision.as_ref();
    let message = last_attempt.and_then(|attempt| attempt.message.as_ref());
    let (Some(last_attempt), Some(message)) = (last_attempt, message) else {
        return Chain::new(cause, "poolctl reconcile --wait");
    };
    let failed = format!("the last attempt failed: {message}");
    let Some(host) = find_failing_host(evidence, name, last_attempt) else {
        return Chain::new(cause, format!("poolctl events cluster/{name}")).because(failed);
    };
    let host_name = &host.metadata.name;
    let namespace = &host.metadata.namespace;
    let next = format!("poolctl annotate host {host_name} {DETACHED}=true -n {namespace}");
    Chain::new(cause, next).because(failed).because(format!(
        "host {host_name} keeps the other hosts from being released; once it is detached, it stays \
         as it is and they are released"
    ))
}

/// The host of a cluster whose controller failed in a job, and still fails.
fn find_failing_host<'a>(
    evidence: &'a Evidence,
    cluster: &str,
    job: &Job,
) -> Option<&'a BareMetalHost> {
    evidence.hosts.iter().find(|host| {
        host.cluster() == Some(cluster)
            && host.status.error_count > 0
            && job.hosts.contains(&host.key().to_string())
    })
}

/// What a person can do about a cluster that is late, as the end of a sentence: poolctl only waits.
fn describe_help_for_late(cluster: &Cluster) -> &'static str {
    if cluster.claim.is_none() || cluster.power.is_stopping() {
        return "; this takes long: look at its machines";
    }
    "; this takes long: look at its machines, or release the claim and claim another cluster"
}

/// Explains an installed cluster by its power and its use. `job` tells of a job that runs, and is
/// empty if none does.
fn explain_installed_cluster(evidence: &Evidence, cluster: &Cluster, job: &str) -> Chain {
    let name = &cluster.name;
    let option = &evidence.namespace_option;
    if let Some(claim) = &cluster.claim
        && evidence.claim_is_gone
    {
        let cause = format!("cluster {name} is held by claim {claim}, which is gone");
        return Chain::new(cause, format!("poolctl delete cluster {name}{option}"));
    }
    let use_of_it = match (&cluster.claim, &cluster.pool) {
        (Some(claim), _) => format!("claim {claim} has it"),
        (None, Some(pool)) => format!("pool {} keeps it for claims", pool.name),
        (None, None) => "it belongs to no pool".to_owned(),
    };
    let power = cluster.power;
    let activity = evidence.describe_activity(power.describe(), cluster.power_since);
    let end = match cluster.expires_at() {
        Some(end) => format!("; its delete-after is over at {end}"),
        None => String::new(),
    };
    let mut cause = format!("cluster {name} {activity}; {use_of_it}{end}{job}");
    let is_changing = power.is_waking() || power.is_stopping();
    if is_changing {
        let [hibernating, ready] = power.conditions(cluster.power_message.as_deref());
        let step = if power.is_stopping() { hibernating } else { ready };
        cause = format!("{cause}: {}", step.message);
    }
    if power == Power::Starting
        && let Some(failure) = cluster.start_failure()
    {
        cause = format!("{cause}; the last start failed: {failure}");
    }
    if was_called_in_vain(cluster) {
        cause += "; it did not wake when it was called";
    }
    if is_late(None, cluster, evidence.now) && !power.has_failed() {
        cause += describe_help_for_late(cluster);
    }
    let next = if power.has_failed() || cluster.start_failure().is_some() {
        format!("poolctl cluster retry {name}{option}")
    } else if was_called_in_vain(cluster) || is_late(None, cluster, evidence.now) {
        format!("poolctl events cluster/{name}{option}")
    } else if is_changing {
        "poolctl reconcile --wait".to_owned()
    } else if power == Power::Hibernating && cluster.claim.is_some() {
        format!("poolctl cluster resume {name}{option}")
    } else if power == Power::Paused {
        format!("poolctl annotate cluster {name} {POWER_PAUSED}-{option}")
    } else {
        format!("poolctl credentials {name}{option}")
    };
    Chain::new(cause, next)
}
