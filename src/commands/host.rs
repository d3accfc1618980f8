//! `host power|boot|eject`: writes into hosts whether they are to be on and what they boot from. It
//! never talks to a machine: the pass does, through their management controllers.

pub mod add;
pub mod hold;
pub mod import;

use clap::{Args, ValueEnum};

use crate::edits;
use crate::model::annotations::{AS_FOUND, BOOT, WIPE};
use crate::model::bmc::BmcAddress;
use crate::model::event_reason::EventReason;
use crate::model::host::{BareMetalHost, HostPower, Image, REBOOT};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::time::Span;
use crate::store::{Filter, NeededObject, Store};
use crate::{output, rules};

use crate::commands::scope::EditedObject;
use crate::commands::selector::Selector;
use crate::commands::waiting::{Observation, WaitOutcome, WaitProgress, Waiting};
use crate::commands::{Context, RunCommand, scope};

/// How long `power status` waits for the answers of the management controllers.
const ANSWER_TIMEOUT: Span = Span::minutes(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PowerAction {
    /// Power hosts on
    On,
    /// Shut hosts down, and power them off by force if that takes too long
    Off,
    /// Power hosts off by force, then on again
    Cycle,
    /// Read the power state from the controllers
    Status,
}

/// The hosts that a command is about.
#[derive(Args)]
pub struct HostSelection {
    /// Names of hosts
    #[arg(value_name = "HOST", required_unless_present_any = ["all", "selector"])]
    names: Vec<String>,
    /// All hosts of the namespace
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Only hosts with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with_all = ["names", "all"])]
    selector: Option<Selector>,
}

impl HostSelection {
    /// The hosts; a hint if there are none.
    pub fn find_hosts(
        &self,
        context: &Context,
        store: &Store,
    ) -> Result<Vec<BareMetalHost>, Refusal> {
        let mut hosts = if self.names.is_empty() {
            let filter = Filter { namespace: context.namespace_filter()?, ..Filter::default() };
            store.list::<BareMetalHost>(&filter)?
        } else {
            Vec::new()
        };
        if let Some(selector) = &self.selector {
            hosts.retain(|host| selector.matches(&host.metadata.labels));
        }
        for name in &self.names {
            hosts.push(context.find::<BareMetalHost>(store, name)?);
        }
        if hosts.is_empty() {
            context.hint("no hosts");
        }
        Ok(hosts)
    }
}

/// Arguments of `host power`. Controllers are told by jobs of the pass that follows.
#[derive(Args)]
pub struct Power {
    /// What to do with the hosts
    #[arg(value_enum, value_name = "ACTION")]
    action: PowerAction,
    #[command(flatten)]
    selection: HostSelection,
    /// Device for the next boot only: cdrom, pxe or disk
    #[arg(long, value_name = "DEVICE")]
    boot: Option<String>,
    /// Wait until the hosts have this power state, at most this long (20m without a value)
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true,
          default_missing_value = "20m")]
    wait: Option<Span>,
}

impl RunCommand for Power {
    const NAME: &'static str = "power";
    const ABOUT: &'static str = "Power hosts on, off or off and on, or read their power state";
    const EXAMPLE: &'static str = "poolctl host power on node-1 node-2 --no-reconcile";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let hosts = self.selection.find_hosts(context, &store)?;
        let is_booted = matches!(self.action, PowerAction::On | PowerAction::Cycle);
        if self.boot.is_some() && !is_booted {
            return Err(Refusal::usage("--boot can be used only with on and cycle").into());
        }
        for host in &hosts {
            refuse_unreachable(host)?;
            if is_booted && self.boot.is_none() {
                refuse_old_system(host)?;
            }
            self.confirm(context, host)?;
        }
        let host_keys: Vec<Key> = hosts.iter().map(BareMetalHost::key).collect();
        let message = match self.action {
            PowerAction::On => "Power on requested",
            PowerAction::Off => "Power off requested",
            PowerAction::Cycle => "Power cycle requested",
            PowerAction::Status => "Power state requested",
        };
        change_hosts(context, &store, &host_keys, message, |host| self.write_into(host))?;
        let result = match self.action {
            PowerAction::Status => return self.wait_and_report(context, &store, &host_keys),
            PowerAction::On => "will be powered on",
            PowerAction::Off => "will be powered off",
            PowerAction::Cycle => "will be power-cycled",
        };
        if self.wait.is_some() {
            return self.wait_and_report(context, &store, &host_keys);
        }
        for host_key in &host_keys {
            context.report_change(Kind::BareMetalHost, host_key, result)?;
        }
        Ok(())
    }
}

