//! `template render|release`: what a data template says to one host, with addresses leased for it.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::edits::{self, put};
use crate::model::data_template::Metal3DataTemplate;
use crate::model::host::BareMetalHost;
use crate::model::ip_lease::{IpClaim, IpClaimSpec, IpLease, Reference};
use crate::model::kinds::Kind;
use crate::model::meta::{Key, Meta, OwnerReference};
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::{Scope, State};
use crate::model::tick::Tick;
use crate::output::{Answer, Name};
use crate::reconcile::Door;
use crate::render::host_data::{Facts, Leased, meta_data, network_data, nmstate};
use crate::store::{Filter, Need, Store};

use crate::commands::{Context, Verb, target};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum As {
    /// metaData and networkData, as metal3 writes them
    Metal3,
    /// The networks as agent-config.yaml has them
    Nmstate,
}

#[derive(Args)]
pub struct Render {
    /// Metal3DataTemplate
    #[arg(value_name = "TEMPLATE")]
    name: String,
    /// For this host
    #[arg(long)]
    host: String,
    /// In which form
    #[arg(long = "as", value_enum, default_value = "metal3")]
    form: As,
}

impl Verb for Render {
    const NAME: &'static str = "render";
    const ABOUT: &'static str = "Lease what a host needs of a template, and print its data";
    const EXAMPLE: &'static str = "poolctl template render nodes --host node-1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let (template, host) = both(context, &store, &self.name, &self.host)?;
        let (pools, machine) = (pools_of(&template, &host), host.metadata.name.as_str());
        let (namespace, key) = (template.metadata.namespace.clone(), template.metadata.key());
        // What a template without its status has forgotten.
        let known = match template.index_of(machine) {
            Some(_) => Vec::new(),
            None => numbered(&store, &key)?,
        };
        let mut needs = vec![Need { kind: Kind::DataTemplate, key: key.clone() }];
        let named = pools.iter().map(|pool| Key::new(&*namespace, &**pool));
        needs.extend(named.map(|key| Need { kind: Kind::IpPool, key }));
        let door = Door { pass: true, ..context.door(&store) };
        let edit = |state: &mut State, tick: &Tick| {
            let index = number(state, &store, &key, machine, &pools, &known, tick)?;
            let claims = claims_of(&key, index, &pools);
            for (claim, pool) in claims.iter().zip(&pools) {
                if state.ip_pools.find(&Key::new(&*namespace, &**pool)).is_none() {
                    return Err(Refusal::not_found(format!("there is no IPPool `{pool}`"))
                        .next("poolctl get ippool"));
                }
                match store.lease_of(claim)? {
                    Some(known) if !state.ip_leases.knows(claim) => {
                        state.ip_leases.load(known);
                    }
                    Some(_) => {}
                    None => {
                        put(state, claim_of(claim, pool, machine), true, tick)?;
                    }
                }
            }
            Ok((index, claims))
        };
        let look = |state: &State, (index, claims): (u64, Vec<Key>)| {
            leased(state, &claims, &pools).map(|leases| (index, leases))
        };
        let ((index, leases), _) = door.change_if(&Scope::Pools(Vec::new()), &needs, edit, look)?;
        let data = format!("{}-{index}", template.metadata.name);
        let facts = Facts {
            template: &template,
            index,
            host: &host,
            machine,
            namespace: &namespace,
            leases: &leases,
        };
        let document = self.document(&facts, &data).map_err(Refusal::invalid)?;
        context.answer(Answer::document(document)?.with_name(Name::of(Kind::DataTemplate, &key)))
    }
}

impl Render {
    fn document(&self, facts: &Facts<'_>, data: &str) -> Result<Value, String> {
        let networks = network_data(facts)?;
        Ok(match self.form {
            As::Nmstate => nmstate(&networks),
            As::Metal3 => {
                let meta = meta_data(facts)?;
                let mut document = json!({"name": data, "index": facts.index});
                if !meta.is_empty() {
                    document["metaData"] = json!(meta);
                }
                if !networks.is_null() {
                    document["networkData"] = networks;
                }
                document
            }
        })
    }
}

