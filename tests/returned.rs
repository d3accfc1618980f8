//! Hosts on their way back: held, left running in their cluster, without a controller, overdue; each
//! with its next step named wherever people look.

use serde_json::{Value, json};

use crate::metal::{boot_host_as, boot_hosts, reconcile_whole, sandbox_with_rack};
use crate::migrations::earlier;
use crate::once::{assert_bound_once, assert_clusters_are_whole, only_cluster};
use crate::rack::state_of;
use crate::sandbox::{Sandbox, apply, jsonpath, move_state};

/// A host that has no controller, but a BareMetalHost.
fn bare_metal_host(sandbox: &Sandbox, number: usize) {
    let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": format!("n{number}"),
            "labels": {"infraenvs.agent-install.openshift.io": "rack"}},
        "spec": {"online": true, "bootMACAddress": format!("02:00:00:00:00:{number:02}")}});
    apply(sandbox, &host.to_string());
}

/// A cluster that is installed on h1 to h3, of which the third has a BareMetalHost.
fn installed() -> (Sandbox, String) {
    let sandbox = sandbox_with_rack();
    bare_metal_host(&sandbox, 3);
    boot_hosts(&sandbox, &[1, 2, 3]);
    reconcile_whole(&sandbox);
    // They come back for their cluster.
    boot_hosts(&sandbox, &[1, 2, 3]);
    sandbox.ok("reconcile --wait=1h -q");
    assert_clusters_are_whole(&sandbox, 3, 5);
    let name = only_cluster(&sandbox);
    assert_eq!(state_of(&sandbox, "h1"), "installed");
    (sandbox, name)
}

/// They went to the next cluster, and nobody was told.
#[test]
fn hosts_that_came_back_when_nothing_could_wipe_them_are_named() {
    let mut sandbox = sandbox_with_rack();
    bare_metal_host(&sandbox, 3);
    assert!(!sandbox.status().contains("not wiped"), "{}", sandbox.status());
    move_state(&mut sandbox, |objects| {
        let host = objects.iter_mut().find(|object| object["kind"] == "BareMetalHost").unwrap();
        host["status"]["unwipedFrom"] = "gone".into();
    });
    let status = sandbox.status();
    assert!(status.contains("1 host of InfraEnv `rack` is free and not wiped"), "{status}");
    sandbox.ok("annotate host/n3 poolctl.dev/wipe=none -q");
    assert!(!sandbox.status().contains("not wiped"), "{}", sandbox.status());
}

/// The cluster is claimed and released, and gone.
fn released(sandbox: &Sandbox) {
    sandbox.ok("claim metal ci -q");
    sandbox.ok("release ci -y -q");
    sandbox.ok("reconcile --wait=1h -q");
    assert_eq!(only_cluster(sandbox), "");
}

