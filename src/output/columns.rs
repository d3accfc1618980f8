//! The columns that tables have for each kind of object, for events and for jobs. It reads the
//! values it is given, and never the state.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::model::agent::Agent;
use crate::model::agent::facts::AgentFacts;
use crate::model::annotations::{COMMENT, DNS_NAME, MAC, UNTIL};
use crate::model::claim::{Claim, ClusterRunning, Pending};
use crate::model::cluster::{Cluster, Power};
use crate::model::customization::Customization;
use crate::model::event::Event;
use crate::model::hardware::Hardware;
use crate::model::host::BareMetalHost;
use crate::model::infra_env::InfraEnv;
use crate::model::inventory::{EntryStatus, InventoryStatus};
use crate::model::ip_lease::IpClaim;
use crate::model::ip_pool::IpPool;
use crate::model::job::Job;
use crate::model::meta::{Key, Meta};
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::time::Time;

/// The cells of a row, left to right, each with the name of its column in lower case. An empty cell
/// is shown as `-`.
pub type Row = Vec<(&'static str, String)>;

/// What rows show besides their object: the time, and facts of other objects. A caller fills in
/// what the rows of its kind need; where a fact is missing, the cell is empty.
#[derive(Debug, Default)]
pub struct RowContext {
    /// Ages and remaining lifetimes are counted from here.
    pub now: Time,
    /// Whether the columns of `-o wide` are added.
    pub is_wide: bool,
    /// Whether each row begins with the namespace of its object.
    pub shows_namespaces: bool,
    /// The place of each waiting claim in the queue of its pool, in words.
    pub queue_positions: HashMap<Key, String>,
    /// The claims whose clusters hibernate as they were told to.
    pub hibernating_claims: HashSet<Key>,
    /// Whether clusters have the current credentials of their pools, in words, by cluster name.
    pub credential_states: HashMap<String, &'static str>,
    /// The roles that the host of each agent is good enough for, in words.
    pub suitable_roles: HashMap<Key, String>,
    /// All pools: those that list a customization know whether it can be used.
    pub pools: Vec<ClusterPool>,
    /// Whether any object of the list is being deleted, so that kinds without a column that says so
    /// get one.
    pub shows_deletion: bool,
}

/// The columns that say themselves that an object is being deleted.
const STATE_COLUMNS: [&str; 2] = ["state", "phase"];

/// The state of an object, unless it is being deleted: then nothing else matters as much.
fn state_or_deleting(deletion_time: Option<Time>, state: String) -> String {
    if deletion_time.is_some() { "Deleting".to_owned() } else { state }
}

/// The row of an object: its name, the columns of its kind, its age, and in wide tables the rest.
pub fn object_row(object: &Object, view: &RowContext) -> Row {
    let key = object.key();
    let mut row = Row::new();
    if view.shows_namespaces {
        row.push(("namespace", key.namespace));
    }
    row.push(("name", key.name));
    let columns = kind_columns(object, view);
    let has_state = columns.iter().any(|(column, _)| STATE_COLUMNS.contains(column));
    row.extend(columns);
    if view.shows_deletion && !has_state {
        row.push(("state", state_or_deleting(object.deletion_time(), String::new())));
    }
    let created = match object {
        Object::ClusterClaim(claim) => Some(claim.created),
        Object::ClusterDeployment(cluster) => Some(cluster.created),
        _ => object.meta().and_then(|meta: &Meta| meta.creation_timestamp),
    };
    row.push(("age", created.map(|time| view.now.since(time).to_short_text()).unwrap_or_default()));
    if view.is_wide {
        row.extend(wide_columns(object, view));
    }
    row
}

/// The columns that say in a word how an object is.
const WORD_COLUMNS: [&str; 3] = ["state", "phase", "power"];

/// How an object is, in a word or two, as its row says: `Installed, Running`. Empty for kinds
/// without states.
pub fn state_words(object: &Object, view: &RowContext) -> String {
    let mut columns = kind_columns(object, view);
    columns.retain(|(column, cell)| WORD_COLUMNS.contains(column) && !cell.is_empty());
    if columns.is_empty() && object.deletion_time().is_some() {
        return state_or_deleting(object.deletion_time(), String::new());
    }
    let words: Vec<String> = columns.into_iter().map(|(_, cell)| cell).collect();
    words.join(", ")
}

/// The columns of a kind that every table shows, between the name and the age.
fn kind_columns(object: &Object, view: &RowContext) -> Row {
    match object {
        Object::ClusterPool(pool) => pool_columns(pool),
        Object::ClusterClaim(claim) => claim_columns(claim, view),
        Object::ClusterDeployment(cluster) => cluster_columns(cluster),
        Object::Customization(customization) => customization_columns(customization, view),
        Object::ClusterImageSet(image_set) => {
            vec![("release", image_set.spec.release_image.clone())]
        }
        Object::BareMetalHost(host) => host_columns(host),
        Object::Secret(secret) => {
            vec![("type", secret.kind.clone()), ("data", secret.values.len().to_string())]
        }
        Object::ConfigMap(config_map) => {
            let value_count = config_map.data.len() + config_map.binary_data.len();
            vec![("data", value_count.to_string())]
        }
        Object::RoleBinding(binding) => {
            vec![("role", format!("{}/{}", binding.role_ref.kind, binding.role_ref.name))]
        }
        Object::DataTemplate(template) => {
            vec![("hosts", template.status.indexes.len().to_string())]
        }
        Object::Metal3DataClaim(claim) => {
            let data = claim.status.rendered_data.as_ref().map(|data| data.name.clone());
            vec![("template", claim.spec.template.name.clone()), ("data", data.unwrap_or_default())]
        }
        Object::Metal3Data(data) => vec![
            ("template", data.spec.template.name.clone()),
            ("index", data.spec.index.to_string()),
            ("machine", data.machine().to_owned()),
        ],
        Object::AgentClassification(classification) => {
            let spec = &classification.spec;
            vec![
                ("label", format!("{}={}", spec.label_key, spec.label_value)),
                ("query", spec.query.clone()),
            ]
        }
        Object::InfraEnv(infra_env) => infra_env_columns(infra_env),
        Object::Agent(agent) => agent_columns(agent, view),
        Object::NMStateConfig(config) => {
            let interfaces = config.spec.interfaces.iter();
            let macs: Vec<String> =
                interfaces.map(|interface| interface.mac_address.to_lowercase()).collect();
            vec![("macs", macs.join(","))]
        }
        Object::IpPool(ip_pool) => ip_pool_columns(ip_pool, view),
        Object::IpClaim(claim) => ip_claim_columns(claim, view),
        Object::IpAddress(address) => vec![
            ("address", address.spec.address.clone()),
            ("pool", address.spec.pool.name.clone()),
            ("claim", address.spec.claim.name.clone()),
        ],
        _ => Row::new(),
    }
}

fn pool_columns(pool: &ClusterPool) -> Row {
    let status = &pool.status;
    let free_customizations = match &pool.spec.inventory {
        None => String::new(),
        Some(inventory) => format!("{}/{}", status.free_customizations, inventory.len()),
    };
    vec![
        ("size", pool.spec.size.to_string()),
        ("ready", status.ready.to_string()),
        ("standby", status.standby.to_string()),
        ("installing", status.installing.to_string()),
        ("claimed", status.claimed.to_string()),
        ("pending", status.pending.to_string()),
        ("running", status.running.to_string()),
        ("free-cdc", free_customizations),
    ]
}

fn infra_env_columns(infra_env: &InfraEnv) -> Row {
    let cluster = infra_env.cluster_key().map(|key| key.name).unwrap_or_default();
    let image_created = infra_env.status.created_time.map(|time| time.to_string());
    vec![("cluster", cluster), ("iso created at", image_created.unwrap_or_default())]
}

fn agent_columns(agent: &Agent, view: &RowContext) -> Row {
    let facts = AgentFacts::of(agent);
    let state = facts.state.name().to_owned();
    let silence = facts.seen.map(|time| view.now.since(time).to_short_text());
    vec![
        ("hostname", facts.hostname),
        ("state", state_or_deleting(facts.deleting, state)),
        ("cluster", facts.bound.unwrap_or_default()),
        ("role", facts.role.name().to_owned()),
        ("cpu", facts.cores.map(|cores| cores.to_string()).unwrap_or_default()),
        ("mem", facts.memory.map(gibibytes).unwrap_or_default()),
        ("disk", facts.disk.map(gigabytes).unwrap_or_default()),
        ("seen", silence.unwrap_or_default()),
    ]
}

/// Memory is sold in powers of two.
fn gibibytes(bytes: u64) -> String {
    // Less than one of them is not nothing.
    if bytes < 1 << 30 { format!("{}M", bytes >> 20) } else { format!("{}G", bytes >> 30) }
}

/// Disks are sold in powers of ten.
fn gigabytes(bytes: u64) -> String {
    if bytes < 1_000_000_000 {
        return format!("{}M", bytes / 1_000_000);
    }
    format!("{}G", bytes / 1_000_000_000)
}

/// Letters of the ranges that a table names, unless it is wide; the others are counted.
const RANGES_WIDTH: usize = 28;

fn ip_claim_columns(claim: &IpClaim, view: &RowContext) -> Row {
    let address = claim.status.address.as_ref().map(|address| address.name.clone());
    let mut columns = vec![
        ("pool", claim.spec.pool.name.clone()),
        ("ipaddress", address.unwrap_or_default()),
        ("error", claim.status.error_message.clone()),
    ];
    if view.is_wide {
        for (column, annotation) in
            [("until", UNTIL), ("mac", MAC), ("dns", DNS_NAME), ("comment", COMMENT)]
        {
            let value = claim.metadata.annotation(annotation).unwrap_or_default();
            columns.push((column, value.to_owned()));
        }
    }
    columns
}

fn ip_pool_columns(ip_pool: &IpPool, view: &RowContext) -> Row {
    let counts = ip_pool.status.ip_addresses.as_ref();
    let mut ranges: Vec<String> = ip_pool.ranges().map(|(_, range)| range.to_string()).collect();
    if !view.is_wide {
        let mut width = 0;
        let fitting_ranges = ranges.iter().take_while(|range| {
            width += range.len() + 2;
            width <= RANGES_WIDTH
        });
        let shown_count = fitting_ranges.count().max(1).min(ranges.len());
        let left_out = ranges.split_off(shown_count).len();
        if left_out > 0 {
            ranges.push(format!("{left_out} more"));
        }
    }
    let pause = if ip_pool.is_paused() { " (paused)" } else { "" };
    vec![
        ("ranges", ranges.join(", ")),
        ("total", address_count(counts, "total")),
        ("used", address_count(counts, "used")),
        ("reserved", address_count(counts, "reserved")),
        ("resting", address_count(counts, "resting")),
        ("free", format!("{}{pause}", address_count(counts, "free"))),
    ]
}

/// Counts that readers of JSON would round are strings in the status.
fn address_count(counts: Option<&Value>, name: &str) -> String {
    match counts.map(|counts| &counts[name]) {
        Some(Value::String(digits)) => digits.clone(),
        Some(number) => number.to_string(),
        None => String::new(),
    }
}

fn host_columns(host: &BareMetalHost) -> Row {
    let hold = if host.hold_reason().is_some() { " (held)" } else { "" };
    let state = format!("{}{hold}", host.status.provisioning.state);
    vec![
        ("status", host.status.operational_status.clone()),
        ("state", state_or_deleting(host.metadata.deletion_timestamp, state)),
        ("consumer", host.cluster().unwrap_or_default().to_owned()),
        ("online", host.spec.online.to_string()),
        ("power", host.power().name().to_owned()),
        ("error", host.status.error_type.clone()),
    ]
}

fn claim_columns(claim: &Claim, view: &RowContext) -> Row {
    let expires = claim.expires_at().map(|expiry| {
        if view.now < expiry { expiry.since(view.now).to_short_text() } else { "now".into() }
    });
    vec![
        ("pool", claim.pool.clone()),
        ("state", claim_state(claim, view)),
        ("cluster", claim.cluster.clone().unwrap_or_default()),
        ("owner", claim.owner.clone()),
        ("expires", expires.unwrap_or_default()),
    ]
}

/// The state of a claim in a word or two, with what it waits for.
fn claim_state(claim: &Claim, view: &RowContext) -> String {
    if claim.deleting.is_some() {
        return "Releasing".into();
    }
    match (claim.pending, claim.running) {
        (Pending::PoolMissing, _) => "Pending (no such pool)".into(),
        (Pending::PoolDeleting, _) => "Pending (pool is being deleted)".into(),
        (Pending::PoolPaused, _) => "Pending (pool is paused)".into(),
        (Pending::Claimed, ClusterRunning::Running) => "Running".into(),
        (Pending::Claimed, _) if view.hibernating_claims.contains(&claim.key()) => {
            "Hibernating".into()
        }
        (Pending::Claimed, running) => running.condition_words().1.as_str().to_owned(),
        _ => match view.queue_positions.get(&claim.key()) {
            Some(place) => format!("Pending ({place})"),
            None => "Pending".into(),
        },
    }
}

fn cluster_columns(cluster: &Cluster) -> Row {
    let pool = cluster.pool.as_ref().map(|pool| pool.name.clone());
    let power = if cluster.power == Power::Unset { "" } else { cluster.power_state() };
    // A cluster that was given up has no attempt under way.
    let attempt = if cluster.stopped { cluster.restarts } else { cluster.restarts + 1 };
    vec![
        ("pool", pool.unwrap_or_default()),
        ("phase", cluster.phase().name().to_owned()),
        ("power", power.to_owned()),
        ("claim", cluster.claim.clone().unwrap_or_default()),
        ("customization", cluster.customization.clone().unwrap_or_default()),
        ("attempt", attempt.to_string()),
    ]
}

fn customization_columns(customization: &Customization, view: &RowContext) -> Row {
    let holder = customization.holder.as_ref();
    let entry = inventory_entry(customization, &view.pools);
    let state = match entry {
        Some(entry) => entry.status,
        None if holder.is_some() => EntryStatus::Reserved,
        None => EntryStatus::Available,
    };
    let pool = holder.and_then(|holder| holder.pool.as_ref()).map(|pool| pool.name.clone());
    let deletion_time = customization.metadata.deletion_timestamp;
    // While a cluster has it, what a pool says of it is no failure.
    let mut last_error = String::new();
    if let Some(entry) = entry
        && holder.is_none()
    {
        last_error.clone_from(&entry.message);
    }
    if last_error.is_empty()
        && let Some(failure) = customization.apply_failure()
    {
        last_error.clone_from(&failure.message);
    }
    vec![
        ("state", state_or_deleting(deletion_time, state.to_string())),
        ("pool", pool.unwrap_or_default()),
        ("cluster", holder.map(|holder| holder.cluster.clone()).unwrap_or_default()),
        ("attempts-left", entry.map(|entry| entry.attempts.to_string()).unwrap_or_default()),
        ("last-error", last_error),
    ]
}

/// A customization as the pool that has it sees it; if no pool has it, as a pool sees it that lists
/// it, preferably one that could have it.
fn inventory_entry<'a>(
    customization: &Customization,
    pools: &'a [ClusterPool],
) -> Option<&'a InventoryStatus> {
    let Meta { name, namespace, .. } = &customization.metadata;
    let holder = customization.holder.as_ref();
    let mut entries = Vec::new();
    for pool in pools.iter().filter(|pool| pool.metadata.namespace == *namespace) {
        if holder.is_none_or(|holder| holder.pool.as_ref() == Some(&pool.key())) {
            entries.extend(pool.status.inventory.get(name));
        }
    }
    entries.into_iter().min_by_key(|entry| entry.status == EntryStatus::Unavailable)
}

