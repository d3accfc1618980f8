//! What belongs to no pool: leases of addresses that end, clusters that were applied by hand, and what
//! follows the cluster of a pool: an IPPool that names it, an InfraEnv whose hosts join it, an Agent
//! that was bound to it. A pass that plans a pool alone does not see them; the next one has to.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, condition_field, jsonpath};

/// A pool with one cluster that is installed, and the name of that cluster.
fn lab_with_cluster() -> (Sandbox, String) {
    let mut sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake -q");
    pass_at(&mut sandbox, "13:00");
    let cluster = sandbox.ok("get cluster -o 'jsonpath={.items[0].metadata.name}'");
    (sandbox, cluster)
}

/// Runs a pass at this time of the day. A dev build asserts that a pass over everything would find
/// nothing else to do.
fn pass_at(sandbox: &mut Sandbox, time: &str) {
    sandbox.set_variable("POOLCTL_NOW", &format!("2026-03-02T{time}:00Z"));
    sandbox.ok("reconcile -q");
}

/// No row says that the next pass has to look at everything, now or later.
fn assert_nothing_concerns_everything(sandbox: &Sandbox) {
    let connection = rusqlite::Connection::open(sandbox.state()).unwrap();
    let sql = "SELECT count(*) FROM due_scope \
               WHERE pool = '' AND (dirty OR polled OR due IS NOT NULL)";
    let rows: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 0);
}

/// Deletes a cluster, and runs the passes that remove it.
fn remove(sandbox: &mut Sandbox, cluster: &str) {
    sandbox.ok(&format!("delete cd {cluster} -y -q"));
    for time in ["15:00", "15:01", "15:02"] {
        pass_at(sandbox, time);
    }
    assert!(!sandbox.ok("get cluster -o name").contains(cluster));
}

/// An IPPool that names a paused cluster, and a claim that waits for one of its addresses.
fn claim_from_paused_cluster(sandbox: &Sandbox, cluster: &str) {
    let pool = POOL_OF_CLUSTER.replace("CLUSTER", cluster);
    let file = sandbox.write_file("pool.yaml", &pool);
    sandbox.ok(&format!("apply -qf {file}"));
    sandbox.ok(&format!("annotate cd {cluster} cluster.x-k8s.io/paused=true -q"));
    let file = sandbox.write_file("claim.yaml", CLAIM);
    sandbox.ok(&format!("apply -qf {file}"));
    sandbox.ok("reconcile -q");
    assert_eq!(address_of_claim(sandbox), "");
}

fn address_of_claim(sandbox: &Sandbox) -> String {
    jsonpath(sandbox, "ipclaim/waits", "{.status.address.name}")
}

const POOL_OF_CLUSTER: &str = "apiVersion: ipam.metal3.io/v1alpha1
kind: IPPool
metadata: {name: lan}
spec:
  clusterName: CLUSTER
  namePrefix: lan
  prefix: 24
  pools: [{start: 10.0.0.1, end: 10.0.0.9}]
";

const CLAIM: &str = "apiVersion: ipam.metal3.io/v1alpha1
kind: IPClaim
metadata: {name: waits}
spec: {pool: {name: lan}}
";

#[test]
fn a_claim_of_a_pool_that_is_paused_with_its_cluster_goes_on_when_the_cluster_is_removed() {
    let (mut sandbox, cluster) = lab_with_cluster();
    sandbox.ok(&format!("delete cd {cluster} -y -q"));
    claim_from_paused_cluster(&sandbox, &cluster);
    for time in ["15:00", "15:01"] {
        pass_at(&mut sandbox, time);
    }
    assert!(address_of_claim(&sandbox).starts_with("lan-"));
}

#[test]
fn a_claim_of_a_pool_that_is_paused_with_its_cluster_goes_on_when_the_cluster_does() {
    let (sandbox, cluster) = lab_with_cluster();
    claim_from_paused_cluster(&sandbox, &cluster);
    sandbox.ok(&format!("annotate cd {cluster} cluster.x-k8s.io/paused- -q"));
    sandbox.ok("reconcile -q");
    assert!(address_of_claim(&sandbox).starts_with("lan-"));
}

