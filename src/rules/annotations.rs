//! Validates poolctl's own annotations as `model/annotations.rs` declares them: refuses values that
//! they cannot have, and warns of those that have no effect on an object of that kind. Never looks
//! at annotations of other programs, except for the list of validations that a cluster ignores.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::model::annotations::{Annotation, AnnotationValue, PREFIX};
use crate::model::cluster::DELETE_AFTER;
use crate::model::driver::{Driver, PROGRAM_PREFIX, is_driver_name};
use crate::model::hardware::check_mac_address;
use crate::model::host::parse_certificate_pin;
use crate::model::ip_pool::{EVERY_NAMESPACE, SupplyLimit};
use crate::model::kinds::Kind;
use crate::model::meta::is_go_bool;
use crate::model::object::Object;
use crate::model::pool::split_pointers;
use crate::model::refusal::nearest_name;
use crate::model::schedule::Schedule;
use crate::model::time::{Span, Time};

use super::names::check_dns_label;
use super::names::check_dns_name;
use super::names::is_label_key;
use super::validations::{IGNORED, ignored_problem};

/// The last cipher suite that IPMI 2.0 numbers.
const LAST_CIPHER_SUITE: u8 = 17;

/// Refuses the first annotation with a value that it cannot have on an object of this kind. A pool's
/// `spec.annotations` are copied to its clusters, so they are checked with `ClusterDeployment`.
pub fn check(kind: Kind, annotations: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in annotations {
        if kind == Kind::ClusterDeployment
            && name == IGNORED
            && let Some(why) = ignored_problem(value)
        {
            return Err(why);
        }
        check_value(kind, name, value)?;
    }
    Ok(())
}

/// What is wrong with Hive's annotations of an object, or of the clusters that a pool makes: a time
/// that cannot be read, after which the cluster would not be deleted.
pub fn find_hive_problem(object: &Object) -> Option<String> {
    let annotations = match object {
        Object::ClusterPool(pool) => &pool.spec.annotations,
        Object::ClusterDeployment(cluster) => &cluster.body.as_ref()?.metadata.annotations,
        _ => return None,
    };
    let why = annotations.get(DELETE_AFTER)?.parse::<Span>().err()?;
    let kind = object.kind().name();
    Some(format!("{kind} `{}`: annotation {DELETE_AFTER}: {why}", object.key().name))
}

/// Refuses a value that an annotation cannot have on an object of this kind. Any value is accepted
/// of an annotation that is not declared for the kind.
pub fn check_value(kind: Kind, name: &str, value: &str) -> Result<(), String> {
    let Some(annotation) = Annotation::find(kind, name) else { return Ok(()) };
    match find_value_problem(kind, annotation.value, value) {
        Some(problem) => Err(format!("annotation {name}{problem}")),
        None => Ok(()),
    }
}

