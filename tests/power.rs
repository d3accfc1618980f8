//! Power: Hive's states step by step, hibernateAfter, platforms that cannot stop machines, and
//! clusters that do not wake. The H and A rows of the scenarios are here, but for those about sync
//! sets, which do not exist in poolctl.

use std::rc::Rc;

use poolctl::model::cluster::{Cluster, Power};
use poolctl::model::job::{ClusterHealth, Verb};
use poolctl::model::meta::Key;
use poolctl::model::state::State;
use poolctl::model::time::{Span, Time};
use poolctl::plan;

use crate::cases::{columns, rows};
use crate::fixture::{Names, noon};
use crate::sandbox::{Sandbox, condition_field, jsonpath, power_of};

/// The instant so long before noon.
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

/// One pass at noon: the cluster after it, and the job that it started. A second pass changes
/// nothing.
fn reconcile_once(cluster: Cluster, health: Option<&ClusterHealth>) -> (Cluster, Option<Verb>) {
    let mut state = State::default();
    state.load_cluster(cluster);
    look_and_settle(&mut state, health);
    let changes = state.changes_made();
    look_and_settle(&mut state, health);
    assert_eq!(state.changes_made(), changes, "a second pass acts");
    let job = state.live_job("c").map(|(_, job)| job.verb);
    (state.clusters.rows().next().unwrap().clone(), job)
}

fn look_and_settle(state: &mut State, health: Option<&ClusterHealth>) {
    let tick = noon();
    let reports = health.iter().map(|health| ("c".to_owned(), (*health).clone())).collect();
    plan::take_healths(state, reports, &tick);
    plan::settle(state, &tick, &Names::default()).unwrap();
}

fn healthy() -> ClusterHealth {
    ClusterHealth {
        nodes_ready: true,
        operators_ready: true,
        settle: Span::minutes(2),
        ..ClusterHealth::default()
    }
}

/// Status and reason of the conditions Hibernating and Ready, and the power state.
fn power_shown(cluster: &Cluster) -> (String, &'static str) {
    let conditions = cluster.conditions();
    let texts = ["Hibernating", "Ready"].map(|kind| {
        let condition = conditions.iter().find(|condition| condition.kind == kind).unwrap();
        format!("{}/{}", condition.status, condition.reason)
    });
    (texts.join(" "), cluster.power_state())
}

/// A report of the health that a row of the cases names.
fn health_named(word: &str) -> Option<ClusterHealth> {
    Some(match word {
        "-" => return None,
        "fake" => ClusterHealth { settle: Span::default(), ..healthy() },
        "nodes" => ClusterHealth { nodes_ready: false, ..healthy() },
        "operators" => ClusterHealth { operators_ready: false, ..healthy() },
        "machines" => {
            let machines = ["stopped-1", "pending-1"].map(str::to_owned).into();
            ClusterHealth { machines, ..healthy() }
        }
        _ => healthy(),
    })
}

#[test]
fn power_changes_step_by_step_as_in_hive() {
    for row in rows(include_str!("cases/power.txt")) {
        let [name, power, health, job, expected] =
            columns(row).try_into().unwrap_or_else(|_| panic!("{row}"));
        let words: Vec<&str> = power.split(' ').collect();
        let since = ago(words[2].parse().unwrap());
        let before = Cluster {
            power: Power::named(words[0]).unwrap(),
            power_wanted: Power::named(words[1]).unwrap(),
            power_since: since,
            awake_since: since,
            power_paused: words.contains(&"paused"),
            powerless: words.contains(&"powerless"),
            ..cluster()
        };
        let (after, verb) = reconcile_once(before, health_named(health).as_ref());
        let started = verb.map_or("-".to_owned(), |verb| format!("{verb:?}"));
        let (conditions, power_state) = power_shown(&after);
        let shown = format!("{conditions} {power_state}");
        assert_eq!((&*started, &*shown), (job, expected), "{name}");
    }
    let waiting = Cluster { power: Power::WaitingForMachines, ..cluster() };
    let (after, _) = reconcile_once(waiting, health_named("machines").as_ref());
    let ready = after.conditions().into_iter().find(|condition| condition.kind == "Ready").unwrap();
    let machines = "Some machines are not yet running: pending-1,stopped-1 (step 1/4)";
    assert_eq!(ready.message, format!("Waiting for cluster machines to start. {machines}"));
}

