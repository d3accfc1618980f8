//! What drivers say of jobs and clusters: read before anything is decided.

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
    pub(super) fn collect(&self, state: &mut State, tick: &Tick) -> Result<Vec<Report>, Refusal> {
        let mut reports = Vec::new();
        let live = state.jobs.iter().filter(|(_, job)| job.ended.is_none());
        let jobs: Vec<(JobId, Job)> = live.map(|(at, job)| (at, job.clone())).collect();
        for (at, job) in jobs {
            if !job.begun && self.with_work(state, &job, drivers::is_begun)? == Some(true) {
                state.jobs.update(at, |job| job.begun = true);
            }
            let found = self.with_work(state, &job, |work| {
                let mut said = drivers::collect(work, tick.now);
                if said.iter().all(|one| {
                    matches!(
                        one.outcome,
                        Outcome::Saved(_)
                            | Outcome::Progress(_)
                            | Outcome::Boots(_)
                            | Outcome::Hosts(_)
                    )
                }) && drivers::is_unattended(work)
                {
                    said.extend(plan::overdue(&job, &work.annotations, tick));
                }
                said
            })?;
            for mut report in found.unwrap_or_default() {
                if let Outcome::Healthy(health) = report.outcome {
                    let steering = self.store.steering(&job.object)?;
                    report.outcome = Outcome::Healthy(drivers::skipping(health, &steering));
                }
                if self.is_news(state, &job, &report)? {
                    self.store.load_cluster_body(state, &job.object)?;
                    reports.push(report);
                }
            }
        }
        Ok(reports)
    }

    /// How clusters do whose driver has done its part of waking or stopping them.
    pub(super) fn healths(&self, state: &State) -> Result<Vec<(String, Health)>, Refusal> {
        let waiting = state.clusters.rows().filter(|one| one.power.waits());
        let mut found = Vec::new();
        for one in waiting.filter(|one| one.installed() && one.deleting.is_none()) {
            let steering = self.store.steering(&one.name)?;
            let health = drivers::health(one.driver, &steering, &one.name);
            found.extend(health.map(|health| (one.name.clone(), health)));
        }
        Ok(found)
    }

    fn with_work<T>(
        &self,
        state: &State,
        job: &Job,
        ask: impl FnOnce(&Work<'_>) -> T,
    ) -> Result<Option<T>, Refusal> {
        let jobs = &self.jobs();
        if job.host().is_some() {
            let (cluster_name, base_domain, annotations) = ("", "", BTreeMap::new());
            return Ok(Some(ask(&Work { job, cluster_name, base_domain, annotations, jobs })));
        }
        let annotations = self.store.steering(&job.object)?.annotations;
        let Some(cluster) = state.cluster(&job.object).and_then(|at| state.clusters.get(at)) else {
            return Ok(None);
        };
        let (cluster_name, base_domain) = (&cluster.cluster_name, &cluster.base_domain);
        Ok(Some(ask(&Work { job, cluster_name, base_domain, annotations, jobs })))
    }

    /// What a running job has saved is told once; it goes where what is there already was loaded.
    fn is_news(&self, state: &mut State, job: &Job, report: &Report) -> Result<bool, Refusal> {
        let made = match &report.outcome {
            Outcome::Saved(made) | Outcome::Installed(made) => made,
            Outcome::Progress(said) => {
                let cluster = state.cluster(&job.object).and_then(|at| state.clusters.get(at));
                return Ok(cluster.is_some_and(|one| one.progress.as_ref() != Some(said)));
            }
            _ => return Ok(true),
        };
        if !job.driver.supervised() {
            return Ok(true);
        }
        let Some(at) = state.cluster(&job.object) else { return Ok(false) };
        let namespace = state.clusters.get(at).map(|one| one.namespace.clone()).unwrap_or_default();
        for what in LEFT_BY_INSTALLATION {
            let key = Key::new(&*namespace, format!("{}-{what}", job.object));
            self.store.load_secret(state, &key)?;
        }
        let key = Key::new(&*namespace, format!("{}-metadata-json", job.object));
        let known = self.store.secret_value(&key, "metadata.json")?;
        let same = known == made.metadata;
        Ok(!same || matches!(report.outcome, Outcome::Installed(_)))
    }

    /// Live jobs, of one pool or all.
    pub fn in_flight(&self, pool: Option<&Key>) -> Result<InFlight, Refusal> {
        let mut found = InFlight::default();
        for job in self.store.live_jobs()? {
            if pool.is_some_and(|pool| job.pool.as_deref() != Some(pool)) {
                continue;
            }
            let annotations = self.store.steering(&job.object)?.annotations;
            let (cluster_name, base_domain) = ("", "");
            let deadline = plan::deadline(&job, &annotations);
            let jobs = &self.jobs();
            let due =
                drivers::due(&Work { job: &job, cluster_name, base_domain, annotations, jobs });
            let due = due.map(|due| due.min(deadline));
            found.due = [found.due, due].into_iter().flatten().min();
            found.jobs.push(job);
        }
        Ok(found)
    }
}
