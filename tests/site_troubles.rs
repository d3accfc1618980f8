//! Each trouble of a lab with the stand-ins: a pool of five clusters with an inventory meets it, says
//! its first cause, and comes through once the lab or its Settings are mended. What was made is
//! destroyed, and no customization is lost.

use crate::lab::{Lab, VSPHERE, pool};
use crate::sandbox::{apply, in_one_line, jsonpath};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
const PROXY: &str = "  site: {proxy: {httpsProxy: 'http://proxy.example.com:3128'}}\n";
const MIRROR: &str = "  site: {mirrors: {example.com/ocp: ['mirror.example.com:5000/ocp']}}\n";

/// What is wrong with a lab.
struct Trouble {
    /// How the stand-ins are told.
    conditions: &'static str,
    /// What people are shown.
    cause: &'static str,
    /// What the Settings need to live with it; empty if the lab itself has to be mended.
    settings: &'static str,
}

const TROUBLES: [Trouble; 4] = [
    Trouble { conditions: "bootstrap: fails", cause: "Bootstrap failed", settings: "" },
    Trouble { conditions: "operators: never", cause: "are not available", settings: "" },
    Trouble {
        conditions: "proxy: http://proxy.example.com:3128",
        cause: "i/o timeout",
        settings: PROXY,
    },
    Trouble {
        conditions: "mirror: mirror.example.com:5000/ocp",
        cause: "cannot be extracted",
        settings: MIRROR,
    },
];

/// A lab with a trouble, and a pool of five clusters that have a customization each.
fn lab_with_five(conditions: &str, behaviour: &str) -> Lab {
    let lab = Lab::new();
    lab.set_cloud(conditions);
    lab.set_behaviour(behaviour);
    if conditions.starts_with("mirror") {
        lab.install_oc();
        let image = format!("{{releaseImage: 'example.com/ocp@{DIGEST}'}}");
        apply(
            &lab.sandbox,
            &format!(
                "apiVersion: hive.openshift.io/v1\nkind: ClusterImageSet\n\
                 metadata: {{name: ocp}}\nspec: {image}\n"
            ),
        );
    }
    for (index, name) in NAMES.iter().enumerate() {
        let api_vip = format!("10.0.0.{}", 10 + 2 * index);
        let ingress_vip = format!("10.0.0.{}", 11 + 2 * index);
        apply(
            &lab.sandbox,
            &format!(
                "apiVersion: hive.openshift.io/v1\nkind: ClusterDeploymentCustomization\n\
                 metadata: {{name: {name}}}\nspec:\n  installConfigPatches:\n    \
                 - {{op: replace, path: /metadata/name, value: {name}}}\n    \
                 - {{op: add, path: /platform/vsphere/apiVIP, value: {api_vip}}}\n    \
                 - {{op: add, path: /platform/vsphere/ingressVIP, value: {ingress_vip}}}\n"
            ),
        );
    }
    let inventory = NAMES.map(|name| format!("{{name: {name}}}")).join(", ");
    let more = format!(
        "  installConfigSecretTemplateRef: {{name: template}}\n  inventory: [{inventory}]\n"
    );
    apply(&lab.sandbox, &pool("lab", VSPHERE, &more).replace("size: 1", "size: 5"));
    lab
}

fn count_installed(lab: &Lab) -> usize {
    lab.sandbox.ok("get cluster --no-headers").matches("Installed").count()
}

#[test]
fn a_pool_of_five_comes_through_each_trouble_of_its_site() {
    for Trouble { conditions, cause, settings } in TROUBLES {
        let lab = lab_with_five(conditions, "");
        lab.wait_until("failed", |lab| {
            lab.sandbox.ok("events pool/lab").contains("InstallationsPaused")
        });
        for command in ["events", "why pool/lab", "describe pool lab"] {
            let shown = in_one_line(&lab.sandbox.ok(command));
            assert!(shown.contains(cause), "{conditions}: {command}: {shown}");
        }
        if settings.is_empty() {
            lab.set_cloud("");
        } else {
            lab.add_to_settings("spec:\n", settings);
        }
        lab.wait_until("all are installed", |lab| {
            // As a person does who does not want to wait.
            lab.sandbox.run("cluster retry --all -q");
            lab.sandbox.ok("customization reset --all -q");
            count_installed(lab) == 5
        });
        let attempts = jsonpath(&lab.sandbox, "pool/lab", "{.status.inventory[*].attempts}");
        assert_eq!(attempts, "3 3 3 3 3", "{conditions}");
        assert_eq!(lab.infrastructure().len(), 5, "{conditions}: {:?}", lab.ledger());
        lab.delete_clusters();
    }
}

#[test]
fn a_pool_of_five_waits_for_operators_that_are_late_and_for_a_slow_platform() {
    let lab = lab_with_five("operators: late", "create-cluster: sleep 1500");
    lab.wait_until("all are installed", |lab| count_installed(lab) == 5);
    assert_eq!(lab.count_in_ledger("made "), 5, "{:?}", lab.ledger());
    lab.delete_clusters();
}
