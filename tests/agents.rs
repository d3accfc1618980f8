//! Hosts that report themselves (Agents) and the clusters they are bound to: the scenarios in
//! tests/cases/agents, a file per chapter. Each is played from an empty state by the commands that
//! people and hosts type. After each, a second pass is silent and `poolctl doctor` is content.
//!
//! The steps, in which H is an agent, E an InfraEnv, C a cluster, and WHAT an agent or KIND/NAME:
//!
//! ```text
//! infraenv E [of C] [JSON]    an InfraEnv, of a cluster or of none, with JSON merged into it
//! cluster C open|installing|installed|failed|ending [MASTERS+WORKERS] [JSON]
//!                             a simulated cluster at this stage; an open one needs 3+0 hosts
//!                             unless given; JSON is merged into its install-config
//! apply JSON                  any document
//! register H E                host h2 calls itself node-2 and has addresses with a 2
//! report H ok [JSON]|bad|JSON what is in it: enough, with JSON merged into it; too little; this
//! boot H E                    register, report ok, and a pass
//! checkin H, media-lost H, stage H STAGE
//! bind H.. C, unbind H.., approve H.., set H OPTIONS, delete WHAT, patch WHAT JSON
//! want H C|-                  its cluster is set, or unset, by a patch
//! bound H E C                 booted, bound, and booted again
//! installing H E C            the same, and approved
//! node H E C                  the same, and an hour later
//! imported WHAT JSON          the whole state is moved, with JSON merged into WHAT on the way
//! pass                        reconcile
//! wait SPAN                   the clock is set forward
//! poolctl, ssh-keygen, test   as people type them
//! ```
//!
//! The expectations, in which messages are parts of what is said:
//!
//! ```text
//! refused CODE STEP => MESSAGE
//! state H STATE [MESSAGE]
//! cond WHAT TYPE STATUS REASON [MESSAGE]
//! check H VALIDATION STATUS [MESSAGE]
//! is WHAT POINTER JSON
//! label WHAT KEY VALUE|-
//! event WHAT REASON [MESSAGE], events WHAT REASON COUNT
//! gone WHAT
//! quiet                       a pass changes nothing and says nothing
//! ```

use std::collections::{BTreeSet, HashSet};
use std::fmt::Debug;
use std::path::PathBuf;

use poolctl::model::time::{Span, Time};
use serde_json::{Value, json};

use crate::cases::{Scenario, assert_all_hold, first_word, scenarios};
use crate::sandbox::{NOON, Ran, Sandbox, apply};

/// The report of a host that is too small for any role.
const TOO_SMALL: &str = r#"{"cpu": {"count": 2}, "memory": {"physical_bytes": 130}, "disks": []}"#;

/// What was found instead of what a line expects.
type Outcome = Result<(), String>;

