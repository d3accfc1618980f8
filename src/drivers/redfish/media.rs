//! Attaches images to the virtual media of a Redfish system and ejects them, whatever its vendor
//! makes of the standard. Never boots a machine.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::controller::ControllerError;
use super::super::http::{ANSWER_TIMEOUT, shorten};
use super::service::{Service, check_status, error_text, sleep};

/// How long inserting may take: a controller may fetch the whole image before it answers.
const INSERT_TIMEOUT: Duration = Duration::from_secs(600);
/// How soon a drive is looked at after it was told something. Each time it is waited twice as long,
/// until it is looked at once a second.
const FIRST_LOOK: Duration = Duration::from_millis(125);
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often a drive is looked at until it is as it was told to be: in ten seconds.
const LOOKS: usize = 13;
/// How often inserting is tried, each time with the fields that the controller has asked for.
const TRIES: usize = 4;

/// A virtual drive for discs.
struct Drive {
    path: String,
    resource: Value,
}

impl Drive {
    /// The path of an action, if the drive has it.
    fn action_target(&self, name: &str) -> Option<&str> {
        self.resource["Actions"][format!("#VirtualMedia.{name}")]["target"].as_str()
    }

    fn is_empty(&self) -> bool {
        // Some drives do not say whether anything is inserted: then the image tells.
        let has_no_image = self.resource["Image"].as_str().is_none_or(str::is_empty);
        self.resource["Inserted"] == false || (self.resource["Inserted"].is_null() && has_no_image)
    }

    /// Whether the drive is for discs, by its media types, or by its name if it has none.
    fn takes_discs(&self) -> bool {
        match self.resource["MediaTypes"].as_array() {
            Some(types) if !types.is_empty() => {
                types.iter().any(|media_type| media_type == "CD" || media_type == "DVD")
            }
            _ => ["CD", "Cd", "2"].iter().any(|ending| self.path.ends_with(ending)),
        }
    }
}

/// Attaches an image in place of what is attached, and waits until it is there.
pub fn insert_image(
    service: &mut Service,
    system: &Value,
    url: &str,
) -> Result<(), ControllerError> {
    let drive = find_drive(service, system)?;
    if !drive.is_empty() {
        if drive.resource["Image"] == url {
            return Ok(());
        }
        eject_from(service, &drive)?;
    }
    service.set_answer_timeout(INSERT_TIMEOUT);
    let result = insert_into(service, &drive, url);
    service.set_answer_timeout(ANSWER_TIMEOUT);
    result?;
    if await_drive(service, &drive.path, DriveContent::Image)? {
        return Ok(());
    }
    Err(format!("{} accepted the image, but has none", shorten(&drive.path)).into())
}

/// Inserts an image into an empty drive, by the drive's action or, where there is none, by a PATCH.
/// A controller that misses fields is asked again with the fields that it names.
fn insert_into(service: &Service, drive: &Drive, url: &str) -> Result<(), ControllerError> {
    let Some(target) = drive.action_target("InsertMedia") else {
        let body = json!({"Image": url, "Inserted": true, "WriteProtected": true});
        let reply = service.patch(&drive.path, &body)?;
        return check_status(reply, &drive.path).map(drop);
    };
    // The fewest fields first: some controllers refuse a field that they do not know.
    let mut body = json!({"Image": url});
    for _ in 0..TRIES {
        let reply = service.post(target, Some(&body))?;
        if reply.status < 400 {
            return check_status(reply, target).map(drop);
        }
        let Some(more_fields) = fields_asked_for(&error_text(&reply.body), &body) else {
            return check_status(reply, target).map(drop);
        };
        for field in more_fields {
            body[*field] = match *field {
                "TransferProtocolType" => {
                    url.split(':').next().unwrap_or_default().to_uppercase().into()
                }
                "TransferMethod" => "Stream".into(),
                "UserName" | "Password" => "none".into(),
                _ => true.into(),
            };
        }
    }
    Err(format!("{} refuses the image in every form", shorten(target)).into())
}

/// The fields that a controller names in its refusal and that were not sent, some together.
fn fields_asked_for(refusal: &str, body: &Value) -> Option<&'static [&'static str]> {
    const GROUPS: [&[&str]; 4] = [
        &["TransferProtocolType"],
        &["TransferMethod"],
        &["UserName", "Password"],
        &["Inserted", "WriteProtected"],
    ];
    GROUPS
        .into_iter()
        .find(|fields| fields.iter().any(|field| refusal.contains(field) && body[*field].is_null()))
}

/// Ejects what is attached, if anything is, and waits until it is gone.
pub fn eject_image(service: &Service, system: &Value) -> Result<(), ControllerError> {
    let drive = find_drive(service, system)?;
    if drive.is_empty() {
        return Ok(());
    }
    eject_from(service, &drive)
}

/// Empties a drive. It counts as done when the drive says that it is empty, whatever the controller
/// has answered.
fn eject_from(service: &Service, drive: &Drive) -> Result<(), ControllerError> {
    let reply = match drive.action_target("EjectMedia") {
        Some(target) => {
            // Some controllers want no body, some an empty object.
            let bare_reply = service.post(target, None)?;
            if matches!(bare_reply.status, 400 | 411 | 415) {
                service.post(target, Some(&json!({})))?
            } else {
                bare_reply
            }
        }
        None => service.patch(&drive.path, &json!({"Image": null, "Inserted": false}))?,
    };
    // It may have been done although the answer is an error.
    if reply.status >= 400 && read_drive(service, &drive.path)?.is_empty() {
        return Ok(());
    }
    check_status(reply, &drive.path)?;
    if await_drive(service, &drive.path, DriveContent::Empty)? {
        return Ok(());
    }
    Err(format!("{} was told to eject its image, but still has it", shorten(&drive.path)).into())
}

/// What is in a drive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DriveContent {
    Empty,
    Image,
}

/// Waits until a drive has this content. False if that takes too long.
fn await_drive(
    service: &Service,
    path: &str,
    content: DriveContent,
) -> Result<bool, ControllerError> {
    let mut next_look = FIRST_LOOK;
    for _ in 0..LOOKS {
        if read_drive(service, path)?.is_empty() == (content == DriveContent::Empty) {
            return Ok(true);
        }
        sleep(next_look);
        next_look = (next_look * 2).min(LOOK_INTERVAL);
    }
    Ok(false)
}

fn read_drive(service: &Service, path: &str) -> Result<Drive, ControllerError> {
    Ok(Drive { path: path.to_owned(), resource: service.get_resource(path)?.body })
}

/// The first drive for discs, of the system or of a controller that manages it.
fn find_drive(service: &Service, system: &Value) -> Result<Drive, ControllerError> {
    if let Some(drive) = find_drive_in(service, &system["VirtualMedia"])? {
        return Ok(drive);
    }
    for link in system["Links"]["ManagedBy"].as_array().into_iter().flatten() {
        let Some(manager) = service.get_optional(link) else { continue };
        if let Some(drive) = find_drive_in(service, &manager["VirtualMedia"])? {
            return Ok(drive);
        }
    }
    Err("it has no virtual drive for discs".into())
}

/// The first drive for discs in a collection.
fn find_drive_in(service: &Service, collection: &Value) -> Result<Option<Drive>, ControllerError> {
    for member in service.list_members(collection) {
        let Some(path) = member["@odata.id"].as_str() else { continue };
        let drive = read_drive(service, path)?;
        if drive.takes_discs() {
            return Ok(Some(drive));
        }
    }
    Ok(None)
}