impl Power {
    /// Asks before the power of a host changes that a cluster uses.
    fn confirm(&self, context: &Context, host: &BareMetalHost) -> Result<(), Refusal> {
        let action = match self.action {
            PowerAction::On => "on",
            PowerAction::Off => "off",
            PowerAction::Cycle => "cycle",
            PowerAction::Status => return Ok(()),
        };
        let Some(cluster) = host.cluster() else { return Ok(()) };
        let name = &host.metadata.name;
        let loss = format!("host `{name}` is used by cluster `{cluster}`");
        context.confirm(&loss, &format!("poolctl host power {action} {name}"))
    }

    /// Writes into a host what is asked for. What was last seen of its power is forgotten: it may
    /// have been long ago.
    fn write_into(&self, host: &mut BareMetalHost) {
        match self.action {
            PowerAction::On => {
                request_power_on(host);
                host.forget_power();
            }
            PowerAction::Off => {
                request_power_off(host);
                host.forget_power();
            }
            PowerAction::Cycle => {
                request_power_on(host);
                let mode = "{\"mode\":\"hard\"}".to_owned();
                host.metadata.annotations.insert(REBOOT.into(), mode);
            }
            PowerAction::Status => host.forget_power(),
        }
        if let Some(device) = &self.boot {
            host.metadata.annotations.insert(BOOT.into(), device.clone());
        }
        host.status.error_count = 0;
    }

    /// Whether a host is as it is to be, has failed, or has told its power if only that was asked.
    fn is_met(&self, host: &BareMetalHost) -> bool {
        is_settled(host)
            || (self.action == PowerAction::Status && host.power() != HostPower::Unknown)
    }

    /// Waits until every host is as it is to be or has failed, and prints the power of each.
    fn wait_and_report(
        &self,
        context: &Context,
        store: &Store,
        host_keys: &[Key],
    ) -> anyhow::Result<()> {
        let door = context.door(store);
        let limit = self.wait.unwrap_or(ANSWER_TIMEOUT);
        let waiting = Waiting { context, door: &door, pool: None, limit };
        let ended = if door.plans_changes {
            waiting.wait_until(|_| {
                let hosts = read_hosts(store, host_keys)?;
                let met = hosts.iter().filter(|host| self.is_met(host)).count();
                let total = hosts.len();
                if met == total {
                    return Ok(Observation::Met(()));
                }
                Ok(Observation::NotYet(WaitProgress {
                    done: met as u64,
                    total: total as u64,
                    description: format!("{met} of {total} hosts"),
                    ..WaitProgress::default()
                }))
            })?
        } else {
            WaitOutcome::Met(())
        };
        let mut failed = 0;
        for host in read_hosts(store, host_keys)? {
            let error = &host.status.error_message;
            let power = match host.power() {
                HostPower::Unknown if !error.is_empty() => format!("unknown: {error}"),
                power => power.name().to_owned(),
            };
            failed += usize::from(host.status.error_count > 0 || !self.is_met(&host));
            context.report_change(Kind::BareMetalHost, &host.key(), &power)?;
        }
        match ended {
            WaitOutcome::Interrupted(exit) => Err(Refusal::new(exit, "interrupted").into()),
            WaitOutcome::Late => {
                let problem = format!(
                    "hosts that did not reach the wanted power state in {}: {failed}",
                    limit.to_short_text()
                );
                Err(Refusal::new(Exit::Timeout, problem).next("poolctl job list").into())
            }
            WaitOutcome::Met(()) if failed > 0 && door.plans_changes => {
                let problem = format!("failed hosts: {failed} of {}", host_keys.len());
                Err(Refusal::new(Exit::Failed, problem).next("poolctl describe host NAME").into())
            }
            WaitOutcome::Met(()) => Ok(()),
        }
    }
}