/// What is wrong with a value, worded so that it follows the annotation's name.
fn find_value_problem(kind: Kind, expected: AnnotationValue, value: &str) -> Option<String> {
    match expected {
        // Names of IPPools and ranges are checked with the object that they belong to.
        AnnotationValue::Text
        | AnnotationValue::Presence
        | AnnotationValue::IpPools
        | AnnotationValue::Ranges => None,
        AnnotationValue::Bool => {
            (!is_go_bool(value)).then(|| describe_mismatch(kind, value, expected))
        }
        AnnotationValue::Word(words) | AnnotationValue::OneOf(words) => {
            (!words.contains(&value)).then(|| describe_mismatch(kind, value, expected))
        }
        AnnotationValue::WordOrProgram(words) => {
            let is_known = words.contains(&value) || is_driver_program(value);
            (!is_known).then(|| describe_mismatch(kind, value, expected))
        }
        AnnotationValue::Driver => {
            let is_known = Driver::annotation_words().contains(&value) || is_driver_program(value);
            (!is_known).then(|| describe_mismatch(kind, value, expected))
        }
        AnnotationValue::Number => {
            value.parse::<u32>().is_err().then(|| format!(": `{value}` is not a number"))
        }
        AnnotationValue::Duration => value.parse::<Span>().err().map(|why| format!(": {why}")),
        AnnotationValue::DurationLike(example) => {
            let is_duration = value.parse::<Span>().is_ok();
            (!is_duration).then(|| format!(": `{value}` is not a duration like {example}"))
        }
        AnnotationValue::DurationUpTo(longest) => {
            let limit = longest.parse::<Span>().unwrap_or_default();
            let is_within_limit = value.parse::<Span>().is_ok_and(|span| span <= limit);
            (!is_within_limit).then(|| format!(": `{value}` is not a duration up to {longest}"))
        }
        AnnotationValue::DurationAboveZero { zero } => match value.parse::<Span>() {
            Ok(span) if span.0 > 0 => None,
            Ok(_) => Some(format!(": {zero} {value}")),
            Err(why) => Some(format!(": {why}")),
        },
        AnnotationValue::Fingerprint => parse_certificate_pin(value)
            .is_none()
            .then(|| format!(": `{value}` is not a SHA-256, which has 64 hexadecimal digits")),
        AnnotationValue::CipherSuite => find_cipher_suite_problem(value),
        AnnotationValue::Pointers => find_pointers_problem(value),
        AnnotationValue::JsonObject => {
            let parsed = serde_json::from_str::<Map<String, Value>>(value);
            parsed.err().map(|error| format!(" is no JSON object: {error}"))
        }
        AnnotationValue::Namespaces => find_namespaces_problem(value),
        AnnotationValue::DnsNames => find_dns_names_problem(value),
        AnnotationValue::Mac => {
            let why = check_mac_address(&value.replace('-', ":")).err();
            why.map(|why| format!(": {why}"))
        }
        AnnotationValue::Instant => value.parse::<Time>().err().map(|why| format!(": {why}")),
        AnnotationValue::CountOrPercent => value
            .parse::<SupplyLimit>()
            .is_err()
            .then(|| format!(": `{value}` is neither a number nor a percentage like 10%")),
        AnnotationValue::LabelKey => {
            (!is_label_key(value)).then(|| describe_mismatch(kind, value, expected))
        }
        AnnotationValue::Schedule => {
            let result = value.parse::<Schedule>().and_then(|schedule| schedule.check());
            result.err().map(|why| format!(": {why}"))
        }
    }
}

fn find_cipher_suite_problem(value: &str) -> Option<String> {
    let is_suite = value.parse::<u8>().is_ok_and(|suite| suite <= LAST_CIPHER_SUITE);
    (!is_suite).then(|| format!(": `{value}` is not a cipher suite from 0 to {LAST_CIPHER_SUITE}"))
}

/// Whether the value is `exec:NAME` with a name that a driver may have.
fn is_driver_program(value: &str) -> bool {
    value.strip_prefix(PROGRAM_PREFIX).is_some_and(is_driver_name)
}

/// Names the value and what is expected instead. The messages about pools and clusters are worded
/// differently from those about other kinds.
fn describe_mismatch(kind: Kind, value: &str, expected: AnnotationValue) -> String {
    let expected = expected.describe();
    match kind {
        Kind::ClusterPool | Kind::ClusterDeployment => format!(" is `{value}`, not {expected}"),
        _ => format!(": `{value}` is not {expected}"),
    }
}

/// What is wrong with a list of JSON pointers, as the end of a sentence that begins with the
/// annotation.
fn find_pointers_problem(value: &str) -> Option<String> {
    for path in split_pointers(value) {
        if !path.starts_with('/') || path == "/" {
            return Some(format!(": `{path}` is not a path like /metadata/name"));
        }
    }
    let is_empty = split_pointers(value).next().is_none();
    is_empty.then(|| " names no path; remove the annotation to allow all paths".to_owned())
}

/// The first of several names that cannot be one in DNS.
fn find_dns_names_problem(value: &str) -> Option<String> {
    for name in value.split(',').map(str::trim) {
        if let Err(refusal) = check_dns_name("a name in DNS", name) {
            return Some(format!(": {}", refusal.what));
        }
    }
    None
}

