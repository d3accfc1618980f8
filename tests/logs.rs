//! What drivers print is kept and shown without secrets and in a bounded size, also while they run.
//! A driver goes on printing when its supervisor is gone.

use std::fs;

use crate::lab::{Lab, find_process, pool};
use crate::sandbox::{apply, finish, jsonpath};

/// How many bytes the log of a job may take on the disk.
const LARGEST_LOG: u64 = 64 << 20;
/// The part of a driver that leaves what every cluster must have.
const MAKE_A_CLUSTER: &str = "
    echo 'clusters: []' > saved/.kubeconfig; mv saved/.kubeconfig saved/kubeconfig
    echo '{}' > saved/.metadata.json; mv saved/.metadata.json saved/metadata.json
    echo '{\"infraID\": \"x\"}' > result
";

/// A lab whose clusters are made by this script. Its function `wait_for_us` waits until the test
/// calls `go_on`.
fn lab_with_driver(script: &str) -> Lab {
    let lab = Lab::new();
    let program = format!(
        "#!/bin/sh\nset -e\n[ \"$1\" = provision ] || exit 0\nhere=$(dirname \"$0\")\n\
         wait_for_us() {{ while [ ! -e \"$here/go_on\" ]; do sleep 0.1; done; }}\n{script}\n"
    );
    lab.sandbox.write_script("bin/poolctl-driver-talker", &program);
    let annotations = "  annotations: {poolctl.dev/driver: 'exec:talker'}\n";
    apply(&lab.sandbox, &pool("lab", "{none: {}}", annotations));
    lab
}

fn go_on(lab: &Lab) {
    fs::write(lab.bin("go_on"), "").unwrap();
}

fn cluster_name(lab: &Lab) -> String {
    jsonpath(&lab.sandbox, "cluster", "{.items[0].metadata.name}")
}

fn job_logs(lab: &Lab) -> String {
    lab.sandbox.ok(&format!("job logs {}", cluster_name(lab)))
}

/// Files of the lab with one of these words in them; the driver itself is left out.
fn files_with_words(lab: &Lab, words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("-e '{word}'")).collect();
    let search = format!("grep -rla {} --exclude-dir=bin $HOME; true", words.join(" "));
    lab.sandbox.shell(&search).out
}

/// How many bytes the folders of all jobs have.
fn size_of_jobs(lab: &Lab) -> u64 {
    let size = lab.sandbox.shell("du -sb $HOME/jobs | cut -f1").out;
    size.trim().parse().unwrap()
}

#[test]
fn a_password_that_a_running_driver_prints_is_nowhere() {
    let lab = lab_with_driver(
        r#"
        [ ! -e "$here/printed" ] || exec sleep 60
        echo "level=info msg=\"asks http://user:HUNTER-2@proxy.example.com:3128 first\""
        echo '{"httpsProxy": "http:\/\/user:HUNTER-2@proxy", "noProxy": "a@b"}' >&2
        echo "httpsProxy: 'https://user:HUNTER%2D2@proxy'"
        echo "HTTPS_PROXY=user:HUNTER-2@proxy"
        printf 'writes http://user:HUNT'; sleep 0.3; echo 'ER-2@proxy in pieces'
        printf 'sends CANARY-pull'; sleep 0.3; echo '-secret to it'
        touch "$here/printed"
        wait_for_us
        echo '{"message": "no way through http://user:HUNTER-2@proxy"}' > result
        exit 1
        "#,
    );
    lab.wait_until("printed", |lab| job_logs(lab).contains("to it"));
    let shown = job_logs(&lab);
    for line in [
        "asks http://user:(hidden)@proxy.example.com:3128 first",
        r#"{"httpsProxy": "http:\/\/user:(hidden)@proxy", "noProxy": "a@b"}"#,
        "httpsProxy: 'https://user:(hidden)@proxy'",
        "HTTPS_PROXY=user:(hidden)@proxy",
        "writes http://user:(hidden)@proxy in pieces",
        "sends (hidden) to it",
    ] {
        assert!(shown.contains(line), "{line} is not in {shown}");
    }
    // The driver goes on, and no password that it printed is in its folder or in the state.
    lab.sandbox.ok("reconcile -q");
    assert_eq!(lab.phase(), "Installing");
    assert_eq!(files_with_words(&lab, &["HUNT", "2@proxy"]), "");
    let log = lab.sandbox.shell("cat $HOME/jobs/*/log").out;
    assert!(log.contains("sends (hidden)") && !log.contains("CANARY"), "{log}");
    // The reason that it leaves for its failure is shown, too, without the password.
    go_on(&lab);
    let reason = "no way through http://user:(hidden)@proxy";
    lab.wait_until("failed", |lab| lab.sandbox.ok("events").contains(reason));
    let cluster = cluster_name(&lab);
    let everything = lab.sandbox.shell(&format!(
        "for what in events 'get cluster,job -A -o yaml' 'describe cluster {cluster}' status \
         'why cluster/{cluster}' 'cluster logs {cluster}' 'job list --all -o yaml' export; do \
         poolctl $what; done 2>&1"
    ));
    assert!(everything.out.contains(reason), "{}", everything.out);
    assert!(!everything.out.contains("HUNT"), "{}", everything.out);
    assert_eq!(files_with_words(&lab, &["HUNT", "2@proxy"]), "");
    lab.delete_clusters();
}

