//! `template render|release`: prints what a data template makes for one host, with the number and
//! the addresses that are leased for it, and gives them back.
//!
//! Each host has a number of each template, and a Metal3Data that says so. Its claims of addresses
//! are called after template, number and pool, as metal3 calls them; a template without its status
//! finds the numbers by these names. Where the claims are called after the host, it has the same
//! addresses after each rebuild.

mod claim_names;

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::edits::{self, PutMode, put_object};
use crate::model::data_template::Metal3DataTemplate;
use crate::model::host::BareMetalHost;
use crate::model::ip_lease::{IpClaim, IpClaimSpec, Reference};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta, OwnerReference};
use crate::model::metal3_data::Metal3Data;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::output::{Answer, Name};
use crate::plan;
use crate::reconcile::Door;
use crate::render::host_data::{
    LeasedAddress, TemplateContext, render_meta_data, render_network_data, render_nmstate,
};
use crate::store::{Filter, NeededObject, Store};

use crate::commands::{Context, RunCommand, target};

use self::claim_names::{ClaimNames, WantedAddress, wanted_addresses};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RenderFormat {
    /// metaData and networkData in the format of metal3
    Metal3,
    /// Networks in nmstate, the format of agent-config.yaml
    Nmstate,
}

/// Arguments of `template render`. The same host gets the same index and the same addresses each
/// time.
#[derive(Args)]
pub struct Render {
    /// Metal3DataTemplate to render
    #[arg(value_name = "TEMPLATE")]
    name: String,
    /// Host that the data is for
    #[arg(long)]
    host: String,
    /// Format of the data
    #[arg(long = "as", value_enum, default_value = "metal3")]
    format: RenderFormat,
}

impl RunCommand for Render {
    const NAME: &'static str = "render";
    const ABOUT: &'static str =
        "Lease an index and addresses of a template for a host, and print its data";
    const EXAMPLE: &'static str = "poolctl template render nodes --host node-1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let template = context.find::<Metal3DataTemplate>(&store, &self.name)?;
        let host = context.find::<BareMetalHost>(&store, &self.host)?;
        let wanted = wanted_addresses(&template, host.annotations());
        let names =
            ClaimNames { template: &template, host_name: &host.metadata.name, wanted: &wanted };
        let (index, addresses) = lease_addresses(context, &store, &names)?;
        let facts = TemplateContext {
            template: &template,
            index,
            host: &host,
            machine: &host.metadata.name,
            namespace: &template.metadata.namespace,
            leases: &addresses.of_pools,
            network_leases: &addresses.of_networks,
        };
        let data_name = format!("{}-{index}", template.metadata.name);
        let document = self.make_document(&facts, &data_name).map_err(Refusal::invalid)?;
        let name = Name::of(Kind::DataTemplate, &template.metadata.key());
        context.answer(Answer::document(document)?.with_name(name))
    }
}

impl Render {
    /// The rendered template as a document: in nmstate's form, or as the Metal3Data that Metal3
    /// would make.
    fn make_document(&self, facts: &TemplateContext<'_>, data_name: &str) -> Result<Value, String> {
        let networks = render_network_data(facts)?;
        Ok(match self.format {
            RenderFormat::Nmstate => render_nmstate(&networks),
            RenderFormat::Metal3 => {
                let metadata = render_meta_data(facts)?;
                let mut document = json!({"name": data_name, "index": facts.index});
                if !metadata.is_empty() {
                    document["metaData"] = json!(metadata);
                }
                if !networks.is_null() {
                    document["networkData"] = networks;
                }
                document
            }
        })
    }
}

/// The addresses of a host.
#[derive(Default)]
struct HostAddresses {
    /// Those that it has of each pool, by the name of the pool.
    of_pools: BTreeMap<String, LeasedAddress>,
    /// Those of networks with an address of their own, by the id of the network.
    of_networks: BTreeMap<String, LeasedAddress>,
}

/// Gives a host its number of a template and leases the addresses that the template wants for it.
fn lease_addresses(
    context: &Context,
    store: &Store,
    names: &ClaimNames<'_>,
) -> Result<(u64, HostAddresses), Refusal> {
    let ClaimNames { template, host_name, wanted } = *names;
    let template_key = template.metadata.key();
    // A template that was moved without its status has forgotten which number its hosts have.
    let numbered_claims = match template.index_of(host_name) {
        Some(_) => Vec::new(),
        None => find_numbered_claims(store, &template_key)?,
    };
    let mut needs = vec![NeededObject { kind: Kind::DataTemplate, key: template_key.clone() }];
    for WantedAddress { pool, .. } in wanted {
        let pool_key = Key::new(&*template_key.namespace, &**pool);
        needs.push(NeededObject { kind: Kind::IpPool, key: pool_key });
    }
    let door = Door { plans_changes: true, ..context.door(store) };
    let (leased, _) = door.change_if_accepted(
        &Scope::Pools(Vec::new()),
        &needs,
        |state, tick| {
            let numbering = Numbering { store, template_key: &template_key, names };
            let index = numbering.assign_number(state, &numbered_claims, tick)?;
            put_data(state, store, Metal3Data::of_host(&template_key, index, host_name), tick)?;
            let claim_keys = names.keys(index);
            for (claim_key, WantedAddress { pool, .. }) in claim_keys.iter().zip(wanted) {
                put_claim(state, store, claim_key, pool, host_name, tick)?;
            }
            Ok((index, claim_keys))
        },
        |state, (index, claim_keys)| Ok((index, read_leases(state, &claim_keys, wanted)?)),
    )?;
    Ok(leased)
}

