//! `driver list|check`: who makes clusters here, and whether their programs are where cron looks.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::fs::Access;
use serde_json::json;

use crate::drivers::programs;
use crate::model::agent::INFRA_ENV;
use crate::model::documents::SettingsSpec;
use crate::model::driver::{DRIVER, Driver, EXEC, POWER};
use crate::model::host::BareMetalHost;
use crate::model::host::wipe::{WIPE, wiper};
use crate::model::infra_env::InfraEnv;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::{Exit, Refusal};
use crate::output::{Answer, Name, Row};

use crate::commands::{Context, Quit, Verb};

#[derive(Args)]
pub struct List {}

impl Verb for List {
    const NAME: &'static str = "list";
    const ABOUT: &'static str = "List drivers, and the pools and hosts that use them";
    const EXAMPLE: &'static str = "poolctl driver list";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let used = used(context)?;
        let mut names: Vec<&str> = Driver::ALL.iter().map(|one| one.name()).collect();
        names.extend(used.keys().map(|name| &**name).filter(|name| name.starts_with(EXEC)));
        let mut all: Vec<(&str, Users)> = names
            .into_iter()
            .map(|name| (name, used.get(name).cloned().unwrap_or_default()))
            .collect();
        all.retain(|(name, of)| *name != "exec" && (*name != "none" || *of != Users::default()));
        let entry = |(name, users): &(&str, Users)| {
            let Users { pools, hosts } = users;
            let row = || {
                let count = if hosts.is_empty() { String::new() } else { hosts.len().to_string() };
                vec![("name", (*name).to_owned()), ("pools", pools.join(", ")), ("hosts", count)]
            };
            let document = || json!({"name": name, "pools": pools, "hosts": hosts});
            context.entry(Some(Name::plain(*name)), row, document)
        };
        context.answer(Answer::list(all.iter().map(entry).collect()))
    }
}

/// Who uses a driver.
#[derive(Clone, Debug, Default, PartialEq)]
struct Users {
    pools: Vec<String>,
    hosts: Vec<String>,
}

/// The drivers of all pools and hosts; those that power clusters or wipe hosts too.
fn used(context: &Context) -> anyhow::Result<BTreeMap<String, Users>> {
    let mut users: BTreeMap<String, Users> = BTreeMap::new();
    let store = match context.look() {
        Err(refusal) if refusal.exit == Exit::NotFound => return Ok(users),
        store => store?,
    };
    for pool in store.all::<ClusterPool>()? {
        let annotations = &pool.spec.annotations;
        let driver = match pool.driver() {
            Driver::Exec => annotations.get(DRIVER).cloned().unwrap_or_default(),
            other => other.name().to_owned(),
        };
        let power = annotations.get(POWER).filter(|name| name.starts_with(EXEC));
        for name in power.cloned().into_iter().chain([driver]) {
            users.entry(name).or_default().pools.push(pool.key().to_string());
        }
    }
    let infra_envs = store.all::<InfraEnv>()?.into_iter();
    let infra_envs: BTreeMap<Key, InfraEnv> =
        infra_envs.map(|infra_env| (infra_env.key(), infra_env)).collect();
    for name in infra_envs.values().filter_map(|infra_env| infra_env.metadata.annotation(WIPE)) {
        if name.starts_with(EXEC) {
            users.entry(name.to_owned()).or_default();
        }
    }
    for host in store.all::<BareMetalHost>()? {
        if let Some(address) = host.address() {
            let name = address.driver().name().to_owned();
            users.entry(name).or_default().hosts.push(host.key().to_string());
        }
        let infra_env = host.metadata.labels.get(INFRA_ENV);
        let infra_env = infra_env.map(|name| Key::new(&*host.metadata.namespace, &**name));
        if let Some(name) = wiper(&host, infra_env.and_then(|key| infra_envs.get(&key))) {
            users.entry(name.to_owned()).or_default().hosts.push(host.key().to_string());
        }
    }
    Ok(users)
}

#[derive(Args)]
pub struct Check {
    /// Only these, like openshift-install, agent or exec:NAME
    #[arg(value_name = "DRIVER")]
    names: Vec<String>,
}

impl Verb for Check {
    const NAME: &'static str = "check";
    const ABOUT: &'static str =
        "Check that the programs of drivers, wiping ones too, are there, as cron will see them";
    const EXAMPLE: &'static str = "poolctl driver check";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let settings = match context.look() {
            Err(refusal) if refusal.exit == Exit::NotFound => SettingsSpec::default(),
            store => context.door(&store?).settings()?,
        };
        let mut names = self.names;
        if names.is_empty() {
            names = used(context)?.into_keys().collect();
            names.retain(|name| !EMBEDDED.contains(&&**name));
        }
        if names.is_empty() {
            context.hint(
                "no pool or host uses a driver with programs; next: poolctl driver check openshift-install",
            );
            return Ok(());
        }
        let mut rows = Vec::new();
        for name in &names {
            rows.extend(look(&settings, name)?);
        }
        let bad = rows.iter().any(|row| row.state == ProgramState::Missing);
        let entry = |program: &Program| {
            let name = Name::plain(program.name.as_str());
            context.entry(Some(name), || program.row(), || program.document())
        };
        context.answer(Answer::list(rows.iter().map(entry).collect()))?;
        if bad { Err(Quit(Exit::Failed as u8).into()) } else { Ok(()) }
    }
}

