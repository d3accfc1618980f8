//! Drivers of one's own: what poolctl promises them, what it asks of them, and how people see what
//! they say. Also what is tried of any driver before the first installation.

use std::fs;

use crate::lab::{Lab, TEMPLATED, VSPHERE, pool};
use crate::sandbox::{apply, in_one_line, jsonpath};

/// The head of a driver: it notes each verb in the file `verbs` beside it.
const HEAD: &str = "#!/bin/sh\nhere=$(dirname \"$0\")\necho \"$1\" >>\"$here/verbs\"\n";
/// What every cluster must leave.
const MAKE_A_CLUSTER: &str = "echo 'clusters: []' >saved/kubeconfig\necho '{\"a\": 1}' >saved/metadata.json\n\
    echo '{\"infraID\": \"x\"}' >result\n";

/// A lab with a driver, which does this at the verbs that it has.
fn lab_with_driver(script: &str) -> Lab {
    let lab = Lab::new();
    lab.install_program("poolctl-driver-own", &format!("{HEAD}{script}"));
    lab
}

/// Applies the pool `lab` of that driver, with further lines of its spec.
fn apply_pool(lab: &Lab, more: &str) {
    let annotations = format!("  annotations: {{poolctl.dev/driver: 'exec:own'{more}}}\n");
    apply(&lab.sandbox, &pool("lab", "{none: {}}", &annotations));
}

#[test]
fn the_last_line_of_standard_error_says_why_a_driver_failed() {
    let lab = lab_with_driver(
        "case $1 in provision) echo first >&2; echo 'no room in rack 7' >&2; exit 9;; esac\n",
    );
    apply_pool(&lab, "");
    let cause = "no room in rack 7";
    lab.wait_until("failed", |lab| lab.phase() == "Retrying");
    let cluster = jsonpath(&lab.sandbox, "cluster", "{.items[0].metadata.name}");
    for command in
        ["events".to_owned(), format!("why cluster/{cluster}"), format!("cluster logs {cluster}")]
    {
        let output = lab.sandbox.ok(&command);
        assert!(output.contains(cause) && output.contains("exit code 9"), "{command:?}: {output}");
    }
}

#[test]
fn a_driver_says_its_contract_and_what_it_can_do() {
    let describe = "case $1 in describe) echo '{\"contract\": 2, \"verbs\": [\"provision\", \"deprovision\", \
        \"check\", \"progress\"], \"parameters\": [\"plan\"]}' >result;; esac\n";
    let lab = lab_with_driver(describe);
    apply_pool(&lab, "");
    let checked = lab.sandbox.run("driver check exec:own -o json");
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
    assert!(checked.out.contains("\"contract\": 2"), "{}", checked.out);
    // It has no verbs for power: its clusters run, as on a platform that cannot stop them.
    assert!(lab.pool_condition("HibernationSupported").starts_with("False"));
    // A contract of tomorrow is refused by name, before anything is begun.
    lab.install_program(
        "poolctl-driver-own",
        &format!("{HEAD}{}", describe.replace(": 2", ": 99")),
    );
    let checked = lab.sandbox.run("driver check exec:own");
    assert!(checked.code == 1 && checked.out.contains("contract 99"), "{}", checked.out);
}

#[test]
fn a_driver_has_a_folder_of_its_own_from_the_first_verb_of_a_cluster_to_the_last() {
    let lab = lab_with_driver(&format!(
        "cd \"$POOLCTL_JOB_DIR\"\ncase $1 in\nprovision) echo kept >\"$POOLCTL_CLUSTER_DIR/state\"\n{MAKE_A_CLUSTER};;\n\
         deprovision) cat \"$POOLCTL_CLUSTER_DIR/state\" >>\"$here/verbs\";;\nesac\n"
    ));
    apply_pool(&lab, "");
    lab.wait_until_installed();
    lab.sandbox.ok("pool scale lab --size 0 -q");
    lab.wait_until("gone", |lab| lab.phase().is_empty());
    let verbs = fs::read_to_string(lab.bin("verbs")).unwrap();
    assert!(verbs.ends_with("deprovision\nkept\n"), "{verbs}");
    let folders = lab.sandbox.shell("find $HOME -name state -path '*clusters*'; true").out;
    assert_eq!(folders, "", "it goes with the cluster");
}

#[test]
fn the_parameters_of_a_pool_reach_its_driver_and_unknown_ones_are_refused() {
    let lab = lab_with_driver(&format!(
        "case $1 in\ndescribe) echo '{{\"contract\": 2, \"parameters\": [\"plan\"]}}' >result;;\n\
         provision) cat input/parameters.json >>\"$here/verbs\"\n{MAKE_A_CLUSTER};;\nesac\n"
    ));
    apply_pool(&lab, ", poolctl.dev/parameters: '{\"plan\": \"small\"}'");
    lab.wait_until_installed();
    assert!(fs::read_to_string(lab.bin("verbs")).unwrap().contains("small"));
    let checked = lab.sandbox.run("driver check --pool lab");
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
    apply_pool(&lab, ", poolctl.dev/parameters: '{\"plam\": \"small\"}'");
    let checked = lab.sandbox.run("driver check --pool lab");
    assert!(checked.code == 1 && checked.out.contains("plam"), "{}", checked.out);
}