fn parse_json(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

/// Words, and the JSON after them.
fn split_patch(line: &str) -> (&str, Value) {
    match line.find('{') {
        Some(start) => (line[..start].trim_end(), parse_json(&line[start..])),
        None => (line, json!({})),
    }
}

fn success() -> Ran {
    Ran { code: 0, out: String::new(), err: String::new() }
}

fn check(holds: bool, actual: &impl Debug) -> Outcome {
    if holds { Ok(()) } else { Err(format!("found {actual:?}")) }
}

/// What a host says of itself: `ok` with a patch, `bad`, or the report itself.
fn inventory_of(host: &str, description: &str) -> Value {
    let patch = match description.split_once(' ').unwrap_or((description, "{}")) {
        ("ok", patch) => patch,
        ("bad", _) => TOO_SMALL,
        _ => return parse_json(description),
    };
    let digits: String = host.chars().filter(char::is_ascii_digit).collect();
    let number: u8 = digits.parse().unwrap_or_default();
    let mut inventory = parse_json(include_str!("../examples/agents/reports/node-1.json"));
    inventory["hostname"] = format!("node-{number}").into();
    inventory["interfaces"][0]["mac_address"] = format!("02:00:00:00:00:{number:02}").into();
    inventory["interfaces"][0]["ipv4_addresses"] = json!([format!("1.2.3.{number}/24")]);
    json_patch::merge(&mut inventory, &parse_json(patch));
    inventory
}

/// A simulated cluster, and before it the Secret of its install-config if it needs hosts.
fn cluster_documents(name: &str, stage: &str, hosts: Option<&str>, patch: &Value) -> Vec<Value> {
    let install_duration = if stage == "installed" { "1s" } else { "1h" };
    let mut cluster = json!({"apiVersion": "hive.openshift.io/v1", "kind": "ClusterDeployment",
        "metadata": {"name": name, "annotations": {
            "hive.openshift.io/fake-cluster": "true",
            "poolctl.dev/fake-install-duration": install_duration,
            "poolctl.dev/fake-deprovision-duration": "1h"}},
        "spec": {"baseDomain": "lab.test", "clusterName": name, "platform": {"none": {}}}});
    let Some((masters, workers)) = hosts.and_then(|hosts| hosts.split_once('+')) else {
        return vec![cluster];
    };
    let masters: u64 = masters.parse().unwrap();
    let workers: u64 = workers.parse().unwrap();
    let mut install_config = json!({"apiVersion": "v1", "baseDomain": "lab.test",
        "metadata": {"name": name},
        "controlPlane": {"name": "master", "replicas": masters},
        "compute": [{"name": "worker", "replicas": workers}],
        "networking": {"machineNetwork": [{"cidr": "1.2.3.0/24"}]},
        "platform": {"none": {}}});
    json_patch::merge(&mut install_config, patch);
    let platform = install_config["platform"].as_object().unwrap().keys().next().unwrap();
    cluster["spec"]["platform"] = json!({platform: {}});
    let secret_name = format!("{name}-config");
    cluster["spec"]["provisioning"] = json!({"installConfigSecretRef": {"name": secret_name}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret_name},
        "stringData": {"install-config.yaml": install_config.to_string()}});
    vec![secret, cluster]
}

/// Plays one scenario in a state and at a time of its own.
struct Player {
    sandbox: Sandbox,
    now: Time,
    /// How often the state was moved into a new file.
    moves: usize,
}

impl Player {
    fn new() -> Self {
        Self { sandbox: Sandbox::new(), now: NOON.parse().unwrap(), moves: 0 }
    }

    fn apply(&self, documents: &[Value]) -> Ran {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": documents});
        let path = self.sandbox.write_file("applied.json", &list.to_string());
        self.sandbox.run(&format!("apply -f {path}"))
    }

    /// Steps one after the other, until one is refused.
    fn run_steps(&mut self, steps: &[String]) -> Ran {
        let mut ran = success();
        for step in steps {
            ran = self.run_step(step);
            if ran.code != 0 {
                break;
            }
        }
        ran
    }

    /// Moves the whole state into an empty one, and merges a patch into one object on the way.
    fn move_state(&mut self, object: &str, patch: &Value) -> Ran {
        let (kind, name) = match object.split_once('/') {
            None => ("Agent", object),
            Some(("agent", name)) => ("Agent", name),
            Some(("cluster", name)) => ("ClusterDeployment", name),
            Some((kind, _)) => panic!("objects of kind {kind} are not moved"),
        };
        self.moves += 1;
        let folder = self.sandbox.path().display().to_string();
        let file = format!("{folder}/moved-{}.json", self.moves);
        let ran = self.sandbox.run(&format!("export {file} --include-secrets -o json"));
        if ran.code != 0 {
            return ran;
        }
        let mut list = parse_json(&std::fs::read_to_string(&file).unwrap());
        let mut items = list["items"].as_array_mut().unwrap().iter_mut();
        let item = items.find(|item| item["kind"] == kind && item["metadata"]["name"] == name);
        json_patch::merge(item.unwrap_or_else(|| panic!("there is no {object}")), patch);
        let file = self.sandbox.write_file("moved.json", &list.to_string());
        self.sandbox.set_variable("POOLCTL_STATE", &format!("{folder}/moved-{}.db", self.moves));
        self.sandbox.run(&format!("import {file}"))
    }