/// Puts the Metal3Data of a host into the state, unless it exists: then it is this host's own.
fn put_data(
    state: &mut State,
    store: &Store,
    data: Metal3Data,
    tick: &Tick,
) -> Result<(), Refusal> {
    let key = data.metadata.key();
    if state.metal3_data.find(&key).is_none() && store.find::<Metal3Data>(&key)?.is_none() {
        put_object(state, Object::Metal3Data(Box::new(data)), PutMode::Apply, tick)?;
    }
    Ok(())
}

/// Puts the claim of a host for an address of a pool into the state, unless it exists.
fn put_claim(
    state: &mut State,
    store: &Store,
    claim_key: &Key,
    pool: &str,
    host_name: &str,
    tick: &Tick,
) -> Result<(), Refusal> {
    let serving_pool = plan::find_serving_pool(state, &claim_key.namespace, pool);
    if serving_pool.map_err(Refusal::conflict)?.is_none() {
        return Err(
            Refusal::not_found(format!("there is no IPPool `{pool}`")).next("poolctl get ippool")
        );
    }
    match store.find_lease_of_claim(claim_key)? {
        None => {
            put_object(state, make_claim(claim_key, pool, host_name), PutMode::Apply, tick)?;
        }
        Some(lease) if !state.ip_leases.has_or_had(claim_key) => {
            state.ip_leases.load(lease);
        }
        Some(_) => {}
    }
    Ok(())
}

/// Arguments of `template release`.
#[derive(Args)]
pub struct Release {
    /// Metal3DataTemplate that the index and addresses belong to
    #[arg(value_name = "TEMPLATE")]
    name: String,
    /// Host that has the index and addresses
    #[arg(long)]
    host: String,
}

impl RunCommand for Release {
    const NAME: &'static str = "release";
    const ABOUT: &'static str =
        "Release the index and the addresses that a host has from a template";
    const EXAMPLE: &'static str = "poolctl template release nodes --host node-1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let template = context.find::<Metal3DataTemplate>(&store, &self.name)?;
        let template_key = template.key();
        let host_name = target::without_kind(Kind::BareMetalHost, &self.host);
        let index = template.index_of(&host_name);
        let claim_keys = find_claims_to_release(&store, &template, &host_name)?;
        if index.is_none() && claim_keys.is_empty() {
            // The name of a host that does not exist is a mistake.
            context.find_object(&store, Kind::BareMetalHost, &host_name)?;
            let template_name = &template_key.name;
            context.hint(&format!("host `{host_name}` has no index of template `{template_name}`"));
            return Ok(());
        }
        let mut needs = vec![NeededObject { kind: Kind::DataTemplate, key: template_key.clone() }];
        for claim_key in &claim_keys {
            needs.push(NeededObject { kind: Kind::IpClaim, key: claim_key.clone() });
        }
        let data_key = index.map(|index| template.data_key(index));
        if let Some(key) = data_key.clone() {
            needs.push(NeededObject { kind: Kind::Metal3Data, key });
        }
        let scope = Scope::Pools(Vec::new());
        let ((), passed) = context.door(&store).change(&scope, &needs, |state, tick| {
            for claim_key in &claim_keys {
                edits::delete_object(state, Kind::IpClaim, claim_key, tick);
            }
            if let Some(data_key) = &data_key {
                edits::delete_object(state, Kind::Metal3Data, data_key, tick);
            }
            if let Some(template_id) = state.data_templates.find(&template_key) {
                state
                    .data_templates
                    .update(template_id, |template| template.release_index(&host_name));
            }
            Ok(())
        })?;
        let result = format!("released by {host_name}");
        context.report_change(Kind::DataTemplate, &template_key, &result)?;
        Ok(context.report_pass(&passed)?)
    }
}