#[derive(Args)]
pub struct Release {
    /// Metal3DataTemplate
    #[arg(value_name = "TEMPLATE")]
    name: String,
    /// Of this host
    #[arg(long)]
    host: String,
}

impl Verb for Release {
    const NAME: &'static str = "release";
    const ABOUT: &'static str = "Give back a host's number and addresses of a template";
    const EXAMPLE: &'static str = "poolctl template release nodes --host node-1";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        let template = context.find::<Metal3DataTemplate>(&store, &self.name)?;
        let key = template.key();
        let host = target::bare(Kind::BareMetalHost, &self.host);
        let index = template.index_of(&host);
        // Whatever the template and its host say by now.
        let its = |one: &Numbered| match &one.host {
            Some(owner) => *owner == host,
            None => Some(one.number) == index,
        };
        let claims: Vec<Key> =
            numbered(&store, &key)?.into_iter().filter(its).map(|one| one.claim).collect();
        if index.is_none() && claims.is_empty() {
            // A host that never was is a mistake.
            context.find_object(&store, Kind::BareMetalHost, &host)?;
            context.hint(&format!("host `{host}` has nothing of template `{}`", key.name));
            return Ok(());
        }
        let mut needs = vec![Need { kind: Kind::DataTemplate, key: key.clone() }];
        needs.extend(claims.iter().map(|key| Need { kind: Kind::IpClaim, key: key.clone() }));
        let edit = |state: &mut State, tick: &Tick| {
            for claim in &claims {
                edits::delete(state, Kind::IpClaim, claim, tick);
            }
            if let Some(at) = state.data_templates.find(&key) {
                state.data_templates.update(at, |one| one.forget(&host));
            }
            Ok(())
        };
        let ((), passed) = context.door(&store).change(&Scope::Pools(Vec::new()), &needs, edit)?;
        context.changed(Kind::DataTemplate, &key, &format!("given back by {host}"))?;
        Ok(context.finish(&passed)?)
    }
}

fn both(
    context: &Context,
    store: &Store,
    template: &str,
    host: &str,
) -> Result<(Metal3DataTemplate, BareMetalHost), Refusal> {
    let template = context.find::<Metal3DataTemplate>(store, template)?;
    let host = context.find::<BareMetalHost>(store, host)?;
    Ok((template, host))
}

fn pools_of(template: &Metal3DataTemplate, host: &BareMetalHost) -> Vec<String> {
    template.pools(host.annotations()).into_iter().map(str::to_owned).collect()
}

fn claims_of(template: &Key, index: u64, pools: &[String]) -> Vec<Key> {
    let name = |pool: &String| format!("{}-{index}-{pool}", template.name);
    pools.iter().map(|pool| Key::new(&*template.namespace, name(pool))).collect()
}

/// The number that a host has of a template from now on: its own, else the first that is nobody's.
fn number(
    state: &mut State,
    store: &Store,
    key: &Key,
    host: &str,
    pools: &[String],
    known: &[Numbered],
    tick: &Tick,
) -> Result<u64, Refusal> {
    let at = state.data_templates.find(key);
    let found = at.and_then(|at| Some((at, state.data_templates.get(at)?.clone())));
    let Some((at, template)) = found else {
        let what = format!("there is no datatemplate `{}` any more", key.name);
        return Err(Refusal::not_found(what));
    };
    if let Some(own) = template.index_of(host) {
        let Some(why) = taken(store, &claims_of(key, own, pools), pools, host)? else {
            state.data_templates.update(at, |one| one.give(host, own, tick.now));
            return Ok(own);
        };
        let what = format!("host `{host}` has number {own} of template `{}`", key.name);
        let next = format!("poolctl template release {} --host {host}", key.name);
        return Err(Refusal::conflict(what).because(why).next(next));
    }
    let own = known.iter().filter(|one| one.host.as_deref() == Some(host));
    let others = known.iter().filter(|one| one.host.as_deref().is_some_and(|other| other != host));
    let others: BTreeSet<u64> = others.map(|one| one.number).collect();
    let all = own.map(|one| one.number).chain(0..);
    for index in all.filter(|one| template.holder_of(*one).is_none() && !others.contains(one)) {
        if taken(store, &claims_of(key, index, pools), pools, host)?.is_none() {
            state.data_templates.update(at, |one| one.give(host, index, tick.now));
            return Ok(index);
        }
    }
    Err(Refusal::conflict(format!("template `{}` has no number left", key.name)))
}

