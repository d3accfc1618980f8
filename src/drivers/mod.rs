//! Acts on clusters and machines through one driver per provider, and reports what became of jobs.
//! Decides nothing.
//!
//! Every driver understands the same verbs, such as provision, deprovision, start, stop and health.
//! A verb may be begun again by another job, can be cancelled, and has a deadline. It ends as done
//! or as failed, and a failure says whether trying again is of any use.
//!
//! Simulated clusters work in this process. All other drivers are run by a supervisor, a detached
//! process for each job: `place` is the folder of a job, `supervise` the process, `task` what it
//! gives to a driver, `dispatch` the choice of the driver, and `journal` takes what programs print
//! into the `log`.

mod add_nodes;
mod agent;
pub mod cancel;
mod certificate_requests;
mod classify;
mod controller;
mod credentials;
pub mod description;
pub mod discovery;
mod dispatch;
mod driver_program;
pub mod evidence;
mod exec;
mod fake;
mod files;
mod http;
pub mod image;
pub mod image_folder;
mod installer;
mod ipmi;
mod iso9660;
pub mod job_folder;
mod journal;
mod kube;
pub mod log;
mod machines;
pub mod on_change;
mod power;
pub mod probe;
pub mod process;
pub mod programs;
pub mod pxe;
mod redfish;
mod release;
mod scrub;
pub mod site;
pub mod stream;
pub mod supervise;
mod task;
pub mod trial;
mod trust;
mod trust_store;
mod wipe;

use std::collections::BTreeMap;
use std::path::Path;

use crate::model::documents::SecretValue;
use crate::model::driver::{Driver, JobRunner};
use crate::model::job::{ClusterHealth, Installation, Job, JobOutcome, JobReport, Verb};
use crate::model::meta::{Steering, is_go_true};
use crate::model::order::{JobEnding, Verdict};
use crate::model::time::{Span, Time};

use job_folder::{JobFolder, JobState};

/// A live job, with what its driver needs to know about its cluster.
pub struct LiveJob<'a> {
    pub job: &'a Job,
    /// The cluster in DNS; empty for a job on a host.
    pub cluster_name: &'a str,
    pub base_domain: &'a str,
    /// Annotations of the cluster: they steer simulated jobs.
    pub annotations: BTreeMap<String, String>,
    /// The folder in which each job has its own.
    pub jobs: &'a Path,
}

impl LiveJob<'_> {
    fn job_folder(&self) -> JobFolder {
        JobFolder::for_job(self.jobs, &self.job.id.to_string())
    }
}

/// What there is to report of a job now: in this order what it has saved, how far it is, what was
/// found of hosts, and how it ended. Empty if it goes on and there is nothing to tell.
pub fn collect_reports(work: &LiveJob<'_>, now: Time) -> Vec<JobReport> {
    match work.job.driver.traits().jobs {
        JobRunner::Simulation => fake::collect_report(work, now).into_iter().collect(),
        JobRunner::Supervisor => collect_supervised_reports(work),
        JobRunner::Nobody => Vec::new(),
    }
}

/// Whether only the pass can end this job when its deadline is over. A supervisor ends its job by
/// itself, unless it is gone or held up.
pub fn must_be_ended_by_pass(work: &LiveJob<'_>) -> bool {
    if !work.job.driver.is_supervised() {
        return true;
    }
    let job_folder = work.job_folder();
    job_folder.is_orphaned() || job_folder.is_long_overdue()
}

/// Whether a supervisor has begun to work on the job.
pub fn has_started(work: &LiveJob<'_>) -> bool {
    work.job.driver.is_supervised() && work.job_folder().file_path("started").exists()
}

/// Reads from the folder of a job what its supervisor has left there.
fn collect_supervised_reports(work: &LiveJob<'_>) -> Vec<JobReport> {
    let job_folder = work.job_folder();
    let mut host_reports = None;
    // Looked at first: what a job saves before it ends must be found below.
    let final_outcome = match job_folder.read_state() {
        JobState::NotStarted if work.job.begun => Some(JobOutcome::BrokeOff(
            "the folder of the job is gone; what the job created may still exist".into(),
        )),
        JobState::NotStarted => return Vec::new(),
        JobState::Running => None,
        JobState::Interrupted => {
            Some(JobOutcome::BrokeOff("the supervisor of the job is gone".into()))
        }
        JobState::Over(ending) => {
            let outcome = outcome_of_ending(&job_folder, work.job.verb, &ending);
            if !ending.hosts.is_empty() {
                host_reports = Some(JobOutcome::Hosts(ending.hosts));
            }
            Some(outcome)
        }
    };
    let mut outcomes = Vec::new();
    outcomes.extend(saved_outcome(&job_folder, work.job.verb));
    if final_outcome.is_none() {
        outcomes.extend(progress_outcomes(&job_folder, work.job));
    }
    outcomes.extend(host_reports);
    outcomes.extend(final_outcome);
    outcomes
        .into_iter()
        .map(|outcome| JobReport { job: work.job.id, object: work.job.object.clone(), outcome })
        .collect()
}

