//! Jobs that fail, are killed or hang at every step. The stand-in for openshift-install keeps a
//! ledger: nothing may be begun twice, and what was made must be destroyed.

use crate::lab::{Lab, TEMPLATED, VSPHERE, find_process, pool};
use crate::sandbox::{apply, has_program, is_met_or_skipped, is_root};

#[test]
fn exit_codes_are_told_as_reasons_and_failures_are_cleaned_up() {
    // What the stand-in does at which step, and the reason that people are told.
    for (behaviour, message) in [
        ("create-cluster: exit 4\nwait-for: exit 5", "the infrastructure could not be created"),
        ("after-create-cluster: exit 6\nwait-for: exit 6", "operators did not come up"),
        ("create-ignition-configs: exit 42", "it failed (exit code 42): asked to fail"),
        ("create-manifests: exit 3", "the install-config is not valid"),
        ("create-manifests: die", "exit code 137"),
    ] {
        let lab = Lab::new();
        lab.set_behaviour(behaviour);
        apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
        lab.wait_until(message, |lab| lab.sandbox.ok("events").contains(message));
        lab.set_behaviour("");
        // The cluster is given up, or tried again later. Nobody has to wait for that.
        lab.sandbox.ok("customization reset foo -q");
        let retry =
            "for c in $(poolctl get cluster -qo name); do poolctl cluster retry $c -q; done";
        lab.sandbox.shell(retry);
        lab.wait_until_installed();
        lab.delete_clusters();
    }
}

#[test]
fn an_installation_that_took_too_long_is_waited_for_once_more() {
    let lab = Lab::new();
    // The installer waits for a time of its own; often the cluster comes up soon after.
    lab.set_behaviour("after-create-cluster: exit 6");
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    lab.wait_until_installed();
    assert_eq!(lab.ledger().iter().filter(|line| line.starts_with("begin wait-for")).count(), 1);
    lab.delete_clusters();
}

#[test]
fn a_supervisor_or_installer_that_is_killed_is_made_good_by_the_next_pass() {
    for (program, step) in [
        ("__supervise", "create-cluster"),
        ("openshift-install", "create-cluster"),
        ("openshift-install", "create-ignition-configs"),
        ("__supervise", "create-manifests"),
    ] {
        let lab = Lab::new();
        lab.set_behaviour(&format!("{step}: hang\nafter-{step}: hang"));
        apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
        let begin = format!("begin {step} ");
        lab.wait_until(&begin, |lab| lab.ledger().iter().any(|line| line.starts_with(&begin)));
        let victim =
            find_process(&lab, program).unwrap_or_else(|| panic!("no {program} at {step}"));
        lab.set_behaviour("");
        lab.sandbox.shell(&format!("kill -9 {victim}"));
        if program == "__supervise" {
            // The installer goes on and holds the lock: the job counts as running.
            lab.sandbox.ok("reconcile -q");
            assert_eq!(lab.phase(), "Installing", "{step}");
            let installer = find_process(&lab, "openshift-install").unwrap();
            lab.sandbox.shell(&format!("kill -9 {installer}"));
        }
        if step == "create-ignition-configs" {
            // Nothing was made: that uses up no attempt, and the next one waits for a minute.
            lab.wait_until("paused", |lab| {
                lab.sandbox.ok("events").contains("InstallationsPaused")
            });
            let cluster = lab.sandbox.ok("get cluster -qo name");
            lab.sandbox.ok(&format!("cluster retry {} -q", cluster.trim()));
        }
        lab.wait_until_installed();
        lab.delete_clusters();
    }
}

#[test]
fn a_cluster_that_is_deleted_while_it_installs_takes_its_programs_along() {
    // An installer that does not listen to signals, one that hangs, and one that leaves a child.
    for behaviour in
        ["create-cluster: deaf", "after-create-cluster: hang", "create-cluster: leak 30"]
    {
        let lab = Lab::new();
        lab.set_behaviour(behaviour);
        apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
        lab.wait_until("begun", |lab| {
            lab.ledger().iter().any(|line| line.contains("create-cluster"))
        });
        lab.set_behaviour("");
        lab.delete_clusters();
        assert_eq!(find_process(&lab, "create"), None, "{behaviour}");
    }
}

