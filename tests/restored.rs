//! A backup that is older than leases: what is in use is given to nobody else by restoring it.

use crate::metal::{another_pool, boot_hosts, sandbox_with_rack};
use crate::once::{assert_bound_once, only_cluster};
use crate::rack::state_of;
use crate::sandbox::{Ran, Sandbox, apply, create_customization, execute_sql, jsonpath};

const HOST: &str = "apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: {name: node-1}
spec: {online: true, bootMACAddress: '02:00:00:00:00:01'}
";
const USED: &str = "{spec: {consumerRef: {apiVersion: hive.openshift.io/v1, \
                    kind: ClusterDeployment, name: mine, namespace: default}}}";

/// Makes a backup and returns its path.
fn backup(sandbox: &Sandbox) -> String {
    let path = sandbox.path().join("backup.db").display().to_string();
    sandbox.ok(&format!("backup {path}"));
    path
}

/// Restores a backup; what was leased since is held.
fn held(sandbox: &Sandbox, backup: &str) -> Ran {
    let ran = sandbox.run(&format!("restore {backup} --leases-since=hold -y"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran
}

/// What was leased after the backup.
struct Lab {
    sandbox: Sandbox,
    backup: String,
    /// The cluster of claim `ci`, which the backup has.
    claimed: String,
    /// The cluster that was made in its place, with customization `bar`.
    made: String,
    /// Of IPClaim `db`.
    address: String,
}

fn lab() -> Lab {
    let sandbox = Sandbox::new();
    create_customization(&sandbox, "foo", "foo");
    create_customization(&sandbox, "bar", "bar");
    let inventory = "--customization foo --customization bar";
    sandbox.ok(&format!("pool create lab --fake --size 1 --running-count 1 {inventory}"));
    sandbox.ok("ippool create lan --range 10.0.0.10-10.0.0.13");
    apply(&sandbox, HOST);
    sandbox.ok("reconcile --wait -q");
    let backup = backup(&sandbox);
    sandbox.ok("claim lab ci");
    let address = sandbox.ok("ip claim lan db").trim().to_owned();
    sandbox.ok(&format!("patch host node-1 -p '{USED}'"));
    sandbox.ok("reconcile --wait -q");
    let claimed = jsonpath(&sandbox, "claim/ci", "{.spec.namespace}");
    let made = jsonpath(&sandbox, "cdc/bar", "{.status.clusterDeploymentRef.name}");
    assert!(!claimed.is_empty() && !made.is_empty() && claimed != made, "{claimed} {made}");
    Lab { sandbox, backup, claimed, made, address }
}

#[test]
fn a_restore_that_would_lose_leases_is_refused_by_name() {
    let Lab { sandbox, backup, claimed, made, address } = lab();
    let before = sandbox.ok("export");
    let ran = sandbox.run(&format!("restore {backup} -y"));
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    for says in [
        format!("cluster `{claimed}` is claimed by `default/ci` of "),
        format!("cluster `{made}`, bar."),
        format!("customization `default/bar` is leased to cluster `{made}`"),
        format!("address {address} of IPPool `default/lan` is leased to IPClaim `db`"),
        "host `default/node-1` is used by cluster `mine`".to_owned(),
        format!("poolctl restore {backup} --leases-since=hold -y"),
    ] {
        assert!(ran.err.contains(&says), "{says}: {}", ran.err);
    }
    assert_eq!(ran.err.matches("cause: ").count(), 5, "{}", ran.err);
    // The customization that the claimed cluster has it had before.
    assert!(!ran.err.contains("customization `default/foo`"), "{}", ran.err);
    assert_eq!(sandbox.ok("export"), before);
    assert_eq!(sandbox.shell("ls $HOME | grep before-restore").out, "");
}

#[test]
fn leases_that_are_held_are_given_to_nobody_until_they_are_given_back() {
    let Lab { sandbox, backup, claimed, made, address } = lab();
    let ran = held(&sandbox, &backup);
    let unknown = format!("cluster `{made}` is not in the backup: its machines keep running");
    for says in [
        unknown.as_str(),
        "poolctl release ci",
        "poolctl customization reset bar",
        "poolctl ip release db",
        "poolctl host unhold node-1, and poolctl patch host node-1",
    ] {
        assert!(ran.err.contains(says), "{says}: {}", ran.err);
    }
    sandbox.ok("doctor");
    assert!(jsonpath(&sandbox, "host/node-1", "{.metadata.annotations}").contains("mine"));
    assert_eq!(jsonpath(&sandbox, "host/node-1", "{.spec.consumerRef.name}"), "mine");
    // Whoever asks from now on gets something else, or waits.
    sandbox.ok("claim lab second");
    sandbox.ok("reconcile --wait=1h -q");
    assert_eq!(jsonpath(&sandbox, "claim/ci", "{.spec.namespace}"), claimed);
    assert_eq!(jsonpath(&sandbox, "claim/second", "{.spec.namespace}"), "");
    assert_eq!(jsonpath(&sandbox, "cluster", "{.items[*].metadata.name}"), claimed);
    assert_eq!(jsonpath(&sandbox, "cdc/bar", "{.status.clusterDeploymentRef.name}"), made);
    let others = sandbox.ok("ip claim lan other --count 3");
    assert!(
        !others.lines().any(|other| other.split(' ').any(|word| word == address)),
        "{address}: {others}"
    );
    // Four addresses: one is held, and three were just claimed.
    assert_eq!(sandbox.run("ip claim lan more").code, 6);
    // What is typed gives them back.
    sandbox.ok("customization reset bar");
    sandbox.ok("ip release db");
    sandbox.ok("host unhold node-1");
    sandbox.ok("release ci");
    sandbox.ok("reconcile --wait=1h -q");
    let second = jsonpath(&sandbox, "claim/second", "{.spec.namespace}");
    assert!(!second.is_empty() && second != made && second != claimed, "{second}");
    assert_eq!(sandbox.ok("ip claim lan more").trim(), address);
}

#[test]
fn hosts_and_addresses_of_a_cluster_that_the_backup_does_not_have_are_held() {
    let sandbox = sandbox_with_rack();
    sandbox.ok("pool scale metal --size 0 -q");
    boot_hosts(&sandbox, &[1, 2, 3]);
    sandbox.ok("reconcile -q");
    let backup = backup(&sandbox);
    sandbox.ok("pool scale metal --size 1 -q");
    let cluster = only_cluster(&sandbox);
    let ran = sandbox.run(&format!("restore {backup} -y"));
    assert_eq!(ran.code, 4, "{}", ran.err);
    for (says, many) in [
        (format!("is bound to cluster `{cluster}`"), 3),
        (format!("is leased to IPClaim `{cluster}-"), 5),
        (format!("customization `default/metal-a` is leased to cluster `{cluster}`"), 1),
    ] {
        assert_eq!(ran.err.matches(&says).count(), many, "{says}: {}", ran.err);
    }
    held(&sandbox, &backup);
    sandbox.ok("doctor");
    // Other hosts are picked for the next cluster, and it gets other addresses.
    sandbox.ok("pool scale metal --size 1 -q");
    assert_eq!(only_cluster(&sandbox), "");
    apply(&sandbox, &another_pool("rival", "metal-b"));
    boot_hosts(&sandbox, &[4, 5, 6]);
    sandbox.ok("reconcile -q");
    let rival = only_cluster(&sandbox);
    assert!(!rival.is_empty() && rival != cluster, "{rival}");
    assert_bound_once(&sandbox);
    for number in 1..=3 {
        assert_eq!(state_of(&sandbox, &format!("h{number}")), "disabled-unbound");
        let other = format!("agent/h{}", number + 3);
        assert_eq!(jsonpath(&sandbox, &other, "{.status.boundTo.name}"), rival);
    }
    let addresses = jsonpath(&sandbox, "ipaddress", "{.items[*].spec.address}");
    assert_eq!(addresses.split_whitespace().count(), 10, "{addresses}");
    sandbox.ok(&format!("ip release {cluster}-api"));
    sandbox.ok("delete agent h1 -y");
    sandbox.ok("customization reset metal-a");
}

#[test]
fn an_address_that_the_backup_leases_to_somebody_else_is_his_who_has_it_now() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create one --range 10.0.0.10");
    sandbox.ok("ip claim one a");
    let backup = backup(&sandbox);
    sandbox.ok("ip release a");
    sandbox.ok("ip claim one b");
    let ran = sandbox.run(&format!("restore {backup} -y"));
    assert_eq!(ran.code, 4, "{}", ran.err);
    let says = "is leased to IPClaim `b`; the backup leases it to IPClaim `a`";
    assert!(ran.err.contains(says), "{}", ran.err);
    held(&sandbox, &backup);
    assert_eq!(sandbox.ok("get ipclaim -o name"), "ipclaim/b\n");
    assert_eq!(jsonpath(&sandbox, "ipaddress", "{.items[*].spec.address}"), "10.0.0.10");
    sandbox.ok("doctor");
}

#[test]
fn an_address_whose_range_has_moved_to_another_pool_since_is_held_in_the_pool_of_the_backup() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.0.0.1-10.0.0.9");
    let backup = backup(&sandbox);
    // In the backup the second half of the range is still that of `lan`.
    sandbox.ok(r#"patch ippool lan -p '{spec: {pools: [{start: "10.0.0.1", end: "10.0.0.4"}]}}'"#);
    sandbox.ok("ippool create second --range 10.0.0.5-10.0.0.20 --allocation sequential");
    sandbox.ok("ip claim second m1");
    sandbox.ok("ip claim second m2 --address 10.0.0.15");
    let ran = held(&sandbox, &backup);
    let overlap = "IPPool `second` overlaps `lan`";
    assert_eq!((ran.out.clone() + &ran.err).matches(overlap).count(), 1, "{}{}", ran.out, ran.err);
    assert_eq!(jsonpath(&sandbox, "ipclaim/m1", "{.spec.pool.name}"), "lan");
    assert_eq!(jsonpath(&sandbox, "ipclaim/m2", "{.spec.pool.name}"), "second");
    let addresses = jsonpath(&sandbox, "ipaddress", "{.items[*].spec.address}");
    assert_eq!(addresses, "10.0.0.5 10.0.0.15");
    for (pool, address) in [("lan", "10.0.0.5"), ("second", "10.0.0.5"), ("second", "10.0.0.15")] {
        let ran = sandbox.run(&format!("ip claim {pool} stranger --address {address}"));
        assert_ne!(ran.code, 0, "{pool} {address}: {}", ran.out);
        sandbox.run("ip release stranger -y");
    }
    sandbox.ok("doctor");
}

/// They are applied again from where they came, and would be leased as if they were new.
#[test]
fn what_is_leased_of_objects_that_the_backup_does_not_have_is_held_with_them() {
    let sandbox = Sandbox::new();
    sandbox.ok("ippool create other --range 10.1.0.0/24");
    let backup = backup(&sandbox);
    create_customization(&sandbox, "foo", "foo");
    let create = "pool create lab --fake --size 1 --customization foo";
    sandbox.ok(create);
    sandbox.ok("ippool create lan --range 10.0.0.10");
    sandbox.ok("ip claim lan db");
    apply(&sandbox, HOST);
    sandbox.ok(&format!("patch host node-1 -p '{USED}'"));
    sandbox.ok("reconcile --wait -q");
    let made = jsonpath(&sandbox, "cdc/foo", "{.status.clusterDeploymentRef.name}");
    held(&sandbox, &backup);
    sandbox.ok("doctor");
    create_customization(&sandbox, "foo", "foo");
    sandbox.ok(create);
    apply(&sandbox, HOST);
    sandbox.ok("reconcile --wait=1h -q");
    assert_eq!(jsonpath(&sandbox, "cluster", "{.items[*].metadata.name}"), "");
    assert_eq!(jsonpath(&sandbox, "cdc/foo", "{.status.clusterDeploymentRef.name}"), made);
    assert_eq!(sandbox.run("ip claim lan more").code, 6);
    assert!(jsonpath(&sandbox, "host/node-1", "{.metadata.annotations}").contains("mine"));
}

#[test]
fn a_cluster_that_is_claimed_now_is_not_installed_again_by_an_older_backup() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 1 --running-count 1");
    sandbox.ok("claim lab ci");
    // To the backup the claim waits, and its cluster is being installed.
    let backup = backup(&sandbox);
    sandbox.ok("reconcile --wait -q");
    let claimed = jsonpath(&sandbox, "claim/ci", "{.spec.namespace}");
    let ran = held(&sandbox, &backup);
    let says = format!("poolctl annotate cluster {claimed} hive.openshift.io/reconcile-pause-");
    assert!(ran.err.contains(&says), "{}", ran.err);
    sandbox.ok("reconcile --wait=1h -q");
    assert_eq!(jsonpath(&sandbox, "claim/ci", "{.spec.namespace}"), claimed);
    let events = sandbox.ok(&format!("events cluster/{claimed}"));
    assert!(!events.contains("deprovision"), "{events}");
    sandbox.ok(&format!("annotate cluster {claimed} hive.openshift.io/reconcile-pause-"));
}

