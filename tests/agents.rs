//! Hosts and the clusters that they are bound to: scenarios as a table, each played from its
//! beginning by the commands that people and hosts type; after each, a second pass is silent.

use std::collections::HashSet;
use std::fmt::Debug;

use poolctl::model::time::{Span, Time};
use serde_json::{Value, json};

use crate::sandbox::{NOON, Ran, Sandbox};

const TABLE: &str = include_str!("cases/agents.txt");
const BAD: &str = r#"{"cpu": {"count": 2}, "memory": {"physical_bytes": 130}, "disks": []}"#;

/// What does not come as it is said to, for people.
type Found = Result<(), String>;

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

/// Words, and the JSON after them.
fn with_patch(text: &str) -> (&str, Value) {
    match text.find('{') {
        Some(at) => (text[..at].trim_end(), parsed(&text[at..])),
        None => (text, json!({})),
    }
}

fn done() -> Ran {
    Ran { code: 0, out: String::new(), err: String::new() }
}

fn check(good: bool, found: &impl Debug) -> Found {
    good.then_some(()).ok_or_else(|| format!("found {found:?}"))
}

/// What a host says of itself: h2 is node-2, and has addresses with a 2. ok, with changes; bad; or
/// the report itself.
fn report(host: &str, what: &str) -> Value {
    let patch = match what.split_once(' ').unwrap_or((what, "{}")) {
        ("ok", patch) => patch,
        ("bad", _) => BAD,
        _ => return parsed(what),
    };
    let digits: String = host.chars().filter(char::is_ascii_digit).collect();
    let number: u8 = digits.parse().unwrap_or_default();
    let mut found = parsed(include_str!("../examples/agents/inventory.json"));
    found["hostname"] = format!("node-{number}").into();
    found["interfaces"][0]["mac_address"] = format!("02:00:00:00:00:{number:02}").into();
    found["interfaces"][0]["ipv4_addresses"] = json!([format!("1.2.3.{number}/24")]);
    json_patch::merge(&mut found, &parsed(patch));
    found
}

/// A simulated cluster, and if it is to have hosts its install-config before it.
fn cluster(name: &str, stage: &str, hosts: Option<&str>, patch: &Value) -> Vec<Value> {
    let lasts = if stage == "installed" { "1s" } else { "1h" };
    let mut document = json!({"apiVersion": "hive.openshift.io/v1", "kind": "ClusterDeployment",
        "metadata": {"name": name, "annotations": {
            "hive.openshift.io/fake-cluster": "true",
            "poolctl.dev/fake-install-duration": lasts,
            "poolctl.dev/fake-deprovision-duration": "1h"}},
        "spec": {"baseDomain": "lab.test", "clusterName": name, "platform": {"none": {}}}});
    let Some((masters, workers)) = hosts.and_then(|text| text.split_once('+')) else {
        return vec![document];
    };
    let number = |text: &str| text.parse::<u64>().unwrap();
    let mut config = json!({"apiVersion": "v1", "baseDomain": "lab.test",
        "metadata": {"name": name},
        "controlPlane": {"name": "master", "replicas": number(masters)},
        "compute": [{"name": "worker", "replicas": number(workers)}],
        "networking": {"machineNetwork": [{"cidr": "1.2.3.0/24"}]},
        "platform": {"none": {}}});
    json_patch::merge(&mut config, patch);
    let platform = config["platform"].as_object().unwrap().keys().next().unwrap();
    document["spec"]["platform"] = json!({platform: {}});
    let secret = format!("{name}-config");
    document["spec"]["provisioning"] = json!({"installConfigSecretRef": {"name": secret}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret},
        "stringData": {"install-config.yaml": config.to_string()}});
    vec![secret, document]
}

struct Case {
    sandbox: Sandbox,
    now: Time,
    moves: usize,
}

impl Case {
    fn new() -> Self {
        Self { sandbox: Sandbox::new(), now: NOON.parse().unwrap(), moves: 0 }
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.sandbox.run(arguments)
    }

