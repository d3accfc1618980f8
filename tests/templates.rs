//! Data templates: what is wrong with them, which pools they need, and what they render for a
//! machine. The cases are data, one YAML document each.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde_json::{Value, json};

use poolctl::model::data_template::Metal3DataTemplate;
use poolctl::model::host::BareMetalHost;
use poolctl::render::host_data::{
    LeasedAddress, TemplateContext, render_meta_data, render_network_data, render_nmstate,
};
use poolctl::rules::data_templates::{check, check_change};
use poolctl::yaml;

/// The fields that a case may have.
const FIELDS: [&str; 13] = [
    "row", "spec", "status", "becomes", "host", "leases", "index", "check", "change", "pools",
    "meta", "network", "nmstate",
];

struct Case {
    row: String,
    given: Value,
}

/// All cases, each with the name in its field `row`.
fn read_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for block in include_str!("cases/templates.txt").split("\n---\n") {
        if block.trim().is_empty() {
            continue;
        }
        let given = yaml::parse_value(block).unwrap_or_else(|error| panic!("{error}: {block}"));
        let row = given["row"].as_str().unwrap_or_else(|| panic!("no row: {block}")).to_owned();
        let fields = given.as_object().unwrap();
        let has_known_fields = fields.keys().all(|field| FIELDS.contains(&field.as_str()));
        assert!(has_known_fields && fields.len() > 2, "{row}: {given}");
        cases.push(Case { row, given });
    }
    cases
}

impl Case {
    fn expected(&self, field: &str) -> Option<&Value> {
        self.given.get(field)
    }

    fn template_of(&self, spec: &Value) -> Result<Metal3DataTemplate, String> {
        let mut wire = json!({"metadata": {"name": "abc", "namespace": "ns1"}, "spec": spec});
        if let Some(status) = self.given.get("status") {
            wire["status"] = status.clone();
        }
        serde_json::from_value(wire).map_err(|error| error.to_string())
    }

    fn template(&self) -> Metal3DataTemplate {
        let template = self.template_of(&self.given["spec"]);
        template.unwrap_or_else(|error| panic!("{}: {error}", self.row))
    }

    /// The host of the case, which has `mac` (its bootMACAddress), `nics` (names to MAC addresses),
    /// `labels` and `annotations`.
    fn host(&self) -> BareMetalHost {
        let given = &self.given["host"];
        let no_entries = json!({});
        let labels = given.get("labels").unwrap_or(&no_entries);
        let annotations = given.get("annotations").unwrap_or(&no_entries);
        let mut wire = json!({
            "metadata": {"name": "host1", "namespace": "ns1",
                "labels": labels, "annotations": annotations},
            "spec": {"online": true},
        });
        if let Some(mac) = given.get("mac") {
            wire["spec"]["bootMACAddress"] = mac.clone();
        }
        if let Some(macs) = given.get("nics").and_then(Value::as_object) {
            let mut nics = Vec::new();
            for (name, mac) in macs {
                nics.push(json!({"name": name, "mac": mac}));
            }
            wire["status"] = json!({"hardware": {"nics": nics}});
        }
        serde_json::from_value(wire).unwrap()
    }

    /// The leases of the case, by pool; a lease has usual values where the case gives none.
    fn leases(&self) -> BTreeMap<String, LeasedAddress> {
        let mut leases = BTreeMap::new();
        for (pool, lease) in self.given["leases"].as_object().into_iter().flatten() {
            let address = lease["address"].as_str().unwrap_or("192.168.0.14");
            let gateway = lease["gateway"].as_str().unwrap_or("192.168.0.1");
            let prefix = lease["prefix"].as_u64().unwrap_or(24);
            let dns = lease["dns"].as_array().into_iter().flatten();
            let facts_of_lease = LeasedAddress {
                address: address.to_owned(),
                prefix: prefix.try_into().unwrap(),
                gateway: gateway.to_owned(),
                dns: dns.map(|server| server.as_str().unwrap().to_owned()).collect(),
            };
            leases.insert(pool.clone(), facts_of_lease);
        }
        leases
    }

