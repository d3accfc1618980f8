//! Explains a host: who uses it, and what its management controller reports.

use super::chain::Chain;
use super::evidence::Evidence;
use crate::model::annotations::{HOLD, PIN, WIPE};
use crate::model::host::{
    BareMetalHost, CertificateTrust, ErrorReason, HostPower, REGISTRATION_ERROR,
};
use crate::model::job::Job;
use crate::plan::leases::command_to_free_host;

/// Explains a host: first who holds or uses it, and then its machine.
pub fn explain_host(evidence: &Evidence, host: &BareMetalHost) -> Chain {
    let name = &host.metadata.name;
    if let Some(cluster) = host.cluster()
        && !evidence.consumer_exists
    {
        return explain_lost_consumer(evidence, name, cluster);
    }
    let mut chain = explain_return(evidence, host, explain_machine(evidence, host));
    if host.metadata.has_annotation(HOLD) && host.status.error_message.is_empty() {
        chain.next = format!("poolctl host unhold {name}{}", evidence.namespace_option);
    }
    match (host.hold_reason(), host.cluster()) {
        (Some(why), _) => chain.preceded_by(format!("host {name} is held: {why}")),
        (None, Some(cluster)) => {
            chain.preceded_by(format!("host {name} is used by cluster {cluster}"))
        }
        (None, None) => chain,
    }
}

/// Adds what a host that has left its last cluster waits for.
fn explain_return(evidence: &Evidence, host: &BareMetalHost, mut chain: Chain) -> Chain {
    if let Some(cluster) = &host.status.may_run_for {
        let cause = format!(
            "it may still be on for cluster {cluster}, which it has left; until its controller \
             reports it off, its addresses there stay leased"
        );
        chain = chain.because(cause);
    }
    if let Some(cluster) = host.old_system()
        && host.spec.online
        && host.power() != HostPower::On
    {
        chain = chain.because(format!(
            "its disks have what cluster {cluster} has left there: it stays off until they are \
             wiped ({WIPE}=quick) or a cluster takes it"
        ));
    }
    let Some(wipe) = &host.status.wipe else { return chain };
    let Some(retry_at) = wipe.retry_at() else { return chain };
    if !host.metadata.has_annotation(HOLD) {
        return chain;
    }
    let times = match wipe.failures {
        1 => "once".to_owned(),
        times => format!("{times} times in a row"),
    };
    let next_attempt = evidence.describe_next_attempt(Some(retry_at));
    chain.because(format!("its disks could not be wiped {times}; {next_attempt}"))
}

/// Explains a host whose cluster was left running and is no longer in the state.
fn explain_lost_consumer(evidence: &Evidence, host: &str, cluster: &str) -> Chain {
    let option = &evidence.namespace_option;
    let next = match evidence.agents_of_host.first() {
        Some(agent) => format!("poolctl delete agent {}{option}", agent.metadata.name),
        None => command_to_free_host(host, option),
    };
    Chain::new(format!("host {host} is kept by cluster {cluster}, which was left running"), next)
}

/// Explains the machine of a host, whoever uses it.
fn explain_machine(evidence: &Evidence, host: &BareMetalHost) -> Chain {
    let name = &host.metadata.name;
    let option = &evidence.namespace_option;
    let Some(controller) = &host.spec.bmc else {
        let cause =
            format!("host {name} has no management controller, so poolctl cannot control it");
        return Chain::new(cause, format!("poolctl edit host {name}{option}"));
    };
    if host.is_left_alone() {
        let cause = format!("host {name} is paused or detached, so poolctl does not change it");
        let pauses = "baremetalhost.metal3.io/paused- baremetalhost.metal3.io/detached-";
        return Chain::new(cause, format!("poolctl annotate host {name} {pauses}{option}"));
    }
    match &evidence.last_job_on_host {
        Some(job) if job.ended.is_none() => {
            let chain = explain_running_job(evidence, name, job);
            match host.status.error_message.as_str() {
                "" => chain,
                message => chain.because(format!("the last one failed: {message}")),
            }
        }
        _ if !host.status.error_message.is_empty() => {
            explain_error(evidence, host, &controller.credentials_name)
        }
        _ => explain_power(evidence, host),
    }
}

/// Explains a host that a job works on now.
fn explain_running_job(evidence: &Evidence, host: &str, job: &Job) -> Chain {
    let verb = job.verb.name();
    let activity = evidence.describe_activity("running", Some(job.started));
    let cause = format!("the {verb} job of host {host} {activity}");
    Chain::new(cause, format!("poolctl job logs {} -f", job.id))
}

/// Explains a host whose last job failed, and when it is tried again. `secret` is the name of the
/// Secret with its credentials.
fn explain_error(evidence: &Evidence, host: &BareMetalHost, secret: &str) -> Chain {
    let name = &host.metadata.name;
    let status = &host.status;
    let option = &evidence.namespace_option;
    let error = match status.error_type.as_str() {
        "" => "an error".to_owned(),
        error_type => format!("a {error_type}"),
    };
    let create_secret =
        format!("poolctl secret create {secret} --from-file=username --from-file=password");
    let next = match status.error_reason {
        Some(ErrorReason::CredentialsMissing) => format!("{create_secret}{option}"),
        Some(ErrorReason::CredentialsUnusable) => format!("{create_secret} --overwrite{option}"),
        Some(ErrorReason::CertificateRefused) => {
            format!("poolctl annotate host {name} {PIN}=SHA256{option}")
        }
        None if status.error_type == REGISTRATION_ERROR => {
            format!("poolctl edit host {name}{option}")
        }
        None => format!("poolctl job logs host/{name}{option}"),
    };
    let chain =
        Chain::new(format!("host {name} has {error}"), next).because(&*status.error_message);
    let Some(next_attempt_at) = host.next_attempt_at() else { return chain };
    let next_attempt = evidence.describe_next_attempt(Some(next_attempt_at));
    let times = match status.error_count {
        1 => "once".to_owned(),
        times => format!("{times} times in a row"),
    };
    chain.because(format!("it failed {times}; {next_attempt}"))
}

/// Explains a machine whose controller reports no error.
fn explain_power(evidence: &Evidence, host: &BareMetalHost) -> Chain {
    let name = &host.metadata.name;
    let option = &evidence.namespace_option;
    let online = host.spec.online;
    let wanted = if online { "on" } else { "off" };
    let chain = match host.power() {
        HostPower::Unknown => {
            let cause = format!("the power state of host {name} is not known yet");
            Chain::new(cause, "poolctl reconcile")
        }
        power if power == HostPower::from_is_on(online) => Chain::new(
            format!("host {name} is {wanted}, as it should be"),
            format!("poolctl host power status {name}{option}"),
        ),
        _ if host.spec.disable_power_off && !online => Chain::new(
            format!("host {name} is on and should be off, but disablePowerOff forbids that"),
            format!("poolctl edit host {name}{option}"),
        ),
        _ => Chain::new(
            format!("host {name} should be {wanted}: the next pass switches it {wanted}"),
            "poolctl reconcile",
        ),
    };
    match host.certificate_trust() {
        certificate_trust @ (CertificateTrust::Unverified | CertificateTrust::Unencrypted) => {
            let cause = format!(
                "certificate: {certificate_trust}; others on the network can read its password"
            );
            chain.because(cause)
        }
        CertificateTrust::NotApplicable | CertificateTrust::Pinned | CertificateTrust::Verified => {
            chain
        }
    }
}