#[test]
fn before_it_is_installed_and_while_it_is_deleted_a_cluster_has_no_power() {
    let deleted = Cluster {
        deleting: ago(Span::minutes(1)),
        protected: true,
        power_wanted: Power::Hibernating,
        ..cluster()
    };
    let (after, job) = reconcile_once(deleted, None);
    let expected = "Unknown/ClusterDeploymentDeleted Unknown/ClusterDeploymentDeleted";
    assert_eq!(job, None, "H-01");
    assert_eq!(power_shown(&after), (expected.to_owned(), "Unknown"), "H-01");
    let uninstalled = Cluster {
        installed_at: None,
        power: Power::Unset,
        power_wanted: Power::Hibernating,
        ..cluster()
    };
    let (after, job) = reconcile_once(uninstalled, None);
    let expected = "Unknown/Initialized Unknown/Initialized";
    assert_eq!(job, Some(Verb::Provision), "H-03");
    assert_eq!(power_shown(&after), (expected.to_owned(), ""), "H-03");
}

/// A cluster of a pool that nobody has claimed.
fn unclaimed() -> Cluster {
    Cluster { pool: Some(Rc::new(Key::new("default", "p"))), ..cluster() }
}

fn claimed_5h_ago() -> Cluster {
    Cluster { claim: Some("k".into()), claimed_at: ago(Span::hours(5)), ..unclaimed() }
}

#[test]
fn hibernate_after_counts_from_the_last_of_installation_claim_and_waking() {
    let after_8h = Cluster { hibernate_after: Some(Span::hours(8)), ..cluster() };
    let cases = [
        ("installed 10h", after_8h.clone(), Some(-2)),
        (
            "installed 3h",
            Cluster {
                installed_at: ago(Span::hours(3)),
                power_since: ago(Span::hours(3)),
                ..after_8h.clone()
            },
            Some(5),
        ),
        ("resumed 7h", Cluster { power_since: ago(Span::hours(7)), ..after_8h.clone() }, Some(1)),
        ("A-02", Cluster { powerless: true, ..after_8h.clone() }, None),
        (
            "A-08",
            Cluster {
                power: Power::Starting,
                power_since: ago(Span::hours(8)),
                ..after_8h.clone()
            },
            None,
        ),
        ("A-16", Cluster { hibernate_after: Some(Span::hours(1)), ..unclaimed() }, None),
        (
            "claimed 5h",
            Cluster { hibernate_after: Some(Span::hours(8)), ..claimed_5h_ago() },
            Some(3),
        ),
        ("never", cluster(), None),
        ("wanted asleep", Cluster { power_wanted: Power::Hibernating, ..after_8h.clone() }, None),
    ];
    for (name, cluster, due) in cases {
        let expected = due.map(|hours: i64| Time(noon().now.0 + hours * Span::hours(1).0));
        assert_eq!(plan::hibernates_at(&State::default(), &cluster), expected, "{name}");
    }
    // A-18: claimed 5h ago, resumed 10 minutes ago.
    let resumed = Cluster {
        power_since: ago(Span::minutes(10)),
        hibernate_after: Some(Span::hours(1)),
        ..claimed_5h_ago()
    };
    let due = plan::hibernates_at(&State::default(), &resumed).unwrap();
    assert_eq!(due.since(noon().now), Span::minutes(50));
    let (cluster, job) = reconcile_once(after_8h, None);
    assert_eq!((cluster.power_wanted, job), (Power::Hibernating, Some(Verb::Stop)), "A-06");
}

/// A pool of size 0 whose clusters simulate this fault.
fn faulty_pool(fault: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 0 --running-count 0");
    let annotations = format!("{{poolctl.dev/fake-health: {fault}}}");
    sandbox.ok(&format!("patch pool lab -p '{{spec: {{annotations: {annotations}}}}}'"));
    sandbox
}

