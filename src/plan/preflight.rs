//! Checks the install-configs of a pool's clusters by the rules of the installer, before anything
//! is leased for one. What no installer of ours reads is not checked: clusters that are simulated,
//! and those of a driver of somebody's own.

use serde_json::Value;

use crate::model::customization::CustomizationSpec;
use crate::model::driver::Driver;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::release::Release;
use crate::model::state::State;
use crate::render::install_config::Rendered;
use crate::rules::preflight::{InstallConfig, InstallMethod, Problem, VipSource, find_problems};

use super::recipe::{render_install_config, render_next_cluster};

/// Renders the install-config of a cluster and checks it. What the rules only warn of is added to
/// the notes; the error is a sentence that fits a condition. `vips` says whether the addresses of
/// API and ingress are in `base` already.
pub fn render_checked(
    state: &State,
    base: &Value,
    name: &str,
    patches: Option<&CustomizationSpec>,
    pool: &ClusterPool,
    vips: VipSource,
) -> Result<Rendered, String> {
    let rendered = render_install_config(base, name, patches, pool)?;
    check_rendered(state, pool, rendered, vips)
}

/// As `render_next_cluster`, and checked.
pub fn render_checked_cluster(
    state: &State,
    pool: &ClusterPool,
    patches: Option<&CustomizationSpec>,
) -> Result<Rendered, String> {
    let rendered = render_next_cluster(state, pool, patches)?;
    let vips = if pool.vip_pools().is_empty() { VipSource::Document } else { VipSource::Leases };
    check_rendered(state, pool, rendered, vips)
}

/// Why the clusters of a pool without an inventory cannot be installed; none if they can, or if the
/// pool has an inventory, whose customizations may correct its template.
pub fn input_problem(state: &State, pool: &ClusterPool) -> Option<String> {
    if pool.spec.inventory.is_some() || method_of(pool).is_none() {
        return None;
    }
    render_checked_cluster(state, pool, None).err()
}

fn check_rendered(
    state: &State,
    pool: &ClusterPool,
    mut rendered: Rendered,
    vips: VipSource,
) -> Result<Rendered, String> {
    let Some(method) = method_of(pool) else { return Ok(rendered) };
    let config = InstallConfig {
        document: &rendered.document,
        release: release_of_pool(state, pool),
        method,
        vips,
    };
    let (refused, warned): (Vec<Problem>, Vec<Problem>) =
        find_problems(&config).into_iter().partition(|problem| problem.is_refused);
    if refused.is_empty() {
        rendered.notes.extend(warned.into_iter().map(|problem| problem.message));
        return Ok(rendered);
    }
    let messages: Vec<String> = refused.into_iter().map(|problem| problem.message).collect();
    Err(format!("install-config.yaml: {}", messages.join("; ")))
}

/// How clusters of a pool are installed; none if no installer reads their install-configs.
fn method_of(pool: &ClusterPool) -> Option<InstallMethod> {
    match pool.driver() {
        Driver::Installer => Some(InstallMethod::Machines),
        Driver::Agent => Some(InstallMethod::Agent),
        _ => None,
    }
}

/// The release that clusters of a pool are installed from, as far as it is known.
fn release_of_pool(state: &State, pool: &ClusterPool) -> Option<Release> {
    let image_set = state.image_sets.by_key(&Key::new("", &*pool.spec.image_set_ref.name))?;
    Release::of_image(&image_set.spec.release_image)
}
