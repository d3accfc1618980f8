//! Reads what a host reports of itself, as its agent posts it. Whatever is posted, what is kept of
//! it is short, free of control characters and of the right types. It stores nothing and decides
//! nothing.

use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use super::inventory::{Disk, Interface, Inventory};
use super::{DomainReport, ImageReport, NtpSource, PeerReport};
use crate::model::address::Subnet;
use crate::model::hardware::check_mac_address;
use crate::model::typed::read_value;

type Object = Map<String, Value>;

/// Fields by which an inventory is recognised that is posted without an envelope.
const INVENTORY_FIELDS: [&str; 5] = ["cpu", "memory", "interfaces", "disks", "hostname"];
/// The most entries that a list may have, by the name of its field.
const LONGEST_LISTS: [(&str, usize); 8] = [
    ("disks", 512),
    ("interfaces", 512),
    ("gpus", 64),
    ("routes", 1024),
    ("images", 256),
    ("peers", 1024),
    ("domains", 16),
    ("ntp_sources", 64),
];
/// The most entries of any other list.
const LONGEST_LIST: usize = 1024;
/// The most characters of a text.
const LONGEST_TEXT: usize = 1024;
/// The most characters of the kernel's arguments, and of all flags of a processor together.
const LONGEST_ARGUMENTS: usize = 4096;
/// How many characters of a key an error message shows.
const SHOWN_KEY: usize = 64;
/// Numbers that may be negative. A negative value of any other counts as 0.
const SIGNED_FIELDS: [&str; 3] = ["speed_mbps", "metric", "timestamp"];
/// Fields whose name in an Agent is not that of the report in camel case.
const RENAMED_FIELDS: [(&str, &str); 11] = [
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

/// Whether a host can read the image that it was booted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootMedia {
    Connected,
    Disconnected,
}

/// What a host posted. A part that is None was not posted, so what is known of it stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentReport {
    pub inventory: Option<Inventory>,
    pub ntp_sources: Option<Vec<NtpSource>>,
    pub images: Option<Vec<ImageReport>>,
    pub peers: Option<Vec<PeerReport>>,
    pub domains: Option<Vec<DomainReport>>,
    /// The time on the host's clock, in seconds since 1970.
    pub timestamp: Option<i64>,
    /// Whether the host can still read the image that it was booted from, if it says so.
    pub media: Option<BootMedia>,
    /// The stage that its installation has reached.
    pub stage: Option<String>,
    /// The release whose installer waits on the host for the configuration of a cluster.
    pub installer_release: Option<String>,
}

/// Reads a report: an inventory alone, or an envelope with an inventory and other parts. The
/// inventory may be JSON inside of a JSON string, as assisted-service's agents post it. The error is
/// a sentence for people that names the field which cannot be taken.
pub fn parse_report(json: &str) -> Result<AgentReport, String> {
    let mut posted = as_object("the report", parse_json("the report", json)?)?;
    if let Some(Value::String(inner)) = posted.get("inventory") {
        let inner = parse_json("inventory", inner)?;
        posted.insert("inventory".into(), inner);
    }
    let mut envelope = clean_object(posted, "")?;
    let mut inventory = match envelope.remove("inventory") {
        Some(inner) => Some(as_object("inventory", inner)?),
        None if INVENTORY_FIELDS.iter().any(|field| envelope.contains_key(*field)) => {
            Some(envelope.clone())
        }
        None => None,
    };
    let inventory_timestamp: Option<i64> = match &mut inventory {
        Some(fields) => take_field(fields, "timestamp")?,
        None => None,
    };
    let report = AgentReport {
        inventory: inventory.map(read_inventory).transpose()?,
        ntp_sources: take_optional_list(&mut envelope, "ntp_sources")?,
        images: take_optional_list(&mut envelope, "images")?,
        peers: take_optional_list(&mut envelope, "peers")?,
        domains: take_optional_list(&mut envelope, "domains")?,
        timestamp: take_field::<Option<i64>>(&mut envelope, "timestamp")?.or(inventory_timestamp),
        media: read_boot_media(take_field::<Option<String>>(&mut envelope, "media")?.as_deref())?,
        stage: take_field::<Option<String>>(&mut envelope, "stage")?
            .filter(|stage| !stage.is_empty()),
        installer_release: take_field::<Option<String>>(&mut envelope, "installer_release")?,
    };
    if report == AgentReport::default() {
        return Err(
            "the report is empty: it has no inventory and nothing else that is known".into()
        );
    }
    Ok(report)
}

fn parse_json(part: &str, json: &str) -> Result<Value, String> {
    serde_json::from_str(json).map_err(|error| format!("{part} is not JSON: {error}"))
}

fn as_object(part: &str, value: Value) -> Result<Object, String> {
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err(format!("{part} is not a JSON object")),
    }
}