    fn create_infra_env(&self, line: &str) -> Ran {
        let (words, patch) = split_patch(line);
        let (name, cluster) = words.split_once(" of ").unwrap_or((words, ""));
        let mut infra_env = json!({"apiVersion": "agent-install.openshift.io/v1beta1",
            "kind": "InfraEnv", "metadata": {"name": name},
            "spec": {"pullSecretRef": {"name": "pull"}}});
        if !cluster.is_empty() {
            infra_env["spec"]["clusterRef"] = json!({"name": cluster, "namespace": "default"});
        }
        json_patch::merge(&mut infra_env, &patch);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"},
            "stringData": {".dockerconfigjson": "{\"auths\": {}}"}});
        self.apply(&[secret, infra_env])
    }

    fn create_cluster(&mut self, line: &str) -> Ran {
        let (words, patch) = split_patch(line);
        let words: Vec<&str> = words.split(' ').collect();
        let name = words[0];
        let stage = words[1];
        let default_hosts = if stage == "open" { Some("3+0") } else { None };
        let hosts = words.get(2).copied().or(default_hosts);
        let ran = self.apply(&cluster_documents(name, stage, hosts, &patch));
        if ran.code != 0 {
            return ran;
        }
        match stage {
            "installed" => self.run_steps(&["wait 1s".into(), "pass".into()]),
            "failed" => {
                let stopped = json!({"type": "ProvisionStopped", "status": "True",
                    "reason": "InstallAttemptsLimitReached", "message": "no more"});
                let patch = json!({"status": {"conditions": [stopped]}});
                self.move_state(&format!("cluster/{name}"), &patch)
            }
            "ending" => self.sandbox.run(&format!("delete cluster {name} -y")),
            _ => ran,
        }
    }

    /// Boots a host, binds it and boots it again; approves it before if it is to be installed.
    fn bind_host(&mut self, line: &str, is_approved: bool) -> Ran {
        let words: Vec<&str> = line.split(' ').collect();
        let [host, infra_env, cluster] = words[..] else { panic!("not H E C: {line}") };
        let boot = format!("boot {host} {infra_env}");
        let mut steps = vec![boot.clone()];
        if is_approved {
            steps.push(format!("approve {host}"));
        }
        steps.extend([format!("bind {host} {cluster}"), boot]);
        self.run_steps(&steps)
    }

    fn run_step(&mut self, line: &str) -> Ran {
        let (verb, rest) = first_word(line);
        let (first, second) = first_word(rest);
        match verb {
            "infraenv" => self.create_infra_env(rest),
            "cluster" => self.create_cluster(rest),
            "apply" => self.apply(&[parse_json(rest)]),
            "imported" => self.move_state(first, &parse_json(second)),
            "register" => {
                self.sandbox.run(&format!("agent register --infraenv {second} --id {first}"))
            }
            "report" => {
                let inventory = inventory_of(first, second).to_string();
                let path = self.sandbox.write_file("report.json", &inventory);
                self.sandbox.run(&format!("agent report {first} --inventory {path}"))
            }
            "boot" => self.run_steps(&[
                format!("register {first} {second}"),
                format!("report {first} ok"),
                "pass".into(),
            ]),
            "bound" => self.bind_host(rest, false),
            "installing" => self.bind_host(rest, true),
            "node" => {
                self.run_steps(&[format!("installing {rest}"), "wait 1h".into(), "pass".into()])
            }
            "checkin" => self.sandbox.run(&format!("agent check-in {first}")),
            "media-lost" => self.sandbox.run(&format!("agent report {first} --media-lost")),
            "stage" => self.sandbox.run(&format!("agent report {first} --stage '{second}'")),
            "approve" | "set" | "unbind" => self.sandbox.run(&format!("agent {verb} -y {rest}")),
            "bind" => {
                let (hosts, cluster) = rest.rsplit_once(' ').unwrap();
                self.sandbox.run(&format!("agent bind --cluster {cluster} {hosts}"))
            }
            "want" => {
                let cluster = json!({"name": second, "namespace": "default"});
                let cluster = if second == "-" { Value::Null } else { cluster };
                let patch = json!({"spec": {"clusterDeploymentName": cluster}});
                self.run_step(&format!("patch agent/{first} {patch}"))
            }
            "patch" => self.sandbox.run(&format!("patch -y {first} --type merge -p '{second}'")),
            "delete" => self.sandbox.run(&format!("delete -y {rest}")),
            "poolctl" | "test" | "ssh-keygen" => self.sandbox.shell(line),
            "pass" => self.sandbox.run("reconcile -q"),
            "wait" => {
                self.now = self.now.plus(rest.parse::<Span>().unwrap());
                self.sandbox.set_variable("POOLCTL_NOW", &self.now.to_string());
                success()
            }
            _ => panic!("there is no step `{verb}`"),
        }
    }

    /// An object as JSON, or nothing if there is none.
    fn object(&self, object: &str) -> Option<Value> {
        let (kind, name) = object.split_once('/').unwrap_or(("agent", object));
        let ran = self.sandbox.run(&format!("get {kind} {name} -A -o json"));
        if ran.code == 0 { Some(parse_json(&ran.out)) } else { None }
    }

    fn field(&self, object: &str, pointer: &str) -> Value {
        let document = self.object(object).unwrap_or_default();
        document.pointer(pointer).cloned().unwrap_or_default()
    }

    /// Expects that the entry with this key, of a list or of the lists of a mapping, has these
    /// fields. Of its message a part is enough.
    fn check_entry(
        &self,
        object: &str,
        pointer: &str,
        key: (&str, &str),
        fields: &[(&str, &str)],
    ) -> Outcome {
        let lists: Vec<Value> = match self.field(object, pointer) {
            Value::Object(categories) => categories.into_iter().map(|(_, list)| list).collect(),
            list => vec![list],
        };
        let mut entries = lists.iter().filter_map(Value::as_array).flatten();
        let (key_name, key_value) = key;
        let entry = entries.find(|entry| entry[key_name] == key_value);
        let entry = entry.cloned().unwrap_or_default();
        for (name, expected) in fields {
            let actual = entry[*name].as_str().unwrap_or_default();
            let is_part = *name == "message" && actual.contains(expected);
            if !is_part && actual != *expected {
                return check(false, &entry);
            }
        }
        Ok(())
    }

    /// The events of an object, as reasons and messages.
    fn events(&self, object: &str) -> Vec<(String, String)> {
        let object =
            if object.contains('/') { object.to_owned() } else { format!("agent/{object}") };
        let list = parse_json(&self.sandbox.ok(&format!("events {object} -o json")));
        let mut events = Vec::new();
        for event in list["items"].as_array().into_iter().flatten() {
            let reason = event["reason"].as_str().unwrap_or_default();
            let message = event["message"].as_str().unwrap_or_default();
            events.push((reason.to_owned(), message.to_owned()));
        }
        events
    }

    fn objects_and_events(&self) -> String {
        let objects = self.sandbox.ok("get agent,infraenv,cluster -A -o json");
        objects + &self.sandbox.ok("events -A -o json")
    }

    /// Expects that a pass changes nothing and says nothing.
    fn check_quiet(&self) -> Outcome {
        let before = self.objects_and_events();
        self.sandbox.ok("reconcile -q");
        let after = self.objects_and_events();
        if before == after {
            return Ok(());
        }
        let lines_before: HashSet<&str> = before.lines().collect();
        let new_lines: Vec<&str> =
            after.lines().filter(|line| !lines_before.contains(line)).collect();
        Err(format!("new: {}", new_lines.join("\n")))
    }

    /// Checks an expectation; `None` for a line that is a step.
    fn check_expectation(&self, verb: &str, rest: &str) -> Option<Outcome> {
        let (object, rest) = first_word(rest);
        Some(match verb {
            "state" => {
                let (state, message) = first_word(rest);
                let debug_info = self.field(object, "/status/debugInfo");
                let state_info = debug_info["stateInfo"].as_str().unwrap_or_default();
                let holds = debug_info["state"] == state && state_info.contains(message);
                check(holds, &debug_info)
            }
            "cond" => {
                let (condition, rest) = first_word(rest);
                let (status, rest) = first_word(rest);
                let (reason, message) = first_word(rest);
                let fields = [("status", status), ("reason", reason), ("message", message)];
                self.check_entry(object, "/status/conditions", ("type", condition), &fields)
            }
            "check" => {
                let (validation, rest) = first_word(rest);
                let (status, message) = first_word(rest);
                let fields = [("status", status), ("message", message)];
                self.check_entry(object, "/status/validationsInfo", ("id", validation), &fields)
            }
            "is" => {
                let (pointer, expected) = first_word(rest);
                let actual = self.field(object, pointer);
                check(actual == parse_json(expected), &actual)
            }
            "label" => {
                let (key, expected) = first_word(rest);
                let pointer = format!("/metadata/labels/{}", key.replace('/', "~1"));
                let actual = self.field(object, &pointer);
                check(actual.as_str().unwrap_or("-") == expected, &actual)
            }
            "event" => {
                let (reason, message) = first_word(rest);
                let events = self.events(object);
                let mut messages =
                    events.iter().filter(|(event, _)| event == reason).map(|(_, message)| message);
                check(messages.any(|event| event.contains(message)), &events)
            }
            "events" => {
                let (reason, expected) = first_word(rest);
                let events = self.events(object);
                let actual = events.iter().filter(|(event, _)| event == reason).count();
                check(actual.to_string() == expected, &events)
            }
            "gone" => check(self.object(object).is_none(), &object),
            "quiet" => self.check_quiet(),
            _ => return None,
        })
    }

    fn play_line(&mut self, line: &str) -> Outcome {
        let (verb, rest) = first_word(line);
        if verb == "refused" {
            let (code, rest) = first_word(rest);
            let (step, message) = rest.split_once(" => ").unwrap();
            let ran = self.run_step(step);
            return check(ran.code.to_string() == code && ran.err.contains(message), &ran);
        }
        if let Some(outcome) = self.check_expectation(verb, rest) {
            return outcome;
        }
        let ran = self.run_step(line);
        check(ran.code == 0, &ran)
    }
}

