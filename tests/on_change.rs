//! The program of `onChange` is told of leased addresses after they have changed, until it has taken
//! them.

use std::fs;

use serde_json::Value;

use crate::lab::Lab;
use crate::sandbox::pause;

/// Keeps what it is told beside itself, a file for each time; fails while there is a file `broken`.
const PROGRAM: &str = "#!/bin/sh
here=$(dirname \"$0\")
[ \"$1\" = on-change ] || exit 2
if [ -e \"$here/broken\" ]; then echo 'the name server is away' >&2; exit 7; fi
cat >\"$here/told.new\"
echo ran >>\"$here/runs\"
mv \"$here/told.new\" \"$here/told\"
";

fn lab() -> Lab {
    let lab = Lab::new();
    lab.install_program("poolctl-driver-net", PROGRAM);
    name_program(&lab);
    lab
}

/// Names the program in the Settings. It is run at once: nobody has told it anything yet.
fn name_program(lab: &Lab) {
    lab.add_to_settings("spec:\n", "  onChange: exec:net\n");
}

/// The claims that the program was told of last, with their addresses.
fn told(lab: &Lab) -> Vec<String> {
    let Ok(document) = fs::read(lab.bin("told")) else { return Vec::new() };
    let document: Value = serde_json::from_slice(&document).unwrap();
    let items = document["items"].as_array().unwrap().iter();
    items.map(|item| format!("{} {}", item["claim"], item["address"]).replace('"', "")).collect()
}

fn runs(lab: &Lab) -> usize {
    fs::read_to_string(lab.bin("runs")).unwrap_or_default().lines().count()
}

#[test]
fn the_program_is_told_of_each_change_and_not_without_one() {
    let lab = lab();
    lab.sandbox.ok("ippool create lan --range 10.0.0.1-10.0.0.9 --allocation sequential");
    lab.sandbox.ok("ip claim lan web");
    lab.wait_until("told", |lab| told(lab) == ["web 10.0.0.1"]);
    lab.sandbox.ok("ip claim lan db");
    lab.wait_until("told of the second", |lab| told(lab) == ["web 10.0.0.1", "db 10.0.0.2"]);
    lab.sandbox.ok("ip release web");
    lab.wait_until("told of the release", |lab| told(lab) == ["db 10.0.0.2"]);
    // A pass that changes no address tells nothing. The process that has told may still look for
    // a last change.
    pause(1_000);
    let count = runs(&lab);
    lab.sandbox.ok("reconcile");
    lab.sandbox.ok("reconcile");
    lab.sandbox.ok("doctor");
    pause(500);
    assert_eq!(runs(&lab), count);
}

#[test]
fn a_program_that_fails_is_tried_again_and_a_warning_says_why() {
    let lab = Lab::new();
    lab.install_program("poolctl-driver-net", PROGRAM);
    fs::write(lab.bin("broken"), "").unwrap();
    name_program(&lab);
    lab.sandbox.ok("ippool create lan --range 10.0.0.1-10.0.0.9 --allocation sequential");
    // The command itself succeeds: the address is leased, whoever knows of it.
    assert_eq!(lab.sandbox.ok("ip claim lan web"), "10.0.0.1\n");
    lab.wait_until("a warning", |lab| lab.sandbox.ok("events").contains("AddressesNotTold"));
    let events = lab.sandbox.ok("events");
    assert!(events.contains("exit code 7: the name server is away"), "{events}");
    // It is no secret of the events.
    let untold = "the network is not told of addresses: exec:net failed, 1 attempt";
    let status = lab.sandbox.status();
    assert!(status.contains(untold), "{status}");
    let doctor = lab.sandbox.run("doctor");
    assert!(doctor.code != 0 && doctor.out.contains(untold), "{}", doctor.out);
    // It waits a minute before it is tried again.
    fs::remove_file(lab.bin("broken")).unwrap();
    lab.sandbox.ok("reconcile");
    assert_eq!(runs(&lab), 0);
}

#[test]
fn only_a_program_of_the_folder_of_drivers_is_accepted() {
    let lab = Lab::new();
    let settings = lab.sandbox.ok("get settings default -o yaml");
    for program in ["/bin/sh", "exec:", "exec:../sh", "exec:A"] {
        let wrong = settings.replace("spec:\n", &format!("spec:\n  onChange: '{program}'\n"));
        let file = lab.sandbox.write_file("settings.yaml", &wrong);
        lab.sandbox.refused(1, &format!("apply -f {file}"), "is not exec:NAME");
    }
    lab.add_to_settings("spec:\n", "  onChange: exec:missing\n");
    lab.sandbox.ok("ippool create lan --range 10.0.0.1-10.0.0.9");
    lab.wait_until("a warning", |lab| lab.sandbox.ok("events").contains("poolctl-driver-missing"));
}
