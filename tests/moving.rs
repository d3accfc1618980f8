//! Moving a state by `export` and `import`: it is the same afterwards, and links of which only one
//! end was written are repaired.

use serde_json::Value;

use crate::sandbox::{BY_HAND, Ran, Sandbox, apply, jsonpath, move_state};

const KINDS: &str = "settings,ns,rolebinding,imgset,secret,cdc,pool,cluster,claim,job,event,host,datatemplate,infraenv,agent,nmstateconfig,ippool,ipaddress,ipclaim,metal3data";

/// Imports a manifest into a new state in the same folder. Returns the path of that state.
fn import_into_new_state(sandbox: &Sandbox, manifest: &str) -> (String, Ran) {
    let file = sandbox.write_file("moved", manifest);
    let state = sandbox.path().join("moved.db").display().to_string();
    for end in ["", "-wal", "-shm", ".lock", ".pass"] {
        let _ = std::fs::remove_file(format!("{state}{end}"));
    }
    let ran = sandbox.run(&format!("--state {state} import {file} --settings"));
    (state, ran)
}

/// An export without the history of addresses, which `get` does not show, and without the counts
/// that follow from it.
fn without_address_history(export: &str) -> Value {
    let mut list = poolctl::yaml::parse_value(export).unwrap();
    let items = list["items"].as_array_mut().unwrap().iter_mut();
    for item in items.filter(|item| item["kind"] == "IPPool") {
        if let Some(status) = item.get_mut("status").and_then(Value::as_object_mut) {
            status.remove("history");
            status.remove("conditions");
            if let Some(counts) = status.get_mut("ipAddresses").and_then(Value::as_object_mut) {
                counts.remove("resting");
                counts.remove("free");
            }
        }
    }
    list
}