/// What does not hold first in a scenario.
fn play_scenario(scenario: &Scenario<'_>) -> Outcome {
    let mut player = Player::new();
    for line in scenario.lines.iter().chain(&["pass", "quiet", "poolctl doctor"]) {
        player.play_line(line).map_err(|reason| format!("{}: {line}: {reason}", scenario.name))?;
    }
    Ok(())
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases/agents")
}

fn play_chapter(chapter: &str, at_least: usize) {
    let file = std::fs::read_to_string(folder().join(format!("{chapter}.txt"))).unwrap();
    let scenarios = scenarios(&file);
    let outcomes = scenarios.iter().map(play_scenario);
    let failures: Vec<String> = outcomes.filter_map(Result::err).collect();
    assert_all_hold(scenarios.len(), at_least, &failures);
}

/// A test for each chapter, and one that no file of the folder is left out.
macro_rules! chapters {
    ($($test:ident: $chapter:literal has at least $count:literal;)*) => {
        $(
            #[test]
            fn $test() {
                play_chapter($chapter, $count);
            }
        )*

        #[test]
        fn every_chapter_is_played() {
            let played: BTreeSet<String> = [$($chapter),*].map(str::to_owned).into();
            let mut chapters = BTreeSet::new();
            for entry in std::fs::read_dir(folder()).unwrap() {
                let path = entry.unwrap().path();
                chapters.insert(path.file_stem().unwrap().display().to_string());
            }
            assert_eq!(chapters, played);
        }
    };
}

