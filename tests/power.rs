//! Power: Hive's states step by step, hibernateAfter, and platforms that cannot stop machines. The
//! H and A rows of the scenarios that apply; sync sets do not exist here.

use poolctl::model::cluster::{Cluster, Power};
use poolctl::model::job::{Health, Verb};
use poolctl::model::state::State;
use poolctl::model::tick::Tick;
use poolctl::model::time::{Span, Time};
use poolctl::plan;

use crate::fixture::{Names, noon};
use crate::sandbox::{Sandbox, jsonpath};

#[expect(clippy::unnecessary_wraps, reason = "facts have times or none")]
fn ago(span: Span) -> Option<Time> {
    Some(Time(noon().now.0 - span.0))
}

/// A cluster without a pool, installed ten hours ago.
fn cluster() -> Cluster {
    Cluster {
        name: "c".into(),
        namespace: "c".into(),
        driver: poolctl::model::driver::Driver::Fake,
        installed_at: ago(Span::hours(10)),
        started_at: ago(Span::hours(11)),
        awake_since: ago(Span::hours(10)),
        power: Power::Running,
        power_since: ago(Span::hours(10)),
        ..Cluster::default()
    }
}

/// One pass at noon, twice: the second is silent.
fn pass(cluster: Cluster, health: Option<&Health>) -> (Cluster, Option<Verb>) {
    let (mut state, tick) = (State::default(), noon());
    state.load_cluster(cluster);
    let seen = |state: &mut State, tick: &Tick| {
        let seen = health.iter().map(|health| ("c".to_owned(), (*health).clone())).collect();
        plan::look(state, seen, tick);
        plan::settle(state, tick, &Names::default()).unwrap();
    };
    seen(&mut state, &tick);
    let changes = state.changes_made();
    seen(&mut state, &tick);
    assert_eq!(state.changes_made(), changes, "a second pass acts");
    let job = state.live_job("c").map(|(_, job)| job.verb);
    (state.clusters.rows().next().unwrap().clone(), job)
}

fn healthy() -> Health {
    Health {
        nodes_ready: true,
        operators_ready: true,
        settle: Span::minutes(2),
        ..Health::default()
    }
}

/// status/reason of Hibernating and Ready, and the power state.
fn shown(one: &Cluster) -> String {
    let (conditions, power) = shown_as(one);
    format!("{conditions} {power}")
}

fn shown_as(one: &Cluster) -> (String, &'static str) {
    let of = |kind: &str| {
        let all = one.conditions();
        let found = all.into_iter().find(|one| one.kind == kind);
        found.map(|one| format!("{}/{}", one.status, one.reason)).unwrap_or_default()
    };
    (format!("{} {}", of("Hibernating"), of("Ready")), one.power_state())
}

fn health(word: &str) -> Option<Health> {
    Some(match word {
        "-" => return None,
        "fake" => Health { settle: Span::default(), ..healthy() },
        "nodes" => Health { nodes_ready: false, ..healthy() },
        "operators" => Health { operators_ready: false, ..healthy() },
        "machines" => {
            let machines = ["stopped-1", "pending-1"].map(str::to_owned).into();
            Health { machines, ..healthy() }
        }
        _ => healthy(),
    })
}

fn named(word: &str) -> Power {
    Power::named(word).unwrap()
}

#[test]
fn hives_steps() {
    let rows = include_str!("cases/power.txt").lines().filter(|line| !line.starts_with('#'));
    for row in rows {
        let [name, is, how, job, expected] =
            row.split(" | ").collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("{row}"));
        let words: Vec<&str> = is.split(' ').collect();
        let since = ago(words[2].parse().unwrap());
        let before = Cluster {
            power: named(words[0]),
            power_wanted: named(words[1]),
            power_since: since,
            awake_since: since,
            power_paused: words.contains(&"paused"),
            powerless: words.contains(&"powerless"),
            ..cluster()
        };
        let (after, found) = pass(before, health(how).as_ref());
        let found = found.map_or("-".to_owned(), |verb| format!("{verb:?}"));
        assert_eq!((found.as_str(), shown(&after).as_str()), (job, expected), "{name}");
    }
    let waiting = Cluster { power: Power::WaitingForMachines, ..cluster() };
    let (after, _) = pass(waiting, health("machines").as_ref());
    let ready = after.conditions().into_iter().find(|one| one.kind == "Ready").unwrap();
    let machines = "Some machines are not yet running: pending-1,stopped-1 (step 1/4)";
    assert_eq!(ready.message, format!("Waiting for cluster machines to start. {machines}"));
}

