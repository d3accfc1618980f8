//! What the types of an object's fields do not say.

use std::collections::HashSet;

use crate::model::documents::Settings;
use crate::model::ip_pool::{NODES_FROM, VIPS_FROM};
use crate::model::kinds::Kind;
use crate::model::object::Object;
use crate::model::pool::ClusterPool;
use crate::model::refusal::Refusal;

use super::names::{installer_variable, label, label_key, label_value, name_of};
use super::{
    addresses, agents, annotations, data_templates, hosts, infra_envs, patches, selectors,
};

/// More than any lab has; what is beyond is a slip.
const LARGEST_POOL: u32 = 100_000;

const PASSWORD: &str = "spec.platform has a password in plain sight; it belongs into the Secret of credentialsSecretRef";

fn labels(object: &Object) -> Result<(), Refusal> {
    let labels = object.meta().map(|meta| &meta.labels).into_iter();
    let copied =
        if let Object::ClusterPool(pool) = object { Some(&pool.spec.labels) } else { None };
    for (name, value) in labels.chain(copied).flatten() {
        if !label_key(name) || !label_value(value) {
            let why = "letters, digits, dashes, dots and underscores make one, at most 63";
            let what = format!("`{name}: {value}` is not a label");
            return Err(refuse(object.kind(), &object.key().name, &what).because(why));
        }
    }
    Ok(())
}

/// Refuses an object that cannot be meant.
pub fn check(object: &Object) -> Result<(), Refusal> {
    let (kind, key) = (object.kind(), object.key());
    name_of(kind, &key.name)?;
    if kind.namespaced() {
        label("a namespace", &key.namespace)?;
    }
    labels(object)?;
    match object {
        Object::ClusterPool(pool) if !differ(&pool.vips_from()) => {
            let why = format!("annotation {VIPS_FROM} is no list of different IPPools");
            Err(refuse(kind, &key.name, &why))
        }
        Object::ClusterPool(pool) if !differ(&pool.nodes_from()) => {
            let why = format!("annotation {NODES_FROM} is no list of different IPPools");
            Err(refuse(kind, &key.name, &why))
        }
        Object::ClusterPool(pool) => check_pool(pool),
        Object::ClusterClaim(claim) if claim.lifetime.is_some_and(|span| span.0 == 0) => {
            Err(refuse(kind, &key.name, "spec.lifetime is no time at all"))
        }
        Object::ClusterClaim(claim) if claim.pool.is_empty() => {
            Err(refuse(kind, &key.name, "spec.clusterPoolName is missing"))
        }
        Object::ClusterDeployment(cluster) => {
            for (field, value) in
                [("clusterName", &cluster.cluster_name), ("baseDomain", &cluster.base_domain)]
            {
                if value.is_empty() {
                    return Err(refuse(kind, &key.name, &format!("spec.{field} is missing")));
                }
            }
            if cluster.body.as_ref().is_some_and(|body| body.spec.platform.has_password()) {
                return Err(refuse(kind, &key.name, PASSWORD));
            }
            let steering = cluster.body.as_ref().map(|body| &body.metadata.annotations);
            let steering = steering.map_or(Ok(()), |steering| annotations::check(kind, steering));
            steering.map_err(|why| refuse(kind, &key.name, &why))
        }
        Object::DataTemplate(one) => {
            all_of(kind, &key.name, data_templates::check(one).err().unwrap_or_default())
        }
        Object::InfraEnv(one) => all_of(kind, &key.name, infra_envs::check(one)),
        Object::Agent(one) => all_of(kind, &key.name, agents::check(one)),
        Object::NMStateConfig(one) => all_of(kind, &key.name, infra_envs::check_network(one)),
        Object::IpPool(one) => all_of(kind, &key.name, addresses::check_pool(one)),
        Object::IpClaim(one) => all_of(kind, &key.name, addresses::check_claim(one)),
        Object::IpAddress(one) => all_of(kind, &key.name, addresses::check_lease(one)),
        Object::BareMetalHost(one) => {
            hosts::check(one).map_err(|why| refuse(kind, &key.name, &why))
        }
        Object::RoleBinding(one) if one.subjects.iter().any(|one| one.name.is_empty()) => {
            Err(refuse(kind, &key.name, "a subject has no name"))
        }
        Object::Customization(one) => {
            patches::check(one).map_err(|why| refuse(kind, &key.name, &why))
        }
        Object::Settings(one) => all_of(kind, &key.name, settings(one)),
        Object::ClusterImageSet(one) if one.spec.release_image.is_empty() => {
            Err(refuse(kind, &key.name, "spec.releaseImage is empty"))
        }
        _ => Ok(()),
    }
}