#[test]
fn an_infra_env_is_told_that_its_cluster_is_gone() {
    let (mut sandbox, cluster) = lab_with_cluster();
    sandbox.ok("apply -qf examples/agents/rack.yaml");
    let manifest = sandbox.ok("get infraenv rack -o json");
    let mut infra_env: Value = serde_json::from_str(&manifest).unwrap();
    infra_env["spec"]["clusterRef"] = json!({"name": cluster, "namespace": "default"});
    infra_env["metadata"] = json!({"name": "bound"});
    let file = sandbox.write_file("bound.json", &infra_env.to_string());
    sandbox.ok(&format!("apply -qf {file}"));
    sandbox.ok("reconcile -q");
    remove(&mut sandbox, &cluster);
    let reason = condition_field(&sandbox, "infraenv/bound", "ImageCreated", "reason");
    assert_eq!(reason, "MissingClusterDeployment");
}

/// An Agent of this name that is approved and has reported.
fn add_agent(sandbox: &Sandbox, name: &str) {
    sandbox.ok("apply -qf examples/agents/rack.yaml");
    sandbox.ok(&format!("agent register --infraenv rack --id {name} -q"));
    let report = "--inventory examples/agents/reports/node-1.json";
    sandbox.ok(&format!("agent report {name} {report} -q"));
    sandbox.ok(&format!("agent approve {name} -q"));
}

#[test]
fn a_host_that_joined_the_cluster_of_a_pool_leaves_it_when_it_is_removed() {
    let (mut sandbox, cluster) = lab_with_cluster();
    add_agent(&sandbox, "node-1");
    sandbox.ok(&format!("agent bind node-1 --cluster {cluster} -q"));
    sandbox.ok("reconcile -q");
    sandbox.ok(&format!("delete cd {cluster} -y -q"));
    for time in ["15:00", "15:01", "15:02", "15:03"] {
        sandbox.set_variable("POOLCTL_NOW", &format!("2026-03-02T{time}:00Z"));
        sandbox.ok("agent check-in node-1");
        sandbox.ok("reconcile -q");
    }
    assert!(!sandbox.ok("get cluster -o name").contains(&cluster));
    sandbox.ok("doctor");
}

#[test]
fn a_host_that_is_to_join_the_cluster_of_a_pool_does_when_it_is_installed() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --fake-install-duration 10m -q");
    sandbox.ok("reconcile -q");
    let cluster = sandbox.ok("get cluster -o 'jsonpath={.items[0].metadata.name}'");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:09:00Z");
    add_agent(&sandbox, "node-1");
    sandbox.ok(&format!("agent bind node-1 --cluster {cluster} --when-ready -q"));
    sandbox.ok("reconcile -q");
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:10:30Z");
    sandbox.ok("agent check-in node-1");
    sandbox.ok("reconcile -q");
    assert_eq!(jsonpath(&sandbox, "agent/node-1", "{.status.debugInfo.state}"), "binding");
}

/// Of two clusters that were made at the same time the first one runs. An IPPool that names the other
/// one had that loaded first, and so the pool stopped the one and started the other in each pass.
#[test]
fn the_cluster_that_runs_stays_the_same_whatever_is_loaded_first() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake --size 2 --running-count 1 -q");
    for time in ["13:00", "13:01", "13:02"] {
        pass_at(&mut sandbox, time);
    }
    let before = powers(&sandbox);
    let sleeping = before.lines().find(|line| line.ends_with("Hibernating")).unwrap();
    let cluster = sleeping.split_whitespace().next().unwrap();
    claim_from_paused_cluster(&sandbox, cluster);
    sandbox.ok("annotate ippool lan changed=yes -q");
    pass_at(&mut sandbox, "13:03");
    assert_eq!(powers(&sandbox), before);
}

/// A line for each cluster: its name and its power.
fn powers(sandbox: &Sandbox) -> String {
    let columns = "custom-columns=N:.metadata.name,P:.status.powerState";
    sandbox.ok(&format!("get cluster --no-headers -o {columns}"))
}

/// A claim that comes with its IPPool is answered at once, and must not be while the cluster that the
/// pool names is paused.
#[test]
fn a_claim_that_comes_with_its_paused_pool_waits() {
    let (sandbox, cluster) = lab_with_cluster();
    sandbox.ok(&format!("annotate cd {cluster} cluster.x-k8s.io/paused=true -q"));
    let pool = POOL_OF_CLUSTER.replace("CLUSTER", &cluster);
    let file = sandbox.write_file("both.yaml", &format!("{pool}---\n{CLAIM}"));
    sandbox.ok(&format!("apply -qf {file}"));
    assert_eq!(address_of_claim(&sandbox), "");
}

