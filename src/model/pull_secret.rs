//! Pull secrets: the logins of registries, one document of JSON for all of them. Never shows a login.

use serde_json::{Map, Value, json};

use super::documents::SecretValue;

/// The pull secret of a cluster with the logins of that of the site for all other registries. What
/// is no JSON stays as it is.
pub fn merge_pull_secrets(own: Option<SecretValue>, of_site: SecretValue) -> SecretValue {
    let Some(own) = own else { return of_site };
    let (Some(mut merged), Some(own_logins)) = (read_logins(&of_site), read_logins(&own)) else {
        return own;
    };
    merged.extend(own_logins);
    SecretValue::new(json!({ "auths": merged }).to_string())
}

/// The `auths` of a pull secret, by registry.
fn read_logins(pull_secret: &SecretValue) -> Option<Map<String, Value>> {
    let mut document: Value = serde_json::from_str(pull_secret.reveal()).ok()?;
    match document.get_mut("auths")?.take() {
        Value::Object(logins) => Some(logins),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pull_secret_of_a_cluster_is_preferred_for_its_registries() {
        let of_site = SecretValue::new(r#"{"auths": {"a": {"auth": "1"}, "b": {"auth": "2"}}}"#);
        let own = SecretValue::new(r#"{"auths": {"b": {"auth": "3"}}}"#);
        let merged = merge_pull_secrets(Some(own), of_site.clone());
        let expected = r#"{"auths":{"a":{"auth":"1"},"b":{"auth":"3"}}}"#;
        assert_eq!(merged.reveal(), expected);
        assert_eq!(merge_pull_secrets(None, of_site.clone()).reveal(), of_site.reveal());
        let broken = SecretValue::new("no JSON");
        assert_eq!(merge_pull_secrets(Some(broken), of_site).reveal(), "no JSON");
    }
}
