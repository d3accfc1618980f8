//! Validates objects of every kind: names, labels, and what the types of their fields do not say.
//! Looks at one object at a time, never at the state.

use std::collections::HashSet;

use crate::model::annotations::{NODES_FROM, VIPS_FROM};
use crate::model::claim::Claim;
use crate::model::cluster::Cluster;
use crate::model::documents::{ConfigMap, NamespaceOrigin, Settings, decode_base64};
use crate::model::driver::{PROGRAM_PREFIX, is_driver_name};
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;

use super::names::{
    check_dns_label, check_name, is_data_key, is_installer_variable, is_label_key, is_label_value,
};
use super::problems::{refuse, refuse_problems};
use super::{
    addresses, admission, agents, annotations, data_templates, hosts, infra_envs, patches,
    selectors, site, without_effect,
};

/// No lab has as many clusters: a larger size is a slip of the finger.
const LARGEST_POOL: u32 = 100_000;

const PASSWORD: &str =
    "spec.platform contains a password; put it into the Secret of credentialsSecretRef";

/// Refuses labels that Kubernetes would refuse, so that every object can be exported to a hub.
fn check_labels(object: &Object) -> Result<(), Refusal> {
    let own_labels = object.meta().map(|meta| &meta.labels);
    // The clusters of a pool get these.
    let copied_labels =
        if let Object::ClusterPool(pool) = object { Some(&pool.spec.labels) } else { None };
    for (name, value) in own_labels.into_iter().chain(copied_labels).flatten() {
        if !is_label_key(name) || !is_label_value(value) {
            let why = "a label has at most 63 letters, digits, dashes, dots and underscores";
            let problem = format!("`{name}: {value}` is not a label");
            return Err(refuse(object.kind(), &object.key().name, &problem).because(why));
        }
    }
    Ok(())
}

/// Refuses an object with a problem that can be seen without any other object.
pub fn check_object(object: &Object) -> Result<(), Refusal> {
    let kind = object.kind();
    let key = object.key();
    check_name(kind, &key.name)?;
    if kind.is_namespaced() {
        check_dns_label("a namespace", &key.namespace)?;
    }
    check_labels(object)?;
    let problems: Vec<String> = match object {
        // Its inventory is refused by the name of an entry, so a pool makes its own refusals.
        Object::ClusterPool(pool) => return check_pool(pool),
        Object::ClusterClaim(claim) => check_claim(claim).err().into_iter().collect(),
        Object::ClusterDeployment(cluster) => check_cluster(cluster).err().into_iter().collect(),
        Object::DataTemplate(template) => data_templates::check(template).err().unwrap_or_default(),
        Object::Metal3Data(data) => data_templates::check_data(data),
        Object::AgentClassification(classification) => agents::check_classification(classification),
        Object::InfraEnv(infra_env) => infra_envs::check(infra_env),
        Object::Agent(agent) => agents::check(agent),
        Object::NMStateConfig(config) => infra_envs::check_network(config),
        Object::IpPool(pool) => addresses::check_pool(pool),
        Object::IpClaim(claim) => addresses::check_claim(claim),
        Object::IpAddress(lease) => addresses::check_lease(lease),
        Object::BareMetalHost(host) => hosts::check(host).err().into_iter().collect(),
        Object::RoleBinding(binding)
            if binding.subjects.iter().any(|subject| subject.name.is_empty()) =>
        {
            vec!["a subject has no name".into()]
        }
        Object::Customization(customization) => {
            patches::check(customization).err().into_iter().collect()
        }
        Object::Settings(settings) => check_settings(settings),
        Object::ConfigMap(config_map) => check_config_map(config_map),
        Object::ClusterImageSet(image_set) if image_set.spec.release_image.is_empty() => {
            vec!["spec.releaseImage is empty".into()]
        }
        _ => Vec::new(),
    };
    refuse_problems(kind, &key.name, problems)
}

/// Refuses to change or to delete a namespace that nobody has applied: it follows from its cluster,
/// or is in every state.
pub fn check_editable(object: &Object) -> Result<(), Refusal> {
    let Object::Namespace(namespace) = object else { return Ok(()) };
    let name = &namespace.metadata.name;
    match &namespace.origin {
        NamespaceOrigin::Applied => Ok(()),
        NamespaceOrigin::Cluster(cluster) => {
            let problem =
                format!("namespace `{name}` is made and removed with cluster `{cluster}`");
            let next = format!("poolctl describe cluster {cluster} -n {name}");
            Err(Refusal::conflict(problem).advise(next))
        }
        NamespaceOrigin::EveryState => {
            let problem = format!("namespace `{name}` is in every state; nobody has created it");
            let next = format!("to give it labels, first: poolctl create namespace {name}");
            Err(Refusal::conflict(problem).advise(next))
        }
    }
}

