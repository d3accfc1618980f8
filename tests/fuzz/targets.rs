//! What is fuzzed, and what it promises beside not to panic.

use std::fs;

use poolctl::drivers::job_folder::JobFolder;
use poolctl::manifest::check_edited_document;
use poolctl::model::address::{Addr, IpRange, Subnet};
use poolctl::model::agent::inventory::Inventory;
use poolctl::model::bmc::BmcAddress;
use poolctl::model::customization::Patch;
use poolctl::model::kinds::Kind;
use poolctl::model::schedule::Schedule;
use poolctl::model::time::{Span, Time};
use poolctl::output::{Format, document_text, select_values};
use poolctl::render::patch::{PatchRules, apply_patches};
use poolctl::rules::validations::{disk_problems, eligible_disks};
use poolctl::yaml::{Node, Part, PartRole, parse_documents, parse_value, to_text, visit_yaml_of};
use serde_json::{Value, json};

/// Something that reads what others wrote.
pub struct Target {
    /// The name of its corpus.
    pub name: &'static str,
    /// Reads an input. The error says which promise was broken; refusing the input breaks none.
    pub read: fn(&[u8]) -> Result<(), String>,
}

pub const TARGETS: [Target; 8] = [
    Target { name: "yaml", read: read_yaml },
    Target { name: "manifests", read: read_manifests },
    Target { name: "patches", read: read_patches },
    Target { name: "cidrs", read: read_addresses },
    Target { name: "jsonpath", read: read_template },
    Target { name: "schedules", read: read_schedule },
    Target { name: "inventories", read: read_inventory },
    Target { name: "results", read: read_results },
];

fn expect(holds: bool, promise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(promise.to_owned()) }
}

/// What was read can be written, and what was written can be read. What is read part by part is what
/// is read at once.
fn read_yaml(input: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(input);
    if let Ok(documents) = parse_documents(&text)
        && let Some(documents_of_parts) = read_in_parts(&text)
    {
        let documents: Vec<Value> = documents.iter().map(Node::to_value).collect();
        expect(documents == documents_of_parts, "it is another document if it is read in parts")?;
    }
    let Ok(value) = parse_value(&text) else { return Ok(()) };
    let written = to_text(&value).map_err(|error| format!("cannot be written: {error}"))?;
    let read = parse_value(&written);
    read.map(drop).map_err(|error| format!("cannot be read again: {error}: {written}"))
}

/// The documents of a text that is read part by part. None if it cannot be read in this way.
fn read_in_parts(text: &str) -> Option<Vec<Value>> {
    let mut documents = Vec::new();
    let mut items = Vec::new();
    let mut take = |part: Part| {
        let mut value = part.node.to_value();
        match part.role {
            PartRole::Item => items.push(value),
            PartRole::RestOfList => {
                if value["kind"] != "List" {
                    return false;
                }
                value["items"] = Value::Array(std::mem::take(&mut items));
                documents.push(value);
            }
            PartRole::Document => documents.push(value),
        }
        true
    };
    visit_yaml_of(text.as_bytes(), &mut take).ok()?;
    Some(documents)
}

/// What is accepted is accepted again.
fn read_manifests(input: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(input);
    for document in parse_documents(&text).unwrap_or_default() {
        let value = document.to_value();
        let kind = Kind::OBJECTS.iter().find(|kind| value["kind"] == kind.name());
        if let Some(kind) = kind
            && let Ok(object) = check_edited_document(*kind, &value)
        {
            let again = check_edited_document(*kind, &object.to_wire());
            again.map_err(|refusal| format!("is refused as it is written: {refusal}"))?;
        }
    }
    Ok(())
}

