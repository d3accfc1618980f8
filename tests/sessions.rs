//! A controller that has sessions is sent the password once for each piece of work; one that has
//! none, or no more, is sent it with every request.

use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::machines::{reconcile_until, sandbox_on_real_clock};
use crate::rigs::{PASSWORD, USER};
use crate::sandbox::{Sandbox, apply, jsonpath};
use crate::served::{Answer, Request, Server};

const SYSTEM: &str = "/redfish/v1/Systems/1";
const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";
const TOKEN: &str = "CANARY-token";

/// What a controller makes of sessions.
#[derive(Clone, Copy, PartialEq)]
enum Sessions {
    Good,
    /// All are taken.
    Taken,
    /// It forgets each at once.
    Forgotten,
}

fn answer(sessions: Sessions, request: &Request) -> Answer {
    let has_token = request.header("x-auth-token") == Some(TOKEN) && sessions == Sessions::Good;
    let has_login = has_token || request.header("authorization").is_some();
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/redfish/v1/") => Answer::json(&json!({
            "Systems": {"@odata.id": "/redfish/v1/Systems"},
            "Links": {"Sessions": {"@odata.id": SESSIONS}}})),
        ("POST", SESSIONS) if sessions == Sessions::Taken => {
            Answer::error(503, "Base.1.0.SessionLimitExceeded", "too many sessions")
        }
        ("POST", SESSIONS) if request.json()["Password"] != PASSWORD => Answer::status(401),
        ("POST", SESSIONS) => Answer { status: 201, ..Answer::json(&json!({"Id": "7"})) }
            .with_header("X-Auth-Token", TOKEN)
            .with_header("Location", &format!("{SESSIONS}/7")),
        _ if !has_login => Answer::status(401),
        ("DELETE", _) => Answer::status(204),
        ("GET", SYSTEM) => Answer::json(&json!({"PowerState": "Off"})),
        _ => Answer::status(404),
    }
}

fn power_of_host(sandbox: &Sandbox) -> String {
    jsonpath(sandbox, "host/n1", "{.status.conditions[?(@.type==\"PoweredOn\")].status}")
}

/// A state with the host n1 behind a server, after it was asked for its power.
fn ask_host(server: &Server, password: &str) -> Sandbox {
    let sandbox = sandbox_on_real_clock();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
        "stringData": {"username": USER, "password": password}});
    let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "n1"}, "spec": {"online": false,
            "bmc": {"address": server.bmc_address(SYSTEM), "credentialsName": "bmc"}}});
    apply(&sandbox, &format!("{secret}\n---\n{host}"));
    sandbox
}

#[test]
fn the_password_is_sent_once_and_the_session_is_ended() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let server = Server::plain(move |request| {
        requests.lock().unwrap().push(request.clone());
        answer(Sessions::Good, request)
    });
    let sandbox = ask_host(&server, PASSWORD);
    reconcile_until(&sandbox, "asked", |sandbox| power_of_host(sandbox) == "False");
    sandbox.ok("reconcile --wait=30s -q");
    let requests = seen.lock().unwrap();
    assert!(requests.iter().all(|request| request.header("authorization").is_none()));
    let count = |method: &str| requests.iter().filter(|request| request.method == method).count();
    assert!(count("POST") > 0 && count("POST") == count("DELETE"));
    let logs = sandbox.shell("cat $HOME/jobs/*/log; poolctl get host -o yaml").out;
    assert!(!logs.contains(TOKEN) && !logs.contains(PASSWORD), "{logs}");
}

#[test]
fn without_a_session_the_password_goes_with_each_request() {
    for sessions in [Sessions::Taken, Sessions::Forgotten] {
        let server = Server::plain(move |request| answer(sessions, request));
        let sandbox = ask_host(&server, PASSWORD);
        reconcile_until(&sandbox, "asked", |sandbox| power_of_host(sandbox) == "False");
        assert!(server.requests().iter().any(|request| request.header("authorization").is_some()));
    }
}

#[test]
fn a_wrong_password_is_tried_once() {
    let server = Server::plain(|request| answer(Sessions::Good, request));
    let sandbox = ask_host(&server, "another");
    reconcile_until(&sandbox, "refused", |sandbox| {
        jsonpath(sandbox, "host/n1", "{.status.errorMessage}")
            .contains("wrong username or password (401)")
    });
    assert!(server.requests().iter().all(|request| request.header("authorization").is_none()));
}
