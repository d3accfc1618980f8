//! Why a cluster is not ready, or not gone.

use crate::commands::why::Chain;
use crate::model::agent::{Agent, HostState};
use crate::model::cluster::{Cluster, POWER_PAUSED, Phase, Power};
use crate::model::driver::Driver;
use crate::model::job::Verb as JobVerb;
use crate::model::pool::PAUSED;
use crate::plan;

use super::Around;

impl Around<'_> {
    pub fn cluster(&self, one: &Cluster) -> Chain {
        let (name, at) = (&one.name, &self.at);
        let job = self.state.live_job(name).map(|(_, job)| job);
        let job = job
            .map(|job| format!("; a {} job runs{}", job.verb.name(), self.ago(Some(job.started))));
        let job = job.unwrap_or_default();
        let show = format!("poolctl cluster logs {name}");
        if one.driver == Driver::Missing && !one.installed() {
            let text = format!("no driver of this build serves the platform of cluster {name}");
            return Chain::of(text, format!("poolctl describe cluster {name}{at}"));
        }
        if one.paused {
            let text = format!("cluster {name} is paused: nothing is done with it");
            return Chain::of(text, format!("poolctl annotate cluster {name} {PAUSED}-{at}"));
        }
        if let Some(lacks) = &one.lacks {
            let text = format!("cluster {name} waits for its hosts: {}", lacks.message);
            let chain = Chain::of(text, format!("poolctl get agent{at}"));
            return self.late(name).into_iter().fold(chain, Chain::after);
        }
        if let Some(key) = one.required().filter(|_| one.unmet.is_some()) {
            let text =
                format!("cluster {name} needs customization {}, which is not there", key.name);
            return Chain::of(text, format!("poolctl get customization -n {}", key.namespace));
        }
        match one.phase() {
            Phase::Deprovisioning => self.going(one, &job),
            Phase::Broken => {
                let text = format!(
                    "cluster {name} was given up after {} failed installations: {}",
                    one.restarts,
                    one.failure.as_deref().unwrap_or("no reason was given")
                );
                Chain::of(text, show)
            }
            Phase::Retrying => {
                let next = plan::retry_at(one).map(|at| at.since(self.now).short());
                let text = format!(
                    "cluster {name} failed to install {}, the next attempt is in {}{job}: {}",
                    if one.restarts == 1 {
                        "once".into()
                    } else {
                        format!("{} times", one.restarts)
                    },
                    next.unwrap_or_default(),
                    one.failure.as_deref().unwrap_or_default()
                );
                Chain::of(text, show)
            }
            Phase::Installing if one.interrupted => {
                let text = format!(
                    "an installation of cluster {name} broke off; what it left is destroyed first{job}"
                );
                Chain::of(text, "poolctl reconcile --wait")
            }
            Phase::Installing => {
                let text =
                    format!("cluster {name} is being installed{}{job}", self.ago(one.started_at));
                Chain::of(text, "poolctl reconcile --wait")
            }
            Phase::Installed => self.installed(one, &job),
        }
    }

    /// Hosts of a cluster that are not ready to be installed.
    fn late(&self, cluster: &str) -> Vec<String> {
        let its = |one: &&Agent| one.bound_to().is_some_and(|key| key.name == cluster);
        let late = self.state.agents.rows().filter(its);
        let late = late.filter(|one| one.state() != HostState::Known);
        let text = |one: &Agent| {
            let info = &one.status.debug_info.state_info;
            format!("host {} is {}: {info}", one.hostname(), one.state())
        };
        late.map(text).collect()
    }

    fn going(&self, one: &Cluster, job: &str) -> Chain {
        let (name, at) = (&one.name, &self.at);
        if one.protected {
            let note = "hive.openshift.io/protected-delete-";
            let next = format!("poolctl annotate cluster {name} {note}{at}");
            let text = format!("cluster {name} is being deleted, and protected against it");
            return Chain::of(text, next);
        }
        if one.held && (one.started_at.is_none() || one.preserve) {
            let path = "jsonpath='{.metadata.finalizers}'";
            let text = format!("cluster {name} is held by a finalizer of another program");
            return Chain::of(text, format!("poolctl get cluster {name} -o {path}{at}"));
        }
        let text = format!("cluster {name} is being destroyed{}{job}", self.ago(one.deleting));
        match self.failed_to_go(name) {
            Some(message) => Chain::of(text, format!("poolctl events cluster/{name}"))
                .after(format!("the last attempt failed: {message}")),
            None => Chain::of(text, "poolctl reconcile --wait"),
        }
    }

    /// What the last attempt to destroy a cluster said, if there was one.
    fn failed_to_go(&self, cluster: &str) -> Option<String> {
        let jobs = self.store.jobs(Some(cluster), false).ok()?;
        let ended = jobs.into_iter().filter(|job| job.verb == JobVerb::Deprovision);
        ended.filter(|job| job.ended.is_some()).last()?.message
    }

    fn installed(&self, one: &Cluster, job: &str) -> Chain {
        let (name, at) = (&one.name, &self.at);
        let power = one.power.doing();
        let gone = one.claim_key().filter(|claim| self.state.claims.find(claim).is_none());
        if let Some(claim) = gone {
            let text = format!("cluster {name} is held by claim {}, which is gone", claim.name);
            return Chain::of(text, format!("poolctl delete cluster {name}{at}"));
        }
        let whose = match (&one.claim, &one.pool) {
            (Some(claim), _) => format!("claim {claim} has it"),
            (None, Some(pool)) => format!("pool {} keeps it for claims", pool.name),
            (None, None) => "it belongs to no pool".into(),
        };
        let moves = one.power.waking() || one.power.stopping();
        let mut text =
            format!("cluster {name} is {power}{}; {whose}{job}", self.ago(one.power_since));
        let message = one.power_message.as_deref();
        if moves {
            let [hibernating, ready] = one.power.conditions(message);
            let step = if one.power.stopping() { hibernating } else { ready };
            text = format!("{text}: {}", step.message);
        }
        let next = match one.power {
            _ if moves && !one.power.failed() => "poolctl reconcile --wait".into(),
            power if power.failed() => format!("poolctl cluster retry {name}{at}"),
            Power::Hibernating if one.claim.is_some() => {
                format!("poolctl cluster resume {name}{at}")
            }
            Power::Paused => {
                format!("poolctl annotate cluster {name} {POWER_PAUSED}-{at}")
            }
            _ => format!("poolctl credentials {name}{at}"),
        };
        Chain::of(text, next)
    }
}
