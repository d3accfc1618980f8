//! Puts the slots of a table into a pool: a customization for each, which the pool lists in its
//! inventory, the hosts, and claims of the addresses that an IPPool has. No cluster is made.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::commands::{Context, count_of, customization_warnings};
use crate::edits::{PutMode, PutOutcome, put_object};
use crate::manifest;
use crate::model::address::Addr;
use crate::model::annotations::{AS_FOUND, COMMENT};
use crate::model::customization::Customization;
use crate::model::host::{BareMetalHost, Bmc, HostSpec};
use crate::model::inventory::InventoryEntry;
use crate::model::ip_lease::{IpClaim, IpClaimSpec, Reference, VIPS};
use crate::model::ip_pool::{IpPool, REQUESTED_ADDRESS};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta};
use crate::model::object::{Object, Resource};
use crate::model::platform::{VipOrigin, traits_of};
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;
use crate::model::state::{NameBook, State};
use crate::model::tick::Tick;
use crate::render::cluster_dns::{applied_addresses, patched_addresses, patched_name};
use crate::store::{Filter, NeededObject, Store};

use super::slots::{Slot, SlotHost, TableProblem, read_slots, refuse_problems};
use super::sources::{AddedObject, Intent, add_objects};

/// The platform of the install-config of clusters that are made of Agents.
const PLATFORM_OF_AGENTS: &str = "baremetal";

/// Adds the slots of a table to a pool, all or none.
pub fn add_slots(
    context: &Context,
    file: &Path,
    pool_name: &str,
    intent: Intent,
) -> anyhow::Result<()> {
    let slots = read_slots(file)?;
    let store = context.open_existing_state()?;
    let pool = context.find::<ClusterPool>(&store, pool_name)?;
    let pool_key = pool.key();
    let mut problems = Vec::new();
    let mut objects = Vec::new();
    for slot in &slots {
        match make_customization(&pool, slot) {
            Ok(customization) => objects.push(customization),
            Err(refusal) => problems.push(TableProblem::new(slot.line, refusal.what)),
        }
    }
    let claims = claim_addresses(&store, &pool_key.namespace, &slots, &mut problems)?;
    objects.extend(claims.into_iter().map(Resource::into_object));
    find_taken_values(&store, &pool, &slots, &mut problems)?;
    refuse_problems(file, problems)?;
    drop(store);
    let mut needs: Vec<NeededObject> = Vec::new();
    for object in &objects {
        needs.push(NeededObject { kind: object.kind(), key: object.key() });
        if let Object::IpClaim(claim) = object {
            let key = Key::new(&*claim.metadata.namespace, &*claim.spec.pool.name);
            needs.push(NeededObject { kind: Kind::IpPool, key });
        }
    }
    for host in slots.iter().flat_map(|slot| &slot.hosts) {
        let key = Key::new(&*pool_key.namespace, &*host.name);
        needs.push(NeededObject { kind: Kind::BareMetalHost, key });
    }
    let state = add_objects(context, &needs, intent, |state, tick| {
        let mut added_objects = put_objects(state, objects, tick)?;
        added_objects.extend(put_hosts(state, &pool_key.namespace, &slots, tick)?);
        added_objects.push(list_in_inventory(state, &pool_key, &slots, tick)?);
        Ok(added_objects)
    })?;
    let mut changed: Vec<(Kind, Key)> = vec![(Kind::ClusterPool, pool_key.clone())];
    for slot in slots {
        changed.push((Kind::Customization, Key::new(&*pool_key.namespace, slot.name)));
    }
    customization_warnings::warn_about_customizations(context, &state, &changed);
    Ok(())
}

/// The customization of a slot, which gives a cluster the slot's name and its addresses.
fn make_customization(pool: &ClusterPool, slot: &Slot) -> Result<Object, Refusal> {
    let mut patches = vec![json!({"op": "replace", "path": "/metadata/name", "value": slot.name})];
    if !(slot.api_vips.is_empty() && slot.ingress_vips.is_empty()) {
        let platform = platform_of_addresses(pool)?;
        for (field, addresses) in [("apiVIPs", &slot.api_vips), ("ingressVIPs", &slot.ingress_vips)]
        {
            if !addresses.is_empty() {
                let texts: Vec<Value> =
                    addresses.iter().map(|address| address.to_string().into()).collect();
                let path = format!("/platform/{platform}/{field}");
                let value_json = Value::from(texts).to_string();
                patches.push(json!({"op": "add", "path": path, "valueJSON": value_json}));
            }
        }
    }
    let document = json!({
        "metadata": {"name": slot.name, "namespace": pool.metadata.namespace},
        "spec": {"installConfigPatches": patches},
    });
    manifest::check_edited_document(Kind::Customization, &document)
}

