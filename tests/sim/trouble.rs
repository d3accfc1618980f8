//! Troubles of the clouds: what drivers report of their jobs instead of success. A trouble goes on
//! until it ends; a doomed customization fails until a person mends it.

use std::collections::BTreeSet;

use poolctl::model::failure::{Failure, FailureClass};
use poolctl::model::job::{Job, JobOutcome, JobReport, Verb};
use poolctl::model::state::State;
use poolctl::model::time::Time;

words! {
    /// What goes wrong in the clouds for a while.
    Trouble {
        /// No request is answered: nothing is made, destroyed, started or stopped.
        CloudAway = "cloud-away",
        InstallsFail = "installs-fail",
        /// Installations fail, and trying again is of no use.
        InstallsAreHopeless = "hopeless",
        /// Installations break off without a verdict.
        InstallsBreakOff = "break-off",
        DestroyingFails = "destroying-fails",
        StartsFail = "starts-fail",
        StopsFail = "stops-fail",
    }
}

/// What goes wrong now.
#[derive(Default)]
pub struct Troubles {
    passing: BTreeSet<Trouble>,
    doomed_customizations: BTreeSet<String>,
}

impl Troubles {
    pub fn begin(&mut self, trouble: Trouble) {
        self.passing.insert(trouble);
    }

    pub fn end(&mut self, trouble: Trouble) {
        self.passing.remove(&trouble);
    }

    /// Ends all troubles that pass by themselves. What only a person can mend stays.
    pub fn end_all(&mut self) {
        self.passing.clear();
    }

    pub fn doom(&mut self, customization: &str) {
        self.doomed_customizations.insert(customization.to_owned());
    }

    pub fn save(&mut self, customization: &str) {
        self.doomed_customizations.remove(customization);
    }

    pub fn is_doomed(&self, customization: &str) -> bool {
        self.doomed_customizations.contains(customization)
    }

    /// What drivers report of the live jobs that meet a trouble. No job fails in the instant in
    /// which it began. Needs the whole state.
    pub fn reports(&self, state: &State, now: Time) -> Vec<JobReport> {
        let mut reports = Vec::new();
        if self.passing.is_empty() && self.doomed_customizations.is_empty() {
            return reports;
        }
        let live_jobs = state.jobs.rows().filter(|job| job.ended.is_none() && job.started < now);
        for job in live_jobs {
            if let Some(outcome) = self.outcome(state, job) {
                reports.push(JobReport { job: job.id, object: job.object.clone(), outcome });
            }
        }
        reports
    }

    /// How a job ends, if it meets a trouble.
    fn outcome(&self, state: &State, job: &Job) -> Option<JobOutcome> {
        let trouble = self.passing.iter().copied().find(|trouble| trouble.meets(job.verb));
        if let Some(trouble) = trouble {
            return Some(trouble.outcome(job.verb));
        }
        let cluster_id = state.find_cluster(&job.object)?;
        let customization = state.clusters.get(cluster_id)?.customization.as_deref()?;
        if job.verb == Verb::Provision && self.is_doomed(customization) {
            return Some(JobOutcome::failed(format!("nothing works with {customization}")));
        }
        None
    }
}

impl Trouble {
    /// Whether jobs of a verb meet the trouble.
    fn meets(self, verb: Verb) -> bool {
        match self {
            Self::CloudAway => true,
            Self::InstallsFail | Self::InstallsAreHopeless | Self::InstallsBreakOff => {
                verb == Verb::Provision
            }
            Self::DestroyingFails => verb == Verb::Deprovision,
            Self::StartsFail => verb == Verb::Start,
            Self::StopsFail => verb == Verb::Stop,
        }
    }

    /// How a job of a verb ends that meets the trouble.
    fn outcome(self, verb: Verb) -> JobOutcome {
        let message = format!("{}: simulated trouble", self.word());
        match self {
            Self::CloudAway => JobOutcome::Failed(Failure {
                is_made: verb != Verb::Provision,
                ..Failure::new(FailureClass::CloudAway, message)
            }),
            Self::InstallsAreHopeless => JobOutcome::Failed(Failure {
                is_hopeless: true,
                ..Failure::new(FailureClass::Unclear, message)
            }),
            Self::InstallsBreakOff => JobOutcome::BrokeOff(message),
            Self::InstallsFail | Self::DestroyingFails | Self::StartsFail | Self::StopsFail => {
                JobOutcome::failed(message)
            }
        }
    }
}