/// Refuses a claim that could never have a cluster, or would lose it at once.
fn check_claim(claim: &Claim) -> Result<(), String> {
    if claim.lifetime.is_some_and(|span| span.0 == 0) {
        return Err("spec.lifetime is zero".into());
    }
    if claim.pool.is_empty() {
        return Err("spec.clusterPoolName is missing".into());
    }
    Ok(())
}

/// Looks at the platform and the annotations only if the cluster's body is loaded.
fn check_cluster(cluster: &Cluster) -> Result<(), String> {
    for (field, value) in
        [("clusterName", &cluster.cluster_name), ("baseDomain", &cluster.base_domain)]
    {
        if value.is_empty() {
            return Err(format!("spec.{field} is missing"));
        }
    }
    let Some(body) = &cluster.body else { return Ok(()) };
    if body.spec.platform.has_password() {
        return Err(PASSWORD.into());
    }
    annotations::check(Kind::ClusterDeployment, &body.metadata.annotations)
}

/// Every problem of a ConfigMap: Kubernetes refuses the same.
fn check_config_map(config_map: &ConfigMap) -> Vec<String> {
    let mut problems = Vec::new();
    for key in config_map.data.keys().chain(config_map.binary_data.keys()) {
        if !is_data_key(key) {
            problems.push(format!(
                "`{key}` cannot be a key: it may have letters, digits, dots, dashes and underscores"
            ));
        }
    }
    for (key, value) in &config_map.binary_data {
        if config_map.data.contains_key(key) {
            problems.push(format!("`{key}` is both in data and in binaryData"));
        }
        if let Err(why) = decode_base64(value) {
            problems.push(format!("binaryData.{key} is not base64: {why}"));
        }
    }
    problems
}

/// Every problem of the Settings.
fn check_settings(settings: &Settings) -> Vec<String> {
    let spec = &settings.spec;
    let mut problems = Vec::new();
    if settings.metadata.name != "default" {
        problems.push("the one Settings object is named `default`".into());
    }
    if spec.keep_events_days.is_some_and(|days| days > 36_500) {
        problems.push("spec.keepEventsDays is more than a hundred years".into());
    }
    if spec.max_jobs == Some(0) {
        problems.push("spec.maxJobs is 0, so no job could start".into());
    }
    if spec.iso_directory.as_ref().is_some_and(|path| !path.is_absolute()) {
        problems.push("spec.isoDirectory is not an absolute path".into());
    }
    if spec.iso_url.as_ref().is_some_and(|url| !is_http_url(url)) {
        problems.push("spec.isoURL is not an http or https URL".into());
    }
    if let Some(program) = &spec.on_change
        && !program.strip_prefix(PROGRAM_PREFIX).is_some_and(is_driver_name)
    {
        problems.push(format!("spec.onChange: `{program}` is not exec:NAME"));
    }
    if let Some(admins) = &spec.admins
        && admins.users.iter().chain(&admins.groups).any(String::is_empty)
    {
        problems.push("spec.admins has an empty name".into());
    }
    problems.extend(spec.site.iter().flat_map(site::check_site));
    problems
}