#[test]
fn many_passes_at_once_begin_a_job_once() {
    let lab = Lab::new();
    // The job must still be running when the last of the passes looks.
    lab.set_behaviour("create-manifests: sleep 300");
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED).replace("size: 1", "size: 0"));
    let mut commands = vec!["pool scale lab --size 1 -q"];
    commands.extend(["reconcile -q"; 12]);
    lab.sandbox.run_together(&commands);
    lab.wait_until_installed();
    lab.delete_clusters();
}

#[test]
fn a_job_past_its_deadline_is_ended_with_its_programs() {
    let lab = Lab::new();
    lab.set_behaviour("create-cluster: hang");
    let deadline = "  annotations: {poolctl.dev/install-timeout: 2s}\n";
    apply(&lab.sandbox, &pool("lab", VSPHERE, &format!("{TEMPLATED}{deadline}")));
    lab.wait_until("late", |lab| lab.sandbox.ok("events").contains("not finished after"));
    lab.set_behaviour("");
    lab.wait_until("ended", |lab| find_process(lab, "create").is_none());
    lab.delete_clusters();
}

#[test]
fn a_pass_that_is_killed_anywhere_begins_a_job_once() {
    if !is_met_or_skipped(has_program("strace"), "nobody can be killed at a system call") {
        return;
    }
    let mut fired = 0;
    // The calls that make the folder of a job and start its supervisor. By which of them a program
    // is started depends on the machine, so not all of them occur.
    for (call, at) in [
        ("mkdir", 2),
        ("mkdir", 4),
        ("rename", 1),
        ("fsync", 3),
        ("fsync", 6),
        ("clone3", 1),
        ("vfork", 1),
        ("clone", 1),
        ("unlink", 1),
    ] {
        let lab = Lab::new();
        apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED).replace("size: 1", "size: 0"));
        let script = format!(
            "strace -qq -o /dev/null -e trace={call} -e inject={call}:signal=KILL:when={at} poolctl pool scale lab --size 1 -q"
        );
        fired += usize::from(lab.sandbox.shell(&script).code == 137);
        lab.sandbox.ok("pool scale lab --size 1 -q");
        lab.wait_until_installed();
        lab.delete_clusters();
    }
    assert!(fired >= 4, "{fired}");
}

#[test]
fn a_supervisor_that_is_killed_anywhere_begins_an_attempt_once() {
    if !is_met_or_skipped(has_program("strace"), "nobody can be killed at a system call") {
        return;
    }
    let mut fired = 0;
    for (call, at) in [
        ("setsid", 1),
        ("flock", 1),
        ("fsync", 1),
        ("fsync", 2),
        ("fcntl", 1),
        ("rename", 1),
        ("rename", 2),
        ("fsync", 5),
    ] {
        let lab = Lab::new();
        apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED).replace("size: 1", "size: 0"));
        // The pass is killed when it would start the supervisor: there is a folder, and no program.
        for start in ["clone3", "vfork", "clone"] {
            let script = format!(
                "strace -qq -o /dev/null -e trace={start} -e inject={start}:signal=KILL:when=1 poolctl pool scale lab --size 1 -q"
            );
            if lab.sandbox.shell(&script).code == 137 {
                break;
            }
        }
        let script = format!(
            "for job in $HOME/jobs/*; do strace -qq -o /dev/null -e trace={call} -e inject={call}:signal=KILL:when={at} \
             poolctl __supervise $job; done"
        );
        fired += usize::from(lab.sandbox.shell(&script).code == 137);
        lab.wait_until_installed();
        lab.delete_clusters();
    }
    assert!(fired >= 4, "{fired}");
}

#[test]
fn an_order_for_an_unknown_driver_fails_and_openshift_install_is_not_started() {
    let lab = Lab::new();
    let job = lab.sandbox.path().join("job");
    std::fs::create_dir(&job).unwrap();
    std::fs::write(job.join("order.json"), "{\"driver\": \"no-such-driver\"}").unwrap();
    lab.sandbox.ok(&format!("__supervise {}", job.display()));
    let outcome = std::fs::read_to_string(job.join("outcome")).unwrap();
    assert!(outcome.contains("unknown driver `no-such-driver`"), "{outcome}");
    assert!(outcome.contains("failed") && lab.ledger().is_empty(), "{outcome}");
}