#[test]
fn a_backup_restores_as_before_when_nothing_was_leased_since() {
    let Lab { sandbox, .. } = lab();
    let backup = backup(&sandbox);
    let before = sandbox.ok("export");
    sandbox.ok("label pool lab later=yes");
    // What was given back since is no lease any more.
    sandbox.ok("ip release db");
    for options in ["-y", "-y --leases-since=hold"] {
        let ran = sandbox.run(&format!("restore {backup} {options}"));
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(!ran.err.contains("warning"), "{}", ran.err);
        assert_eq!(sandbox.ok("export"), before);
    }
}

#[test]
fn a_present_state_that_cannot_be_read_does_not_stop_a_restore() {
    let Lab { sandbox, backup, .. } = lab();
    execute_sql(&sandbox, "UPDATE ip_pool SET body = json_set(body, '$.unknown', 1)").unwrap();
    assert_eq!(sandbox.run("get ippool").code, 8);
    let ran = sandbox.run(&format!("restore {backup} -y"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("what was leased after 2026-03-02T12:"), "{}", ran.err);
    assert!(ran.err.contains("poolctl ip reserve"), "{}", ran.err);
    sandbox.ok("get ippool");
}

#[test]
fn a_present_state_that_is_corrupt_at_its_beginning_does_not_stop_a_restore() {
    let Lab { sandbox, backup, .. } = lab();
    // Else the log would have good copies of the pages that are overwritten here.
    execute_sql(&sandbox, "PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut bytes = std::fs::read(sandbox.state()).unwrap();
    bytes[100..4096].fill(0x5a);
    std::fs::write(sandbox.state(), bytes).unwrap();
    assert_eq!(sandbox.run("get ippool").code, 8);
    let ran = sandbox.run(&format!("restore {backup} -y"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("what was leased after 2026-03-02T12:"), "{}", ran.err);
    sandbox.ok("get ippool");
}

#[test]
fn a_cluster_that_is_gone_is_given_to_nobody_though_the_backup_has_it_ready() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 1 --running-count 1");
    sandbox.ok("reconcile --wait -q");
    let gone = jsonpath(&sandbox, "cluster", "{.items[*].metadata.name}");
    let backup = backup(&sandbox);
    sandbox.ok("pool scale lab --size 0");
    sandbox.ok("reconcile --wait=1h -q");
    assert_eq!(jsonpath(&sandbox, "cluster", "{.items[*].metadata.name}"), "");
    let ran = held(&sandbox, &backup);
    assert!(ran.err.contains(&format!("poolctl delete cluster {gone}, then ")), "{}", ran.err);
    sandbox.ok("claim lab ci");
    sandbox.ok("reconcile --wait=1h -q");
    assert_ne!(jsonpath(&sandbox, "claim/ci", "{.spec.namespace}"), gone);
    // What is typed ends it.
    sandbox.ok(&format!("delete cluster {gone} -y"));
    sandbox.ok(&format!("annotate cluster {gone} hive.openshift.io/reconcile-pause-"));
    sandbox.ok("reconcile --wait=1h -q");
    assert!(!jsonpath(&sandbox, "cluster", "{.items[*].metadata.name}").contains(&gone));
}

#[test]
fn a_claim_that_was_extended_and_a_cluster_that_was_paused_stay_so() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 2 --running-count 2");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("claim lab ci --lifetime 1h");
    sandbox.ok("reconcile --wait -q");
    let claimed = jsonpath(&sandbox, "claim/ci", "{.spec.namespace}");
    let names = jsonpath(&sandbox, "cluster", "{.items[*].metadata.name}");
    let other = names.split(' ').find(|name| *name != claimed).unwrap();
    let backup = backup(&sandbox);
    sandbox.ok("extend ci --for 9h");
    sandbox.ok(&format!("annotate cluster {other} hive.openshift.io/reconcile-pause=true"));
    let lifetime = jsonpath(&sandbox, "claim/ci", "{.spec.lifetime}");
    let error = sandbox.refused(
        4,
        &format!("restore {backup} -y"),
        &format!("cluster `{other}` is paused"),
    );
    assert!(error.contains(&format!("cluster `{claimed}` is claimed")), "{error}");
    held(&sandbox, &backup);
    assert_eq!(jsonpath(&sandbox, "claim/ci", "{.spec.lifetime}"), lifetime);
    let paused = jsonpath(&sandbox, &format!("cluster/{other}"), "{.metadata.annotations}");
    assert!(paused.contains("reconcile-pause"), "{paused}");
}

#[test]
fn addresses_reserved_and_hosts_held_since_the_backup_stay_so() {
    let Lab { sandbox, .. } = lab();
    let backup = backup(&sandbox);
    sandbox.ok("ip reserve lan 10.0.0.13 -q");
    sandbox.ok("host hold node-1 --reason 'bad fan' -q");
    let kept = || {
        let path = "{.metadata.annotations}";
        (jsonpath(&sandbox, "ippool/lan", path), jsonpath(&sandbox, "host/node-1", path))
    };
    let before = kept();
    let ran = held(&sandbox, &backup);
    assert!(ran.err.contains("host `default/node-1` stays held: bad fan"), "{}", ran.err);
    assert_eq!(kept(), before);
}

/// How many clusters of the pool are ready, standby, held if any, and unclaimed. Those that a restore
/// held once counted as ready, and no claim got them.
fn counts_of_pool(sandbox: &Sandbox) -> String {
    jsonpath(sandbox, "pool/lab", "{.status.ready} {.status.standby} {.status.held} {.status.size}")
}

/// Restores the backup of a lab with two ready clusters, two addresses and a host where there is no
/// state. Returns the names of the clusters, and what the restore said.
fn restore_where_nothing_is(sandbox: &mut Sandbox, options: &str) -> (Vec<String>, Ran) {
    sandbox.create_ready_pool("lab", 2);
    sandbox.ok("ippool create lan --range 10.0.0.10-10.0.0.13");
    sandbox.ok("ip reserve lan 10.0.0.13 --comment printer");
    sandbox.ok("ip claim lan first");
    apply(sandbox, HOST);
    let clusters = jsonpath(sandbox, "cluster", "{.items[*].metadata.name}");
    let backup = backup(sandbox);
    let state = sandbox.path().join("new/state.db").display().to_string();
    sandbox.set_variable("POOLCTL_STATE", &state);
    let ran = sandbox.run(&format!("restore {backup} {options}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    (clusters.split(' ').map(str::to_owned).collect(), ran)
}

#[test]
fn without_the_state_that_is_replaced_all_that_is_free_in_the_backup_is_held() {
    let mut sandbox = Sandbox::new();
    let (clusters, ran) = restore_where_nothing_is(&mut sandbox, "");
    let held = "held, because it was free in the backup: ";
    for says in [
        "is not known: there is no state".to_owned(),
        format!("{held}cluster {}", clusters.join(", ")),
        format!("{held}ippool default/lan"),
        format!("{held}host default/node-1"),
        "poolctl doctor --release-quarantine".to_owned(),
    ] {
        assert!(ran.err.contains(&says), "{says}: {}", ran.err);
    }
    let ran = sandbox.run("doctor");
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(ran.err.contains("held by a restore: "), "{}", ran.err);
    assert!(ran.err.contains("poolctl doctor --release-quarantine"), "{}", ran.err);
    let why = sandbox.ok(&format!("why cluster/{}", clusters[0]));
    assert!(why.contains("is held by a restore"), "{why}");
    assert!(why.contains("reconcile-pause- poolctl.dev/quarantine-"), "{why}");
    assert_eq!(counts_of_pool(&sandbox), "0 0 2 2");
    let status = sandbox.status();
    assert!(status.contains("2 held") && status.contains("is held by a restore"), "{status}");
    let why = sandbox.ok("why pool/lab");
    assert!(why.contains("0 ready, 0 standby, 2 held") && why.contains("held by a"), "{why}");
    sandbox.ok("claim lab ci");
    sandbox.ok("reconcile -q");
    assert_eq!(jsonpath(&sandbox, "claim/ci", "{.spec.namespace}"), "");
    assert_eq!(sandbox.run("ip claim lan more").code, 6);
    assert!(jsonpath(&sandbox, "host/node-1", "{.metadata.annotations}").contains("free in this"));
    // A pass changes nothing about that.
    sandbox.ok("reconcile --wait=1h -q");
    let claimed = jsonpath(&sandbox, "claim/ci", "{.spec.namespace}");
    assert!(!clusters.contains(&claimed), "{claimed}");
    sandbox.ok("release ci -q");
    // Nobody is asked where there is no terminal.
    sandbox.refused(2, "doctor --release-quarantine", "poolctl doctor --release-quarantine -y");
    let freed = sandbox.ok("doctor --release-quarantine -y");
    for cluster in &clusters {
        assert!(freed.contains(&format!("cluster/{cluster} free\n")), "{freed}");
    }
    assert!(freed.contains("ippool/lan open\n") && freed.contains("host/node-1 free\n"), "{freed}");
    sandbox.ok("reconcile --wait=1h -q");
    assert_eq!(counts_of_pool(&sandbox), "2 0  2");
    sandbox.ok("claim lab second -q");
    assert_ne!(jsonpath(&sandbox, "claim/second", "{.spec.namespace}"), "");
    sandbox.ok("ip claim lan more");
    // What a person had reserved stays so.
    sandbox.refused(6, "ip claim lan printer --address 10.0.0.13", "10.0.0.13");
    let ran = sandbox.run("doctor --release-quarantine -y");
    assert!(ran.code == 0 && ran.err.contains("nothing is held by a restore"), "{}", ran.err);
    sandbox.ok("doctor");
}

#[test]
fn whoever_says_that_nothing_was_leased_since_gets_the_backup_as_it_is() {
    let mut sandbox = Sandbox::new();
    let (_, ran) = restore_where_nothing_is(&mut sandbox, "--nothing-since");
    assert!(!ran.err.contains("held") && !ran.err.contains("warning"), "{}", ran.err);
    sandbox.ok("claim lab ci -q");
    assert_ne!(jsonpath(&sandbox, "claim/ci", "{.spec.namespace}"), "");
    sandbox.ok("ip claim lan more");
    let ran = sandbox.run("doctor --release-quarantine -y");
    assert!(ran.err.contains("nothing is held by a restore"), "{}", ran.err);
}

/// All clusters of the backup once counted as gone then, and `--release-quarantine` destroyed them with
/// those that were in use. A restore that was killed leaves such a state.
#[test]
fn a_state_of_another_lineage_does_not_tell_which_clusters_are_gone() {
    let mut sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 2);
    sandbox.ok("claim lab mine -q");
    sandbox.ok("reconcile --wait -q");
    let claimed = jsonpath(&sandbox, "claim/mine", "{.spec.namespace}");
    let backup = backup(&sandbox);
    let state = sandbox.path().join("new/state.db").display().to_string();
    sandbox.shell("mkdir $HOME/new");
    sandbox.set_variable("POOLCTL_STATE", &state);
    sandbox.ok("create namespace other -q");
    let ran = sandbox.run(&format!("restore {backup} -y"));
    let says = "is not known: the state that is replaced is another one";
    assert!(ran.code == 0 && ran.err.contains(says), "{}", ran.err);
    assert!(!ran.err.contains("no longer existed"), "{}", ran.err);
    assert_eq!(counts_of_pool(&sandbox), "0 0 2 2");
    let freed = sandbox.ok("doctor --release-quarantine -y");
    assert!(freed.contains(" free\n") && !freed.contains("destroyed"), "{freed}");
    sandbox.ok("reconcile -q");
    let phase = jsonpath(&sandbox, &format!("cluster/{claimed}"), "{.spec.installed}");
    assert_eq!(phase, "true");
    assert_eq!(jsonpath(&sandbox, "claim/mine", "{.spec.namespace}"), claimed);
    assert_eq!(counts_of_pool(&sandbox), "2 0  2");
}

/// After a restore of a backup that was too old, the right one brings back clusters that the state does
/// not have. Some of them were in use, and were destroyed with all that counted as gone.
#[test]
fn a_cluster_that_came_back_with_its_claim_is_not_destroyed_when_it_is_given_back() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 0);
    let too_old = sandbox.path().join("too-old.db").display().to_string();
    sandbox.ok(&format!("backup {too_old}"));
    sandbox.ok("pool scale lab --size 1 -q");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("claim lab mine -q");
    sandbox.ok("reconcile --wait -q");
    let claimed = jsonpath(&sandbox, "claim/mine", "{.spec.namespace}");
    let backup = backup(&sandbox);
    let ran = sandbox.run(&format!("restore {too_old} -y"));
    assert_eq!(ran.code, 4, "{}", ran.err);
    // Nobody wants what the wrong restore holds.
    held(&sandbox, &too_old);
    sandbox.ok("doctor --release-quarantine -y");
    sandbox.ok("reconcile --wait -q");
    let ran = held(&sandbox, &backup);
    assert!(ran.err.contains(&format!("brings back cluster `{claimed}`")), "{}", ran.err);
    let freed = sandbox.ok("doctor --release-quarantine -y");
    assert!(freed.contains(&format!("cluster/{claimed} in use\n")), "{freed}");
    assert_eq!(jsonpath(&sandbox, "claim/mine", "{.spec.namespace}"), claimed);
}