#[test]
fn where_nothing_can_be_stopped_everything_runs() {
    let sandbox = faulty_pool("no-power");
    sandbox.ok("pool scale lab --size 3");
    sandbox.ok("reconcile --wait -q");
    assert_eq!(jsonpath(&sandbox, "pool", "{.items[0].status.ready}"), "3");
    let supported = condition_field(&sandbox, "pool/lab", "HibernationSupported", "status");
    assert_eq!(supported, "False");
    // What is claimed stays, and cannot be put to sleep either.
    sandbox.ok("claim lab ci");
    sandbox.ok("pool scale lab --size 0");
    sandbox.ok("reconcile --wait -q");
    assert_eq!(sandbox.ok("get cluster --no-headers").lines().count(), 1);
    assert_eq!(sandbox.run("plan").code, 0);
}

#[test]
fn a_cluster_that_does_not_wake_is_replaced() {
    for fault in ["machines", "nodes", "operators", "start-fails"] {
        let mut sandbox = faulty_pool(fault);
        sandbox
            .ok("patch pool lab -p '{spec: {hibernationConfig: {resumeTimeout: 20m}, size: 1}}'");
        sandbox.ok("reconcile --wait -q");
        let name = sandbox.ok("get cluster -qo name");
        let cluster = format!("cluster/{}", name.trim());
        sandbox.ok("pool scale lab --running-count 1");
        // Both are within its resumeTimeout; half past twelve is not.
        for time in ["12:05", "12:15"] {
            sandbox.set_variable("POOLCTL_NOW", &format!("2026-03-02T{time}:00Z"));
            sandbox.ok("reconcile");
        }
        let why = sandbox.ok(&format!("why {cluster}"));
        assert!(why.contains("waking"), "{fault}: {why}");
        sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:30:00Z");
        sandbox.ok("reconcile");
        let events = sandbox.ok(&format!("events {cluster}"));
        assert!(events.contains("broken"), "{fault}: {events}");
    }
}

/// A pool of two clusters that sleep, of which the older one never wakes from now on. Returns their
/// names, the oldest first.
fn oldest_never_wakes(fault: &str) -> (Sandbox, Vec<String>) {
    let mut sandbox = Sandbox::new();
    // No third cluster may be made that could serve a claim instead.
    sandbox.ok("pool create lab --fake --size 1 --max-size 2");
    sandbox.ok("pool scale lab --running-count 0 -q");
    sandbox.ok("reconcile --wait -q");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:30:00Z");
    sandbox.ok("pool scale lab --size 2");
    sandbox.ok("reconcile --wait -q");
    let listed = sandbox.ok("get cluster -qo name");
    let names: Vec<String> = listed.lines().map(str::to_owned).collect();
    let annotation = format!("poolctl.dev/fake-health={fault}");
    sandbox.ok(&format!("annotate cluster {} {annotation} -q", names[0]));
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T13:00:00Z");
    (sandbox, names)
}

#[test]
fn a_claim_does_not_wait_for_a_standby_that_never_wakes_while_another_could_serve_it() {
    for fault in ["nodes", "machines", "operators", "start-fails"] {
        let (sandbox, names) = oldest_never_wakes(fault);
        // How long clusters of this pool take is not known yet: the first has ten minutes, then the
        // second is woken.
        let waited = sandbox.ok("claim lab ci --wait=30m");
        assert!(waited.contains(&format!("bound to cluster/{}", names[1])), "{fault}: {waited}");
        let bound_at = jsonpath(&sandbox, "claim/ci", "{.status.conditions[0].lastTransitionTime}");
        assert!(bound_at.starts_with("2026-03-02T13:1"), "{fault}: {bound_at}");
        // From now on the pool knows how long its clusters take.
        assert_ne!(jsonpath(&sandbox, "pool/lab", "{.status.wakings[0]}"), "");
    }
}

