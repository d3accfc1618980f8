//! Hosts by their management controllers, all at once; those of a cluster in the order in which it
//! bears it: workers go first and come last.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use crate::model::bmc::Address;
use crate::model::host::{ErrorReason, pin_of};
use crate::model::job::{HostReport, Verb};
use crate::model::order::{Ending, HealthReport, Machine};

use super::controller::{self, Controller, ControllerError, Watch};
use super::files::read_regular_file;
use super::ipmi::Ipmi;
use super::redfish::Redfish;
use super::task::{Stopped, Task};
use super::trust::Trust;

/// Machines at a time; more are no faster, but open more files.
const AT_ONCE: usize = 64;

/// The machines of a job do what its verb says.
pub fn run_job_verb(task: &mut Task) -> Result<Ending, Stopped> {
    run_verb(task, task.order.verb)
}

/// All of them do this.
pub fn run_verb(task: &mut Task, verb: Verb) -> Result<Ending, Stopped> {
    let all: Vec<usize> = (0..task.order.machines.len()).collect();
    let is_master = |at: &usize| task.order.machines.get(*at).is_some_and(|one| one.master);
    let (masters, workers): (Vec<_>, Vec<_>) = all.into_iter().partition(is_master);
    let stages = match verb {
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
    };
    let mut reports = Vec::new();
    for stage in stages {
        for some in stage.chunks(AT_ONCE) {
            reports.extend(together(task, some, verb)?);
        }
        // Masters of a cluster that is to sleep run as long as a worker does.
        if task.order.verb == Verb::Stop && reports.iter().any(failed) {
            break;
        }
    }
    // Of a host's own job it needs not be said which it was.
    let alone = task.order.cluster.is_empty();
    let why = |one: &HostReport| if alone { one.error.clone() } else { why(one) };
    let wrong: Vec<String> = reports.iter().filter(|one| failed(one)).map(why).collect();
    let ending = if wrong.is_empty() { Ending::done() } else { Ending::failed(wrong.join("; ")) };
    Ok(Ending { hosts: reports, ..ending })
}

/// All of them boot once from an image: none before each has taken it. If one cannot, it is taken
/// from all of them again, and those that have booted are switched off: the installation does not
/// go on without the others, and their next boot would be from their disks.
pub fn boot_from_image(task: &mut Task, image: &str) -> Result<Ending, Stopped> {
    for one in &mut task.order.machines {
        (one.image, one.held) = (Some(image.to_owned()), true);
        (one.boot, one.soft) = (Some("cdrom".to_owned()), false);
    }
    let mut all = run_verb(task, Verb::Attach)?;
    if all.succeeded() {
        let booted = run_verb(task, Verb::Cycle)?;
        all = Ending { hosts: [all.hosts, booted.hosts.clone()].concat(), ..booted };
        if !all.succeeded() {
            for machine in &mut task.order.machines {
                machine.soft_off = 0;
            }
            all.hosts.extend(run_verb(task, Verb::Stop)?.hosts);
        }
    }
    if !all.succeeded() {
        let ejected = run_verb(task, Verb::Eject)?;
        all.hosts.extend(ejected.hosts);
    }
    Ok(all)
}

/// The machines that are not yet as they were told to be.
pub fn check_health(task: &mut Task) -> Result<Ending, Stopped> {
    let all: Vec<usize> = (0..task.order.machines.len()).collect();
    let mut reports = Vec::new();
    for some in all.chunks(AT_ONCE) {
        reports.extend(together(task, some, Verb::State)?);
    }
    let wanted = !task.order.stopping;
    let not_yet = reports.iter().filter(|one| one.powered_on != Some(wanted));
    let name = |one: &HostReport| one.host.rsplit('/').next().unwrap_or_default().to_owned();
    let machines = not_yet.map(name).collect();
    let health = HealthReport { machines, ..HealthReport::default() };
    Ok(Ending { hosts: reports, health: Some(health), ..Ending::done() })
}

