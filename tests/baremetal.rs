//! Pools of bare metal: names, addresses and hosts leased together, on controllers that are there.

use std::fs;

use crate::lab::Lab;
use crate::once::whole;
use crate::rack::{Rack, state_of};
use crate::sandbox::{Sandbox, apply, jsonpath};
use crate::served::Server;

const EXAMPLE: &str = concat!(
    include_str!("../examples/baremetal/rack.yaml"),
    "---\n",
    include_str!("../examples/baremetal/pool.yaml")
);

/// The example's objects but its Settings, which are applied for a lab with the stand-in installer.
pub fn objects(lab: &Lab, web: &Server) -> String {
    let images = lab.bin("images");
    let rest = EXAMPLE.replace(
        "quay.io/openshift-release-dev/ocp-release:4.18.3-x86_64",
        "example.com/ocp:4.18.3-x86_64",
    );
    let path = lab.bin("").display().to_string();
    let settings = format!(
        "apiVersion: poolctl.dev/v1\nkind: Settings\nmetadata: {{name: default}}\nspec:\n  \
         programs: {{openshift-install: {path}openshift-install}}\n  isoDirectory: {}\n  \
         isoURL: {}/images\n",
        images.display(),
        web.origin()
    );
    apply(&lab.sandbox, &settings);
    rest
}

/// Whoever is found by a controller that we drive is approved.
pub fn discovered(lab: &Sandbox, rack: &Rack) {
    rack.add_to(lab);
    lab.ok("agent discover --all --infraenv rack -q");
}

pub fn until(lab: &Lab, what: &str, met: impl Fn(&Sandbox) -> bool) {
    crate::machines::until(&lab.sandbox, what, |one| {
        whole(one, 3, 5);
        met(one)
    });
}

#[test]
fn a_rack_becomes_clusters_that_are_claimed_released_and_made_anew() {
    let Some(rack) = Rack::start() else { return };
    let lab = Lab::new();
    let one = &lab.sandbox;
    let web = Server::of(&lab.bin("images"));
    apply(one, &objects(&lab, &web));
    // Nobody is there yet: the pool says exactly what is short.
    let why = one.ok("describe pool metal");
    assert!(why.contains("needs 3 master-capable agents matching rack=7; 0 free"), "{why}");
    discovered(one, &rack);
    let ready = |one: &Sandbox| jsonpath(one, "pool/metal", "{.status.ready}") == "2";
    until(&lab, "ready", ready);
    // What the installer was told of them.
    for name in ["metal-a", "metal-b"] {
        let text = fs::read_to_string(lab.bin(&format!("agents-{name}.yaml"))).unwrap();
        let agents = poolctl::yaml::value(&text).unwrap();
        assert_eq!(agents["hosts"].as_array().unwrap().len(), 3, "{text}");
        let text = fs::read_to_string(lab.bin(&format!("seen-{name}.yaml"))).unwrap();
        let config = poolctl::yaml::value(&text).unwrap();
        let vip = config["platform"]["baremetal"]["apiVIPs"][0].as_str().unwrap();
        assert!(vip.starts_with("192.0.2.1"), "{text}");
    }
    // The machines were booted from the images, which are gone again.
    let installed: Vec<usize> =
        (2..=8).filter(|one| state_of(&lab.sandbox, &format!("n{one}")) == "installed").collect();
    assert_eq!(installed.len(), 6);
    for number in &installed {
        let seen = rack.emulator.seen(*number);
        assert!(seen.starts_with("On ") && seen.ends_with(" -"), "n{number}: {seen}");
    }
    assert_eq!(fs::read_dir(lab.bin("images")).unwrap().count(), 0);
    // One is claimed, used and released: its hosts come back, and are used again.
    one.ok("claim metal ci -q");
    let cluster = jsonpath(one, "claim/ci", "{.spec.namespace}");
    let its = jsonpath(
        one,
        "agent",
        &format!("{{.items[?(@.status.boundTo.name==\"{cluster}\")].metadata.name}}"),
    );
    assert_eq!(its.split_whitespace().count(), 3, "{its}");
    one.ok("release ci -y -q");
    until(&lab, "returned", |one| {
        let all = jsonpath(one, "cluster", "{.items[*].metadata.name}");
        !all.contains(&cluster) && ready(one)
    });
    one.ok("doctor");
}