/// The hosts of these keys that still exist.
pub fn read_hosts(store: &Store, host_keys: &[Key]) -> Result<Vec<BareMetalHost>, Refusal> {
    let hosts = host_keys.iter().map(|key| store.find::<BareMetalHost>(key));
    hosts.filter_map(Result::transpose).collect()
}

/// Whether the power of a host is as it is to be, or nothing will change it: the host has failed,
/// has no credentials, or is left alone.
fn is_settled(host: &BareMetalHost) -> bool {
    let reboots = host.metadata.has_annotation(REBOOT);
    let has_power = host.power() == HostPower::from_is_on(host.spec.online) && !reboots;
    let lacks_credentials =
        host.status.good_credentials.is_none() && !host.status.error_message.is_empty();
    has_power || lacks_credentials || host.status.error_count > 0 || host.is_left_alone()
}

/// Asks that a host is on; it no longer keeps the power that it is found with.
fn request_power_on(host: &mut BareMetalHost) {
    host.spec.online = true;
    host.metadata.annotations.remove(AS_FOUND);
}

/// Asks that a host is off; it no longer keeps the power that it is found with.
fn request_power_off(host: &mut BareMetalHost) {
    host.spec.online = false;
    host.metadata.annotations.remove(AS_FOUND);
}

/// Refuses to boot a host from a disk that has the system of the cluster that it has left.
fn refuse_old_system(host: &BareMetalHost) -> Result<(), Refusal> {
    let Some(cluster) = host.old_system() else { return Ok(()) };
    if host.spec.image.is_some() {
        return Ok(());
    }
    let name = &host.metadata.name;
    let problem = format!("host `{name}` would run what cluster `{cluster}` has left on its disks");
    Err(Refusal::conflict(problem)
        .because("to boot it from elsewhere, or from its disk all the same, add --boot DEVICE")
        .next(format!("poolctl annotate host/{name} {WIPE}=quick")))
}

/// Refuses a host that the pass cannot or may not talk to.
fn refuse_unreachable(host: &BareMetalHost) -> Result<(), Refusal> {
    let name = &host.metadata.name;
    if host.spec.bmc.is_none() {
        return Err(Refusal::conflict(format!("host `{name}` has no management controller"))
            .next(format!("poolctl edit host {name}")));
    }
    if host.is_left_alone() {
        return Err(Refusal::conflict(format!("host `{name}` is paused or detached"))
            .next(format!("poolctl annotate host {name} baremetalhost.metal3.io/paused-")));
    }
    Ok(())
}

/// Edits hosts, each with an event that says `message`, and runs the pass over them.
fn change_hosts(
    context: &Context,
    store: &Store,
    host_keys: &[Key],
    message: &str,
    edit: impl Fn(&mut BareMetalHost),
) -> Result<(), Refusal> {
    change_hosts_with(context, store, host_keys, Vec::new(), message, edit)
}