#[test]
fn an_older_backup_finds_what_became_of_its_job() {
    let lab = Lab::new();
    lab.set_behaviour("create-cluster: sleep 1500");
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    let backup = lab.sandbox.path().join("backup.db").display().to_string();
    lab.sandbox.ok(&format!("backup {backup}"));
    lab.wait_until_installed();
    // To the backup the job is still running. Its folder says how it ended.
    lab.sandbox.ok(&format!("restore {backup} -y"));
    lab.wait_until_installed();
    assert_eq!(lab.ledger().iter().filter(|line| line.starts_with("made ")).count(), 1);
    lab.delete_clusters();
}

/// A state that was restored from such a backup could not destroy what was being made.
#[test]
fn a_backup_has_what_destroys_the_clusters_that_were_being_made() {
    let lab = Lab::new();
    lab.set_behaviour("create-cluster: hang");
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    // No pass collects what the job saves.
    let script = "for try in $(seq 100); do
                      ls $HOME/jobs/*/saved/metadata.json && break; sleep 0.1
                  done";
    let ran = lab.sandbox.shell(script);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let secrets = "get secret -A -o name";
    assert!(!lab.sandbox.ok(secrets).contains("-metadata-json"));
    let backup = lab.sandbox.path().join("backup.db").display().to_string();
    lab.sandbox.ok(&format!("backup {backup}"));
    let kept = lab.sandbox.ok(&format!("--state {backup} {secrets}"));
    assert!(kept.contains("-metadata-json"), "{kept}");
    lab.set_behaviour("");
    lab.delete_clusters();
}

#[test]
fn a_full_disk_under_the_jobs_is_survived() {
    if !is_met_or_skipped(is_root(), "only root can mount a small disk") || !has_program("unshare")
    {
        return;
    }
    let lab = Lab::new();
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED).replace("size: 1", "size: 0"));
    // The disk is full after a few files, until it is made larger.
    let script = "exec unshare -m sh -ec '
        mkdir -p $HOME/jobs; mount -t tmpfs -o size=48k none $HOME/jobs
        poolctl pool scale lab --size 1 -q || true
        for pass in 1 2 3 4 5 6; do poolctl reconcile -q || true; sleep 0.3; done
        poolctl events
        mount -o remount,size=64m $HOME/jobs
        poolctl customization reset foo -q
        for pass in $(seq 100); do
            poolctl reconcile -q; sleep 0.2
            ! poolctl get cluster --no-headers | grep -q Installed || break
        done
        poolctl get cluster; poolctl pool scale lab --size 0 -q
        for pass in $(seq 100); do
            poolctl reconcile -q; sleep 0.1
            [ -n \"$(poolctl get cluster -o name)\" ] || break
        done
        poolctl get cluster -o name'";
    let ran = lab.sandbox.shell(script);
    assert!(ran.out.contains("Installed"), "{}{}", ran.out, ran.err);
    assert!(
        ran.out.contains("No space left")
            || ran.err.contains("No space left")
            || ran.out.contains("failed"),
        "{}{}",
        ran.out,
        ran.err
    );
    lab.assert_balanced();
}

#[test]
fn a_job_whose_folder_is_gone_is_not_begun_again() {
    let lab = Lab::new();
    lab.set_behaviour("after-create-cluster: hang");
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    lab.wait_until("made", |lab| lab.ledger().iter().any(|line| line.starts_with("made ")));
    // The state knows of the infrastructure: whatever becomes of the folder, the job was begun.
    lab.wait_until("known", |lab| {
        lab.sandbox.ok("get secret -A -o name").contains("metadata-json")
    });
    let supervisor = find_process(&lab, "__supervise").unwrap();
    let installer = find_process(&lab, "create").unwrap();
    lab.sandbox.shell(&format!("kill -9 {supervisor} {installer}; rm -rf $HOME/jobs"));
    lab.set_behaviour("");
    lab.wait_until_installed();
    let events = lab.sandbox.ok("events");
    assert!(events.contains("the folder of the job is gone"), "{events}");
    lab.delete_clusters();
}

#[test]
fn a_supervisor_that_is_held_up_is_ended_by_force() {
    let lab = Lab::new();
    lab.set_behaviour("create-cluster: hang");
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    lab.wait_until("begun", |lab| lab.ledger().iter().any(|line| line.contains("create-cluster")));
    let supervisor = find_process(&lab, "__supervise").unwrap();
    lab.sandbox.shell(&format!("kill -STOP {supervisor}"));
    lab.set_behaviour("");
    lab.sandbox.ok("pool scale lab --size 0 -q");
    assert!(find_process(&lab, "create").is_some());
    // It was asked to end, and has not answered for a minute.
    lab.sandbox.shell("touch -d '1 minute ago' $HOME/jobs/*/cancel");
    lab.delete_clusters();
    assert_eq!(find_process(&lab, "create"), None);
}