/// Cleans the values of all fields. Nulls are left out: an agent writes them for empty lists.
fn clean_object(fields: Object, path: &str) -> Result<Object, String> {
    let mut cleaned = Object::new();
    for (key, value) in fields {
        if !value.is_null() {
            let value = clean_value(value, &path_below(path, &key), &key)?;
            cleaned.insert(key, value);
        }
    }
    Ok(cleaned)
}

fn clean_value(value: Value, path: &str, key: &str) -> Result<Value, String> {
    match value {
        Value::Object(fields) => clean_object(fields, path).map(Value::Object),
        Value::Array(entries) => clean_list(entries, path, key),
        Value::String(posted_text) => clean_text(&posted_text, path, key),
        Value::Number(number) if path.ends_with("cpu.count") && !is_count(&number) => {
            Err(format!("{path}: {number} is not a number of processors"))
        }
        Value::Number(number) if !SIGNED_FIELDS.contains(&key) && is_negative(&number) => {
            Ok(Value::from(0_u64))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value),
    }
}

fn is_count(number: &Number) -> bool {
    number.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0)
}

fn is_negative(number: &Number) -> bool {
    number.as_f64().is_some_and(|number| number < 0.0)
}

/// The path of a field as messages show it: keys are shortened, and without control characters.
fn path_below(path: &str, key: &str) -> String {
    let shown_key: String = without_control_characters(key).chars().take(SHOWN_KEY).collect();
    if path.is_empty() { shown_key } else { format!("{path}.{shown_key}") }
}

fn without_control_characters(posted_text: &str) -> String {
    posted_text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn clean_text(posted_text: &str, path: &str, key: &str) -> Result<Value, String> {
    let longest = if key == "command_line" { LONGEST_ARGUMENTS } else { LONGEST_TEXT };
    let length = posted_text.chars().count();
    if length <= longest {
        return Ok(Value::String(without_control_characters(posted_text)));
    }
    // The output of smartctl often has pages, and nothing reads it, so it is dropped, not refused.
    if key == "smart" {
        return Ok(Value::String(String::new()));
    }
    Err(format!("{path}: it has {length} characters; the limit is {longest}"))
}

fn clean_list(entries: Vec<Value>, path: &str, key: &str) -> Result<Value, String> {
    let limit = LONGEST_LISTS.iter().find(|(field, _)| *field == key);
    let longest = limit.map_or(LONGEST_LIST, |(_, longest)| *longest);
    let count = entries.len();
    if count > longest {
        return Err(format!("{path}: it has {count} entries; the limit is {longest}"));
    }
    let bytes: usize = entries.iter().filter_map(Value::as_str).map(str::len).sum();
    if key == "flags" && bytes > LONGEST_ARGUMENTS {
        return Err(format!(
            "{path}: its entries have more than {LONGEST_ARGUMENTS} characters together"
        ));
    }
    let mut cleaned = Vec::new();
    for (index, entry) in entries.into_iter().enumerate() {
        if !entry.is_null() {
            cleaned.push(clean_value(entry, &format!("{path}[{index}]"), key)?);
        }
    }
    Ok(Value::Array(cleaned))
}

fn deserialize_part<T: DeserializeOwned>(path: &str, value: &Value) -> Result<T, String> {
    read_value(value).map_err(|message| format!("{path}: {message}"))
}

/// Takes a field out of an object; the default of its type if there is no such field.
fn take_field<T: DeserializeOwned + Default>(fields: &mut Object, key: &str) -> Result<T, String> {
    fields.remove(key).map_or_else(|| Ok(T::default()), |value| deserialize_part(key, &value))
}

/// Takes a list out of an object; an empty one if there is no such field.
fn take_list<T: DeserializeOwned>(fields: &mut Object, key: &str) -> Result<Vec<T>, String> {
    match fields.remove(key) {
        None => Ok(Vec::new()),
        Some(Value::Array(entries)) => {
            let entries = entries.into_iter().enumerate();
            entries
                .map(|(index, entry)| deserialize_part(&format!("{key}[{index}]"), &entry))
                .collect()
        }
        // This fails, and serde's message says what is there instead of a list.
        Some(value) => deserialize_part(key, &value),
    }
}

fn take_optional_list<T: DeserializeOwned>(
    fields: &mut Object,
    key: &str,
) -> Result<Option<Vec<T>>, String> {
    if fields.contains_key(key) { take_list(fields, key).map(Some) } else { Ok(None) }
}

fn read_boot_media(media: Option<&str>) -> Result<Option<BootMedia>, String> {
    match media {
        None => Ok(None),
        Some("connected") => Ok(Some(BootMedia::Connected)),
        Some("disconnected") => Ok(Some(BootMedia::Disconnected)),
        Some(word) => Err(format!("media: `{word}` is neither connected nor disconnected")),
    }
}

fn read_inventory(posted: Object) -> Result<Inventory, String> {
    let mut fields: Object = posted.into_iter().map(rename_field).collect();
    let inventory = Inventory {
        hostname: take_field(&mut fields, "hostname")?,
        bmc_address: take_field(&mut fields, "bmcAddress")?,
        bmc_v6_address: take_field(&mut fields, "bmcV6Address")?,
        report_time: None,
        memory: take_field(&mut fields, "memory")?,
        cpu: take_field(&mut fields, "cpu")?,
        interfaces: clean_interfaces(take_list(&mut fields, "interfaces")?)?,
        disks: take_list::<Disk>(&mut fields, "disks")?.into_iter().map(with_path_and_id).collect(),
        boot: take_field(&mut fields, "boot")?,
        system_vendor: take_field(&mut fields, "systemVendor")?,
        gpus: take_list(&mut fields, "gpus")?,
        routes: take_list(&mut fields, "routes")?,
        tpm_version: take_field(&mut fields, "tpmVersion")?,
        truncation: take_field(&mut fields, "truncation")?,
    };
    // An agent that had to leave out everything is taken at its word.
    if inventory.is_usable() {
        if inventory.memory.physical_bytes == 0 {
            return Err("Inventory is not valid, Memory not detected".into());
        }
        if inventory.cpu.count == 0 {
            return Err("Inventory is not valid, CPU not detected".into());
        }
    }
    Ok(inventory)
}

fn rename_field((key, value): (String, Value)) -> (String, Value) {
    (agent_field_name(&key), as_agent_value(value))
}

/// A value as Agents have it: with their names of fields, and with whole numbers only.
fn as_agent_value(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(fields.into_iter().map(rename_field).collect()),
        Value::Array(entries) => Value::Array(entries.into_iter().map(as_agent_value).collect()),
        Value::Number(number) => Value::Number(round_number(number)),
        Value::Null | Value::Bool(_) | Value::String(_) => value,
    }
}

