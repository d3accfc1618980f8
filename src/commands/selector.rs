//! Label selectors as kubectl has them: `a=b,a!=b,a,!a,a in (b,c),a notin (b,c)`.

use std::collections::BTreeMap;

use crate::model::refusal::Refusal;
use crate::rules;

/// Requirements on labels; all must hold.
#[derive(Clone, Debug)]
pub struct Selector(Vec<Requirement>);

/// A label, the values it may have (any without), and whether that must hold or must not.
#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    name: String,
    values: Option<Vec<String>>,
    holds: bool,
}

impl Selector {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::str::FromStr for Selector {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let part = |part: &str| {
            requirement(part.trim()).ok_or_else(|| {
                Refusal::usage(format!("`{text}` is not a label selector"))
                    .next("poolctl get pool -l 'owner=ci,cloud!=aws'")
            })
        };
        if text.trim().is_empty() {
            // As with kubectl: nothing is asked of anything.
            return Ok(Self(Vec::new()));
        }
        parts(text).into_iter().map(part).collect::<Result<_, _>>().map(Self)
    }
}

/// What stands between the commas that are not in brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => inside = true,
            ')' => inside = false,
            ',' if !inside => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn requirement(text: &str) -> Option<Requirement> {
    let of = |name: &str, values: Option<Vec<&str>>, holds| {
        let values: Option<Vec<String>> =
            values.map(|all| all.iter().map(|one| one.trim().to_owned()).collect());
        let usable = |one: &String| rules::label_value(one);
        let fine = rules::label_key(name.trim())
            && values.as_ref().is_none_or(|all| all.iter().all(usable));
        fine.then(|| Requirement { name: name.trim().to_owned(), values, holds })
    };
    if let Some((name, list)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let values = Some(list.split(',').collect());
        let name = name.trim();
        return match name.strip_suffix(" notin") {
            Some(name) => of(name, values, false),
            None => of(name.strip_suffix(" in")?, values, true),
        };
    }
    if let Some((name, value)) = text.split_once("!=") {
        return of(name, Some(vec![value]), false);
    }
    if let Some((name, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return of(name, Some(vec![value]), true);
    }
    match text.strip_prefix('!') {
        Some(name) => of(name, None, false),
        None => of(text, None, true),
    }
}

impl Selector {
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|one| {
            let found = labels.get(&one.name);
            let fits = match &one.values {
                Some(values) => found.is_some_and(|found| values.contains(found)),
                None => found.is_some(),
            };
            fits == one.holds
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_mean_what_they_mean_to_kubectl() {
        let labels: BTreeMap<String, String> =
            [("env", "ci"), ("x.io/tier", "a")].map(|(a, b)| (a.into(), b.into())).into();
        for (text, matches) in [
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
            let selector: Selector = text.parse().unwrap();
            assert_eq!(selector.matches(&labels), matches, "{text}");
        }
        for wrong in ["=x", "a.b/c/d=1", "a b", "a in b", "a=b=c d", ",", "a in (b"] {
            assert!(wrong.parse::<Selector>().is_err(), "{wrong}");
        }
    }
}
