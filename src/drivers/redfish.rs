//! A machine by Redfish: everything is found by following links, nothing by its name.

mod inventory;
mod media;
mod service;

use serde_json::{Value, json};

use crate::model::hardware::Hardware;

use super::controller::{BootSource, Controller, ControllerError, PowerAction};
use super::http::{HttpClient, shorten};
use super::trust::Trust;

use service::{Service, check_status};

const ROOT: &str = "/redfish/v1/";

pub struct Redfish {
    service: Service,
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
        let service = Service::new(HttpClient::new(origin, user, password, trust)?);
        Ok(Self { service, given: system.into(), system: None, uefi })
    }

    /// The path of the system: as given, else the only one there is.
    fn path(&mut self) -> Result<String, ControllerError> {
        if let Some(known) = &self.system {
            return Ok(known.clone());
        }
        let found = if self.given.is_empty() {
            let root = self.service.get(ROOT)?.body;
            let members = self.service.list_members(&root["Systems"]);
            let paths: Vec<&str> =
                members.iter().filter_map(|one| one["@odata.id"].as_str()).collect();
            match paths[..] {
                [one] => one.to_owned(),
                [] => return Err("it has no system, or shows none to this user".into()),
                _ => {
                    return Err(format!(
                        "it has {} systems; the address must name one: {}",
                        paths.len(),
                        shorten(&paths.join(", "))
                    )
                    .into());
                }
            }
        } else {
            self.given.clone()
        };
        self.system = Some(found.clone());
        Ok(found)
    }

    fn system(&mut self) -> Result<Value, ControllerError> {
        let path = self.path()?;
        Ok(self.service.get(&path)?.body)
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
        let info = self.service.get_optional(&json!({"@odata.id": action["@Redfish.ActionInfo"]}));
        let parameters = info.as_ref().and_then(|info| info["Parameters"].as_array());
        let reset = parameters.into_iter().flatten().find(|one| one["Name"] == "ResetType");
        reset.map(|one| words(&one["AllowableValues"])).unwrap_or_default()
    }

    /// Where the boot order is changed: there, or in the settings that the next boot takes.
    fn boot_place(&mut self, system: &Value) -> Result<(String, Value), ControllerError> {
        let path = self.path()?;
        let target = "BootSourceOverrideTarget";
        if !system["Boot"][target].is_null() {
            return Ok((path, system["Boot"].clone()));
        }
        let settings = &system["@Redfish.Settings"]["SettingsObject"];
        match (settings["@odata.id"].as_str(), self.service.get_optional(settings)) {
            (Some(place), Some(found)) if !found["Boot"][target].is_null() => {
                Ok((place.to_owned(), found["Boot"].clone()))
            }
            _ => Err("it has no boot order that can be overridden".into()),
        }
    }
}

impl Controller for Redfish {
    fn is_powered_on(&mut self) -> Result<bool, ControllerError> {
        let system = self.system()?;
        match system["PowerState"].as_str() {
            Some("On" | "PoweringOff" | "Paused") => Ok(true),
            Some("Off" | "PoweringOn") => Ok(false),
            other => {
                Err(format!("it says of its power: {}", shorten(other.unwrap_or("nothing"))).into())
            }
        }
    }

    fn request_power(&mut self, action: PowerAction) -> Result<(), ControllerError> {
        let system = self.system()?;
        let reset = &system["Actions"]["#ComputerSystem.Reset"];
        let target = reset["target"].as_str().ok_or("it has no power that can be controlled")?;
        let known = self.resets(reset);
        let words: &[&str] = match action {
            PowerAction::On => &["On", "ForceOn"],
            PowerAction::SoftOff => &["GracefulShutdown"],
            PowerAction::Off => &["ForceOff"],
        };
        let word = words.iter().find(|one| known.iter().any(|it| it == *one));
        let word = match word {
            Some(word) => word,
            None if known.is_empty() => words[0],
            None => return Err(format!("it cannot be told {}", words.join(" or ")).into()),
        };
        let reply = self.service.post(target, Some(&json!({"ResetType": word})))?;
        check_status(reply, target).map(drop)
    }

    fn boot_once(&mut self, from: BootSource) -> Result<(), ControllerError> {
        let system = self.system()?;
        let (place, boot) = self.boot_place(&system)?;
        let known = boot["BootSourceOverrideTarget@Redfish.AllowableValues"].as_array();
        let takes = |word: &str| known.is_some_and(|all| all.iter().any(|one| one == word));
        let target = match from {
            // Supermicro has both, and boots virtual media by this one.
            BootSource::Cdrom if takes("UsbCd") => "UsbCd",
            BootSource::Cdrom => "Cd",
            BootSource::Pxe => "Pxe",
            BootSource::Disk => "Hdd",
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
            let reply = self.service.patch(&place, &json!({"Boot": wanted}))?;
            if reply.status < 400 {
                return Ok(());
            }
            // Some take the mode only by itself, or not at all.
        }
        let reply = self.service.patch(&place, &plain)?;
        check_status(reply, &place).map(drop)
    }

    fn insert_image(&mut self, url: &str) -> Result<(), ControllerError> {
        let system = self.system()?;
        media::insert_image(&mut self.service, &system, url)
    }

    fn eject_image(&mut self) -> Result<(), ControllerError> {
        let system = self.system()?;
        media::eject_image(&self.service, &system)
    }

    fn read_hardware(&mut self) -> Result<Option<Hardware>, ControllerError> {
        let system = self.system()?;
        Ok(Some(inventory::read_hardware(&self.service, &system)))
    }
}
