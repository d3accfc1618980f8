//! `driver list|check`: lists the drivers and what uses them, and checks that the programs of
//! drivers are where cron finds them. It starts them only to ask for their version and for what
//! they say of themselves, and with `--pool` to try out what an installation needs.

pub mod pool_check;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use clap::Args;
use rustix::fs::Access;
use serde_json::json;

use crate::drivers::programs;
use crate::model::agent::INFRA_ENV_LABEL;
use crate::model::annotations::{DRIVER, POWER, WIPE};
use crate::model::documents::SettingsSpec;
use crate::model::driver::{Driver, PROGRAM_PREFIX, ProgramNeed, driver_programs};
use crate::model::driver_description::DriverDescription;
use crate::model::host::BareMetalHost;
use crate::model::host::wipe::wipe_program;
use crate::model::infra_env::InfraEnv;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::refusal::{Exit, Refusal};
use crate::model::state::Scope;
use crate::output::{Answer, Entry, Name, Row};

use crate::commands::{Context, Quit, RunCommand};

/// `driver list` needs no arguments.
#[derive(Args)]
pub struct List {}

impl RunCommand for List {
    const NAME: &'static str = "list";
    const ABOUT: &'static str = "List drivers, and the pools and hosts that use them";
    const EXAMPLE: &'static str = "poolctl driver list";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let users_by_driver = find_users(context)?;
        let mut names: Vec<&str> = Driver::ALL.iter().map(|driver| driver.name()).collect();
        // Each `exec:NAME` that is used stands for `exec`.
        names.retain(|name| *name != Driver::Exec.name());
        names.extend(
            users_by_driver
                .keys()
                .map(|name| &**name)
                .filter(|name| name.starts_with(PROGRAM_PREFIX)),
        );
        let mut entries = Vec::new();
        for name in names {
            let users = users_by_driver.get(name).cloned().unwrap_or_default();
            if name != Driver::Missing.name() || users != Users::default() {
                entries.push(users.entry(context, name));
            }
        }
        context.answer(Answer::list(entries))
    }
}

/// The pools and hosts that use a driver.
#[derive(Clone, Debug, Default, PartialEq)]
struct Users {
    pools: Vec<String>,
    hosts: Vec<String>,
}

impl Users {
    /// A line of `driver list`; programs get the names of the hosts, too, of which there may be
    /// many.
    fn entry(&self, context: &Context, driver: &str) -> Entry {
        let Self { pools, hosts } = self;
        context.entry(
            Some(Name::plain(driver)),
            || {
                let count = if hosts.is_empty() { String::new() } else { hosts.len().to_string() };
                vec![("name", driver.to_owned()), ("pools", pools.join(", ")), ("hosts", count)]
            },
            || json!({"name": driver, "pools": pools, "hosts": hosts}),
        )
    }
}

/// The users of each driver by its name, also of drivers that power clusters or wipe hosts.
fn find_users(context: &Context) -> anyhow::Result<BTreeMap<String, Users>> {
    let mut users_by_driver: BTreeMap<String, Users> = BTreeMap::new();
    let store = match context.open_existing_state() {
        Err(refusal) if refusal.exit == Exit::NotFound => return Ok(users_by_driver),
        store => store?,
    };
    for pool in store.list_all::<ClusterPool>()? {
        if let Some(name) = pool.metadata.annotation(WIPE)
            && name.starts_with(PROGRAM_PREFIX)
        {
            users_by_driver.entry(name.to_owned()).or_default().pools.push(pool.key().to_string());
        }
        let annotations = &pool.spec.annotations;
        let driver = match pool.driver() {
            Driver::Exec => annotations.get(DRIVER).cloned().unwrap_or_default(),
            builtin => builtin.name().to_owned(),
        };
        let power_driver = annotations.get(POWER).filter(|name| name.starts_with(PROGRAM_PREFIX));
        for name in power_driver.cloned().into_iter().chain([driver]) {
            users_by_driver.entry(name).or_default().pools.push(pool.key().to_string());
        }
    }
    let mut infra_envs = BTreeMap::new();
    for infra_env in store.list_all::<InfraEnv>()? {
        // A driver that wipes is used as soon as an InfraEnv names it: its hosts may come later.
        if let Some(name) = infra_env.metadata.annotation(WIPE)
            && name.starts_with(PROGRAM_PREFIX)
        {
            users_by_driver.entry(name.to_owned()).or_default();
        }
        infra_envs.insert(infra_env.key(), infra_env);
    }
    for host in store.list_all::<BareMetalHost>()? {
        if let Some(address) = host.bmc_address() {
            let name = address.driver().name().to_owned();
            users_by_driver.entry(name).or_default().hosts.push(host.key().to_string());
        }
        let label = host.metadata.labels.get(INFRA_ENV_LABEL);
        let infra_env_key = label.map(|name| Key::new(&*host.metadata.namespace, &**name));
        let infra_env = infra_env_key.and_then(|key| infra_envs.get(&key));
        if let Some(name) = wipe_program(&host, infra_env) {
            let users = users_by_driver.entry(name.to_owned()).or_default();
            users.hosts.push(host.key().to_string());
        }
    }
    Ok(users_by_driver)
}

