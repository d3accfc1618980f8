//! What the next pass looks at after a host or its controller has said something, or a pool has given
//! the host to a cluster: that host, and not all that is kept.

use rusqlite::Connection;

use crate::machines::{host_status, import_hosts, reconcile_until, sandbox_on_real_clock};
use crate::sandbox::{NOON, Sandbox, apply, execute_sql, jsonpath};
use crate::served::closed_port;

/// Noon as the state keeps time, in microseconds since 1970.
const NOON_MICROSECONDS: i64 = 1_772_452_800_000_000;

/// An InfraEnv with two hosts that have said no more than that they are there; settled.
fn sandbox_with_hosts() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("apply -qf examples/agents/rack.yaml");
    for host in ["node-a", "node-b"] {
        sandbox.ok(&format!("agent register --infraenv rack --id {host} -q"));
    }
    sandbox.ok("reconcile -q");
    assert_eq!(due_now(&sandbox, 0), [""; 0]);
    sandbox
}

/// Sets the clock to so many seconds after noon.
fn set_clock(sandbox: &mut Sandbox, seconds: i64) {
    let minutes = seconds / 60;
    let time = format!("12:{minutes:02}:{:02}", seconds % 60);
    sandbox.set_variable("POOLCTL_NOW", &NOON.replace("12:00:00", &time));
}

/// What a pass would look at, so many seconds after noon: Agents and hosts by their names, `rest` for
/// all that is neither of them nor of a pool.
fn due_now(sandbox: &Sandbox, seconds: i64) -> Vec<String> {
    let connection = Connection::open(sandbox.state()).unwrap();
    let sql = "SELECT name FROM due_object WHERE dirty OR polled OR due <= ?1 UNION ALL \
               SELECT iif(pool = '', 'rest', pool) FROM due_scope \
               WHERE dirty OR polled OR due <= ?1 ORDER BY 1";
    let mut statement = connection.prepare(sql).unwrap();
    let now = NOON_MICROSECONDS + seconds * 1_000_000;
    let names = statement.query_map([now], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}

fn state_of(sandbox: &Sandbox, agent: &str) -> String {
    sandbox.ok(&format!("get agent {agent} -o 'jsonpath={{.status.debugInfo.state}}'"))
}

#[test]
fn a_check_in_leaves_nothing_to_do_and_puts_off_when_the_host_is_silent() {
    let mut sandbox = sandbox_with_hosts();
    set_clock(&mut sandbox, 120);
    sandbox.ok("agent check-in node-a");
    assert_eq!(due_now(&sandbox, 120), [""; 0]);
    assert_eq!(due_now(&sandbox, 181), ["node-b"]);
    set_clock(&mut sandbox, 181);
    sandbox.ok("reconcile -q");
    assert_eq!(state_of(&sandbox, "node-a"), "discovering-unbound");
    assert_eq!(state_of(&sandbox, "node-b"), "disconnected-unbound");
    assert_eq!(due_now(&sandbox, 181), [""; 0]);
    assert_eq!(due_now(&sandbox, 301), ["node-a"]);
}

#[test]
fn a_host_that_was_silent_or_reports_is_looked_at_alone() {
    let mut sandbox = sandbox_with_hosts();
    set_clock(&mut sandbox, 240);
    // No pass has found them silent yet: what was due is still to be done.
    sandbox.ok("agent check-in node-a");
    assert_eq!(due_now(&sandbox, 240), ["node-a", "node-b"]);
    sandbox.ok("reconcile -q");
    assert_eq!(state_of(&sandbox, "node-a"), "discovering-unbound");
    assert_eq!(state_of(&sandbox, "node-b"), "disconnected-unbound");
    sandbox.ok("agent check-in node-b");
    assert_eq!(due_now(&sandbox, 240), ["node-b"]);
    sandbox.ok("reconcile -q");
    assert_eq!(state_of(&sandbox, "node-b"), "discovering-unbound");
    sandbox.ok("agent report node-b --inventory examples/agents/reports/node-1.json -q");
    sandbox.ok("agent register --infraenv rack --id node-c -q");
    assert_eq!(due_now(&sandbox, 240), ["node-b", "node-c"]);
    sandbox.ok("reconcile -q");
    assert_eq!(due_now(&sandbox, 240), [""; 0]);
}

#[test]
fn a_person_who_changes_a_host_has_everything_looked_at() {
    let sandbox = sandbox_with_hosts();
    sandbox.ok("agent approve node-a --no-reconcile -q");
    assert_eq!(due_now(&sandbox, 0), ["rest"]);
    sandbox.ok("reconcile -q");
    sandbox.ok("delete agent/node-b -y -q");
    sandbox.ok("reconcile -q");
    assert_eq!(due_now(&sandbox, 3600), ["node-a"]);
}

#[test]
fn a_host_is_looked_at_alone_while_its_controller_is_asked() {
    let lab = sandbox_on_real_clock();
    let address = format!("redfish://127.0.0.1:{}", closed_port());
    import_hosts(&lab, "name,bmc,username,password", &[format!("b1,{address},root,calvin")]);
    lab.ok("reconcile -q");
    assert_eq!(due_now(&lab, 0), ["b1"]);
    reconcile_until(&lab, "failed", |lab| host_status(lab, "b1", "errorCount") == "1");
    // When it is tried again is later than any noon of these tests.
    assert_eq!(due_now(&lab, 0), [""; 0]);
    let connection = Connection::open(lab.state()).unwrap();
    let sql = "SELECT count(*) FROM due_object WHERE name = 'b1' AND due IS NOT NULL";
    let rows: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1);
}