/// The platform in the install-config of a pool's clusters that has the addresses of their API and
/// ingress.
fn platform_of_addresses(pool: &ClusterPool) -> Result<&'static str, Refusal> {
    if !pool.vip_pools().is_empty() {
        let sentence = "the pool leases the addresses of API and ingress itself; leave them out";
        return Err(Refusal::invalid(sentence));
    }
    let name = if pool.picks_hosts() { PLATFORM_OF_AGENTS } else { pool.spec.platform.name() };
    match traits_of(name) {
        Some(platform) if platform.vips == VipOrigin::Given => Ok(platform.name),
        _ => {
            let sentence = format!("platform {name} takes no apiVIP and no ingressVIP");
            Err(Refusal::invalid(sentence))
        }
    }
}

/// Notes names and addresses of slots that another customization gives to its clusters, and names
/// that a cluster has.
fn find_taken_values(
    store: &Store,
    pool: &ClusterPool,
    slots: &[Slot],
    problems: &mut Vec<TableProblem>,
) -> Result<(), Refusal> {
    let namespace = pool.metadata.namespace.clone();
    let filter = Filter { namespace: Some(namespace), ..Filter::default() };
    let customizations = store.list::<Customization>(&filter)?;
    let books = store.stored_books();
    for slot in slots {
        let line = slot.line;
        let own_customization =
            customizations.iter().find(|customization| customization.metadata.name == slot.name);
        for customization in &customizations {
            if customization.metadata.name != slot.name {
                let taken_values = values_of_another(pool, slot, customization);
                problems.extend(taken_values.into_iter().map(|why| TableProblem::new(line, why)));
            }
        }
        let own_holder = own_customization.and_then(|customization| customization.holder.as_ref());
        let domain = &pool.spec.base_domain;
        if let Some(cluster) = NameBook::holder(&books, &slot.name, domain)
            && own_holder.is_none_or(|holder| holder.cluster != cluster)
        {
            let name = &slot.name;
            let sentence = format!("name {name}.{domain} belongs to cluster {cluster}");
            problems.push(TableProblem::new(line, sentence));
        }
    }
    books.check()
}

/// What of a slot another customization gives to its clusters already, a sentence for each. Names may
/// be the same in pools of other domains.
fn values_of_another(
    pool: &ClusterPool,
    slot: &Slot,
    customization: &Customization,
) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut entries = pool.spec.inventory.iter().flatten();
    let is_listed = entries.any(|entry| entry.name == customization.metadata.name);
    let owner = match &customization.holder {
        Some(holder) => {
            format!("customization {} (cluster {})", customization.metadata.name, holder.cluster)
        }
        None => format!("customization {}", customization.metadata.name),
    };
    let patches = &customization.spec.install_config_patches;
    if is_listed && patched_name(patches).as_ref() == Some(&slot.name) {
        sentences.push(format!("name {} belongs to {owner}", slot.name));
    }
    let mut addresses = patched_addresses(patches);
    if customization.holder.is_some() {
        addresses.extend(applied_addresses(customization));
    }
    for address in slot.api_vips.iter().chain(&slot.ingress_vips) {
        if addresses.contains(address) {
            sentences.push(format!("{address} belongs to {owner}"));
        }
    }
    sentences
}

