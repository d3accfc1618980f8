//! Everything that a pool of bare metal can be short of is said exactly, wherever people look.

use poolctl::model::time::{Span, Time};
use serde_json::{Value, json};

use crate::metal::{another_pool, boot, boot_host, pass, rack};
use crate::once::whole;
use crate::rack::cluster;
use crate::sandbox::{NOON, Sandbox, apply, jsonpath};

const TABLE: &str = include_str!("cases/shortages.txt");

fn numbers(text: &str) -> Vec<usize> {
    text.split(' ').map(|one| one.parse().unwrap()).collect()
}

/// The whole state in an empty one, but without its InfraEnvs.
fn lose_infra_envs(sandbox: &mut Sandbox) {
    let file = sandbox.path().join("moved.json").display().to_string();
    sandbox.ok(&["export", &file, "--include-secrets", "-o", "json"]);
    let mut list: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    list["items"].as_array_mut().unwrap().retain(|one| one["kind"] != "InfraEnv");
    let file = sandbox.file("left.json", &list.to_string());
    let state = sandbox.path().join("moved.db").display().to_string();
    sandbox.set("POOLCTL_STATE", &state);
    sandbox.ok(&["import", &file]);
}

fn step(sandbox: &mut Sandbox, line: &str) {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "hosts" => boot(sandbox, &numbers(rest)),
        "hosts-of" => {
            let (environment, hosts) = rest.split_once(' ').unwrap();
            for number in numbers(hosts) {
                boot_host(sandbox, environment, number, &json!({}));
                sandbox.ok(&["agent", "approve", &format!("h{number}"), "-q"]);
            }
        }
        "report" => {
            let (number, patch) = rest.split_once(' ').unwrap();
            let patch = serde_json::from_str(patch).unwrap();
            boot_host(sandbox, "rack", number.parse().unwrap(), &patch);
        }
        "apply" => drop(apply(sandbox, rest)),
        "cluster" => drop(apply(sandbox, &cluster(rest, 1, 0))),
        "lost-infraenv" => lose_infra_envs(sandbox),
        "silence" => {
            let now: Time = NOON.parse().unwrap();
            let later = now.plus(Span::minutes(rest.parse::<i64>().unwrap() + 1));
            sandbox.set("POOLCTL_NOW", &later.to_string());
        }
        "poolctl" => {
            let ran = sandbox.shell(line);
            assert_eq!(ran.code, 0, "{line}: {}", ran.err);
        }
        other => panic!("{other}"),
    }
}

/// A block: what is not said where it should be.
fn play(block: &str) -> Vec<String> {
    let mut sandbox = rack();
    let (name, lines) = block.split_once('\n').unwrap();
    let expected =
        |line: &&str| ["says ", "pool ", "next "].iter().any(|word| line.starts_with(word));
    let (expected, steps): (Vec<&str>, Vec<&str>) = lines.lines().partition(expected);
    for line in steps {
        step(&mut sandbox, line);
    }
    let plan = |sandbox: &Sandbox| sandbox.run(&["plan", "--pool", "metal"]).out;
    let before = plan(&sandbox);
    sandbox.ok(&["reconcile", "-q"]);
    let describe = sandbox.ok(&["describe", "pool", "metal"]);
    let why = sandbox.ok(&["why", "pool/metal"]);
    let seen = [
        ("plan before", before),
        ("plan", plan(&sandbox)),
        ("describe", describe),
        ("why", why),
        ("status", sandbox.ok(&["status"])),
    ];
    let mut wrong = Vec::new();
    for line in expected {
        let (word, text) = line.split_once(' ').unwrap();
        let next = format!("Next: {text}");
        for (place, said) in &seen {
            let counts = match word {
                "says" => true,
                "pool" => *place != "status",
                _ => ["describe", "why"].contains(place),
            };
            let text = if word == "next" { next.as_str() } else { text };
            if counts && !said.contains(text) {
                wrong.push(format!("{name}: {place} does not say `{text}`:\n{said}"));
            }
        }
    }
    let list = jsonpath(&sandbox, "cluster", "{.items[*].metadata.name}");
    let made = list.split_whitespace().filter(|one| one.starts_with("metal-")).count();
    let wanted = usize::from(name.contains("second cluster"));
    if made != wanted {
        wrong.push(format!("{name}: {made} clusters were made"));
    } else if !name.contains("another cluster") {
        whole(&sandbox, 3, 5);
    }
    wrong
}

#[test]
fn every_shortage_is_said_exactly_by_plan_describe_why_and_status() {
    let blocks = TABLE.split("\n\n").filter(|block| !block.starts_with('#'));
    let (mut many, mut wrong) = (0, Vec::new());
    for block in blocks {
        wrong.extend(play(block.trim()));
        many += 1;
    }
    assert!(many >= 18, "{many}");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// What two pools have, as sizes.
fn sizes(sandbox: &Sandbox) -> [String; 2] {
    ["metal", "rival"].map(|name| jsonpath(sandbox, &format!("pool/{name}"), "{.status.size}"))
}

#[test]
fn two_pools_that_want_the_same_hosts_share_none_and_the_short_one_says_so() {
    let sandbox = rack();
    apply(&sandbox, &another_pool("rival", "metal-b"));
    boot(&sandbox, &[1, 2, 3, 4]);
    pass(&sandbox);
    assert_eq!(sizes(&sandbox).concat().matches('1').count(), 1, "{:?}", sizes(&sandbox));
    let (winner, short) =
        if sizes(&sandbox)[0] == "1" { ("metal", "rival") } else { ("rival", "metal") };
    let its = jsonpath(&sandbox, "cluster", "{.items[0].metadata.name}");
    let why = sandbox.ok(&["why", &format!("pool/{short}")]);
    assert!(why.contains("needs 3 master-capable agents matching rack=7; 1 free, 3"), "{why}");
    assert!(why.contains(&its), "{why}");
    assert!(sandbox.ok(&["status"]).contains("1 free, 3"));
    let plan = sandbox.run(&["plan", "--pool", short]);
    assert!(
        plan.out.contains(&format!("clusterpool/{short}: 0 of 1 clusters: needs 3")),
        "{plan:?}"
    );
    // What the one gives back the other takes, once it is booted again.
    sandbox.ok(&["pool", "scale", winner, "--size", "0", "-q"]);
    pass(&sandbox);
    assert_eq!(jsonpath(&sandbox, "cluster", "{.items[*].metadata.name}"), "");
    boot(&sandbox, &[1, 2, 3, 4]);
    pass(&sandbox);
    assert_eq!(jsonpath(&sandbox, &format!("pool/{short}"), "{.status.size}"), "1");
}

#[test]
fn pools_that_are_scaled_at_once_take_no_host_twice() {
    for _ in 0..3 {
        let sandbox = rack();
        sandbox.ok(&["pool", "scale", "metal", "--size", "0", "-q"]);
        apply(&sandbox, &another_pool("rival", "metal-b").replace("  size: 1\n", "  size: 0\n"));
        boot(&sandbox, &[1, 2, 3, 4, 5]);
        sandbox.ok(&["reconcile", "-q"]);
        let scale =
            |name: &str| ["pool", "scale", name, "--size", "1", "-q"].map(str::to_owned).to_vec();
        let pass = || ["reconcile", "-q"].map(str::to_owned).to_vec();
        sandbox.together(&[scale("metal"), pass(), scale("rival"), pass()]);
        sandbox.ok(&["reconcile", "-q"]);
        whole(&sandbox, 3, 5);
        assert_eq!(sizes(&sandbox).concat().matches('1').count(), 1, "{:?}", sizes(&sandbox));
    }
}