#[test]
fn a_standby_that_does_not_wake_in_the_usual_time_is_replaced_without_a_resume_timeout() {
    for fault in ["nodes", "machines", "operators"] {
        let (mut sandbox, names) = oldest_never_wakes(fault);
        sandbox.ok("pool scale lab --running-count 1 -q");
        sandbox.ok("reconcile -q");
        sandbox.set_variable("POOLCTL_NOW", "2026-03-02T13:19:00Z");
        sandbox.ok("reconcile -q");
        let events = sandbox.ok(&format!("events cluster/{}", names[0]));
        assert!(!events.contains("ClusterBroken"), "{fault}: {events}");
        sandbox.set_variable("POOLCTL_NOW", "2026-03-02T13:40:00Z");
        sandbox.ok("reconcile --wait=1h -q");
        let events = sandbox.ok(&format!("events cluster/{}", names[0]));
        assert!(events.contains("ClusterBroken"), "{fault}: {events}");
        assert_eq!(jsonpath(&sandbox, "pool/lab", "{.status.ready}"), "1", "{fault}");
        assert_eq!(sandbox.run("plan").code, 0);
    }
}

#[test]
fn a_standby_that_was_passed_over_goes_back_to_sleep_and_is_woken_last() {
    let (sandbox, names) = oldest_never_wakes("nodes");
    sandbox.ok("annotate pool lab poolctl.dev/wake-next-after=2m -q");
    let waited = sandbox.ok("claim lab ci --wait=30m");
    assert!(waited.contains(&format!("bound to cluster/{}", names[1])), "{waited}");
    sandbox.ok("reconcile --wait=1h -q");
    assert_eq!(power_of(&sandbox, &names[0]), "Hibernating");
    let events = sandbox.ok(&format!("events cluster/{}", names[0]));
    assert_eq!(events.matches("PassedOver").count(), 1, "{events}");
    // The cluster that is made now is younger, and is woken first.
    sandbox.ok("patch pool lab -p '{spec: {maxSize: 3}}' -q");
    sandbox.ok("reconcile --wait=1h -q");
    assert_eq!(jsonpath(&sandbox, "pool/lab", "{.status.standby}"), "2");
    let waited = sandbox.ok("claim lab next --wait=30m");
    assert!(!waited.contains(&names[0]), "{waited}");
    assert_eq!(power_of(&sandbox, &names[0]), "Hibernating");
    for (delay, message) in
        [("soon", "`soon` is not a duration"), ("0s", "no cluster can wake in 0s")]
    {
        let annotation = format!("poolctl.dev/wake-next-after={delay}");
        sandbox.refused(1, &format!("annotate pool lab {annotation} --overwrite"), message);
    }
}

#[test]
fn a_claim_is_served_by_any_standby_that_is_repaired_even_if_all_were_passed_over() {
    let (mut sandbox, names) = oldest_never_wakes("start-fails");
    sandbox.ok(&format!("annotate cluster {} poolctl.dev/fake-health=start-fails -q", names[1]));
    let ran = sandbox.run("claim lab ci --wait=2h --keep");
    assert_eq!(ran.code, 5, "{}", ran.out);
    // The younger one is repaired, the older never is.
    sandbox.ok(&format!("annotate cluster {} poolctl.dev/fake-health- -q", names[1]));
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T15:05:00Z");
    sandbox.ok("wait claim/ci --for=condition=ClusterRunning --timeout=12h -q");
    assert_eq!(jsonpath(&sandbox, "claim/ci", "{.spec.namespace}"), names[1]);
}

#[test]
fn a_cluster_that_waits_for_its_next_attempt_takes_no_place_of_a_claim() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 1 --max-size 2");
    sandbox.ok("pool scale lab --running-count 0 -q");
    let fail_always = r#"{spec: {annotations: {poolctl.dev/fake-fail-every: "1"}}}"#;
    let fail_never = r#"{spec: {annotations: {poolctl.dev/fake-fail-every: "0"}}}"#;
    // The first cluster fails again and again, the second is installed and sleeps.
    sandbox.ok(&format!("patch pool lab --type merge -p '{fail_always}' -q"));
    let name = sandbox.ok("get cluster -qo name").trim().to_owned();
    sandbox.ok(&format!("annotate cluster {name} poolctl.dev/fake-fail-every=1 --overwrite -q"));
    sandbox.ok("reconcile --wait -q");
    sandbox.ok(&format!("patch pool lab --type merge -p '{fail_never}' -q"));
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:30:00Z");
    sandbox.ok("pool scale lab --size 2 -q");
    sandbox.ok("reconcile --wait -q");
    assert_eq!(jsonpath(&sandbox, "pool/lab", "{.status.standby}"), "1");
    let waited = sandbox.ok("claim lab ci --wait=30m");
    assert!(waited.contains("bound to cluster/") && !waited.contains(&name), "{waited}");
}

