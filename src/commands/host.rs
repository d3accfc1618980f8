//! `host power|boot|eject`: what machines are to do. The pass tells them.

pub mod add;
pub mod hold;
pub mod import;

use clap::{Args, ValueEnum};

use crate::edits;
use crate::model::bmc::Address;
use crate::model::event_reason::EventReason;
use crate::model::host::{AS_FOUND, BOOT, BareMetalHost, Image, REBOOT};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::time::Span;
use crate::store::{Filter, Need, Store};
use crate::{output, rules};

use crate::commands::selector::Selector;
use crate::commands::waiting::{Ended, Look, Waiting};
use crate::commands::{Context, Verb, scope};

/// How long `power status` waits for an answer.
const ANSWER: Span = Span::minutes(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
    /// Powered on
    On,
    /// Asked to shut down, and powered off if it does not
    Off,
    /// Off by force, and on
    Cycle,
    /// Asks, and changes nothing
    Status,
}

/// Which hosts.
#[derive(Args)]
pub struct Which {
    /// Hosts, by name
    #[arg(value_name = "HOST", required_unless_present_any = ["all", "selector"])]
    names: Vec<String>,
    /// Every host of the namespace
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Those with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with_all = ["names", "all"])]
    selector: Option<Selector>,
}

impl Which {
    pub fn hosts(&self, context: &Context, store: &Store) -> Result<Vec<BareMetalHost>, Refusal> {
        let mut hosts = if self.names.is_empty() {
            let filter = Filter { namespace: context.namespaces()?, ..Filter::default() };
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

#[derive(Args)]
pub struct Power {
    /// What becomes of them
    #[arg(value_enum)]
    to: To,
    #[command(flatten)]
    which: Which,
    /// What it boots from once, when it is powered on: cdrom, pxe or disk
    #[arg(long, value_name = "DEVICE")]
    boot: Option<String>,
    /// Wait until they are so, at most this long
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true,
          default_missing_value = "20m")]
    wait: Option<Span>,
}

impl Verb for Power {
    const NAME: &'static str = "power";
    const ABOUT: &'static str = "Power hosts on, off, off and on, or ask them";
    const EXAMPLE: &'static str = "poolctl host power on node-1 node-2 --no-reconcile";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let hosts = self.which.hosts(context, &store)?;
        if self.boot.is_some() && !matches!(self.to, To::On | To::Cycle) {
            return Err(Refusal::usage("--boot goes with on and cycle").into());
        }
        for host in &hosts {
            reachable(host)?;
            if let Some(cluster) = host.cluster().filter(|_| self.to != To::Status) {
                let name = &host.metadata.name;
                let word = match self.to {
                    To::On => "on",
                    To::Off => "off",
                    _ => "cycle",
                };
                let loss = format!("host `{name}` is used by cluster `{cluster}`");
                context.confirm(&loss, &format!("poolctl host power {word} {name}"))?;
            }
        }
        let keys: Vec<Key> = hosts.iter().map(BareMetalHost::key).collect();
        let (to, boot) = (self.to, self.boot.clone());
        let said = match to {
            To::On => "It is to be on",
            To::Off => "It is to be off",
            To::Cycle => "It is to be cycled",
            To::Status => "Its power is asked for",
        };
        change(context, &store, &keys, said, |host| {
            match to {
                // What was last seen may have been long ago.
                To::On => {
                    wish(host, true);
                    host.forget_power();
                }
                To::Off => {
                    wish(host, false);
                    host.forget_power();
                }
                To::Cycle => {
                    wish(host, true);
                    let hard = "{\"mode\":\"hard\"}".to_owned();
                    host.metadata.annotations.insert(REBOOT.into(), hard);
                }
                To::Status => host.forget_power(),
            }
            if let Some(from) = &boot {
                host.metadata.annotations.insert(BOOT.into(), from.clone());
            }
            host.status.error_count = 0;
        })?;
        let done = match to {
            To::Status => return self.say(context, &store, &keys),
            To::On => "is to be on",
            To::Off => "is to be off",
            To::Cycle => "is to be cycled",
        };
        if self.wait.is_some() {
            return self.say(context, &store, &keys);
        }
        for key in &keys {
            context.changed(Kind::BareMetalHost, key, done)?;
        }
        Ok(())
    }
}

impl Power {
    /// Whether it was only asked for its power, and has answered.
    fn is_told(&self, host: &BareMetalHost) -> bool {
        self.to == To::Status && host.power().is_some()
    }

    /// Waits until every host is as it is to be, or has failed, and says which it is.
    fn say(&self, context: &Context, store: &Store, keys: &[Key]) -> anyhow::Result<()> {
        let door = context.door(store);
        let limit = self.wait.unwrap_or(ANSWER);
        let waiting = Waiting { context, door: &door, pool: None, limit };
        let ended = if door.pass {
            waiting.until(|_| {
                let hosts = read_hosts(store, keys)?;
                let met = hosts.iter().filter(|host| settled(host) || self.is_told(host));
                let (done, all) = (met.count(), hosts.len());
                if done == all {
                    return Ok(Look::Met(()));
                }
                Ok(Look::Not(done as u64, all as u64, format!("{done} of {all} hosts")))
            })?
        } else {
            Ended::Met(())
        };
        let mut failed = 0;
        for host in read_hosts(store, keys)? {
            let (known, error) = (host.power(), &host.status.error_message);
            let text = match known.map(|on| if on { "on" } else { "off" }) {
                Some(text) => text.to_owned(),
                None if error.is_empty() => "unknown".into(),
                None => format!("unknown: {error}"),
            };
            let is_met = settled(&host) || self.is_told(&host);
            failed += usize::from(host.status.error_count > 0 || !is_met);
            context.changed(Kind::BareMetalHost, &host.key(), &text)?;
        }
        match ended {
            Ended::Interrupted(exit) => Err(Refusal::new(exit, "interrupted").into()),
            Ended::Late => Err(Refusal::new(
                Exit::Timeout,
                format!("{failed} hosts are not so after {}", limit.short()),
            )
            .next("poolctl job list")
            .into()),
            Ended::Met(()) if failed > 0 && door.pass => {
                let what = format!("{failed} of {} hosts failed", keys.len());
                Err(Refusal::new(Exit::Failed, what).next("poolctl describe host NAME").into())
            }
            Ended::Met(()) => Ok(()),
        }
    }
}