/// Arguments of `driver check`. It looks for programs where cron will look, and with `--pool` it
/// also talks to the platform.
#[derive(Args)]
pub struct Check {
    /// Drivers to check, such as openshift-install, agent or exec:NAME; by default all in use
    #[arg(value_name = "DRIVER")]
    names: Vec<String>,
    /// Try out what the next installation of this pool needs, without making anything
    #[arg(long, value_name = "POOL", conflicts_with = "names")]
    pool: Option<String>,
}

impl RunCommand for Check {
    const NAME: &'static str = "check";
    const ABOUT: &'static str =
        "Check that cron will find the programs of drivers and of host wipes";
    const EXAMPLE: &'static str = "poolctl driver check\npoolctl driver check --pool lab";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        if let Some(pool) = &self.pool {
            return pool_check::check_pool(context, &context.open_existing_state()?, pool);
        }
        let settings = match context.open_existing_state() {
            Err(refusal) if refusal.exit == Exit::NotFound => SettingsSpec::default(),
            store => context.door(&store?).read_settings()?,
        };
        let mut names = self.names;
        if names.is_empty() {
            names = find_users(context)?.into_keys().collect();
            names.retain(|name| has_programs(name));
        }
        if names.is_empty() {
            context.hint(
                "no pool or host uses a driver with programs; next: poolctl driver check \
                 openshift-install",
            );
            return Ok(());
        }
        let mut programs = Vec::new();
        for name in &names {
            programs.extend(find_programs(&settings, name)?);
        }
        describe_programs(context, &settings, &mut programs)?;
        let mut entries = Vec::new();
        for program in &programs {
            let name = Name::plain(program.name.as_str());
            entries.push(context.entry(Some(name), || program.row(), || program.document()));
        }
        context.answer(Answer::list(entries))?;
        if let Some(program) = programs.iter().find(|program| program.is_of_no_use()) {
            context.hint(&program.next_step());
            return Err(Quit(Exit::Failed as u8).into());
        }
        Ok(())
    }
}

/// Whether a driver starts programs; `exec:NAME` is one itself.
fn has_programs(driver: &str) -> bool {
    Driver::named(driver).is_none_or(|builtin| !builtin.traits().programs.is_empty())
}

/// Asks the programs that are drivers of pools what they say of themselves, and lets the passes of
/// those pools know. Programs that only switch or wipe hosts have no contract to describe.
fn describe_programs(
    context: &Context,
    settings: &SettingsSpec,
    programs: &mut [Program],
) -> anyhow::Result<()> {
    if !programs.iter().any(|program| program.driver.starts_with(PROGRAM_PREFIX)) {
        return Ok(());
    }
    let store = match context.open_existing_state() {
        Err(refusal) if refusal.exit == Exit::NotFound => return Ok(()),
        store => store?,
    };
    let pools = store.list_all::<ClusterPool>()?;
    let mut described_pools = Vec::new();
    for program in programs {
        let Some(name) = program.driver.strip_prefix(PROGRAM_PREFIX) else { continue };
        let mut users: Vec<Key> = Vec::new();
        for pool in &pools {
            if pool.driver_program() == Some(name) {
                users.push(pool.key());
            }
        }
        if let Ok(path) = programs::find_driver_program(settings, name)
            && !users.is_empty()
        {
            program.describe(context.door(&store).ask_driver_description(&path));
            described_pools.extend(users);
        }
    }
    if described_pools.is_empty() {
        return Ok(());
    }
    let scope = Scope::Pools(described_pools);
    let ((), passed) = context.door(&store).change(&scope, &[], |_, _| Ok(()))?;
    Ok(context.report_pass(&passed)?)
}

/// A program that a driver needs or uses.
struct Program {
    driver: String,
    name: String,
    state: ProgramState,
    version: String,
    /// Where it is, or why it cannot be used.
    path: String,
    owner: String,
    mode: String,
    /// What it says of itself; none if it is not asked.
    description: Option<DriverDescription>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgramState {
    Found,
    /// Without it the driver does nothing.
    Missing,
    /// Without it the driver does less.
    Absent,
    /// It is there, but poolctl does not know its contract.
    Unusable,
}

impl ProgramState {
    fn name(self) -> &'static str {
        match self {
            Self::Found => "ok",
            Self::Missing => "missing",
            Self::Absent => "absent",
            Self::Unusable => "unusable",
        }
    }
}

