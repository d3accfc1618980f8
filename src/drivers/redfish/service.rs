//! Reads, changes and waits for the resources of a Redfish service, whatever its vendor makes of
//! the standard. Never decides what is changed.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::Method;

use crate::model::host::ErrorReason;

use super::super::controller::ControllerError;
use super::super::http::{HttpClient, Reply, shorten};
use super::super::process::Stopwatch;

/// How often a controller that is busy, or fails inside, is asked again.
const TRIES: usize = 5;
/// How long to wait before it is asked again.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// What vendors say when they are only busy.
const BUSY_MESSAGES: [&str; 2] = ["SYS518", "InvalidOperationForSystemState"];
/// How long a task of the controller may take.
const TASK_TIMEOUT: Duration = Duration::from_secs(300);
/// Pages of a collection that are read, and members that are returned.
const PAGES: usize = 16;
const MEMBERS: usize = 256;

/// A Redfish service, with what vendors make of it smoothed out.
pub struct Service {
    client: HttpClient,
}

impl Service {
    /// A client of one controller. Nothing is asked yet.
    pub fn new(client: HttpClient) -> Self {
        Self { client }
    }

    /// Opens a session, so that the password is sent once and not with every request. A service
    /// that has no sessions, or no more of them, is used with the password. `root` is the path of the
    /// service root, which everybody may read.
    pub fn open_session(&self, root: &str) -> Result<(), ControllerError> {
        let root = self.client.get_without_login(root)?.body;
        let Some(path) = root["Links"]["Sessions"]["@odata.id"].as_str() else { return Ok(()) };
        match self.client.open_session(path) {
            // Another try with the same password might lock the account.
            Ok(reply) if reply.status == 401 => check_status(reply, path).map(drop),
            _ => Ok(()),
        }
    }

    /// Ends the session that was opened, if any was.
    pub fn close_session(&mut self) {
        self.client.close_session();
    }

    /// How long an answer may take from here on.
    pub fn set_answer_timeout(&mut self, timeout: Duration) {
        self.client.answer_timeout = timeout;
    }

    /// Reads a resource. If the controller fails inside, it is asked again.
    pub fn get_resource(&self, path: &str) -> Result<Reply, ControllerError> {
        let mut reply = self.client.send_request(&Method::GET, path, None, None)?;
        for _ in 0..TRIES {
            if !matches!(reply.status, 500 | 502..=504) {
                break;
            }
            sleep(RETRY_INTERVAL);
            reply = self.client.send_request(&Method::GET, path, None, None)?;
        }
        check_status(reply, path)
    }

    /// Reads a resource that may be missing, by a link to it. Asks once; an error counts as
    /// missing.
    pub fn get_optional(&self, link: &Value) -> Option<Value> {
        let path = link["@odata.id"].as_str()?;
        let reply = self.client.send_request(&Method::GET, path, None, None).ok()?;
        check_status(reply, path).ok().map(|reply| reply.body)
    }

    /// The links in a collection, at most 256: nothing that a machine is made of has more.
    pub fn list_members(&self, collection: &Value) -> Vec<Value> {
        let mut members = Vec::new();
        let mut next_page = self.get_optional(collection);
        for _ in 0..PAGES {
            let Some(page) = next_page else { break };
            members.extend(page["Members"].as_array().into_iter().flatten().take(MEMBERS).cloned());
            if members.len() >= MEMBERS {
                break;
            }
            next_page = self.get_optional(&json!({"@odata.id": page["Members@odata.nextLink"]}));
        }
        members.truncate(MEMBERS);
        members
    }

    /// Sends a change, again if the controller is busy, and waits for its task if it makes one.
    fn send_change(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        etag: Option<&str>,
    ) -> Result<Reply, ControllerError> {
        for _ in 0..TRIES {
            let reply = self.client.send_request(method, path, body, etag)?;
            let error = error_text(&reply.body);
            if reply.status < 400 || !BUSY_MESSAGES.iter().any(|message| error.contains(message)) {
                return self.wait_for_task(reply, path);
            }
            sleep(RETRY_INTERVAL);
        }
        Err(ControllerError::away(format!("{path}: busy for {TRIES} tries")))
    }