/// The name that an Agent has for a field of a report: `size_bytes` becomes `sizeBytes`.
fn agent_field_name(key: &str) -> String {
    if let Some((_, name)) = RENAMED_FIELDS.iter().find(|(posted, _)| *posted == key) {
        return (*name).to_owned();
    }
    let mut words = key.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

/// Rounds a fraction to the next whole number. One that is negative or too large stays as it is.
fn round_number(number: Number) -> Number {
    if !number.is_f64() {
        return number;
    }
    let fraction = number.as_f64();
    let rounded = fraction.and_then(|fraction| format!("{fraction:.0}").parse::<u64>().ok());
    rounded.map_or(number, Number::from)
}

/// The interfaces that a cluster can use, cleaned: bridges and other virtual ones are left out.
fn clean_interfaces(interfaces: Vec<Interface>) -> Result<Vec<Interface>, String> {
    let mut cleaned = Vec::new();
    for interface in interfaces {
        if matches!(interface.kind.as_str(), "" | "physical" | "vlan" | "bond") {
            cleaned.push(clean_interface(interface)?);
        }
    }
    Ok(cleaned)
}

fn clean_interface(mut interface: Interface) -> Result<Interface, String> {
    interface.mac_address.make_ascii_lowercase();
    if !interface.mac_address.is_empty() {
        check_mac_address(&interface.mac_address)
            .map_err(|error| format!("interfaces: {error} ({})", interface.name))?;
    }
    for addresses in [&mut interface.ipv4_addresses, &mut interface.ipv6_addresses] {
        addresses.retain(|address| address.parse::<Subnet>().is_ok());
    }
    Ok(interface)
}

/// Fills in a path and an id where the agent gave none. As agents make it, the id is the path by
/// identity, else the one by place, else the one by name.
fn with_path_and_id(mut disk: Disk) -> Disk {
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
        let bare = parse_report(SAMPLE).unwrap();
        let inventory = bare.inventory.clone().unwrap();
        let nic = &inventory.interfaces[0];
        assert_eq!(
            (inventory.interfaces.len(), nic.mac_address.as_str()),
            (1, "00:60:2f:31:00:0a")
        );
        assert_eq!((nic.ipv4_addresses.len(), nic.speed_mbps), (1, -1));
        assert_eq!((nic.bios_dev_name.as_str(), nic.client_id.as_str()), ("em1", "x"));
        let disk = &inventory.disks[0];
        assert_eq!((disk.id.as_str(), disk.path.as_str()), ("/dev/disk/by-path/pci", "/dev/sda"));
        assert!(disk.has_uuid && disk.installation_eligibility.eligible);
        assert_eq!(disk.io_perf.as_ref().unwrap().sync_duration_milliseconds, 4);
        assert_eq!((inventory.cpu.clock_megahertz, inventory.memory.usable_bytes), (2100, 0));
        assert_eq!(
            (inventory.bmc_v6_address.as_str(), inventory.boot.command_line.as_str()),
            ("::/0", "a ")
        );
        assert_eq!(
            (inventory.gpus[0].device_id.as_str(), inventory.routes[0].metric),
            ("1050", 100)
        );
        assert!(inventory.system_vendor.is_virtual && inventory.is_usable());
        assert_eq!(inventory.tpm_version, "2.0");
        assert_eq!(bare.timestamp, Some(1_700_000_000));
        let object: Value = serde_json::from_str(SAMPLE).unwrap();
        for inventory in [object, Value::String(SAMPLE.into())] {
            let envelope = json!({"inventory": inventory, "timestamp": 1_700_000_009, "media": "disconnected",
                "stage": "Rebooting", "images": [{"name": "a", "result": "failure"}],
                "ntp_sources": [{"source_name": "t", "source_state": "synced"}],
                "peers": [{"agent": "b", "reached": ["10.0.0.2"], "latency_ms": 0.5}],
                "domains": [{"name": "api.a.test", "addresses": ["10.0.0.3"]}]});
            let report = parse_report(&envelope.to_string()).unwrap();
            assert_eq!(
                (report.inventory, report.timestamp),
                (bare.inventory.clone(), Some(1_700_000_009))
            );
            assert_eq!(
                (report.media, report.stage.as_deref()),
                (Some(BootMedia::Disconnected), Some("Rebooting"))
            );
            assert_eq!(report.peers.unwrap()[0].latency_ms, Some(0.5));
            assert_eq!(report.domains.unwrap()[0].addresses, ["10.0.0.3"]);
            assert_eq!(report.ntp_sources.unwrap()[0].source_state, "synced");
            assert_eq!(report.images.unwrap()[0].result, "failure");
        }
    }

    fn report_with_mac(mac: &str) -> Value {
        json!({"interfaces": [{"name": "e", "mac_address": mac}]})
    }

    #[test]
    fn what_is_wrong_is_refused_by_its_path() {
        let long_text = "x".repeat(1025);
        let disks = vec![json!({}); 513];
        for (posted, message) in [
            (json!([]), "the report is not a JSON object"),
            (json!({"inventory": null, "shiny": 1}), "the report is empty"),
            (json!({"cpu": {"count": 2.5}}), "cpu.count: 2.5 is not a number of processors"),
            (
                json!({"inventory": {"cpu": {"count": -2}}}),
                "inventory.cpu.count: -2 is not a number",
            ),
            (json!({"inventory": "{"}), "inventory is not JSON: "),
            (json!({"hostname": "a"}), "Inventory is not valid, Memory not detected"),
            (json!({"memory": {"physical_bytes": 1}}), "Inventory is not valid, CPU not detected"),
            (json!({"memory": {"physical_bytes": "1"}}), "memory: invalid type: string"),
            (json!({"disks": [{}, {"size_bytes": true}]}), "disks[1]: invalid type: boolean"),
            (json!({"disks": {}}), "disks: invalid type: map"),
            (json!({"disks": disks}), "disks: it has 513 entries; the limit is 512"),
            (
                json!({"inventory": {"disks": [{"name": long_text}]}}),
                "inventory.disks[0].name: it has 1025 char",
            ),
            (
                json!({"cpu": {"flags": vec!["a".repeat(1000); 5]}}),
                "cpu.flags: its entries have more than 4096",
            ),
            (json!({"interfaces": [{"mac_address": "52:54:00"}]}), "interfaces: `52:54:00` is not"),
            (
                report_with_mac("FF:FF:FF:FF:FF:FF"),
                "interfaces: `ff:ff:ff:ff:ff:ff` is a multicast address",
            ),
            (
                report_with_mac("00:00:00:00:00:00"),
                "interfaces: `00:00:00:00:00:00` is not the address of a machine (e)",
            ),
            (json!({"media": "gone"}), "media: `gone` is neither"),
            (json!({"a\nb": long_text}), "a b: it has 1025 characters"),
        ] {
            let error = parse_report(&posted.to_string()).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
        parse_report(r#"{"hostname": "a", "truncation": {"type": "full"}}"#).unwrap();
        let with_smart = json!({"cpu": {"count": 1}, "memory": {"physical_bytes": 1},
            "disks": [{"smart": long_text}], "boot": {"command_line": long_text}});
        let inventory = parse_report(&with_smart.to_string()).unwrap().inventory.unwrap();
        assert_eq!((inventory.disks[0].smart.len(), inventory.boot.command_line.len()), (0, 1025));
    }
}