/// The claims that go with the number that a host has of a template.
fn find_claims_to_release(
    store: &Store,
    template: &Metal3DataTemplate,
    host_name: &str,
) -> Result<Vec<Key>, Refusal> {
    let index = template.index_of(host_name);
    let mut claim_keys = Vec::new();
    for claim in find_numbered_claims(store, &template.key())? {
        let is_of_host = match &claim.host_name {
            Some(owner) => owner == host_name,
            None => Some(claim.number) == index,
        };
        if is_of_host {
            claim_keys.push(claim.key);
        }
    }
    claim_keys.extend(find_claims_after_host(store, template, host_name)?);
    // The host still uses the addresses that it has from its other templates, too.
    let filter =
        Filter { namespace: Some(template.metadata.namespace.clone()), ..Filter::default() };
    for other_template in store.list::<Metal3DataTemplate>(&filter)? {
        let is_used = other_template.index_of(host_name).is_some();
        if is_used && other_template.key() != template.key() {
            let used_keys = find_claims_after_host(store, &other_template, host_name)?;
            claim_keys.retain(|claim_key| !used_keys.contains(claim_key));
        }
    }
    Ok(claim_keys)
}

/// The claims of a host that are called after it, if the template wants that. They must be the
/// host's own.
fn find_claims_after_host(
    store: &Store,
    template: &Metal3DataTemplate,
    host_name: &str,
) -> Result<Vec<Key>, Refusal> {
    let host_key = Key::new(&*template.metadata.namespace, host_name);
    let host = store.find::<BareMetalHost>(&host_key)?.unwrap_or_default();
    let wanted = wanted_addresses(template, host.annotations());
    let names = ClaimNames { template, host_name, wanted: &wanted };
    let mut claim_keys = Vec::new();
    if !names.are_after_host() {
        return Ok(claim_keys);
    }
    for claim_key in names.keys(0) {
        let lease = store.find_lease_of_claim(&claim_key)?;
        if lease.is_some_and(|lease| lease.host() == Some(host_name)) {
            claim_keys.push(claim_key);
        }
    }
    Ok(claim_keys)
}

/// Chooses the number of one host of one template.
struct Numbering<'a> {
    store: &'a Store,
    template_key: &'a Key,
    names: &'a ClaimNames<'a>,
}

impl Numbering<'_> {
    /// The number that the host has of the template from now on: the one that it has, else the one
    /// that its claims have, else the first that no host has.
    fn assign_number(
        &self,
        state: &mut State,
        numbered_claims: &[NumberedClaim],
        tick: &Tick,
    ) -> Result<u64, Refusal> {
        let template_name = &self.template_key.name;
        let template_id = state.data_templates.find(self.template_key);
        let template = template_id.and_then(|template_id| state.data_templates.get(template_id));
        let (Some(template_id), Some(template)) = (template_id, template) else {
            let problem = format!("there is no datatemplate `{template_name}` any more");
            return Err(Refusal::not_found(problem));
        };
        let host_name = self.names.host_name;
        // Whatever the number is, the claims are the same.
        if self.names.are_after_host()
            && let Some(why) = self.claims_obstacle(0)?
        {
            let problem = format!("host `{host_name}` cannot claim addresses by its name");
            return Err(Refusal::conflict(problem).because(why).next("poolctl get ipclaim"));
        }
        let number = match template.index_of(host_name) {
            Some(number) => {
                if let Some(why) = self.number_obstacle(number)? {
                    let problem = format!(
                        "host `{host_name}` has index {number} of template `{template_name}`"
                    );
                    let next =
                        format!("poolctl template release {template_name} --host {host_name}");
                    return Err(Refusal::conflict(problem).because(why).next(next));
                }
                number
            }
            None => self.find_free_number(template, numbered_claims)?,
        };
        state.data_templates.update(template_id, |template| {
            template.assign_index(host_name, number, tick.now);
        });
        Ok(number)
    }

    /// The number that a host had before if its claims tell it, else the lowest that no host and no
    /// address uses.
    fn find_free_number(
        &self,
        template: &Metal3DataTemplate,
        numbered_claims: &[NumberedClaim],
    ) -> Result<u64, Refusal> {
        let mut own_numbers = Vec::new();
        let mut numbers_of_others = BTreeSet::new();
        for claim in numbered_claims {
            let Some(owner) = &claim.host_name else { continue };
            if owner == self.names.host_name {
                own_numbers.push(claim.number);
            } else {
                numbers_of_others.insert(claim.number);
            }
        }
        for number in own_numbers.into_iter().chain(0..) {
            if template.holder_of(number).is_none()
                && !numbers_of_others.contains(&number)
                && self.number_obstacle(number)?.is_none()
            {
                return Ok(number);
            }
        }
        let problem = format!("template `{}` has no free index", self.template_key.name);
        Err(Refusal::conflict(problem))
    }

    /// Why a number cannot be the host's: one of its claims is in use otherwise.
    fn number_obstacle(&self, number: u64) -> Result<Option<String>, Refusal> {
        let data_name = Metal3DataTemplate::data_name(&self.template_key.name, number);
        let data_key = Key::new(&*self.template_key.namespace, data_name);
        if let Some(data) = self.store.find::<Metal3Data>(&data_key)?
            && data.machine() != self.names.host_name
        {
            let machine = data.machine();
            return Ok(Some(format!("Metal3Data `{}` belongs to `{machine}`", data_key.name)));
        }
        if self.names.are_after_host() {
            return Ok(None);
        }
        self.claims_obstacle(number)
    }

    /// Why the claims of a number cannot be the host's: one of them is in use otherwise.
    fn claims_obstacle(&self, number: u64) -> Result<Option<String>, Refusal> {
        let claim_keys = self.names.keys(number);
        for (claim_key, WantedAddress { pool, .. }) in claim_keys.iter().zip(self.names.wanted) {
            let Some(lease) = self.store.find_lease_of_claim(claim_key)? else { continue };
            let name = &claim_key.name;
            if let Some(owner) = lease.stored_claim_meta().and_then(owner_host)
                && owner != self.names.host_name
            {
                return Ok(Some(format!("claim `{name}` belongs to host `{owner}`")));
            }
            if lease.pool != *pool {
                return Ok(Some(format!("claim `{name}` belongs to IPPool `{}`", lease.pool)));
            }
            if lease.deleting.is_some() {
                return Ok(Some(format!("claim `{name}` is being deleted")));
            }
        }
        Ok(None)
    }
}