    /// Waits until the task is over that a reply of 202 refers to. Returns the last reply.
    fn wait_for_task(&self, mut reply: Reply, path: &str) -> Result<Reply, ControllerError> {
        if reply.status != 202 {
            return Ok(reply);
        }
        let Some(task_path) = reply.location.clone() else { return Ok(reply) };
        let stopwatch = Stopwatch::start();
        while reply.status == 202 {
            if stopwatch.elapsed() > TASK_TIMEOUT {
                let seconds = TASK_TIMEOUT.as_secs();
                return Err(format!("{path}: its task did not finish within {seconds} s").into());
            }
            sleep(Duration::from_secs(reply.retry_after.unwrap_or(1).clamp(1, 30)));
            reply = self.client.send_request(&Method::GET, &task_path, None, None)?;
            // Some never answer anything but 202 or 200, and tell in the task how it is.
            if let Some(state) = reply.body["TaskState"].as_str() {
                match state {
                    "Completed" => return Ok(Reply { status: 200, ..reply }),
                    "Exception" | "Killed" | "Cancelled" => {
                        let error = shorten(&error_text(&reply.body));
                        return Err(format!("{path}: task {state}: {error}").into());
                    }
                    _ => reply.status = 202,
                }
            }
        }
        Ok(reply)
    }

    /// Changes a resource. The request has the tag that the resource has now; controllers differ in
    /// which form of it they take, and some take only a request without.
    pub fn patch(&self, path: &str, body: &Value) -> Result<Reply, ControllerError> {
        let before = self.get_resource(path)?;
        let etag = before.body["@odata.etag"].as_str().or(before.etag.as_deref());
        let mut accepted_forms: Vec<&str> = Vec::new();
        if let Some(etag) = etag
            && !etag.is_empty()
        {
            accepted_forms.push(etag);
            // Without the mark of a weak tag.
            accepted_forms.extend(etag.strip_prefix("W/"));
        }
        for etag in accepted_forms {
            let reply = self.send_change(&Method::PATCH, path, Some(body), Some(etag))?;
            if reply.status != 412 {
                return Ok(reply);
            }
        }
        self.send_change(&Method::PATCH, path, Some(body), None)
    }

    /// Starts an action.
    pub fn post(&self, path: &str, body: Option<&Value>) -> Result<Reply, ControllerError> {
        self.send_change(&Method::POST, path, body, None)
    }
}

/// The reply, if it is no refusal. The error is for people.
pub fn check_status(reply: Reply, path: &str) -> Result<Reply, ControllerError> {
    Err(match reply.status {
        200..300 => return Ok(reply),
        401 => ControllerError::new(
            ErrorReason::CredentialsUnusable,
            "wrong username or password (401)",
        ),
        403 => "the user may not do this (403)".into(),
        status => {
            let error = error_text(&reply.body);
            let explanation = if error.is_empty() { error } else { format!(": {error}") };
            let message = format!("{} answers {status}{}", shorten(path), shorten(&explanation));
            if status == 429 || status >= 500 {
                ControllerError::away(message)
            } else {
                message.into()
            }
        }
    })
}

/// All that an answer says of an error, in one line: ids and messages, as far as there are any.
pub fn error_text(body: &Value) -> String {
    let error = &body["error"];
    let details = error["@Message.ExtendedInfo"].as_array().into_iter().flatten();
    let task_messages = body["Messages"].as_array().into_iter().flatten();
    let mut texts: Vec<&str> = Vec::new();
    for message in details.chain(task_messages) {
        texts.extend(message["MessageId"].as_str());
        texts.extend(message["Message"].as_str());
    }
    texts.extend(error["code"].as_str());
    texts.extend(error["message"].as_str());
    texts.dedup();
    texts.join(" ")
}

/// Waits between two questions to a controller.
#[expect(clippy::disallowed_methods, reason = "waits for a controller, not for a time")]
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}