fn is_http_url(url: &str) -> bool {
    url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

fn check_pool(pool: &ClusterPool) -> Result<(), Refusal> {
    check_pool_platform(pool).map_err(|why| refuse_pool(pool, &why))?;
    let problems = selectors::check_agent_selector(&pool.spec.platform);
    refuse_problems(Kind::ClusterPool, &pool.metadata.name, problems)?;
    check_pool_spec(pool).map_err(|why| refuse_pool(pool, &why))?;
    check_pool_inventory(pool)
}

fn refuse_pool(pool: &ClusterPool, why: &str) -> Refusal {
    refuse(Kind::ClusterPool, &pool.metadata.name, why)
}

/// Checks that a pool has exactly one platform, without a password, and different IPPools.
fn check_pool_platform(pool: &ClusterPool) -> Result<(), String> {
    for (annotation, ip_pools) in
        [(VIPS_FROM, pool.vip_pools()), (NODES_FROM, pool.node_address_pools())]
    {
        if !are_different_names(&ip_pools) {
            return Err(format!("annotation {annotation} is not a list of different IPPools"));
        }
    }
    let platform = &pool.spec.platform;
    if let Some(problem) = admission::describe_platform_count(&platform.names()) {
        return Err(problem);
    }
    if platform.has_password() {
        return Err(PASSWORD.into());
    }
    Ok(())
}

fn are_different_names(names: &[&str]) -> bool {
    let distinct: HashSet<&&str> = names.iter().collect();
    distinct.len() == names.len()
        && names.iter().all(|name| check_dns_label("an IPPool", name).is_ok())
}

/// Checks the fields of a pool that its clusters get.
fn check_pool_spec(pool: &ClusterPool) -> Result<(), String> {
    let spec = &pool.spec;
    if spec.size > LARGEST_POOL {
        return Err(format!("spec.size is {}; the limit is {LARGEST_POOL}", spec.size));
    }
    annotations::check(Kind::ClusterPool, &pool.metadata.annotations)?;
    annotations::check(Kind::ClusterDeployment, &spec.annotations)?;
    let domain = &spec.base_domain;
    if domain.split('.').any(|part| check_dns_label("a domain", part).is_err()) {
        return Err(format!("spec.baseDomain `{domain}` is not a domain"));
    }
    if spec.image_set_ref.name.is_empty() {
        return Err("spec.imageSetRef.name is missing".into());
    }
    Ok(())
}

/// Checks the entries of an inventory. Whether their customizations exist is not checked: they may
/// come later.
fn check_pool_inventory(pool: &ClusterPool) -> Result<(), Refusal> {
    let Some(inventory) = &pool.spec.inventory else { return Ok(()) };
    if inventory.is_empty() {
        let why = "spec.inventory is empty; leave it out for a pool without customizations";
        return Err(refuse_pool(pool, why));
    }
    let mut seen = HashSet::new();
    for entry in inventory {
        if !matches!(entry.kind.as_str(), "" | "ClusterDeploymentCustomization") {
            let why = format!(
                "spec.inventory has an entry of kind `{}`, not ClusterDeploymentCustomization",
                entry.kind
            );
            return Err(refuse_pool(pool, &why));
        }
        check_dns_label("the name of an inventory entry", &entry.name)?;
        if !seen.insert(&entry.name) {
            let why = format!("spec.inventory lists `{}` twice", entry.name);
            return Err(refuse_pool(pool, &why));
        }
    }
    Ok(())
}

/// What is accepted of an object in a manifest, but probably not what was meant.
pub fn manifest_warnings(object: &Object) -> Vec<String> {
    let mut warnings = object_warnings(object);
    if let Object::Secret(secret) = object
        && secret.data.is_none()
        && secret.string_data.is_none()
    {
        let name = &secret.metadata.name;
        warnings.push(format!(
            "secret `{name}` has no values in the manifest; its values in the state are kept"
        ));
    }
    warnings
}

/// What is accepted of an object, but probably not what was meant.
pub fn object_warnings(object: &Object) -> Vec<String> {
    let mut warnings = annotations::warnings(object);
    warnings.extend(without_effect::warnings(object));
    warnings.extend(admission::describe_tolerated_gaps(object));
    match object {
        Object::ClusterPool(pool) => warnings.extend(pool_warnings(pool)),
        Object::Customization(customization) => warnings.extend(patches::warnings(customization)),
        Object::BareMetalHost(host) => warnings.extend(hosts::warnings(host)),
        Object::Agent(agent) => warnings.extend(agents::warning(agent)),
        Object::IpPool(pool) => warnings.extend(addresses::warnings(pool)),
        Object::DataTemplate(template) => warnings.extend(data_templates::warnings(template)),
        _ => {}
    }
    warnings
}

/// What of a pool has no effect, or another one than it seems.
fn pool_warnings(pool: &ClusterPool) -> Vec<String> {
    let mut warnings = Vec::new();
    if pool.spec.install_attempts_limit == Some(0) {
        let name = &pool.metadata.name;
        warnings.push(format!("pool `{name}`: installAttemptsLimit 0 counts as 1"));
    }
    for variable in &pool.spec.installer_env {
        let name = &variable.name;
        if !is_installer_variable(name) {
            warnings.push(format!(
                "installerEnv {name} is not passed to the installer; only OPENSHIFT_*, *_PROXY, \
                 TF_VAR_* and cloud variables are"
            ));
        }
    }
    warnings
}
