//! Data templates: what is wrong with them, which pools they need, and what they say to a machine.
//! The cases are data, one YAML document each.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde_json::{Map, Value, json};

use poolctl::model::data_template::Metal3DataTemplate;
use poolctl::model::host::BareMetalHost;
use poolctl::render::host_data::{Facts, Leased, meta_data, network_data, nmstate};
use poolctl::rules::data_templates::{check, check_change};
use poolctl::yaml;

const FIELDS: [&str; 13] = [
    "row", "spec", "status", "becomes", "host", "leases", "index", "check", "change", "pools",
    "meta", "network", "nmstate",
];

struct Case {
    row: String,
    given: Value,
}

/// The cases, each with what its first line calls it.
fn cases() -> Vec<Case> {
    let text = include_str!("cases/templates.txt");
    let blocks = text.split("\n---\n").filter(|block| block.lines().any(|line| !line.is_empty()));
    let read = |block: &str| {
        let given = yaml::value(block).unwrap_or_else(|why| panic!("{why}: {block}"));
        let row = given["row"].as_str().unwrap_or_else(|| panic!("no row: {block}")).to_owned();
        let fields = given.as_object().unwrap();
        let known = |name: &String| FIELDS.contains(&name.as_str());
        assert!(fields.keys().all(known) && fields.len() > 2, "{row}: {given}");
        Case { row, given }
    };
    blocks.map(read).collect()
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
        serde_json::from_value(wire).map_err(|why| why.to_string())
    }

    fn template(&self) -> Metal3DataTemplate {
        self.template_of(&self.given["spec"]).unwrap_or_else(|why| panic!("{}: {why}", self.row))
    }

    /// `mac`: its bootMACAddress; `nics`: name to MAC address; `labels`, `annotations`.
    fn host(&self) -> BareMetalHost {
        let given = &self.given["host"];
        let map = |field: &str| given.get(field).cloned().unwrap_or_else(|| json!({}));
        let mut wire = json!({
            "metadata": {"name": "host1", "namespace": "ns1",
                "labels": map("labels"), "annotations": map("annotations")},
            "spec": {"online": true},
        });
        if let Some(mac) = given.get("mac") {
            wire["spec"]["bootMACAddress"] = mac.clone();
        }
        if let Some(nics) = given.get("nics").and_then(Value::as_object) {
            let nic = |(name, mac): (&String, &Value)| json!({"name": name, "mac": mac});
            let nics: Vec<Value> = nics.iter().map(nic).collect();
            wire["status"] = json!({"hardware": {"nics": nics}});
        }
        serde_json::from_value(wire).unwrap()
    }

    fn leases(&self) -> BTreeMap<String, Leased> {
        let none = Map::new();
        let given = self.given["leases"].as_object().unwrap_or(&none);
        let read = |(pool, lease): (&String, &Value)| {
            let text = |field: &str, usual: &str| lease[field].as_str().unwrap_or(usual).to_owned();
            let dns = lease["dns"].as_array().into_iter().flatten();
            let leased = Leased {
                address: text("address", "192.168.0.14"),
                prefix: lease["prefix"].as_u64().map_or(24, |prefix| prefix.try_into().unwrap()),
                gateway: text("gateway", "192.168.0.1"),
                dns: dns.map(|one| one.as_str().unwrap().to_owned()).collect(),
            };
            (pool.clone(), leased)
        };
        given.iter().map(read).collect()
    }

    fn rendered<T>(&self, make: fn(&Facts<'_>) -> Result<T, String>) -> Result<T, String> {
        let (template, host, leases) = (self.template(), self.host(), self.leases());
        let facts = Facts {
            template: &template,
            index: self.given["index"].as_u64().unwrap_or_default(),
            host: &host,
            machine: "machine1",
            namespace: "ns1",
            leases: &leases,
        };
        make(&facts)
    }

    /// `ERR text`, or a mapping whose fields are found as they are here.
    fn compare(&self, field: &str, found: Result<Value, String>) {
        let row = &self.row;
        let Some(expected) = self.expected(field) else { return };
        let refused = expected.as_str().and_then(|text| text.strip_prefix("ERR "));
        match (refused, found) {
            (Some(says), Err(why)) => assert!(why.contains(says), "{row}: {field}: {why}"),
            (None, Ok(found)) => match expected.as_object() {
                Some(fields) if field != "meta" => {
                    for (name, value) in fields {
                        assert_eq!(&found[name], value, "{row}: {field}.{name}");
                    }
                }
                _ => assert_eq!(&found, expected, "{row}: {field}"),
            },
            (refused, found) => panic!("{row}: {field}: expected {refused:?}, found {found:?}"),
        }
    }

    /// `ok`, or a part of each problem, in order.
    fn problems(&self, field: &str, found: Result<(), Vec<String>>) {
        let row = &self.row;
        let Some(expected) = self.expected(field) else { return };
        let found = found.err().unwrap_or_default();
        let Some(expected) = expected.as_array() else {
            assert!(expected == "ok" && found.is_empty(), "{row}: {found:#?}");
            return;
        };
        assert_eq!(found.len(), expected.len(), "{row}: {found:#?}");
        for (why, says) in found.iter().zip(expected) {
            assert!(why.contains(says.as_str().unwrap()), "{row}: {says} is not in {why}");
        }
    }
}