    fn applied(&self, documents: &[Value]) -> Ran {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": documents});
        let path = self.sandbox.file("applied.json", &list.to_string());
        self.run(&["apply", "-f", &path])
    }

    /// One after the other, until one is refused.
    fn all(&mut self, steps: &[String]) -> Ran {
        let (last, before) = steps.split_last().unwrap();
        let refused = before.iter().map(|step| self.step(step)).find(|ran| ran.code != 0);
        refused.unwrap_or_else(|| self.step(last))
    }

    /// The whole state into an empty one, and one object of it changed on the way.
    fn moved(&mut self, what: &str, patch: &Value) -> Ran {
        let (word, name) = what.split_once('/').unwrap_or(("agent", what));
        let kind = match word {
            "agent" => "Agent",
            "cluster" => "ClusterDeployment",
            other => panic!("{other}"),
        };
        self.moves += 1;
        let beside = |end: &str| {
            self.sandbox.path().join(format!("moved-{}.{end}", self.moves)).display().to_string()
        };
        let (file, state) = (beside("json"), beside("db"));
        let ran = self.run(&["export", &file, "--include-secrets", "-o", "json"]);
        if ran.code != 0 {
            return ran;
        }
        let mut list = parsed(&std::fs::read_to_string(&file).unwrap());
        let items = list["items"].as_array_mut().unwrap();
        let its = |one: &&mut Value| one["kind"] == kind && one["metadata"]["name"] == name;
        let one = items.iter_mut().find(its);
        json_patch::merge(one.unwrap_or_else(|| panic!("no {what}")), patch);
        let file = self.sandbox.file("moved.json", &list.to_string());
        self.sandbox.set("POOLCTL_STATE", &state);
        self.run(&["import", &file])
    }

