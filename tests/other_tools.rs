//! `import --from`: clusters that kcli has made, and tables with a line for each cluster slot.

use std::path::Path;

use crate::sandbox::{Sandbox, jsonpath};

/// Writes the folder of a cluster as kcli leaves it.
fn write_cluster(sandbox: &Sandbox, name: &str, parameters: &str, server: Option<&str>) {
    let folder = sandbox.path().join("kcli/clusters").join(name);
    std::fs::create_dir_all(folder.join("auth")).unwrap();
    std::fs::write(folder.join("kcli_parameters.yml"), parameters).unwrap();
    let Some(server) = server else { return };
    let kubeconfig = format!("clusters: [{{name: {name}, cluster: {{server: '{server}'}}}}]\n");
    std::fs::write(folder.join("auth/kubeconfig"), kubeconfig).unwrap();
    std::fs::write(folder.join("auth/kubeadmin-password"), "Abcde-12345\n").unwrap();
}

/// A folder of kcli with two clusters of OpenShift, one of k3s, and one that was never installed.
fn write_lab(sandbox: &Sandbox) -> String {
    let alpha = "cluster: alpha\nkubetype: openshift\nplan: alpha\nctlplanes: 3\n";
    write_cluster(sandbox, "alpha", alpha, Some("https://api.alpha.lab.example.com:6443"));
    let beta = "cluster: beta\nkubetype: openshift\nplan: two\ndomain: other.example.com\n";
    write_cluster(sandbox, "beta", beta, Some("https://192.0.2.5:6443"));
    let edge = "cluster: edge\nkubetype: k3s\n";
    write_cluster(sandbox, "edge", edge, Some("https://192.0.2.6:6443"));
    write_cluster(sandbox, "half", "cluster: half\nkubetype: openshift\n", None);
    let metadata = r#"{"clusterName": "alpha", "clusterID": "d-1", "infraID": "alpha-x7k2p"}"#;
    sandbox.write_file("kcli/clusters/alpha/metadata.json", metadata);
    sandbox.path().join("kcli").display().to_string()
}

/// Whether a pass would make or destroy anything.
fn assert_nothing_is_made_or_destroyed(sandbox: &Sandbox) {
    let plan = sandbox.run("plan").out;
    for sign in ["+ cluster/", "- cluster/", "deletionTimestamp", "+ job"] {
        assert!(!plan.contains(sign), "{sign}: {plan}");
    }
}

#[test]
fn clusters_of_kcli_are_adopted_and_their_machines_stay() {
    let sandbox = Sandbox::new();
    let folder = write_lab(&sandbox);
    let checked = sandbox.run(&format!("import {folder} --from kcli --check"));
    assert_eq!(checked.code, 0, "{}", checked.err);
    for line in ["cluster/alpha adopted without a pool (check)", "cluster/beta adopted"] {
        assert!(checked.out.contains(line), "{line}: {}", checked.out);
    }
    for line in [
        "cluster edge is left out: its type is k3s",
        "cluster half is left out: it has no auth/kubeconfig",
    ] {
        assert!(checked.err.contains(line), "{line}: {}", checked.err);
    }
    assert!(!sandbox.state().exists());
    let imported = sandbox.run(&format!("import {folder} --from kcli"));
    assert_eq!(imported.code, 0, "{}", imported.err);
    assert!(imported.err.contains("`kcli delete cluster`"), "{}", imported.err);
    let facts = jsonpath(
        &sandbox,
        "cluster/alpha",
        "{.spec.baseDomain} {.spec.installed} {.spec.preserveOnDelete} {.spec.clusterMetadata.infraID}",
    );
    assert_eq!(facts, "lab.example.com true true alpha-x7k2p");
    assert_eq!(jsonpath(&sandbox, "cluster/beta", "{.spec.baseDomain}"), "other.example.com");
    let kubeconfig = sandbox.ok("extract secret/alpha-admin-kubeconfig -n alpha --to=-");
    assert!(kubeconfig.contains("api.alpha.lab.example.com"), "{kubeconfig}");
    assert_nothing_is_made_or_destroyed(&sandbox);
    // A second import finds the same, also from the folder of a cluster.
    for path in [folder.clone(), format!("{folder}/clusters"), format!("{folder}/clusters/alpha")] {
        let again = sandbox.ok(&format!("import {path} --from kcli"));
        assert!(again.contains("cluster/alpha unchanged"), "{again}");
        assert!(!again.contains("adopted"), "{again}");
    }
    // Only the object goes: nothing of poolctl destroys the machines.
    sandbox.ok("delete cluster alpha -n alpha -y");
    assert_eq!(sandbox.ok("get cluster -A -o name"), "cluster/beta\n");
    assert!(Path::new(&folder).join("clusters/alpha/auth/kubeconfig").exists());
}