#[test]
fn a_driver_that_prints_without_end_fills_no_disk() {
    let lab = lab_with_driver(
        "
        echo the first line
        yes 'and so on, and so on' | head -c 90000000
        echo the last line
        touch $here/printed
        sleep 60
        ",
    );
    lab.wait_until("printed", |lab| {
        assert!(size_of_jobs(lab) <= LARGEST_LOG + (1 << 20), "{}", size_of_jobs(lab));
        lab.bin("printed").exists()
    });
    lab.wait_until("logged", |lab| job_logs(lab).ends_with("the last line\n"));
    assert_eq!(lab.phase(), "Installing");
    assert!(size_of_jobs(&lab) <= LARGEST_LOG + (1 << 20), "{}", size_of_jobs(&lab));
    // The log says how much was left out, and keeps as much as it may.
    let shown = job_logs(&lab);
    let (beginning, end) = shown.split_once(" bytes left out:").unwrap();
    let (beginning, left_out) = beginning.rsplit_once("\n[").unwrap();
    assert!(beginning.starts_with("$ poolctl-driver-talker provision\nthe first line\nand so on"));
    assert!(beginning.len() + end.len() > 40_000_000);
    let printed = beginning.len() + end.len() + left_out.parse::<usize>().unwrap();
    assert!((90_000_000..90_001_000).contains(&printed), "{printed}");
    lab.delete_clusters();
}

#[test]
fn logs_are_followed_to_the_end_of_the_job() {
    let lab = lab_with_driver(&format!(
        "i=0; while [ $i -lt 20 ]; do echo line $i; i=$((i + 1)); sleep 0.1; done
        {MAKE_A_CLUSTER} echo done"
    ));
    lab.wait_until("begun", |lab| job_logs(lab).contains("line 0"));
    let ran = finish(lab.sandbox.start(&format!("job logs -f {}", cluster_name(&lab))));
    let mut expected = vec!["$ poolctl-driver-talker provision".to_owned()];
    expected.extend((0..20).map(|number| format!("line {number}")));
    expected.push("done".to_owned());
    assert_eq!(ran.out.lines().collect::<Vec<_>>(), expected, "{}", ran.err);
    lab.wait_until_installed();
    lab.delete_clusters();
}

#[test]
fn a_driver_whose_supervisor_is_killed_prints_on_and_ends_by_itself() {
    let lab = lab_with_driver(&format!(
        "
        if [ ! -e $here/begun ]; then
            touch $here/begun
            wait_for_us
            yes 'and so on' | head -c 1000000
            touch $here/survived
            exit 0
        fi
        {MAKE_A_CLUSTER}"
    ));
    lab.wait_until("begun", |lab| lab.bin("begun").exists());
    let supervisor = find_process(&lab, "__supervise").unwrap();
    lab.sandbox.shell(&format!("kill -9 {supervisor}"));
    lab.sandbox.ok("reconcile -q");
    assert_eq!(lab.phase(), "Installing", "its driver works and holds the lock");
    go_on(&lab);
    lab.wait_until("survived", |lab| lab.bin("survived").exists());
    // The outcome is not known: what the driver made is cleaned up, and made again.
    lab.wait_until_installed();
    assert!(lab.sandbox.ok("events").contains("the supervisor of the job is gone"));
    lab.delete_clusters();
    lab.wait_until("alone", |lab| find_process(lab, "__drain").is_none());
}

#[test]
fn a_program_that_a_driver_leaves_running_prints_on_when_the_job_is_over() {
    let lab = lab_with_driver(&format!(
        "
        (
            eval \"exec $POOLCTL_LOCK_FD>&-\"
            wait_for_us
            yes 'and so on' | head -c 1000000
            touch $here/survived
        ) &
        {MAKE_A_CLUSTER}"
    ));
    lab.wait_until_installed();
    assert!(!lab.bin("survived").exists());
    go_on(&lab);
    lab.wait_until("survived", |lab| lab.bin("survived").exists());
    lab.delete_clusters();
    lab.wait_until("alone", |lab| find_process(lab, "__drain").is_none());
}
