//! `export`: writes the whole state as one List, for `import` and for people to read; or as files
//! for other programs. It runs no pass.

mod assisted;
mod folder;
mod hive;
mod metal3;

use std::collections::HashSet;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::model::cluster_api;
use crate::model::documents::{Secret, Settings};
use crate::model::ip_pool::{IpPool, Tenant};
use crate::model::job::{Job, Verb};
use crate::model::kinds::Kind;
use crate::model::object::{Object, document_with_kind};
use crate::model::refusal::Refusal;
use crate::model::time::Time;
use crate::output::{Format, ListText, PORTION};
use crate::render::hive_objects::PoolStart;
use crate::render::hive_version::HiveRelease;
use crate::store::{Filter, Store, copies};

use crate::commands::{Context, RunCommand, count_of};

/// Arguments of `export`. The List holds Secrets in clear text.
#[derive(Args)]
pub struct Export {
    /// File to write, readable only by its owner; by default stdout. With --for, a new folder
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Export the values of Secrets too; needs a file
    #[arg(long, requires = "file")]
    include_secrets: bool,
    /// Write files for another program into a new folder, with a script that applies them
    #[arg(long = "for", value_enum, value_name = "PROGRAM", requires = "file")]
    program: Option<Program>,
    /// With --for hive: manifests of a ClusterPool and of one of its ClusterDeployments, as the Hive
    /// that takes over has them. By default the Hive is of the newest release
    #[arg(long, value_name = "FILE", requires = "program")]
    like: Option<PathBuf>,
    /// Pause the pools of the files: nothing is made or destroyed before they are resumed
    #[arg(long, requires = "program")]
    paused: bool,
}

/// A program that takes over objects of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Program {
    /// Hive, on Kubernetes
    Hive,
    /// metal3, on Kubernetes: addresses and hosts
    Metal3,
    /// assisted-service, on Kubernetes: `InfraEnvs`, hosts and their clusters
    Assisted,
}

impl RunCommand for Export {
    const NAME: &'static str = "export";
    const ABOUT: &'static str = "Write the whole state as one List, for import";
    const DESCRIPTION: &'static str = "\
Without --for, the List has all objects, jobs and events, for `poolctl import` and for people to \
read. It has no values of Secrets unless --include-secrets is given.

With --for, FILE is a new folder. It gets the objects that another program takes over, a script \
that applies them in their order, and a README that says what moves and what does not. Nothing \
changes here: stop poolctl before you run the script.";
    const EXAMPLE: &'static str = "poolctl export > \"$HOME/state.yaml\"";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        let file = self.file.clone().filter(|path| path.as_os_str() != "-");
        if self.include_secrets && file.is_none() {
            return Err(Refusal::usage("secrets are written to a file only")
                .next("poolctl export state.yaml --include-secrets")
                .into());
        }
        if self.program.is_some() && file.is_none() {
            return Err(Refusal::usage("files for another program are written into a folder")
                .next("poolctl export FOLDER --for hive")
                .into());
        }
        if let Some(program) = self.program {
            self.check_options_of_program(program, context)?;
        }
        store.begin_read()?;
        let secrets = if self.include_secrets { Secrets::Include } else { Secrets::LeaveOut };
        if let (Some(program), Some(folder)) = (self.program, &file) {
            let pool_start = if self.paused { PoolStart::Paused } else { PoolStart::AtOnce };
            return match program {
                Program::Hive => {
                    let release = match &self.like {
                        Some(dump) => hive::recognise_release(context, dump)?,
                        None => HiveRelease::NEWEST,
                    };
                    let takeover = hive::Takeover { pool_start, release };
                    hive::export_for_hive(context, &store, folder, secrets, takeover)
                }
                Program::Assisted => assisted::export_for_assisted(context, &store, folder),
                Program::Metal3 => {
                    metal3::export_for_metal3(context, &store, folder, secrets, pool_start)
                }
            };
        }
        if secrets == Secrets::LeaveOut && store.has_credentials_of_hosts()? {
            context.warn(
                "tokens of InfraEnvs and secrets of hosts are left out, so existing images admit \
                 no hosts elsewhere; `poolctl export FILE --include-secrets` includes them",
            );
        }
        let export = StateExport { store: &store, now: context.world.now(), secrets };
        let Some(path) = file else {
            export.write_list(&context.globals.output, &mut |text| context.print_portion(text))?;
            store.rollback();
            return Ok(());
        };
        if copies::is_file_of_state(store.path(), &path) {
            let problem = format!("`{}` belongs to the state", path.display());
            return Err(Refusal::conflict(problem).next("poolctl export OTHER-FILE").into());
        }
        let mut object_count = 0;
        copies::write_private_file_in_parts(&path, |out| {
            object_count = export.write_list(&context.globals.output, &mut |text| {
                out.write_all(text.as_bytes()).map_err(|error| Refusal::unwritable(&path, &error))
            })?;
            Ok(())
        })?;
        store.rollback();
        let objects = count_of(object_count, "object");
        context.hint(&format!("{objects} exported to {}", path.display()));
        Ok(())
    }
}