/// Claims of the addresses of all slots that an IPPool of the namespace has, so that nobody else
/// gets them. An address that the right claim has needs none.
fn claim_addresses(
    store: &Store,
    namespace: &str,
    slots: &[Slot],
    problems: &mut Vec<TableProblem>,
) -> Result<Vec<IpClaim>, Refusal> {
    let filter = Filter { namespace: Some(namespace.to_owned()), ..Filter::default() };
    let ip_pools = store.list::<IpPool>(&filter)?;
    let mut claims = Vec::new();
    for slot in slots {
        let roles = VIPS.into_iter().zip([&slot.api_vips, &slot.ingress_vips]);
        for (role, addresses) in roles {
            for address in addresses {
                let claim_name = name_of_claim(slot, role, *address);
                match claim_address(store, namespace, &ip_pools, &claim_name, *address)? {
                    AddressClaim::New(claim) => claims.push(*claim),
                    AddressClaim::Needless => {}
                    AddressClaim::Problem(why) => {
                        problems.push(TableProblem::new(slot.line, why));
                    }
                }
            }
        }
    }
    Ok(claims)
}

/// The name of the claim of an address: `SLOT-api`, with `-v6` for one of IPv6.
fn name_of_claim(slot: &Slot, role: &str, address: Addr) -> String {
    let family = if address.is_v4() { "" } else { "-v6" };
    format!("{}-{role}{family}", slot.name)
}

/// What is to be done so that an address belongs to a claim.
enum AddressClaim {
    New(Box<IpClaim>),
    /// It belongs to it, or no IPPool has it.
    Needless,
    Problem(String),
}

fn claim_address(
    store: &Store,
    namespace: &str,
    ip_pools: &[IpPool],
    claim_name: &str,
    address: Addr,
) -> Result<AddressClaim, Refusal> {
    if let Some(lease) = store.find_lease_of_address(namespace, address)? {
        if lease.claim == claim_name {
            return Ok(AddressClaim::Needless);
        }
        let why = format!("{address} belongs to IPClaim {}", lease.claim);
        return Ok(AddressClaim::Problem(why));
    }
    let mut having_pools = ip_pools.iter();
    let ip_pool = having_pools.find(|pool| pool.ranges().any(|(_, range)| range.contains(address)));
    let Some(ip_pool) = ip_pool else { return Ok(AddressClaim::Needless) };
    let pool_name = &ip_pool.metadata.name;
    if let Some(reason) = ip_pool.unusable_reason(address) {
        return Ok(AddressClaim::Problem(format!("{address} is {reason} of IPPool {pool_name}")));
    }
    let key = Key::new(namespace, claim_name);
    if let Some(lease) = store.find_lease_of_claim(&key)? {
        let wanted = lease.requested_address().and_then(|wanted| wanted.parse::<Addr>().ok());
        if lease.address.is_none() && wanted == Some(address) {
            // The next pass leases it.
            return Ok(AddressClaim::Needless);
        }
        let why = format!("IPClaim {claim_name} has another address than {address}");
        return Ok(AddressClaim::Problem(why));
    }
    let annotations = BTreeMap::from([
        (REQUESTED_ADDRESS.to_owned(), address.to_string()),
        (COMMENT.to_owned(), "of a cluster slot".to_owned()),
    ]);
    let metadata =
        Meta { name: key.name, namespace: key.namespace, annotations, ..Meta::default() };
    let pool = Reference { name: pool_name.clone(), ..Reference::default() };
    let spec = IpClaimSpec { pool, owner: None };
    Ok(AddressClaim::New(Box::new(IpClaim { metadata, spec, ..IpClaim::default() })))
}

/// Puts objects as `apply` does, and says what became of each.
fn put_objects(
    state: &mut State,
    objects: Vec<Object>,
    tick: &Tick,
) -> Result<Vec<AddedObject>, Refusal> {
    let mut added_objects = Vec::new();
    let mut refusals = Vec::new();
    for object in objects {
        let kind = object.kind();
        let key = object.key();
        match put_object(state, object, PutMode::Apply, tick) {
            Ok(outcome) => added_objects.push(AddedObject::new(kind, key, describe(&outcome))),
            Err(refusal) => refusals.push(refusal),
        }
    }
    Refusal::refuse_all(refusals)?;
    Ok(added_objects)
}

fn describe(outcome: &PutOutcome) -> String {
    match outcome {
        PutOutcome::Created => "created".into(),
        PutOutcome::Configured(fields) if fields.is_empty() => "configured".into(),
        PutOutcome::Configured(fields) => format!("configured ({fields})"),
        PutOutcome::Unchanged => "unchanged".into(),
    }
}

