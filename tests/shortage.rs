//! What a pool of bare metal lacks is said exactly, wherever people look.

use poolctl::model::time::{Span, Time};
use serde_json::json;

use crate::cases::{Scenario, assert_all_hold, first_word, scenarios};
use crate::metal::{another_pool, boot_host, boot_hosts, reconcile_whole, sandbox_with_rack};
use crate::once::assert_clusters_are_whole;
use crate::rack::cluster;
use crate::sandbox::{NOON, Sandbox, apply, jsonpath, move_state};

fn numbers(line: &str) -> Vec<usize> {
    line.split(' ').map(|number| number.parse().unwrap()).collect()
}

/// Does what a line of the cases says.
fn do_step(sandbox: &mut Sandbox, line: &str) {
    let (word, rest) = first_word(line);
    match word {
        "hosts" => boot_hosts(sandbox, &numbers(rest)),
        "hosts-of" => {
            let (environment, hosts) = rest.split_once(' ').unwrap();
            for number in numbers(hosts) {
                boot_host(sandbox, environment, number, &json!({}));
                sandbox.ok(&format!("agent approve h{number} -q"));
            }
        }
        "report" => {
            let (number, patch) = rest.split_once(' ').unwrap();
            let patch = serde_json::from_str(patch).unwrap();
            boot_host(sandbox, "rack", number.parse().unwrap(), &patch);
        }
        "apply" => drop(apply(sandbox, rest)),
        "cluster" => drop(apply(sandbox, &cluster(rest, 1, 0))),
        "lost-infraenv" => {
            move_state(sandbox, |objects| objects.retain(|object| object["kind"] != "InfraEnv"));
        }
        "silence" => {
            let now: Time = NOON.parse().unwrap();
            let later = now.plus(Span::minutes(rest.parse::<i64>().unwrap() + 1));
            sandbox.set_variable("POOLCTL_NOW", &later.to_string());
        }
        "poolctl" => {
            let ran = sandbox.shell(line);
            assert_eq!(ran.code, 0, "{line}: {}", ran.err);
        }
        _ => panic!("{line}"),
    }
}

/// Plays a scenario. Returns what is not said where it should be.
fn play(scenario: &Scenario<'_>) -> Vec<String> {
    let mut sandbox = sandbox_with_rack();
    let name = scenario.name;
    let (expectations, steps): (Vec<&str>, Vec<&str>) = scenario
        .lines
        .iter()
        .copied()
        .partition(|line| ["says", "pool", "next"].contains(&first_word(line).0));
    for line in steps {
        do_step(&mut sandbox, line);
    }
    // A plan must say it as well while no pass has seen the shortage yet.
    let plan_before = sandbox.run("plan --pool metal").out;
    sandbox.ok("reconcile -q");
    let outputs = [
        ("plan before", plan_before),
        ("plan", sandbox.run("plan --pool metal").out),
        ("describe", sandbox.ok("describe pool metal")),
        ("why", sandbox.ok("why pool/metal")),
        ("status", sandbox.status()),
    ];
    let mut wrong = Vec::new();
    for line in expectations {
        let (word, rest) = first_word(line);
        let part = if word == "next" { format!("Next: {rest}") } else { rest.to_owned() };
        for (place, output) in &outputs {
            let is_expected_here = match word {
                "says" => true,
                "pool" => *place != "status",
                _ => ["describe", "why"].contains(place),
            };
            // Where a line is broken does not matter.
            let words: Vec<&str> = output.split_whitespace().collect();
            if is_expected_here && !words.join(" ").contains(&part) {
                wrong.push(format!("{name}: {place} does not say `{part}`:\n{output}"));
            }
        }
    }
    let clusters = jsonpath(&sandbox, "cluster", "{.items[*].metadata.name}");
    let count = clusters.split_whitespace().filter(|name| name.starts_with("metal-")).count();
    if count != usize::from(name.contains("second cluster")) {
        wrong.push(format!("{name}: {count} clusters were made"));
    } else if !name.contains("another cluster") {
        assert_clusters_are_whole(&sandbox, 3, 5);
    }
    wrong
}

#[test]
fn every_shortage_is_said_exactly_by_plan_describe_why_and_status() {
    let scenarios = scenarios(include_str!("cases/shortages.txt"));
    let failures: Vec<String> = scenarios.iter().flat_map(play).collect();
    assert_all_hold(scenarios.len(), 18, &failures);
}

/// The sizes of the pools metal and rival.
fn sizes_of_pools(sandbox: &Sandbox) -> [String; 2] {
    ["metal", "rival"].map(|name| jsonpath(sandbox, &format!("pool/{name}"), "{.status.size}"))
}

#[test]
fn two_pools_that_want_the_same_hosts_share_none_and_the_short_one_says_so() {
    let sandbox = sandbox_with_rack();
    apply(&sandbox, &another_pool("rival", "metal-b"));
    boot_hosts(&sandbox, &[1, 2, 3, 4]);
    reconcile_whole(&sandbox);
    assert_eq!(
        sizes_of_pools(&sandbox).concat().matches('1').count(),
        1,
        "{:?}",
        sizes_of_pools(&sandbox)
    );
    let (winner, short) =
        if sizes_of_pools(&sandbox)[0] == "1" { ("metal", "rival") } else { ("rival", "metal") };
    let cluster_of_winner = jsonpath(&sandbox, "cluster", "{.items[0].metadata.name}");
    let why = sandbox.ok(&format!("why pool/{short}"));
    assert!(why.contains("needs 3 master-capable agents matching rack=7; 1 free, 3"), "{why}");
    assert!(why.contains(&cluster_of_winner), "{why}");
    assert!(sandbox.status().contains("1 free, 3"));
    let plan = sandbox.run(&format!("plan --pool {short}"));
    let words: Vec<&str> = plan.out.split_whitespace().collect();
    assert!(
        words.join(" ").contains(&format!("clusterpool/{short}: 0 of 1 cluster: needs 3")),
        "{plan:?}"
    );
    // The hosts that the winner gives back are taken by the other, once they are booted again.
    sandbox.ok(&format!("pool scale {winner} --size 0 -q"));
    reconcile_whole(&sandbox);
    assert_eq!(jsonpath(&sandbox, "cluster", "{.items[*].metadata.name}"), "");
    boot_hosts(&sandbox, &[1, 2, 3, 4]);
    reconcile_whole(&sandbox);
    assert_eq!(jsonpath(&sandbox, &format!("pool/{short}"), "{.status.size}"), "1");
}

#[test]
fn pools_that_are_scaled_at_once_take_no_host_twice() {
    // Which of the commands comes first differs from time to time.
    for _ in 0..3 {
        let sandbox = sandbox_with_rack();
        sandbox.ok("pool scale metal --size 0 -q");
        apply(&sandbox, &another_pool("rival", "metal-b").replace("  size: 1\n", "  size: 0\n"));
        boot_hosts(&sandbox, &[1, 2, 3, 4, 5]);
        sandbox.ok("reconcile -q");
        let commands = [
            "pool scale metal --size 1 -q",
            "reconcile -q",
            "pool scale rival --size 1 -q",
            "reconcile -q",
        ];
        sandbox.run_together(&commands);
        sandbox.ok("reconcile -q");
        assert_clusters_are_whole(&sandbox, 3, 5);
        assert_eq!(
            sizes_of_pools(&sandbox).concat().matches('1').count(),
            1,
            "{:?}",
            sizes_of_pools(&sandbox)
        );
    }
}