/// Other claims load the IPPool without the leases that end by themselves.
#[test]
fn a_lease_ends_in_time_and_gives_its_address_to_the_claim_that_waits() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("ippool create lan --range 10.0.0.1-10.0.0.2 -q");
    pass_at(&mut sandbox, "13:00");
    sandbox.ok("ip claim lan first --for 1h -q");
    sandbox.ok("ip claim lan second -q");
    for name in ["sooner", "waits"] {
        let file = sandbox.write_file("claim.yaml", &CLAIM.replace("waits", name));
        sandbox.ok(&format!("apply -qf {file}"));
    }
    sandbox.ok("ip release second -q");
    pass_at(&mut sandbox, "13:59");
    assert_ne!(jsonpath(&sandbox, "ipclaim/sooner", "{.status.address.name}"), "");
    assert_eq!(address_of_claim(&sandbox), "");
    assert_nothing_concerns_everything(&sandbox);
    pass_at(&mut sandbox, "14:00");
    assert_ne!(address_of_claim(&sandbox), "");
}

/// Each pass asks for its job, and a pass that looks at it alone ends the job, as one over everything
/// would.
#[test]
fn a_cluster_without_a_pool_is_installed_and_removed_beside_pools() {
    let mut sandbox = Sandbox::new();
    sandbox.ok("pool create lab --fake -q");
    pass_at(&mut sandbox, "13:00");
    let file = sandbox.write_file("alone.yaml", CLUSTER);
    sandbox.ok(&format!("apply -qf {file}"));
    pass_at(&mut sandbox, "13:01");
    assert_eq!(jsonpath(&sandbox, "cd/alone", "{.spec.installed}"), "");
    assert_nothing_concerns_everything(&sandbox);
    pass_at(&mut sandbox, "14:00");
    assert_eq!(jsonpath(&sandbox, "cd/alone", "{.spec.installed}"), "true");
    remove(&mut sandbox, "alone");
}

const CLUSTER: &str = "apiVersion: v1
kind: Secret
metadata: {name: config}
stringData: {install-config.yaml: '{}'}
---
apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata:
  name: alone
  annotations: {hive.openshift.io/fake-cluster: 'true', poolctl.dev/fake-install-duration: 30m}
spec:
  baseDomain: lab.test
  clusterName: alone
  platform: {openstack: {cloud: lab, credentialsSecretRef: {name: config}}}
  provisioning: {imageSetRef: {name: simulated}, installConfigSecretRef: {name: config}}
";

/// An address is leased once for a namespace, so the claim of the other IPPool could not have it.
#[test]
fn an_address_that_is_given_back_goes_to_a_claim_of_an_overlapping_pool() {
    let mut sandbox = Sandbox::new();
    for name in ["lax", "lan"] {
        let pool = POOL_OF_CLUSTER.replace("  clusterName: CLUSTER\n", "").replace("0.9}", "0.1}");
        let annotations =
            format!("{{name: {name}, annotations: {{poolctl.dev/allow-overlap: 'true'}}}}");
        let file = sandbox.write_file("pool.yaml", &pool.replace("{name: lan}", &annotations));
        sandbox.ok(&format!("apply -qf {file}"));
    }
    sandbox.ok("ip claim lax first -q");
    let file = sandbox.write_file("claim.yaml", CLAIM);
    sandbox.ok(&format!("apply -qf {file}"));
    pass_at(&mut sandbox, "13:00");
    assert_eq!(address_of_claim(&sandbox), "");
    sandbox.ok("ip release first -q");
    assert_nothing_concerns_everything(&sandbox);
    pass_at(&mut sandbox, "13:01");
    assert_eq!(address_of_claim(&sandbox), "lan-10-0-0-1");
}

/// Neither of these IPPools exists. A pass over everything sees their claims, too.
#[test]
fn a_claim_that_waits_in_vain_ends_when_its_time_is_over() {
    for first_pass in ["reconcile -q", "reconcile --all -q"] {
        let mut sandbox = Sandbox::new();
        for pool in ["{name: nosuch}", "{name: lan, namespace: elsewhere}"] {
            let metadata = format!(
                "{{name: waits-{}, annotations: {{poolctl.dev/until: '2026-03-02T14:00:00Z'}}}}",
                pool.len()
            );
            let claim = CLAIM.replace("{name: waits}", &metadata).replace("{name: lan}", pool);
            let file = sandbox.write_file("claim.yaml", &claim);
            sandbox.ok(&format!("apply -qf {file}"));
        }
        sandbox.ok(first_pass);
        pass_at(&mut sandbox, "13:59");
        assert_eq!(sandbox.ok("get ipclaim -o name").lines().count(), 2, "{first_pass}");
        pass_at(&mut sandbox, "14:00");
        assert_eq!(sandbox.ok("get ipclaim -o name"), "", "{first_pass}");
    }
}