/// Adds the hosts that are not there. Those that are there stay as they are; the table must not
/// contradict them.
fn put_hosts(
    state: &mut State,
    namespace: &str,
    slots: &[Slot],
    tick: &Tick,
) -> Result<Vec<AddedObject>, Refusal> {
    let mut new_hosts = Vec::new();
    let mut added_objects = Vec::new();
    let mut refusals = Vec::new();
    for slot in slots {
        for host in &slot.hosts {
            let key = Key::new(namespace, &*host.name);
            match state.hosts.by_key(&key) {
                Some(existing) if contradicts(host, existing) => {
                    refusals.push(refuse_contradiction(slot, host));
                }
                Some(_) => {
                    added_objects.push(AddedObject::new(Kind::BareMetalHost, key, "unchanged"));
                }
                None if host.controller.is_empty() => refusals.push(refuse_missing(slot, host)),
                None => new_hosts.push(make_host(key, host).into_object()),
            }
        }
    }
    Refusal::refuse_all(refusals)?;
    for host in &new_hosts {
        crate::rules::check_object(host)?;
    }
    added_objects.extend(put_objects(state, new_hosts, tick)?);
    Ok(added_objects)
}

/// Whether a line says something else of a host than the state.
fn contradicts(host: &SlotHost, existing: &BareMetalHost) -> bool {
    let controller = existing.spec.bmc.as_ref().map(|bmc| bmc.address.as_str());
    let has_other_mac =
        !host.mac.is_empty() && !host.mac.eq_ignore_ascii_case(&existing.spec.boot_mac_address);
    let has_other_controller =
        !host.controller.is_empty() && controller != Some(host.controller.as_str());
    has_other_mac || has_other_controller
}

fn refuse_contradiction(slot: &Slot, host: &SlotHost) -> Refusal {
    let name = &host.name;
    let line = slot.line;
    Refusal::conflict(format!("line {line}: host `{name}` has another MAC or controller"))
        .next(format!("poolctl describe host {name}"))
}

fn refuse_missing(slot: &Slot, host: &SlotHost) -> Refusal {
    let name = &host.name;
    Refusal::not_found(format!("line {}: there is no host `{name}`", slot.line))
        .advise("write NAME MAC CONTROLLER in the column hosts, or import the hosts first")
}

fn make_host(key: Key, host: &SlotHost) -> BareMetalHost {
    let annotations = BTreeMap::from([(AS_FOUND.to_owned(), "true".to_owned())]);
    let metadata = Meta {
        name: key.name,
        namespace: key.namespace,
        labels: host.labels.clone(),
        annotations,
        ..Meta::default()
    };
    let bmc = Bmc {
        address: host.controller.clone(),
        credentials_name: host.secret.clone(),
        disable_certificate_verification: false,
    };
    let spec =
        HostSpec { boot_mac_address: host.mac.clone(), bmc: Some(bmc), ..HostSpec::default() };
    BareMetalHost { metadata, spec, ..BareMetalHost::default() }
}

/// Lists the slots in the inventory of their pool, behind those that are listed already.
fn list_in_inventory(
    state: &mut State,
    pool_key: &Key,
    slots: &[Slot],
    tick: &Tick,
) -> Result<AddedObject, Refusal> {
    let pool = state.pools.by_key(pool_key).cloned();
    let mut pool = pool.ok_or_else(|| {
        Refusal::not_found(format!("there is no pool `{}`", pool_key.name)).next("poolctl get pool")
    })?;
    let had_inventory = pool.spec.inventory.is_some();
    let inventory = pool.spec.inventory.get_or_insert_default();
    let mut new_count = 0;
    for slot in slots {
        if !inventory.iter().any(|entry| entry.name == slot.name) {
            inventory.push(InventoryEntry { name: slot.name.clone(), ..InventoryEntry::default() });
            new_count += 1;
        }
    }
    let has_clusters = !state.members(pool_key).clusters.is_empty();
    put_object(state, pool.into_object(), PutMode::Apply, tick)?;
    let mut result = format!("has {} more", count_of(new_count, "slot"));
    if !had_inventory && has_clusters {
        result += "; it had no inventory, so its idle clusters become stale";
    }
    Ok(AddedObject::new(Kind::ClusterPool, pool_key.clone(), result))
}
