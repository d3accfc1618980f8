//! Virtual media of a Redfish system, and what vendors make of it. Never boots a machine.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::controller::ControllerError;
use super::super::http::shorten;
use super::service::{Service, check_status, error_text, sleep};

/// A controller may fetch the whole image before it answers.
const FETCHING: Duration = Duration::from_secs(600);
/// How often what was asked for is looked at before it counts as not done.
const LOOKS: usize = 10;
/// What insertion is asked for when a controller names what it misses.
const TRIES: usize = 4;

/// A drive for discs, and where it is.
struct Drive {
    path: String,
    found: Value,
}

impl Drive {
    fn action(&self, name: &str) -> Option<&str> {
        self.found["Actions"][format!("#VirtualMedia.{name}")]["target"].as_str()
    }

    fn is_empty(&self) -> bool {
        let nothing = |value: &Value| value.as_str().is_none_or(str::is_empty);
        self.found["Inserted"] == false
            || (self.found["Inserted"].is_null() && nothing(&self.found["Image"]))
    }
}

pub fn insert_image(
    service: &mut Service,
    system: &Value,
    url: &str,
) -> Result<(), ControllerError> {
    let drive = drive(service, system)?;
    if !drive.is_empty() {
        if drive.found["Image"] == url {
            return Ok(());
        }
        eject_from(service, &drive)?;
    }
    service.set_answer_timeout(FETCHING);
    let inserted = put_in(service, &drive, url);
    service.set_answer_timeout(Duration::from_secs(30));
    inserted?;
    for _ in 0..LOOKS {
        if !look(service, &drive.path)?.is_empty() {
            return Ok(());
        }
        sleep(Duration::from_secs(1));
    }
    Err(format!("{} took the image and has none", shorten(&drive.path)).into())
}

fn put_in(service: &Service, drive: &Drive, url: &str) -> Result<(), ControllerError> {
    let Some(target) = drive.action("InsertMedia") else {
        let body = json!({"Image": url, "Inserted": true, "WriteProtected": true});
        let reply = service.patch(&drive.path, &body)?;
        return check_status(reply, &drive.path).map(drop);
    };
    // The least first: some refuse what they do not know.
    let mut body = json!({"Image": url});
    for _ in 0..TRIES {
        let reply = service.post(target, Some(&body))?;
        let told = error_text(&reply.body);
        let lacks = |name: &str| told.contains(name) && body[name].is_null();
        let more = match reply.status {
            400.. if lacks("TransferProtocolType") => {
                let protocol = url.split(':').next().unwrap_or_default().to_uppercase();
                json!({"TransferProtocolType": protocol})
            }
            400.. if lacks("TransferMethod") => json!({"TransferMethod": "Stream"}),
            400.. if lacks("UserName") || lacks("Password") => {
                json!({"UserName": "none", "Password": "none"})
            }
            400.. if lacks("Inserted") || lacks("WriteProtected") => {
                json!({"Inserted": true, "WriteProtected": true})
            }
            _ => return check_status(reply, target).map(drop),
        };
        for (name, value) in more.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
    }
    Err(format!("{} refuses the image in every form", shorten(target)).into())
}

pub fn eject_image(service: &Service, system: &Value) -> Result<(), ControllerError> {
    let drive = drive(service, system)?;
    if drive.is_empty() {
        return Ok(());
    }
    eject_from(service, &drive)
}

fn eject_from(service: &Service, drive: &Drive) -> Result<(), ControllerError> {
    let reply = match drive.action("EjectMedia") {
        Some(target) => {
            // Some want no body, some an empty one.
            let first = service.post(target, None)?;
            let other = matches!(first.status, 400 | 411 | 415);
            if other { service.post(target, Some(&json!({})))? } else { first }
        }
        None => service.patch(&drive.path, &json!({"Image": null, "Inserted": false}))?,
    };
    // What failed may have been done all the same.
    if reply.status >= 400 && look(service, &drive.path)?.is_empty() {
        return Ok(());
    }
    check_status(reply, &drive.path)?;
    for _ in 0..LOOKS {
        if look(service, &drive.path)?.is_empty() {
            return Ok(());
        }
        sleep(Duration::from_secs(1));
    }
    Err(format!("{} was told to eject, and has its image still", shorten(&drive.path)).into())
}

fn look(service: &Service, path: &str) -> Result<Drive, ControllerError> {
    Ok(Drive { path: path.to_owned(), found: service.get(path)?.body })
}

/// The first drive for discs, of the system or of whoever manages it.
fn drive(service: &Service, system: &Value) -> Result<Drive, ControllerError> {
    let managers = system["Links"]["ManagedBy"].as_array().cloned().unwrap_or_default();
    let own = std::iter::once(system["VirtualMedia"].clone());
    let theirs =
        managers.iter().filter_map(|one| Some(service.get_optional(one)?["VirtualMedia"].clone()));
    for collection in own.chain(theirs) {
        for member in service.list_members(&collection) {
            let Some(path) = member["@odata.id"].as_str() else { continue };
            let found = look(service, path)?;
            let types = found.found["MediaTypes"].as_array().cloned().unwrap_or_default();
            let discs = types.iter().any(|one| one == "CD" || one == "DVD");
            let named = ["CD", "Cd", "2"].iter().any(|end| path.ends_with(end));
            if discs || (types.is_empty() && named) {
                return Ok(found);
            }
        }
    }
    Err("it has no virtual drive for discs".into())
}
