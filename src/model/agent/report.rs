//! What a host says of itself, as its agent posts it. Whatever it is, what is read from it is
//! short, clean and of the right types.

use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use super::inventory::{Disk, Interface, Inventory};
use super::{ImageReport, NtpSource, PeerReport};
use crate::model::address::Subnet;
use crate::model::hardware::mac;

type Object = Map<String, Value>;

/// What an inventory that comes by itself is known by.
const MARKS: [&str; 5] = ["cpu", "memory", "interfaces", "disks", "hostname"];
/// The most entries of a list, by its name, and of every other.
const LISTS: [(&str, usize); 7] = [
    ("disks", 512),
    ("interfaces", 512),
    ("gpus", 64),
    ("routes", 1024),
    ("images", 256),
    ("peers", 1024),
    ("ntp_sources", 64),
];
const LIST: usize = 1024;
/// The most characters of a text, and of a kernel's arguments or all flags together.
const TEXT: usize = 1024;
const LONG: usize = 4096;
/// As much of a key as a message shows.
const KEY: usize = 64;
/// Numbers that may be below zero.
const SIGNED: [&str; 3] = ["speed_mbps", "metric", "timestamp"];
/// Fields that an Agent shows under another name than the same in camel case.
const NAMES: [(&str, &str); 11] = [
    ("bmc_v6address", "bmcV6Address"),
    ("frequency", "clockMegahertz"),
    ("ipv4_addresses", "ipV4Addresses"),
    ("ipv6_addresses", "ipV6Addresses"),
    ("biosdevname", "biosDevName"),
    ("client_id", "clientID"),
    ("by_id", "byID"),
    ("has_uuid", "hasUUID"),
    ("sync_duration", "syncDurationMilliseconds"),
    ("device_id", "deviceID"),
    ("vendor_id", "vendorID"),
];

/// What a host posts; what it does not speak of is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub inventory: Option<Inventory>,
    pub ntp_sources: Option<Vec<NtpSource>>,
    pub images: Option<Vec<ImageReport>>,
    pub peers: Option<Vec<PeerReport>>,
    /// Unix seconds of its clock.
    pub timestamp: Option<i64>,
    /// It cannot read the image it was booted from.
    pub media_disconnected: Option<bool>,
    /// How far its installation is.
    pub stage: Option<String>,
}

/// An inventory by itself, or with other things around it; else why not, for people.
pub fn read(text: &str) -> Result<Report, String> {
    let mut found = object("the report", parsed("the report", text)?)?;
    if let Some(Value::String(inner)) = found.get("inventory") {
        let inner = parsed("inventory", inner)?;
        found.insert("inventory".into(), inner);
    }
    let mut found = cleaned(found, "")?;
    let mut said = match found.remove("inventory") {
        Some(inner) => Some(object("inventory", inner)?),
        None => MARKS.iter().any(|key| found.contains_key(*key)).then(|| found.clone()),
    };
    let own: Option<i64> = match &mut said {
        Some(said) => one(said, "timestamp")?,
        None => None,
    };
    let report = Report {
        inventory: said.map(inventory).transpose()?,
        ntp_sources: some(&mut found, "ntp_sources")?,
        images: some(&mut found, "images")?,
        peers: some(&mut found, "peers")?,
        timestamp: one::<Option<i64>>(&mut found, "timestamp")?.or(own),
        media_disconnected: media(one::<Option<String>>(&mut found, "media")?.as_deref())?,
        stage: one::<Option<String>>(&mut found, "stage")?.filter(|stage| !stage.is_empty()),
    };
    let says = report != Report::default();
    says.then_some(report).ok_or("the report says nothing: not even an inventory is in it".into())
}

fn parsed(what: &str, text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|why| format!("{what} is no JSON: {why}"))
}

fn object(what: &str, value: Value) -> Result<Object, String> {
    match value {
        Value::Object(found) => Ok(found),
        _ => Err(format!("{what} is no JSON object")),
    }
}

/// Without nulls, as an agent writes a list that it has not got.
fn cleaned(from: Object, path: &str) -> Result<Object, String> {
    let there = from.into_iter().filter(|(_, value)| !value.is_null());
    there
        .map(|(key, value)| {
            let value = clean(value, &below(path, &key), &key);
            value.map(|value| (key, value))
        })
        .collect()
}