#[test]
fn a_host_whose_report_waits_for_a_pass_is_not_said_to_have_sent_none() {
    let sandbox = sandbox_with_hosts();
    sandbox.ok("agent report node-a --inventory examples/agents/reports/node-1.json -q");
    let matched = sandbox.run("agent match --role master").out;
    let said_of = |host: &str| matched.lines().find(|line| line.starts_with(host)).unwrap();
    assert!(said_of("node-a").contains("the next pass looks at its report"), "{matched}");
    assert!(said_of("node-b").contains("it has not reported its hardware yet"), "{matched}");
}

/// A pool that makes clusters of one host with a driver that does nothing, and the host b1: it has the
/// MAC address that node-1.json reports, so whichever Agent reports that is this host.
const METAL_POOL_AND_HOST: &str = r#"
kind: ClusterImageSet
apiVersion: hive.openshift.io/v1
metadata: {name: ocp}
spec: {releaseImage: "example.com/ocp:4.18.3-x86_64"}
---
kind: Secret
apiVersion: v1
metadata: {name: template}
stringData:
  install-config.yaml: |
    apiVersion: v1
    baseDomain: lab.example.com
    metadata: {}
    controlPlane: {name: master, replicas: 1}
    compute: [{name: worker, replicas: 0}]
    networking: {machineNetwork: [{cidr: 192.0.2.0/24}]}
    platform: {none: {}}
---
kind: ClusterPool
apiVersion: hive.openshift.io/v1
metadata: {name: metal}
spec:
  size: 0
  baseDomain: lab.example.com
  imageSetRef: {name: ocp}
  pullSecretRef: {name: rack-pull-secret}
  installConfigSecretTemplateRef: {name: template}
  annotations: {hive.openshift.io/fake-cluster: "true"}
  platform: {agentBareMetal: {agentSelector: {matchLabels: {}}}}
---
kind: BareMetalHost
apiVersion: metal3.io/v1alpha1
metadata: {name: b1, labels: {infraenvs.agent-install.openshift.io: rack}}
spec: {online: true, externallyProvisioned: true, bootMACAddress: "02:00:00:00:00:01"}
"#;

#[test]
fn a_host_that_a_pool_gives_to_a_cluster_is_looked_at_alone() {
    let sandbox = sandbox_with_hosts();
    sandbox.ok("apply -qf examples/agents/rack.yaml -n far");
    sandbox.ok("agent register --infraenv rack --id far -n far -q");
    sandbox.ok("agent report node-a --inventory examples/agents/reports/node-1.json -q");
    apply(&sandbox, METAL_POOL_AND_HOST);
    sandbox.ok("reconcile -q");
    // Whoever looks at everything meets this Agent of another namespace, and is refused.
    forget_settled(&sandbox);
    let sql = "UPDATE agent_body SET inventory = '5' \
               WHERE id = (SELECT id FROM agent WHERE namespace = 'far')";
    execute_sql(&sandbox, sql).unwrap();
    sandbox.refused(8, "reconcile --all", "a row of kind Agent in table agent_body cannot be read");
    sandbox.ok("pool scale metal --size 1 -q");
    sandbox.ok("reconcile -q");
    let cluster = sandbox.ok("get cluster -A -o 'jsonpath={.items[0].metadata.name}'");
    assert!(cluster.starts_with("metal-"), "{cluster}");
    assert_eq!(jsonpath(&sandbox, "host/b1", "{.spec.consumerRef.name}"), cluster);
    assert_eq!(state_of(&sandbox, "node-a"), "binding");
    assert_eq!(due_now(&sandbox, 0), [""; 0]);
}

/// What a check of node-a says.
fn check_of_host(sandbox: &Sandbox, category: &str, check: &str) -> String {
    let path = format!("{{.status.validationsInfo.{category}[?(@.id==\"{check}\")].message}}");
    jsonpath(sandbox, "agent/node-a", &path)
}

fn memory_check(sandbox: &Sandbox) -> String {
    check_of_host(sandbox, "hardware", "has-min-memory")
}

/// A host that was checked, and whose result was then changed in the state file. The changed text stays
/// until the host is checked again.
fn sandbox_with_checked_host() -> Sandbox {
    let sandbox = sandbox_with_hosts();
    sandbox.ok("agent report node-a --inventory examples/agents/reports/node-1.json -q");
    sandbox.ok("reconcile -q");
    assert_eq!(memory_check(&sandbox), "Sufficient minimum RAM");
    let sql = "UPDATE agent_body \
               SET validations = replace(validations, 'Sufficient minimum RAM', 'old') \
               WHERE id = (SELECT id FROM agent WHERE name = 'node-a')";
    execute_sql(&sandbox, sql).unwrap();
    assert_eq!(memory_check(&sandbox), "old");
    sandbox
}

