//! `export`: writes the whole state as one List, for `import` and for people to read. It runs no
//! pass.

use std::collections::HashSet;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::model::agent::Agent;
use crate::model::documents::Secret;
use crate::model::infra_env::InfraEnv;
use crate::model::ip_pool::{IpPool, Tenant};
use crate::model::job::{Job, Verb};
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::object::{Object, document_with_kind};
use crate::model::refusal::Refusal;
use crate::model::time::Time;
use crate::output;
use crate::store::copies::{self, ExistingFile};
use crate::store::{Filter, Store};

use crate::commands::{Context, RunCommand, count_of};

#[derive(Args)]
pub struct Export {
    /// File to write, readable only by its owner; by default stdout
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Export the values of Secrets too; needs a file
    #[arg(long, requires = "file")]
    include_secrets: bool,
}

impl RunCommand for Export {
    const NAME: &'static str = "export";
    const ABOUT: &'static str = "Write the whole state as one List, for import";
    const EXAMPLE: &'static str = "poolctl export > \"$HOME/state.yaml\"";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        store.begin_read()?;
        let mut items = export_documents(&store, context.world.now())?;
        if self.include_secrets {
            add_secret_values(&store, &mut items)?;
            add_credentials_of_hosts(&store, &mut items)?;
        } else if has_credentials_of_hosts(&store)? {
            context.warn(
                "tokens of InfraEnvs and secrets of hosts are left out, so existing images admit \
                 no hosts elsewhere; `poolctl export FILE --include-secrets` includes them",
            );
        }
        store.rollback();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let list_text = output::document_text(&context.globals.output, &list)?;
        match self.file {
            Some(path) if path.as_os_str() != "-" => {
                if copies::is_file_of_state(store.path(), &path) {
                    let problem = format!("`{}` belongs to the state", path.display());
                    return Err(Refusal::conflict(problem)
                        .next("poolctl export OTHER-FILE")
                        .into());
                }
                copies::write_private_file(&path, list_text.as_bytes(), ExistingFile::Replace)?;
                let kinds = items.iter().map(|item| &item["kind"]);
                let count = kinds.filter(|kind| **kind != "Job" && **kind != "Event").count();
                context.hint(&format!(
                    "{} exported to {}",
                    count_of(count, "object"),
                    path.display()
                ));
                Ok(())
            }
            _ if self.include_secrets => Err(Refusal::usage("secrets are written to a file only")
                .next("poolctl export state.yaml --include-secrets")
                .into()),
            _ => context.print(&list_text),
        }
    }
}

/// Every object, job and event, as another state would have them. Processes do not move: live jobs
/// are shown as interrupted.
pub fn export_documents(store: &Store, now: Time) -> Result<Vec<Value>, Refusal> {
    let mut jobs = store.all_jobs()?;
    let mut documents = Vec::new();
    let installing = clusters_being_installed(&jobs);
    for kind in Kind::OBJECTS {
        let filter = Filter { whole: true, ..Filter::default() };
        for mut object in store.list_stored_objects(*kind, &filter)? {
            mark_interrupted(&mut object, &installing);
            let mut document = object.to_wire();
            if let Object::IpPool(pool) = &object {
                add_lease_history(store, pool, &mut document)?;
            }
            documents.push(document);
        }
    }
    for job in &mut jobs {
        job.interrupt(now);
        documents.push(document_with_kind(Kind::Job, &job.to_wire()));
    }
    let events = store.list_events(None, usize::MAX)?;
    documents
        .extend(events.iter().rev().map(|event| document_with_kind(Kind::Event, &event.to_wire())));
    Ok(documents)
}

/// The names of the clusters that live jobs are installing.
pub fn clusters_being_installed(jobs: &[Job]) -> HashSet<String> {
    let installing = jobs.iter().filter(|job| job.ended.is_none() && job.verb == Verb::Provision);
    installing.map(|job| job.object.clone()).collect()
}

/// Marks a cluster as interrupted if it is one of those that are being installed.
pub fn mark_interrupted(object: &mut Object, installing: &HashSet<String>) {
    if let Object::ClusterDeployment(cluster) = object {
        cluster.interrupted |= installing.contains(&cluster.name);
    }
}

/// Adds to a pool of addresses who had them in which order: by that they are leased again.
fn add_lease_history(store: &Store, pool: &IpPool, document: &mut Value) -> Result<(), Refusal> {
    let mut history = Vec::new();
    for Tenant { address, pool, claim, since, until, .. } in store.list_past_tenants(pool)? {
        history.push(json!({"address": address, "pool": pool, "claim": claim,
            "since": since.to_exact_text(), "until": until.map(Time::to_exact_text)}));
    }
    if !history.is_empty() {
        document["status"]["history"] = history.into();
    }
    Ok(())
}

/// Whether an image admits hosts, or a host has a secret.
fn has_credentials_of_hosts(store: &Store) -> Result<bool, Refusal> {
    let infra_envs = store.list_all::<InfraEnv>()?;
    Ok(infra_envs.iter().any(|infra_env| !infra_env.tokens.is_empty())
        || store.list_all::<Agent>()?.iter().any(|agent| agent.secret.is_some()))
}

/// Adds the hashes by which hosts are admitted.
fn add_credentials_of_hosts(store: &Store, items: &mut [Value]) -> Result<(), Refusal> {
    for infra_env in store.list_all::<InfraEnv>()? {
        if let Some(item) = find_item(items, Kind::InfraEnv, &infra_env.key()) {
            item["status"]["tokens"] = json!(infra_env.tokens);
        }
    }
    for agent in store.list_all::<Agent>()? {
        if let Some(item) = find_item(items, Kind::Agent, &agent.key()) {
            item["status"]["secret_hash"] = json!(agent.secret);
        }
    }
    Ok(())
}

/// The document of an object among those of the export, found by kind and key.
fn find_item<'a>(items: &'a mut [Value], kind: Kind, key: &Key) -> Option<&'a mut Value> {
    items.iter_mut().find(|item| {
        item["kind"] == kind.name()
            && item["metadata"]["name"] == key.name.as_str()
            && item["metadata"]["namespace"] == key.namespace.as_str()
    })
}

/// Writes the values of all Secrets into their documents, in base64. Documents never have them by
/// themselves.
fn add_secret_values(store: &Store, items: &mut [Value]) -> Result<(), Refusal> {
    // Both are in the order of the state.
    let secret_items = items.iter_mut().filter(|item| item["kind"] == "Secret");
    for (item, secret) in secret_items.zip(store.list_all::<Secret>()?) {
        let mut data = Map::new();
        for key in secret.values.keys() {
            if let Some(value) = store.read_secret_value(&secret.metadata.key(), key)? {
                data.insert(key.clone(), STANDARD.encode(value.reveal()).into());
            }
        }
        item["data"] = data.into();
    }
    Ok(())
}
