//! Pools of bare metal: clusters get their names, addresses and hosts together, on controllers that
//! are emulated on loopback.

use std::fs;

use serde_json::Value;

use crate::lab::Lab;
use crate::once::assert_clusters_are_whole;
use crate::rack::{Rack, state_of};
use crate::sandbox::{Sandbox, apply, jsonpath};
use crate::served::Server;

const EXAMPLE: &str = concat!(
    include_str!("../examples/baremetal/rack.yaml"),
    "---\n",
    include_str!("../examples/baremetal/pool.yaml")
);

/// The objects of the example, except its Settings: those are applied here, for a lab with the
/// stand-in for openshift-install.
pub fn example_objects(lab: &Lab, web: &Server) -> String {
    let images = lab.bin("images");
    let programs = lab.bin("").display().to_string();
    let settings = format!(
        "apiVersion: poolctl.dev/v1\nkind: Settings\nmetadata: {{name: default}}\nspec:\n  \
         programs: {{openshift-install: {programs}openshift-install}}\n  isoDirectory: {}\n  \
         isoURL: {}/images\n",
        images.display(),
        web.origin()
    );
    apply(&lab.sandbox, &settings);
    EXAMPLE.replace(
        "quay.io/openshift-release-dev/ocp-release:4.18.30-x86_64",
        "example.com/ocp:4.18.3-x86_64",
    )
}

/// Adds the machines of a rack as hosts and discovers them. Hosts that a controller finds are
/// approved without asking.
pub fn discover_rack(lab: &Sandbox, rack: &Rack) {
    rack.add_to(lab);
    lab.ok("agent discover --all --infraenv metal -q");
}

/// Passes until a condition holds; after each, every cluster must have all of its hosts and
/// addresses.
pub fn wait_until(lab: &Lab, what: &str, is_met: impl Fn(&Sandbox) -> bool) {
    crate::machines::reconcile_until(&lab.sandbox, what, |sandbox| {
        assert_clusters_are_whole(sandbox, 3, 5);
        is_met(sandbox)
    });
}

fn has_two_ready(sandbox: &Sandbox) -> bool {
    jsonpath(sandbox, "pool/metal", "{.status.ready}") == "2"
}

/// A YAML file that the stand-in for the installer wrote.
pub fn read_yaml(lab: &Lab, file: &str) -> Value {
    let yaml = fs::read_to_string(lab.bin(file)).unwrap();
    poolctl::yaml::parse_value(&yaml).unwrap()
}

#[test]
fn a_rack_becomes_clusters_that_are_claimed_released_and_made_anew() {
    let Some(rack) = Rack::start() else { return };
    let lab = Lab::new();
    let sandbox = &lab.sandbox;
    let web = Server::of_folder(&lab.bin("images"));
    apply(sandbox, &example_objects(&lab, &web));
    // There are no hosts yet: the pool says exactly what it is short of.
    let described = sandbox.ok("describe pool metal");
    let shortage = "needs 3 master-capable agents matching rack=7; 0 free";
    let words: Vec<&str> = described.split_whitespace().collect();
    assert!(words.join(" ").contains(shortage), "{described}");
    discover_rack(sandbox, &rack);
    wait_until(&lab, "ready", has_two_ready);
    // What the installer was told of each cluster.
    for name in ["metal-a", "metal-b"] {
        let agent_config = read_yaml(&lab, &format!("agents-{name}.yaml"));
        assert_eq!(agent_config["hosts"].as_array().unwrap().len(), 3, "{agent_config}");
        let install_config = read_yaml(&lab, &format!("seen-{name}.yaml"));
        let vip = install_config["platform"]["baremetal"]["apiVIPs"][0].as_str().unwrap();
        assert!(vip.starts_with("192.0.2.1"), "{install_config}");
    }
    // The machines were booted from the images, which are gone again.
    let installed: Vec<usize> =
        (2..=8).filter(|number| state_of(sandbox, &format!("n{number}")) == "installed").collect();
    assert_eq!(installed.len(), 6);
    for number in &installed {
        let seen = rack.emulator.describe_machine(*number);
        assert!(seen.starts_with("On ") && seen.ends_with(" -"), "n{number}: {seen}");
    }
    assert_eq!(fs::read_dir(lab.bin("images")).unwrap().count(), 0);
    // A cluster is claimed and released: its hosts are returned, and used again.
    sandbox.ok("claim metal ci -q");
    let cluster = jsonpath(sandbox, "claim/ci", "{.spec.namespace}");
    let path = format!("{{.items[?(@.status.boundTo.name==\"{cluster}\")].metadata.name}}");
    let agents = jsonpath(sandbox, "agent", &path);
    assert_eq!(agents.split_whitespace().count(), 3, "{agents}");
    sandbox.ok("release ci -y -q");
    wait_until(&lab, "returned", |sandbox| {
        let clusters = jsonpath(sandbox, "cluster", "{.items[*].metadata.name}");
        !clusters.contains(&cluster) && has_two_ready(sandbox)
    });
    sandbox.ok("doctor");
}
