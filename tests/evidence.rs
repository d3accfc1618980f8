//! What a failed installation leaves is kept for whoever looks for its cause: bounded, without
//! secrets, and in no way that leads out of it. What only tries something out leaves nothing.

use std::fs;

use crate::lab::{CANARY, Lab, TEMPLATED, VSPHERE, pool};
use crate::sandbox::{apply, finish, jsonpath, pause};

/// A cluster by hand, whose machines can be looked at with a key.
const WITH_KEY: &str = r"
apiVersion: v1
kind: Secret
metadata: {name: install-config, namespace: hand}
stringData:
  install-config.yaml: |
    {apiVersion: v1, baseDomain: example.com, metadata: {name: hand}, platform: {vsphere: {network: machines}}}
---
apiVersion: v1
kind: Secret
metadata: {name: vsphere, namespace: hand}
stringData: {username: admin@vsphere.local, password: CANARY-vsphere-password}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: hand}
stringData: {ssh-privatekey: THE-KEY}
---
apiVersion: hive.openshift.io/v1
kind: ClusterDeployment
metadata: {name: hand, namespace: hand}
spec:
  clusterName: hand
  baseDomain: example.com
  installAttemptsLimit: 1
  platform: {vsphere: {vCenter: vcenter.example.com, datacenter: lab, defaultDatastore: fast,
    cluster: lab, folder: lab, network: machines,
    credentialsSecretRef: {name: vsphere}, certificatesSecretRef: {name: vsphere}}}
  provisioning:
    imageSetRef: {name: ocp}
    installConfigSecretRef: {name: install-config}
    sshPrivateKeySecretRef: {name: key}
";

/// The head of a driver, whose folder of programs is `$here`.
const HEAD: &str = "#!/bin/sh\nhere=$(dirname \"$0\")\n";

/// A lab with the pool `lab` of so many clusters, whose driver does this at its verbs.
fn lab_with_driver(script: &str, size: usize) -> Lab {
    let lab = Lab::new();
    lab.install_program("poolctl-driver-own", &format!("{HEAD}{script}"));
    let annotations = "  annotations: {poolctl.dev/driver: 'exec:own'}\n";
    let pool = pool("lab", "{none: {}}", annotations);
    apply(&lab.sandbox, &pool.replace("size: 1", &format!("size: {size}")));
    lab
}

/// What a script prints, of which a failure is no error.
fn shell(lab: &Lab, script: &str) -> String {
    lab.sandbox.shell(&format!("{script}; true")).out
}

/// The name of the first cluster.
fn first_cluster(lab: &Lab) -> String {
    jsonpath(&lab.sandbox, "cluster", "{.items[0].metadata.name}")
}

/// Waits until the evidence of a job has a file with this name.
fn wait_for_evidence(lab: &Lab, name: &str) {
    lab.wait_until(&format!("kept: {name}"), |lab| {
        shell(lab, "find $HOME/jobs -path '*/evidence/*'").contains(name)
    });
}

#[test]
fn the_evidence_of_a_failed_attempt_is_kept_and_handed_out_without_secrets() {
    let lab = Lab::new();
    lab.set_cloud("bootstrap: fails");
    apply(&lab.sandbox, WITH_KEY);
    wait_for_evidence(&lab, "log-bundle");
    lab.wait_until("over", |lab| lab.sandbox.ok("cluster logs hand -n hand").contains("failed"));
    // What the installer could not reach by itself is fetched with the cluster's key.
    assert_eq!(lab.count_in_ledger("gathered with THE-KEY"), 1, "{:?}", lab.ledger());
    let logs = lab.sandbox.run("cluster logs hand -n hand");
    assert!(logs.err.contains("poolctl cluster logs hand --attempt 1 --bundle"), "{}", logs.err);
    let logs = lab.sandbox.run("job logs hand");
    assert!(logs.err.contains("/evidence"), "{}", logs.err);
    let shown = lab.sandbox.ok("get job hand -o json");
    assert!(shown.contains("/evidence/log-bundle-20260302120000.tar.gz"), "{shown}");
    let bundle = lab.sandbox.path().join("bundle").display().to_string();
    let copy = format!("cluster logs hand -n hand --attempt 1 --bundle {bundle}");
    let copied = lab.sandbox.ok(&copy);
    for name in [
        "log-bundle-20260302120000.tar.gz",
        ".openshift_install.log",
        ".clusterapi_output/Cluster.yaml",
        "install-config.yaml",
        "/log",
    ] {
        assert!(copied.contains(name), "{name}: {copied}");
    }
    assert_eq!(shell(&lab, &format!("grep -rl -e {CANARY} -e THE-KEY {bundle}")), "");
    assert_eq!(shell(&lab, &format!("find {bundle} $HOME/jobs ! -type l -perm /077")), "");
    // The copies are not mixed with anything.
    lab.sandbox.refused(4, &copy, "is not empty");
    // They are no less there when the cluster is gone.
    fs::remove_dir_all(&bundle).unwrap();
    lab.sandbox.ok("delete cluster hand -n hand -y -q");
    lab.wait_until("gone", |lab| !lab.sandbox.ok("get cluster -A --no-headers").contains("hand"));
    lab.sandbox.ok(&copy);
    assert!(fs::exists(format!("{bundle}/.openshift_install.log")).unwrap());
    lab.assert_balanced();
}