/// The columns that only `-o wide` adds.
fn wide_columns(object: &Object, view: &RowContext) -> Row {
    match object {
        Object::ClusterPool(pool) => vec![
            ("held", pool.status.held.to_string()),
            ("broken", pool.status.broken.to_string()),
            ("deleting", pool.status.deleting.to_string()),
            ("basedomain", pool.spec.base_domain.clone()),
            ("imageset", pool.spec.image_set_ref.name.clone()),
            ("platform", pool.spec.platform.name().to_owned()),
        ],
        Object::ClusterClaim(claim) => {
            vec![("lifetime", claim.effective.map(|span| span.to_string()).unwrap_or_default())]
        }
        Object::ClusterDeployment(cluster) => {
            let credentials =
                view.credential_states.get(&cluster.name).copied().unwrap_or_default();
            vec![
                ("api", cluster.api_url()),
                ("version", cluster.version.as_deref().unwrap_or_default().to_owned()),
                ("credentials", credentials.to_owned()),
                ("last-error", cluster.failure.clone().unwrap_or_default()),
            ]
        }
        Object::BareMetalHost(host) => wide_host_columns(host),
        Object::InfraEnv(infra_env) => {
            vec![("iso url", infra_env.status.iso_download_url.clone())]
        }
        Object::Agent(agent) => vec![
            ("approved", agent.spec.approved.to_string()),
            ("fit", view.suitable_roles.get(&agent.key()).cloned().unwrap_or_default()),
        ],
        _ => Row::new(),
    }
}