/// Patches are applied all or none.
fn read_patches(input: &[u8]) -> Result<(), String> {
    let Ok(value) = serde_json::from_slice::<Value>(input) else { return Ok(()) };
    let patches = serde_json::from_value::<Vec<Patch>>(value["patches"].clone());
    let Ok(patches) = patches else { return Ok(()) };
    for strict in [true, false] {
        let mut document = value["document"].clone();
        let rules = PatchRules { strict, allowed: value["allowed"].as_str() };
        if apply_patches(&mut document, &patches, rules).is_err() {
            expect(document == value["document"], "patches that failed have changed something")?;
        }
    }
    Ok(())
}

/// An address or a range is what it is written as, and a subnet contains itself.
fn read_addresses(input: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(input);
    for line in text.lines() {
        if let Ok(address) = line.parse::<Addr>() {
            expect(
                address.to_string().parse::<Addr>() == Ok(address),
                "an address is another one",
            )?;
            expect(Addr::from_key(&address.to_key()) == Some(address), "a key is of another one")?;
        }
        if let Ok(range) = line.parse::<IpRange>() {
            expect(range.to_string().parse::<IpRange>() == Ok(range), "a range is another one")?;
            expect(range.subtract(&[range]).is_empty(), "a range without itself has addresses")?;
            expect(range.contains(range.start) && range.address_count() > 0, "a range is empty")?;
        }
        if let Ok(subnet) = line.parse::<Subnet>() {
            expect(subnet.contains(subnet.first_address()), "a subnet lacks its first address")?;
            let range = subnet.to_range();
            let mut unusable = subnet.unusable_addresses().into_iter();
            expect(unusable.all(|address| range.contains(address)), "it is not of the subnet")?;
        }
        drop(line.parse::<BmcAddress>());
    }
    Ok(())
}

/// Nothing that obeys a terminal is printed.
fn read_template(input: &[u8]) -> Result<(), String> {
    let template = String::from_utf8_lossy(input).into_owned();
    let document = json!({
        "items": [{"metadata": {"name": "a", "labels": {"x.y/z": "1"}}, "n": 1.5, "list": [1, 2, 3]},
            {"metadata": {"name": "\u{1b}[31m\u{202e}"}, "n": null, "list": []}],
        "kind": "List"});
    drop(select_values(&template, &document));
    let Ok(printed) = document_text(&Format::JsonPath(template.clone()), &document) else {
        return Ok(());
    };
    // What the template itself says is printed as it is.
    let obeys = ['\u{1b}', '\u{202e}'];
    expect(template.contains(obeys) || !printed.contains(obeys), "a terminal is told something")
}

/// What is due next is later than now, and what was due is not.
fn read_schedule(input: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(input);
    let Ok(schedule) = text.parse::<Schedule>() else { return Ok(()) };
    drop(schedule.check());
    for now in [Time(0), Time(1_772_452_800_000_000), Time(1_792_891_800_000_000)] {
        if let Some((time, _)) = schedule.next_tick(now) {
            expect(time > now, "the next tick is over")?;
        }
        let then = Time(now.0 - Span::hours(24 * 30).0);
        if let Some(due) = schedule.due_since(then, now) {
            let last = due.last_tick;
            expect(
                last > then && last <= now,
                "the last tick is not of the time that is asked for",
            )?;
        }
    }
    Ok(())
}

/// Disks that are eligible have no problems.
fn read_inventory(input: &[u8]) -> Result<(), String> {
    let Ok(inventory) = serde_json::from_slice::<Inventory>(input) else { return Ok(()) };
    for disk in eligible_disks(&inventory, None) {
        expect(disk_problems(disk, &inventory, None).is_empty(), "a disk with problems is taken")?;
    }
    Ok(())
}

/// The files of a job, whoever wrote them.
fn read_results(input: &[u8]) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let job = JobFolder::from_path(folder.path());
    for name in ["outcome", "started", "order.json", "log", "boot-image"] {
        fs::write(job.file_path(name), input).map_err(|error| error.to_string())?;
    }
    drop(job.read_state());
    drop(job.read_supervisor());
    drop(job.read_order());
    drop(job.boot_image());
    let message = job.last_message().unwrap_or_default();
    expect(message.len() < 64 << 10, "the last message has no limit")
}