fn clean(value: Value, path: &str, key: &str) -> Result<Value, String> {
    match value {
        Value::Object(inner) => cleaned(inner, path).map(Value::Object),
        Value::Array(all) => list(all, path, key),
        Value::String(said) => string(&said, path, key),
        Value::Number(number) if path.ends_with("cpu.count") && !is_count(&number) => {
            Err(format!("{path}: {number} is no number of processors"))
        }
        Value::Number(number) if !SIGNED.contains(&key) && is_negative(&number) => {
            Ok(Value::from(0_u64))
        }
        other => Ok(other),
    }
}

fn is_count(number: &Number) -> bool {
    number.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0)
}

fn is_negative(number: &Number) -> bool {
    number.as_f64().is_some_and(|number| number < 0.0)
}

fn below(path: &str, key: &str) -> String {
    let key: String = plain(key).chars().take(KEY).collect();
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn string(said: &str, path: &str, key: &str) -> Result<Value, String> {
    let most = if key == "command_line" { LONG } else { TEXT };
    let length = said.chars().count();
    if length <= most {
        return Ok(Value::String(plain(said)));
    }
    // Pages of it are nothing unusual, and nobody here reads them.
    if key == "smart" {
        return Ok(Value::String(String::new()));
    }
    Err(format!("{path}: {length} characters, and {most} are the most"))
}

fn list(all: Vec<Value>, path: &str, key: &str) -> Result<Value, String> {
    let most = LISTS.iter().find(|(name, _)| *name == key).map_or(LIST, |(_, most)| *most);
    let count = all.len();
    if count > most {
        return Err(format!("{path}: {count} entries, and {most} are the most"));
    }
    let letters: usize = all.iter().filter_map(Value::as_str).map(str::len).sum();
    if key == "flags" && letters > LONG {
        return Err(format!("{path}: more than {LONG} characters together"));
    }
    let there = all.into_iter().enumerate().filter(|(_, value)| !value.is_null());
    let all = there.map(|(at, value)| clean(value, &format!("{path}[{at}]"), key));
    all.collect::<Result<Vec<Value>, String>>().map(Value::Array)
}

fn part<T: DeserializeOwned>(path: &str, value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|why| format!("{path}: {why}"))
}

fn one<T: DeserializeOwned + Default>(from: &mut Object, key: &str) -> Result<T, String> {
    from.remove(key).map_or_else(|| Ok(T::default()), |value| part(key, value))
}

fn all<T: DeserializeOwned>(from: &mut Object, key: &str) -> Result<Vec<T>, String> {
    match from.remove(key) {
        None => Ok(Vec::new()),
        Some(Value::Array(all)) => {
            let all = all.into_iter().enumerate();
            all.map(|(at, value)| part(&format!("{key}[{at}]"), value)).collect()
        }
        // Says what it is instead.
        Some(other) => part(key, other),
    }
}

fn some<T: DeserializeOwned>(from: &mut Object, key: &str) -> Result<Option<Vec<T>>, String> {
    if from.contains_key(key) { all(from, key).map(Some) } else { Ok(None) }
}

fn media(said: Option<&str>) -> Result<Option<bool>, String> {
    match said {
        None => Ok(None),
        Some("connected") => Ok(Some(false)),
        Some("disconnected") => Ok(Some(true)),
        Some(other) => Err(format!("media: `{other}` is neither connected nor disconnected")),
    }
}

fn inventory(said: Object) -> Result<Inventory, String> {
    let mut said: Object = said.into_iter().map(renamed_field).collect();
    let found = Inventory {
        hostname: one(&mut said, "hostname")?,
        bmc_address: one(&mut said, "bmcAddress")?,
        bmc_v6_address: one(&mut said, "bmcV6Address")?,
        report_time: None,
        memory: one(&mut said, "memory")?,
        cpu: one(&mut said, "cpu")?,
        interfaces: interfaces(all(&mut said, "interfaces")?)?,
        disks: all::<Disk>(&mut said, "disks")?.into_iter().map(identified).collect(),
        boot: one(&mut said, "boot")?,
        system_vendor: one(&mut said, "systemVendor")?,
        gpus: all(&mut said, "gpus")?,
        routes: all(&mut said, "routes")?,
        tpm_version: one(&mut said, "tpmVersion")?,
        truncation: one(&mut said, "truncation")?,
    };
    let missing = match &found {
        found if !found.is_valid() => None,
        found if found.memory.physical_bytes == 0 => Some("Memory"),
        found if found.cpu.count == 0 => Some("CPU"),
        _ => None,
    };
    match missing {
        Some(what) => Err(format!("Inventory is not valid, {what} not detected")),
        None => Ok(found),
    }
}

