//! Refuses what annotations of poolctl's own cannot mean, and warns of those that have no effect
//! where they stand. Which there are, on which kinds, is declared in `model/annotations.rs`.

use std::collections::BTreeMap;

use crate::model::annotations::{Annotation, AnnotationValue, PREFIX};
use crate::model::driver::{EXEC, is_driver_name};
use crate::model::host::pin_of;
use crate::model::kinds::Kind;
use crate::model::meta::is_bool;
use crate::model::object::Object;
use crate::model::pool::pointers;
use crate::model::refusal::nearest;
use crate::model::schedule::Schedule;
use crate::model::time::Span;

use super::validations::{IGNORED, ignored_problem};

/// IPMI 2.0 numbers its suites up to this.
const LAST_CIPHER_SUITE: u8 = 17;

/// Refuses the first annotation that an object of this kind cannot have. What is in a pool's
/// `spec.annotations` is of its clusters, and is checked as theirs.
pub fn check(kind: Kind, annotations: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in annotations {
        if kind == Kind::ClusterDeployment
            && name == IGNORED
            && let Some(why) = ignored_problem(value)
        {
            return Err(why);
        }
        check_one(kind, name, value)?;
    }
    Ok(())
}

/// Refuses an annotation that says what it cannot say. Those of others are not looked at.
pub fn check_one(kind: Kind, name: &str, value: &str) -> Result<(), String> {
    let problem = Annotation::find(kind, name)
        .and_then(|annotation| value_problem(kind, annotation.value, value));
    match problem {
        Some(problem) => Err(format!("annotation {name}{problem}")),
        None => Ok(()),
    }
}

/// What is wrong with a value, as it is said after the annotation's name.
fn value_problem(kind: Kind, expected: AnnotationValue, value: &str) -> Option<String> {
    match expected {
        // IPPools and ranges are checked with the rest of their object.
        AnnotationValue::Text
        | AnnotationValue::Presence
        | AnnotationValue::Flag
        | AnnotationValue::IpPools
        | AnnotationValue::Ranges => None,
        AnnotationValue::Bool => {
            (!is_bool(value)).then(|| is_not(kind, value, &expected.expected()))
        }
        AnnotationValue::Word(words) | AnnotationValue::OneOf(words) => {
            (!words.contains(&value)).then(|| is_not(kind, value, &expected.expected()))
        }
        AnnotationValue::WordOrProgram(words) => {
            let is_program = value.strip_prefix(EXEC).is_some_and(is_driver_name);
            let is_known = is_program || words.contains(&value);
            (!is_known).then(|| is_not(kind, value, &expected.expected()))
        }
        AnnotationValue::Number => {
            value.parse::<u32>().is_err().then(|| format!(": `{value}`: is not a number"))
        }
        AnnotationValue::Duration => {
            value.parse::<Span>().err().map(|why| format!(": `{value}`: {why}"))
        }
        AnnotationValue::DurationLike(example) => {
            let is_wrong = value.parse::<Span>().is_err();
            is_wrong.then(|| format!(": `{value}` is no duration like {example}"))
        }
        AnnotationValue::DurationUpTo(longest) => {
            let limit = longest.parse::<Span>().unwrap_or_default();
            let is_short = value.parse::<Span>().is_ok_and(|span| span <= limit);
            (!is_short).then(|| format!(": `{value}` is no duration up to {longest}"))
        }
        AnnotationValue::DurationAboveZero { zero } => match value.parse::<Span>() {
            Ok(span) if span.0 > 0 => None,
            Ok(_) => Some(format!(": {zero} {value}")),
            Err(why) => Some(format!(": `{value}`: {why}")),
        },
        AnnotationValue::Fingerprint => pin_of(value)
            .is_none()
            .then(|| format!(": `{value}` is no SHA-256: 64 hexadecimal digits make one")),
        AnnotationValue::CipherSuite => {
            let is_suite = value.parse::<u8>().is_ok_and(|suite| suite <= LAST_CIPHER_SUITE);
            (!is_suite)
                .then(|| format!(": `{value}` is no cipher suite from 0 to {LAST_CIPHER_SUITE}"))
        }
        AnnotationValue::Pointers => pointers_problem(value),
        AnnotationValue::Schedule => {
            let checked = value.parse::<Schedule>().and_then(|schedule| schedule.check());
            checked.err().map(|why| format!(": {why}"))
        }
    }
}

/// That a value is none of those which are expected, in the words for its kind.
fn is_not(kind: Kind, value: &str, expected: &str) -> String {
    match kind {
        Kind::ClusterPool | Kind::ClusterDeployment => format!(" is `{value}`, not {expected}"),
        _ => format!(": `{value}` is not {expected}"),
    }
}

fn pointers_problem(value: &str) -> Option<String> {
    if let Some(other) = pointers(value).find(|path| !path.starts_with('/') || *path == "/") {
        return Some(format!(": `{other}` is no path like /metadata/name"));
    }
    let is_empty = pointers(value).next().is_none();
    is_empty.then(|| " names no path; leave it out to allow all".to_owned())
}

/// Annotations of our own that have no effect where they stand.
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
        warnings.extend(idle_annotations(&name, object.kind(), &meta.annotations, elsewhere));
    }
    if let Object::ClusterPool(pool) = object {
        let elsewhere = Some((Kind::ClusterPool, "metadata.annotations"));
        let annotations = &pool.spec.annotations;
        warnings.extend(idle_annotations(&name, Kind::ClusterDeployment, annotations, elsewhere));
    }
    warnings
}

/// A warning for each annotation of ours that a kind cannot carry; `elsewhere` is the kind that
/// may carry it instead, and where.
fn idle_annotations(
    object: &str,
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
                format!("; it belongs into {place}")
            }
            _ => nearest_annotation(kind, name).unwrap_or_default(),
        };
        warnings.push(format!("`{object}`: annotation {name} has no effect here{hint}"));
    }
    warnings
}

/// The annotation that was meant by one that is not known. What all of them begin with is left out
/// of the comparison, or every name would be like every other.
fn nearest_annotation(kind: Kind, wrong: &str) -> Option<String> {
    let names = Annotation::of_kind(kind).filter_map(|known| known.name.strip_prefix(PREFIX));
    let name = nearest(wrong.strip_prefix(PREFIX)?, names)?;
    Some(format!("; did you mean `{PREFIX}{name}`?"))
}