/// A fixed point: what is written is read as the same, and written the same.
fn comes_back<T>(row: &str, one: &T)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + Debug,
{
    let wire = serde_json::to_value(one).unwrap();
    let back: T = serde_json::from_value(wire.clone()).unwrap();
    assert_eq!(&back, one, "{row}");
    assert_eq!(serde_json::to_value(&back).unwrap(), wire, "{row}");
}

#[test]
fn templates_say_what_their_cases_say() {
    let mut tried = 0;
    for case in cases() {
        // What cannot even be read is not looked at any further.
        let says = case.expected("check").and_then(Value::as_str).unwrap_or_default();
        if let Some(says) = says.strip_prefix("ERR ") {
            let why = case.template_of(&case.given["spec"]).unwrap_err();
            assert!(why.contains(says), "{}: {why}", case.row);
            tried += 1;
            continue;
        }
        let template = case.template();
        comes_back(&case.row, &template);
        case.problems("check", check(&template));
        if let Some(becomes) = case.given.get("becomes") {
            case.problems("change", check_change(&template, &case.template_of(becomes).unwrap()));
        }
        if let Some(pools) = case.expected("pools") {
            let host = case.host();
            assert_eq!(&json!(template.pools(host.annotations())), pools, "{}", case.row);
        }
        case.compare("meta", case.rendered(meta_data).map(|made| json!(made)));
        case.compare("network", case.rendered(network_data));
        case.compare("nmstate", case.rendered(network_data).map(|made| nmstate(&made)));
        tried += 1;
    }
    assert!(tried > 70, "{tried}");
}

#[test]
fn a_status_is_read_in_each_versions_words_and_written_in_one() {
    let template = |indexes: Value| -> Metal3DataTemplate {
        let wire = json!({"metadata": {"name": "abc"}, "status": {"indexes": indexes,
            "dataNames": {"machine-1": "abc-0"}, "lastUpdated": "2020-04-02T06:36:09Z"}});
        serde_json::from_value(wire).unwrap()
    };
    for indexes in [
        json!({"0": "machine-1"}),
        json!({"machine-1": 0}),
        json!([{"index": 0, "name": "machine-1"}]),
    ] {
        let wire = serde_json::to_value(template(indexes)).unwrap();
        assert_eq!(wire["status"]["indexes"], json!({"0": "machine-1"}));
        assert_eq!(wire["status"]["lastUpdated"], "2020-04-02T06:36:09Z");
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
    // L14.
    let meta = yaml::text(&json!(case.rendered(meta_data).unwrap())).unwrap();
    assert_eq!(meta, "String-1: String-1\nproviderid: ns1/host1/machine1\n");
    let network = yaml::text(&case.rendered(network_data).unwrap()).unwrap();
    assert_eq!(network, "links: []\nnetworks: []\nservices: []\n");
}

#[test]
fn what_is_too_long_is_refused() {
    let wrong = |spec: Value| {
        let wire = json!({"metadata": {"name": "abc"}, "spec": spec});
        let template: Metal3DataTemplate = serde_json::from_value(wire).unwrap();
        check(&template).err().unwrap_or_default()
    };
    let strings = |many: usize, length: usize| {
        let one = |at: usize| json!({"key": format!("k{at}"), "value": "v".repeat(length)});
        json!({"metaData": {"strings": (0..many).map(one).collect::<Vec<_>>()}})
    };
    assert!(wrong(strings(512, 512)).is_empty());
    assert!(wrong(strings(513, 1))[0].contains("513 entries"));
    assert!(wrong(strings(1, 513))[0].contains("513 characters"));
}