fn renamed_field((key, value): (String, Value)) -> (String, Value) {
    (camel(&key), renamed(value))
}

/// With the names that an Agent has, and whole numbers: what is counted there is counted in ones.
fn renamed(value: Value) -> Value {
    match value {
        Value::Object(inner) => Value::Object(inner.into_iter().map(renamed_field).collect()),
        Value::Array(all) => Value::Array(all.into_iter().map(renamed).collect()),
        Value::Number(number) => Value::Number(whole(number)),
        other => other,
    }
}

fn camel(key: &str) -> String {
    if let Some((_, name)) = NAMES.iter().find(|(posted, _)| *posted == key) {
        return (*name).to_owned();
    }
    let mut parts = key.split('_');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

fn whole(number: Number) -> Number {
    let fraction = number.as_f64().filter(|_| number.is_f64());
    let rounded = fraction.and_then(|value| format!("{value:.0}").parse::<u64>().ok());
    rounded.map_or(number, Number::from)
}

fn interfaces(all: Vec<Interface>) -> Result<Vec<Interface>, String> {
    let real = |one: &Interface| matches!(one.kind.as_str(), "" | "physical" | "vlan" | "bond");
    all.into_iter().filter(real).map(interface).collect()
}

fn interface(mut one: Interface) -> Result<Interface, String> {
    one.mac_address.make_ascii_lowercase();
    if !one.mac_address.is_empty() {
        mac(&one.mac_address).map_err(|why| format!("interfaces: {why} ({})", one.name))?;
    }
    for all in [&mut one.ipv4_addresses, &mut one.ipv6_addresses] {
        all.retain(|text| text.parse::<Subnet>().is_ok());
    }
    Ok(one)
}

/// Its id is its path by identity, by place or by name, as agents make it.
fn identified(mut disk: Disk) -> Disk {
    if disk.path.is_empty() && !disk.name.is_empty() {
        disk.path = format!("/dev/{}", disk.name);
    }
    if disk.id.is_empty() {
        let paths = [&disk.by_id, &disk.by_path, &disk.path];
        disk.id = paths.into_iter().find(|path| !path.is_empty()).cloned().unwrap_or_default();
    }
    disk
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SAMPLE: &str = r#"{"hostname":"okd-5","bmc_address":"192.168.10.5","bmc_v6address":"::/0",
        "tpm_version":"2.0","timestamp":1700000000,"shiny":{"new":[1,null]},
        "boot":{"current_boot_mode":"uefi","secure_boot_state":"Disabled","command_line":"a\n"},
        "cpu":{"architecture":"x86_64","count":8,"frequency":2099.998,"flags":["lm","vmx"],"model_name":"Xeon"},
        "memory":{"physical_bytes":17179869184,"physical_bytes_method":"dmidecode","usable_bytes":-5},
        "disks":[{"by_path":"/dev/disk/by-path/pci","by_id":"","name":"sda","drive_type":"HDD",
            "has_uuid":true,"hctl":"0:0:0:0","size_bytes":128849018880,"io_perf":{"sync_duration":4},
            "installation_eligibility":{"eligible":true,"not_eligible_reasons":null}}],
        "gpus":[{"device_id":"1050","vendor_id":"1af4"}],
        "interfaces":[{"name":"enp1s0","mac_address":"00:60:2F:31:00:0A","type":"physical","speed_mbps":-1,
            "ipv4_addresses":["192.168.1.100/24","?"],"ipv6_addresses":null,"biosdevname":"em1","client_id":"x"},
            {"name":"ovs","mac_address":"none","type":"openvswitch"}],
        "routes":[{"destination":"0.0.0.0","family":2,"gateway":"192.168.1.1","interface":"enp1s0","metric":100}],
        "system_vendor":{"manufacturer":"Red Hat","product_name":"KVM","serial_number":"3534","virtual":true},
        "truncation":{"type":"partial","reasons":["disks list truncated"]}}"#;

    #[test]
    fn an_inventory_comes_alone_in_an_envelope_or_as_text_in_one() {
        let bare = read(SAMPLE).unwrap();
        let found = bare.inventory.clone().unwrap();
        let nic = &found.interfaces[0];
        assert_eq!((found.interfaces.len(), nic.mac_address.as_str()), (1, "00:60:2f:31:00:0a"));
        assert_eq!((nic.ipv4_addresses.len(), nic.speed_mbps), (1, -1));
        assert_eq!((nic.bios_dev_name.as_str(), nic.client_id.as_str()), ("em1", "x"));
        let disk = &found.disks[0];
        assert_eq!((disk.id.as_str(), disk.path.as_str()), ("/dev/disk/by-path/pci", "/dev/sda"));
        assert!(disk.has_uuid && disk.installation_eligibility.eligible);
        assert_eq!(disk.io_perf.as_ref().unwrap().sync_duration_milliseconds, 4);
        assert_eq!((found.cpu.clock_megahertz, found.memory.usable_bytes), (2100, 0));
        assert_eq!(
            (found.bmc_v6_address.as_str(), found.boot.command_line.as_str()),
            ("::/0", "a ")
        );
        assert_eq!((found.gpus[0].device_id.as_str(), found.routes[0].metric), ("1050", 100));
        assert!(found.system_vendor.is_virtual && found.is_valid() && found.tpm_version == "2.0");
        assert_eq!(bare.timestamp, Some(1_700_000_000));
        let inner: Value = serde_json::from_str(SAMPLE).unwrap();
        for inner in [inner, Value::String(SAMPLE.into())] {
            let around = json!({"inventory": inner, "timestamp": 1_700_000_009, "media": "disconnected",
                "stage": "Rebooting", "images": [{"name": "a", "result": "failure"}],
                "ntp_sources": [{"source_name": "t", "source_state": "synced"}],
                "peers": [{"agent": "b", "reached": ["10.0.0.2"], "latency_ms": 0.5}]});
            let all = read(&around.to_string()).unwrap();
            assert_eq!(
                (all.inventory, all.timestamp),
                (bare.inventory.clone(), Some(1_700_000_009))
            );
            assert_eq!(
                (all.media_disconnected, all.stage.as_deref()),
                (Some(true), Some("Rebooting"))
            );
            assert_eq!(all.peers.unwrap()[0].latency_ms, Some(0.5));
            assert_eq!(all.ntp_sources.unwrap()[0].source_state, "synced");
            assert_eq!(all.images.unwrap()[0].result, "failure");
        }
    }

    #[test]
    fn what_is_wrong_is_refused_by_its_path() {
        let long = "x".repeat(1025);
        let disks = vec![json!({}); 513];
        let nic = |mac: &str| json!({"interfaces": [{"name": "e", "mac_address": mac}]});
        for (said, why) in [
            (json!([]), "the report is no JSON object"),
            (json!({"inventory": null, "shiny": 1}), "the report says nothing"),
            (json!({"cpu": {"count": 2.5}}), "cpu.count: 2.5 is no number of processors"),
            (json!({"inventory": {"cpu": {"count": -2}}}), "inventory.cpu.count: -2 is no number"),
            (json!({"inventory": "{"}), "inventory is no JSON: "),
            (json!({"hostname": "a"}), "Inventory is not valid, Memory not detected"),
            (json!({"memory": {"physical_bytes": 1}}), "Inventory is not valid, CPU not detected"),
            (json!({"memory": {"physical_bytes": "1"}}), "memory: invalid type: string"),
            (json!({"disks": [{}, {"size_bytes": true}]}), "disks[1]: invalid type: boolean"),
            (json!({"disks": {}}), "disks: invalid type: map"),
            (json!({"disks": disks}), "disks: 513 entries, and 512 are the most"),
            (
                json!({"inventory": {"disks": [{"name": long}]}}),
                "inventory.disks[0].name: 1025 char",
            ),
            (json!({"cpu": {"flags": vec!["a".repeat(1000); 5]}}), "cpu.flags: more than 4096"),
            (json!({"interfaces": [{"mac_address": "52:54:00"}]}), "interfaces: `52:54:00` is no"),
            (nic("FF:FF:FF:FF:FF:FF"), "interfaces: `ff:ff:ff:ff:ff:ff` is the address of a group"),
            (nic("00:00:00:00:00:00"), "interfaces: `00:00:00:00:00:00` is nobody's address (e)"),
            (json!({"media": "gone"}), "media: `gone` is neither"),
            (json!({"a\nb": long}), "a b: 1025 characters"),
        ] {
            let found = read(&said.to_string()).unwrap_err();
            assert!(found.starts_with(why), "{found}");
        }
        read(r#"{"hostname": "a", "truncation": {"type": "full"}}"#).unwrap();
        let smart = json!({"cpu": {"count": 1}, "memory": {"physical_bytes": 1},
            "disks": [{"smart": long}], "boot": {"command_line": long}});
        let found = read(&smart.to_string()).unwrap().inventory.unwrap();
        assert_eq!((found.disks[0].smart.len(), found.boot.command_line.len()), (0, 1025));
    }
}
