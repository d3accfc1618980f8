//! The columns of each kind.

use std::collections::HashMap;

use serde_json::Value;

use crate::model::agent::Agent;
use crate::model::claim::{Claim, ClusterRunning, Pending};
use crate::model::cluster::{Cluster, Power};
use crate::model::customization::Customization;
use crate::model::event::Event;
use crate::model::hardware::Hardware;
use crate::model::host::BareMetalHost;
use crate::model::infra_env::InfraEnv;
use crate::model::inventory::EntryStatus;
use crate::model::ip_pool::IpPool;
use crate::model::job::Job;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::time::{Span, Time};

/// Columns by name.
pub type Row = Vec<(&'static str, String)>;

/// What the rows are seen against.
#[derive(Debug, Default)]
pub struct View {
    pub now: Time,
    pub wide: bool,
    pub namespaces: bool,
    /// Place of each waiting claim in its queue.
    pub queue: HashMap<Key, Place>,
    /// Whether clusters have the credentials of their pools, by name.
    pub credentials: HashMap<String, &'static str>,
    /// Roles that hosts are good for.
    pub fits: HashMap<Key, String>,
    /// Pools that list customizations.
    pub pools: Vec<ClusterPool>,
}

/// A place in a queue, and how long it will take as far as the pool's history tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub number: usize,
    pub wait: Option<Span>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "#{}", self.number)?;
        self.wait.map_or(Ok(()), |wait| write!(out, ", ~{}", wait.short()))
    }
}

pub fn row(object: &Object, view: &View) -> Row {
    let key = object.key();
    let mut row = Row::new();
    if view.namespaces {
        row.push(("namespace", key.namespace));
    }
    row.push(("name", key.name));
    row.extend(match object {
        Object::ClusterPool(one) => pool(one, view),
        Object::ClusterClaim(one) => claim(one, view),
        Object::ClusterDeployment(one) => cluster(one, view),
        Object::Customization(one) => customization(one, view),
        Object::ClusterImageSet(one) => vec![("release", one.spec.release_image.clone())],
        Object::BareMetalHost(one) => host(one),
        Object::Secret(one) => {
            vec![("type", one.kind.clone()), ("data", one.values.len().to_string())]
        }
        Object::RoleBinding(one) => {
            vec![("role", format!("{}/{}", one.role_ref.kind, one.role_ref.name))]
        }
        Object::DataTemplate(one) => {
            vec![("hosts", one.status.indexes.len().to_string())]
        }
        Object::InfraEnv(one) => infra_env(one),
        Object::Agent(one) => agent(one, view),
        Object::NMStateConfig(one) => {
            let macs = one.spec.interfaces.iter().map(|one| one.mac_address.to_lowercase());
            vec![("macs", macs.collect::<Vec<_>>().join(","))]
        }
        Object::IpPool(one) => ip_pool(one),
        Object::IpClaim(one) => {
            let address = one.status.address.as_ref().map(|one| one.name.clone());
            vec![
                ("pool", one.spec.pool.name.clone()),
                ("ipaddress", address.unwrap_or_default()),
                ("error", one.status.error_message.clone()),
            ]
        }
        Object::IpAddress(one) => vec![
            ("address", one.spec.address.clone()),
            ("pool", one.spec.pool.name.clone()),
            ("claim", one.spec.claim.name.clone()),
        ],
        _ => Row::new(),
    });
    let created = match object {
        Object::ClusterClaim(one) => Some(one.created),
        Object::ClusterDeployment(one) => Some(one.created),
        _ => object.meta().and_then(|meta: &Meta| meta.creation_timestamp),
    };
    row.push(("age", created.map(|time| view.now.since(time).short()).unwrap_or_default()));
    if view.wide {
        row.extend(wide(object, view));
    }
    row
}

fn pool(one: &ClusterPool, _: &View) -> Row {
    let (spec, status) = (&one.spec, &one.status);
    let free = match &spec.inventory {
        None => String::new(),
        Some(listed) => format!("{}/{}", status.free_customizations, listed.len()),
    };
    vec![
        ("size", spec.size.to_string()),
        ("ready", status.ready.to_string()),
        ("standby", status.standby.to_string()),
        ("installing", status.installing.to_string()),
        ("claimed", status.claimed.to_string()),
        ("pending", status.pending.to_string()),
        ("running", status.running.to_string()),
        ("free-cdc", free),
    ]
}