impl Export {
    /// Refuses options that would have no effect on the files for a program.
    fn check_options_of_program(&self, program: Program, context: &Context) -> Result<(), Refusal> {
        if self.like.is_some() && program != Program::Hive {
            return Err(Refusal::usage("--like is about --for hive only"));
        }
        if context.globals.namespace.is_some() {
            return Err(Refusal::usage("--for exports all namespaces: leave out -n"));
        }
        Ok(())
    }
}

/// Whether the values of Secrets, and what admits hosts, are exported.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    Include,
    LeaveOut,
}

/// What a state is exported with.
struct StateExport<'a> {
    store: &'a Store,
    now: Time,
    secrets: Secrets,
}

impl StateExport<'_> {
    /// Writes a List of every object, job and event, in portions: a state may be larger than the
    /// memory. Returns how many objects there were.
    fn write_list(
        &self,
        format: &Format,
        write: &mut dyn FnMut(&str) -> Result<(), Refusal>,
    ) -> Result<usize, Refusal> {
        let mut list_text = ListText::new(format);
        let mut portion = String::new();
        let object_count = self.visit_documents(&mut |document| {
            portion += &list_text.add(document)?;
            if portion.len() >= PORTION {
                write(&portion)?;
                portion.clear();
            }
            Ok(())
        })?;
        portion += &list_text.finish()?;
        write(&portion)?;
        Ok(object_count)
    }

    /// Hands on every object, job and event, as another state would have them. Processes do not
    /// move: live jobs are shown as interrupted.
    fn visit_documents(
        &self,
        visit: &mut dyn FnMut(Value) -> Result<(), Refusal>,
    ) -> Result<usize, Refusal> {
        let installing = clusters_being_installed(&self.store.live_jobs()?);
        let mut object_count = 0;
        for kind in Kind::OBJECTS {
            if *kind == Kind::IpPool {
                // Which claim has which address is told by the IPAddresses. A whole pool would list
                // all of them once more, in one document.
                for pool in self.store.list_stored_objects(*kind, &Filter::default())? {
                    object_count += 1;
                    visit(self.document_of(&pool)?)?;
                }
                continue;
            }
            self.store.visit_objects(*kind, None, &mut |mut object| {
                mark_interrupted(&mut object, &installing);
                object_count += 1;
                visit(self.document_of(&object)?)
            })?;
        }
        self.store.visit_jobs(&mut |mut job| {
            job.interrupt(self.now);
            visit(document_with_kind(Kind::Job, &job.to_wire()))
        })?;
        self.store
            .visit_events(&mut |event| visit(document_with_kind(Kind::Event, &event.to_wire())))?;
        Ok(object_count)
    }

    /// The document of an object, with what documents do not have by themselves.
    fn document_of(&self, object: &Object) -> Result<Value, Refusal> {
        let mut document = object.to_wire();
        if matches!(object, Object::IpClaim(_) | Object::IpAddress(_)) {
            return Ok(cluster_api::restore_document(document));
        }
        if let Object::IpPool(pool) = object {
            add_lease_history(self.store, pool, &mut document)?;
        }
        if self.secrets == Secrets::Include {
            match object {
                Object::Secret(secret) => add_secret_values(self.store, secret, &mut document)?,
                // The hashes by which hosts are admitted.
                Object::InfraEnv(infra_env) => {
                    document["status"]["tokens"] = json!(infra_env.tokens);
                }
                Object::Agent(agent) => document["status"]["secret_hash"] = json!(agent.secret),
                Object::Settings(settings) => add_passwords_of_settings(settings, &mut document),
                _ => {}
            }
        }
        Ok(document)
    }
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

/// Adds the proxies of the site with their passwords, which are hidden in the document otherwise.
fn add_passwords_of_settings(settings: &Settings, document: &mut Value) {
    if let Some(proxy) = settings.spec.site.as_ref().and_then(|site| site.proxy.as_ref()) {
        document["spec"]["site"]["proxy"] = json!(proxy);
    }
}

/// Writes the values of a Secret into its document, in base64. Documents never have them by
/// themselves.
fn add_secret_values(store: &Store, secret: &Secret, document: &mut Value) -> Result<(), Refusal> {
    let mut data = Map::new();
    for key in secret.values.keys() {
        if let Some(value) = store.read_secret_value(&secret.metadata.key(), key)? {
            data.insert(key.clone(), STANDARD.encode(value.reveal()).into());
        }
    }
    document["data"] = data.into();
    Ok(())
}