/// Why claims of these names cannot be the host's.
fn taken(
    store: &Store,
    claims: &[Key],
    pools: &[String],
    host: &str,
) -> Result<Option<String>, Refusal> {
    for (key, pool) in claims.iter().zip(pools) {
        let Some(known) = store.lease_of(key)? else { continue };
        let name = &key.name;
        let other = known.claim_meta().and_then(host_of).filter(|other| *other != host);
        if let Some(other) = other {
            return Ok(Some(format!("claim `{name}` is of host `{other}`")));
        }
        if known.pool != *pool {
            return Ok(Some(format!("claim `{name}` is of IPPool `{}`", known.pool)));
        }
        if known.deleting.is_some() {
            return Ok(Some(format!("claim `{name}` is being deleted")));
        }
    }
    Ok(None)
}

/// The host that a claim belongs to.
fn host_of(claim: &Meta) -> Option<&str> {
    let mut owners = claim.owner_references.iter();
    let owner = owners.find(|one| one.kind == Kind::BareMetalHost.name())?;
    Some(&owner.name)
}

/// A claim that is called like one of a template: after a number and the claim's own pool.
struct Numbered {
    number: u64,
    claim: Key,
    host: Option<String>,
}

/// A template that has forgotten its hosts, as after a move without status, knows them by their
/// claims.
fn numbered(store: &Store, template: &Key) -> Result<Vec<Numbered>, Refusal> {
    let prefix = format!("{}-", template.name);
    let filter = Filter { namespace: Some(template.namespace.clone()), ..Filter::default() };
    let mut claims = Vec::new();
    for claim in store.list::<IpClaim>(&filter)? {
        let rest = claim.metadata.name.strip_prefix(&prefix);
        let Some((number, pool)) = rest.and_then(|rest| rest.split_once('-')) else { continue };
        let Some(number) = number.parse::<u64>().ok().filter(|_| pool == claim.spec.pool.name)
        else {
            continue;
        };
        let host = host_of(&claim.metadata).map(str::to_owned);
        claims.push(Numbered { number, claim: claim.metadata.key(), host });
    }
    Ok(claims)
}

fn claim_of(key: &Key, pool: &str, host: &str) -> Object {
    let owner = OwnerReference {
        api_version: Kind::BareMetalHost.api_version().into(),
        kind: Kind::BareMetalHost.name().into(),
        name: host.to_owned(),
        ..OwnerReference::default()
    };
    let metadata = Meta {
        name: key.name.clone(),
        namespace: key.namespace.clone(),
        owner_references: vec![owner],
        ..Meta::default()
    };
    let pool = Reference { name: pool.to_owned(), ..Reference::default() };
    let spec = IpClaimSpec { pool, owner: None };
    Object::IpClaim(Box::new(IpClaim { metadata, spec, ..IpClaim::default() }))
}

fn leased(
    state: &State,
    claims: &[Key],
    pools: &[String],
) -> Result<BTreeMap<String, Leased>, Refusal> {
    let mut found = BTreeMap::new();
    for (claim, pool) in claims.iter().zip(pools) {
        let Some(one) = state.ip_leases.by_key(claim) else { continue };
        let Some(address) = one.address else {
            let why = format!("IP Allocation for {pool} failed : {}", one.error);
            let next = format!("poolctl ippool map {pool}");
            return Err(Refusal::new(Exit::Exhausted, why).next(next));
        };
        let IpLease { network, .. } = one.clone();
        let leased = Leased {
            address: address.to_string(),
            prefix: network.prefix,
            gateway: network.gateway.unwrap_or_default(),
            dns: network.dns_servers,
        };
        found.insert(pool.clone(), leased);
    }
    Ok(found)
}
