//! Makes one machine do what a verb asks, through its management controller, and says what was
//! found. Never decides which machine does what.
//!
//! Controllers acknowledge an order at once and act on it later. Whatever a machine is told here,
//! it is looked at until it has done so.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::model::hardware::Hardware;
use crate::model::host::ErrorReason;
use crate::model::job::{HostReport, Verb};
use crate::model::order::Machine;

use super::process::{self, Stopwatch};

/// How soon a machine is looked at after it was told something. Each time it is waited twice as
/// long, until it is looked at in this interval.
const FIRST_LOOK: Duration = Duration::from_millis(125);
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a machine may take to be switched on, or off by force.
const FORCE_TIMEOUT: Duration = Duration::from_secs(120);
/// After this time it is told again: controllers lose orders.
const REPEAT_INTERVAL: Duration = Duration::from_secs(30);
/// So long a machine is looked at that may have been told to come on, before it is off for good:
/// longer than controllers take to act.
const DELAY_OF_POWER_ON: Duration = Duration::from_secs(45);

/// What the power of a machine is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerAction {
    On,
    /// The operating system is asked to shut down.
    SoftOff,
    Off,
}

/// What a machine boots from the next time, and only then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootSource {
    Cdrom,
    Pxe,
    Disk,
}

impl BootSource {
    /// The source that an order names: cdrom, pxe or disk.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "cdrom" => Some(Self::Cdrom),
            "pxe" => Some(Self::Pxe),
            "disk" => Some(Self::Disk),
            _ => None,
        }
    }
}

/// Why a controller did not do what it was told: a sentence for people and, where that is known,
/// what somebody has to put right first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerError {
    pub message: String,
    pub reason: Option<ErrorReason>,
    /// Whether it did not answer, or says that it cannot answer now: that is no fault of the order.
    pub is_away: bool,
}

impl ControllerError {
    /// An error that a person has to put right, such as wrong credentials. The message is for
    /// people.
    pub fn new(reason: ErrorReason, message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: Some(reason), is_away: false }
    }

    /// The error of a controller that does not answer, or cannot now.
    pub fn away(message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: None, is_away: true }
    }
}

impl From<String> for ControllerError {
    fn from(message: String) -> Self {
        Self { message, reason: None, is_away: false }
    }
}

impl From<&str> for ControllerError {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

impl fmt::Display for ControllerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

/// The management controller of one machine.
pub trait Controller {
    fn is_powered_on(&mut self) -> Result<bool, ControllerError>;
    /// Returns when the controller has acknowledged it; the machine may act later.
    fn request_power(&mut self, action: PowerAction) -> Result<(), ControllerError>;
    /// Sets what the machine boots from the next time. Does not boot it.
    fn boot_once(&mut self, source: BootSource) -> Result<(), ControllerError>;
    /// Attaches an image in place of what is attached.
    fn insert_image(&mut self, url: &str) -> Result<(), ControllerError>;
    fn eject_image(&mut self) -> Result<(), ControllerError>;
    /// What the machine is made of; None if such a controller cannot tell.
    fn read_hardware(&mut self) -> Result<Option<Hardware>, ControllerError>;
    /// The IPMI cipher suite that has worked; None for other protocols.
    fn cipher_suite(&self) -> Option<u8> {
        None
    }
}

/// Ties the work on one machine to its job: it ends with the job, and its steps go to the job's
/// log.
pub struct JobLink {
    /// Set when the job ends.
    pub stop: Arc<AtomicBool>,
    /// Takes lines for the log.
    pub log_lines: std::sync::mpsc::Sender<String>,
    /// The host's name, which each line begins with.
    pub host: String,
}

impl JobLink {
    /// Adds a line to the job's log.
    pub fn log_step(&self, step: &str) {
        // It fails once the job has ended: then the log is complete without it.
        drop(self.log_lines.send(format!("{}: {step}", self.host)));
    }

