//! Checks an install-config by the rules of openshift-install, before anything is leased for it.
//! The rules are a table; this is the engine that goes through it. It reads one document, and never
//! asks a platform whether what the document names exists.

mod fields;
mod networks;
mod table;
mod values;
mod vips;

use serde_json::Value;

use crate::model::release::Release;

pub use table::{RULES, Rule};

use table::{Check, Weight};

static NULL: Value = Value::Null;

/// How a cluster is installed from an install-config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallMethod {
    /// The installer makes the machines: `openshift-install create cluster`.
    Machines,
    /// Hosts install themselves: `openshift-install agent create image`.
    Agent,
}

/// Where the addresses of API and ingress come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VipSource {
    /// The document says them, if anybody does.
    Document,
    /// They are leased later, and are not in the document yet.
    Leases,
}

/// An install-config, and what its rules depend on beside it.
#[derive(Clone, Copy, Debug)]
pub struct InstallConfig<'a> {
    pub document: &'a Value,
    /// None if it is not known: then a rule that does not hold for every release only warns.
    pub release: Option<Release>,
    pub method: InstallMethod,
    pub vips: VipSource,
}

/// A rule that an install-config breaks, in a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The id of the rule.
    pub rule: &'static str,
    /// The field, its value unless that may be secret, what is wrong, and what to write instead.
    pub message: String,
    /// Whether the installer would refuse it; else it is only said.
    pub is_refused: bool,
    /// Whether it is about the addresses of API and ingress.
    pub is_about_vips: bool,
}

/// What a check has found out about a field.
struct Finding {
    path: String,
    /// The value for people; none if it is missing, long or may be secret.
    value: Option<String>,
    why: String,
    /// What to write instead, as a clause.
    advice: String,
}

impl Finding {
    fn new(path: impl Into<String>, why: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { path: path.into(), value: None, why: why.into(), advice: advice.into() }
    }

    fn with_value(self, value: &Value) -> Self {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Self { value: Some(shown), ..self }
    }

    fn message(&self, rule: &Rule) -> String {
        let Self { path, value, why, advice } = self;
        let shown = value.as_ref().map(|value| format!(" `{value}`")).unwrap_or_default();
        format!("{path}{shown} {why}; {advice} (rule {})", rule.id)
    }
}

/// Every rule that an install-config breaks, in the order of the table.
pub fn find_problems(config: &InstallConfig<'_>) -> Vec<Problem> {
    let platform = platform_name(config.document);
    let mut problems = Vec::new();
    for rule in RULES.iter().filter(|rule| rule.is_for(config, platform)) {
        let holds_surely = rule.holds_surely(config.release);
        for finding in rule.check.find(config) {
            problems.push(Problem {
                rule: rule.id,
                message: finding.message(rule),
                is_refused: holds_surely && rule.weight == Weight::Refuses,
                is_about_vips: rule.reads_vips,
            });
        }
    }
    problems
}

impl Rule {
    /// Whether it is about the platform, the method and, if that is known, the release of a
    /// cluster.
    fn is_for(&self, config: &InstallConfig<'_>, platform: Option<&str>) -> bool {
        let is_for_platform = self.platforms.is_empty()
            || platform.is_some_and(|platform| {
                self.platforms.iter().any(|name| name.eq_ignore_ascii_case(platform))
            });
        let is_for_method = self.method.is_none_or(|method| method == config.method);
        let is_for_release = config.release.is_none_or(|release| {
            self.since.is_none_or(|since| since <= release)
                && self.until.is_none_or(|until| release <= until)
        });
        is_for_platform && is_for_method && is_for_release
    }

    /// Whether it holds for every release, or for this one.
    fn holds_surely(&self, release: Option<Release>) -> bool {
        release.is_some() || (self.since.is_none() && self.until.is_none())
    }
}

impl Check {
    fn find(&self, config: &InstallConfig<'_>) -> Vec<Finding> {
        let document = config.document;
        match self {
            Self::OneOf { path, words } => find_other_words(document, path, words),
            Self::NoneOf { path, words, advice } => find_words(document, path, words, advice),
            Self::Absent { path, advice } => select(document, path)
                .into_iter()
                .map(|(path, value)| {
                    Finding::new(path, "cannot be set here", *advice).with_value(value)
                })
                .collect(),
            Self::Value { path, find_problem, advice } => {
                find_wrong_values(document, path, *find_problem, advice)
                    .into_iter()
                    .map(|(value, finding)| finding.with_value(value))
                    .collect()
            }
            Self::HiddenValue { path, find_problem, advice } => {
                find_wrong_values(document, path, *find_problem, advice)
                    .into_iter()
                    .map(|(_, finding)| finding)
                    .collect()
            }
            Self::Document(find) => find(config),
        }
    }
}

