//! Makes all machines of a job do what its verb asks, through their management controllers and at
//! the same time. Never decides what a machine is to do, nor which ones belong to the job.
//!
//! Machines of a cluster are stopped and started in the order that the cluster can bear: workers
//! stop first and start last.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use crate::model::bmc::BmcAddress;
use crate::model::failure::FailureClass;
use crate::model::host::{ErrorReason, parse_certificate_pin};
use crate::model::job::{HostReport, Verb};
use crate::model::order::{HealthReport, JobEnding, JobOrder, Machine};

use super::controller::{self, Controller, ControllerError, JobLink};
use super::files::read_regular_file;
use super::http::Login;
use super::ipmi::{Ipmi, IpmiTarget};
use super::redfish::Redfish;
use super::site;
use super::task::{Stopped, Task};
use super::trust::Trust;

/// Machines that are worked on at the same time. More would be no faster, and open more files.
const AT_ONCE: usize = 64;

/// Makes all machines of a job do what the job's verb says.
pub fn run_job_verb(task: &mut Task) -> Result<JobEnding, Stopped> {
    run_verb(task, task.order.verb)
}

/// Makes all machines of a job do this, whatever the job's verb is.
pub fn run_verb(task: &mut Task, verb: Verb) -> Result<JobEnding, Stopped> {
    let mut reports = Vec::new();
    for stage in stages(&task.order.machines, verb) {
        for indexes in stage.chunks(AT_ONCE) {
            reports.extend(run_verb_on(task, indexes, verb)?);
        }
        // The control plane of a cluster that is stopped must run as long as one worker does.
        if task.order.verb == Verb::Stop && reports.iter().any(has_failed) {
            break;
        }
    }
    let failures: Vec<String> = reports
        .iter()
        .filter(|report| has_failed(report))
        .map(|report| describe_failure(&task.order, report))
        .collect();
    let mut failed_reports = reports.iter().filter(|report| has_failed(report));
    let ending = if failures.is_empty() {
        JobEnding::success()
    } else if failed_reports.all(|report| report.away) {
        JobEnding::failed_as(FailureClass::ControllerAway, failures.join("; "))
    } else {
        JobEnding::failed(failures.join("; "))
    };
    Ok(JobEnding { hosts: reports, ..ending })
}

/// Sorts the machines into two groups. The second group is begun when the first is done. Machines
/// are given by their indexes in the order.
fn stages(machines: &[Machine], verb: Verb) -> [Vec<usize>; 2] {
    let (masters, workers): (Vec<usize>, Vec<usize>) =
        (0..machines.len()).partition(|index| machines[*index].master);
    match verb {
        Verb::Stop => [workers, masters],
        Verb::Start => [masters, workers],
        Verb::Provision
        | Verb::Deprovision
        | Verb::Health
        | Verb::Cycle
        | Verb::State
        | Verb::Attach
        | Verb::Eject
        | Verb::Inspect
        | Verb::AddNodes
        | Verb::Wipe => [[masters, workers].concat(), Vec::new()],
    }
}

/// Boots all machines of a job once from an image. None is booted before each has the image
/// attached.
///
/// If one fails, the image is ejected everywhere, and the machines that have booted are switched
/// off: the installation does not go on without the others, and their next boot would be from their
/// disks.
pub fn boot_from_image(task: &mut Task, image_url: &str) -> Result<JobEnding, Stopped> {
    for machine in &mut task.order.machines {
        machine.image = Some(image_url.to_owned());
        machine.held = true;
        machine.boot = Some("cdrom".to_owned());
        machine.soft = false;
    }
    let mut ending = run_verb(task, Verb::Attach)?;
    if ending.is_success() {
        let booted = run_verb(task, Verb::Cycle)?;
        ending = JobEnding { hosts: [ending.hosts, booted.hosts.clone()].concat(), ..booted };
        if !ending.is_success() {
            for machine in &mut task.order.machines {
                machine.soft_off = 0;
            }
            ending.hosts.extend(run_verb(task, Verb::Stop)?.hosts);
        }
    }
    if !ending.is_success() {
        let ejected = run_verb(task, Verb::Eject)?;
        ending.hosts.extend(ejected.hosts);
    }
    Ok(ending)
}

/// Looks which machines are not switched on or off yet, as they were told to be.
pub fn check_health(task: &mut Task) -> Result<JobEnding, Stopped> {
    let indexes: Vec<usize> = (0..task.order.machines.len()).collect();
    let mut reports = Vec::new();
    for chunk in indexes.chunks(AT_ONCE) {
        reports.extend(run_verb_on(task, chunk, Verb::State)?);
    }
    let should_be_on = !task.order.stopping;
    let late_reports = reports.iter().filter(|report| report.powered_on != Some(should_be_on));
    let machines = late_reports.map(|report| short_name(&report.host).to_owned()).collect();
    let health = HealthReport { machines, ..HealthReport::default() };
    Ok(JobEnding { hosts: reports, health: Some(health), ..JobEnding::success() })
}