fn infra_env(one: &InfraEnv) -> Row {
    let cluster = one.cluster().map(|key| key.name).unwrap_or_default();
    let image = one.status.created_time.map(|time| time.to_string()).unwrap_or_default();
    vec![("cluster", cluster), ("iso created at", image)]
}

fn agent(one: &Agent, view: &View) -> Row {
    let found = one.status.inventory.as_ref();
    let gib = |bytes: u64| format!("{}G", bytes >> 30);
    let gb = |bytes: u64| format!("{}G", bytes / 1_000_000_000);
    let largest = found.and_then(|one| one.disks.iter().map(|disk| disk.size_bytes).max());
    let seen = one.status.last_contact_time.map(|time| view.now.since(time).short());
    vec![
        ("hostname", one.hostname().to_owned()),
        ("state", one.state().name().to_owned()),
        ("cluster", one.bound_to().map(|key| key.name).unwrap_or_default()),
        ("role", one.role().name().to_owned()),
        ("cpu", found.map(|one| one.cpu.count.to_string()).unwrap_or_default()),
        ("mem", found.map(|one| gib(one.memory.physical_bytes)).unwrap_or_default()),
        ("disk", largest.map(gb).unwrap_or_default()),
        ("seen", seen.unwrap_or_default()),
    ]
}

fn ip_pool(one: &IpPool) -> Row {
    let counts = one.status.ip_addresses.as_ref();
    let count = |name: &str| match counts.map(|all| &all[name]) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let ranges: Vec<String> = one.ranges().map(|(_, range)| range.to_string()).collect();
    vec![
        ("ranges", ranges.join(", ")),
        ("total", count("total")),
        ("used", count("used")),
        ("reserved", count("reserved")),
        ("free", count("free")),
    ]
}

fn host(one: &BareMetalHost) -> Row {
    let power = one.power().map_or("unknown", |on| if on { "on" } else { "off" });
    let held = if one.held().is_some() { " (held)" } else { "" };
    vec![
        ("status", one.status.operational_status.clone()),
        ("state", format!("{}{held}", one.status.provisioning.state)),
        ("consumer", one.cluster().unwrap_or_default().to_owned()),
        ("online", one.spec.online.to_string()),
        ("power", power.to_owned()),
        ("error", one.status.error_type.clone()),
    ]
}

fn claim(one: &Claim, view: &View) -> Row {
    let place = view.queue.get(&one.key());
    let state = match (one.deleting, one.pending, one.running) {
        (Some(_), _, _) => "Releasing".into(),
        (None, Pending::PoolMissing, _) => "Pending (no such pool)".into(),
        (None, Pending::PoolDeleting, _) => "Pending (pool is being deleted)".into(),
        (None, Pending::PoolPaused, _) => "Pending (pool is paused)".into(),
        (None, Pending::Claimed, ClusterRunning::Running) => "Running".into(),
        (None, Pending::Claimed, running) => running.wire()[1].to_owned(),
        _ => place.map_or("Pending".into(), |place| format!("Pending ({place})")),
    };
    let expires = one
        .expires()
        .map(|end| if view.now < end { end.since(view.now).short() } else { "now".into() });
    vec![
        ("pool", one.pool.clone()),
        ("state", state),
        ("cluster", one.cluster.clone().unwrap_or_default()),
        ("owner", one.owner.clone()),
        ("expires", expires.unwrap_or_default()),
    ]
}

fn cluster(one: &Cluster, _: &View) -> Row {
    let power = if one.power == Power::Unset { "" } else { one.power_state() };
    let attempt = if one.stopped { one.restarts } else { one.restarts + 1 };
    vec![
        ("pool", one.pool.as_ref().map(|pool| pool.name.clone()).unwrap_or_default()),
        ("phase", one.phase().name().to_owned()),
        ("power", power.to_owned()),
        ("claim", one.claim.clone().unwrap_or_default()),
        ("customization", one.customization.clone().unwrap_or_default()),
        ("attempt", attempt.to_string()),
    ]
}