/// `--release-quarantine` once said of such a cluster that it is free.
#[test]
fn a_held_cluster_that_a_person_has_freed_and_somebody_has_claimed_is_in_use() {
    let mut sandbox = Sandbox::new();
    let (clusters, _) = restore_where_nothing_is(&mut sandbox, "");
    for cluster in &clusters {
        sandbox.ok(&format!("annotate cluster {cluster} hive.openshift.io/reconcile-pause- -q"));
    }
    sandbox.ok("claim lab ci -q");
    let claimed = jsonpath(&sandbox, "claim/ci", "{.spec.namespace}");
    assert!(clusters.contains(&claimed), "{claimed}");
    let freed = sandbox.ok("doctor --release-quarantine -y");
    assert!(freed.contains(&format!("cluster/{claimed} in use\n")), "{freed}");
    assert_eq!(jsonpath(&sandbox, "claim/ci", "{.spec.namespace}"), claimed);
    assert!(sandbox.run("doctor --release-quarantine -y").err.contains("nothing is held"));
}

#[test]
fn doctor_gives_back_what_was_leased_after_the_backup_and_destroys_its_clusters() {
    let Lab { sandbox, backup, claimed, made, address } = lab();
    held(&sandbox, &backup);
    let freed = sandbox.ok("doctor --release-quarantine -y");
    for says in
        ["claim/ci released", "ipclaim/db released", "customization/bar free", "host/node-1 free"]
    {
        assert!(freed.contains(says), "{says}: {freed}");
    }
    assert!(!freed.contains("customization/foo"), "{freed}");
    sandbox.ok("claim lab second");
    sandbox.ok("reconcile --wait=1h -q");
    // It was claimed after the backup, to which it is free: it is destroyed, not given on.
    let second = jsonpath(&sandbox, "claim/second", "{.spec.namespace}");
    assert!(!second.is_empty() && second != made && second != claimed, "{second}");
    let clusters = jsonpath(&sandbox, "cluster", "{.items[*].metadata.name}");
    assert!(!clusters.contains(&claimed), "{clusters}");
    let others = sandbox.ok("ip claim lan other --count 4");
    assert!(others.split_whitespace().any(|word| word == address), "{address}: {others}");
    assert!(!jsonpath(&sandbox, "host/node-1", "{.metadata.annotations}").contains("hold"));
    assert_eq!(jsonpath(&sandbox, "host/node-1", "{.spec.consumerRef.name}"), "");
    sandbox.ok("doctor");
}