fn failed(one: &HostReport) -> bool {
    !one.error.is_empty()
}

fn why(one: &HostReport) -> String {
    format!("{}: {}", one.host.rsplit('/').next().unwrap_or_default(), one.error)
}

/// Each machine has a thread; this one looks at the clock, and takes down what they say.
fn together(task: &mut Task, which: &[usize], verb: Verb) -> Result<Vec<HostReport>, Stopped> {
    let stop = Arc::new(AtomicBool::new(false));
    let ((said, lines), (done, reports)) = (mpsc::channel(), mpsc::channel());
    for at in which {
        let Some(order) = task.order.machines.get(*at).cloned() else { continue };
        let place = order.host.rsplit('/').next().unwrap_or_default().to_owned();
        let watch = Watch { stop: Arc::clone(&stop), said: said.clone(), host: place };
        let (done, folder) = (done.clone(), task.job_folder.file_path("work").join(at.to_string()));
        let secrets = task.job_folder.input_path("machines").join(at.to_string());
        let ipmitool = task.program_path("ipmitool");
        std::fs::create_dir_all(&folder)?;
        std::thread::spawn(move || {
            let report = match controller(&order, &secrets, &folder, ipmitool) {
                Ok(mut controller) => controller::run_verb(&mut *controller, &order, verb, &watch),
                Err(error) => HostReport {
                    host: order.host,
                    address: order.address,
                    error: error.message,
                    reason: error.reason,
                    ..HostReport::default()
                },
            };
            drop(done.send(report));
        });
    }
    drop((said, done));
    let mut found = Vec::new();
    while found.len() < which.len() {
        let paused = task.wait_unless_stopped();
        for line in lines.try_iter() {
            task.log_line(&line);
        }
        found.extend(reports.try_iter());
        if let Err(stopped) = paused {
            stop.store(true, Ordering::Relaxed);
            return Err(stopped);
        }
    }
    for line in lines.try_iter() {
        task.log_line(&line);
    }
    found.sort_by(|one, other| one.host.cmp(&other.host));
    Ok(found)
}

fn controller(
    order: &Machine,
    secrets: &std::path::Path,
    folder: &std::path::Path,
    ipmitool: Option<PathBuf>,
) -> Result<Box<dyn Controller>, ControllerError> {
    let secret = |name: &str| {
        let text = read_regular_file(&secrets.join(name))
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        // An editor's last newline is no part of a password.
        text.map(|text| text.trim_end_matches(['\n', '\r']).to_owned())
    };
    if order.address.is_empty() {
        return Err("the host is gone, or has no management controller any more".into());
    }
    let lacks = |name: &str| {
        ControllerError::new(ErrorReason::CredentialsUnusable, format!("its Secret has no {name}"))
    };
    let user = secret("username").ok_or_else(|| lacks("username"))?;
    let password = secret("password").ok_or_else(|| lacks("password"))?;
    match order.address.parse::<Address>()? {
        Address::Ipmi { host, port, privilege } => {
            let program = ipmitool.ok_or(
                "there is no ipmitool; install it, or name it in programs of the Settings",
            )?;
            Ok(Box::new(Ipmi::new(
                program,
                folder.to_owned(),
                super::ipmi::Target { host, port, privilege, user, uefi: order.uefi },
                password,
                order.cipher,
            )?))
        }
        Address::Redfish { origin, system } => {
            let unusable =
                || ControllerError::new(ErrorReason::CertificateRefused, "its pin is no SHA-256");
            let pin = order.pin.as_deref().map(|pin| pin_of(pin).ok_or_else(unusable));
            let pin = pin.transpose()?;
            let trust = Trust { pin, authority: secret("ca.crt"), insecure: order.insecure };
            Ok(Box::new(Redfish::new(&origin, &system, (&user, &password), trust, order.uefi)?))
        }
    }
}