#[test]
fn before_it_is_installed_and_when_it_goes_a_cluster_has_no_power() {
    let reason = |word: &str| format!("Unknown/{word} Unknown/{word}");
    let goes = Cluster { deleting: ago(Span::minutes(1)), protected: true, ..cluster() };
    let goes = Cluster { power_wanted: Power::Hibernating, ..goes };
    let (after, job) = pass(goes, None);
    assert_eq!(job, None, "H-01");
    assert_eq!(shown_as(&after), (reason("ClusterDeploymentDeleted"), "Unknown"), "H-01");
    let comes = Cluster { installed_at: None, power: Power::Unset, ..cluster() };
    let comes = Cluster { power_wanted: Power::Hibernating, ..comes };
    let (after, job) = pass(comes, None);
    assert_eq!(job, Some(Verb::Provision), "H-03");
    assert_eq!(shown_as(&after), (reason("Initialized"), ""), "H-03");
}

#[test]
fn hibernate_after_counts_from_the_last_of_installation_claim_and_waking() {
    let after = |hours, one: Cluster| Cluster { hibernate_after: Some(Span::hours(hours)), ..one };
    let since = |span| Cluster { power_since: ago(span), ..cluster() };
    let member = |claim: Option<&str>, claimed: Option<Time>| Cluster {
        pool: Some(std::rc::Rc::new(poolctl::model::meta::Key::new("default", "p"))),
        claim: claim.map(str::to_owned),
        claimed_at: claimed,
        ..cluster()
    };
    for (name, one, due) in [
        ("installed 10h", after(8, cluster()), Some(-2)),
        (
            "installed 3h",
            after(8, Cluster { installed_at: ago(Span::hours(3)), ..since(Span::hours(3)) }),
            Some(5),
        ),
        ("resumed 7h", after(8, since(Span::hours(7))), Some(1)),
        ("A-02", after(8, Cluster { powerless: true, ..cluster() }), None),
        ("A-08", after(8, Cluster { power: Power::Starting, ..since(Span::hours(8)) }), None),
        ("A-16", after(1, member(None, None)), None),
        ("claimed 5h", after(8, member(Some("k"), ago(Span::hours(5)))), Some(3)),
        ("never", cluster(), None),
        (
            "wanted asleep",
            after(8, Cluster { power_wanted: Power::Hibernating, ..cluster() }),
            None,
        ),
    ] {
        let expected = due.map(|hours: i64| Time(noon().now.0 + hours * Span::hours(1).0));
        assert_eq!(plan::hibernates_at(&State::default(), &one), expected, "{name}");
    }
    // claimed 5h ago, resumed 10 minutes ago.
    let woken =
        Cluster { power_since: ago(Span::minutes(10)), ..member(Some("k"), ago(Span::hours(5))) };
    let due = plan::hibernates_at(&State::default(), &after(1, woken)).unwrap();
    assert_eq!(due.since(noon().now), Span::minutes(50));
    let (slept, job) = pass(after(8, cluster()), None);
    assert_eq!((slept.power_wanted, job), (Power::Hibernating, Some(Verb::Stop)), "A-06");
}

/// A pool whose clusters are simulated to be ill in some way.
fn ill(how: &str, running: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "lab", "--fake", "--size", "0", "--running-count", running]);
    let steer =
        format!("{{\"spec\": {{\"annotations\": {{\"poolctl.dev/fake-health\": \"{how}\"}}}}}}");
    sandbox.ok(&["patch", "pool", "lab", "-p", &steer]);
    sandbox
}

#[test]
fn where_nothing_can_be_stopped_everything_runs() {
    let sandbox = ill("no-power", "0");
    sandbox.ok(&["pool", "scale", "lab", "--size", "3"]);
    sandbox.ok(&["reconcile", "--wait", "-q"]);
    assert_eq!(jsonpath(&sandbox, "pool", "{.items[0].status.ready}"), "3");
    let said = jsonpath(
        &sandbox,
        "pool",
        "{.items[0].status.conditions[?(@.type==\"HibernationSupported\")].status}",
    );
    assert_eq!(said, "False");
    sandbox.ok(&["claim", "lab", "ci"]);
    sandbox.ok(&["pool", "scale", "lab", "--size", "0"]);
    sandbox.ok(&["reconcile", "--wait", "-q"]);
    assert_eq!(sandbox.ok(&["get", "cluster", "--no-headers"]).lines().count(), 1);
    assert_eq!(sandbox.run(&["plan"]).code, 0);
}