#[test]
fn the_key_of_a_pool_is_given_to_its_clusters() {
    let lab = Lab::new();
    lab.set_cloud("bootstrap: fails");
    let annotated = "metadata: {name: lab, annotations: {poolctl.dev/ssh-key: key}}";
    let pool = pool("lab", VSPHERE, TEMPLATED).replace("metadata: {name: lab}", annotated);
    lab.sandbox.run(&format!("apply -f {}", lab.sandbox.write_file("pool.yaml", &pool)));
    let why = lab.sandbox.ok("why pool/lab");
    assert!(why.contains("SSH key secret"), "{why}");
    apply(
        &lab.sandbox,
        "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {ssh-privatekey: THE-KEY}\n",
    );
    lab.wait_until("gathered", |lab| lab.count_in_ledger("gathered with THE-KEY") > 0);
    wait_for_evidence(&lab, "log-bundle");
}

#[test]
fn without_a_key_the_log_says_why_no_bundle_is_fetched() {
    let lab = Lab::new();
    lab.set_cloud("bootstrap: fails");
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    wait_for_evidence(&lab, ".openshift_install.log");
    assert_eq!(lab.count_in_ledger("begin gather"), 0);
    let log = shell(&lab, "cat $HOME/jobs/*/log");
    assert!(log.contains("spec.provisioning.sshPrivateKeySecretRef"), "{log}");
}

#[test]
fn evidence_is_bounded_and_leads_nowhere_else() {
    // A link to a file, one to a folder, a pipe, a secret of its own, no text, and too much.
    let lab = lab_with_driver(
        "case $1 in provision)\n\
         mkdir -p work/.clusterapi_output && cd work\n\
         echo CANARY-elsewhere >\"$here/elsewhere\"\n\
         ln -s \"$here/elsewhere\" .openshift_install.log\n\
         cd .clusterapi_output\n\
         ln -s \"$here\" folder\n\
         mkfifo pipe\n\
         printf 'kind: Secret\\ndata: {a: CANARY-data}\\n---\\nkind: Machine\\n' >Secret.yaml\n\
         printf '\\377\\376CANARY-database' >database\n\
         echo 'password: [' >broken.yaml\n\
         echo 'the machine has no address' >controller.log\n\
         truncate -s 65M ../log-bundle-1.tar.gz\n\
         exit 1;;\nesac\n",
        1,
    );
    wait_for_evidence(&lab, "left-out");
    let evidence = "cd $HOME/jobs/*/evidence";
    let files = shell(&lab, &format!("{evidence} && find . ! -type d | sort"));
    let expected = "./.clusterapi_output/Secret.yaml\n./.clusterapi_output/controller.log\n\
        ./install-config.yaml\n./left-out\n";
    assert_eq!(files, expected);
    assert_eq!(shell(&lab, &format!("{evidence} && grep -r CANARY .")), "");
    assert!(shell(&lab, &format!("{evidence} && cat .cluster*/Secret.yaml")).contains("Machine"));
    let left_out = shell(&lab, &format!("{evidence} && cat left-out"));
    for name in ["install.log", "folder", "pipe", "database", "broken.yaml", "log-bundle-1.tar.gz"]
    {
        assert!(left_out.contains(name), "{name}: {left_out}");
    }
}

