//! Collects what drivers report of jobs and clusters, before a pass plans. Never decides what
//! follows from it.

use std::collections::BTreeMap;

use crate::drivers::{self, LiveJob};
use crate::model::cluster::{Cluster, INSTALLATION_SECRETS};
use crate::model::job::{ClusterHealth, Job, JobOutcome, JobReport};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::{JobId, Scope, State};
use crate::model::tick::Tick;
use crate::plan;
use crate::store::{Filter, NeededObject};

use super::{Door, LiveJobs};

impl Door<'_> {
    /// The reports of all live jobs that tell something new. Marks jobs as begun that a driver has
    /// started, and loads what planning on the reports needs.
    pub(super) fn collect_reports(
        &self,
        state: &mut State,
        tick: &Tick,
    ) -> Result<Vec<JobReport>, Refusal> {
        let mut new_reports = Vec::new();
        let live_jobs = state.jobs.iter().filter(|(_, job)| job.ended.is_none());
        let live_jobs: Vec<(JobId, Job)> =
            live_jobs.map(|(job_id, job)| (job_id, job.clone())).collect();
        for (job_id, job) in live_jobs {
            if !job.begun && self.ask_driver(state, &job, drivers::has_started)? == Some(true) {
                state.jobs.update(job_id, |job| job.begun = true);
            }
            let reports = self.ask_driver(state, &job, |work| reports_of_job(work, tick))?;
            for mut report in reports.unwrap_or_default() {
                if let JobOutcome::Healthy(health) = report.outcome {
                    let steering = self.store.read_steering(&job.object)?;
                    report.outcome =
                        JobOutcome::Healthy(drivers::apply_resume_label(health, &steering));
                }
                if self.is_new_report(state, &job, &report)? {
                    self.store.load_cluster_body(state, &job.object)?;
                    new_reports.push(report);
                }
            }
        }
        Ok(new_reports)
    }

    /// The health of simulated clusters that have been woken or stopped and are not ready yet. The
    /// clusters of other drivers report theirs by jobs.
    pub(super) fn simulate_healths(
        &self,
        state: &State,
    ) -> Result<Vec<(String, ClusterHealth)>, Refusal> {
        let mut healths = Vec::new();
        for cluster in state.clusters.rows() {
            if !cluster.power.is_waiting() || !cluster.is_installed() || cluster.deleting.is_some()
            {
                continue;
            }
            let steering = self.store.read_steering(&cluster.name)?;
            if let Some(health) =
                drivers::simulated_health(cluster.driver, &steering, &cluster.name)
            {
                healths.push((cluster.name.clone(), health));
            }
        }
        Ok(healths)
    }

    /// Asks the driver of a job. Returns None if the cluster of the job is not in the state.
    fn ask_driver<T>(
        &self,
        state: &State,
        job: &Job,
        ask: impl FnOnce(&LiveJob<'_>) -> T,
    ) -> Result<Option<T>, Refusal> {
        let jobs = &self.jobs_folder();
        if job.host().is_some() {
            let annotations = BTreeMap::new();
            let work = LiveJob { job, cluster_name: "", base_domain: "", annotations, jobs };
            return Ok(Some(ask(&work)));
        }
        let annotations = self.store.read_steering(&job.object)?.annotations;
        let cluster_id = state.find_cluster(&job.object);
        let Some(cluster) = cluster_id.and_then(|cluster_id| state.clusters.get(cluster_id)) else {
            return Ok(None);
        };
        let cluster_name = &cluster.cluster_name;
        let base_domain = &cluster.base_domain;
        Ok(Some(ask(&LiveJob { job, cluster_name, base_domain, annotations, jobs })))
    }

    /// Whether a report tells something that the state does not know yet. A running job reports the
    /// same in every pass. Loads the Secrets to which an installation is written.
    fn is_new_report(
        &self,
        state: &mut State,
        job: &Job,
        report: &JobReport,
    ) -> Result<bool, Refusal> {
        let cluster_id = state.find_cluster(&job.object);
        let cluster = cluster_id.and_then(|cluster_id| state.clusters.get(cluster_id));
        let installation = match &report.outcome {
            JobOutcome::Saved(installation) | JobOutcome::Installed(installation) => installation,
            JobOutcome::Progress(progress) => {
                return Ok(
                    cluster.is_some_and(|cluster| cluster.progress.as_ref() != Some(progress))
                );
            }
            _ => return Ok(true),
        };
        if !job.driver.is_supervised() {
            return Ok(true);
        }
        let Some(cluster) = cluster else { return Ok(false) };
        let namespace = cluster.namespace.clone();
        for suffix in INSTALLATION_SECRETS {
            let secret = Key::new(&*namespace, format!("{}-{suffix}", job.object));
            self.store.load_secret(state, &secret)?;
        }
        let secret = Key::new(&*namespace, metadata_secret_of(&job.object));
        let known_metadata = self.store.read_secret_value(&secret, "metadata.json")?;
        let is_known = known_metadata == installation.metadata;
        Ok(!is_known || matches!(report.outcome, JobOutcome::Installed(_)))
    }

    /// Stores what running installations have made since the last pass, as the next pass would. A
    /// copy of the state can then destroy what was being made when it was taken.
    pub fn save_running_installations(&self) -> Result<(), Refusal> {
        let mut new_installations = Vec::new();
        let mut needs = Vec::new();
        for job in self.store.live_jobs_of_programs()? {
            let jobs = &self.jobs_folder();
            let annotations = BTreeMap::new();
            let work = LiveJob { job: &job, cluster_name: "", base_domain: "", annotations, jobs };
            let Some(installation) = drivers::read_saved_installation(&work) else { continue };
            let filter = Filter { name: Some(job.object.clone()), ..Filter::default() };
            let Some(cluster) = self.store.list::<Cluster>(&filter)?.pop() else { continue };
            let secrets = INSTALLATION_SECRETS
                .map(|suffix| Key::new(&*cluster.namespace, format!("{}-{suffix}", cluster.name)));
            let metadata_secret = Key::new(&*cluster.namespace, metadata_secret_of(&cluster.name));
            let known_metadata = self.store.read_secret_value(&metadata_secret, "metadata.json")?;
            if known_metadata == installation.metadata {
                continue;
            }
            needs.push(NeededObject { kind: Kind::ClusterDeployment, key: cluster.key() });
            needs.extend(secrets.map(|key| NeededObject { kind: Kind::Secret, key }));
            new_installations.push((cluster.name, installation));
        }
        if new_installations.is_empty() {
            return Ok(());
        }
        let door_without_pass = Self { plans_changes: false, ..*self };
        door_without_pass.change(&Scope::Pools(Vec::new()), &needs, |state, tick| {
            for (cluster, installation) in &new_installations {
                plan::keep_installation(state, cluster, installation, tick.now);
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Live jobs, of one pool or of all.
    pub fn find_live_jobs(&self, pool: Option<&Key>) -> Result<LiveJobs, Refusal> {
        let mut in_flight = LiveJobs::default();
        for job in self.store.live_jobs()? {
            if pool.is_some_and(|pool| job.pool.as_deref() != Some(pool)) {
                continue;
            }
            let annotations = self.store.read_steering(&job.object)?.annotations;
            let deadline = plan::deadline(&job, &annotations);
            let jobs = &self.jobs_folder();
            let work = LiveJob { job: &job, cluster_name: "", base_domain: "", annotations, jobs };
            let due = drivers::simulated_completion_time(&work).map(|due| due.min(deadline));
            in_flight.due = [in_flight.due, due].into_iter().flatten().min();
            in_flight.jobs.push(job);
        }
        Ok(in_flight)
    }
}

/// The name of the Secret with what destroying a cluster needs.
fn metadata_secret_of(cluster: &str) -> String {
    format!("{cluster}-metadata-json")
}

/// What the driver of a job reports, and the end of a job that is overdue if no supervisor ends it.
fn reports_of_job(work: &LiveJob<'_>, tick: &Tick) -> Vec<JobReport> {
    let mut reports = drivers::collect_reports(work, tick.now);
    let goes_on = reports.iter().all(|report| {
        matches!(
            report.outcome,
            JobOutcome::Saved(_)
                | JobOutcome::Progress(_)
                | JobOutcome::Boots(_)
                | JobOutcome::Hosts(_)
        )
    });
    if goes_on && drivers::must_be_ended_by_pass(work) {
        reports.extend(plan::overdue_report(work.job, &work.annotations, tick));
    }
    reports
}
