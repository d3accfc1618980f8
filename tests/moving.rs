//! A state that is moved is the same afterwards; half-written links come out whole.

use serde_json::Value;

use crate::sandbox::{Ran, Sandbox, jsonpath};
use crate::transcripts::replay;

const KINDS: &str = "settings,ns,rolebinding,imgset,secret,cdc,pool,cluster,claim,job,event,host,datatemplate,infraenv,agent,nmstateconfig,ippool,ipaddress,ipclaim";

/// Imports a text into a new state beside, and returns its name and what was said.
fn import(sandbox: &Sandbox, text: &str) -> (String, Ran) {
    let file = sandbox.file("moved", text);
    let state = sandbox.path().join("moved.db").display().to_string();
    for end in ["", "-wal", "-shm", ".lock", ".pass"] {
        let _ = std::fs::remove_file(format!("{state}{end}"));
    }
    let ran = sandbox.run(&["--state", &state, "import", &file, "--settings"]);
    (state, ran)
}

/// An export without who had which address: `get` does not show it.
fn without_past(text: &str) -> Value {
    let mut list = poolctl::yaml::value(text).unwrap();
    let items = list["items"].as_array_mut().unwrap().iter_mut();
    for item in items.filter(|item| item["kind"] == "IPPool") {
        if let Some(status) = item.get_mut("status").and_then(Value::as_object_mut) {
            status.remove("history");
        }
    }
    list
}

#[test]
fn a_state_that_is_moved_is_the_same() {
    let mut seen = 0;
    replay(|what, sandbox| {
        seen += 1;
        let before = sandbox.ok(&["export"]);
        let (state, ran) = import(sandbox, &before);
        assert_eq!(ran.code, 0, "{what}: {}", ran.err);
        let after = sandbox.ok(&["--state", &state, "export"]);
        assert_eq!(before, after, "{what}");
        // A second time it is there already.
        let again = sandbox.ok(&[
            "--state",
            &state,
            "import",
            &format!("{}/moved", sandbox.path().display()),
            "--settings",
        ]);
        assert!(again.contains("unchanged"), "{what}: {again}");
        // As kubectl would give it, live jobs and all.
        let json = sandbox.ok(&["get", KINDS, "-A", "-o", "json"]);
        let (state, ran) = import(sandbox, &json);
        assert_eq!(ran.code, 0, "{what}: {}", ran.err);
        let after = sandbox.ok(&["--state", &state, "export"]);
        assert_eq!(without_past(&before), without_past(&after), "{what}");
        // And it goes on.
        sandbox.ok(&["--state", &state, "reconcile", "--wait=90d", "-q"]);
    });
    assert!(seen > 20, "{seen}");
}

/// A cluster of pool p as `oc get -o yaml` shows it.
fn cluster(name: &str, links: &str) -> String {
    format!(
        "- apiVersion: hive.openshift.io/v1
  kind: ClusterDeployment
  metadata:
    name: {name}
    namespace: {name}
    uid: 6f1c3a52-0000-0000-0000-00000000{:04x}
    creationTimestamp: '2026-03-02T06:00:00Z'
    resourceVersion: '17'
    managedFields: [{{manager: hive}}]
    annotations: {{hive.openshift.io/fake-cluster: 'true'}}
    finalizers: [hive.openshift.io/deprovision]
  spec:
    clusterName: {name}
    baseDomain: example.com
    installed: true
    platform: {{none: {{}}}}
    powerState: Running
    clusterPoolRef: {{namespace: default, poolName: p{links}}}
  status:
    installedTimestamp: '2026-03-02T06:40:00Z'
    powerState: Running
    cliImage: quay.io/what/poolctl-does-not-know
",
        name.bytes().map(u32::from).sum::<u32>()
    )
}

fn claim(name: &str, cluster: &str) -> String {
    format!(
        "- apiVersion: hive.openshift.io/v1
  kind: ClusterClaim
  metadata: {{name: {name}, namespace: default, creationTimestamp: '2026-03-02T07:00:00Z'}}
  spec: {{clusterPoolName: p{}}}
",
        if cluster.is_empty() { String::new() } else { format!(", namespace: {cluster}") }
    )
}

fn customization(name: &str, status: &str) -> String {
    format!(
        "- apiVersion: hive.openshift.io/v1
  kind: ClusterDeploymentCustomization
  metadata: {{name: {name}, namespace: default}}
  status: {{conditions: [], {status}}}
"
    )
}

const POOL: &str = "apiVersion: v1
kind: List
items:
- apiVersion: hive.openshift.io/v1
  kind: ClusterImageSet
  metadata: {name: ocp}
  spec: {releaseImage: example.com/ocp:1}
- apiVersion: hive.openshift.io/v1
  kind: ClusterPool
  metadata: {name: p, namespace: default}
  spec: {size: 0, baseDomain: example.com, imageSetRef: {name: ocp}, platform: {none: {}}}
";

const CLAIM_OF: &str = "{.items[?(@.metadata.name==\"k\")].spec.namespace}";
const CLUSTER_OF: &str = "{.items[*].status.clusterDeploymentRef.name}";