/// What a running installation has saved so far; none before there is anything to destroy.
pub fn read_saved_installation(work: &LiveJob<'_>) -> Option<Installation> {
    if work.job.verb != Verb::Provision || !work.job.driver.is_supervised() {
        return None;
    }
    match saved_outcome(&work.job_folder(), work.job.verb) {
        Some(JobOutcome::Saved(installation)) => Some(installation),
        _ => None,
    }
}

/// What a job has saved so far, which must not be lost whatever becomes of the job.
fn saved_outcome(job_folder: &JobFolder, verb: Verb) -> Option<JobOutcome> {
    match verb {
        Verb::Provision => {
            let installation = saved_installation(job_folder, &JobEnding::default());
            // Before there is metadata nothing was made that has to be destroyed.
            installation.metadata.as_ref()?;
            Some(JobOutcome::Saved(installation))
        }
        Verb::AddNodes => {
            let installation = saved_nodes(job_folder);
            installation.nodes.as_ref()?;
            Some(JobOutcome::Saved(installation))
        }
        Verb::Deprovision
        | Verb::Start
        | Verb::Stop
        | Verb::Health
        | Verb::Cycle
        | Verb::State
        | Verb::Attach
        | Verb::Eject
        | Verb::Inspect
        | Verb::Wipe => None,
    }
}

/// How far a job is that goes on, and which image people are to boot hosts from.
fn progress_outcomes(job_folder: &JobFolder, job: &Job) -> Vec<JobOutcome> {
    let mut outcomes = Vec::new();
    if job.verb == Verb::Provision {
        outcomes.extend(job_folder.last_message().map(JobOutcome::Progress));
    }
    let installs_hosts = matches!(job.verb, Verb::Provision | Verb::AddNodes);
    if installs_hosts
        && job.driver.traits().boots_images
        && let Some(image) = job_folder.boot_image()
    {
        // An empty name says that the hosts have been booted.
        outcomes.push(JobOutcome::Boots(if image.is_empty() { None } else { Some(image) }));
    }
    outcomes
}

/// Translates how the driver ended. A success brings what the job was for: the installation, or the
/// health of the cluster.
fn outcome_of_ending(job_folder: &JobFolder, verb: Verb, ending: &JobEnding) -> JobOutcome {
    match ending.verdict {
        Verdict::BrokeOff => return JobOutcome::BrokeOff(ending.message.clone()),
        Verdict::Failed => return JobOutcome::Failed(ending.to_failure()),
        Verdict::Succeeded => {}
    }
    match verb {
        Verb::Provision => JobOutcome::Installed(saved_installation(job_folder, ending)),
        Verb::Health => match &ending.health {
            Some(health) => JobOutcome::Healthy(ClusterHealth {
                machines: health.machines.clone(),
                nodes_ready: health.nodes_ready,
                operators_ready: health.operators_ready,
                settle: crate::model::power::SETTLE_TIME,
            }),
            None => JobOutcome::failed("the driver did not report the cluster's health"),
        },
        Verb::Deprovision
        | Verb::Start
        | Verb::Stop
        | Verb::Cycle
        | Verb::State
        | Verb::Attach
        | Verb::Eject
        | Verb::Inspect
        | Verb::AddNodes
        | Verb::Wipe => JobOutcome::Done,
    }
}

/// The nodes of a cluster after hosts have joined it; there is nothing else to save then.
fn saved_nodes(job_folder: &JobFolder) -> Installation {
    Installation { nodes: read_secret(job_folder, "nodes.json"), ..Installation::default() }
}

/// What an installation has saved so far.
fn saved_installation(job_folder: &JobFolder, ending: &JobEnding) -> Installation {
    Installation {
        infra_id: ending.infra_id.clone(),
        cluster_id: ending.cluster_id.clone(),
        kubeconfig: read_secret(job_folder, "kubeconfig"),
        password: read_secret(job_folder, "kubeadmin-password"),
        metadata: read_secret(job_folder, "metadata.json"),
        nodes: read_secret(job_folder, "nodes.json"),
    }
}

fn read_secret(job_folder: &JobFolder, name: &str) -> Option<SecretValue> {
    job_folder.read_saved(name).map(SecretValue::new)
}

/// A label of a cluster: it counts as running before its operators are ready.
const SKIP_OPERATORS: &str = "hive.openshift.io/resume-skips-cluster-operators";

/// The health of a simulated cluster that was told to start or stop. None for any other: those need
/// a job to find out.
pub fn simulated_health(driver: Driver, steering: &Steering, name: &str) -> Option<ClusterHealth> {
    if !driver.is_simulated() {
        return None;
    }
    Some(apply_resume_label(fake::simulated_health(&steering.annotations, name), steering))
}

/// Health as far as it matters for this cluster: operators count as ready if its label says so.
pub fn apply_resume_label(health: ClusterHealth, steering: &Steering) -> ClusterHealth {
    if steering.labels.get(SKIP_OPERATORS).is_some_and(|value| is_go_true(value)) {
        return ClusterHealth { operators_ready: true, settle: Span::default(), ..health };
    }
    health
}

/// When a job will be done. Only the driver of simulated clusters knows that beforehand.
pub fn simulated_completion_time(work: &LiveJob<'_>) -> Option<Time> {
    if work.job.driver.is_simulated() { Some(fake::completion_time(work)) } else { None }
}