#[test]
fn the_progress_of_a_driver_is_that_of_its_cluster() {
    let lab = lab_with_driver(&format!(
        "case $1 in provision) echo 'disks are copied' >progress; sleep 6\n{MAKE_A_CLUSTER};; esac\n"
    ));
    apply_pool(&lab, "");
    lab.wait_until("shown", |lab| {
        lab.sandbox.ok("get cluster -o yaml").contains("disks are copied")
            || lab.sandbox.ok("why pool/lab").contains("disks are copied")
    });
    // Who waits is told, too.
    let ran = lab.sandbox.run("reconcile --wait=1m");
    let words: Vec<&str> = ran.err.split_whitespace().collect();
    assert!(words.join(" ").contains(" is installing, for "), "{}", ran.err);
    assert!(words.join(" ").contains("left; disks are copied"), "{}", ran.err);
    lab.wait_until_installed();
}

#[test]
fn a_pool_is_tried_out_before_its_first_installation() {
    let lab = Lab::new();
    lab.set_cloud("away: refused");
    // The one name that is resolved here without asking anybody.
    let platform = VSPHERE.replace("vcenter.example.com", "localhost");
    apply(&lab.sandbox, &pool("lab", &platform, TEMPLATED).replace("size: 1", "size: 0"));
    let checked = lab.sandbox.run("driver check --pool lab");
    // Each step says how it went, and the first that failed what to do.
    assert_eq!(checked.code, 1, "{}{}", checked.out, checked.err);
    for word in
        ["openshift-install", "release", "credentials", "certificates", "DNS", "image cache"]
    {
        assert!(checked.out.contains(word), "{word}: {}", checked.out);
    }
    assert!(checked.out.contains("connection refused"), "{}", checked.out);
    assert!(checked.err.contains("next:"), "{}", checked.err);
    assert_eq!((lab.count_in_ledger("made "), lab.phase().as_str()), (0, ""));
    lab.set_cloud("");
    let checked = lab.sandbox.run("driver check --pool lab -o json");
    assert!(checked.out.contains("\"credentials\""), "{}", checked.out);
}

#[test]
fn a_driver_is_asked_by_its_own_verb_whether_it_could_work() {
    let lab = lab_with_driver(
        "case $1 in\ndescribe) echo '{\"contract\": 2, \"verbs\": [\"check\"]}' >result;;\n\
         check) echo '{\"message\": \"the hypervisor of rack 7 is down\"}' >result; exit 1;;\nesac\n",
    );
    apply_pool(&lab, "");
    let checked = lab.sandbox.run("driver check --pool lab");
    assert_eq!(checked.code, 1, "{}", checked.out);
    assert!(checked.out.contains("the hypervisor of rack 7 is down"), "{}", checked.out);
    assert!(fs::read_to_string(lab.bin("verbs")).unwrap().contains("check"));
}

#[test]
fn the_missing_driver_of_a_pool_is_said_in_status() {
    let lab = Lab::new();
    let path = lab.sandbox.write_file(
        "pool.yaml",
        &pool("lab", "{none: {}}", "  annotations: {poolctl.dev/driver: 'exec:own'}\n"),
    );
    lab.sandbox.run(&format!("apply -f {path}"));
    for command in ["status", "why pool/lab"] {
        let output = in_one_line(&lab.sandbox.ok(command));
        assert!(output.contains("poolctl-driver-own"), "{command}: {output}");
    }
    assert!(lab.sandbox.status().contains("poolctl driver check --pool lab"));
    // Nothing is leased for what cannot be begun, and it heals by itself.
    lab.install_program("poolctl-driver-own", &format!("{HEAD}{MAKE_A_CLUSTER}"));
    lab.wait_until_installed();
}

#[test]
fn the_examples_keep_the_contract() {
    for (name, tool) in [("kcli", "kcli"), ("hcp", "hcp"), ("tofu", "tofu"), ("kind", "kind")] {
        let program = format!("examples/driver/poolctl-driver-{name}");
        let script = fs::read_to_string(&program).unwrap_or_else(|why| panic!("{program}: {why}"));
        for verb in ["describe", "check", "provision", "deprovision"] {
            assert!(script.contains(verb), "{program} has no {verb}");
        }
        let lab = Lab::new();
        lab.install_program(&format!("poolctl-driver-{name}"), &script);
        // The stand-in notes what it is asked for, and writes a kubeconfig where it is told to.
        let stand_in = fs::read_to_string(format!("tests/stub/{tool}.sh"));
        let stand_in = stand_in.unwrap_or_else(|why| panic!("tests/stub/{tool}.sh: {why}"));
        lab.install_program(tool, &stand_in);
        let annotations = format!("  annotations: {{poolctl.dev/driver: 'exec:{name}'}}\n");
        apply(&lab.sandbox, &pool("lab", "{none: {}}", &annotations));
        lab.wait_until_installed();
        lab.sandbox.ok("pool scale lab --size 0 -q");
        lab.wait_until("gone", |lab| lab.phase().is_empty());
        assert!(lab.infrastructure().is_empty(), "{name}: {:?}", lab.ledger());
        assert!(lab.count_in_ledger("made ") > 0, "{name}: {:?}", lab.ledger());
    }
}
