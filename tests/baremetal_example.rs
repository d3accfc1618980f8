//! The bare-metal example as somebody runs it who follows its README: its script, on emulated
//! controllers, then its crontab.

use std::fmt::Write;
use std::fs;

use crate::baremetal::read_yaml;
use crate::lab::Lab;
use crate::once::assert_bound_once;
use crate::rack::{Rack, mac};
use crate::rigs::PASSWORD;
use crate::sandbox::{POOLCTL, Sandbox, jsonpath, pause};
use crate::served::Server;

const EXAMPLE: &str = "examples/baremetal";
/// The folder of the example and of the state, where cron finds them.
const HOME: &str = "/var/lib/poolctl";
/// The folder of the folder of images.
const SHELF: &str = "/srv/poolctl";

/// Copies the example into the lab's home, with the machines, programs, folders and passwords of
/// the lab.
fn copy_example(lab: &Lab, rack: &Rack, web: &Server) {
    let home = lab.sandbox.path().display().to_string();
    let programs = format!("openshift-install: {}", lab.bin("openshift-install").display());
    let spec = format!("spec:\n  programs: {{{programs}}}\n  isoDirectory:");
    let replacements = [
        (HOME, &*home),
        (SHELF, &*home),
        ("/etc/poolctl", &*home),
        ("http://web.lab.example.com", &*web.origin()),
        ("spec:\n  isoDirectory:", &*spec),
        ("change-me", PASSWORD),
        ("quay.io/openshift-release-dev/ocp-release:4.18.30", "example.com/ocp:4.18.3"),
    ]
    .map(|(from, to)| (from, to.to_owned()));
    fs::create_dir(lab.sandbox.path().join("rack")).unwrap();
    let mut originals = String::new();
    for path in fs::read_dir(EXAMPLE).unwrap().map(|entry| entry.unwrap().path()) {
        let mut content = fs::read_to_string(&path).unwrap();
        originals += &content;
        for (from, to) in &replacements {
            content = content.replace(from, to);
        }
        let name = path.file_name().unwrap().to_str().unwrap();
        if name == "hosts.csv" {
            content = hosts_of_rack(&content, rack);
        }
        lab.sandbox.write_file(&format!("rack/{name}"), &content);
    }
    for (from, _) in &replacements {
        assert!(originals.contains(from), "{from} is nowhere in the example");
    }
}

/// The hosts of a table, at the addresses that the rack has for them.
fn hosts_of_rack(table: &str, rack: &Rack) -> String {
    let mut rows = table.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(rows.next(), Some("name,bmc,mac,secret"));
    let mut hosts = String::from("name,bmc,mac,secret,insecure\n");
    // From the second machine of the rack on: the first is too small for any role.
    for (number, row) in (2..).zip(rows) {
        let name = row.split(',').next().unwrap();
        writeln!(hosts, "{name},{},{},bmc,true", rack.address(number), mac(number)).unwrap();
    }
    hosts
}

/// Runs a job of the crontab as cron does: any word that it prints would be mailed.
fn run_cron_job(lab: &Lab, job: usize) {
    let home = lab.sandbox.path().display().to_string();
    let crontab = fs::read_to_string(lab.sandbox.path().join("rack/crontab")).unwrap();
    let lines = crontab.lines().filter(|line| !line.starts_with('#'));
    let (jobs, variables): (Vec<&str>, Vec<&str>) =
        lines.partition(|line| line.contains(" * * * "));
    let bin = std::path::Path::new(POOLCTL).parent().unwrap().display();
    let variables = variables.join(" ").replace("/usr/local/bin", &format!("{bin}:{home}/bin"));
    let command = jobs[job].split(' ').skip(5).collect::<Vec<_>>().join(" ");
    let ran = lab.sandbox.shell(&format!("env -i HOME={home} {variables} /bin/sh -c '{command}'"));
    assert_eq!((ran.code, &*ran.out, &*ran.err), (0, "", ""), "{command}");
}

#[test]
fn the_table_of_hosts_is_imported_as_it_is() {
    let sandbox = Sandbox::new();
    sandbox.ok(&format!("host import {EXAMPLE}/hosts.csv --no-reconcile -q"));
    assert_eq!(sandbox.ok("get host -o name").lines().count(), 6);
}

#[test]
fn an_empty_rack_becomes_a_claimed_cluster_and_cron_goes_on() {
    let Some(rack) = Rack::start() else { return };
    let lab = Lab::new();
    let web = Server::of_folder(&lab.sandbox.path().join("images"));
    copy_example(&lab, &rack, &web);
    // A stand-in for nsupdate, which writes down what it is told.
    let script = "#!/bin/sh\n[ \"$1\" = -k ] && cat \"$3\" >>\"${0%/*}/told\"\n";
    lab.sandbox.write_script("bin/nsupdate", script);
    lab.sandbox.write_file("dns.key", "");
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
        run_cron_job(&lab, 0);
        assert_bound_once(&lab.sandbox);
        if jsonpath(&lab.sandbox, "pool/metal", "{.status.ready}") == "2" {
            break;
        }
        assert!(pass < 200, "never ready: {}", lab.sandbox.ok("get cluster,agent,job"));
        pause(100);
    }
    let told = fs::read_to_string(lab.sandbox.path().join("rack/dns.told")).unwrap();
    for name in ["metal-a", "metal-b"] {
        // The record is of the address that the cluster's installer was told.
        let install_config = read_yaml(&lab, &format!("seen-{name}.yaml"));
        let address = install_config["platform"]["baremetal"]["apiVIPs"][0].as_str().unwrap();
        let record = format!("update add api.{name}.lab.example.com. 60 A {address}\n");
        assert!(told.contains(&record), "{record}: {told}");
    }
    run_cron_job(&lab, 1);
    assert!(lab.sandbox.path().join("backup.db").exists());
    lab.sandbox.ok("doctor");
}
