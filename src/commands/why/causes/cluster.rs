//! Why a cluster is not ready, or not gone.

use crate::commands::why::Chain;
use crate::commands::why::causes::Around;
use crate::model::agent::{Agent, HostState};
use crate::model::cluster::{Cluster, POWER_PAUSED, Phase, Power};
use crate::model::driver::Driver;
use crate::model::host::{BareMetalHost, DETACHED};
use crate::model::job::{Job, Verb as JobVerb};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::PAUSED;
use crate::model::refusal::Refusal;
use crate::plan;

impl Around<'_> {
    pub fn cluster(&self, one: &Cluster) -> Result<Chain, Refusal> {
        let (name, at) = (&one.name, &self.at);
        let job = self.state.live_job(name).map(|(_, job)| job);
        let job = job
            .map(|job| format!("; a {} job runs{}", job.verb.name(), self.ago(Some(job.started))));
        let job = job.unwrap_or_default();
        let show = format!("poolctl cluster logs {name}");
        if one.driver == Driver::Missing && !one.installed() {
            let text = format!("no driver of this build serves the platform of cluster {name}");
            return Ok(Chain::of(text, format!("poolctl describe cluster {name}{at}")));
        }
        if one.paused {
            let text = format!("cluster {name} is paused: nothing is done with it");
            return Ok(Chain::of(text, format!("poolctl annotate cluster {name} {PAUSED}-{at}")));
        }
        if let Some(lacks) = &one.lacks {
            let text = format!("cluster {name} waits for its hosts: {}", lacks.message);
            return Ok(self.waits(one, text));
        }
        if let Some(key) = one.required().filter(|_| one.unmet.is_some()) {
            let text =
                format!("cluster {name} needs customization {}, which is not there", key.name);
            return Ok(Chain::of(text, format!("poolctl get customization -n {}", key.namespace)));
        }
        Ok(match one.phase() {
            Phase::Deprovisioning => self.going(one, &job)?,
            Phase::Broken => {
                let text = format!(
                    "cluster {name} was given up after {} failed installations: {}",
                    one.restarts,
                    one.failure.as_deref().unwrap_or("no reason was given")
                );
                Chain::of(text, show)
            }
            Phase::Retrying => {
                let next = plan::next_attempt_at(&self.state, one);
                let next = next.map(|at| at.since(self.now).short()).unwrap_or_default();
                let times = match one.restarts {
                    0 => "before anything of it existed, which uses up no attempt".to_owned(),
                    1 => "once".to_owned(),
                    times => format!("{times} times"),
                };
                let text = format!(
                    "cluster {name} failed to install {times}, the next attempt is in {next}{job}: {}",
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
            Phase::Installed => self.installed(one, &job)?,
        })
    }

    /// A cluster that cannot be installed on its hosts, and until when it waits for them.
    fn waits(&self, one: &Cluster, text: String) -> Chain {
        let (name, at) = (&one.name, &self.at);
        let its = |one: &&Agent| one.bound_to().is_some_and(|key| key.name == *name);
        let all = self.state.agents.rows().filter(its);
        let late: Vec<&Agent> = all.filter(|one| one.state() != HostState::Known).collect();
        let end = plan::waits_until(one).map(|end| {
            let left = end.since(self.now).short();
            format!("{text}; it is given up {end}, in {left}")
        });
        // Whoever is only being booted comes by himself.
        let next = if end.is_some() && late.iter().any(|one| one.state().is_lost()) {
            format!("poolctl delete cluster {name}{at}")
        } else {
            format!("poolctl get agent{at}")
        };
        let said = |one: &Agent| {
            let info = &one.status.debug_info.state_info;
            format!("host {} is {}: {info}", one.hostname(), one.state())
        };
        let first = Chain::of(end.unwrap_or(text), next);
        late.into_iter().map(said).fold(first, Chain::after)
    }

    fn going(&self, one: &Cluster, job: &str) -> Result<Chain, Refusal> {
        let (name, at) = (&one.name, &self.at);
        if one.protected {
            let note = "hive.openshift.io/protected-delete-";
            let next = format!("poolctl annotate cluster {name} {note}{at}");
            let text = format!("cluster {name} is being deleted, and protected against it");
            return Ok(Chain::of(text, next));
        }
        if one.held && (one.started_at.is_none() || one.preserve) {
            let path = "jsonpath='{.metadata.finalizers}'";
            let text = format!("cluster {name} is held by a finalizer of another program");
            return Ok(Chain::of(text, format!("poolctl get cluster {name} -o {path}{at}")));
        }
        let text = format!("cluster {name} is being destroyed{}{job}", self.ago(one.deleting));
        let last_attempt = self.last_deprovision(name)?;
        let message = last_attempt.as_ref().and_then(|job| job.message.as_deref());
        let (Some(last_attempt), Some(message)) = (&last_attempt, message) else {
            return Ok(Chain::of(text, "poolctl reconcile --wait"));
        };
        let failed = format!("the last attempt failed: {message}");
        let Some(host) = self.failing_host(name, last_attempt)? else {
            return Ok(Chain::of(text, format!("poolctl events cluster/{name}")).after(failed));
        };
        let (host, of) = (&host.metadata.name, &host.metadata.namespace);
        let next = format!("poolctl annotate host {host} {DETACHED}=true -n {of}");
        let why = format!("host {host} keeps the others; detached, it stays as it is and they go");
        Ok(Chain::of(text, next).after(failed).after(why))
    }

    /// The host of a cluster whose controller has failed in a job, and since then.
    fn failing_host(&self, cluster: &str, job: &Job) -> Result<Option<BareMetalHost>, Refusal> {
        let hosts = self.store.all::<BareMetalHost>()?;
        Ok(hosts.into_iter().find(|host| {
            host.cluster() == Some(cluster)
                && host.status.error_count > 0
                && job.hosts.contains(&host.key().to_string())
        }))
    }

    /// The last attempt to destroy a cluster that is over, if there was one.
    fn last_deprovision(&self, cluster: &str) -> Result<Option<Job>, Refusal> {
        let jobs = self.store.jobs_of(cluster)?.into_iter().rev();
        Ok(jobs.filter(|job| job.ended.is_some()).find(|job| job.verb == JobVerb::Deprovision))
    }

    fn installed(&self, one: &Cluster, job: &str) -> Result<Chain, Refusal> {
        let (name, at) = (&one.name, &self.at);
        let power = one.power.doing();
        if let Some(claim) = one.claim_key()
            && self.is_gone(&claim)?
        {
            let text = format!("cluster {name} is held by claim {}, which is gone", claim.name);
            return Ok(Chain::of(text, format!("poolctl delete cluster {name}{at}")));
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
        Ok(Chain::of(text, next))
    }

    /// Whether there is no such claim, also none that was not looked at.
    fn is_gone(&self, claim: &Key) -> Result<bool, Refusal> {
        let is_loaded = self.state.claims.find(claim).is_some();
        Ok(!is_loaded && self.store.pool_of(Kind::ClusterClaim, claim)?.is_none())
    }
}