/// Those of the hosts that are still there.
fn read_hosts(store: &Store, keys: &[Key]) -> Result<Vec<BareMetalHost>, Refusal> {
    let hosts = keys.iter().map(|key| store.one::<BareMetalHost>(key));
    hosts.filter_map(Result::transpose).collect()
}

/// As it is to be, or failed.
fn settled(host: &BareMetalHost) -> bool {
    let reboots = host.metadata.annotated_at_all(REBOOT);
    let missing = host.status.good_credentials.is_none() && !host.status.error_message.is_empty();
    let so = host.power() == Some(host.spec.online) && !reboots;
    so || missing || host.status.error_count > 0 || host.is_left_alone()
}

/// What is asked for counts, however it is found.
fn wish(host: &mut BareMetalHost, online: bool) {
    host.spec.online = online;
    host.metadata.annotations.remove(AS_FOUND);
}

fn reachable(host: &BareMetalHost) -> Result<(), Refusal> {
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

fn change(
    context: &Context,
    store: &Store,
    keys: &[Key],
    said: &str,
    how: impl Fn(&mut BareMetalHost),
) -> Result<(), Refusal> {
    change_beside(context, store, keys, Vec::new(), said, how)
}

/// The same; the pass looks at others, too.
pub fn change_beside(
    context: &Context,
    store: &Store,
    keys: &[Key],
    others: Vec<Need>,
    said: &str,
    how: impl Fn(&mut BareMetalHost),
) -> Result<(), Refusal> {
    let what: Vec<_> = keys.iter().map(|key| (Kind::BareMetalHost, key.clone(), None)).collect();
    let scope = scope::scope_of(store, &what)?;
    let needs = [scope::needs_of(&what), others].concat();
    let ((), passed) = context.door(store).change(&scope, &needs, |state, tick| {
        for key in keys {
            let Some(at) = state.hosts.find(key) else { continue };
            edits::record_event(
                state,
                tick,
                Kind::BareMetalHost,
                key.clone(),
                EventReason::Asked,
                said,
            );
            state.hosts.update(at, |host| {
                let before = host.spec.clone();
                how(host);
                host.metadata.generation += i64::from(before != host.spec);
            });
            if let Some(host) = state.hosts.get(at) {
                rules::check(&Object::BareMetalHost(Box::new(host.clone())))?;
            }
        }
        Ok(())
    })?;
    context.finish(&passed)
}

#[derive(Args)]
pub struct Boot {
    #[command(flatten)]
    which: Which,
    /// Image that their management controllers fetch
    #[arg(long, value_name = "URL")]
    iso: String,
}

impl Verb for Boot {
    const NAME: &'static str = "boot";
    const ABOUT: &'static str = "Attach an image to hosts and boot them from it once";
    const EXAMPLE: &'static str =
        "poolctl host boot node-1 --iso http://127.0.0.1/discovery.iso --no-reconcile";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let hosts = self.which.hosts(context, &store)?;
        for host in &hosts {
            reachable(host)?;
            let name = &host.metadata.name;
            if matches!(host.address(), Some(Address::Ipmi { .. })) {
                let what = format!("host `{name}`: IPMI attaches no images");
                let next = format!("poolctl host power cycle {name} --boot pxe");
                return Err(Refusal::conflict(what).next(next).into());
            }
            if let Some(cluster) = host.cluster() {
                let loss = format!("host `{name}` is used by cluster `{cluster}`");
                context.confirm(&loss, &format!("poolctl host boot {name} --iso URL"))?;
            }
        }
        let keys: Vec<Key> = hosts.iter().map(BareMetalHost::key).collect();
        let said = format!("It is to boot from {}", output::clean(&self.iso));
        change(context, &store, &keys, &said, |host| {
            host.spec.image = Some(Image::live(&self.iso));
            // Also one that is attached already.
            host.status.provisioning.image = None;
            wish(host, true);
            host.status.error_count = 0;
        })?;
        for key in keys {
            let text = format!("is to boot from {}", output::clean(&self.iso));
            context.changed(Kind::BareMetalHost, &key, &text)?;
        }
        Ok(())
    }
}

#[derive(Args)]
pub struct Eject {
    #[command(flatten)]
    which: Which,
}

impl Verb for Eject {
    const NAME: &'static str = "eject";
    const ABOUT: &'static str = "Take the image out of hosts";
    const EXAMPLE: &'static str = "poolctl host eject node-1 --no-reconcile";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let hosts = self.which.hosts(context, &store)?;
        let keys: Vec<Key> = hosts.iter().map(BareMetalHost::key).collect();
        change(context, &store, &keys, "It is to be without image", |host| {
            // One whose attachment failed may be in the drive all the same.
            let status = &mut host.status.provisioning.image;
            *status = status.take().or(host.spec.image.take());
            host.spec.image = None;
            host.status.error_count = 0;
        })?;
        for key in keys {
            context.changed(Kind::BareMetalHost, &key, "is to be without image")?;
        }
        Ok(())
    }
}