#[test]
fn a_free_host_is_checked_once_for_each_change() {
    let sandbox = sandbox_with_checked_host();
    sandbox.ok("reconcile --all -q");
    sandbox.ok("agent check-in node-a");
    sandbox.ok("reconcile --all -q");
    assert_eq!(memory_check(&sandbox), "old");
    sandbox.ok("agent report node-a --media-lost -q");
    sandbox.ok("reconcile -q");
    assert_eq!(memory_check(&sandbox), "Sufficient minimum RAM");
}

#[test]
fn a_host_that_was_checked_is_checked_again_when_it_falls_silent_and_when_it_comes_back() {
    let mut sandbox = sandbox_with_checked_host();
    let connected = |sandbox: &Sandbox| check_of_host(sandbox, "network", "connected");
    set_clock(&mut sandbox, 181);
    sandbox.ok("reconcile -q");
    assert_eq!(state_of(&sandbox, "node-a"), "disconnected-unbound");
    assert_eq!(connected(&sandbox), "Host is disconnected");
    sandbox.ok("agent check-in node-a");
    sandbox.ok("reconcile --all -q");
    assert_eq!(state_of(&sandbox, "node-a"), "known-unbound");
    assert_eq!(connected(&sandbox), "Host is connected");
}

#[test]
fn what_another_program_has_checked_is_checked_again_and_then_known() {
    let sandbox = sandbox_with_checked_host();
    execute_sql(&sandbox, "UPDATE agent SET settled_by = 'another program'").unwrap();
    sandbox.ok("reconcile --all -q");
    assert_eq!(memory_check(&sandbox), "Sufficient minimum RAM");
    let others = "SELECT count(*) FROM agent WHERE settled_by = 'another program'";
    assert_eq!(count(&sandbox, others), 0);
    let revision = || count(&sandbox, "SELECT revision FROM state");
    let before = revision();
    sandbox.ok("reconcile --all -q");
    assert_eq!(revision(), before);
}

#[test]
fn doctor_works_everything_out_again_and_contents_that_are_accepted_are_checked_again() {
    for mend in ["doctor --fix -y", "doctor --accept-contents -y"] {
        let sandbox = sandbox_with_checked_host();
        let message = "what belongs to no pool would change if all were worked out again";
        let found = sandbox.run("doctor");
        assert!(found.out.contains(message), "{}", found.out);
        sandbox.run(mend);
        sandbox.ok("reconcile -q");
        assert_eq!(memory_check(&sandbox), "Sufficient minimum RAM", "{mend}");
        assert!(!sandbox.run("doctor").out.contains(message));
    }
}

/// Has the next pass work out again what follows from Agents alone.
fn forget_settled(sandbox: &Sandbox) {
    execute_sql(sandbox, "UPDATE agent SET settled_by = NULL").unwrap();
}

fn count(sandbox: &Sandbox, sql: &str) -> i64 {
    Connection::open(sandbox.state()).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_pool_that_picks_hosts_reads_no_documents_of_hosts_that_clusters_have() {
    let sandbox = sandbox_with_hosts();
    sandbox.ok("agent report node-a --inventory examples/agents/reports/node-1.json -q");
    apply(&sandbox, METAL_POOL_AND_HOST);
    sandbox.ok("pool scale metal --size 1 -q");
    sandbox.ok("reconcile -q");
    let cluster = sandbox.ok("get cluster -o 'jsonpath={.items[0].metadata.name}'");
    let [_, _, metal_pool, _] = METAL_POOL_AND_HOST.split("---").collect::<Vec<_>>()[..] else {
        panic!("four documents are expected")
    };
    apply(&sandbox, &metal_pool.replace("name: metal", "name: other"));
    sandbox.ok("reconcile -q");
    let of_host = "WHERE id = (SELECT id FROM agent WHERE name = 'node-a')";
    let connection = Connection::open(sandbox.state()).unwrap();
    let sql = format!("SELECT body FROM agent_body {of_host}");
    let body: String = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
    let sql = format!("UPDATE agent_body SET body = ?1 {of_host}");
    connection.execute(&sql, ["{}"]).unwrap();
    sandbox.ok("pool scale other --size 1 -q");
    sandbox.ok("reconcile -q");
    connection.execute(&sql, [body]).unwrap();
    let shortage = || sandbox.ok("why pool/other");
    let problem =
        format!("2 unusable (rack-7-node-1: has cluster {cluster}; node-b: is discovering-unbound");
    assert!(shortage().contains(&problem), "{}", shortage());
    let of_pass = shortage();
    sandbox.ok("reconcile -q --all");
    assert_eq!(shortage(), of_pass);
}
