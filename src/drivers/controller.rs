//! One machine by its management controller: what any of them can be told, and how each of our
//! verbs is made of that. Controllers acknowledge at once and act later: whatever was told is
//! looked at until it is so.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::model::hardware::Hardware;
use crate::model::host::ErrorReason;
use crate::model::job::{HostReport, Verb};
use crate::model::order::Machine;

use super::process::{self, Stopwatch};

/// How often a machine is looked at that was told something.
const LOOK: Duration = Duration::from_secs(1);
/// How long a machine may take to do what it was told by force.
const HARD: Duration = Duration::from_secs(120);
/// After this it is told again.
const AGAIN: Duration = Duration::from_secs(30);

/// What a machine is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerAction {
    On,
    /// Its operating system is asked to shut down.
    SoftOff,
    Off,
}

/// What a machine boots from once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootSource {
    Cdrom,
    Pxe,
    Disk,
}

impl BootSource {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "cdrom" => Some(Self::Cdrom),
            "pxe" => Some(Self::Pxe),
            "disk" => Some(Self::Disk),
            _ => None,
        }
    }
}

/// Why a controller did not do what it was told: a sentence for people, and what has to be put
/// right first where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerError {
    pub message: String,
    pub reason: Option<ErrorReason>,
}

impl ControllerError {
    pub fn new(reason: ErrorReason, message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: Some(reason) }
    }
}

impl From<String> for ControllerError {
    fn from(message: String) -> Self {
        Self { message, reason: None }
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

/// A management controller.
pub trait Controller {
    fn is_powered_on(&mut self) -> Result<bool, ControllerError>;
    fn request_power(&mut self, action: PowerAction) -> Result<(), ControllerError>;
    fn boot_once(&mut self, from: BootSource) -> Result<(), ControllerError>;
    /// Attaches an image in place of what is attached.
    fn insert_image(&mut self, url: &str) -> Result<(), ControllerError>;
    fn eject_image(&mut self) -> Result<(), ControllerError>;
    /// None if it cannot tell.
    fn read_hardware(&mut self) -> Result<Option<Hardware>, ControllerError>;
    /// The cipher suite that works, if there are such.
    fn cipher_suite(&self) -> Option<u8> {
        None
    }
}

/// Whether the job goes on, and who is told of its steps.
pub struct Watch {
    pub stop: Arc<AtomicBool>,
    pub said: std::sync::mpsc::Sender<String>,
    pub host: String,
}

impl Watch {
    pub fn say(&self, text: &str) {
        // Whoever has left does not listen.
        drop(self.said.send(format!("{}: {text}", self.host)));
    }

    /// Waits, unless the job ends.
    pub fn wait(&self, time: Duration) -> Result<(), String> {
        let begun = Stopwatch::start();
        while begun.elapsed() < time {
            if self.stop.load(Ordering::Relaxed) {
                return Err("ended".into());
            }
            process::pause_briefly();
        }
        Ok(())
    }
}

/// Does what a verb asks of a machine and says what was found, also when it fails.
pub fn run_verb(
    controller: &mut dyn Controller,
    order: &Machine,
    verb: Verb,
    watch: &Watch,
) -> HostReport {
    let mut report = HostReport {
        host: order.host.clone(),
        address: order.address.clone(),
        credentials: order.credentials.clone(),
        ..HostReport::default()
    };
    if let Err(error) = work(controller, order, verb, watch, &mut report) {
        watch.say(&format!("failed: {error}"));
        (report.error, report.reason) = (error.message, error.reason);
    }
    report.cipher = controller.cipher_suite();
    report
}

fn work(
    controller: &mut dyn Controller,
    order: &Machine,
    verb: Verb,
    watch: &Watch,
    report: &mut HostReport,
) -> Result<(), ControllerError> {
    let boot = order.boot.as_deref().and_then(BootSource::named);
    match verb {
        Verb::Start => {
            if !controller.is_powered_on()? {
                on(controller, boot, watch)?;
                report.booted = boot.is_some();
            }
            report.powered_on = Some(true);
        }
        Verb::Stop => {
            off(controller, Some(Duration::from_secs(order.soft_off)), watch)?;
            report.powered_on = Some(false);
        }
        Verb::Cycle => {
            let soft = order.soft.then(|| Duration::from_secs(order.soft_off));
            off(controller, soft, watch)?;
            report.powered_on = Some(false);
            on(controller, boot, watch)?;
            (report.powered_on, report.booted) = (Some(true), boot.is_some());
        }
        Verb::Attach => {
            let url = order.image.as_deref().unwrap_or_default();
            watch.say(&format!("attaching {url}"));
            controller.insert_image(url)?;
            // Before it is cut off: what takes no boot order is left running.
            controller.boot_once(BootSource::Cdrom)?;
            report.image = Some(url.to_owned());
            if order.held {
                return Ok(());
            }
            off(controller, None, watch)?;
            report.powered_on = Some(false);
            on(controller, None, watch)?;
            (report.powered_on, report.booted) = (Some(true), true);
        }
        Verb::Eject => {
            controller.eject_image()?;
            watch.say("ejected");
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

/// The boot order goes just before: controllers forget it after a minute.
fn on(
    controller: &mut dyn Controller,
    boot: Option<BootSource>,
    watch: &Watch,
) -> Result<(), ControllerError> {
    if let Some(from) = boot {
        watch.say(&format!("boots once from {from:?}"));
        controller.boot_once(from)?;
    }
    watch.say("power on");
    until(controller, PowerAction::On, HARD, watch)
}

/// Softly for a while, if at all, then by force.
fn off(
    controller: &mut dyn Controller,
    soft: Option<Duration>,
    watch: &Watch,
) -> Result<(), ControllerError> {
    if !controller.is_powered_on()? {
        return Ok(());
    }
    if let Some(time) = soft.filter(|time| !time.is_zero()) {
        watch.say("asked to shut down");
        match until(controller, PowerAction::SoftOff, time, watch) {
            Ok(()) => return Ok(()),
            Err(why) if watch.stop.load(Ordering::Relaxed) => return Err(why),
            Err(why) => watch.say(&format!("{why}: power off by force")),
        }
    }
    watch.say("power off");
    until(controller, PowerAction::Off, HARD, watch)
}

/// Tells a machine, and looks until it has done it. Whoever is told and then cannot be asked for a
/// moment is asked again: one lost answer is no reason for force.
fn until(
    controller: &mut dyn Controller,
    action: PowerAction,
    time: Duration,
    watch: &Watch,
) -> Result<(), ControllerError> {
    let (begun, mut told) = (Stopwatch::start(), Stopwatch::start());
    controller.request_power(action)?;
    let (wanted, mut trouble) = (action == PowerAction::On, None);
    while begun.elapsed() < time {
        match controller.is_powered_on() {
            Ok(on) if on == wanted => return Ok(()),
            looked => trouble = looked.err(),
        }
        watch.wait(LOOK.min(time))?;
        if told.elapsed() > AGAIN && action != PowerAction::SoftOff {
            trouble = controller.request_power(action).err().or(trouble);
            told = Stopwatch::start();
        }
    }
    let state = if wanted { "off" } else { "on" };
    Err(trouble
        .unwrap_or_else(|| format!("still {state} {} s after it was told", time.as_secs()).into()))
}
