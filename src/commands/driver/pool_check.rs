//! `driver check --pool`: tries what the next installation of a pool needs, and says what to mend.
//! It makes no cluster.

use serde_json::{Value, json};

use crate::drivers::probe::Finding;
use crate::drivers::programs;
use crate::model::customization::Customization;
use crate::model::documents::SettingsSpec;
use crate::model::driver::{Driver, PROGRAM_PREFIX};
use crate::model::driver_description::CHECK;
use crate::model::pool::ClusterPool;
use crate::model::refusal::{Exit, Refusal};
use crate::output::{Answer, Name, Row};
use crate::plan;
use crate::store::Store;

use crate::commands::Context;
use crate::commands::driver::{Program, ProgramState, find_programs};
use crate::commands::pool::render::TrialRender;

/// Tries every step of an installation of a pool that can be tried without making anything.
pub fn check_pool(context: &Context, store: &Store, pool_name: &str) -> anyhow::Result<()> {
    let settings = context.door(store).read_settings()?;
    let trial = TrialRender::load(context, store, pool_name, None)?;
    let pool = trial.pool()?.clone();
    let missing = plan::missing_dependencies(trial.state(), &pool);
    let mut findings = vec![describe_objects(&missing)];
    match pool.driver() {
        Driver::Missing | Driver::Fake | Driver::Ipmi | Driver::Redfish => {
            let name = pool.driver().name();
            findings.push(Finding::skipped("driver", format!("driver `{name}` starts no program")));
        }
        Driver::Exec => findings.extend(probe_program(context, store, &settings, &pool)?),
        Driver::Installer | Driver::Agent => {
            findings.extend(probe_installer(context, store, &settings, &pool, &missing)?);
        }
    }
    let mut entries = Vec::new();
    for finding in &findings {
        let name = Name::plain(finding.step.as_str());
        entries.push(context.entry(
            Some(name),
            || row(context, finding),
            || document(context, finding),
        ));
    }
    context.answer(Answer::list(entries))?;
    refuse_failures(&pool, &findings)?;
    Ok(())
}

/// A finding in the table of a check.
pub fn row(context: &Context, finding: &Finding) -> Row {
    vec![
        ("step", finding.step.clone()),
        ("state", finding.state.name().to_owned()),
        ("detail", finding.detail.clone()),
        ("next", context.spell_commands(&finding.next)),
    ]
}

/// A finding for programs.
pub fn document(context: &Context, finding: &Finding) -> Value {
    json!({"step": finding.step, "state": finding.state.name(), "detail": finding.detail,
           "next": context.spell_commands(&finding.next)})
}

/// Refuses with all steps that failed. What to do first is said of the first of them, because the
/// others may only follow from it.
fn refuse_failures(pool: &ClusterPool, findings: &[Finding]) -> Result<(), Refusal> {
    let failures: Vec<&Finding> = findings.iter().filter(|finding| finding.has_failed()).collect();
    let Some(first_failure) = failures.first() else { return Ok(()) };
    let steps: Vec<&str> = failures.iter().map(|finding| finding.step.as_str()).collect();
    let name = &pool.metadata.name;
    let what = format!("pool `{name}` cannot install a cluster yet: {} failed", steps.join(", "));
    let refusal = Refusal::new(Exit::Failed, what).advise(&*first_failure.next);
    Err(match failures.as_slice() {
        [failure] => refusal.because(&*failure.detail),
        several => several.iter().fold(refusal, |refusal, failure| {
            refusal.because(format!("{}: {}", failure.step, failure.detail))
        }),
    })
}

/// Whether everything exists that the pool names, and an install-config can be made of it.
fn describe_objects(missing: &[String]) -> Finding {
    let step = "objects";
    if missing.is_empty() {
        return Finding::ok(step, "all that the pool names exists");
    }
    Finding::failed(step, missing.join("; "), "poolctl apply -f FILE with what is missing")
}

/// The install-config of the next cluster, with the first customization of the inventory that
/// exists.
fn load_trial(
    context: &Context,
    store: &Store,
    pool: &ClusterPool,
) -> Result<TrialRender, Refusal> {
    let name = &pool.metadata.name;
    for entry in pool.spec.inventory.iter().flatten() {
        if context.find::<Customization>(store, &entry.name).is_ok() {
            return TrialRender::load(context, store, name, Some(&entry.name));
        }
    }
    TrialRender::load(context, store, name, None)
}

/// What becomes of the programs that a driver of poolctl starts, and of what they are given.
fn probe_installer(
    context: &Context,
    store: &Store,
    settings: &SettingsSpec,
    pool: &ClusterPool,
    missing: &[String],
) -> Result<Vec<Finding>, Refusal> {
    let mut findings = Vec::new();
    for program in find_programs(settings, pool.driver().name())? {
        findings.push(describe_program(&program));
    }
    let rendered = match load_trial(context, store, pool).and_then(|trial| trial.render(context)) {
        Ok(rendered) => rendered,
        Err(refusal) => {
            let next = format!("poolctl pool render {}", pool.metadata.name);
            findings.push(Finding::failed("install-config", refusal.to_string(), next));
            return Ok(findings);
        }
    };
    findings.extend(context.door(store).probe_installer(pool, &rendered, missing)?);
    Ok(findings)
}

fn describe_program(program: &Program) -> Finding {
    let name = program.name.as_str();
    match program.state {
        ProgramState::Found => Finding::ok(name, format!("{} {}", program.path, program.version)),
        ProgramState::Absent => Finding::skipped(name, program.path.as_str()),
        ProgramState::Missing | ProgramState::Unusable => {
            let next = format!("name {name} in programs of the Settings");
            Finding::failed(name, program.path.as_str(), next)
        }
    }
}

/// What the program that is the driver of a pool says of itself, of the pool and of its next
/// cluster.
fn probe_program(
    context: &Context,
    store: &Store,
    settings: &SettingsSpec,
    pool: &ClusterPool,
) -> Result<Vec<Finding>, Refusal> {
    let name = pool.driver_program().unwrap_or_default();
    let step = format!("poolctl-driver-{name}");
    let program = match programs::find_driver_program(settings, name) {
        Ok(program) => program,
        Err(why) => {
            let next =
                "install it into driverDirectory of the Settings; only its owner may write to it";
            return Ok(vec![Finding::failed(&step, why, next)]);
        }
    };
    let mut findings = vec![Finding::ok(&step, program.display().to_string())];
    let next = format!("poolctl driver check {PROGRAM_PREFIX}{name}");
    let description = match context.door(store).ask_driver_description(&program) {
        Ok(description) => description,
        Err(why) => {
            findings.push(Finding::failed("contract", why, next));
            return Ok(findings);
        }
    };
    if let Some(mismatch) = description.find_mismatch(&pool.spec.annotations) {
        let next =
            format!("poolctl get pool {} -o yaml, and mend its annotations", pool.metadata.name);
        findings.push(Finding::failed("contract", mismatch, next));
        return Ok(findings);
    }
    findings.push(Finding::ok("contract", format!("it follows contract {}", description.contract)));
    if description.verbs.is_none() || !description.has_verb(CHECK) {
        findings.push(Finding::skipped(CHECK, "the driver does not list this verb"));
        return Ok(findings);
    }
    let rendered = load_trial(context, store, pool).and_then(|trial| trial.render(context))?;
    findings.push(context.door(store).probe_driver_program(pool, &rendered, &program)?);
    Ok(findings)
}