/// Moves a state by what `export` writes, and by what `get` prints of it.
pub fn assert_moved_state_is_the_same(transcript: &str, sandbox: &Sandbox) {
    let before = sandbox.ok("export");
    let (state, ran) = import_into_new_state(sandbox, &before);
    assert_eq!(ran.code, 0, "{transcript}: {}", ran.err);
    let after = sandbox.ok(&format!("--state {state} export"));
    assert_eq!(before, after, "{transcript}");
    // Imported a second time, everything is there already.
    let second_import = sandbox
        .ok(&format!("--state {state} import {}/moved --settings", sandbox.path().display()));
    assert!(second_import.contains("unchanged"), "{transcript}: {second_import}");
    // The same as kubectl would print it, with live jobs.
    let json = sandbox.ok(&format!("get {KINDS} -A -o json"));
    let (state, ran) = import_into_new_state(sandbox, &json);
    assert_eq!(ran.code, 0, "{transcript}: {}", ran.err);
    let after = sandbox.ok(&format!("--state {state} export"));
    assert_eq!(without_address_history(&before), without_address_history(&after), "{transcript}");
    // The new state can be reconciled.
    sandbox.ok(&format!("--state {state} reconcile --wait=90d -q"));
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

const POOL_LIST: &str = "apiVersion: v1
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

const CLUSTER_OF_CLAIM: &str = "{.items[?(@.metadata.name==\"k\")].spec.namespace}";
const CLUSTER_OF_LEASE: &str = "{.items[*].status.clusterDeploymentRef.name}";

const HELD: &str = ", claimName: k, claimedTimestamp: '2026-03-02T08:00:00Z'";
const USES: &str = ", clusterDeploymentCustomization: {name: x}";

/// The id of a scenario; objects of which one end of a link is missing or wrong; a part of the
/// warning about each repair; a path, and what it shows after the import.
struct HalfLink(&'static str, String, &'static [&'static str], &'static str, &'static str);

fn half_written_claims() -> Vec<HalfLink> {
    let linked = cluster("c", HELD) + &claim("k", "c");
    let claim_of_cluster = "{.items[*].spec.clusterPoolRef.claimName}";
    let cluster_of_other = "{.items[?(@.metadata.name==\"other\")].spec.namespace}";
    let conflict: &[&str] = &["was claimed by a different ClusterClaim"];
    vec![
        HalfLink(
            "P-36",
            cluster("c", HELD) + &claim("k", ""),
            &["is assigned to it"],
            CLUSTER_OF_CLAIM,
            "c",
        ),
        HalfLink(
            "C-01",
            cluster("c", "") + &claim("k", "c"),
            &["Assigned to claim k"],
            claim_of_cluster,
            "k",
        ),
        HalfLink("C-05", linked.clone() + &claim("other", "c"), conflict, cluster_of_other, ""),
        HalfLink("C-07", claim("k", "gone"), &[], CLUSTER_OF_CLAIM, "gone"),
        HalfLink("whole", linked, &[], CLUSTER_OF_CLAIM, "c"),
    ]
}

/// The customization x, leased to a cluster of pool p.
fn reserved_customization(cluster: &str) -> String {
    let status = format!("clusterDeploymentRef: {{name: {cluster}}}, clusterPoolRef: {{name: p}}");
    customization("x", &status)
}

fn half_written_leases() -> Vec<HalfLink> {
    let without_cluster = customization("x", "clusterPoolRef: {name: p}");
    let free = customization("x", "");
    let taken_again: &[&str] = &["Lease restored for cluster c"];
    let moved: &[&str] = &["cluster d does not use it", "Lease restored for cluster c"];
    let two_clusters = cluster("c", USES) + &cluster("d", "") + &reserved_customization("d");
    vec![
        HalfLink(
            "P-08",
            cluster("c", USES) + &reserved_customization("c"),
            &[],
            CLUSTER_OF_LEASE,
            "c",
        ),
        HalfLink("P-16", cluster("c", USES) + &free, taken_again, CLUSTER_OF_LEASE, "c"),
        HalfLink(
            "P-10",
            without_cluster,
            &["it names pool p and no cluster"],
            CLUSTER_OF_LEASE,
            "",
        ),
        HalfLink(
            "P-20",
            reserved_customization("c"),
            &["there is no cluster c"],
            CLUSTER_OF_LEASE,
            "",
        ),
        HalfLink(
            "unused",
            cluster("c", "") + &reserved_customization("c"),
            &["does not use it"],
            CLUSTER_OF_LEASE,
            "",
        ),
        HalfLink("apart", two_clusters, moved, CLUSTER_OF_LEASE, "c"),
    ]
}

#[test]
fn half_written_links_are_repaired() {
    let half_links = half_written_claims().into_iter().chain(half_written_leases());
    for HalfLink(name, items, repairs, path, expected) in half_links {
        let mut sandbox = Sandbox::new();
        let (state, ran) = import_into_new_state(&sandbox, &format!("{POOL_LIST}{items}"));
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        let warnings: Vec<&str> =
            ran.err.lines().filter(|line| line.starts_with("warning: Cluster")).collect();
        assert_eq!(warnings.len(), repairs.len(), "{name}: {warnings:?}");
        for (repair, warning) in repairs.iter().zip(&warnings) {
            assert!(warning.contains(repair), "{name}: {warnings:?}");
        }
        sandbox.set_variable("POOLCTL_STATE", &state);
        assert_eq!(jsonpath(&sandbox, "claim,cluster,cdc", path).trim(), expected, "{name}");
        let events = sandbox.ok("events -o jsonpath={.items[*].type}");
        assert_eq!(events.split_whitespace().count(), repairs.len(), "{name}: one event each");
        // The pass agrees: nothing is repaired twice.
        sandbox.ok("reconcile");
        let events = sandbox.ok("events");
        let words = ["Repaired", "Dropped", "AssignmentConflict"];
        let repair_events: usize = words.iter().map(|word| events.matches(word).count()).sum();
        assert_eq!(repair_events, repairs.len(), "{name}: {events}");
    }
}

#[test]
fn a_second_holder_is_refused_by_name() {
    // Another object of the same name in DNS.
    let twin = cluster("d", "").replace("clusterName: d", "clusterName: c");
    for (items, message) in [
        (cluster("c", HELD) + &cluster("d", HELD), "`c/c` and `d/d` both hold claim k"),
        (cluster("c", USES) + &cluster("d", USES), "both hold customization x"),
        (cluster("c", "") + &twin, "both hold c.example.com"),
        (
            cluster("c", "") + &cluster("c", "").replace("namespace: c\n", "namespace: d\n"),
            "both hold the name c",
        ),
    ] {
        let sandbox = Sandbox::new();
        let (state, ran) = import_into_new_state(&sandbox, &format!("{POOL_LIST}{items}"));
        assert_eq!(ran.code, 4, "{message}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(message), "{message}: {}", ran.err);
        assert_eq!(sandbox.run(&format!("--state {state} get pool")).code, 3);
    }
}

#[test]
fn only_an_empty_or_equal_state_takes_an_import() {
    let sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    let file = sandbox.write_file("state.yaml", &sandbox.ok("export"));
    assert!(sandbox.ok(&format!("import {file}")).contains("unchanged"));
    sandbox.ok("claim lab ci");
    sandbox.refused(4, &format!("import {file}"), "neither empty nor equal");
}

#[test]
fn an_installation_that_was_running_is_cleaned_up_first() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 1");
    // No folder of a job is moved, so that nobody can say how far the installation came.
    let (state, _) = import_into_new_state(&sandbox, &sandbox.ok("export"));
    sandbox.set_variable("POOLCTL_STATE", &state);
    assert!(sandbox.ok("job list --all").contains("interrupted"));
    sandbox.ok("reconcile");
    assert!(sandbox.ok("job list").contains("deprovision"));
    sandbox.ok("reconcile --wait -q");
    let events = sandbox.ok("events");
    assert!(events.contains("CleanedUp") && events.contains("Installed"), "{events}");
}

#[test]
fn secrets_are_exported_only_on_request_and_only_to_a_file_of_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let mut sandbox = Sandbox::new();
    sandbox.create_ready_pool("lab", 1);
    sandbox.ok("claim lab ci");
    let kubeconfig = std::fs::read_to_string(sandbox.ok("kubeconfig ci").trim()).unwrap();
    let token = kubeconfig.split("fake-").nth(1).unwrap()[..32].to_owned();
    assert!(!sandbox.ok("export").contains(&token));
    // Standard output may be a terminal or a log, which others read.
    assert_eq!(sandbox.run("export --include-secrets").code, 2);
    assert_eq!(sandbox.run("export - --include-secrets").code, 2);
    let path = sandbox.path().join("all.yaml");
    let file = path.display().to_string();
    sandbox.ok(&format!("export {file} --include-secrets"));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (state, ran) = import_into_new_state(&sandbox, &std::fs::read_to_string(&path).unwrap());
    assert!(!ran.err.contains("without values"), "{}", ran.err);
    sandbox.set_variable("POOLCTL_STATE", &state);
    let path = sandbox.ok("kubeconfig ci");
    assert!(std::fs::read_to_string(path.trim()).unwrap().contains(&token));
}

#[test]
fn a_cluster_whose_pool_is_missing_is_installed_again_nevertheless() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake");
    move_state(&mut sandbox, |objects| objects.retain(|object| object["kind"] != "ClusterPool"));
    sandbox.ok("reconcile --wait=1h -q");
    let events = sandbox.ok("events");
    assert!(events.contains("CleanedUp") && events.contains("Installed"), "{events}");
    assert_eq!(sandbox.run("plan").code, 0);
}

#[test]
fn a_history_alone_can_be_moved_and_a_refused_file_leaves_no_state() {
    let sandbox = Sandbox::new();
    sandbox.ok("secret create s --from-file=a=/dev/null");
    sandbox.ok("delete secret s");
    let (state, ran) = import_into_new_state(&sandbox, &sandbox.ok("export"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(sandbox.ok("export"), sandbox.ok(&format!("--state {state} export")));
    let twice = format!("{POOL_LIST}{}{}", claim("k", ""), claim("k", ""));
    let (state, ran) = import_into_new_state(&sandbox, &twice);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(!std::path::Path::new(&state).exists());
}

#[test]
fn a_cluster_that_only_a_finalizer_holds_is_the_same_afterwards() {
    let sandbox = Sandbox::new();
    apply(&sandbox, BY_HAND);
    sandbox.ok("patch cluster c -n mine -p '{metadata: {finalizers: [x.example/y]}}'");
    sandbox.ok("reconcile --wait -q");
    sandbox.ok("delete cluster c -n mine -y");
    sandbox.ok("reconcile --wait -q");
    let before = sandbox.ok("export");
    assert!(before.contains("A finalizer of another program"), "{before}");
    let (state, _) = import_into_new_state(&sandbox, &before);
    assert_eq!(before, sandbox.ok(&format!("--state {state} export")));
}

#[test]
fn a_job_whose_status_was_dropped_was_interrupted() {
    let sandbox = Sandbox::new();
    let job = "apiVersion: poolctl.dev/v1\nkind: Job\n\
               metadata: {name: 00000000-0000-0000-0000-000000000001}\n\
               spec: {verb: provision, cluster: gone, driver: fake, attempt: 1, ordinal: 1}\n";
    let (state, ran) = import_into_new_state(&sandbox, job);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let jobs = sandbox.ok(&format!("--state {state} get job -o yaml"));
    assert!(jobs.contains("outcome: interrupted"), "{jobs}");
}

#[test]
fn addresses_and_hosts_that_went_to_metal3_come_back() {
    let sandbox = Sandbox::new();
    sandbox.ok("apply -f examples/addresses -q");
    sandbox.ok("host import examples/hosts/hosts.csv -q --no-reconcile");
    sandbox.ok("ip claim pool-1 x -q");
    let folder = sandbox.path().join("metal3").display().to_string();
    sandbox.ok(&format!("export {folder} --for metal3"));
    let state = sandbox.path().join("back.db").display().to_string();
    sandbox.ok(&format!("--state {state} import {folder}"));
    let get = "get ipaddress,host,datatemplate -A -o 'jsonpath={range .items[*]}{.kind} \
               {.metadata.name} {.spec.address} {.spec.bootMACAddress}{\"\\n\"}{end}'";
    let before = sandbox.ok(get);
    assert!(before.lines().count() > 6, "{before}");
    assert_eq!(sandbox.ok(&format!("--state {state} {get}")), before);
    // Whoever has an address keeps it, under a name that Kubernetes accepts.
    let claims = "get ipclaim -A -o 'jsonpath={.items[*].metadata.name}'";
    let claims_before = sandbox.ok(claims).to_lowercase();
    assert_eq!(sandbox.ok(&format!("--state {state} {claims}")), claims_before);
}

#[test]
fn schedules_go_to_a_hive_as_cron_jobs() {
    let sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 0");
    sandbox.ok("pool create other --fake --size 0");
    sandbox.ok(
        "patch pool lab -p '{metadata: {annotations: {poolctl.dev/schedule: \"TZ=Europe/Berlin; \
         0 6 * * mon-fri size=5; 0 20 * * * size=0 runningCount=0\"}}}'",
    );
    let folder = sandbox.path().join("hive");
    sandbox.ok(&format!("export {} --for hive", folder.display()));
    let file = std::fs::read_to_string(folder.join("schedules/cronjobs.yaml")).unwrap();
    let list = poolctl::yaml::parse_value(&file).unwrap();
    let objects = list["items"].as_array().unwrap();
    let kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ServiceAccount", "Role", "RoleBinding", "CronJob", "CronJob"]);
    for (job, name, schedule, patch) in [
        (&objects[3], "lab-1", "0 6 * * mon-fri", r#"{"spec":{"size":5}}"#),
        (&objects[4], "lab-2", "0 20 * * *", r#"{"spec":{"runningCount":0,"size":0}}"#),
    ] {
        assert_eq!(job["metadata"]["name"], name);
        assert_eq!(job["spec"]["schedule"], schedule);
        assert_eq!(job["spec"]["timeZone"], "Europe/Berlin");
        let pod = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"];
        let words = pod["containers"][0]["command"].as_array().unwrap();
        assert_eq!(words[3], "lab");
        let written: Value = serde_json::from_str(words[6].as_str().unwrap()).unwrap();
        assert_eq!(written, serde_json::from_str::<Value>(patch).unwrap());
    }
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(readme.contains("oc apply -f schedules/cronjobs.yaml"), "{readme}");
    let script = std::fs::read_to_string(folder.join("apply.sh")).unwrap();
    assert!(!script.contains("cronjobs"), "{script}");
    // The way back reads the files of apply.sh alone.
    let state = sandbox.path().join("back.db").display().to_string();
    sandbox.ok(&format!("--state {state} import {}", folder.display()));
}
