//! Why a host is as it is.

use crate::model::host::{BareMetalHost, ErrorReason, HOLD, REGISTRATION_ERROR};
use crate::model::job::Job;
use crate::model::kinds::Kind;
use crate::model::refusal::Refusal;

use crate::commands::why::causes::{Around, Chain, host_hold};

impl Around<'_> {
    pub(super) fn host(&self, host: &BareMetalHost) -> Result<Chain, Refusal> {
        let name = &host.metadata.name;
        let mut chain = self.machine(host)?;
        if host.metadata.annotated_at_all(HOLD) && host.status.error_message.is_empty() {
            chain.next = format!("poolctl host unhold {name}{}", self.at);
        }
        let known = self.store.names(Kind::ClusterDeployment)?;
        let lives = |cluster: &str| known.iter().any(|key| key.name == cluster);
        Ok(match (host.held(), host.cluster()) {
            (_, Some(cluster)) if !lives(cluster) => {
                let text =
                    format!("host {name} is kept by cluster {cluster}, which was left running");
                let namespace = Some(host.metadata.namespace.clone());
                let agents = host_hold::agents_of(self.store, namespace, &[host.key()])?;
                let next = match agents.first() {
                    Some(one) => format!("poolctl delete agent {}{}", one.metadata.name, self.at),
                    None => host_hold::freeing(name, &self.at),
                };
                Chain::of(text, next)
            }
            (Some(why), _) => chain.behind(format!("host {name} is held: {why}")),
            (None, Some(cluster)) => {
                chain.behind(format!("host {name} is used by cluster {cluster}"))
            }
            (None, None) => chain,
        })
    }

    /// Why its machine is as it is.
    fn machine(&self, host: &BareMetalHost) -> Result<Chain, Refusal> {
        let (name, status) = (&host.metadata.name, &host.status);
        let Some(bmc) = &host.spec.bmc else {
            let first = format!("host {name} has no management controller: nothing is done to it");
            return Ok(Chain::of(first, format!("poolctl edit host {name}{}", self.at)));
        };
        if host.is_left_alone() {
            let first = format!("host {name} is paused or detached: nothing is done to it");
            let pauses = "baremetalhost.metal3.io/paused- baremetalhost.metal3.io/detached-";
            return Ok(Chain::of(
                first,
                format!("poolctl annotate host {name} {pauses}{}", self.at),
            ));
        }
        Ok(match self.store.jobs_on_host(&host.key().to_string())?.pop() {
            Some(job) if job.ended.is_none() => self.works(host, &job),
            _ if !status.error_message.is_empty() => self.fails(host, &bmc.credentials_name),
            _ => self.rests(host),
        })
    }

    fn works(&self, host: &BareMetalHost, job: &Job) -> Chain {
        let verb = job.verb.name();
        let ago = self.now.since(job.started).short();
        let first = format!("{verb} of host {} is running since {ago}", host.metadata.name);
        Chain::of(first, format!("poolctl job logs {} -f", job.id))
    }

    fn fails(&self, host: &BareMetalHost, secret: &str) -> Chain {
        let (name, status) = (&host.metadata.name, &host.status);
        let what = if status.error_type.is_empty() { "error" } else { &status.error_type };
        let files = "--from-file=username --from-file=password";
        let next = match status.error_reason {
            Some(ErrorReason::CredentialsMissing) => {
                format!("poolctl secret create {secret} {files}{}", self.at)
            }
            Some(ErrorReason::CredentialsUnusable) => {
                format!("poolctl secret create {secret} {files} --overwrite{}", self.at)
            }
            Some(ErrorReason::CertificateRefused) => {
                let pin = "poolctl.dev/bmc-certificate-sha256=SHA256";
                format!("poolctl annotate host {name} {pin}{}", self.at)
            }
            None if what == REGISTRATION_ERROR => format!("poolctl edit host {name}{}", self.at),
            None => format!("poolctl job logs host/{name}{}", self.at),
        };
        let chain = Chain::of(format!("host {name} has a {what}"), next)
            .after(status.error_message.clone());
        match host.next_attempt_at() {
            Some(again) => {
                let left = again.since(self.now).short();
                let times = status.error_count;
                chain.after(format!(
                    "it failed {times} times in a row, and is tried again in {left}"
                ))
            }
            None => chain,
        }
    }

    fn rests(&self, host: &BareMetalHost) -> Chain {
        let name = &host.metadata.name;
        let wished = if host.spec.online { "on" } else { "off" };
        let chain = match host.power() {
            None => Chain::of(
                format!("whether host {name} is on is not known yet"),
                "poolctl reconcile".to_owned(),
            ),
            Some(on) if on == host.spec.online => Chain::of(
                format!("host {name} is {wished}, as it is to be"),
                format!("poolctl host power status {name}{}", self.at),
            ),
            Some(_) if host.spec.disable_power_off && !host.spec.online => Chain::of(
                format!("host {name} is on and to be off, but disablePowerOff forbids it"),
                format!("poolctl edit host {name}{}", self.at),
            ),
            Some(_) => Chain::of(
                format!("host {name} is to be {wished}: the next pass does it"),
                "poolctl reconcile".to_owned(),
            ),
        };
        match host.trust() {
            trust @ ("INSECURE" | "NONE (http)") => chain.after(format!(
                "certificate: {trust}; whoever is on the way can read its password"
            )),
            _ => chain,
        }
    }
}