const HELD: &str = ", claimName: k, claimedTimestamp: '2026-03-02T08:00:00Z'";
const USES: &str = ", clusterDeploymentCustomization: {name: x}";

/// Objects with a half-written link, what is said of each repair, and what a path shows then.
struct Half(&'static str, String, &'static [&'static str], &'static str, &'static str);

fn half_claims() -> Vec<Half> {
    let both = cluster("c", HELD) + &claim("k", "c");
    let back = "{.items[*].spec.clusterPoolRef.claimName}";
    let other = "{.items[?(@.metadata.name==\"other\")].spec.namespace}";
    let conflict: &[&str] = &["was claimed by a different ClusterClaim"];
    vec![
        Half("P-36", cluster("c", HELD) + &claim("k", ""), &["is assigned to it"], CLAIM_OF, "c"),
        Half("C-01", cluster("c", "") + &claim("k", "c"), &["Claim k has it"], back, "k"),
        Half("C-05", both.clone() + &claim("other", "c"), conflict, other, ""),
        Half("C-07", claim("k", "gone"), &[], CLAIM_OF, "gone"),
        Half("whole", both, &[], CLAIM_OF, "c"),
    ]
}

fn half_leases() -> Vec<Half> {
    let reserved = |cluster: &str| {
        let cluster = format!("clusterDeploymentRef: {{name: {cluster}}}");
        customization("x", &format!("{cluster}, clusterPoolRef: {{name: p}}"))
    };
    let half = customization("x", "clusterPoolRef: {name: p}");
    let free = customization("x", "");
    let taken: &[&str] = &["Lease taken again for cluster c"];
    let apart: &[&str] = &["cluster d does not use it", "Lease taken again for cluster c"];
    let two = cluster("c", USES) + &cluster("d", "") + &reserved("d");
    vec![
        Half("P-08", cluster("c", USES) + &reserved("c"), &[], CLUSTER_OF, "c"),
        Half("P-16", cluster("c", USES) + &free, taken, CLUSTER_OF, "c"),
        Half("P-10", half, &["it names pool p and no cluster"], CLUSTER_OF, ""),
        Half("P-20", reserved("c"), &["there is no cluster c"], CLUSTER_OF, ""),
        Half("unused", cluster("c", "") + &reserved("c"), &["does not use it"], CLUSTER_OF, ""),
        Half("apart", two, apart, CLUSTER_OF, "c"),
    ]
}

#[test]
fn half_written_links_come_out_whole() {
    for Half(name, items, repairs, path, shows) in half_claims().into_iter().chain(half_leases()) {
        let mut sandbox = Sandbox::new();
        let (state, ran) = import(&sandbox, &format!("{POOL}{items}"));
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        let repair = |line: &&str| line.starts_with("warning: Cluster");
        let said: Vec<&str> = ran.err.lines().filter(repair).collect();
        assert_eq!(said.len(), repairs.len(), "{name}: {said:?}");
        let mut pairs = repairs.iter().zip(&said);
        assert!(pairs.all(|(repair, line)| line.contains(repair)), "{name}: {said:?}");
        sandbox.set("POOLCTL_STATE", &state);
        assert_eq!(jsonpath(&sandbox, "claim,cluster,cdc", path).trim(), shows, "{name}");
        let events = sandbox.ok(&["events", "-o", "jsonpath={.items[*].type}"]);
        assert_eq!(events.split_whitespace().count(), repairs.len(), "{name}: one event each");
        // The pass agrees: nothing is repaired twice.
        sandbox.ok(&["reconcile"]);
        let events = sandbox.ok(&["events"]);
        let words = ["Repaired", "Dropped", "AssignmentConflict"];
        let found: usize = words.iter().map(|word| events.matches(word).count()).sum();
        assert_eq!(found, repairs.len(), "{name}: {events}");
    }
}

#[test]
fn a_second_holder_is_refused_by_name() {
    let twin = cluster("d", "").replace("clusterName: d", "clusterName: c");
    for (items, says) in [
        (cluster("c", HELD) + &cluster("d", HELD), "`c/c` and `d/d` both hold claim k"),
        (cluster("c", USES) + &cluster("d", USES), "both hold customization x"),
        (cluster("c", "") + &twin, "both hold c.example.com"),
        (
            cluster("c", "") + &cluster("c", "").replace("namespace: c\n", "namespace: d\n"),
            "both hold the name c",
        ),
    ] {
        let sandbox = Sandbox::new();
        let (state, ran) = import(&sandbox, &format!("{POOL}{items}"));
        assert_eq!(ran.code, 4, "{says}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(says), "{says}: {}", ran.err);
        assert_eq!(sandbox.run(&["--state", &state, "get", "pool"]).code, 3);
    }
}

#[test]
fn only_an_empty_or_equal_state_takes_an_import() {
    let sandbox = Sandbox::new();
    sandbox.ready_pool("lab", 1);
    let file = sandbox.file("state.yaml", &sandbox.ok(&["export"]));
    assert!(sandbox.ok(&["import", &file]).contains("unchanged"));
    sandbox.ok(&["claim", "lab", "ci"]);
    let ran = sandbox.run(&["import", &file]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("neither empty nor equal"), "{}", ran.err);
}

#[test]
fn what_was_in_flight_is_cleaned_up_first() {
    let mut sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "lab", "--fake", "--size", "1"]);
    let (state, _) = import(&sandbox, &sandbox.ok(&["export"]));
    sandbox.set("POOLCTL_STATE", &state);
    assert!(sandbox.ok(&["job", "list", "--all"]).contains("interrupted"));
    sandbox.ok(&["reconcile"]);
    assert!(sandbox.ok(&["job", "list"]).contains("deprovision"));
    sandbox.ok(&["reconcile", "--wait", "-q"]);
    let events = sandbox.ok(&["events"]);
    assert!(events.contains("CleanedUp") && events.contains("Installed"), "{events}");
}

#[test]
fn secrets_travel_only_when_asked_and_only_in_a_file_for_us_alone() {
    use std::os::unix::fs::PermissionsExt;
    let mut sandbox = Sandbox::new();
    sandbox.ready_pool("lab", 1);
    sandbox.ok(&["claim", "lab", "ci"]);
    let token = std::fs::read_to_string(sandbox.ok(&["kubeconfig", "ci"]).trim()).unwrap();
    let token = token.split("fake-").nth(1).unwrap()[..32].to_owned();
    assert!(!sandbox.ok(&["export"]).contains(&token));
    assert_eq!(sandbox.run(&["export", "--include-secrets"]).code, 2);
    assert_eq!(sandbox.run(&["export", "-", "--include-secrets"]).code, 2);
    let path = sandbox.path().join("all.yaml");
    let file = path.display().to_string();
    sandbox.ok(&["export", &file, "--include-secrets"]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (state, ran) = import(&sandbox, &std::fs::read_to_string(&path).unwrap());
    assert!(!ran.err.contains("without values"), "{}", ran.err);
    sandbox.set("POOLCTL_STATE", &state);
    let other = sandbox.ok(&["kubeconfig", "ci"]);
    assert!(std::fs::read_to_string(other.trim()).unwrap().contains(&token));
}

#[test]
fn a_cluster_whose_pool_is_missing_goes_on_being_looked_after() {
    let mut sandbox = Sandbox::new();
    sandbox.ok(&["pool", "create", "lab", "--fake"]);
    let list: Value = serde_json::from_str(&sandbox.ok(&["export", "-o", "json"])).unwrap();
    let items = list["items"].as_array().unwrap().iter();
    let without: Vec<_> = items.filter(|one| one["kind"] != "ClusterPool").collect();
    let text = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": without});
    let (state, ran) = import(&sandbox, &text.to_string());
    assert_eq!(ran.code, 0, "{}", ran.err);
    sandbox.set("POOLCTL_STATE", &state);
    sandbox.ok(&["reconcile", "--wait=1h", "-q"]);
    let events = sandbox.ok(&["events"]);
    assert!(events.contains("CleanedUp") && events.contains("Installed"), "{events}");
    assert_eq!(sandbox.run(&["plan"]).code, 0);
}

#[test]
fn a_history_alone_can_be_moved_and_a_refused_file_leaves_no_state() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["secret", "create", "s", "--from-file=a=/dev/null"]);
    sandbox.ok(&["delete", "secret", "s"]);
    let (state, ran) = import(&sandbox, &sandbox.ok(&["export"]));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(sandbox.ok(&["export"]), sandbox.ok(&["--state", &state, "export"]));
    let twice = format!("{POOL}{}{}", claim("k", ""), claim("k", ""));
    let (state, ran) = import(&sandbox, &twice);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(!std::path::Path::new(&state).exists());
}