#[test]
fn clusters_of_kcli_that_somebody_uses_are_claimed_in_a_pool() {
    let sandbox = Sandbox::new();
    let folder = write_lab(&sandbox);
    sandbox.refused(3, &format!("import {folder} --from kcli --pool lab"), "no pool `lab`");
    sandbox.ok("pool create lab --fake --size 0");
    let imported = sandbox.ok(&format!("import {folder} --from kcli --pool lab"));
    for line in ["cluster/alpha adopted in pool lab, claimed", "claim/alpha created"] {
        assert!(imported.contains(line), "{line}: {imported}");
    }
    assert_nothing_is_made_or_destroyed(&sandbox);
    sandbox.ok("reconcile -q");
    assert_eq!(jsonpath(&sandbox, "claim/beta", "{.spec.namespace}"), "beta");
    assert_eq!(jsonpath(&sandbox, "pool/lab", "{.status.claimed} {.status.stale}"), "2 0");
    sandbox.ok("release alpha -y");
    sandbox.ok("reconcile -q");
    assert_eq!(sandbox.ok("get cluster -A -o name"), "cluster/beta\n");
}

#[test]
fn clusters_of_kcli_that_nobody_uses_are_given_to_the_next_claims() {
    let sandbox = Sandbox::new();
    let folder = write_lab(&sandbox);
    sandbox.ok("pool create lab --fake --size 0");
    let import = format!("import {folder} --from kcli --pool lab --idle");
    // A pool that keeps fewer would delete the others.
    let refused = sandbox.refused(4, &import, "pool `lab` would have 2 idle clusters, and keeps 0");
    assert!(refused.contains("next: poolctl pool scale lab --size 2"), "{refused}");
    sandbox.ok("pool scale lab --size 2 --no-reconcile");
    sandbox.ok(&import);
    assert_nothing_is_made_or_destroyed(&sandbox);
    sandbox.ok("pool scale lab --size 1 --no-reconcile");
    sandbox.ok("claim lab ci");
    let cluster = jsonpath(&sandbox, "claim/ci", "{.spec.namespace}");
    assert!(["alpha", "beta"].contains(&cluster.as_str()), "{cluster}");
}

#[test]
fn clusters_of_kcli_that_belong_to_no_pool_are_not_said_to_be_in_one() {
    let sandbox = Sandbox::new();
    let folder = write_lab(&sandbox);
    sandbox.ok("pool create demo --fake --size 0");
    sandbox.ok(&format!("import {folder} --from kcli"));
    let import = format!("import {folder} --from kcli --pool demo");
    let refused = sandbox.refused(4, &import, "`alpha` is there already, and does not move");
    assert!(refused.contains("poolctl delete cluster alpha -n alpha"), "{refused}");
    assert_eq!(sandbox.ok("get claim -A -o name"), "");
}

#[test]
fn what_kcli_does_not_have_is_refused() {
    let sandbox = Sandbox::new();
    let folder = write_lab(&sandbox);
    for (line, code, message) in [
        (format!("import {folder}/clusters/alpha/auth --from kcli"), 1, "has no clusters of kcli"),
        (format!("import {folder}/nothing --from kcli"), 3, "cannot be read"),
        (format!("import {folder}/clusters/edge --from kcli"), 1, "there is no cluster to adopt"),
        (format!("import {folder} --from kcli --current"), 2, "cannot be used with"),
        (format!("import {folder} --from kind"), 2, "possible values: kcli, csv"),
        (format!("import {folder} --idle"), 2, "--pool"),
    ] {
        let ran = sandbox.run(&line);
        assert!(ran.err.contains(message), "{line}: {}", ran.err);
        assert_eq!(ran.code, code, "{line}: {}", ran.err);
    }
    // Another cluster of the name is no reason to overwrite anything.
    let other = "cluster: alpha\nkubetype: openshift\ndomain: elsewhere.example.com\n";
    sandbox.ok(&format!("import {folder} --from kcli"));
    write_cluster(&sandbox, "alpha", other, Some("https://api.alpha.elsewhere.example.com:6443"));
    let import = format!("import {folder} --from kcli");
    sandbox.refused(4, &import, "there is another cluster `alpha` already");
    assert_eq!(jsonpath(&sandbox, "cluster/alpha", "{.spec.baseDomain}"), "lab.example.com");
}

/// Two slots with addresses, of which one has two hosts.
const SLOTS: &str = "\
# The second line has no hosts.
name,apiVIP,ingressVIP,hosts,secret,labels
bar,192.0.2.20,192.0.2.21,bar-1 52:54:00:00:00:21 redfish://192.0.2.121/redfish/v1/Systems/1; bar-2 52:54:00:00:00:22 ipmi://192.0.2.122,bmc,rack=7
baz,10.9.0.5,10.9.0.6
";

