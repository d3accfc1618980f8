//! `driver list|check`: who makes clusters here, and whether their programs are where cron looks.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use clap::Args;
use serde_json::json;

use crate::drivers::programs;
use crate::model::cluster::{DRIVER, EXEC, POWER};
use crate::model::documents::SettingsSpec;
use crate::model::driver::Driver;
use crate::model::kind::Kind;
use crate::model::object::Object;
use crate::model::refusal::{Exit, Refusal};
use crate::output;
use crate::store::Filter;

use super::{Context, Quit, Verb};

#[derive(Args)]
pub struct List {}

impl Verb for List {
    const NAME: &'static str = "list";
    const ABOUT: &'static str = "List drivers, and the pools that use them";
    const EXAMPLE: &'static str = "poolctl driver list";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let mut all: Vec<(String, Vec<String>)> =
            Driver::ALL.iter().map(|one| (one.name().to_owned(), Vec::new())).collect();
        for (driver, pool) in used(context)? {
            match all.iter_mut().find(|(name, _)| *name == driver) {
                Some((_, pools)) => pools.push(pool),
                None => all.push((driver, vec![pool])),
            }
        }
        all.retain(|(name, pools)| name != "exec" && (name != "none" || !pools.is_empty()));
        let format = &context.globals.output;
        if format.whole() {
            let documents = all.iter().map(|(name, pools)| json!({"name": name, "pools": pools}));
            return context.print(&output::documents(format, documents.collect(), false)?);
        }
        let row = |(name, pools): &(String, Vec<String>)| vec![name.clone(), pools.join(", ")];
        let rows: Vec<_> = all.iter().map(row).collect();
        context.print(&output::table(&["name", "pools"], &rows))
    }
}

/// The drivers of all pools, with their pools; power drivers too.
fn used(context: &Context) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let store = match context.look() {
        Err(refusal) if refusal.exit == Exit::NotFound => return Ok(found),
        store => store?,
    };
    for object in store.objects(Kind::ClusterPool, &Filter::default())? {
        let Object::Pool(pool) = object else { continue };
        let annotations = &pool.spec.annotations;
        let driver = match pool.driver() {
            Driver::Exec => annotations.get(DRIVER).cloned().unwrap_or_default(),
            other => other.name().to_owned(),
        };
        found.push((driver, pool.key().to_string()));
        let power = annotations.get(POWER).filter(|one| one.starts_with(EXEC));
        found.extend(power.map(|one| (one.clone(), pool.key().to_string())));
    }
    Ok(found)
}

#[derive(Args)]
pub struct Check {
    /// Only these, like openshift-install or exec:NAME
    #[arg(value_name = "DRIVER")]
    names: Vec<String>,
}

impl Verb for Check {
    const NAME: &'static str = "check";
    const ABOUT: &'static str =
        "Check that the programs of drivers are there, as cron will see them";
    const EXAMPLE: &'static str = "poolctl driver check";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let settings = match context.look() {
            Err(refusal) if refusal.exit == Exit::NotFound => SettingsSpec::default(),
            store => context.door(&store?).settings()?,
        };
        let mut names = self.names;
        if names.is_empty() {
            names = used(context)?.into_iter().map(|(driver, _)| driver).collect();
            names.sort();
            names.dedup();
            names.retain(|name| name != "fake" && name != "none");
        }
        if names.is_empty() {
            context.hint(
                "no pool uses a driver with programs; next: poolctl driver check openshift-install",
            );
            return Ok(());
        }
        let mut rows = Vec::new();
        for name in &names {
            rows.extend(look(&settings, name)?);
        }
        let bad = rows.iter().any(|row| row.state == "missing");
        let format = &context.globals.output;
        if format.whole() {
            let documents = rows.iter().map(Row::document).collect();
            context.print(&output::documents(format, documents, false)?)?;
        } else {
            let rows: Vec<_> = rows.iter().map(Row::cells).collect();
            context.print(&output::table(
                &["driver", "program", "state", "version", "path", "owner", "mode"],
                &rows,
            ))?;
        }
        if bad { Err(Quit(Exit::Failed as u8).into()) } else { Ok(()) }
    }
}

/// Programs that say their version.
const PROGRAMS: [&str; 3] = ["openshift-install", "oc", "kubectl"];

struct Row {
    driver: String,
    program: String,
    state: &'static str,
    version: String,
    /// Where it is, or why it is not.
    path: String,
    owner: String,
    mode: String,
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let Self { driver, program, version, path, owner, mode, .. } = self;
        [driver, program, self.state, version, path, owner, mode].map(ToString::to_string).to_vec()
    }

    fn document(&self) -> serde_json::Value {
        json!({"driver": self.driver, "program": self.program, "state": self.state,
               "version": self.version, "path": self.path, "owner": self.owner, "mode": self.mode})
    }
}

/// The programs of a driver; those without which it does less are `absent`, not `missing`.
fn look(settings: &SettingsSpec, driver: &str) -> Result<Vec<Row>, Refusal> {
    let row = |program: &str, needed: bool, found: Result<std::path::PathBuf, String>| {
        let (state, path) = match &found {
            Ok(path) => ("ok", path.display().to_string()),
            Err(why) if needed => ("missing", why.clone()),
            Err(why) => ("absent", why.clone()),
        };
        let words: &[&str] =
            if program == "openshift-install" { &["version"] } else { &["version", "--client"] };
        let ours = PROGRAMS.contains(&program);
        let version = found.as_ref().ok().filter(|_| ours);
        let version = version.and_then(|path| programs::version(path, words)).unwrap_or_default();
        let (owner, mode) = found.map(|path| owner_and_mode(&path)).unwrap_or_default();
        let (driver, program) = (driver.to_owned(), program.to_owned());
        Row { driver, program, state, version, path, owner, mode }
    };
    if let Some(name) = driver.strip_prefix(EXEC) {
        let program = format!("poolctl-driver-{name}");
        return Ok(vec![row(&program, true, programs::find_driver(settings, name))]);
    }
    if driver != Driver::Installer.name() {
        return Err(Refusal::usage(format!("there is no driver `{driver}` with programs"))
            .next("poolctl driver list"));
    }
    let installer = programs::find(settings, "openshift-install");
    let extracts = programs::find(settings, "oc").is_ok();
    Ok(vec![
        row("openshift-install", !extracts, installer),
        row("oc", false, programs::find(settings, "oc")),
        row("kubectl", false, programs::find(settings, "kubectl")),
    ])
}

fn owner_and_mode(path: &Path) -> (String, String) {
    let found = std::fs::metadata(path);
    found.map_or_else(
        |_| (String::new(), String::new()),
        |found| (crate::world::name_of(found.uid()), format!("{:o}", found.mode() & 0o7777)),
    )
}