#[test]
fn the_last_three_failed_attempts_of_a_pool_keep_their_evidence() {
    let lab = lab_with_driver(
        "case $1 in provision) echo '{\"a\": 1}' >saved/metadata.json\n\
         echo \"attempt $POOLCTL_ATTEMPT\" >work/.openshift_install.log; exit 1;; esac\n",
        1,
    );
    let kept_logs = "cat $HOME/jobs/*/evidence/.openshift_install.log | sort";
    for attempt in 1..=4 {
        lab.wait_until(&format!("attempt {attempt}"), |lab| {
            let is_kept = shell(lab, kept_logs).contains(&format!("attempt {attempt}\n"));
            if !is_kept {
                let clusters = lab.sandbox.run("get cluster -qo name").out;
                lab.sandbox.run(&format!("cluster retry {} -q", clusters.trim()));
            }
            is_kept
        });
    }
    lab.wait_until("removed", |lab| !shell(lab, kept_logs).contains("attempt 1\n"));
    let logs = shell(&lab, kept_logs);
    assert_eq!(logs, "attempt 2\nattempt 3\nattempt 4\n");
    // The logs of jobs stay, and tell of what is not kept any more.
    let cluster = first_cluster(&lab);
    let bundle = lab.sandbox.path().join("bundle").display().to_string();
    let copy = format!("cluster logs {cluster} --attempt 1 --bundle {bundle}");
    lab.sandbox.refused(3, &copy, "something is kept of attempt 2, 3, 4");
}

#[test]
fn a_driver_of_ones_own_reaches_the_world_as_the_site_says() {
    let lab = Lab::new();
    lab.add_to_settings(
        "spec:\n",
        "  site:\n    proxy: {httpsProxy: 'http://proxy.example.com:3128', noProxy: .example.com}\n    \
         trustBundle: |\n      -----BEGIN CERTIFICATE-----\n      LAB-AUTHORITY\n      \
         -----END CERTIFICATE-----\n",
    );
    let script = "case $1 in describe) echo '{\"contract\": 2, \"verbs\": [\"check\"]}' >result; exit;; esac\n\
        echo \"$1 $HTTPS_PROXY $https_proxy $NO_PROXY $(grep -c LAB-AUTHORITY \"$SSL_CERT_FILE\")\" >>\"$here/seen\"\n\
        exit 1\n";
    lab.install_program("poolctl-driver-own", &format!("{HEAD}{script}"));
    let annotations = "  annotations: {poolctl.dev/driver: 'exec:own'}\n";
    apply(&lab.sandbox, &pool("lab", "{none: {}}", annotations));
    lab.sandbox.run("driver check --pool lab");
    let proxy = "http://proxy.example.com:3128";
    for verb in ["check", "provision"] {
        lab.wait_until(verb, |lab| {
            let seen = fs::read_to_string(lab.bin("seen")).unwrap_or_default();
            seen.contains(&format!("{verb} {proxy} {proxy} .example.com 1\n"))
        });
    }
}

/// A driver whose check leaves a process in a session of its own behind, whose number it writes to
/// `left`.
const LEAVES_A_PROCESS: &str = "case $1 in\ndescribe) echo '{\"contract\": 2, \"verbs\": [\"check\"]}' >result;;\n\
    check) setsid sleep 300 & echo $! >\"$here/left\"; HOW;;\nesac\n";

/// Waits until the process that a check left behind is gone, and the folder of the trial, too.
fn wait_until_nothing_is_left(lab: &Lab, when: &str) {
    let left_over = "kill -0 $(cat $HOME/bin/left) 2>/dev/null && echo process\n\
        find $HOME -name '.trial-*'";
    for _ in 0..100 {
        if shell(lab, left_over).is_empty() {
            return;
        }
        pause(100);
    }
    panic!("left after {when}: {}", shell(lab, left_over));
}

#[test]
fn a_trial_that_is_killed_or_interrupted_leaves_no_process_and_no_trace() {
    for signal in ["KILL", "TERM"] {
        let script = LEAVES_A_PROCESS.replace("HOW", "sleep 300");
        let lab = lab_with_driver(&script, 0);
        let before = lab.sandbox.ok("export");
        let check = lab.sandbox.start("driver check --pool lab");
        for _ in 0..100 {
            if fs::read_to_string(lab.bin("left")).is_ok_and(|left| left.ends_with('\n')) {
                break;
            }
            pause(100);
        }
        let was_running = shell(&lab, "kill -0 $(cat $HOME/bin/left) && echo yes");
        assert_eq!(was_running, "yes\n", "{signal}");
        shell(&lab, &format!("kill -{signal} {}", check.id()));
        finish(check);
        wait_until_nothing_is_left(&lab, signal);
        assert_eq!(lab.sandbox.ok("export"), before, "{signal}: nothing is written to the state");
    }
}

#[test]
fn a_trial_ends_what_its_program_leaves_behind() {
    let lab = lab_with_driver(&LEAVES_A_PROCESS.replace("HOW", "exit 0"), 0);
    let checked = lab.sandbox.run("driver check --pool lab");
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
    wait_until_nothing_is_left(&lab, "the check");
}
