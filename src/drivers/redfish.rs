//! A machine by Redfish: everything is found by following links, nothing by its name.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::Method;

use crate::model::hardware::Hardware;

use super::http::{Client, Reply, short};
use super::inventory;
use super::machine::{Action, Boot, Controller};
use super::media;
use super::process::Stopwatch;
use super::trust::Trust;

const ROOT: &str = "/redfish/v1/";
/// How often a controller that is busy, or does not know what happened, is asked again.
const TRIES: usize = 5;
const BREATH: Duration = Duration::from_secs(2);
/// What vendors say when they are only busy.
const BUSY: [&str; 2] = ["SYS518", "InvalidOperationForSystemState"];
/// How long a task may take.
const TASK: Duration = Duration::from_secs(300);

pub struct Redfish {
    client: Client,
    /// As the address says; empty for the only one.
    given: String,
    system: Option<String>,
    uefi: bool,
}

impl Redfish {
    pub fn new(
        origin: &str,
        system: &str,
        (user, password): (&str, &str),
        trust: Trust,
        uefi: bool,
    ) -> Result<Self, String> {
        let client = Client::new(origin, user, password, trust)?;
        Ok(Self { client, given: system.into(), system: None, uefi })
    }

    /// How long an answer may take from here on.
    pub fn patience(&mut self, time: Duration) {
        self.client.patience = time;
    }

    /// A resource. What fails inside the controller is asked again.
    pub fn get(&self, path: &str) -> Result<Reply, String> {
        let mut reply = self.client.send(&Method::GET, path, None, None)?;
        for _ in 0..TRIES {
            if !matches!(reply.status, 500 | 502..=504) {
                break;
            }
            sleep(BREATH);
            reply = self.client.send(&Method::GET, path, None, None)?;
        }
        checked(reply, path)
    }

    /// A resource that may not be there; asked once.
    pub fn look(&self, link: &Value) -> Option<Value> {
        let path = link["@odata.id"].as_str()?;
        let reply = self.client.send(&Method::GET, path, None, None).ok()?;
        checked(reply, path).ok().map(|reply| reply.body)
    }

    /// All members of a collection, as far as anybody needs them.
    pub fn members(&self, collection: &Value) -> Vec<Value> {
        const PAGES: usize = 16;
        const MEMBERS: usize = 256;
        let (mut found, mut page) = (Vec::new(), self.look(collection));
        for _ in 0..PAGES {
            let Some(now) = page else { break };
            found.extend(now["Members"].as_array().into_iter().flatten().take(MEMBERS).cloned());
            if found.len() >= MEMBERS {
                break;
            }
            page = self.look(&json!({"@odata.id": now["Members@odata.nextLink"]}));
        }
        found.truncate(MEMBERS);
        found
    }

    /// Changes something: whoever is busy is asked again, a task is waited for.
    pub fn change(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        etag: Option<&str>,
    ) -> Result<Reply, String> {
        for _ in 0..TRIES {
            let reply = self.client.send(method, path, body, etag)?;
            let told = said(&reply.body);
            if reply.status < 400 || !BUSY.iter().any(|one| told.contains(one)) {
                return self.task(reply, path);
            }
            sleep(BREATH);
        }
        Err(format!("{path}: busy for {TRIES} tries"))
    }

    fn task(&self, mut reply: Reply, path: &str) -> Result<Reply, String> {
        let begun = Stopwatch::start();
        let Some(place) = reply.location.clone().filter(|_| reply.status == 202) else {
            return Ok(reply);
        };
        while reply.status == 202 {
            if begun.elapsed() > TASK {
                return Err(format!("{path}: its task is not over after {} s", TASK.as_secs()));
            }
            sleep(Duration::from_secs(reply.retry_after.unwrap_or(1).clamp(1, 30)));
            reply = self.client.send(&Method::GET, &place, None, None)?;
            // Some never stop saying 202 and tell it in the task itself.
            if let Some(state) = reply.body["TaskState"].as_str() {
                match state {
                    "Completed" => return Ok(Reply { status: 200, ..reply }),
                    "Exception" | "Killed" | "Cancelled" => {
                        return Err(format!("{path}: task {state}: {}", short(&said(&reply.body))));
                    }
                    _ => reply.status = 202,
                }
            }
        }
        Ok(reply)
    }