impl Program {
    /// `search_result` is its path, or why it cannot be used; then it has `state_without_it`.
    fn new(
        driver: &str,
        name: &str,
        search_result: Result<PathBuf, String>,
        state_without_it: ProgramState,
    ) -> Self {
        let mut program = Self {
            driver: driver.to_owned(),
            name: name.to_owned(),
            state: ProgramState::Found,
            version: String::new(),
            path: String::new(),
            owner: String::new(),
            mode: String::new(),
            description: None,
        };
        match search_result {
            Ok(path) => {
                // Nobody knows how programs of somebody else are asked for their version.
                let declared = driver_programs().into_iter().find(|declared| declared.name == name);
                let version = declared
                    .and_then(|declared| programs::read_version(&path, declared.version_arguments));
                program.version = version.unwrap_or_default();
                if let Ok(metadata) = std::fs::metadata(&path) {
                    program.owner = crate::world::user_name(metadata.uid());
                    program.mode = format!("{:o}", metadata.mode() & 0o7777);
                }
                program.path = path.display().to_string();
            }
            Err(why) => {
                program.state = state_without_it;
                program.path = why;
            }
        }
        program
    }

    /// Whether its driver does nothing as it is.
    fn is_of_no_use(&self) -> bool {
        matches!(self.state, ProgramState::Missing | ProgramState::Unusable)
    }

    /// What helps if its driver does nothing as it is.
    fn next_step(&self) -> String {
        let name = &self.name;
        if self.state == ProgramState::Unusable {
            return format!("next: install a {name} that this poolctl knows the contract of");
        }
        if self.driver.starts_with(PROGRAM_PREFIX) {
            return format!("next: put {name} into driverDirectory of the Settings");
        }
        format!("next: install {name}, or name it in programs of the Settings")
    }

    /// Takes in what it says of itself, or why that cannot be read.
    fn describe(&mut self, described: Result<DriverDescription, String>) {
        // Whether parameters fit is a matter of each pool.
        let no_annotations = BTreeMap::new();
        let problem = match described {
            Ok(description) => {
                self.version = format!("contract {}", description.contract);
                let mismatch = description.find_mismatch(&no_annotations);
                self.description = Some(description);
                mismatch
            }
            Err(why) => Some(why),
        };
        if let Some(problem) = problem {
            self.state = ProgramState::Unusable;
            self.path = problem;
        }
    }

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
        let mut document = json!({
            "driver": self.driver, "program": self.name, "state": self.state.name(),
            "version": self.version, "path": self.path, "owner": self.owner, "mode": self.mode,
        });
        if let Some(description) = &self.description {
            document["description"] = json!(description);
        }
        document
    }
}

/// The programs that a driver needs or uses, and what else it needs of the system.
fn find_programs(settings: &SettingsSpec, driver: &str) -> Result<Vec<Program>, Refusal> {
    if let Some(name) = driver.strip_prefix(PROGRAM_PREFIX) {
        let program = format!("poolctl-driver-{name}");
        let search_result = programs::find_driver_program(settings, name);
        return Ok(vec![Program::new(driver, &program, search_result, ProgramState::Missing)]);
    }
    let builtin = Driver::named(driver).map(Driver::traits);
    let Some(traits) = builtin.filter(|traits| !traits.programs.is_empty()) else {
        return Err(Refusal::usage(format!("`{driver}` is not a driver with programs"))
            .next("poolctl driver list"));
    };
    let mut found_programs = Vec::new();
    for program in traits.programs {
        let state_without_it = match program.need {
            ProgramNeed::Required => ProgramState::Missing,
            ProgramNeed::RequiredWithout(replacement)
                if programs::find_program(settings, replacement).is_err() =>
            {
                ProgramState::Missing
            }
            ProgramNeed::Optional | ProgramNeed::RequiredWithout(_) => ProgramState::Absent,
        };
        let search_result = programs::find_program(settings, program.name);
        found_programs.push(Program::new(driver, program.name, search_result, state_without_it));
    }
    if traits.boots_images {
        // Without a folder for images, people boot the hosts: that is less, not nothing.
        let state_without_it = if settings.iso_directory.is_some() {
            ProgramState::Missing
        } else {
            ProgramState::Absent
        };
        let folder = check_image_folder(settings);
        found_programs.push(Program::new(driver, "isoDirectory", folder, state_without_it));
        let url = match &settings.iso_url {
            Some(url) => Ok(url.into()),
            None => Err("not set: controllers cannot fetch images".to_owned()),
        };
        found_programs.push(Program::new(driver, "isoURL", url, state_without_it));
    }
    Ok(found_programs)
}

/// The folder of images, if images can be written there; missing folders are made with the first.
fn check_image_folder(settings: &SettingsSpec) -> Result<PathBuf, String> {
    let Some(folder) = &settings.iso_directory else {
        return Err("not set: only hosts that are booted by hand can be installed".into());
    };
    let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(folder);
    let shown = existing.display();
    if !existing.is_dir() {
        return Err(format!("`{shown}` is not a folder"));
    }
    match rustix::fs::access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(folder.clone()),
        Err(error) => Err(format!("`{shown}` cannot be written: {error}")),
    }
}
