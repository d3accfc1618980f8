//! Checks the install-configs of a pool's clusters by the rules of the installer, before anything
//! is leased for one. What no installer of ours reads is not checked: clusters that are simulated,
//! and those of a driver of somebody's own.

use serde_json::Value;

use crate::model::cluster::Cluster;
use crate::model::customization::CustomizationSpec;
use crate::model::driver::Driver;
use crate::model::meta::Key;
use crate::model::pool::ClusterPool;
use crate::model::release::Release;
use crate::model::state::State;
use crate::render::install_config::{Rendered, template_document};
use crate::rules::preflight::{InstallConfig, InstallMethod, Problem, VipSource, find_problems};

use super::recipe::{render_install_config, render_next_cluster};

/// Why a cluster could not be installed from its install-config, in a sentence that fits a
/// condition.
pub enum InputProblem {
    /// The template or its patches are wrong.
    Document(String),
    /// The addresses that would be leased for API and ingress do not fit the template.
    LeasedVips(String),
}

/// Renders the install-config of a cluster, with the addresses of API and ingress in `base`, and
/// checks it. What the rules only warn of is added to the notes.
pub fn render_checked(
    state: &State,
    base: &Value,
    name: &str,
    patches: Option<&CustomizationSpec>,
    pool: &ClusterPool,
) -> Result<Rendered, InputProblem> {
    let mut rendered =
        render_install_config(base, name, patches, pool).map_err(InputProblem::Document)?;
    let problems = find_input_problems(state, pool, &rendered.document, VipSource::Document);
    let has_leases = !pool.vip_pools().is_empty();
    let (about_leases, about_document): (Vec<Problem>, Vec<Problem>) =
        problems.into_iter().partition(|problem| has_leases && problem.is_about_vips);
    note_problems(&mut rendered, about_document).map_err(InputProblem::Document)?;
    note_problems(&mut rendered, about_leases).map_err(InputProblem::LeasedVips)?;
    Ok(rendered)
}

/// As `render_next_cluster`, and checked as far as that can be done before anything is leased.
pub fn render_checked_cluster(
    state: &State,
    pool: &ClusterPool,
    patches: Option<&CustomizationSpec>,
) -> Result<Rendered, String> {
    let mut rendered = render_next_cluster(state, pool, patches)?;
    let problems = find_input_problems(state, pool, &rendered.document, vip_source_of(pool));
    note_problems(&mut rendered, problems)?;
    Ok(rendered)
}

/// Why the clusters of a pool without an inventory cannot be installed; none if they can, or if the
/// pool has an inventory, whose customizations may correct its template.
pub fn find_wrong_input(state: &State, pool: &ClusterPool) -> Option<String> {
    if pool.spec.inventory.is_some() || method_of(pool).is_none() {
        return None;
    }
    render_checked_cluster(state, pool, None).err()
}

/// What the installer would refuse of the install-config of a pool's next cluster, a sentence for
/// each rule. Empty if it cannot be rendered, or if the image set of the pool is not there: then it
/// is not known yet which rules hold.
pub fn refused_input(
    state: &State,
    pool: &ClusterPool,
    patches: Option<&CustomizationSpec>,
) -> Vec<String> {
    let image_set = Key::new("", &*pool.spec.image_set_ref.name);
    if state.image_sets.find(&image_set).is_none() {
        return Vec::new();
    }
    let Ok(rendered) = render_next_cluster(state, pool, patches) else { return Vec::new() };
    let mut problems = find_input_problems(state, pool, &rendered.document, vip_source_of(pool));
    problems.retain(|problem| problem.is_refused);
    problems.into_iter().map(|problem| problem.message).collect()
}

/// What the installer would refuse of the install-config of a cluster that was applied by hand, a
/// sentence for each rule. Empty if its Secret is not loaded, or if its image set is not there.
pub fn refused_input_of_cluster(state: &State, cluster: &Cluster) -> Vec<String> {
    let template = cluster.install_config_secret().and_then(|key| state.templates.get(&key));
    let document = template.and_then(|template| template_document(template).ok());
    let provisioning = cluster.body.as_ref().and_then(|body| body.spec.provisioning.as_ref());
    let Some(document) = document else { return Vec::new() };
    let Some(provisioning) = provisioning else { return Vec::new() };
    let Some(method) = method_of_driver(cluster.driver) else { return Vec::new() };
    let release_image = provisioning.release_image.as_ref().filter(|image| !image.is_empty());
    let release = match (release_image, &provisioning.image_set_ref) {
        (Some(image), _) => Release::of_image(image),
        (None, Some(image_set)) => match state.image_sets.by_key(&Key::new("", &*image_set.name)) {
            Some(image_set) => Release::of_image(&image_set.spec.release_image),
            None => return Vec::new(),
        },
        (None, None) => None,
    };
    let vips = VipSource::Document;
    let mut problems = find_problems(&InstallConfig { document, release, method, vips });
    problems.retain(|problem| problem.is_refused);
    problems.into_iter().map(|problem| problem.message).collect()
}

/// Adds problems to the notes. The error is those for which the installer refuses the document.
fn note_problems(rendered: &mut Rendered, problems: Vec<Problem>) -> Result<(), String> {
    let (refused, warned): (Vec<Problem>, Vec<Problem>) =
        problems.into_iter().partition(|problem| problem.is_refused);
    rendered.notes.extend(warned.into_iter().map(|problem| problem.message));
    if refused.is_empty() {
        return Ok(());
    }
    let messages: Vec<String> = refused.into_iter().map(|problem| problem.message).collect();
    Err(format!("install-config.yaml: {}", messages.join("; ")))
}

fn find_input_problems(
    state: &State,
    pool: &ClusterPool,
    document: &Value,
    vips: VipSource,
) -> Vec<Problem> {
    let Some(method) = method_of(pool) else { return Vec::new() };
    let release = release_of_pool(state, pool);
    find_problems(&InstallConfig { document, release, method, vips })
}

fn vip_source_of(pool: &ClusterPool) -> VipSource {
    if pool.vip_pools().is_empty() { VipSource::Document } else { VipSource::Leases }
}

/// How clusters of a pool are installed; none if no installer reads their install-configs.
fn method_of(pool: &ClusterPool) -> Option<InstallMethod> {
    method_of_driver(pool.driver())
}

fn method_of_driver(driver: Driver) -> Option<InstallMethod> {
    match driver {
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