/// Edits hosts like `change_hosts`; `other_needs` are loaded too, so that the pass sees them.
pub fn change_hosts_with(
    context: &Context,
    store: &Store,
    host_keys: &[Key],
    other_needs: Vec<NeededObject>,
    message: &str,
    edit: impl Fn(&mut BareMetalHost),
) -> Result<(), Refusal> {
    let edited: Vec<EditedObject> =
        host_keys.iter().map(|key| EditedObject::new(Kind::BareMetalHost, key.clone())).collect();
    let scope = scope::scope_of(store, &edited)?;
    let needs = [scope::needs_of(&edited), other_needs].concat();
    let ((), passed) = context.door(store).change(&scope, &needs, |state, tick| {
        for host_key in host_keys {
            let Some(host_id) = state.hosts.find(host_key) else { continue };
            edits::record_event(
                state,
                tick,
                Kind::BareMetalHost,
                host_key.clone(),
                EventReason::Asked,
                message,
            );
            state.hosts.update(host_id, |host| {
                let spec_before = host.spec.clone();
                edit(host);
                host.metadata.generation += i64::from(spec_before != host.spec);
            });
            if let Some(host) = state.hosts.get(host_id) {
                rules::check_object(&Object::BareMetalHost(Box::new(host.clone())))?;
            }
        }
        Ok(())
    })?;
    context.report_pass(&passed)
}

/// Arguments of `host boot`. The controller fetches the image itself, by its URL.
#[derive(Args)]
pub struct Boot {
    #[command(flatten)]
    selection: HostSelection,
    /// URL from which management controllers download the image
    #[arg(long, value_name = "URL")]
    iso: String,
}

impl RunCommand for Boot {
    const NAME: &'static str = "boot";
    const ABOUT: &'static str = "Attach an image to hosts and boot them from it once";
    const EXAMPLE: &'static str =
        "poolctl host boot node-1 --iso http://192.0.2.1/discovery.iso --no-reconcile";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let hosts = self.selection.find_hosts(context, &store)?;
        for host in &hosts {
            refuse_unreachable(host)?;
            let name = &host.metadata.name;
            if matches!(host.bmc_address(), Some(BmcAddress::Ipmi { .. })) {
                let problem = format!("host `{name}`: IPMI cannot attach images");
                let next = format!("poolctl host power cycle {name} --boot pxe");
                return Err(Refusal::conflict(problem).next(next).into());
            }
            if let Some(cluster) = host.cluster() {
                let loss = format!("host `{name}` is used by cluster `{cluster}`");
                context.confirm(&loss, &format!("poolctl host boot {name} --iso URL"))?;
            }
        }
        let host_keys: Vec<Key> = hosts.iter().map(BareMetalHost::key).collect();
        let url = output::clean_line(&self.iso);
        let message = format!("Boot from {url} requested");
        change_hosts(context, &store, &host_keys, &message, |host| {
            host.spec.image = Some(Image::live(&self.iso));
            // An image that is attached already is attached and booted again.
            host.status.provisioning.image = None;
            request_power_on(host);
            host.status.error_count = 0;
        })?;
        for host_key in host_keys {
            let result = format!("will boot from {url}");
            context.report_change(Kind::BareMetalHost, &host_key, &result)?;
        }
        Ok(())
    }
}

/// Arguments of `host eject`.
#[derive(Args)]
pub struct Eject {
    #[command(flatten)]
    selection: HostSelection,
}

impl RunCommand for Eject {
    const NAME: &'static str = "eject";
    const ABOUT: &'static str = "Detach the image from hosts";
    const EXAMPLE: &'static str = "poolctl host eject node-1 --no-reconcile";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let hosts = self.selection.find_hosts(context, &store)?;
        let host_keys: Vec<Key> = hosts.iter().map(BareMetalHost::key).collect();
        change_hosts(context, &store, &host_keys, "Removal of the image requested", |host| {
            // An image whose attachment failed may be in the drive all the same.
            let attached_image = &mut host.status.provisioning.image;
            *attached_image = attached_image.take().or(host.spec.image.take());
            host.spec.image = None;
            host.status.error_count = 0;
        })?;
        for host_key in host_keys {
            context.report_change(Kind::BareMetalHost, &host_key, "image will be removed")?;
        }
        Ok(())
    }
}
