//! The bare-metal example as a stranger runs it: its script, on controllers that are there, then its
//! crontab.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::lab::Lab;
use crate::once::bound_once;
use crate::rack::{Rack, mac};
use crate::rigs::{PASSWORD, pause};
use crate::sandbox::{POOLCTL, Sandbox, jsonpath};
use crate::served::Server;

const EXAMPLE: &str = "examples/baremetal";
/// Where its folder and the state are, with what cron is to find.
const HOME: &str = "/var/lib/poolctl";
/// Where the folder of images is.
const SHELF: &str = "/srv/poolctl";

/// A copy in the lab's home, with the lab's machines, programs, places and passwords.
fn copied(lab: &Lab, rack: &Rack, web: &Server) {
    let home = lab.sandbox.path().display().to_string();
    let programs = format!("openshift-install: {}", lab.bin("openshift-install").display());
    let spec = format!("spec:\n  programs: {{{programs}}}\n  isoDirectory:");
    let swaps = [
        (HOME, &*home),
        (SHELF, &*home),
        ("/etc/poolctl", &*home),
        ("http://web.lab.example.com", &*web.origin()),
        ("spec:\n  isoDirectory:", &*spec),
        ("change-me", PASSWORD),
        ("quay.io/openshift-release-dev/ocp-release", "example.com/ocp"),
    ]
    .map(|(from, to)| (from, to.to_owned()));
    fs::create_dir(lab.sandbox.path().join("rack")).unwrap();
    let mut whole = String::new();
    for entry in fs::read_dir(EXAMPLE).unwrap() {
        let entry = entry.unwrap();
        let mut text = fs::read_to_string(entry.path()).unwrap();
        whole += &text;
        for (from, to) in &swaps {
            text = text.replace(from, to);
        }
        if entry.file_name() == "hosts.csv" {
            text = machines(&text, rack);
        }
        let name = entry.file_name().into_string().unwrap();
        lab.sandbox.file(&format!("rack/{name}"), &text);
    }
    assert!(swaps.iter().all(|(from, _)| whole.contains(from)), "what is replaced is not there");
}

/// The same machines, where the rack has them.
fn machines(table: &str, rack: &Rack) -> String {
    let lines: Vec<&str> = table.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines[0], "name,bmc,mac,secret");
    // The first of the rack is too small for any role.
    let line = |(at, line): (usize, &&str)| {
        let name = line.split(',').next().unwrap();
        format!("{name},{},{},bmc,true\n", rack.address(at + 2), mac(at + 2))
    };
    let lines: Vec<String> = lines[1..].iter().enumerate().map(line).collect();
    format!("name,bmc,mac,secret,insecure\n{}", lines.concat())
}

/// Plays nsupdate: writes down what it is told.
fn name_server(lab: &Lab) {
    let told = lab.bin("told").display().to_string();
    let program = lab.bin("nsupdate");
    lab.sandbox.file("dns.key", "");
    fs::write(&program, format!("#!/bin/sh\n[ \"$1\" = -k ] && cat \"$3\" >>{told}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a job of the crontab as cron does.
fn cron(lab: &Lab, job: usize) {
    let home = lab.sandbox.path().display().to_string();
    let text = fs::read_to_string(lab.sandbox.path().join("rack/crontab")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let (jobs, settings): (Vec<&str>, Vec<&str>) =
        lines.into_iter().partition(|line| line.contains(" * * * "));
    let bin = std::path::Path::new(POOLCTL).parent().unwrap().display();
    let settings = settings.join(" ").replace("/usr/local/bin", &format!("{bin}:{home}/bin"));
    let command = jobs[job].split(' ').skip(5).collect::<Vec<_>>().join(" ");
    let ran = lab.sandbox.shell(&format!("env -i HOME={home} {settings} /bin/sh -c '{command}'"));
    assert_eq!((ran.code, &*ran.out, &*ran.err), (0, "", ""), "{command}");
}

/// The address that a cluster's installer was told for its API.
fn api(lab: &Lab, name: &str) -> String {
    let text = fs::read_to_string(lab.bin(&format!("seen-{name}.yaml"))).unwrap();
    let config = poolctl::yaml::value(&text).unwrap();
    config["platform"]["baremetal"]["apiVIPs"][0].as_str().unwrap().to_owned()
}

#[test]
fn its_table_of_machines_is_taken_as_it_is() {
    let sandbox = Sandbox::new();
    sandbox.ok(&format!("host import {EXAMPLE}/hosts.csv --no-reconcile -q"));
    assert_eq!(sandbox.ok("get host -o name").lines().count(), 6);
}

#[test]
fn an_empty_rack_becomes_a_claimed_cluster_and_cron_goes_on() {
    let Some(rack) = Rack::start() else { return };
    let lab = Lab::new();
    let web = Server::of(&lab.sandbox.path().join("images"));
    copied(&lab, &rack, &web);
    name_server(&lab);
    let ran = lab.sandbox.shell("PATH=$HOME/bin:$PATH sh $HOME/rack/day.sh");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for part in [
        "agent/node-6 discovered",
        "api.metal-a.lab.example.com api-int.metal-a.lab.example.com # metal-a",
        "clusterpool/metal condition met",
        "claim/ci-17 bound to cluster/metal-",
        "claim/ci-17 released",
    ] {
        assert!(ran.out.contains(part), "{part}: {}{}", ran.out, ran.err);
    }

    // Each cluster had its address in DNS before it was there.
    let told = fs::read_to_string(lab.bin("told")).unwrap();
    for name in ["api.metal-a", "*.apps.metal-a", "api.metal-b", "*.apps.metal-b"] {
        let record = format!("update add {name}.lab.example.com. 60 A 192.0.2.1");
        assert!(told.contains(&record), "{record}: {told}");
    }
    // What was released is made anew by cron alone.
    for pass in 0.. {
        cron(&lab, 0);
        bound_once(&lab.sandbox);
        if jsonpath(&lab.sandbox, "pool/metal", "{.status.ready}") == "2" {
            break;
        }
        assert!(pass < 200, "never ready: {}", lab.sandbox.ok("get cluster,agent,job"));
        pause();
    }
    let told = fs::read_to_string(lab.sandbox.path().join("rack/dns.told")).unwrap();
    for name in ["metal-a", "metal-b"] {
        let record = format!("update add api.{name}.lab.example.com. 60 A {}\n", api(&lab, name));
        assert!(told.contains(&record), "{record}: {told}");
    }
    cron(&lab, 1);
    assert!(lab.sandbox.path().join("backup.db").exists());
    lab.sandbox.ok("doctor");
}