#[test]
fn a_cluster_that_does_not_wake_is_replaced() {
    for how in ["machines", "nodes", "operators", "start-fails"] {
        let mut sandbox = ill(how, "0");
        let limit =
            "{\"spec\": {\"hibernationConfig\": {\"resumeTimeout\": \"20m\"}, \"size\": 1}}";
        sandbox.ok(&["patch", "pool", "lab", "-p", limit]);
        sandbox.ok(&["reconcile", "--wait", "-q"]);
        let old = sandbox.ok(&["get", "cluster", "-qo", "name"]);
        let old = format!("cluster/{}", old.trim());
        sandbox.ok(&["pool", "scale", "lab", "--running-count", "1"]);
        for at in ["12:05", "12:15"] {
            sandbox.set("POOLCTL_NOW", &format!("2026-03-02T{at}:00Z"));
            sandbox.ok(&["reconcile"]);
        }
        let why = sandbox.ok(&["why", &old]);
        assert!(why.contains("is waking for"), "{how}: {why}");
        sandbox.set("POOLCTL_NOW", "2026-03-02T12:30:00Z");
        sandbox.ok(&["reconcile"]);
        let events = sandbox.ok(&["events", &old]);
        assert!(events.contains("broken"), "{how}: {events}");
    }
}

/// A pool of two that sleep, the older of which never wakes from now on; their names, oldest first.
fn oldest_never_wakes(how: &str) -> (Sandbox, Vec<String>) {
    let mut sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "lab", "--fake", "--size", "1", "--max-size", "2"]);
    sandbox.ok(&["pool", "scale", "lab", "--running-count", "0", "-q"]);
    sandbox.ok(&["reconcile", "--wait", "-q"]);
    sandbox.set("POOLCTL_NOW", "2026-03-02T12:30:00Z");
    sandbox.ok(&["pool", "scale", "lab", "--size", "2"]);
    sandbox.ok(&["reconcile", "--wait", "-q"]);
    let names = sandbox.ok(&["get", "cluster", "-qo", "name"]);
    let names: Vec<String> = names.lines().map(str::to_owned).collect();
    let ill = format!("poolctl.dev/fake-health={how}");
    sandbox.ok(&["annotate", "cluster", &names[0], &ill, "-q"]);
    sandbox.set("POOLCTL_NOW", "2026-03-02T13:00:00Z");
    (sandbox, names)
}

#[test]
fn a_claim_does_not_wait_for_a_standby_that_never_wakes_while_another_could_serve_it() {
    for how in ["nodes", "machines", "operators", "start-fails"] {
        let (sandbox, names) = oldest_never_wakes(how);
        // Ten minutes for the first, nobody knows how long they take; then the second wakes.
        let waited = sandbox.ok(&["claim", "lab", "ci", "--wait=30m"]);
        assert!(waited.contains(&format!("bound to cluster/{}", names[1])), "{how}: {waited}");
        let expected = jsonpath(&sandbox, "claim/ci", "{.status.conditions[0].lastTransitionTime}");
        assert!(expected.starts_with("2026-03-02T13:1"), "{how}: {expected}");
        // The pool's own history counts from now on.
        assert_ne!(jsonpath(&sandbox, "pool/lab", "{.status.wakings[0]}"), "");
    }
}

#[test]
fn a_standby_that_does_not_wake_in_the_usual_time_is_replaced_without_a_resume_timeout() {
    for how in ["nodes", "machines", "operators"] {
        let (mut sandbox, names) = oldest_never_wakes(how);
        sandbox.ok(&["pool", "scale", "lab", "--running-count", "1", "-q"]);
        sandbox.ok(&["reconcile", "-q"]);
        sandbox.set("POOLCTL_NOW", "2026-03-02T13:19:00Z");
        sandbox.ok(&["reconcile", "-q"]);
        let events = sandbox.ok(&["events", &format!("cluster/{}", names[0])]);
        assert!(!events.contains("ClusterBroken"), "{how}: {events}");
        sandbox.set("POOLCTL_NOW", "2026-03-02T13:40:00Z");
        sandbox.ok(&["reconcile", "--wait=1h", "-q"]);
        let events = sandbox.ok(&["events", &format!("cluster/{}", names[0])]);
        assert!(events.contains("ClusterBroken"), "{how}: {events}");
        assert_eq!(jsonpath(&sandbox, "pool/lab", "{.status.ready}"), "1", "{how}");
        assert_eq!(sandbox.run(&["plan"]).code, 0);
    }
}