const MACHINES: &str = "apiVersion: ipam.metal3.io/v1alpha1
kind: IPPool
metadata: {name: machines}
spec: {pools: [{start: 192.0.2.10, end: 192.0.2.99}], prefix: 24, gateway: 192.0.2.1}
";

fn sandbox_with_pool() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("apply --no-reconcile -f examples/inventory -q");
    crate::sandbox::apply(&sandbox, MACHINES);
    sandbox
}

#[test]
fn a_line_of_a_table_is_a_slot_with_its_addresses_and_hosts() {
    let sandbox = sandbox_with_pool();
    let file = sandbox.write_file("slots.csv", SLOTS);
    let before = sandbox.all_objects();
    let import = format!("import {file} --from csv --pool vsphere --no-reconcile");
    let checked = sandbox.ok(&format!("{import} --check"));
    let lines = [
        "host/bar-1 created",
        "host/bar-2 created",
        "ipclaim/bar-api created",
        "ipclaim/bar-ingress created",
        "clusterpool/vsphere has 2 slots more",
    ];
    for line in lines {
        assert!(checked.contains(&format!("{line} (check)")), "{line}: {checked}");
    }
    assert_eq!(sandbox.all_objects(), before);
    let imported = sandbox.ok(&import);
    for line in lines {
        assert!(imported.contains(line), "{line}: {imported}");
    }
    let inventory = jsonpath(&sandbox, "pool/vsphere", "{.spec.inventory[*].name}");
    assert_eq!(inventory, "foo-cluster-deployment-customization bar baz");
    let rendered = sandbox.ok("pool render vsphere --customization bar");
    for line in ["name: bar", "192.0.2.20", "192.0.2.21"] {
        assert!(rendered.contains(line), "{line}: {rendered}");
    }
    let host = "{.spec.bmc.credentialsName} {.metadata.labels.rack} {.spec.online}";
    assert_eq!(jsonpath(&sandbox, "host/bar-2", host), "bmc 7 false");
    // No IPPool has the addresses of the other slot.
    assert_eq!(sandbox.ok("get ipclaim -o name").lines().count(), 2);
    let again = sandbox.ok(&import);
    assert!(again.contains("clusterpool/vsphere has 0 slots more"), "{again}");
    assert!(!again.contains("created") && !again.contains("configured"), "{again}");
}

#[test]
fn addresses_of_slots_are_leased_to_nobody_else() {
    let sandbox = sandbox_with_pool();
    let table = "name,apiVIP,ingressVIP\nbar,192.0.2.20,192.0.2.21\n";
    let import = |name: &str, table: &str| {
        let file = sandbox.write_file(name, table);
        format!("import {file} --from csv --pool vsphere")
    };
    sandbox.ok(&import("slots.csv", table));
    sandbox.ok("reconcile -q --wait");
    let addresses = jsonpath(&sandbox, "ipaddress", "{.items[*].spec.address}");
    assert_eq!(addresses, "192.0.2.20 192.0.2.21");
    sandbox.ok(&import("slots.csv", table));
    let other = "name,apiVIP,ingressVIP\nqux,192.0.2.20,192.0.2.30\n";
    let problem = "line 2: 192.0.2.20 belongs to IPClaim bar-api";
    sandbox.refused(1, &import("other.csv", other), problem);
    let gateway = "name,apiVIP\nqux,192.0.2.1\n";
    // A gateway outside of the range is in no IPPool's gift.
    sandbox.ok(&format!("{} --check", import("gateway.csv", gateway)));
}

#[test]
fn a_slot_gets_no_name_and_no_address_that_another_customization_has() {
    let sandbox = sandbox_with_pool();
    let holder = "customization foo-cluster-deployment-customization";
    for (row, problem) in [
        ("zz,10.0.0.10,10.0.0.12", format!("line 2: 10.0.0.10 belongs to {holder}")),
        ("zz,10.0.0.12,10.0.0.11", format!("line 2: 10.0.0.11 belongs to {holder}")),
        ("foo,10.0.0.12,10.0.0.13", format!("line 2: name foo belongs to {holder}")),
    ] {
        let table = format!("name,apiVIP,ingressVIP\n{row}\n");
        let file = sandbox.write_file("slots.csv", &table);
        sandbox.refused(1, &format!("import {file} --from csv --pool vsphere"), &problem);
    }
    // A customization that is applied by hand may give the address all the same: one cluster has it.
    crate::sandbox::apply(
        &sandbox,
        "apiVersion: hive.openshift.io/v1
kind: ClusterDeploymentCustomization
metadata: {name: zz}
spec:
  installConfigPatches:
    - {op: replace, path: /metadata/name, value: zz}
    - {op: add, path: /platform/vsphere/apiVIPs, value: [10.0.0.10]}
",
    );
    let inventory = "[{name: foo-cluster-deployment-customization}, {name: zz}]";
    sandbox.ok(&format!(
        "patch pool vsphere -p '{{spec: {{size: 2, runningCount: 2, inventory: {inventory}}}}}'"
    ));
    crate::sandbox::assert_settled(&sandbox);
    assert_eq!(jsonpath(&sandbox, "cluster", "{.items[*].spec.clusterName}"), "foo");
    let entry = "{.status.inventory.zz.status}: {.status.inventory.zz.message}";
    let taken = "Unavailable: The address is taken: 10.0.0.10 belongs to cluster vsphere-";
    let entry = jsonpath(&sandbox, "pool/vsphere", entry);
    assert!(entry.starts_with(taken), "{entry}");
}

