//! Collects what drivers report of jobs and clusters, before a pass plans. Never decides what
//! follows from it.

use std::collections::BTreeMap;

use crate::drivers::{self, Work};
use crate::model::cluster::LEFT_BY_INSTALLATION;
use crate::model::job::{Health, Job, Outcome, Report};
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::state::{JobId, State};
use crate::model::tick::Tick;
use crate::plan;

use super::{Door, InFlight};

impl Door<'_> {
    /// The reports of all live jobs that tell something new. Marks jobs as begun that a driver has
    /// started, and loads what planning on the reports needs.
    pub(super) fn collect_reports(
        &self,
        state: &mut State,
        tick: &Tick,
    ) -> Result<Vec<Report>, Refusal> {
        let mut new_reports = Vec::new();
        let live_jobs = state.jobs.iter().filter(|(_, job)| job.ended.is_none());
        let live_jobs: Vec<(JobId, Job)> =
            live_jobs.map(|(job_id, job)| (job_id, job.clone())).collect();
        for (job_id, job) in live_jobs {
            if !job.begun && self.ask_driver(state, &job, drivers::is_begun)? == Some(true) {
                state.jobs.update(job_id, |job| job.begun = true);
            }
            let reports = self.ask_driver(state, &job, |work| reports_of_job(work, tick))?;
            for mut report in reports.unwrap_or_default() {
                if let Outcome::Healthy(health) = report.outcome {
                    let steering = self.store.steering(&job.object)?;
                    report.outcome = Outcome::Healthy(drivers::skipping(health, &steering));
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
    pub(super) fn simulate_healths(&self, state: &State) -> Result<Vec<(String, Health)>, Refusal> {
        let mut healths = Vec::new();
        for cluster in state.clusters.rows() {
            if !cluster.power.waits() || !cluster.installed() || cluster.deleting.is_some() {
                continue;
            }
            let steering = self.store.steering(&cluster.name)?;
            if let Some(health) = drivers::health(cluster.driver, &steering, &cluster.name) {
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
        ask: impl FnOnce(&Work<'_>) -> T,
    ) -> Result<Option<T>, Refusal> {
        let jobs = &self.jobs();
        if job.host().is_some() {
            let annotations = BTreeMap::new();
            let work = Work { job, cluster_name: "", base_domain: "", annotations, jobs };
            return Ok(Some(ask(&work)));
        }
        let annotations = self.store.steering(&job.object)?.annotations;
        let cluster_id = state.cluster(&job.object);
        let Some(cluster) = cluster_id.and_then(|cluster_id| state.clusters.get(cluster_id)) else {
            return Ok(None);
        };
        let cluster_name = &cluster.cluster_name;
        let base_domain = &cluster.base_domain;
        Ok(Some(ask(&Work { job, cluster_name, base_domain, annotations, jobs })))
    }

    /// Whether a report tells something that the state does not know yet. A running job reports the
    /// same in every pass. Loads the Secrets to which an installation is written.
    fn is_new_report(
        &self,
        state: &mut State,
        job: &Job,
        report: &Report,
    ) -> Result<bool, Refusal> {
        let cluster_id = state.cluster(&job.object);
        let cluster = cluster_id.and_then(|cluster_id| state.clusters.get(cluster_id));
        let installation = match &report.outcome {
            Outcome::Saved(installation) | Outcome::Installed(installation) => installation,
            Outcome::Progress(progress) => {
                return Ok(
                    cluster.is_some_and(|cluster| cluster.progress.as_ref() != Some(progress))
                );
            }
            _ => return Ok(true),
        };
        if !job.driver.supervised() {
            return Ok(true);
        }
        let Some(cluster) = cluster else { return Ok(false) };
        let namespace = cluster.namespace.clone();
        for suffix in LEFT_BY_INSTALLATION {
            let secret = Key::new(&*namespace, format!("{}-{suffix}", job.object));
            self.store.load_secret(state, &secret)?;
        }
        let secret = Key::new(&*namespace, format!("{}-metadata-json", job.object));
        let known_metadata = self.store.secret_value(&secret, "metadata.json")?;
        let is_known = known_metadata == installation.metadata;
        Ok(!is_known || matches!(report.outcome, Outcome::Installed(_)))
    }

    /// Live jobs, of one pool or of all.
    pub fn in_flight(&self, pool: Option<&Key>) -> Result<InFlight, Refusal> {
        let mut in_flight = InFlight::default();
        for job in self.store.live_jobs()? {
            if pool.is_some_and(|pool| job.pool.as_deref() != Some(pool)) {
                continue;
            }
            let annotations = self.store.steering(&job.object)?.annotations;
            let deadline = plan::deadline(&job, &annotations);
            let jobs = &self.jobs();
            let work = Work { job: &job, cluster_name: "", base_domain: "", annotations, jobs };
            let due = drivers::due(&work).map(|due| due.min(deadline));
            in_flight.due = [in_flight.due, due].into_iter().flatten().min();
            in_flight.jobs.push(job);
        }
        Ok(in_flight)
    }
}

/// What the driver of a job reports, and the end of a job that is overdue if no supervisor ends it.
fn reports_of_job(work: &Work<'_>, tick: &Tick) -> Vec<Report> {
    let mut reports = drivers::collect(work, tick.now);
    let goes_on = reports.iter().all(|report| {
        matches!(
            report.outcome,
            Outcome::Saved(_) | Outcome::Progress(_) | Outcome::Boots(_) | Outcome::Hosts(_)
        )
    });
    if goes_on && drivers::is_unattended(work) {
        reports.extend(plan::overdue(work.job, &work.annotations, tick));
    }
    reports
}