fn customization(one: &Customization, view: &View) -> Row {
    let name = &one.metadata.name;
    let entries =
        view.pools.iter().filter(|pool| pool.metadata.namespace == one.metadata.namespace);
    let mut entries: Vec<_> =
        entries.filter_map(|pool| Some((pool.key(), pool.status.inventory.get(name)?))).collect();
    let held_by = one.holder.as_ref().map(|holder| holder.pool.as_ref());
    // Of the pool that has it; else of one that could have it.
    entries.retain(|(pool, _)| held_by.is_none_or(|holder| holder == Some(pool)));
    entries.sort_by_key(|(_, entry)| entry.status == EntryStatus::Unavailable);
    let listed = entries.first().map(|(_, entry)| *entry);
    let reserved = held_by.is_some();
    let unseen = if reserved { EntryStatus::Reserved } else { EntryStatus::Available };
    let state = listed.map_or(unseen, |entry| entry.status).to_string();
    let holder = one.holder.as_ref();
    let pool = holder.and_then(|holder| holder.pool.as_ref()).map(|pool| pool.name.clone());
    let failed = one.apply_failure();
    let here = listed.filter(|_| !reserved).map(|entry| entry.message.clone());
    let here = here.filter(|message| !message.is_empty());
    let error = here.or_else(|| failed.map(|one| one.message.clone())).unwrap_or_default();
    vec![
        ("state", state),
        ("pool", pool.unwrap_or_default()),
        ("cluster", holder.map(|holder| holder.cluster.clone()).unwrap_or_default()),
        ("attempts-left", listed.map(|entry| entry.attempts.to_string()).unwrap_or_default()),
        ("last-error", error),
    ]
}

fn wide(object: &Object, view: &View) -> Row {
    match object {
        Object::ClusterPool(one) => vec![
            ("broken", one.status.broken.to_string()),
            ("deleting", one.status.deleting.to_string()),
            ("basedomain", one.spec.base_domain.clone()),
            ("imageset", one.spec.image_set_ref.name.clone()),
            ("platform", one.spec.platform.name().to_owned()),
        ],
        Object::ClusterClaim(one) => {
            vec![("lifetime", one.effective.map(|span| span.to_string()).unwrap_or_default())]
        }
        Object::ClusterDeployment(one) => vec![
            ("api", one.api_url()),
            ("version", one.version.as_deref().unwrap_or_default().to_owned()),
            ("credentials", view.credentials.get(&one.name).copied().unwrap_or_default().into()),
            ("last-error", one.failure.clone().unwrap_or_default()),
        ],
        Object::BareMetalHost(one) => wide_host(one),
        Object::InfraEnv(one) => vec![("iso url", one.status.iso_download_url.clone())],
        Object::Agent(one) => vec![
            ("approved", one.spec.approved.to_string()),
            ("fit", view.fits.get(&one.key()).cloned().unwrap_or_default()),
        ],
        _ => Row::new(),
    }
}

fn wide_host(one: &BareMetalHost) -> Row {
    let address = one.spec.bmc.as_ref().map(|bmc| bmc.address.clone()).unwrap_or_default();
    let (spec, status) = (&one.spec, &one.status);
    let made_of = status.hardware.as_ref().map(Hardware::summary).unwrap_or_default();
    vec![
        ("bmc", address),
        ("certificate", one.trust().to_string()),
        ("mac", spec.boot_mac_address.clone()),
        ("hardware", made_of),
        ("last-error", status.error_message.clone()),
    ]
}

pub fn event_row(one: &Event, now: Time, object: &str) -> Row {
    vec![
        ("age", now.since(one.time).short()),
        ("type", if one.warning { "Warning" } else { "Normal" }.to_owned()),
        ("reason", one.reason.clone()),
        ("object", format!("{object}/{}", one.object.name)),
        ("actor", one.actor.clone()),
        ("message", one.message.clone()),
    ]
}

pub fn job_row(one: &Job, now: Time) -> Row {
    let state = if one.ended.is_some() { "Finished" } else { "Running" };
    vec![
        ("id", one.id.to_string()),
        ("object", one.subject()),
        ("verb", one.verb.name().to_owned()),
        ("state", state.to_owned()),
        ("try", one.attempt.to_string()),
        ("exit", one.outcome.clone().unwrap_or_default()),
        ("started", one.started.to_string()),
        ("duration", one.ended.unwrap_or(now).since(one.started).short()),
    ]
}
