//! `export`: the whole state as one List, for `import` and for reading.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::model::agent::Agent;
use crate::model::documents::Secret;
use crate::model::infra_env::InfraEnv;
use crate::model::ip_pool::{IpPool, Tenant};
use crate::model::job::{Job, Verb as JobVerb};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::{Object, wired};
use crate::model::refusal::Refusal;
use crate::model::time::Time;
use crate::output;
use crate::store::{Filter, Store, copies};

use crate::commands::{Context, Verb};

#[derive(Args)]
pub struct Export {
    /// File to write, for its owner alone; stdout without one
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// With the values of secrets; needs a file
    #[arg(long, requires = "file")]
    include_secrets: bool,
}

impl Verb for Export {
    const NAME: &'static str = "export";
    const ABOUT: &'static str = "Write the whole state as one List, for import";
    const EXAMPLE: &'static str = "poolctl export > \"$HOME/state.yaml\"";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.look()?;
        store.begin_read()?;
        let mut items = documents(&store, context.world.now())?;
        if self.include_secrets {
            with_values(&store, &mut items)?;
        } else if admits(&store)? {
            context.warn(
                "tokens of InfraEnvs and secrets of hosts are left out: images that were made \
                 admit nobody elsewhere; poolctl export FILE --include-secrets has them",
            );
        }
        store.rollback();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let text = output::document_text(&context.globals.output, &list)?;
        match self.file {
            Some(path) if path.as_os_str() != "-" => {
                if copies::is_ours(store.path(), &path) {
                    let what = format!("`{}` belongs to the state", path.display());
                    return Err(Refusal::conflict(what).next("poolctl export OTHER-FILE").into());
                }
                copies::place(&path, text.as_bytes(), true)?;
                let record = |one: &&Value| one["kind"] != "Job" && one["kind"] != "Event";
                let many = items.iter().filter(record).count();
                let what = format!("{many} objects exported to {}", path.display());
                context.hint(&what);
                Ok(())
            }
            _ if self.include_secrets => Err(Refusal::usage("secrets are written to a file only")
                .next("poolctl export state.yaml --include-secrets")
                .into()),
            _ => context.print(&text),
        }
    }
}

/// Every object, job and event, as it is to be found elsewhere: what a job was doing is
/// interrupted by the move.
pub fn documents(store: &Store, now: Time) -> Result<Vec<Value>, Refusal> {
    let mut jobs = store.all_jobs()?;
    let mut found = Vec::new();
    for kind in Kind::OBJECTS {
        for mut object in store.objects(*kind, &Filter { whole: true, ..Filter::default() })? {
            break_off(&mut object, &jobs);
            let mut wire = object.to_wire();
            if let Object::IpPool(pool) = &object {
                with_past(store, pool, &mut wire)?;
            }
            found.push(wire);
        }
    }
    for job in &mut jobs {
        job.interrupt(now);
        found.push(wired(Kind::Job, &job.to_wire()));
    }
    let events = store.events(None, usize::MAX)?;
    found.extend(events.iter().rev().map(|one| wired(Kind::Event, &one.to_wire())));
    Ok(found)
}

/// A cluster whose installation a live job was doing.
pub fn break_off(object: &mut Object, jobs: &[Job]) {
    let Object::ClusterDeployment(cluster) = object else { return };
    let installs = |job: &Job| {
        job.ended.is_none() && job.verb == JobVerb::Provision && job.object == cluster.name
    };
    if jobs.iter().any(installs) {
        cluster.interrupted = true;
    }
}

/// Who had the addresses of a pool: they rest from then on, and are leased again in that order.
fn with_past(store: &Store, pool: &IpPool, wire: &mut Value) -> Result<(), Refusal> {
    let document = |one: Tenant| {
        json!({"address": one.address, "pool": one.pool, "claim": one.claim,
               "since": one.since.exact(), "until": one.until.map(Time::exact)})
    };
    let past: Vec<Value> = store.past(pool)?.into_iter().map(document).collect();
    if !past.is_empty() {
        wire["status"]["history"] = past.into();
    }
    Ok(())
}

/// Whether an image admits hosts, or a host has a secret.
fn admits(store: &Store) -> Result<bool, Refusal> {
    let infra_envs = store.all::<InfraEnv>()?;
    Ok(infra_envs.iter().any(|infra_env| !infra_env.tokens.is_empty())
        || store.all::<Agent>()?.iter().any(|agent| agent.secret.is_some()))
}

/// What hosts prove themselves with goes along as it is kept: as hashes.
fn with_tokens(store: &Store, items: &mut [Value]) -> Result<(), Refusal> {
    for infra_env in store.all::<InfraEnv>()? {
        if let Some(item) = find_item(items, Kind::InfraEnv, &infra_env.key()) {
            item["status"]["tokens"] = json!(infra_env.tokens);
        }
    }
    for agent in store.all::<Agent>()? {
        if let Some(item) = find_item(items, Kind::Agent, &agent.key()) {
            item["status"]["secret_hash"] = json!(agent.secret);
        }
    }
    Ok(())
}

fn find_item<'a>(items: &'a mut [Value], kind: Kind, key: &Key) -> Option<&'a mut Value> {
    items.iter_mut().find(|item| {
        item["kind"] == kind.name()
            && item["metadata"]["name"] == key.name.as_str()
            && item["metadata"]["namespace"] == key.namespace.as_str()
    })
}

fn with_values(store: &Store, items: &mut [Value]) -> Result<(), Refusal> {
    with_tokens(store, items)?;
    // Both are in the order of the state.
    let items = items.iter_mut().filter(|item| item["kind"] == "Secret");
    for (item, secret) in items.zip(store.all::<Secret>()?) {
        let mut data = Map::new();
        for key in secret.values.keys() {
            if let Some(value) = store.secret_value(&secret.metadata.key(), key)? {
                data.insert(key.clone(), STANDARD.encode(value.reveal()).into());
            }
        }
        item["data"] = data.into();
    }
    Ok(())
}