fn has_failed(report: &HostReport) -> bool {
    !report.error.is_empty()
}

/// What went wrong with a machine. The job of a single host needs not say which one it was.
fn describe_failure(order: &JobOrder, report: &HostReport) -> String {
    if order.cluster.is_empty() {
        return report.error.clone();
    }
    format!("{}: {}", short_name(&report.host), report.error)
}

/// The name of a host without its namespace.
fn short_name(host: &str) -> &str {
    host.rsplit('/').next().unwrap_or_default()
}

/// Makes some machines, given by their indexes in the order, do what a verb asks. Each has a thread
/// of its own; this one looks at the deadline of the job, and logs what the others say.
fn run_verb_on(task: &mut Task, indexes: &[usize], verb: Verb) -> Result<Vec<HostReport>, Stopped> {
    let stop = Arc::new(AtomicBool::new(false));
    let (line_sender, log_lines) = mpsc::channel();
    let (report_sender, finished_reports) = mpsc::channel();
    for index in indexes {
        let Some(machine) = task.order.machines.get(*index).cloned() else { continue };
        let job = JobLink {
            stop: Arc::clone(&stop),
            log_lines: line_sender.clone(),
            host: short_name(&machine.host).to_owned(),
        };
        let thread_sender = report_sender.clone();
        let folder = task.job_folder.file_path("work").join(index.to_string());
        let secrets = task.job_folder.input_path("machines").join(index.to_string());
        let ipmitool = task.program_path("ipmitool");
        let site_authorities = site::read_certificates(&task.job_folder);
        std::fs::create_dir_all(&folder)?;
        std::thread::spawn(move || {
            let controller =
                open_controller(&machine, &secrets, site_authorities, &folder, ipmitool);
            let report = match controller {
                Ok(mut controller) => controller::run_verb(&mut *controller, &machine, verb, &job),
                Err(error) => HostReport {
                    host: machine.host,
                    address: machine.address,
                    error: error.message,
                    reason: error.reason,
                    away: error.is_away,
                    ..HostReport::default()
                },
            };
            drop(thread_sender.send(report));
        });
    }
    let mut reports = Vec::new();
    while reports.len() < indexes.len() {
        let pause = task.wait_unless_stopped();
        for line in log_lines.try_iter() {
            task.log_line(&line);
        }
        reports.extend(finished_reports.try_iter());
        if let Err(stopped) = pause {
            stop.store(true, Ordering::Relaxed);
            return Err(stopped);
        }
    }
    for line in log_lines.try_iter() {
        task.log_line(&line);
    }
    reports.sort_unstable_by(|left, right| left.host.cmp(&right.host));
    Ok(reports)
}

/// The controller of a machine, by its address and the files of its Secret. `site_authorities` are
/// certificates in PEM that count beside those of the system. The error is for people.
fn open_controller(
    machine: &Machine,
    secrets: &Path,
    site_authorities: String,
    folder: &Path,
    ipmitool: Option<PathBuf>,
) -> Result<Box<dyn Controller>, ControllerError> {
    if machine.address.is_empty() {
        return Err("the host is gone, or has no management controller any more".into());
    }
    let user = require_secret(secrets, "username")?;
    let password = require_secret(secrets, "password")?;
    match machine.address.parse::<BmcAddress>()? {
        BmcAddress::Ipmi { host, port, privilege } => {
            let program = ipmitool.ok_or(
                "there is no ipmitool; install it, or name it in programs of the Settings",
            )?;
            let target = IpmiTarget { host, port, privilege, user, uefi: machine.uefi };
            let folder = folder.to_owned();
            Ok(Box::new(Ipmi::new(program, folder, target, password, machine.cipher)?))
        }
        BmcAddress::Redfish { origin, system } => {
            let pin = match &machine.pin {
                Some(pin) => Some(parse_certificate_pin(pin).ok_or_else(|| {
                    ControllerError::new(
                        ErrorReason::CertificateRefused,
                        "its pin is not a SHA-256",
                    )
                })?),
                None => None,
            };
            let authority = read_secret(secrets, "ca.crt");
            let trust = Trust { pin, authority, site_authorities, insecure: machine.insecure };
            let login = Login { user, password };
            Ok(Box::new(Redfish::new(&origin, &system, login, trust, machine.uefi)?))
        }
    }
}

fn require_secret(secrets: &Path, name: &str) -> Result<String, ControllerError> {
    read_secret(secrets, name).ok_or_else(|| {
        ControllerError::new(ErrorReason::CredentialsUnusable, format!("its Secret has no {name}"))
    })
}

fn read_secret(secrets: &Path, name: &str) -> Option<String> {
    let bytes = read_regular_file(&secrets.join(name)).ok()?;
    let content = String::from_utf8(bytes).ok()?;
    // The line break that an editor adds at the end is no part of a password.
    Some(content.trim_end_matches(['\n', '\r']).to_owned())
}