/// Drivers without programs.
const EMBEDDED: [&str; 3] = ["fake", "none", "redfish"];
/// Programs that say their version, and how they are asked.
const PROGRAMS: [(&str, &[&str]); 4] = [
    ("openshift-install", &["version"]),
    ("oc", &["version", "--client"]),
    ("kubectl", &["version", "--client"]),
    ("ipmitool", &["-V"]),
];

/// A program that a driver needs or uses.
struct Program {
    driver: String,
    name: String,
    state: ProgramState,
    version: String,
    /// Where it is, or why it is not.
    path: String,
    owner: String,
    mode: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgramState {
    Found,
    /// Without it the driver does nothing.
    Missing,
    /// Without it the driver does less.
    Absent,
}

impl ProgramState {
    fn name(self) -> &'static str {
        match self {
            Self::Found => "ok",
            Self::Missing => "missing",
            Self::Absent => "absent",
        }
    }
}

impl Program {
    fn row(&self) -> Row {
        vec![
            ("driver", self.driver.clone()),
            ("program", self.name.clone()),
            ("state", self.state.name().to_owned()),
            ("version", self.version.clone()),
            ("path", self.path.clone()),
            ("owner", self.owner.clone()),
            ("mode", self.mode.clone()),
        ]
    }

    fn document(&self) -> serde_json::Value {
        json!({"driver": self.driver, "program": self.name, "state": self.state.name(),
               "version": self.version, "path": self.path, "owner": self.owner, "mode": self.mode})
    }
}

/// The programs of a driver; those without which it does less are `absent`, not `missing`.
fn look(settings: &SettingsSpec, driver: &str) -> Result<Vec<Program>, Refusal> {
    let row = |program: &str, needed: bool, found: Result<PathBuf, String>| {
        let (state, path) = match &found {
            Ok(path) => (ProgramState::Found, path.display().to_string()),
            Err(why) if needed => (ProgramState::Missing, why.clone()),
            Err(why) => (ProgramState::Absent, why.clone()),
        };
        let words = PROGRAMS.into_iter().find(|(name, _)| *name == program).map(|(_, words)| words);
        let version = found.as_ref().ok().zip(words);
        let version = version.and_then(|(path, words)| programs::version(path, words));
        let version = version.unwrap_or_default();
        let (owner, mode) = found.map(|path| owner_and_mode(&path)).unwrap_or_default();
        let (driver, program) = (driver.to_owned(), program.to_owned());
        Program { driver, name: program, state, version, path, owner, mode }
    };
    if let Some(name) = driver.strip_prefix(EXEC) {
        let program = format!("poolctl-driver-{name}");
        return Ok(vec![row(&program, true, programs::find_driver(settings, name))]);
    }
    if driver == Driver::Ipmi.name() {
        return Ok(vec![row("ipmitool", true, programs::find(settings, "ipmitool"))]);
    }
    if ![Driver::Installer, Driver::Agent].iter().any(|one| one.name() == driver) {
        return Err(Refusal::usage(format!("there is no driver `{driver}` with programs"))
            .next("poolctl driver list"));
    }
    let installer = programs::find(settings, "openshift-install");
    let extracts = programs::find(settings, "oc").is_ok();
    let mut rows = vec![
        row("openshift-install", !extracts, installer),
        row("oc", false, programs::find(settings, "oc")),
        row("kubectl", false, programs::find(settings, "kubectl")),
    ];
    if driver == Driver::Agent.name() {
        let set = settings.iso_directory.is_some();
        rows.push(row("isoDirectory", set, shelf(settings)));
        let url = settings.iso_url.as_ref().map(Into::into);
        let unset = || "not set: controllers cannot fetch images".to_owned();
        rows.push(row("isoURL", set, url.ok_or_else(unset)));
    }
    Ok(rows)
}

/// Where images are put, if they can be: what is missing of the folder is made.
fn shelf(settings: &SettingsSpec) -> Result<PathBuf, String> {
    let Some(folder) = &settings.iso_directory else {
        return Err("not set: only hosts that people boot can be installed".into());
    };
    let there = folder.ancestors().find(|path| path.exists()).unwrap_or(folder);
    let shown = there.display();
    if !there.is_dir() {
        return Err(format!("`{shown}` is not a folder"));
    }
    match rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(folder.clone()),
        Err(error) => Err(format!("`{shown}` cannot be written: {error}")),
    }
}

fn owner_and_mode(path: &Path) -> (String, String) {
    let found = std::fs::metadata(path);
    found.map_or_else(
        |_| (String::new(), String::new()),
        |found| (crate::world::name_of(found.uid()), format!("{:o}", found.mode() & 0o7777)),
    )
}