#[test]
fn a_standby_that_was_passed_over_goes_back_to_sleep_and_is_woken_last() {
    let (sandbox, names) = oldest_never_wakes("nodes");
    sandbox.ok(&["annotate", "pool", "lab", "poolctl.dev/wake-next-after=2m", "-q"]);
    let waited = sandbox.ok(&["claim", "lab", "ci", "--wait=30m"]);
    assert!(waited.contains(&format!("bound to cluster/{}", names[1])), "{waited}");
    sandbox.ok(&["reconcile", "--wait=1h", "-q"]);
    let power = |name: &str| {
        let power = format!("{{.items[?(@.metadata.name==\"{name}\")].status.powerState}}");
        jsonpath(&sandbox, "cluster", &power)
    };
    assert_eq!(power(&names[0]), "Hibernating");
    let events = sandbox.ok(&["events", &format!("cluster/{}", names[0])]);
    assert_eq!(events.matches("PassedOver").count(), 1, "{events}");
    // The one that is made now is younger, and is woken first.
    let more = "{\"spec\": {\"maxSize\": 3}}";
    sandbox.ok(&["patch", "pool", "lab", "-p", more, "-q"]);
    sandbox.ok(&["reconcile", "--wait=1h", "-q"]);
    assert_eq!(jsonpath(&sandbox, "pool/lab", "{.status.standby}"), "2");
    let waited = sandbox.ok(&["claim", "lab", "next", "--wait=30m"]);
    assert!(!waited.contains(&names[0]), "{waited}");
    assert_eq!(power(&names[0]), "Hibernating");
    let soon = "poolctl.dev/wake-next-after=soon";
    let ran = sandbox.run(&["annotate", "pool", "lab", soon, "--overwrite"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let never = "poolctl.dev/wake-next-after=0s";
    let ran = sandbox.run(&["annotate", "pool", "lab", never, "--overwrite"]);
    assert!(ran.code == 1 && ran.err.contains("no cluster wakes in 0s"), "{ran:?}");
}

#[test]
fn a_claim_is_served_by_whichever_standby_is_healed_though_all_were_passed_over() {
    let (mut sandbox, names) = oldest_never_wakes("start-fails");
    let ill = "poolctl.dev/fake-health=start-fails";
    sandbox.ok(&["annotate", "cluster", &names[1], ill, "-q"]);
    let ran = sandbox.run(&["claim", "lab", "ci", "--wait=2h", "--keep"]);
    assert_eq!(ran.code, 5, "{}", ran.out);
    // The younger one is healed, the older never is.
    sandbox.ok(&["annotate", "cluster", &names[1], "poolctl.dev/fake-health-", "-q"]);
    sandbox.set("POOLCTL_NOW", "2026-03-02T15:05:00Z");
    sandbox.ok(&["wait", "claim/ci", "--for=condition=ClusterRunning", "--timeout=12h", "-q"]);
    assert_eq!(jsonpath(&sandbox, "claim/ci", "{.spec.namespace}"), names[1]);
}

#[test]
fn a_cluster_that_waits_for_its_next_attempt_takes_no_place_of_a_claim() {
    let mut sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "lab", "--fake", "--size", "1", "--max-size", "2"]);
    sandbox.ok(&["pool", "scale", "lab", "--running-count", "0", "-q"]);
    let every = |number: &str| {
        let text = "{\"spec\": {\"annotations\": {\"hive.openshift.io/fake-cluster\": \"true\", \
                    \"poolctl.dev/fake-fail-every\": \"N\"}}}";
        text.replace('N', number)
    };
    // The first cluster fails again and again, the second is installed and sleeps.
    sandbox.ok(&["patch", "pool", "lab", "--type", "merge", "-p", &every("1"), "-q"]);
    let name = sandbox.ok(&["get", "cluster", "-qo", "name"]).trim().to_owned();
    let fails = "poolctl.dev/fake-fail-every=1";
    sandbox.ok(&["annotate", "cluster", &name, fails, "--overwrite", "-q"]);
    sandbox.ok(&["reconcile", "--wait", "-q"]);
    sandbox.ok(&["patch", "pool", "lab", "--type", "merge", "-p", &every("0"), "-q"]);
    sandbox.set("POOLCTL_NOW", "2026-03-02T12:30:00Z");
    sandbox.ok(&["pool", "scale", "lab", "--size", "2", "-q"]);
    sandbox.ok(&["reconcile", "--wait", "-q"]);
    assert_eq!(jsonpath(&sandbox, "pool/lab", "{.status.standby}"), "1");
    let waited = sandbox.ok(&["claim", "lab", "ci", "--wait=30m"]);
    assert!(waited.contains("bound to cluster/") && !waited.contains(&name), "{waited}");
}