    /// Waits; an error as soon as the job ends.
    pub fn wait(&self, time: Duration) -> Result<(), String> {
        let stopwatch = Stopwatch::start();
        while stopwatch.elapsed() < time {
            if self.is_stopped() {
                return Err("ended".into());
            }
            process::pause_briefly();
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Makes a machine do what a verb asks. The report says what was found, also if it failed.
pub fn run_verb(
    controller: &mut dyn Controller,
    machine: &Machine,
    verb: Verb,
    job: &JobLink,
) -> HostReport {
    let mut report = HostReport {
        host: machine.host.clone(),
        address: machine.address.clone(),
        credentials: machine.credentials.clone(),
        ..HostReport::default()
    };
    if let Err(error) = perform_verb(controller, machine, verb, job, &mut report) {
        job.log_step(&format!("failed: {error}"));
        report.error = error.message;
        report.reason = error.reason;
        report.away = error.is_away;
    }
    report.cipher = controller.cipher_suite();
    report
}

/// Writes into the report what is known after each step, so that it is true also after an error.
fn perform_verb(
    controller: &mut dyn Controller,
    machine: &Machine,
    verb: Verb,
    job: &JobLink,
    report: &mut HostReport,
) -> Result<(), ControllerError> {
    let boot_source = machine.boot.as_deref().and_then(BootSource::from_name);
    let shutdown_time = Duration::from_secs(machine.soft_off);
    match verb {
        Verb::Start => {
            if !controller.is_powered_on()? {
                power_on(controller, boot_source, job)?;
                report.booted = boot_source.is_some();
            }
            report.powered_on = Some(true);
        }
        Verb::Stop => {
            if machine.may_come_on && !controller.is_powered_on()? {
                keep_off(controller, DELAY_OF_POWER_ON, job)?;
            } else {
                power_off(controller, shutdown_time, job)?;
            }
            report.powered_on = Some(false);
        }
        Verb::Cycle => {
            let shutdown_time = if machine.soft { shutdown_time } else { Duration::ZERO };
            power_off(controller, shutdown_time, job)?;
            report.powered_on = Some(false);
            power_on(controller, boot_source, job)?;
            report.powered_on = Some(true);
            report.booted = boot_source.is_some();
        }
        Verb::Attach => {
            let url = machine.image.as_deref().unwrap_or_default();
            job.log_step(&format!("attaching {url}"));
            controller.insert_image(url)?;
            // Before it is switched off: a machine that takes no boot order is left running.
            controller.boot_once(BootSource::Cdrom)?;
            report.image = Some(url.to_owned());
            if machine.held {
                return Ok(());
            }
            power_off(controller, Duration::ZERO, job)?;
            report.powered_on = Some(false);
            power_on(controller, None, job)?;
            report.powered_on = Some(true);
            report.booted = true;
        }
        Verb::Eject => {
            controller.eject_image()?;
            job.log_step("ejected");
            report.image = Some(String::new());
        }
        Verb::Inspect => {
            report.powered_on = Some(controller.is_powered_on()?);
            report.hardware = controller.read_hardware()?;
        }
        Verb::State => report.powered_on = Some(controller.is_powered_on()?),
        Verb::Provision | Verb::Deprovision | Verb::Health | Verb::AddNodes | Verb::Wipe => {
            return Err(format!("a management controller has no verb `{}`", verb.name()).into());
        }
    }
    Ok(())
}

/// Switches a machine on. The boot order is set right before, because controllers forget it after a
/// minute.
fn power_on(
    controller: &mut dyn Controller,
    boot_source: Option<BootSource>,
    job: &JobLink,
) -> Result<(), ControllerError> {
    if let Some(source) = boot_source {
        job.log_step(&format!("boots once from {source:?}"));
        controller.boot_once(source)?;
    }
    job.log_step("power on");
    request_and_await(controller, PowerAction::On, FORCE_TIMEOUT, job)
}

/// Switches a machine off. Its operating system has this time to shut down, none if it is zero;
/// then it is switched off by force.
fn power_off(
    controller: &mut dyn Controller,
    shutdown_time: Duration,
    job: &JobLink,
) -> Result<(), ControllerError> {
    if !controller.is_powered_on()? {
        return Ok(());
    }
    if !shutdown_time.is_zero() {
        job.log_step("asked to shut down");
        match request_and_await(controller, PowerAction::SoftOff, shutdown_time, job) {
            Ok(()) => return Ok(()),
            Err(error) if job.is_stopped() => return Err(error),
            Err(error) => job.log_step(&format!("{error}; powering off by force")),
        }
    }
    job.log_step("power off");
    request_and_await(controller, PowerAction::Off, FORCE_TIMEOUT, job)
}

/// Keeps a machine off that reads off, but was told to come on a moment ago. It is told to be off
/// all the same: some controllers forget by that what they were told before. Others refuse it while
/// the machine reads off, so it is looked at until nothing can come of the earlier order.
fn keep_off(
    controller: &mut dyn Controller,
    longest_delay: Duration,
    job: &JobLink,
) -> Result<(), ControllerError> {
    job.log_step("it may have been told to come on: power off");
    if let Err(error) = controller.request_power(PowerAction::Off) {
        job.log_step(&format!("{error}; it is off, and is looked at whether it stays so"));
    }
    let since_request = Stopwatch::start();
    while since_request.elapsed() < longest_delay {
        job.wait(LOOK_INTERVAL)?;
        // One lost answer says nothing about the machine.
        if controller.is_powered_on().unwrap_or(false) {
            job.log_step("it has come on: power off");
            return request_and_await(controller, PowerAction::Off, FORCE_TIMEOUT, job);
        }
    }
    // The last look counts: a controller that does not answer has not said that it is off.
    power_off(controller, Duration::ZERO, job)
}

/// Tells a machine something, and looks until it has done it. An error that comes meanwhile does
/// not end this before its time: one lost answer is no reason to use force.
fn request_and_await(
    controller: &mut dyn Controller,
    action: PowerAction,
    timeout: Duration,
    job: &JobLink,
) -> Result<(), ControllerError> {
    let since_begin = Stopwatch::start();
    let mut since_request = Stopwatch::start();
    controller.request_power(action)?;
    let is_to_be_on = action == PowerAction::On;
    let mut last_error = None;
    let mut next_look = FIRST_LOOK;
    while since_begin.elapsed() < timeout {
        match controller.is_powered_on() {
            Ok(is_on) if is_on == is_to_be_on => return Ok(()),
            Ok(_) => last_error = None,
            Err(error) => last_error = Some(error),
        }
        job.wait(next_look.min(timeout))?;
        next_look = (next_look * 2).min(LOOK_INTERVAL);
        if since_request.elapsed() > REPEAT_INTERVAL && action != PowerAction::SoftOff {
            last_error = controller.request_power(action).err().or(last_error);
            since_request = Stopwatch::start();
        }
    }
    let state = if is_to_be_on { "off" } else { "on" };
    let seconds = timeout.as_secs();
    Err(last_error
        .unwrap_or_else(|| format!("still {state} {seconds} s after the power command").into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A controller that acts on the order to come on only some looks later, and forgets it by no
    /// other order.
    #[derive(Default)]
    struct SlowController {
        looks: usize,
        comes_on_at: Option<usize>,
        is_on: bool,
        orders: Vec<PowerAction>,
    }

    impl Controller for SlowController {
        fn is_powered_on(&mut self) -> Result<bool, ControllerError> {
            self.looks += 1;
            if self.comes_on_at.is_some_and(|look| look <= self.looks) {
                self.comes_on_at = None;
                self.is_on = true;
            }
            Ok(self.is_on)
        }

        fn request_power(&mut self, action: PowerAction) -> Result<(), ControllerError> {
            self.orders.push(action);
            if !self.is_on {
                return Err("it is off already (409)".into());
            }
            self.is_on = action == PowerAction::On;
            Ok(())
        }

        fn boot_once(&mut self, _: BootSource) -> Result<(), ControllerError> {
            Ok(())
        }

        fn insert_image(&mut self, _: &str) -> Result<(), ControllerError> {
            Ok(())
        }

        fn eject_image(&mut self) -> Result<(), ControllerError> {
            Ok(())
        }

        fn read_hardware(&mut self) -> Result<Option<Hardware>, ControllerError> {
            Ok(None)
        }
    }

    fn stop(controller: &mut SlowController, machine: &Machine) -> HostReport {
        let (log_lines, _lines) = std::sync::mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let job = JobLink { stop, log_lines, host: "n1".to_owned() };
        run_verb(controller, machine, Verb::Stop, &job)
    }

    #[test]
    fn a_machine_that_was_told_to_come_on_is_looked_at_until_it_is_off_for_good() {
        let machine = Machine { may_come_on: true, ..Machine::default() };
        let mut controller = SlowController { comes_on_at: Some(4), ..SlowController::default() };
        let report = stop(&mut controller, &machine);
        assert_eq!((report.powered_on, &*report.error), (Some(false), ""));
        assert!(!controller.is_on && controller.comes_on_at.is_none());
        assert_eq!(controller.orders, [PowerAction::Off, PowerAction::Off]);
    }

    #[test]
    fn a_machine_that_is_off_and_was_told_nothing_is_looked_at_once() {
        let mut controller = SlowController::default();
        let report = stop(&mut controller, &Machine::default());
        assert_eq!(report.powered_on, Some(false));
        assert_eq!((controller.looks, controller.orders.len()), (1, 0));
    }
}