/// Values at a path that are none of the words. An empty one is as if it were not set.
fn find_other_words(document: &Value, path: &str, words: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, value) in select(document, path) {
        if value.as_str().is_some_and(|word| !word.is_empty() && !words.contains(&word)) {
            let advice = format!("write one of {}", words.join(", "));
            findings.push(Finding::new(path, "is not supported", advice).with_value(value));
        }
    }
    findings
}

/// Values at a path that are one of the words, in any case.
fn find_words(document: &Value, path: &str, words: &[&str], advice: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, value) in select(document, path) {
        let text = value.as_str().unwrap_or_default();
        if words.iter().any(|word| word.eq_ignore_ascii_case(text)) {
            let why = "is not supported here";
            findings.push(Finding::new(path, why, advice).with_value(value));
        }
    }
    findings
}

/// The values at a path that are wrong, each with what is wrong.
fn find_wrong_values<'v>(
    document: &'v Value,
    path: &str,
    find_problem: fn(&Value) -> Option<String>,
    advice: &str,
) -> Vec<(&'v Value, Finding)> {
    let mut findings = Vec::new();
    for (path, value) in select(document, path) {
        if let Some(why) = find_problem(value) {
            findings.push((value, Finding::new(path, why, advice)));
        }
    }
    findings
}

/// The values at a path such as `compute[].name`, in which `[]` is each item of a list, with the
/// path of each. What is null is not there.
fn select<'v>(document: &'v Value, path: &str) -> Vec<(String, &'v Value)> {
    let mut selected = vec![(String::new(), document)];
    for segment in path.split('.') {
        let name = segment.trim_end_matches("[]");
        let mut below = Vec::new();
        for (parent_path, parent) in selected {
            let value = field(parent, name);
            let path = join_path(&parent_path, name);
            if segment == name {
                below.push((path, value));
                continue;
            }
            for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                below.push((format!("{path}[{index}]"), item));
            }
        }
        selected = below;
    }
    selected.retain(|(_, value)| !value.is_null());
    selected
}

fn join_path(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

/// A field by its name, or by the same name in another case, as Go reads it. Null if there is none.
fn field<'v>(value: &'v Value, name: &str) -> &'v Value {
    let Some(fields) = value.as_object() else { return &NULL };
    if let Some(field) = fields.get(name) {
        return field;
    }
    let in_other_case = fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    in_other_case.map_or(&NULL, |(_, field)| field)
}

/// The only platform of a document; none if there is not exactly one.
fn platform_name(document: &Value) -> Option<&str> {
    let platforms = field(document, "platform").as_object()?;
    let mut names = platforms.iter().filter(|(_, fields)| !fields.is_null()).map(|(name, _)| name);
    let name = names.next()?;
    names.next().is_none().then_some(name.as_str())
}

/// The fields of the only platform of a document; null if there is not exactly one.
fn platform_fields(document: &Value) -> &Value {
    platform_name(document).map_or(&NULL, |name| field(field(document, "platform"), name))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_each_item_in_any_case() {
        let document = json!({"compute": [{"Name": "a"}, {"name": null}, {"name": "c"}],
            "list": ["x", "y"]});
        let names: Vec<String> =
            select(&document, "compute[].name").into_iter().map(|(path, _)| path).collect();
        assert_eq!(names, ["compute[0].name", "compute[2].name"]);
        assert_eq!(select(&document, "list[]")[1], ("list[1]".to_owned(), &json!("y")));
        assert!(select(&document, "platform.vsphere.folder").is_empty());
    }

    #[test]
    fn every_rule_has_an_id_of_its_own_and_a_place_in_the_source_of_the_installer() {
        let mut ids = HashSet::new();
        for rule in RULES {
            assert!(ids.insert(rule.id), "{}", rule.id);
            assert!(rule.source.starts_with("pkg/"), "{}", rule.id);
            if let Some((since, until)) = rule.since.zip(rule.until) {
                assert!(since <= until, "{}", rule.id);
            }
        }
    }

    #[test]
    fn a_rule_of_some_releases_only_warns_where_the_release_is_not_known() {
        let document = json!({"apiVersion": "v1", "platform": {"none": {}},
            "networking": {"networkType": "OpenShiftSDN"}});
        for (release, expected) in [
            (Some(Release::new(4, 14)), None),
            (Some(Release::new(4, 15)), Some(true)),
            (Some(Release::new(5, 0)), Some(true)),
            (None, Some(false)),
        ] {
            let config = InstallConfig {
                document: &document,
                release,
                method: InstallMethod::Agent,
                vips: VipSource::Document,
            };
            let problems = find_problems(&config);
            let problem = problems.iter().find(|problem| problem.rule == "network-type-gone");
            assert_eq!(problem.map(|problem| problem.is_refused), expected, "{release:?}");
        }
    }
}