fn wide_host_columns(host: &BareMetalHost) -> Row {
    let address = host.spec.bmc.as_ref().map(|bmc| bmc.address.clone());
    let hardware = host.status.hardware.as_ref().map(Hardware::summary);
    vec![
        ("bmc", address.unwrap_or_default()),
        ("certificate", host.certificate_trust().to_string()),
        ("mac", host.spec.boot_mac_address.clone()),
        ("hardware", hardware.unwrap_or_default()),
        ("last-error", host.status.error_message.clone()),
    ]
}

/// The row of an event. `object` is what kind of object it is about, in the word of commands.
pub fn event_row(event: &Event, now: Time, object: &str) -> Row {
    vec![
        ("age", now.since(event.time).to_short_text()),
        ("type", event.event_type.name().to_owned()),
        ("reason", event.reason.clone()),
        ("object", format!("{object}/{}", event.object.name)),
        ("actor", event.actor.clone()),
        ("message", event.message.clone()),
    ]
}

/// The row of a job; a live one has lasted until now.
pub fn job_row(job: &Job, now: Time) -> Row {
    let state = if job.ended.is_some() { "Finished" } else { "Running" };
    vec![
        ("id", job.id.to_string()),
        ("object", job.object_word()),
        ("verb", job.verb.name().to_owned()),
        ("state", state.to_owned()),
        ("try", job.attempt.to_string()),
        ("exit", job.outcome.clone().unwrap_or_default()),
        ("started", job.started.to_string()),
        ("duration", job.ended.unwrap_or(now).since(job.started).to_short_text()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_one_gibibyte_is_not_nothing() {
        assert_eq!(gibibytes(500 << 20), "500M");
        assert_eq!(gibibytes(16 << 30), "16G");
        assert_eq!(gigabytes(500 << 20), "524M");
        assert_eq!(gigabytes(480_000_000_000), "480G");
    }
}