#[test]
fn a_waking_standby_that_is_paused_is_not_destroyed() {
    let (mut sandbox, names) = oldest_never_wakes("nodes");
    sandbox.ok(&["pool", "scale", "lab", "--running-count", "1", "-q"]);
    sandbox.ok(&["reconcile", "-q"]);
    sandbox.set("POOLCTL_NOW", "2026-03-02T13:02:00Z");
    sandbox.ok(&["reconcile", "-q"]);
    let pause = "hive.openshift.io/reconcile-pause=true";
    sandbox.ok(&["annotate", "cluster", &names[0], pause, "-q"]);
    sandbox.set("POOLCTL_NOW", "2026-03-02T15:00:00Z");
    sandbox.ok(&["reconcile", "-q"]);
    let events = sandbox.ok(&["events", &format!("cluster/{}", names[0])]);
    assert!(!events.contains("ClusterBroken"), "{events}");
}

#[test]
fn a_pool_of_clusters_that_wake_slowly_learns_how_long_they_take() {
    let (mut sandbox, names) = oldest_never_wakes("nodes");
    sandbox.ok(&["pool", "scale", "lab", "--running-count", "1", "-q"]);
    for time in ["13:00", "13:01", "13:25"] {
        sandbox.set("POOLCTL_NOW", &format!("2026-03-02T{time}:00Z"));
        sandbox.ok(&["reconcile", "-q"]);
    }
    let events = sandbox.ok(&["events", &format!("cluster/{}", names[0])]);
    assert!(events.contains("ClusterBroken"), "{events}");
    assert_eq!(jsonpath(&sandbox, "pool/lab", "{.status.wakings[0]}"), "1200");
}

#[test]
fn a_platform_that_is_away_breaks_no_standby() {
    let (mut sandbox, names) = oldest_never_wakes("start-fails");
    sandbox.ok(&["pool", "scale", "lab", "--running-count", "2", "-q"]);
    for hour in ["14", "18", "23"] {
        sandbox.set("POOLCTL_NOW", &format!("2026-03-02T{hour}:00:00Z"));
        sandbox.ok(&["reconcile", "--wait=10m", "-q"]);
    }
    let events = sandbox.ok(&["events", &format!("cluster/{}", names[0])]);
    assert!(!events.contains("ClusterBroken") && events.contains("FailedToStart"), "{events}");
}

#[test]
fn a_claimed_cluster_is_its_users_to_put_to_sleep() {
    let sandbox = Sandbox::new();
    sandbox.ready_pool("lab", 2);
    let name = sandbox.ok(&["claim", "lab", "ci", "-o", "jsonpath={.spec.namespace}"]);
    assert_eq!(
        sandbox.ok(&["cluster", "hibernate", &name]).trim(),
        format!("cluster/{name} hibernating")
    );
    sandbox.ok(&["wait", "cluster", &name, "--for=condition=Hibernating", "--timeout=1h", "-q"]);
    sandbox.ok(&["cluster", "resume", "ci"]);
    sandbox.ok(&["wait", "cluster", &name, "--for=condition=Ready", "--timeout=1h", "-q"]);
    let all = sandbox.ok(&["get", "cluster", "-qo", "name"]);
    let free = all.lines().find(|one| *one != name).unwrap();
    let ran = sandbox.run(&["cluster", "hibernate", free]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("poolctl pool scale lab --running-count"), "{}", ran.err);
}

#[test]
fn a_cluster_that_is_called_back_before_it_slept_begins_to_wake_now() {
    for power in [Power::Stopping, Power::WaitingForStop, Power::FailedToStop] {
        let stopping = Cluster { power, power_wanted: Power::Running, ..cluster() };
        let (found, job) = pass(stopping, None);
        assert_eq!((found.power, job), (Power::Starting, Some(Verb::Start)), "{power:?}");
        assert_eq!(found.awake_since, ago(Span::default()), "{power:?}: else it is broken at once");
    }
}