fn next_of(sandbox: &Sandbox, what: &str) -> String {
    let (kind, name) = what.split_once('/').unwrap();
    let described = sandbox.ok(&format!("describe {kind} {name}"));
    let why = sandbox.ok(&format!("why {what}"));
    // A description breaks long lines.
    let [next, next_in_why] = [described, why].map(|shown| {
        let (_, next) = shown.rsplit_once("\nNext: ").unwrap();
        next.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    assert_eq!(next, next_in_why, "{what}");
    next
}

#[test]
fn a_held_host_is_in_no_pick_and_says_how_it_is_let_go() {
    let sandbox = sandbox_with_rack();
    bare_metal_host(&sandbox, 3);
    boot_hosts(&sandbox, &[1, 2, 3]);
    sandbox.ok("host hold n3 --reason 'broken fan' -q");
    reconcile_whole(&sandbox);
    assert_eq!(only_cluster(&sandbox), "");
    assert_eq!(next_of(&sandbox, "agent/h3"), "poolctl host unhold n3");
    let why = sandbox.ok("why agent/h3");
    assert!(why.contains("host n3 is held, so no cluster gets it: broken fan"), "{why}");
    assert!(sandbox.ok("why host/n3").starts_with("host n3 is held: broken fan"));
    let status = sandbox.status();
    assert!(status.contains("! host n3 is held: broken fan"), "{status}");
    assert!(status.contains("next: poolctl host unhold n3"), "{status}");
    // A host more, and it is not needed; held in its cluster it stays there.
    boot_hosts(&sandbox, &[4]);
    reconcile_whole(&sandbox);
    assert_eq!(state_of(&sandbox, "h3"), "known-unbound");
    assert!(!only_cluster(&sandbox).is_empty());
    sandbox.ok("host unhold n3 -q");
    sandbox.ok("pool scale metal --size 0 -q");
    boot_hosts(&sandbox, &[1, 2, 4]);
    sandbox.ok("agent approve h4 --revoke -y -q");
    sandbox.ok("pool scale metal --size 1 -q");
    reconcile_whole(&sandbox);
    assert_eq!(jsonpath(&sandbox, "host/n3", "{.spec.consumerRef.name}"), only_cluster(&sandbox));
    sandbox.ok("host hold n3 --reason later -q");
    reconcile_whole(&sandbox);
    assert_eq!(jsonpath(&sandbox, "host/n3", "{.spec.consumerRef.name}"), only_cluster(&sandbox));
}

#[test]
fn hosts_without_a_controller_wait_for_somebody_who_boots_them_and_are_used_again() {
    let (mut sandbox, _) = installed();
    assert!(next_of(&sandbox, "agent/h1").starts_with("poolctl why cluster/metal-"));
    released(&sandbox);
    // The name is free at once; addresses and hosts when these are booted: they may run until then.
    assert_eq!(jsonpath(&sandbox, "customization/metal-a", "{.status.clusterDeploymentRef}"), "");
    assert_eq!(jsonpath(&sandbox, "ipclaim", "{.items[*].metadata.name}").split(' ').count(), 5);
    let boots = "boot it from its discovery image: poolctl infraenv iso rack --address USER@HOST \
                 --key FILE --known-hosts FILE --base ISO";
    for host in ["h1", "h2", "h3"] {
        assert_eq!(state_of(&sandbox, host), "unbinding-pending-user-action");
        assert_eq!(next_of(&sandbox, &format!("agent/{host}")), boots);
    }
    let status = sandbox.status();
    let said = "3 agents (h1, h2, h3) are waiting to be booted from the discovery image next: \
                poolctl infraenv iso";
    assert!(status.contains(said), "{status}");
    let why = sandbox.ok("why pool/metal");
    assert!(why.contains("0 free, 3") && why.contains("unbinding-pending-user-action"), "{why}");
    // Said again after an hour, once.
    for hour in ["14", "15"] {
        sandbox.set_variable("POOLCTL_NOW", &format!("2026-03-02T{hour}:00:00Z"));
        sandbox.ok("reconcile -q");
    }
    let why = sandbox.ok("why agent/h1");
    assert!(why.contains("boot it from the discovery image of InfraEnv rack"), "{why}");
    let events = sandbox.ok("events agent/h1");
    assert_eq!(events.matches("host_unbind_overdue").count(), 1, "{events}");
    boot_hosts(&sandbox, &[1, 2, 3]);
    reconcile_whole(&sandbox);
    assert!(!only_cluster(&sandbox).is_empty());
    assert_clusters_are_whole(&sandbox, 3, 5);
}

#[test]
fn what_is_left_running_keeps_its_name_addresses_and_hosts_until_somebody_says_otherwise() {
    let (sandbox, name) = installed();
    sandbox.ok(&format!("patch cluster {name} -p '{{spec: {{preserveOnDelete: true}}}}' -q"));
    released(&sandbox);
    // Its hosts are retired, and all that it uses is nobody else's.
    assert_bound_once(&sandbox);
    for host in ["h1", "h2", "h3"] {
        assert_eq!(state_of(&sandbox, host), "disabled-unbound");
        assert_eq!(
            next_of(&sandbox, &format!("agent/{host}")),
            format!("poolctl delete agent {host}")
        );
    }
    let leased = || jsonpath(&sandbox, "ipclaim", "{.items[*].metadata.name}");
    assert_eq!(leased().split_whitespace().count(), 5, "{}", leased());
    assert_eq!(next_of(&sandbox, "customization/metal-a"), "poolctl customization reset metal-a");
    assert!(sandbox.ok("why host/n3").contains("which was left running"));
    assert_eq!(next_of(&sandbox, "host/n3"), "poolctl delete agent h3");
    // Each of them is given back by what was named.
    sandbox.ok("customization reset metal-a -q");
    sandbox.ok("delete agent h1 h2 h3 -y -q");
    assert_eq!(jsonpath(&sandbox, "host/n3", "{.spec.consumerRef.name}"), "");
    sandbox.ok(&format!("ip release -y -q {}", leased()));
    assert_eq!(leased(), "");
    boot_hosts(&sandbox, &[1, 2, 3]);
    reconcile_whole(&sandbox);
    assert!(!only_cluster(&sandbox).is_empty());
}

#[test]
fn a_host_that_goes_on_in_a_cluster_is_not_discovered_by_mistake() {
    let sandbox = sandbox_with_rack();
    let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "n9"}, "spec": {"online": true,
            "bmc": {"address": "redfish://192.0.2.9/redfish/v1/Systems/1", "credentialsName": "bmc"},
            "consumerRef": {"apiVersion": "hive.openshift.io/v1", "kind": "ClusterDeployment",
                "name": "left", "namespace": "left"}}});
    apply(&sandbox, &host.to_string());
    let ran = sandbox.run("agent discover n9 --infraenv rack");
    assert!(ran.code == 4 && ran.err.contains("is kept by cluster left"), "{ran:?}");
    let free = "{\"spec\": {\"consumerRef\": null}}";
    assert!(ran.err.contains(&format!("poolctl patch host n9 -p '{free}'")), "{ran:?}");
    sandbox.ok("agent discover --all --infraenv rack -q");
    assert_eq!(jsonpath(&sandbox, "agent", "{.items[*].metadata.name}"), "");
    sandbox.ok(&format!("patch host n9 -p '{free}' -q"));
    sandbox.ok("agent discover --all --infraenv rack --no-reconcile -q");
    assert_eq!(jsonpath(&sandbox, "agent", "{.items[*].metadata.name}"), "n9");
}

