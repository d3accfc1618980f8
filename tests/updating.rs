//! Pools that are changed while they have clusters, and clocks that jump.

use crate::sandbox::{
    Sandbox, apply, condition_field, create_customization, has_program, jsonpath,
};

/// These fields of a pool's status.
fn counts<const N: usize>(sandbox: &Sandbox, pool: &str, fields: [&str; N]) -> [usize; N] {
    let path = format!("pool/{pool}");
    fields.map(|field| jsonpath(sandbox, &path, &format!("{{.status.{field}}}")).parse().unwrap())
}

#[test]
fn a_lower_max_size_deletes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 4);
    sandbox.ok("claim lab k -q");
    sandbox.ok("reconcile --wait -q");
    // Stale clusters stay, too, because they could not be replaced.
    sandbox.ok("patch pool lab -p '{spec: {maxSize: 2, baseDomain: other.example.com}}'");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("reconcile --wait -q");
    assert_eq!(counts(&sandbox, "lab", ["ready", "claimed", "deleting"]), [4, 1, 0]);
    let reason = condition_field(&sandbox, "pool/lab", "CapacityAvailable", "reason");
    assert_eq!(reason, "MaxCapacity");
    // A cluster that is released is not replaced.
    sandbox.ok("release k -q");
    sandbox.ok("reconcile --wait -q");
    assert_eq!(counts(&sandbox, "lab", ["ready", "claimed", "installing"]), [4, 0, 0]);
}

#[test]
fn all_clusters_of_a_pool_at_its_max_size_are_replaced_one_at_a_time() {
    let mut sandbox = Sandbox::new();
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T08:00:00Z");
    let names: Vec<String> = (1..=17).map(|number| format!("cdc-{number}")).collect();
    for name in &names {
        create_customization(&sandbox, name, name);
    }
    let inventory: Vec<String> = names.iter().map(|name| format!("{{name: {name}}}")).collect();
    apply(
        &sandbox,
        &format!(
            "apiVersion: hive.openshift.io/v1\nkind: ClusterPool\nmetadata: {{name: oko}}\nspec:\n  \
             size: 17\n  runningCount: 17\n  maxSize: 17\n  maxConcurrent: 17\n  \
             baseDomain: example.com\n  imageSetRef: {{name: old}}\n  platform: {{none: {{}}}}\n  \
             inventory: [{}]\n  annotations: {{hive.openshift.io/fake-cluster: \"true\"}}\n---\n\
             apiVersion: hive.openshift.io/v1\nkind: ClusterImageSet\nmetadata: {{name: old}}\n\
             spec: {{releaseImage: \"example.com/old:1\"}}\n---\n\
             apiVersion: hive.openshift.io/v1\nkind: ClusterImageSet\nmetadata: {{name: new}}\n\
             spec: {{releaseImage: \"example.com/new:1\"}}\n",
            inventory.join(", ")
        ),
    );
    sandbox.ok("reconcile --wait -q");
    assert_eq!(counts(&sandbox, "oko", ["ready", "stale"]), [17, 0]);
    sandbox.ok("patch pool oko -p '{spec: {imageSetRef: {name: new}}}'");
    for replaced in 1..=17 {
        // However many passes there are, sixteen stay.
        for _ in 0..4 {
            let [ready, deleting] = counts(&sandbox, "oko", ["ready", "deleting"]);
            let [installing, stale] = counts(&sandbox, "oko", ["installing", "stale"]);
            assert_eq!((ready, deleting + installing, stale), (16, 1, 17 - replaced));
            sandbox.ok("reconcile -q");
        }
        // Its customization is free once it is destroyed; then the next one is made with it.
        let stale_before = counts(&sandbox, "oko", ["stale"]);
        let mut passes = 0;
        while counts(&sandbox, "oko", ["stale"]) == stale_before && passes < 5 {
            let minute = 10 + replaced * 2 + passes / 2;
            let now = format!("2026-03-02T{:02}:{:02}:30Z", 8 + minute / 60, minute % 60);
            let step = format!("POOLCTL_NOW={now} poolctl reconcile -q");
            assert_eq!(sandbox.shell(&step).code, 0);
            let [ready] = counts(&sandbox, "oko", ["ready"]);
            assert!(ready >= 16, "{ready} are ready");
            passes += 1;
        }
    }
    sandbox.ok("reconcile --wait -q");
    assert_eq!(counts(&sandbox, "oko", ["ready", "stale", "deleting"]), [17, 0, 0]);
}

/// A claim of two hours, on the real clock.
fn sandbox_with_claim() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.set_variable("POOLCTL_NOW", "");
    sandbox.ok("pool create lab --fake --fake-install-duration 1s --size 1 --running-count 1 -q");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("claim lab k --lifetime 2h -q");
    sandbox.ok("reconcile --wait -q");
    sandbox
}

/// Reconciles while the clock jumps forward, back, and home again. Nothing is deleted.
fn jump_with(sandbox: &Sandbox, forward: &str, back: &str) {
    let before = jsonpath(sandbox, "cluster", "{.items[*].metadata.name}");
    for (clock, moment) in [
        (forward, "forward"),
        (forward, "still there"),
        (back, "back"),
        (back, "still back"),
        ("", "home"),
        ("", "later"),
    ] {
        let ran = sandbox.shell(&format!("{clock} poolctl reconcile"));
        assert_eq!(ran.code, 0, "{moment}: {}", ran.err);
        let claim = jsonpath(sandbox, "claim/k", "{.metadata.deletionTimestamp}");
        let cluster = jsonpath(sandbox, "cluster", "{.items[*].metadata.deletionTimestamp}");
        assert_eq!((&*claim, cluster.trim()), ("", ""), "{moment} {}", sandbox.ok("events"));
    }
    assert_eq!(jsonpath(sandbox, "cluster", "{.items[*].metadata.name}"), before);
    let events = sandbox.ok("events");
    assert!(events.contains("ClockJumped") && !events.contains("Expired"), "{events}");
    // The claim still ends in two hours.
    let left = sandbox.ok("get claim k --no-headers");
    assert!(left.contains("119m") || left.contains("2h"), "{left}");
}

#[test]
fn a_real_clock_that_jumps_ends_no_claim() {
    if has_program("faketime") {
        jump_with(&sandbox_with_claim(), "faketime -f +365d", "faketime -f -365d");
    }
}

#[test]
fn a_stray_rehearsed_clock_ends_no_claim() {
    jump_with(
        &sandbox_with_claim(),
        "POOLCTL_NOW=2099-01-01T00:00:00Z",
        "POOLCTL_NOW=2001-01-01T00:00:00Z",
    );
}

#[test]
fn a_schedule_survives_a_clock_that_went_a_year_ahead_and_came_back() {
    let mut sandbox = Sandbox::new();
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T05:00:00Z");
    sandbox.ok("pool create lab --fake --size 0 -q");
    let schedule = "poolctl.dev/schedule=0 6 * * * size=2\n0 20 * * * size=0";
    sandbox.ok(&format!("annotate pool/lab '{schedule}' -q"));
    for (time, size) in [("2027-03-02T21:00:00Z", "0"), ("2026-03-03T06:00:00Z", "2")] {
        sandbox.set_variable("POOLCTL_NOW", time);
        sandbox.ok("reconcile -q");
        assert_eq!(jsonpath(&sandbox, "pool/lab", "{.spec.size}"), size, "{time}");
    }
}
