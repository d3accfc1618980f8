//! A Redfish service: resources are read, changed and waited for, however its vendor answers. Never
//! decides what is changed.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::Method;

use crate::model::host::ErrorReason;

use super::super::controller::ControllerError;
use super::super::http::{HttpClient, Reply, shorten};
use super::super::process::Stopwatch;

/// How often a controller that is busy, or does not know what happened, is asked again.
const TRIES: usize = 5;
const BREATH: Duration = Duration::from_secs(2);
/// What vendors say when they are only busy.
const BUSY: [&str; 2] = ["SYS518", "InvalidOperationForSystemState"];
/// How long a task may take.
const TASK: Duration = Duration::from_secs(300);

pub struct Service {
    client: HttpClient,
}

impl Service {
    pub fn new(client: HttpClient) -> Self {
        Self { client }
    }

    /// How long an answer may take from here on.
    pub fn set_answer_timeout(&mut self, timeout: Duration) {
        self.client.answer_timeout = timeout;
    }

    /// A resource. What fails inside the controller is asked again.
    pub fn get(&self, path: &str) -> Result<Reply, ControllerError> {
        let mut reply = self.client.send_request(&Method::GET, path, None, None)?;
        for _ in 0..TRIES {
            if !matches!(reply.status, 500 | 502..=504) {
                break;
            }
            sleep(BREATH);
            reply = self.client.send_request(&Method::GET, path, None, None)?;
        }
        check_status(reply, path)
    }

    /// A resource that may not be there; asked once.
    pub fn get_optional(&self, link: &Value) -> Option<Value> {
        let path = link["@odata.id"].as_str()?;
        let reply = self.client.send_request(&Method::GET, path, None, None).ok()?;
        check_status(reply, path).ok().map(|reply| reply.body)
    }

    /// All members of a collection, as far as anybody needs them.
    pub fn list_members(&self, collection: &Value) -> Vec<Value> {
        const PAGES: usize = 16;
        const MEMBERS: usize = 256;
        let (mut found, mut page) = (Vec::new(), self.get_optional(collection));
        for _ in 0..PAGES {
            let Some(now) = page else { break };
            found.extend(now["Members"].as_array().into_iter().flatten().take(MEMBERS).cloned());
            if found.len() >= MEMBERS {
                break;
            }
            page = self.get_optional(&json!({"@odata.id": now["Members@odata.nextLink"]}));
        }
        found.truncate(MEMBERS);
        found
    }

    /// Changes something: whoever is busy is asked again, a task is waited for.
    fn change(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        etag: Option<&str>,
    ) -> Result<Reply, ControllerError> {
        for _ in 0..TRIES {
            let reply = self.client.send_request(method, path, body, etag)?;
            let told = error_text(&reply.body);
            if reply.status < 400 || !BUSY.iter().any(|one| told.contains(one)) {
                return self.wait_for_task(reply, path);
            }
            sleep(BREATH);
        }
        Err(format!("{path}: busy for {TRIES} tries").into())
    }

    fn wait_for_task(&self, mut reply: Reply, path: &str) -> Result<Reply, ControllerError> {
        let begun = Stopwatch::start();
        let Some(place) = reply.location.clone().filter(|_| reply.status == 202) else {
            return Ok(reply);
        };
        while reply.status == 202 {
            if begun.elapsed() > TASK {
                return Err(
                    format!("{path}: its task is not over after {} s", TASK.as_secs()).into()
                );
            }
            sleep(Duration::from_secs(reply.retry_after.unwrap_or(1).clamp(1, 30)));
            reply = self.client.send_request(&Method::GET, &place, None, None)?;
            // Some never stop saying 202 and tell it in the task itself.
            if let Some(state) = reply.body["TaskState"].as_str() {
                match state {
                    "Completed" => return Ok(Reply { status: 200, ..reply }),
                    "Exception" | "Killed" | "Cancelled" => {
                        return Err(format!(
                            "{path}: task {state}: {}",
                            shorten(&error_text(&reply.body))
                        )
                        .into());
                    }
                    _ => reply.status = 202,
                }
            }
        }
        Ok(reply)
    }

    /// PATCH with the tag that the resource had; controllers differ in which they take.
    pub fn patch(&self, path: &str, body: &Value) -> Result<Reply, ControllerError> {
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

    pub fn post(&self, path: &str, body: Option<&Value>) -> Result<Reply, ControllerError> {
        self.change(&Method::POST, path, body, None)
    }
}

/// An answer that is not a refusal.
pub fn check_status(reply: Reply, path: &str) -> Result<Reply, ControllerError> {
    Err(match reply.status {
        200..300 => return Ok(reply),
        401 => ControllerError::new(
            ErrorReason::CredentialsUnusable,
            "wrong username or password (401)",
        ),
        403 => "the user may not do this (403)".into(),
        status => {
            let told = error_text(&reply.body);
            let told = if told.is_empty() { String::new() } else { format!(": {told}") };
            format!("{} answers {status}{}", shorten(path), shorten(&told)).into()
        }
    })
}

/// What an error says of itself.
pub fn error_text(body: &Value) -> String {
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
