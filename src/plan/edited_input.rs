//! Refuses an edit after which the installer would refuse an install-config. It is no step of a
//! plan: it looks at what a command has put into the state, and only where all is there that the
//! install-config is made from. What comes later becomes a condition.

use crate::model::customization::Customization;
use crate::model::documents::StoredValue;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::pool_versions::pool_version;
use crate::model::refusal::Refusal;
use crate::model::state::State;

use super::preflight::{refused_input, refused_input_of_cluster};

/// The key of a Secret that has an install-config.
const TEMPLATE_KEY: &str = "install-config.yaml";

/// Checks the install-configs that follow from the objects which this edit has put. What they refer
/// to must be loaded.
pub fn check_edited_input(state: &State) -> Result<(), Refusal> {
    let mut pools: Vec<&ClusterPool> = Vec::new();
    for (kind, key) in &state.put_objects {
        match kind {
            Kind::ClusterPool => pools.extend(find_changed_pool(state, key)),
            Kind::Secret => pools.extend(find_pools_of_template(state, key)),
            Kind::Customization => check_customization(state, key)?,
            Kind::ClusterDeployment => check_cluster(state, key)?,
            _ => {}
        }
    }
    for pool in pools {
        check_pool(state, pool)?;
    }
    Ok(())
}

/// The pool, if its clusters are made from something else than before.
fn find_changed_pool<'a>(state: &'a State, key: &Key) -> Option<&'a ClusterPool> {
    let mut changes = state.pools.difference();
    let change = changes.find(|change| change.after.is_some_and(|pool| pool.key() == *key))?;
    let pool = change.after?;
    let is_same = change.before.is_some_and(|before| {
        pool_version(before) == pool_version(pool)
            && before.spec.inventory == pool.spec.inventory
            && before.vip_pools() == pool.vip_pools()
            && before.driver() == pool.driver()
    });
    (!is_same).then_some(pool)
}

/// The pools whose template is in a Secret, if this edit has given it another one.
fn find_pools_of_template<'a>(state: &'a State, key: &Key) -> Vec<&'a ClusterPool> {
    let value = state.secrets.by_key(key).and_then(|secret| secret.values.get(TEMPLATE_KEY));
    if !matches!(value, Some(StoredValue::New(_))) {
        return Vec::new();
    }
    let pools = state.pools.rows().filter(|pool| {
        let template = pool.spec.install_config_secret_template_ref.as_ref();
        pool.metadata.namespace == key.namespace
            && template.is_some_and(|template| template.name == key.name)
    });
    pools.collect()
}

/// Refuses a pool none of whose clusters the installer would accept. Customizations may correct its
/// template, so a pool that has some is refused only if none of them does.
fn check_pool(state: &State, pool: &ClusterPool) -> Result<(), Refusal> {
    let Some(inventory) = &pool.spec.inventory else {
        return refuse_problems(pool, None, refused_input(state, pool, None));
    };
    let mut first_problems = None;
    for entry in inventory {
        let key = Key::new(&*pool.metadata.namespace, &*entry.name);
        let Some(customization) = state.customizations.by_key(&key) else { continue };
        let problems = refused_input(state, pool, Some(&customization.spec));
        if problems.is_empty() {
            return Ok(());
        }
        if first_problems.is_none() {
            first_problems = Some((customization, problems));
        }
    }
    match first_problems {
        Some((customization, problems)) => refuse_problems(pool, Some(customization), problems),
        None => Ok(()),
    }
}

/// Refuses a customization that spoils the install-config of a pool that lists it.
fn check_customization(state: &State, key: &Key) -> Result<(), Refusal> {
    let mut changes = state.customizations.difference();
    let change = changes.find(|change| change.after.is_some_and(|after| after.key() == *key));
    let Some(change) = change else { return Ok(()) };
    let Some(customization) = change.after else { return Ok(()) };
    if change.before.is_some_and(|before| before.spec == customization.spec) {
        return Ok(());
    }
    for pool in state.pools.rows().filter(|pool| pool.metadata.namespace == key.namespace) {
        let mut inventory = pool.spec.inventory.iter().flatten();
        if inventory.any(|entry| entry.name == key.name) {
            let problems = refused_input(state, pool, Some(&customization.spec));
            refuse_problems(pool, Some(customization), problems)?;
        }
    }
    Ok(())
}

/// Refuses a new cluster that the installer would not install. An existing one stays as it is.
fn check_cluster(state: &State, key: &Key) -> Result<(), Refusal> {
    let mut changes = state.clusters.difference();
    let change = changes.find(|change| change.after.is_some_and(|after| after.key() == *key));
    let new_cluster = change.filter(|change| change.before.is_none());
    let Some(cluster) = new_cluster.and_then(|change| change.after) else { return Ok(()) };
    if cluster.is_installed() {
        return Ok(());
    }
    let subject = format!("install-config of cluster `{}`", cluster.name);
    refuse_input(subject, refused_input_of_cluster(state, cluster))
}

fn refuse_problems(
    pool: &ClusterPool,
    customization: Option<&Customization>,
    problems: Vec<String>,
) -> Result<(), Refusal> {
    let name = &pool.metadata.name;
    let subject = match customization {
        Some(customization) => {
            let customization = &customization.metadata.name;
            format!("install-config of pool `{name}` with customization `{customization}`")
        }
        None => format!("install-config of pool `{name}`"),
    };
    refuse_input(subject, problems)
}

/// Refuses what the installer would refuse, if it is anything.
fn refuse_input(subject: String, problems: Vec<String>) -> Result<(), Refusal> {
    let refusal = match problems.as_slice() {
        [] => return Ok(()),
        [problem] => Refusal::invalid(format!("{subject}: {problem}")),
        _ => Refusal::of_problems(subject, problems),
    };
    Err(refusal.advise("correct these fields where they are written, then run the command again"))
}
