//! Speaks Redfish to a management controller. Everything is found by following links: no path but
//! that of the service root is assumed. Never decides what a machine is to do.

mod inventory;
mod media;
mod service;

use serde_json::{Map, Value, json};

use crate::model::hardware::Hardware;

use super::controller::{BootSource, Controller, ControllerError, PowerAction};
use super::http::{HttpClient, Login, shorten};
use super::trust::Trust;

use service::{Service, check_status};

const ROOT: &str = "/redfish/v1/";
/// How many systems are named if the address of a controller names none: an enclosure has no more.
const NAMED_SYSTEMS: usize = 32;

/// One system of a Redfish service.
pub struct Redfish {
    service: Service,
    /// The path of the system in the controller's address; empty for the only one that there is.
    given_path: String,
    /// The path of the system, once it has been found.
    system_path: Option<String>,
    /// Whether it is to boot by UEFI, or as a legacy BIOS does.
    uefi: bool,
}

impl Redfish {
    /// Talks to nobody yet. `origin` is scheme, host and port; `system` the path of the system, or
    /// empty for the only one.
    pub fn new(
        origin: &str,
        system: &str,
        login: Login,
        trust: Trust,
        uefi: bool,
    ) -> Result<Self, String> {
        let service = Service::new(HttpClient::new(origin, login, trust)?);
        Ok(Self { service, given_path: system.into(), system_path: None, uefi })
    }

    /// The path of the system: the one that the address names, else the only one that the
    /// controller has. It is looked up once.
    fn find_system(&mut self) -> Result<String, ControllerError> {
        if let Some(path) = &self.system_path {
            return Ok(path.clone());
        }
        // Every verb looks for its system first.
        self.service.open_session(ROOT)?;
        let path = if self.given_path.is_empty() {
            self.find_only_system()?
        } else {
            self.given_path.clone()
        };
        self.system_path = Some(path.clone());
        Ok(path)
    }

    /// The path of the only system of the controller. A blade enclosure or a multi-node controller
    /// has several, and the address must name one.
    fn find_only_system(&self) -> Result<String, ControllerError> {
        let root = self.service.get_resource(ROOT)?.body;
        let members = self.service.list_members(&root["Systems"]);
        let paths: Vec<&str> =
            members.iter().filter_map(|member| member["@odata.id"].as_str()).collect();
        match paths[..] {
            [path] => Ok(path.to_owned()),
            [] => Err("it has no system, or shows none to this user".into()),
            _ => {
                let count = paths.len();
                let names: Vec<String> =
                    paths.iter().take(NAMED_SYSTEMS).map(|path| shorten(path)).collect();
                let more = count.saturating_sub(NAMED_SYSTEMS);
                let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
                let names = names.join(", ");
                Err(format!("it has {count} systems; the address must name one: {names}{rest}")
                    .into())
            }
        }
    }

    fn read_system(&mut self) -> Result<Value, ControllerError> {
        let path = self.find_system()?;
        Ok(self.service.get_resource(&path)?.body)
    }

    /// The reset types that the system takes; empty if it does not say so. They are in the action
    /// itself, or in a resource that the action links to.
    fn allowed_reset_types(&self, action: &Value) -> Vec<String> {
        let types = texts(&action["ResetType@Redfish.AllowableValues"]);
        if !types.is_empty() {
            return types;
        }
        let link = json!({"@odata.id": action["@Redfish.ActionInfo"]});
        let Some(info) = self.service.get_optional(&link) else { return Vec::new() };
        let mut parameters = info["Parameters"].as_array().into_iter().flatten();
        parameters
            .find(|parameter| parameter["Name"] == "ResetType")
            .map(|parameter| texts(&parameter["AllowableValues"]))
            .unwrap_or_default()
    }

    /// The path where the boot order is changed, and the `Boot` that is there now: the system
    /// itself, or the settings that take effect with its next boot.
    fn find_boot_override(&mut self, system: &Value) -> Result<(String, Value), ControllerError> {
        let path = self.find_system()?;
        if !system["Boot"]["BootSourceOverrideTarget"].is_null() {
            return Ok((path, system["Boot"].clone()));
        }
        let link = &system["@Redfish.Settings"]["SettingsObject"];
        if let Some(path) = link["@odata.id"].as_str()
            && let Some(settings) = self.service.get_optional(link)
            && !settings["Boot"]["BootSourceOverrideTarget"].is_null()
        {
            return Ok((path.to_owned(), settings["Boot"].clone()));
        }
        Err("it has no boot order that can be overridden".into())
    }
}

