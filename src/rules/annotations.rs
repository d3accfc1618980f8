//! Annotations of our own: which there are, where, and what they may say.

use std::collections::BTreeMap;

use crate::model::agent::OWNER;
use crate::model::cluster::INSTALL_TIMEOUT;
use crate::model::driver::{
    DRIVER, EXEC, FAKE_DEPROVISION_DURATION, FAKE_FAIL_EVERY, FAKE_HEALTH, FAKE_HEALTHS,
    FAKE_INSTALL_DURATION, FAKE_RESUME_DURATION, FAKE_STOP_DURATION, POWER, is_driver_name,
};
use crate::model::host::wipe::WIPE;
use crate::model::ip_pool::{NODES_FROM, VIPS_FROM};
use crate::model::meta::Meta;
use crate::model::object::Object;
use crate::model::pool::{ALLOWED_PATHS, REFRESH, STRICT_PATCHES, WAKE_NEXT_AFTER};
use crate::model::refusal::nearest;
use crate::model::schedule::SCHEDULE;
use crate::model::time::Span;

use super::addresses;
use super::hosts::NOTES;
use super::validations::{IGNORED, ignored_problem};

const OURS: &str = "poolctl.dev/";
/// On a pool.
const POOL: [&str; 7] =
    [REFRESH, SCHEDULE, STRICT_PATCHES, ALLOWED_PATHS, VIPS_FROM, NODES_FROM, WAKE_NEXT_AFTER];
/// On a cluster, and among a pool's spec.annotations, which its clusters get.
const CLUSTER: [&str; 11] = [
    VIPS_FROM,
    NODES_FROM,
    DRIVER,
    POWER,
    INSTALL_TIMEOUT,
    FAKE_HEALTH,
    FAKE_INSTALL_DURATION,
    FAKE_RESUME_DURATION,
    FAKE_STOP_DURATION,
    FAKE_DEPROVISION_DURATION,
    FAKE_FAIL_EVERY,
];

/// The annotations that steer a cluster.
pub fn check(annotations: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in annotations {
        if name == IGNORED
            && let Some(why) = ignored_problem(value)
        {
            return Err(why);
        }
        if name == INSTALL_TIMEOUT {
            let limit = value.parse::<Span>();
            let limit = limit.map_err(|why| format!("annotation {name}: `{value}`: {why}"))?;
            if limit.0 == 0 {
                return Err(format!("annotation {name}: no installation is over in {value}"));
            }
        }
        if name == DRIVER || name == POWER {
            let own = value.strip_prefix(EXEC).is_some_and(is_driver_name);
            let known: &[&str] =
                if name == DRIVER { &["fake", "openshift-install", "agent"] } else { &["none"] };
            if !own && !known.contains(&&**value) {
                let known = known.join(", ");
                return Err(format!("annotation {name} is `{value}`, not {known} or exec:NAME"));
            }
        }
        if name == FAKE_HEALTH && !FAKE_HEALTHS.contains(&&**value) {
            let known = FAKE_HEALTHS.join(", ");
            return Err(format!("annotation {name} is `{value}`, not one of {known}"));
        }
        let checked = match name.as_str() {
            FAKE_FAIL_EVERY => value.parse::<u32>().map(drop).map_err(|_| "is not a number".into()),
            FAKE_INSTALL_DURATION
            | FAKE_RESUME_DURATION
            | FAKE_STOP_DURATION
            | FAKE_DEPROVISION_DURATION => value.parse::<Span>().map(drop),
            _ => Ok(()),
        };
        checked.map_err(|why| format!("annotation {name}: `{value}`: {why}"))?;
    }
    Ok(())
}

/// The annotations that steer a pool itself.
pub fn check_pool(annotations: &BTreeMap<String, String>) -> Result<(), String> {
    let Some(value) = annotations.get(WAKE_NEXT_AFTER) else { return Ok(()) };
    match value.parse::<Span>() {
        Ok(span) if span.0 > 0 => Ok(()),
        Ok(_) => Err(format!("annotation {WAKE_NEXT_AFTER}: no cluster wakes in {value}")),
        Err(why) => Err(format!("annotation {WAKE_NEXT_AFTER}: `{value}`: {why}")),
    }
}

/// The annotation that was meant by one that is not known. What all of them begin with is left out
/// of the comparison, or every name would be like every other.
fn nearest_annotation(wrong: &str, known: &[&str]) -> Option<String> {
    let known = known.iter().filter_map(|name| name.strip_prefix(OURS));
    let near = nearest(wrong.strip_prefix(OURS)?, known)?;
    Some(format!("; did you mean `{OURS}{near}`?"))
}

/// Annotations of our own that have no effect where they stand.
pub fn warnings(object: &Object) -> Vec<String> {
    let name = object.key().name;
    let idle = |all: &BTreeMap<String, String>, known: &[&str], elsewhere: &[&str], place: &str| {
        let unknown = all.keys().filter(|one| one.starts_with(OURS) && !known.contains(&&***one));
        let text = |one: &String| {
            let hint = if elsewhere.contains(&&**one) {
                format!("; it belongs into {place}")
            } else {
                nearest_annotation(one, known).unwrap_or_default()
            };
            format!("`{name}`: annotation {one} has no effect here{hint}")
        };
        unknown.map(text).collect::<Vec<_>>()
    };
    let own = |meta: &Meta| meta.annotations.clone();
    match object {
        Object::ClusterPool(one) => {
            let mut found = idle(&own(&one.metadata), &POOL, &CLUSTER, "spec.annotations");
            found.extend(idle(&one.spec.annotations, &CLUSTER, &POOL, "metadata.annotations"));
            found
        }
        Object::ClusterDeployment(one) => {
            let all = one.body.as_ref().map(|body| own(&body.metadata)).unwrap_or_default();
            idle(&all, &CLUSTER, &POOL, "the pool")
        }
        Object::BareMetalHost(one) => idle(&own(&one.metadata), &NOTES, &[], ""),
        Object::IpPool(one) => idle(&own(&one.metadata), &addresses::NOTES, &[], ""),
        Object::InfraEnv(one) => idle(&own(&one.metadata), &[OWNER, WIPE], &[], ""),
        _ => Vec::new(),
    }
}