#[test]
fn tables_are_read_as_spreadsheets_write_them() {
    let sandbox = sandbox_with_pool();
    for (name, table) in [
        ("one", "\u{feff}Name,API VIP,Ingress_VIP\r\none,10.9.0.1,10.9.0.2\r\n"),
        ("two", "name;apiVIP;hosts\ntwo;10.9.0.3;\"a\nb\"\n"),
        ("three", "\"name\",\"ingressVIP\"\n\"three\",\"10.9.0.4 2001:db8::4\"\n"),
    ] {
        let file = sandbox.write_file("slots.csv", table);
        let ran = sandbox.run(&format!("import {file} --from csv --pool vsphere --check"));
        if name == "two" {
            // Its hosts are not there, which is how one sees that both were read.
            assert!(ran.err.contains("`a`") && ran.err.contains("`b`"), "{}", ran.err);
        } else {
            assert_eq!(ran.code, 0, "{name}: {}", ran.err);
            assert!(ran.out.contains(&format!("/{name} created (check)")), "{}", ran.out);
        }
    }
}

#[test]
fn every_problem_of_a_table_is_told_at_once() {
    let sandbox = sandbox_with_pool();
    let before = sandbox.all_objects();
    for (table, problem) in [
        ("nam,apiVIP\nbar,192.0.2.20\n", "no column `nam`; did you mean `name`?"),
        ("apiVIP\n192.0.2.20\n", "column `name` is missing"),
        ("name\n", "there are no lines after the header"),
        ("name\nBar\n", "line 2: `Bar` is not usable as the name of a cluster"),
        ("name,apiVIP\nbar,192.0.2\n", "line 2: apiVIP: "),
        ("name,apiVIP\nbar,192.0.2.20 192.0.2.21\n", "a second one of its family"),
        ("name\nbar\nbar\n", "line 3: name bar is in the table twice"),
        ("name,apiVIP\nbar,192.0.2.20\nbaz,192.0.2.20\n", "address 192.0.2.20 is in the table"),
        ("name,hosts\nbar,a b\n", "hosts: `a b` is not NAME, or NAME MAC CONTROLLER"),
        ("name,hosts\nbar,a 52:54:00:00:00:01 ipmi://192.0.2.1\n", "column `secret` names no"),
        ("name,hosts\nbar,absent\n", "there is no host `absent`"),
        ("name,labels\nbar,rack\n", "labels: `rack` is not KEY=VALUE"),
        ("name\nbar,192.0.2.20\n", "line 2: it has 2 fields, for 1"),
    ] {
        let file = sandbox.write_file("slots.csv", table);
        let ran = sandbox.run(&format!("import {file} --from csv --pool vsphere"));
        assert!(ran.code == 1 || ran.code == 3, "{table}: {}{}", ran.code, ran.err);
        assert!(ran.err.contains(problem), "{problem}: {}", ran.err);
    }
    let file = sandbox.write_file("slots.csv", "name,apiVIP\nBar,x\nbaz,y\n");
    let ran = sandbox.run(&format!("import {file} --from csv --pool vsphere"));
    assert!(ran.err.contains("nothing is imported, problems: 3"), "{}", ran.err);
    // Problems come in the order of the lines, whatever is looked at first.
    let table = "name,apiVIP\nbaz,192.0.2.20\nbaz,192.0.2.21\nBar,192.0.2.22\n";
    let file = sandbox.write_file("slots.csv", table);
    let ran = sandbox.run(&format!("import {file} --from csv --pool vsphere"));
    let third = ran.err.find("line 3: name baz is in the table twice");
    let fourth = ran.err.find("line 4: `Bar` is not usable");
    assert!(third.is_some() && third < fourth, "{}", ran.err);
    sandbox.refused(2, &format!("import {file} --from csv"), "--pool POOL");
    assert_eq!(sandbox.all_objects(), before);
    // A platform that gives its addresses itself takes none of a table.
    sandbox.ok("pool create lab --fake --size 0");
    let file = sandbox.write_file("slots.csv", "name,apiVIP\nbar,192.0.2.20\n");
    sandbox.refused(1, &format!("import {file} --from csv --pool lab"), "takes no apiVIP");
}