    /// PATCH with the tag that the resource had; controllers differ in which they take.
    pub fn patch(&self, path: &str, body: &Value) -> Result<Reply, String> {
        let before = self.get(path)?;
        let tag = before.body["@odata.etag"].as_str().map(str::to_owned).or(before.etag);
        let tag = tag.filter(|tag| !tag.is_empty());
        let strong = tag.as_deref().and_then(|tag| tag.strip_prefix("W/")).map(str::to_owned);
        for tag in [tag, strong].into_iter().flatten() {
            let reply = self.change(&Method::PATCH, path, Some(body), Some(&tag))?;
            if reply.status != 412 {
                return Ok(reply);
            }
        }
        self.change(&Method::PATCH, path, Some(body), None)
    }

    pub fn post(&self, path: &str, body: Option<&Value>) -> Result<Reply, String> {
        self.change(&Method::POST, path, body, None)
    }

    /// The path of the system: as given, else the only one there is.
    fn path(&mut self) -> Result<String, String> {
        if let Some(known) = &self.system {
            return Ok(known.clone());
        }
        let found = if self.given.is_empty() {
            let root = self.get(ROOT)?.body;
            let members = self.members(&root["Systems"]);
            let paths: Vec<&str> =
                members.iter().filter_map(|one| one["@odata.id"].as_str()).collect();
            match paths[..] {
                [one] => one.to_owned(),
                [] => return Err("it has no system, or shows none to this user".into()),
                _ => {
                    return Err(format!(
                        "it has {} systems; the address must name one: {}",
                        paths.len(),
                        short(&paths.join(", "))
                    ));
                }
            }
        } else {
            self.given.clone()
        };
        self.system = Some(found.clone());
        Ok(found)
    }

    pub fn system(&mut self) -> Result<Value, String> {
        let path = self.path()?;
        Ok(self.get(&path)?.body)
    }

    /// The reset types that it takes, if it says so.
    fn resets(&self, action: &Value) -> Vec<String> {
        let words = |all: &Value| -> Vec<String> {
            let all = all.as_array().into_iter().flatten();
            all.filter_map(|one| one.as_str().map(str::to_owned)).collect()
        };
        let known = words(&action["ResetType@Redfish.AllowableValues"]);
        if !known.is_empty() {
            return known;
        }
        let info = self.look(&json!({"@odata.id": action["@Redfish.ActionInfo"]}));
        let parameters = info.as_ref().and_then(|info| info["Parameters"].as_array());
        let reset = parameters.into_iter().flatten().find(|one| one["Name"] == "ResetType");
        reset.map(|one| words(&one["AllowableValues"])).unwrap_or_default()
    }

    /// Where the boot order is changed: there, or in the settings that the next boot takes.
    fn boot_place(&mut self, system: &Value) -> Result<(String, Value), String> {
        let path = self.path()?;
        let target = "BootSourceOverrideTarget";
        if !system["Boot"][target].is_null() {
            return Ok((path, system["Boot"].clone()));
        }
        let settings = &system["@Redfish.Settings"]["SettingsObject"];
        match (settings["@odata.id"].as_str(), self.look(settings)) {
            (Some(place), Some(found)) if !found["Boot"][target].is_null() => {
                Ok((place.to_owned(), found["Boot"].clone()))
            }
            _ => Err("it has no boot order that can be overridden".into()),
        }
    }
}

impl Controller for Redfish {
    fn is_on(&mut self) -> Result<bool, String> {
        let system = self.system()?;
        match system["PowerState"].as_str() {
            Some("On" | "PoweringOff" | "Paused") => Ok(true),
            Some("Off" | "PoweringOn") => Ok(false),
            other => Err(format!("it says of its power: {}", short(other.unwrap_or("nothing")))),
        }
    }