/// What is wrong with a list of namespaces, as the end of a sentence that begins with the
/// annotation.
fn find_namespaces_problem(value: &str) -> Option<String> {
    if value.trim() == EVERY_NAMESPACE {
        return None;
    }
    for name in value.split(',').map(str::trim) {
        if name == EVERY_NAMESPACE {
            return Some(format!(": `{EVERY_NAMESPACE}` stands alone"));
        }
        if let Err(refusal) = check_dns_label("a namespace", name) {
            return Some(format!(": {}", refusal.what));
        }
    }
    None
}

/// Warns of poolctl's own annotations that have no effect where they stand.
pub fn warnings(object: &Object) -> Vec<String> {
    let elsewhere = match object {
        Object::ClusterPool(_) => Some((Kind::ClusterDeployment, "spec.annotations")),
        Object::ClusterDeployment(_) => Some((Kind::ClusterPool, "the pool")),
        Object::BareMetalHost(_) | Object::IpPool(_) | Object::InfraEnv(_) => None,
        _ => return Vec::new(),
    };
    let name = object.key().name;
    let mut warnings = Vec::new();
    if let Some(meta) = object.meta() {
        warnings.extend(warn_of_idle_annotations(
            &name,
            object.kind(),
            &meta.annotations,
            elsewhere,
        ));
    }
    if let Object::ClusterPool(pool) = object {
        let elsewhere = Some((Kind::ClusterPool, "metadata.annotations"));
        let annotations = &pool.spec.annotations;
        warnings.extend(warn_of_idle_annotations(
            &name,
            Kind::ClusterDeployment,
            annotations,
            elsewhere,
        ));
    }
    warnings
}

/// A warning for each of poolctl's annotations that is not declared for the kind. `elsewhere` is the
/// kind that it may be declared for instead, and where an annotation of that kind belongs.
fn warn_of_idle_annotations(
    object_name: &str,
    kind: Kind,
    annotations: &BTreeMap<String, String>,
    elsewhere: Option<(Kind, &str)>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for name in annotations.keys() {
        if !name.starts_with(PREFIX) || Annotation::find(kind, name).is_some() {
            continue;
        }
        let hint = match elsewhere {
            Some((other_kind, place)) if Annotation::find(other_kind, name).is_some() => {
                format!("; it belongs in {place}")
            }
            _ => suggest_annotation(kind, name).unwrap_or_default(),
        };
        warnings.push(format!("`{object_name}`: annotation {name} has no effect here{hint}"));
    }
    warnings
}

/// Suggests the annotation that was probably meant. The prefix that all of them share is left out
/// of the comparison, or every name would be similar to every other.
fn suggest_annotation(kind: Kind, name: &str) -> Option<String> {
    let candidates =
        Annotation::of_kind(kind).filter_map(|annotation| annotation.name.strip_prefix(PREFIX));
    let candidate = nearest_name(name.strip_prefix(PREFIX)?, candidates)?;
    Some(format!("; did you mean `{PREFIX}{candidate}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::annotations::{OVERLAP, WAKE_NEXT_AFTER};

    #[test]
    fn what_is_neither_true_nor_false_switches_nothing_on_or_off() {
        for value in ["true", "TRUE", "1", "false", "0"] {
            assert_eq!(check_value(Kind::IpPool, OVERLAP, value), Ok(()));
        }
        for value in ["yes", "on", "", " true"] {
            let refusal = check_value(Kind::IpPool, OVERLAP, value).unwrap_err();
            assert!(refusal.ends_with(&format!("`{value}` is not true or false")), "{refusal}");
        }
    }

    #[test]
    fn a_wrong_duration_is_named_once() {
        let refusal = check_value(Kind::ClusterPool, WAKE_NEXT_AFTER, "soon").unwrap_err();
        assert_eq!(refusal.matches("`soon`").count(), 1, "{refusal}");
    }
}