impl Drop for Redfish {
    fn drop(&mut self) {
        self.service.close_session();
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn contains_word(list: &Value, word: &str) -> bool {
    list.as_array().is_some_and(|values| values.iter().any(|value| value == word))
}

/// Whether an object has all these fields with these values.
fn has_fields(object: &Value, fields: &Map<String, Value>) -> bool {
    fields.iter().all(|(name, value)| object[name] == *value)
}

impl Controller for Redfish {
    fn is_powered_on(&mut self) -> Result<bool, ControllerError> {
        let system = self.read_system()?;
        match system["PowerState"].as_str() {
            Some("On" | "PoweringOff" | "Paused") => Ok(true),
            Some("Off" | "PoweringOn") => Ok(false),
            state => {
                let state = shorten(state.unwrap_or("none"));
                Err(format!("it reports an unknown power state: {state}").into())
            }
        }
    }

    fn request_power(&mut self, action: PowerAction) -> Result<(), ControllerError> {
        let system = self.read_system()?;
        let reset = &system["Actions"]["#ComputerSystem.Reset"];
        let target = reset["target"].as_str().ok_or("its power cannot be controlled")?;
        let allowed_types = self.allowed_reset_types(reset);
        let wanted_types: &[&str] = match action {
            PowerAction::On => &["On", "ForceOn"],
            PowerAction::SoftOff => &["GracefulShutdown"],
            PowerAction::Off => &["ForceOff"],
        };
        let reset_type = if allowed_types.is_empty() {
            // It does not say what it takes: the usual one is tried.
            wanted_types.first()
        } else {
            wanted_types
                .iter()
                .find(|wanted| allowed_types.iter().any(|allowed| allowed == **wanted))
        };
        let Some(reset_type) = reset_type else {
            return Err(format!("it does not support {}", wanted_types.join(" or ")).into());
        };
        let reply = self.service.post(target, Some(&json!({"ResetType": reset_type})))?;
        check_status(reply, target).map(drop)
    }

    fn boot_once(&mut self, source: BootSource) -> Result<(), ControllerError> {
        let system = self.read_system()?;
        let (path, boot) = self.find_boot_override(&system)?;
        let allowed_targets = &boot["BootSourceOverrideTarget@Redfish.AllowableValues"];
        let target = match source {
            // Supermicro takes both, and boots virtual media by this one.
            BootSource::Cdrom if contains_word(allowed_targets, "UsbCd") => "UsbCd",
            BootSource::Cdrom => "Cd",
            BootSource::Pxe => "Pxe",
            BootSource::Disk => "Hdd",
        };
        let mode = if self.uefi { "UEFI" } else { "Legacy" };
        let mut fields = Map::new();
        fields.insert("BootSourceOverrideEnabled".to_owned(), "Once".into());
        fields.insert("BootSourceOverrideTarget".to_owned(), target.into());
        let has_mode = boot["BootSourceOverrideMode"] == mode;
        if has_mode && has_fields(&boot, &fields) {
            return Ok(());
        }
        if !has_mode {
            let mut fields_with_mode = fields.clone();
            fields_with_mode.insert("BootSourceOverrideMode".to_owned(), mode.into());
            let reply = self.service.patch(&path, &json!({"Boot": fields_with_mode}))?;
            if reply.status < 400 {
                return Ok(());
            }
            // Some controllers take the mode only by itself, or not at all.
        }
        let reply = self.service.patch(&path, &json!({"Boot": fields}))?;
        check_status(reply, &path).map(drop)
    }

    fn insert_image(&mut self, url: &str) -> Result<(), ControllerError> {
        let system = self.read_system()?;
        media::insert_image(&mut self.service, &system, url)
    }

    fn eject_image(&mut self) -> Result<(), ControllerError> {
        let system = self.read_system()?;
        media::eject_image(&self.service, &system)
    }

    fn read_hardware(&mut self) -> Result<Option<Hardware>, ControllerError> {
        let system = self.read_system()?;
        Ok(Some(inventory::read_hardware(&self.service, &system)))
    }
}