#[test]
fn a_host_that_does_not_come_for_its_cluster_is_named() {
    let mut sandbox = sandbox_with_rack();
    boot_hosts(&sandbox, &[1, 2, 3]);
    reconcile_whole(&sandbox);
    let cluster = format!("cluster/{}", only_cluster(&sandbox));
    let why = sandbox.ok(&format!("why {cluster}"));
    assert!(why.contains("waits for its hosts"), "{why}");
    assert!(why.contains("host node-3 is binding: "), "{why}");
    assert_eq!(next_of(&sandbox, "agent/h3"), "poolctl events agent/h3");
    boot_hosts(&sandbox, &[1, 2]);
    sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:11:00Z");
    sandbox.ok("reconcile -q");
    assert_eq!(state_of(&sandbox, "h3"), "disconnected-unbound");
    assert!(next_of(&sandbox, "agent/h3").contains("poolctl infraenv iso rack --address "));
    let events = sandbox.ok("events agent/h3");
    assert!(events.contains("it did not register again within 10m"), "{events}");
    // It comes late, and is taken.
    boot_hosts(&sandbox, &[1, 2, 3]);
    reconcile_whole(&sandbox);
    boot_hosts(&sandbox, &[3]);
    reconcile_whole(&sandbox);
    assert_eq!(state_of(&sandbox, "h3"), "installing");
}

/// Claims of addresses, as `CLAIM=AGENT` for each that a host has.
fn hosts_of_claims(sandbox: &Sandbox) -> Vec<String> {
    let claims: Value = serde_json::from_str(&sandbox.ok("get ipclaim -o json")).unwrap();
    let agent = |claim: &Value| {
        let owners = claim["metadata"]["ownerReferences"].as_array()?;
        let agent = owners.iter().find(|owner| owner["kind"] == "Agent")?;
        Some(format!("{}={}", claim["metadata"]["name"].as_str()?, agent["name"].as_str()?))
    };
    let mut hosts: Vec<String> =
        claims["items"].as_array().unwrap().iter().filter_map(agent).collect();
    hosts.sort_unstable();
    hosts
}