/// A pass would wait for ever at a FIFO, and by a link or an endless file it would bring in what
/// is not the driver's.
#[test]
fn files_that_drivers_leave_hang_no_pass_and_count_only_if_they_are_usable() {
    for (script, message) in [
        ("exit 0", "the driver saved no kubeconfig"),
        (
            "mkfifo saved/kubeconfig saved/metadata.json result log2",
            "the driver saved no kubeconfig",
        ),
        ("ln -s /etc/passwd saved/kubeconfig; echo {} > saved/metadata.json", "no kubeconfig"),
        ("truncate -s 1G saved/kubeconfig; echo {} > saved/metadata.json", "no kubeconfig"),
        ("echo 'clusters: []' > saved/kubeconfig", "the driver saved no metadata.json"),
        (
            "echo 'users: [{user: {exec: {command: /bin/evil}}}]' > saved/kubeconfig
            echo {} > saved/metadata.json",
            "kubeconfig",
        ),
        (
            "printf garbage > saved/kubeconfig; echo {} > saved/metadata.json",
            "kubeconfig: it is no YAML mapping",
        ),
        (": > saved/kubeconfig; echo {} > saved/metadata.json", "kubeconfig: it is empty"),
        ("echo '{\"infraID\": 7' > result", "the result of the driver cannot be read"),
        ("echo '{\"hopeless\": true, \"message\": \"no\"}' > result; exit 9", "no"),
    ] {
        let lab = Lab::new();
        let driver = format!("#!/bin/sh\n[ $1 = provision ] || exit 0\n{script}\n");
        lab.sandbox.write_script("bin/poolctl-driver-odd", &driver);
        let exec = "  annotations: {poolctl.dev/driver: 'exec:odd'}\n";
        apply(&lab.sandbox, &pool("lab", "{none: {}}", exec));
        lab.wait_until(&format!("provision failed: {message}"), |lab| {
            let events = lab.sandbox.ok("events");
            events.contains("provision failed: ") && events.contains(message)
        });
        lab.delete_clusters();
    }
}

/// A lock lasts as long as any process has its file open: a job that inherited the one of cron
/// would keep every later pass away.
#[test]
fn a_job_keeps_no_file_open_that_the_command_before_it_had() {
    let lab = Lab::new();
    lab.set_behaviour("create-cluster: hang");
    // As in a crontab: one pass at a time.
    let path = lab.sandbox.write_file("pool.yaml", &pool("lab", VSPHERE, TEMPLATED));
    let ran = lab.sandbox.shell(&format!(
        "exec 9> $HOME/cron.lock; flock -n 9; poolctl apply -qf {path} --no-reconcile
         flock -n $HOME/other.lock poolctl reconcile -q; flock -n $HOME/other.lock true && echo free
         poolctl reconcile -q; exec 9>&-; flock -n $HOME/cron.lock echo free"
    ));
    assert_eq!(ran.out.matches("free").count(), 2, "{}{}", ran.out, ran.err);
    lab.set_behaviour("");
    lab.delete_clusters();
}
