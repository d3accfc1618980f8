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
fn a_pool_that_does_not_fit_its_driver_makes_no_cluster() {
    let tomorrow = "case $1 in describe) echo '{\"contract\": 99}' >result;; esac\n";
    let strict =
        "case $1 in describe) echo '{\"contract\": 2, \"parameters\": []}' >result;; esac\n";
    for (script, problem) in [(tomorrow, "contract 99"), (strict, "takes no parameters")] {
        let lab = lab_with_driver(script);
        apply_pool(&lab, ", poolctl.dev/parameters: '{\"plan\": \"small\"}'");
        lab.sandbox.run("reconcile -q");
        assert_eq!(lab.phase(), "", "{problem}");
        let explanation = in_one_line(&lab.sandbox.ok("why pool/lab"));
        assert!(explanation.contains(problem), "{explanation}");
    }
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

/// The finding of a step of `driver check --pool lab`: its state, what was found, what to do.
fn finding_of_step(lab: &Lab, step: &str) -> String {
    let checked = lab.sandbox.run("driver check --pool lab -o json");
    let findings: serde_json::Value = serde_json::from_str(&checked.out).unwrap();
    let findings = findings["items"].as_array().cloned().unwrap_or_default();
    let finding = findings.iter().find(|finding| finding["step"] == step);
    let finding = finding.unwrap_or_else(|| panic!("no {step}: {}", checked.out));
    ["state", "detail", "next"].map(|field| finding[field].as_str().unwrap_or_default()).join("|")
}

/// A lab with a pool that makes nothing yet, on a platform that is resolved without asking anybody.
fn lab_to_be_checked(platform: &str) -> Lab {
    let lab = Lab::new();
    let manifest = pool("lab", &platform.replace("vcenter.example.com", "localhost"), "");
    apply(&lab.sandbox, &manifest.replace("size: 1", "size: 0"));
    lab
}

#[test]
fn names_that_the_site_replaces_are_not_resolved() {
    for (site, platform) in [
        ("mirrors: {example.com/ocp: ['localhost:5000/ocp']}", VSPHERE.to_owned()),
        (
            "proxy: {httpsProxy: 'http://user:CANARY-proxy@localhost:3128'}",
            VSPHERE.replace("vcenter.example.com", "vcenter.invalid"),
        ),
    ] {
        let lab = lab_to_be_checked(&platform);
        lab.add_to_settings("spec:\n", &format!("  site: {{{site}}}\n"));
        assert_eq!(finding_of_step(&lab, "DNS names"), "ok|localhost can be resolved|", "{site}");
    }
}

#[test]
fn credentials_that_are_not_whole_are_found_before_anybody_logs_in() {
    let openstack = "{openstack: {cloud: lab, credentialsSecretRef: {name: cloud}}}";
    let vsphere = VSPHERE
        .replace("credentialsSecretRef: {name: vsphere}", "credentialsSecretRef: {name: cloud}");
    for (platform, values, problem) in [
        (vsphere.as_str(), "{username: admin}", "no value under `password`"),
        (vsphere.as_str(), "{vcenters: 'garbage: ['}", "key `vcenters` is no list"),
        (openstack, "{clouds.yaml: ''}", "`clouds.yaml` has no clouds"),
        (openstack, "{clouds.yaml: 'clouds: {rack: {}}'}", "no cloud `lab`, but: rack"),
        (openstack, "{other: x}", "there is no key `clouds.yaml`"),
    ] {
        let lab = lab_to_be_checked(platform);
        // The names of the release are not resolved behind a proxy.
        lab.add_to_settings("spec:\n", "  site: {proxy: {httpsProxy: 'http://localhost:3128'}}\n");
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: cloud}\nstringData: ";
        apply(&lab.sandbox, &format!("{secret}{values}\n"));
        let finding = finding_of_step(&lab, "credentials");
        assert!(finding.starts_with("failed|Secret `cloud`: "), "{finding}");
        assert!(finding.contains(problem), "{problem}: {finding}");
        assert!(
            finding.ends_with("|poolctl secret create cloud --from-file=KEY=FILE"),
            "{finding}"
        );
    }
}

#[test]
fn a_cache_that_cannot_be_made_is_missing_setup() {
    let lab = lab_to_be_checked(VSPHERE);
    let site = "proxy: {httpsProxy: 'http://localhost:3128'}";
    fs::write(lab.bin("file"), "").unwrap();
    let cache = lab.bin("file").join("cache").display().to_string();
    lab.add_to_settings("spec:\n", &format!("  site: {{{site}, cacheDirectory: {cache}}}\n"));
    let finding = finding_of_step(&lab, "image cache");
    assert!(finding.starts_with("failed|") && finding.contains("cacheDirectory"), "{finding}");
    lab.sandbox.ok("pool scale lab --size 1 -q");
    lab.wait_until("degraded", |lab| lab.pool_condition("Degraded") == "True SetupMissing");
    assert!(lab.infrastructure().is_empty());
}

#[test]
fn without_an_image_set_no_installer_is_extracted() {
    let lab = Lab::new();
    lab.install_oc();
    let manifest = pool("lab", &VSPHERE.replace("vcenter.example.com", "localhost"), "");
    let manifest = manifest.replace("size: 1", "size: 0").replace("{name: ocp}", "{name: gone}");
    apply(&lab.sandbox, &manifest);
    for step in ["release", "platform"] {
        let finding = finding_of_step(&lab, step);
        assert!(finding.starts_with("skipped|"), "{finding}");
    }
    assert!(!lab.bin("extracted").exists());
}

#[test]
fn a_secret_that_the_settings_name_is_looked_for() {
    let lab = lab_to_be_checked(VSPHERE);
    let site = "proxy: {httpsProxy: 'http://localhost:3128'}, \
                additionalCertificateAuthorities: [{name: gone, namespace: hive}]";
    lab.add_to_settings("spec:\n", &format!("  site: {{{site}}}\n"));
    let finding = finding_of_step(&lab, "site");
    assert!(finding.starts_with("failed|Secret `hive/gone` of the Settings"), "{finding}");
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
        let annotations = format!("  annotations: {{poolctl.dev/driver: 'exec:{name}'}}\n");
        apply(&lab.sandbox, &pool("lab", "{none: {}}", &annotations));
        // Without its tool a driver makes nothing, and uses up no attempt.
        lab.wait_until("degraded", |lab| lab.pool_condition("Degraded") == "True SetupMissing");
        let missing = format!("{tool} is not installed");
        assert!(in_one_line(&lab.sandbox.ok("why pool/lab")).contains(&missing), "{name}");
        let checked = lab.sandbox.run("driver check --pool lab -o json");
        assert!(checked.code == 1 && checked.out.contains(&missing), "{name}: {}", checked.out);
        lab.install_program(tool, &stand_in);
        fs::create_dir(lab.bin("tofu-module")).unwrap();
        let cluster = jsonpath(&lab.sandbox, "cluster", "{.items[0].metadata.name}");
        lab.sandbox.ok(&format!("cluster retry {cluster} -q"));
        lab.wait_until_installed();
        lab.sandbox.ok("pool scale lab --size 0 -q");
        lab.wait_until("gone", |lab| lab.phase().is_empty());
        assert!(lab.infrastructure().is_empty(), "{name}: {:?}", lab.ledger());
        assert!(lab.count_in_ledger("made ") > 0, "{name}: {:?}", lab.ledger());
    }
}