/// The host that owns a claim.
fn owner_host(claim: &Meta) -> Option<&str> {
    let mut owners = claim.owner_references.iter();
    let owner = owners.find(|owner| owner.kind == Kind::BareMetalHost.name())?;
    Some(&owner.name)
}

/// A claim whose name is that of a template, a number and the claim's own pool.
struct NumberedClaim {
    number: u64,
    key: Key,
    /// The host that owns it, if one does.
    host_name: Option<String>,
}

/// The claims that hosts have of a template, by their names.
fn find_numbered_claims(store: &Store, template_key: &Key) -> Result<Vec<NumberedClaim>, Refusal> {
    let prefix = format!("{}-", template_key.name);
    let namespace = Some(template_key.namespace.clone());
    let mut numbered_claims = Vec::new();
    for claim in store.list::<IpClaim>(&Filter { namespace, ..Filter::default() })? {
        let Some(suffix) = claim.metadata.name.strip_prefix(&prefix) else { continue };
        let Some((number, pool)) = suffix.split_once('-') else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        // The id of a network may follow.
        let after_pool = pool.strip_prefix(claim.spec.pool.name.as_str());
        if after_pool.is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
            let host_name = owner_host(&claim.metadata).map(str::to_owned);
            numbered_claims.push(NumberedClaim { number, key: claim.metadata.key(), host_name });
        }
    }
    Ok(numbered_claims)
}

/// A claim of a host for any address of a pool.
fn make_claim(claim_key: &Key, pool: &str, host_name: &str) -> Object {
    let owner = OwnerReference {
        api_version: Kind::BareMetalHost.api_version().into(),
        kind: Kind::BareMetalHost.name().into(),
        name: host_name.to_owned(),
        ..OwnerReference::default()
    };
    let metadata = Meta {
        name: claim_key.name.clone(),
        namespace: claim_key.namespace.clone(),
        owner_references: vec![owner],
        ..Meta::default()
    };
    let pool = Reference { name: pool.to_owned(), ..Reference::default() };
    let spec = IpClaimSpec { pool, owner: None };
    Object::IpClaim(Box::new(IpClaim { metadata, spec, ..IpClaim::default() }))
}

/// What the claims have got; refused if a pool has no address left.
fn read_leases(
    state: &State,
    claim_keys: &[Key],
    wanted: &[WantedAddress],
) -> Result<HostAddresses, Refusal> {
    let mut addresses = HostAddresses::default();
    for (claim_key, WantedAddress { pool, network }) in claim_keys.iter().zip(wanted) {
        let Some(lease) = state.ip_leases.by_key(claim_key) else { continue };
        let Some(address) = lease.address else {
            let problem = format!("IP Allocation for {pool} failed : {}", lease.error);
            let next = format!("poolctl ippool map {pool}");
            return Err(Refusal::new(Exit::Exhausted, problem).next(next));
        };
        let leased_network = lease.network.clone();
        let leased = LeasedAddress {
            address: address.to_string(),
            prefix: leased_network.prefix,
            gateway: leased_network.gateway.unwrap_or_default(),
            dns: leased_network.dns_servers,
        };
        match network {
            Some(network) => addresses.of_networks.insert(network.clone(), leased),
            None => addresses.of_pools.insert(pool.clone(), leased),
        };
    }
    Ok(addresses)
}