    fn rendered<T>(
        &self,
        render: fn(&TemplateContext<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let facts = TemplateContext {
            template: &self.template(),
            index: self.given["index"].as_u64().unwrap_or_default(),
            host: &self.host(),
            machine: "machine1",
            namespace: "ns1",
            leases: &self.leases(),
            network_leases: &BTreeMap::new(),
        };
        render(&facts)
    }

    /// The case expects `ERR message`, or a mapping whose fields have these values.
    fn assert_rendered(&self, field: &str, rendered: Result<Value, String>) {
        let row = &self.row;
        let Some(expected) = self.expected(field) else { return };
        let refused = expected.as_str().and_then(|text| text.strip_prefix("ERR "));
        match (refused, rendered) {
            (Some(message), Err(error)) => {
                assert!(error.contains(message), "{row}: {field}: {error}");
            }
            (None, Ok(rendered)) => match expected.as_object() {
                Some(fields) if field != "meta" => {
                    for (name, value) in fields {
                        assert_eq!(&rendered[name], value, "{row}: {field}.{name}");
                    }
                }
                _ => assert_eq!(&rendered, expected, "{row}: {field}"),
            },
            (refused, rendered) => {
                panic!("{row}: {field}: expected {refused:?}, not {rendered:?}")
            }
        }
    }

    /// The case expects `ok`, or a part of each problem, in order.
    fn assert_problems(&self, field: &str, result: Result<(), Vec<String>>) {
        let row = &self.row;
        let Some(expected) = self.expected(field) else { return };
        let problems = result.err().unwrap_or_default();
        let Some(expected) = expected.as_array() else {
            assert!(expected == "ok" && problems.is_empty(), "{row}: {problems:#?}");
            return;
        };
        assert_eq!(problems.len(), expected.len(), "{row}: {problems:#?}");
        for (problem, part) in problems.iter().zip(expected) {
            assert!(problem.contains(part.as_str().unwrap()), "{row}: {part} is not in {problem}");
        }
    }
}

/// An object that is written and read again is the same, and is written the same.
fn assert_round_trip<T>(row: &str, object: &T)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + Debug,
{
    let wire = serde_json::to_value(object).unwrap();
    let read: T = serde_json::from_value(wire.clone()).unwrap();
    assert_eq!(&read, object, "{row}");
    assert_eq!(serde_json::to_value(&read).unwrap(), wire, "{row}");
}

#[test]
fn templates_are_checked_and_rendered_as_their_cases_say() {
    let mut tried = 0;
    for case in read_cases() {
        // A template that cannot be read has nothing else to check.
        let check_result = case.expected("check").and_then(Value::as_str).unwrap_or_default();
        if let Some(message) = check_result.strip_prefix("ERR ") {
            let error = case.template_of(&case.given["spec"]).unwrap_err();
            assert!(error.contains(message), "{}: {error}", case.row);
            tried += 1;
            continue;
        }
        let template = case.template();
        assert_round_trip(&case.row, &template);
        case.assert_problems("check", check(&template));
        if let Some(becomes) = case.given.get("becomes") {
            case.assert_problems(
                "change",
                check_change(&template, &case.template_of(becomes).unwrap()),
            );
        }
        if let Some(pools) = case.expected("pools") {
            let host = case.host();
            assert_eq!(&json!(template.pool_names(host.annotations())), pools, "{}", case.row);
        }
        case.assert_rendered("meta", case.rendered(render_meta_data).map(|entries| json!(entries)));
        case.assert_rendered("network", case.rendered(render_network_data));
        case.assert_rendered(
            "nmstate",
            case.rendered(render_network_data).map(|network| render_nmstate(&network)),
        );
        tried += 1;
    }
    assert!(tried > 70, "{tried}");
}

#[test]
fn a_status_is_read_in_each_versions_form_and_written_in_one() {
    for indexes in [
        json!({"0": "machine-1"}),
        json!({"machine-1": 0}),
        json!([{"index": 0, "name": "machine-1"}]),
    ] {
        let wire = json!({"metadata": {"name": "abc"}, "status": {"indexes": indexes,
            "dataNames": {"machine-1": "abc-0"}, "lastUpdated": "2020-04-02T06:36:09Z"}});
        let template: Metal3DataTemplate = serde_json::from_value(wire).unwrap();
        let written = serde_json::to_value(template).unwrap();
        assert_eq!(written["status"]["indexes"], json!({"0": "machine-1"}));
        assert_eq!(written["status"]["lastUpdated"], "2020-04-02T06:36:09Z");
    }
    let wire = json!({"metadata": {"name": "abc"}, "status": {"indexes": {"0": []}}});
    serde_json::from_value::<Metal3DataTemplate>(wire).unwrap_err();
}

#[test]
fn old_and_new_spellings_are_written_in_one() {
    let spec = json!({
        "metaData": {
            "ipAddressesFromPool": [{"Name": "pool-1", "Key": "ip"}],
            "prefixesFromPool": [{"name": "pool-1", "key": "prefix"}],
            "gatewaysFromPool": [{"name": "pool-1", "key": "gateway"}],
            "dnsServersFromPool": [{"name": "pool-1", "key": "dns"}],
        },
        "networkData": {
            "links": {"bonds": [{"id": "b", "bondMode": "802.3ad",
                "parameters": [{"name": "miimon", "value": 100}]}]},
            "networks": {"ipv4": [{"id": "a", "link": "b", "ipAddressfromIPPool": "pool-1",
                "routes": [{"network": "0.0.0.0", "prefix": 0, "gateway": {"fromIPPool": "pool-1"},
                    "services": [{"type": "dns", "address": "8.8.4.4"}]}]}]},
        },
    });
    let wire = json!({"metadata": {"name": "abc"}, "spec": spec});
    let template: Metal3DataTemplate = serde_json::from_value(wire).unwrap();
    let wire = serde_json::to_value(&template).unwrap();
    let expected = json!({
        "ipAddressesFromIPPool": [{"name": "pool-1", "key": "ip"}],
        "prefixesFromIPPool": [{"name": "pool-1", "key": "prefix"}],
        "gatewaysFromIPPool": [{"name": "pool-1", "key": "gateway"}],
        "dnsServersFromIPPool": [{"name": "pool-1", "key": "dns"}],
    });
    assert_eq!(wire["spec"]["metaData"], expected);
    let data = &wire["spec"]["networkData"];
    assert_eq!(data["links"]["bonds"][0]["parameters"], json!({"miimon": 100}));
    let network = &data["networks"]["ipv4"][0];
    assert_eq!(network["ipAddressFromIPPool"], "pool-1");
    assert_eq!(network["routes"][0]["services"], json!({"dns": ["8.8.4.4"]}));
}

#[test]
fn rendered_data_is_yaml_with_sorted_keys() {
    let case = Case {
        row: "text".into(),
        given: json!({"spec": {"metaData": {"strings": [{"key": "String-1", "value": "String-1"}]},
            "networkData": {}}}),
    };
    // Scenario L14.
    let meta = yaml::to_text(&json!(case.rendered(render_meta_data).unwrap())).unwrap();
    assert_eq!(meta, "String-1: String-1\nproviderid: ns1/host1/machine1\n");
    let network = yaml::to_text(&case.rendered(render_network_data).unwrap()).unwrap();
    assert_eq!(network, "links: []\nnetworks: []\nservices: []\n");
}

/// Problems of a template with so many strings of this length.
fn problems_of_strings(count: usize, length: usize) -> Vec<String> {
    let strings: Vec<Value> = (0..count)
        .map(|number| json!({"key": format!("k{number}"), "value": "v".repeat(length)}))
        .collect();
    let spec = json!({"metaData": {"strings": strings}});
    let wire = json!({"metadata": {"name": "abc"}, "spec": spec});
    let template: Metal3DataTemplate = serde_json::from_value(wire).unwrap();
    check(&template).err().unwrap_or_default()
}

#[test]
fn templates_with_too_many_or_too_long_entries_are_refused() {
    assert!(problems_of_strings(512, 512).is_empty());
    assert!(problems_of_strings(513, 1)[0].contains("513 entries"));
    assert!(problems_of_strings(1, 513)[0].contains("513 characters"));
}