/// The database lets no two hosts have a controller or a MAC, not even while they are exchanged.
#[test]
fn hosts_whose_network_cards_were_exchanged_since_the_backup_are_restored() {
    let sandbox = Sandbox::new();
    apply(&sandbox, HOST);
    apply(&sandbox, &HOST.replace("node-1", "node-2").replace("00:01", "00:02"));
    let backup = backup(&sandbox);
    let set_mac = |host: usize, mac: usize| {
        let patch = format!("{{spec: {{bootMACAddress: \"02:00:00:00:00:0{mac}\"}}}}");
        sandbox.ok(&format!("patch host node-{host} -p '{patch}'"));
    };
    set_mac(1, 3);
    set_mac(2, 1);
    set_mac(1, 2);
    sandbox.ok(&format!("patch host node-1 -p '{USED}'"));
    held(&sandbox, &backup);
    for (host, mac) in [(1, 2), (2, 1)] {
        let kept = jsonpath(&sandbox, &format!("host/node-{host}"), "{.spec.bootMACAddress}");
        assert_eq!(kept, format!("02:00:00:00:00:0{mac}"), "{host}");
    }
    assert!(sandbox.ok("events host/node-1").contains("Held"));
    // Two hosts may also be exchanged by one file.
    let hosts = |first_mac: usize, second_mac: usize| {
        let third =
            HOST.replace("node-1", "node-3").replace("00:01'", &format!("00:0{first_mac}'"));
        let fourth =
            HOST.replace("node-1", "node-4").replace("00:01'", &format!("00:0{second_mac}'"));
        format!("{third}---\n{fourth}")
    };
    apply(&sandbox, &hosts(5, 6));
    apply(&sandbox, &hosts(6, 5));
    assert_eq!(jsonpath(&sandbox, "host/node-3", "{.spec.bootMACAddress}"), "02:00:00:00:00:06");
    sandbox.ok("doctor");
}