    fn tell(&mut self, action: Action) -> Result<(), String> {
        let system = self.system()?;
        let reset = &system["Actions"]["#ComputerSystem.Reset"];
        let target = reset["target"].as_str().ok_or("it has no power that can be controlled")?;
        let known = self.resets(reset);
        let words: &[&str] = match action {
            Action::On => &["On", "ForceOn"],
            Action::SoftOff => &["GracefulShutdown"],
            Action::Off => &["ForceOff"],
        };
        let word = words.iter().find(|one| known.iter().any(|it| it == *one));
        let word = match word {
            Some(word) => word,
            None if known.is_empty() => words[0],
            None => return Err(format!("it cannot be told {}", words.join(" or "))),
        };
        let reply = self.post(target, Some(&json!({"ResetType": word})))?;
        checked(reply, target).map(drop)
    }

    fn boot_once(&mut self, from: Boot) -> Result<(), String> {
        let system = self.system()?;
        let (place, boot) = self.boot_place(&system)?;
        let known = boot["BootSourceOverrideTarget@Redfish.AllowableValues"].as_array();
        let takes = |word: &str| known.is_some_and(|all| all.iter().any(|one| one == word));
        let target = match from {
            // Supermicro has both, and boots virtual media by this one.
            Boot::Cdrom if takes("UsbCd") => "UsbCd",
            Boot::Cdrom => "Cd",
            Boot::Pxe => "Pxe",
            Boot::Disk => "Hdd",
        };
        let mode = if self.uefi { "UEFI" } else { "Legacy" };
        let mut wanted = json!({
            "BootSourceOverrideEnabled": "Once",
            "BootSourceOverrideTarget": target,
        });
        let same = |body: &Value| {
            body.as_object().is_some_and(|all| all.iter().all(|(name, one)| boot[name] == *one))
        };
        if boot["BootSourceOverrideMode"] == mode && same(&wanted) {
            return Ok(());
        }
        let plain = json!({"Boot": wanted});
        if boot["BootSourceOverrideMode"] != mode {
            wanted["BootSourceOverrideMode"] = mode.into();
            let reply = self.patch(&place, &json!({"Boot": wanted}))?;
            if reply.status < 400 {
                return Ok(());
            }
            // Some take the mode only by itself, or not at all.
        }
        let reply = self.patch(&place, &plain)?;
        checked(reply, &place).map(drop)
    }

    fn insert(&mut self, url: &str) -> Result<(), String> {
        let system = self.system()?;
        media::insert(self, &system, url)
    }

    fn eject(&mut self) -> Result<(), String> {
        let system = self.system()?;
        media::eject(self, &system)
    }

    fn hardware(&mut self) -> Result<Option<Hardware>, String> {
        let system = self.system()?;
        Ok(Some(inventory::of(self, &system)))
    }
}

/// An answer that is not a refusal.
pub fn checked(reply: Reply, path: &str) -> Result<Reply, String> {
    let why = match reply.status {
        200..300 => return Ok(reply),
        401 => "wrong username or password (401)".to_owned(),
        403 => "the user may not do this (403)".to_owned(),
        status => {
            let told = said(&reply.body);
            let told = if told.is_empty() { String::new() } else { format!(": {told}") };
            format!("{} answers {status}{}", short(path), short(&told))
        }
    };
    Err(why)
}

/// What an error says of itself.
pub fn said(body: &Value) -> String {
    let error = &body["error"];
    let all = error["@Message.ExtendedInfo"].as_array().into_iter().flatten();
    let all = all.chain(body["Messages"].as_array().into_iter().flatten());
    let mut told: Vec<String> = all
        .flat_map(|one| [&one["MessageId"], &one["Message"]])
        .filter_map(|one| one.as_str().map(str::to_owned))
        .collect();
    let own = [&error["code"], &error["message"]].into_iter().filter_map(Value::as_str);
    told.extend(own.map(str::to_owned));
    told.dedup();
    told.join(" ")
}

#[expect(clippy::disallowed_methods, reason = "waits for a controller, not for a time")]
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}
