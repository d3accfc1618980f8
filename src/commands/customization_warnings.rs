//! Warnings about customizations that do not fit the templates of the pools that list them. They
//! are given when a customization, a pool or its template is applied, and refuse nothing.

use std::collections::HashSet;

use serde_json::Value;

use crate::model::annotations::{MANIFESTS, VIPS_FROM};
use crate::model::customization::Customization;
use crate::model::deployment::config_maps_with_manifests;
use crate::model::driver::Driver;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::state::State;
use crate::plan;

use crate::commands::Context;

/// Warns about customizations that do not fit. `applied` are the objects that a command has put
/// into the state; only what they touch is warned about. `state` is the state with them.
pub fn warn_about_customizations(context: &Context, state: &State, applied: &[(Kind, Key)]) {
    let applied: HashSet<&(Kind, Key)> = applied.iter().collect();
    for pool in state.pools.rows() {
        // If the template alone is unusable, the conditions of the pool say so.
        if let Ok(unpatched) = plan::render_next_cluster(state, pool, None) {
            warn_about_inventory(context, state, pool, &applied);
            warn_about_template(context, state, pool, &applied);
            warn_about_customization_ref(context, state, pool, &applied);
            warn_about_leased_vips(context, state, pool, &unpatched.document, &applied);
        }
    }
}

/// Warns of what the installer would overlook in the template of a pool without an inventory. What
/// it would refuse is in the conditions of the pool.
fn warn_about_template(
    context: &Context,
    state: &State,
    pool: &ClusterPool,
    applied: &HashSet<&(Kind, Key)>,
) {
    if pool.spec.inventory.is_some() || !is_base_applied(applied, pool) {
        return;
    }
    let name = &pool.metadata.name;
    match plan::render_checked_cluster(state, pool, None) {
        Ok(rendered) => {
            for note in &rendered.notes {
                context.warn(&format!("pool `{name}`: {note}"));
            }
        }
        Err(problem) => context.warn(&format!("pool `{name}`: {problem}")),
    }
}

fn warn_about_inventory(
    context: &Context,
    state: &State,
    pool: &ClusterPool,
    applied: &HashSet<&(Kind, Key)>,
) {
    let is_base_applied = is_base_applied(applied, pool);
    for entry in pool.spec.inventory.iter().flatten() {
        let is_customization_applied = is_applied(applied, Kind::Customization, pool, &entry.name);
        if !is_customization_applied && !is_base_applied {
            continue;
        }
        let key = Key::new(&*pool.metadata.namespace, &*entry.name);
        let Some(customization) = state.customizations.by_key(&key) else { continue };
        warn_about_idle_patches(context, pool, customization);
        let subject = format!("customization `{}` on pool `{}`", entry.name, pool.metadata.name);
        match plan::render_checked_cluster(state, pool, Some(&customization.spec)) {
            Err(problem) => context.warn(&format!("{subject}: {problem}")),
            Ok(rendered) if is_customization_applied => {
                for note in &rendered.notes {
                    context.warn(&format!("{subject}: {note}"));
                }
            }
            Ok(_) => {}
        }
    }
}

/// The customization of all clusters of a pool patches manifests alone.
fn warn_about_customization_ref(
    context: &Context,
    state: &State,
    pool: &ClusterPool,
    applied: &HashSet<&(Kind, Key)>,
) {
    let Some(reference) = &pool.spec.customization_ref else { return };
    let name = &reference.name;
    let key = Key::new(&*pool.metadata.namespace, &**name);
    let Some(customization) = state.customizations.by_key(&key) else { return };
    let is_touched =
        is_base_applied(applied, pool) || is_applied(applied, Kind::Customization, pool, name);
    if is_touched {
        warn_about_idle_patches(context, pool, customization);
    }
    if is_touched && !customization.spec.install_config_patches.is_empty() {
        context.warn(&format!(
            "customization `{name}` is pool `{}`'s customizationRef: only its patches of \
             manifests apply",
            pool.metadata.name
        ));
    }
}

/// Warns of addresses that a pool leases for its clusters and that no cluster gets: its platform has
/// none, or a customization sets others. `unpatched` is the install-config without a customization.
fn warn_about_leased_vips(
    context: &Context,
    state: &State,
    pool: &ClusterPool,
    unpatched: &Value,
    applied: &HashSet<&(Kind, Key)>,
) {
    let name = &pool.metadata.name;
    let is_base_applied = is_base_applied(applied, pool);
    if is_base_applied && let Some(problem) = plan::describe_unplaceable_vips(pool, unpatched) {
        context.warn(&format!("pool `{name}`: {problem}"));
    }
    if pool.vip_pools().is_empty() {
        return;
    }
    for entry in pool.spec.inventory.iter().flatten() {
        if !is_base_applied && !is_applied(applied, Kind::Customization, pool, &entry.name) {
            continue;
        }
        let key = Key::new(&*pool.metadata.namespace, &*entry.name);
        let Some(customization) = state.customizations.by_key(&key) else { continue };
        let rendered = plan::render_next_cluster(state, pool, Some(&customization.spec));
        if rendered.is_ok_and(|rendered| plan::has_patched_vips(unpatched, &rendered.document)) {
            context.warn(&format!(
                "customization `{}` on pool `{name}`: its patches set addresses, so those that \
                 {VIPS_FROM} leases are not used",
                entry.name
            ));
        }
    }
}

/// Warns of patches of manifests on a pool whose installer makes none: hosts that install
/// themselves get an image. Only manifests that the clusters bring along can be patched.
fn warn_about_idle_patches(context: &Context, pool: &ClusterPool, customization: &Customization) {
    let brings_manifests = config_maps_with_manifests(&pool.spec.annotations).next().is_some();
    if pool.driver() == Driver::Agent
        && !brings_manifests
        && !customization.spec.installer_manifest_patches.is_empty()
    {
        context.warn(&format!(
            "customization `{}` on pool `{}`: `spec.installerManifestPatches` has no effect here: \
             the agent-based installer makes no manifests, and patches only those that \
             {MANIFESTS} adds",
            customization.metadata.name, pool.metadata.name
        ));
    }
}

/// Whether a pool or its template was applied.
fn is_base_applied(applied: &HashSet<&(Kind, Key)>, pool: &ClusterPool) -> bool {
    let template = pool.spec.install_config_secret_template_ref.as_ref();
    is_applied(applied, Kind::ClusterPool, pool, &pool.metadata.name)
        || template.is_some_and(|secret| is_applied(applied, Kind::Secret, pool, &secret.name))
}

/// Whether the object of this name in the namespace of a pool was applied.
fn is_applied(applied: &HashSet<&(Kind, Key)>, kind: Kind, pool: &ClusterPool, name: &str) -> bool {
    applied.contains(&(kind, Key::new(&*pool.metadata.namespace, name)))
}
