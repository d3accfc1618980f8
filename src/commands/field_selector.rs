//! Field selectors, as kubectl writes them: `metadata.name=lab,status.powerState!=Running`. Here they
//! may name any field.

use serde_json::Value;

use crate::model::refusal::Refusal;
use crate::output;

/// Requirements on fields; all must hold.
#[derive(Clone, Debug)]
pub struct FieldSelector(Vec<Requirement>);

#[derive(Clone, Debug)]
struct Requirement {
    /// A path such as `.metadata.name`.
    path: String,
    value: String,
    is_excluded: bool,
}

impl std::str::FromStr for FieldSelector {
    type Err = Refusal;

    fn from_str(selector: &str) -> Result<Self, Refusal> {
        let mut requirements = Vec::new();
        for part in selector.split(',').filter(|part| !part.trim().is_empty()) {
            let Some((path, value)) = part.split_once('=') else {
                return Err(Refusal::usage(format!("`{selector}` is not a field selector"))
                    .next("poolctl get pool --field-selector metadata.name=lab"));
            };
            let is_excluded = path.ends_with('!');
            requirements.push(Requirement {
                path: format!(".{}", path.trim_end_matches('!').trim().trim_start_matches('.')),
                value: value.trim_start_matches('=').trim().to_owned(),
                is_excluded,
            });
        }
        Ok(Self(requirements))
    }
}

impl FieldSelector {
    /// Whether all required fields of a document have their values. A field that is missing counts
    /// as empty.
    pub fn matches(&self, document: &Value) -> Result<bool, Refusal> {
        for requirement in &self.0 {
            let values = output::select_values(&requirement.path, document)?;
            let value = values.into_iter().map(output::print_value).collect::<Vec<_>>().join(" ");
            if (value == requirement.value) == requirement.is_excluded {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Leaves the items whose documents match.
    pub fn retain<T>(
        &self,
        items: &mut Vec<T>,
        document: impl Fn(&T) -> Value,
    ) -> Result<(), Refusal> {
        let mut matching = Vec::new();
        for item in items.drain(..) {
            if self.matches(&document(&item))? {
                matching.push(item);
            }
        }
        items.extend(matching);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_compared_as_text() {
        let document = json!({"metadata": {"name": "lab"}, "spec": {"size": 2}});
        for (selector, is_matched) in [
            ("metadata.name=lab", true),
            ("metadata.name==lab,spec.size=2", true),
            ("metadata.name!=lab", false),
            ("status.phase=Running", false),
            ("status.phase!=Running", true),
            ("", true),
        ] {
            let parsed: FieldSelector = selector.parse().unwrap();
            assert_eq!(parsed.matches(&document).unwrap(), is_matched, "{selector}");
        }
        assert!("name".parse::<FieldSelector>().is_err());
    }
}