    fn infra_env(&self, text: &str) -> Ran {
        let (words, patch) = with_patch(text);
        let (name, cluster) = words.split_once(" of ").unwrap_or((words, ""));
        let mut document = json!({"apiVersion": "agent-install.openshift.io/v1beta1",
            "kind": "InfraEnv", "metadata": {"name": name},
            "spec": {"pullSecretRef": {"name": "pull"}}});
        if !cluster.is_empty() {
            document["spec"]["clusterRef"] = json!({"name": cluster, "namespace": "default"});
        }
        json_patch::merge(&mut document, &patch);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"},
            "stringData": {".dockerconfigjson": "{\"auths\": {}}"}});
        self.applied(&[secret, document])
    }

    fn cluster(&mut self, text: &str) -> Ran {
        let (words, patch) = with_patch(text);
        let words: Vec<&str> = words.split(' ').collect();
        let (name, stage) = (words[0], words[1]);
        let open = (stage == "open").then_some("3+0");
        let hosts = words.get(2).copied().or(open);
        let ran = self.applied(&cluster(name, stage, hosts, &patch));
        if ran.code != 0 {
            return ran;
        }
        match stage {
            "installed" => self.all(&["wait 1s".into(), "pass".into()]),
            "failed" => {
                let stopped = json!({"type": "ProvisionStopped", "status": "True",
                    "reason": "InstallAttemptsLimitReached", "message": "no more"});
                let patch = json!({"status": {"conditions": [stopped]}});
                self.moved(&format!("cluster/{name}"), &patch)
            }
            "ending" => self.run(&["delete", "cluster", name, "-y"]),
            _ => ran,
        }
    }

    fn step(&mut self, line: &str) -> Ran {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split(' ').collect();
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "infraenv" => self.infra_env(rest),
            "cluster" => self.cluster(rest),
            "apply" => self.applied(&[parsed(rest)]),
            "imported" => self.moved(first, &parsed(second)),
            "register" => self.run(&["agent", "register", "--infraenv", second, "--id", first]),
            "report" => {
                let path = self.sandbox.file("report.json", &report(first, second).to_string());
                self.run(&["agent", "report", first, "--inventory", &path])
            }
            "boot" => self.all(&[
                format!("register {first} {second}"),
                format!("report {first} ok"),
                "pass".into(),
            ]),
            "bound" | "installing" => {
                let [host, from, to] = words[..] else { panic!("{line}") };
                let boot = format!("boot {host} {from}");
                let approve = (word == "installing").then(|| format!("approve {host}"));
                let steps = [Some(boot.clone()), approve, Some(format!("bind {host} {to}"))];
                let steps = steps.into_iter().flatten().chain([boot]);
                self.all(&steps.collect::<Vec<_>>())
            }
            "node" => self.all(&[format!("installing {rest}"), "wait 1h".into(), "pass".into()]),
            "checkin" => self.run(&["agent", "check-in", first]),
            "media-lost" => self.run(&["agent", "report", first, "--media-lost"]),
            "stage" => self.run(&["agent", "report", first, "--stage", second]),
            "approve" | "set" | "unbind" => {
                self.run(&[&["agent", word, "-y"][..], &words[..]].concat())
            }
            "bind" => {
                let (hosts, to) = words.split_at(words.len() - 1);
                self.run(&[&["agent", "bind", "--cluster"][..], to, hosts].concat())
            }
            "want" => {
                let to = json!({"name": second, "namespace": "default"});
                let to = if second == "-" { Value::Null } else { to };
                let patch = json!({"spec": {"clusterDeploymentName": to}});
                self.step(&format!("patch agent/{first} {patch}"))
            }
            "patch" => self.run(&["patch", "-y", first, "--type", "merge", "-p", second]),
            "delete" => self.run(&[&["delete", "-y"][..], &words[..]].concat()),
            // As people type it.
            "poolctl" | "test" | "ssh-keygen" => self.sandbox.shell(line),
            "pass" => self.run(&["reconcile", "-q"]),
            "wait" => {
                self.now = self.now.plus(rest.parse::<Span>().unwrap());
                self.sandbox.set("POOLCTL_NOW", &self.now.to_string());
                done()
            }
            other => panic!("{other}"),
        }
    }

    fn object(&self, what: &str) -> Option<Value> {
        let (kind, name) = what.split_once('/').unwrap_or(("agent", what));
        let ran = self.run(&["get", kind, name, "-A", "-o", "json"]);
        (ran.code == 0).then(|| parsed(&ran.out))
    }

    fn field(&self, what: &str, path: &str) -> Value {
        let found = self.object(what).unwrap_or_default();
        found.pointer(path).cloned().unwrap_or_default()
    }

    /// An entry of a list, that says as much as is expected of it.
    fn entry(&self, what: &str, path: &str, key: (&str, &str), says: &[(&str, &str)]) -> Found {
        let lists: Vec<Value> = match self.field(what, path) {
            Value::Object(categories) => categories.into_iter().map(|(_, list)| list).collect(),
            list => vec![list],
        };
        let mut all = lists.iter().filter_map(Value::as_array).flatten();
        let (name, is) = key;
        let found = all.find(|one| one[name] == is).cloned().unwrap_or_default();
        let meets = |(name, text): &(&str, &str)| {
            let said = found[*name].as_str().unwrap_or_default();
            if *name == "message" { said.contains(*text) } else { said == *text }
        };
        check(says.iter().all(meets), &found)
    }

    /// What happened, as reasons and messages.
    fn events(&self, what: &str) -> Vec<(String, String)> {
        let what = if what.contains('/') { what.to_owned() } else { format!("agent/{what}") };
        let found = parsed(&self.sandbox.ok(&["events", &what, "-o", "json"]));
        let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
        let all = found["items"].as_array().cloned().unwrap_or_default();
        all.iter().map(|one| (text(one, "reason"), text(one, "message"))).collect()
    }

    /// A pass that changes nothing and says nothing.
    fn quiet(&self) -> Found {
        let seen = || {
            let objects = self.sandbox.ok(&["get", "agent,infraenv,cluster", "-A", "-o", "json"]);
            objects + &self.sandbox.ok(&["events", "-A", "-o", "json"])
        };
        let before = seen();
        self.sandbox.ok(&["reconcile", "-q"]);
        let after = seen();
        if before == after {
            return Ok(());
        }
        let known: HashSet<&str> = before.lines().collect();
        let new: Vec<&str> = after.lines().filter(|line| !known.contains(line)).collect();
        Err(format!("new: {}", new.join("\n")))
    }

    /// What is expected; none for a step.
    fn look(&self, word: &str, rest: &str) -> Option<Found> {
        let mut words = rest.splitn(5, ' ');
        let mut next = || words.next().unwrap_or_default();
        let (what, second) = (next(), rest.split_once(' ').map_or("", |(_, rest)| rest));
        Some(match word {
            "state" => {
                let (state, info) = second.split_once(' ').unwrap_or((second, ""));
                let found = self.field(what, "/status/debugInfo");
                let says = found["stateInfo"].as_str().unwrap_or_default();
                check(found["state"] == state && says.contains(info), &found)
            }
            "cond" => {
                let (kind, status, reason) = (next(), next(), next());
                let says = [("status", status), ("reason", reason), ("message", next())];
                self.entry(what, "/status/conditions", ("type", kind), &says)
            }
            "check" => {
                let (id, rest) = second.split_once(' ').unwrap();
                let (status, message) = rest.split_once(' ').unwrap_or((rest, ""));
                let says = [("status", status), ("message", message)];
                self.entry(what, "/status/validationsInfo", ("id", id), &says)
            }
            "is" => {
                let (path, value) = second.split_once(' ').unwrap();
                let found = self.field(what, path);
                check(found == parsed(value), &found)
            }
            "label" => {
                let (key, value) = (next().replace('/', "~1"), next());
                let found = self.field(what, &format!("/metadata/labels/{key}"));
                check(found.as_str().unwrap_or("-") == value, &found)
            }
            "event" => {
                let (reason, text) = second.split_once(' ').unwrap_or((second, ""));
                let all = self.events(what);
                let good = all.iter().any(|(is, says)| is == reason && says.contains(text));
                check(good, &all)
            }
            "events" => {
                let (reason, many) = second.split_once(' ').unwrap();
                let all = self.events(what);
                let found = all.iter().filter(|(is, _)| is == reason).count();
                check(found.to_string() == many, &all)
            }
            "gone" => check(self.object(what).is_none(), &"it"),
            "quiet" => self.quiet(),
            _ => return None,
        })
    }

    fn line(&mut self, line: &str) -> Found {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "refused" {
            let (code, rest) = rest.split_once(' ').unwrap();
            let (step, why) = rest.split_once(" => ").unwrap();
            let ran = self.step(step);
            return check(ran.code.to_string() == code && ran.err.contains(why), &ran);
        }
        if let Some(found) = self.look(word, rest) {
            return found;
        }
        let ran = self.step(line);
        check(ran.code == 0, &ran)
    }
}

/// Every block of some sections; all that do not end as they say are told at once.
fn play(sections: &str, least: usize) {
    let (mut many, mut wrong) = (0, Vec::new());
    for block in TABLE.split("\n\n").map(str::trim) {
        let section = block.strip_prefix("agent-").unwrap_or_default();
        if !section.starts_with(|letter: char| sections.contains(letter)) {
            continue;
        }
        let (name, lines) = block.split_once('\n').unwrap();
        let mut case = Case::new();
        let mut lines = lines.lines().chain(["pass", "quiet", "poolctl doctor"]);
        let failed = lines.find_map(|line| Some((line, case.line(line).err()?)));
        wrong.extend(failed.map(|(line, why)| format!("{name}: {line}: {why}")));
        many += 1;
    }
    assert!(many >= least, "{sections}: {many}");
    assert!(wrong.is_empty(), "{} of {many}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn hosts_register_and_are_judged() {
    play("AB", 30);
}

#[test]
fn hosts_are_bound() {
    play("C", 15);
}

#[test]
fn hosts_leave_and_move() {
    play("D", 15);
}

#[test]
fn what_goes_takes_no_host_along_and_wishes_are_checked() {
    play("EFGH", 18);
}
