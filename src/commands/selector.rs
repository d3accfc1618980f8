//! Label selectors, which mean what they mean to kubectl: `a=b,a!=b,a,!a,a in (b,c),a notin (b,c)`.

use std::collections::BTreeMap;

use crate::model::refusal::Refusal;
use crate::rules;

/// Requirements on labels; all must hold.
#[derive(Clone, Debug)]
pub struct Selector(Vec<Requirement>);

/// What is required of one label.
#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    name: String,
    /// The label has one of these values. Without values, the label exists.
    values: Option<Vec<String>>,
    expectation: Expectation,
}

/// Whether a requirement asks that its test of a label holds, or that it does not, as `!=` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expectation {
    Holds,
    Fails,
}

impl Requirement {
    /// A requirement, or None if no label can have this name or one of these values. Blanks around
    /// them do not count.
    fn new(name: &str, values: Option<Vec<&str>>, expectation: Expectation) -> Option<Self> {
        let name = name.trim().to_owned();
        let values: Option<Vec<String>> =
            values.map(|values| values.iter().map(|value| value.trim().to_owned()).collect());
        let are_values_valid = values.iter().flatten().all(|value| rules::is_label_value(value));
        let is_valid = are_values_valid && rules::is_label_key(&name);
        is_valid.then_some(Self { name, values, expectation })
    }

    fn is_met_by(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.name);
        let holds = match &self.values {
            Some(values) => value.is_some_and(|value| values.contains(value)),
            None => value.is_some(),
        };
        match self.expectation {
            Expectation::Holds => holds,
            Expectation::Fails => !holds,
        }
    }
}

impl Selector {
    /// Whether nothing is required: then all labels match.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all requirements of the selector hold for these labels. An empty selector matches
    /// everything.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| requirement.is_met_by(labels))
    }
}

impl std::str::FromStr for Selector {
    type Err = Refusal;

    /// An empty selector requires nothing, as with kubectl.
    fn from_str(selector: &str) -> Result<Self, Refusal> {
        let mut requirements = Vec::new();
        if !selector.trim().is_empty() {
            for part in split_at_commas(selector) {
                let Some(requirement) = parse_requirement(part.trim()) else {
                    return Err(Refusal::usage(format!("`{selector}` is not a label selector"))
                        .next("poolctl get pool -l 'owner=ci,cloud!=aws'"));
                };
                requirements.push(requirement);
            }
        }
        Ok(Self(requirements))
    }
}

/// The parts between the commas that are not in brackets.
fn split_at_commas(selector: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut is_in_brackets = false;
    for (index, letter) in selector.char_indices() {
        match letter {
            '(' => is_in_brackets = true,
            ')' => is_in_brackets = false,
            ',' if !is_in_brackets => {
                parts.push(&selector[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&selector[start..]);
    parts
}

/// Parses one requirement, such as `a=b`, `!a` or `a in (b,c)`. None if it is spelled in no such
/// way.
fn parse_requirement(part: &str) -> Option<Requirement> {
    if let Some((head, list)) = part.strip_suffix(')').and_then(|open| open.split_once('(')) {
        let values = Some(list.split(',').collect());
        return match head.trim().strip_suffix(" notin") {
            Some(name) => Requirement::new(name, values, Expectation::Fails),
            None => Requirement::new(head.trim().strip_suffix(" in")?, values, Expectation::Holds),
        };
    }
    if let Some((name, value)) = part.split_once("!=") {
        return Requirement::new(name, Some(vec![value]), Expectation::Fails);
    }
    if let Some((name, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Requirement::new(name, Some(vec![value]), Expectation::Holds);
    }
    match part.strip_prefix('!') {
        Some(name) => Requirement::new(name, None, Expectation::Fails),
        None => Requirement::new(part, None, Expectation::Holds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_mean_what_they_mean_to_kubectl() {
        let labels: BTreeMap<String, String> =
            [("env", "ci"), ("x.io/tier", "a")].map(|(a, b)| (a.into(), b.into())).into();
        for (selector, is_matched) in [
            ("env=ci", true),
            ("env==ci,x.io/tier=a", true),
            ("env!=ci", false),
            ("other!=ci", true),
            ("env", true),
            ("!env", false),
            ("!other", true),
            ("env in (ci, prod)", true),
            ("env in (prod),x.io/tier", false),
            ("env notin (prod,dev)", true),
            ("other notin (prod)", true),
        ] {
            let parsed: Selector = selector.parse().unwrap();
            assert_eq!(parsed.matches(&labels), is_matched, "{selector}");
        }
        for wrong in ["=x", "a.b/c/d=1", "a b", "a in b", "a=b=c d", ",", "a in (b"] {
            assert!(wrong.parse::<Selector>().is_err(), "{wrong}");
        }
    }
}