/// Hosts called `a`, `a-nodes` and `b` that are the nodes of a cluster, with addresses from an
/// IPPool called `nodes`.
fn hosts_with_names_alike() -> (Sandbox, String) {
    let sandbox = sandbox_with_rack();
    for (number, name) in [(1, "a"), (2, "a-nodes"), (3, "b")] {
        boot_host_as(&sandbox, "rack", name, number, &json!({}));
        sandbox.ok(&format!("agent approve {name} -q"));
    }
    reconcile_whole(&sandbox);
    for (number, name) in [(1, "a"), (2, "a-nodes"), (3, "b")] {
        boot_host_as(&sandbox, "rack", name, number, &json!({}));
    }
    sandbox.ok("reconcile --wait=1h -q");
    let cluster = only_cluster(&sandbox);
    assert_eq!(state_of(&sandbox, "a"), "installed");
    (sandbox, cluster)
}

#[test]
fn an_address_is_its_hosts_whatever_other_hosts_and_pools_are_called() {
    let (sandbox, cluster) = hosts_with_names_alike();
    let names = |hosts: &[&str]| -> Vec<String> {
        let mut names: Vec<String> =
            hosts.iter().map(|host| format!("{cluster}-{host}={host}")).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(hosts_of_claims(&sandbox), names(&["a", "a-nodes", "b"]));
    // The host leaves its cluster: when it is back its address is free, that of `a-nodes` is not.
    sandbox.ok("agent unbind a -y -q");
    boot_host_as(&sandbox, "rack", "a", 1, &json!({}));
    sandbox.ok("reconcile -q");
    assert_eq!(hosts_of_claims(&sandbox), names(&["a-nodes", "b"]));
    // The same when the node `b` is deleted with its Agent.
    let skip = "agent.agent-install.openshift.io/skip-spoke-cleanup=done";
    sandbox.ok(&format!("annotate agent b {skip} -q"));
    sandbox.ok("delete agent b -y -q");
    sandbox.ok("reconcile -q");
    assert_eq!(hosts_of_claims(&sandbox), names(&["a-nodes"]));
    // An edit takes the address away neither from the cluster nor from the host.
    let claim = format!("{cluster}-a-nodes");
    sandbox.ok(&format!(
        "patch ipclaim {claim} -p '{{metadata: {{ownerReferences: null, finalizers: null}}}}' -q"
    ));
    assert_eq!(hosts_of_claims(&sandbox), names(&["a-nodes"]));
}

#[test]
fn an_export_that_does_not_say_whose_an_address_is_comes_in_with_the_hosts_named() {
    let (mut sandbox, _) = hosts_with_names_alike();
    let before = hosts_of_claims(&sandbox);
    move_state(&mut sandbox, |objects| {
        for object in objects {
            let owners = object.pointer_mut("/metadata/ownerReferences");
            if let Some(owners) = owners.and_then(Value::as_array_mut) {
                owners.retain(|owner| owner["kind"] != "Agent");
            }
        }
    });
    assert_eq!(hosts_of_claims(&sandbox), before);
}

#[test]
fn addresses_of_a_cluster_that_is_gone_are_free_when_the_last_host_that_left_it_is_deleted() {
    let sandbox = earlier(1);
    sandbox.ok("release ci-3 -y -q");
    sandbox.ok("reconcile --wait=2h -q");
    let claims = |sandbox: &Sandbox| {
        let names = sandbox.ok("get ipclaim -o name");
        names.lines().filter(|name| name.contains("metal-cns7l")).count()
    };
    // They may still run with their addresses, and nobody else is given one of them.
    assert_eq!(claims(&sandbox), 5);
    sandbox.refused(4, "ip claim nodes metal-cns7l-a", "belongs to cluster `metal-cns7l`");
    sandbox.ok("delete agent a b -y -q");
    assert_eq!(claims(&sandbox), 3);
    sandbox.ok("delete agent a-nodes -y -q");
    assert_eq!(claims(&sandbox), 0);
    sandbox.ok("doctor");
}