fn settings(one: &Settings) -> Vec<String> {
    let spec = &one.spec;
    let relative = spec.iso_directory.as_ref().is_some_and(|path| !path.is_absolute());
    let elsewhere = spec.iso_url.as_ref().is_some_and(|text| {
        let url = url::Url::parse(text);
        !url.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
    });
    let nameless = spec
        .admins
        .iter()
        .flat_map(|admins| admins.users.iter().chain(&admins.groups))
        .any(String::is_empty);
    let all = [
        (one.metadata.name != "default", "the one Settings object is named `default`"),
        (
            spec.keep_events_days.is_some_and(|days| days > 36_500),
            "spec.keepEventsDays is more than a hundred years",
        ),
        (spec.max_jobs == Some(0), "spec.maxJobs 0 would let no job begin"),
        (relative, "spec.isoDirectory is no absolute path"),
        (elsewhere, "spec.isoURL is no address by http or https"),
        (nameless, "spec.admins has an empty name"),
    ];
    all.into_iter().filter(|(wrong, _)| *wrong).map(|(_, why)| why.to_owned()).collect()
}

fn refuse(kind: Kind, name: &str, why: &str) -> Refusal {
    Refusal::invalid(format!("{} `{name}`: {why}", kind.name()))
}

/// Names of IPPools, none of them twice.
fn differ(names: &[&str]) -> bool {
    let distinct: HashSet<&&str> = names.iter().collect();
    distinct.len() == names.len() && names.iter().all(|one| label("an IPPool", one).is_ok())
}

/// Every problem at once.
fn all_of(kind: Kind, name: &str, wrong: Vec<String>) -> Result<(), Refusal> {
    match &wrong[..] {
        [] => Ok(()),
        [only] => Err(refuse(kind, name, only)),
        _ => Err(Refusal::of_problems(format!("{} `{name}`", kind.name()), wrong)),
    }
}

fn check_pool(pool: &ClusterPool) -> Result<(), Refusal> {
    let wrong = |why: &str| Err(refuse(Kind::ClusterPool, &pool.metadata.name, why));
    let platforms = pool.spec.platform.names();
    if platforms.len() != 1 {
        let found = if platforms.is_empty() { "none".into() } else { platforms.join(", ") };
        return wrong(&format!("spec.platform needs exactly one platform; it has {found}"));
    }
    if pool.spec.platform.has_password() {
        return wrong(PASSWORD);
    }
    all_of(Kind::ClusterPool, &pool.metadata.name, selectors::of_platform(&pool.spec.platform))?;
    let clouds = [&pool.spec.platform.aws, &pool.spec.platform.azure, &pool.spec.platform.gcp];
    if clouds.into_iter().flatten().any(|cloud| cloud.region.is_empty()) {
        return wrong(&format!("spec.platform.{}.region is missing", platforms[0]));
    }
    if pool.spec.size > LARGEST_POOL {
        return wrong(&format!("spec.size is {}, and {LARGEST_POOL} is the most", pool.spec.size));
    }
    annotations::check(Kind::ClusterPool, &pool.metadata.annotations).or_else(|why| wrong(&why))?;
    annotations::check(Kind::ClusterDeployment, &pool.spec.annotations)
        .or_else(|why| wrong(&why))?;
    let domain = &pool.spec.base_domain;
    if domain.split('.').any(|part| label("a domain", part).is_err()) {
        return wrong(&format!("spec.baseDomain `{domain}` is not a domain"));
    }
    if pool.spec.image_set_ref.name.is_empty() {
        return wrong("spec.imageSetRef.name is missing");
    }
    let Some(inventory) = &pool.spec.inventory else {
        return Ok(());
    };
    if inventory.is_empty() {
        return wrong("spec.inventory is empty; leave it out for a pool without customizations");
    }
    let mut seen = HashSet::new();
    for entry in inventory {
        if !matches!(entry.kind.as_str(), "" | "ClusterDeploymentCustomization") {
            let kind = &entry.kind;
            return wrong(&format!(
                "spec.inventory has an entry of kind `{kind}`, not ClusterDeploymentCustomization"
            ));
        }
        label("the name of an inventory entry", &entry.name)?;
        if !seen.insert(&entry.name) {
            return wrong(&format!("spec.inventory lists `{}` twice", entry.name));
        }
    }
    Ok(())
}

/// What is accepted but worth a word.
pub fn warnings(object: &Object) -> Vec<String> {
    let mut found = annotations::warnings(object);
    match object {
        Object::Secret(one) if one.data.is_none() && one.string_data.is_none() => {
            let name = &one.metadata.name;
            found.push(format!("secret `{name}` brings no values; those in the state stay"));
        }
        Object::ClusterPool(one) if one.spec.install_attempts_limit == Some(0) => {
            let name = &one.metadata.name;
            found.push(format!("pool `{name}`: installAttemptsLimit 0 counts as 1"));
        }
        Object::Customization(one) => found.extend(patches::warnings(one)),
        Object::BareMetalHost(one) => found.extend(hosts::warnings(one)),
        Object::Agent(one) => found.extend(agents::warning(one)),
        Object::IpPool(one) => found.extend(addresses::warnings(one)),
        Object::InfraEnv(one) => found.extend(infra_envs::warnings(one)),
        _ => {}
    }
    if let Object::ClusterPool(one) = object {
        let all = one.spec.installer_env.iter().filter(|one| !installer_variable(&one.name));
        let text = |name: &String| {
            format!(
                "installerEnv {name} is not passed on: not OPENSHIFT_*, *_PROXY, TF_VAR_* or a cloud's"
            )
        };
        found.extend(all.map(|one| text(&one.name)));
    }
    found
}