#[test]
fn a_waking_standby_that_is_paused_is_not_destroyed() {
    let (mut sandbox, names) = oldest_never_wakes("nodes");
    sandbox.ok("pool scale lab --running-count 1 -q");
    sandbox.ok("reconcile -q");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T13:02:00Z");
    sandbox.ok("reconcile -q");
    let pause = "hive.openshift.io/reconcile-pause=true";
    sandbox.ok(&format!("annotate cluster {} {pause} -q", names[0]));
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T15:00:00Z");
    sandbox.ok("reconcile -q");
    let events = sandbox.ok(&format!("events cluster/{}", names[0]));
    assert!(!events.contains("ClusterBroken"), "{events}");
}

#[test]
fn a_pool_of_clusters_that_wake_slowly_learns_how_long_they_take() {
    let (mut sandbox, names) = oldest_never_wakes("nodes");
    sandbox.ok("pool scale lab --running-count 1 -q");
    for time in ["13:00", "13:01", "13:25"] {
        sandbox.set_variable("POOLCTL_NOW", &format!("2026-03-02T{time}:00Z"));
        sandbox.ok("reconcile -q");
    }
    let events = sandbox.ok(&format!("events cluster/{}", names[0]));
    assert!(events.contains("ClusterBroken"), "{events}");
    assert_eq!(jsonpath(&sandbox, "pool/lab", "{.status.wakings[0]}"), "1200");
}

#[test]
fn a_platform_that_is_away_breaks_no_standby() {
    let (mut sandbox, names) = oldest_never_wakes("start-fails");
    sandbox.ok(&format!("annotate cluster {} poolctl.dev/fake-health=start-fails -q", names[1]));
    // While no machine can be started, that says nothing about the clusters on them.
    sandbox.ok("pool scale lab --running-count 2 -q");
    for hour in ["14", "18", "23"] {
        sandbox.set_variable("POOLCTL_NOW", &format!("2026-03-02T{hour}:00:00Z"));
        sandbox.ok("reconcile --wait=10m -q");
    }
    let events = sandbox.ok(&format!("events cluster/{}", names[0]));
    assert!(!events.contains("ClusterBroken") && events.contains("FailedToStart"), "{events}");
}

#[test]
fn a_claimed_cluster_is_its_users_to_put_to_sleep() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    let name = sandbox.ok("claim lab ci -o jsonpath={.spec.namespace}");
    assert_eq!(
        sandbox.ok(&format!("cluster hibernate {name}")).trim(),
        format!("cluster/{name} hibernating")
    );
    sandbox.ok(&format!("wait cluster {name} --for=condition=Hibernating --timeout=1h -q"));
    sandbox.ok("cluster resume ci");
    sandbox.ok(&format!("wait cluster {name} --for=condition=Ready --timeout=1h -q"));
    let names = sandbox.ok("get cluster -qo name");
    let free = names.lines().find(|other_name| *other_name != name).unwrap();
    sandbox.refused(
        4,
        &format!("cluster hibernate {free}"),
        "poolctl pool scale lab --running-count",
    );
}

#[test]
fn a_cluster_that_is_called_back_before_it_slept_begins_to_wake_now() {
    for power in [Power::Stopping, Power::WaitingForStop, Power::FailedToStop] {
        let stopping = Cluster { power, power_wanted: Power::Running, ..cluster() };
        let (after, job) = reconcile_once(stopping, None);
        assert_eq!((after.power, job), (Power::Starting, Some(Verb::Start)), "{power:?}");
        assert_eq!(after.awake_since, ago(Span::default()), "{power:?}: else it is broken at once");
    }
}