chapters! {
    hosts_register_and_stay_what_they_are: "registration" has at least 34;
    a_host_is_in_the_state_that_its_reports_justify: "health" has at least 32;
    hosts_are_bound_only_where_they_fit: "binding" has at least 45;
    hosts_leave_and_move_between_clusters: "leaving" has at least 34;
    deleting_an_owner_loses_no_host: "deletion" has at least 20;
    invalid_infra_envs_and_agents_are_refused: "validation" has at least 24;
    labels_of_hosts_and_of_people_stay_apart: "labels" has at least 4;
    pools_take_hosts_that_are_ready: "pools" has at least 2;
}

/// `get agent -o name` prints this spelling, and every command takes it.
#[test]
fn a_host_checks_in_under_the_name_with_its_kind() {
    let sandbox = Sandbox::new();
    let manifest = "apiVersion: agent-install.openshift.io/v1beta1\nkind: InfraEnv\n\
                    metadata: {name: rack}\nspec: {pullSecretRef: {name: pull}}\n";
    apply(&sandbox, manifest);
    let id = "4c4c4544-0042-3510-8052-b4c04f4d4e32";
    sandbox.ok(&format!("agent register --infraenv rack --id {id}"));
    let answer = sandbox.ok(&format!("agent check-in agent/{id}"));
    assert!(answer.contains("\"next\":\"none\""), "{answer}");
    sandbox.ok(&format!("agent report agent/{id} --stage Rebooting"));
    sandbox.refused(3, "agent check-in nobody", "there is no agent `nobody`");
}