#[test]
fn what_only_a_finalizer_holds_is_the_same_afterwards() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("c.yaml", crate::sandbox::BY_HAND);
    sandbox.ok(&["apply", "-f", &file]);
    let finalizer = "{\"metadata\": {\"finalizers\": [\"x.example/y\"]}}";
    sandbox.ok(&["patch", "cluster", "c", "-n", "mine", "-p", finalizer]);
    sandbox.ok(&["reconcile", "--wait", "-q"]);
    sandbox.ok(&["delete", "cluster", "c", "-n", "mine", "-y"]);
    sandbox.ok(&["reconcile", "--wait", "-q"]);
    let before = sandbox.ok(&["export"]);
    assert!(before.contains("A finalizer of another program"), "{before}");
    let (state, _) = import(&sandbox, &before);
    assert_eq!(before, sandbox.ok(&["--state", &state, "export"]));
}

#[test]
fn a_job_whose_status_was_dropped_was_interrupted() {
    let sandbox = Sandbox::new();
    let job = "apiVersion: poolctl.dev/v1\nkind: Job\n\
               metadata: {name: 00000000-0000-0000-0000-000000000001}\n\
               spec: {verb: provision, cluster: gone, driver: fake, attempt: 1, ordinal: 1}\n";
    let (state, ran) = import(&sandbox, job);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let jobs = sandbox.ok(&["--state", &state, "get", "job", "-o", "yaml"]);
    assert!(jobs.contains("outcome: interrupted"), "{jobs}");
}
