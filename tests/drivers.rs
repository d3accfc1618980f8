//! Drivers that start programs, under supervision: clusters of openshift-install (a stand-in) and
//! of exec drivers, from their creation to their end.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::lab::{CANARY, Lab, TEMPLATED, VSPHERE, pool};
use crate::sandbox::{apply, jsonpath};

const OPENSTACK: &str = "{openstack: {cloud: lab, credentialsSecretRef: {name: openstack}}}";

#[test]
fn a_vsphere_cluster_is_installed_claimed_and_destroyed_by_openshift_install() {
    let lab = Lab::new();
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    lab.wait_until_installed();
    assert_logs_are_scrubbed(&lab);
    // The whole install-config that the installer read.
    let seen = fs::read_to_string(lab.bin("seen-foo.yaml")).unwrap();
    let expected = "apiVersion: v1\nbaseDomain: example.com\ncompute:\n- name: worker\n  replicas: 2\n\
        controlPlane:\n  name: master\n  replicas: 3\nmetadata:\n  name: foo\nplatform:\n  vsphere:\n    \
        apiVIP: \"10.0.0.10\"\n    datacenter: lab\n    ingressVIP: \"10.0.0.11\"\n    network: machines\n    password: CANARY-vsphere-password\n    \
        username: admin@vsphere.local\n    vCenter: vcenter.example.com\npullSecret: '{\"auths\": {\"q\": {\"auth\": \"CANARY-pull-secret\"}}}'\n";
    let expected = poolctl::yaml::parse_value(expected).unwrap();
    assert_eq!(poolctl::yaml::parse_value(&seen).unwrap(), expected, "{seen}");
    assert!(fs::read_to_string(lab.bin("scheduler-foo.yaml")).unwrap().contains("false"));
    // The cluster can be claimed and used.
    lab.sandbox.ok("claim lab k -q");
    lab.wait_until("claimed", |lab| lab.sandbox.ok("get claim").contains("Running"));
    assert!(lab.sandbox.ok("credentials k").contains("CANARY-kubeadmin"));
    assert!(lab.sandbox.ok("extract secret/pull --to=-").contains(CANARY));
    lab.sandbox.ok("release k -q");
    lab.delete_clusters();
    assert!(lab.ledger().iter().any(|line| line.starts_with("destroyed foo-")));
    assert_no_secret_is_left(&lab);
}

#[test]
fn an_openstack_pool_takes_its_cloud_from_a_file() {
    let lab = Lab::new();
    apply(&lab.sandbox, &pool("lab", OPENSTACK, ""));
    lab.wait_until_installed();
    assert_logs_are_scrubbed(&lab);
    lab.delete_clusters();
    assert_no_secret_is_left(&lab);
}

/// Expects that no secret is shown, and that none is left of clusters that are destroyed.
fn assert_no_secret_is_left(lab: &Lab) {
    assert_no_secret_is_shown(lab);
    assert!(lab.ledger().iter().any(|line| line.starts_with("typed ")));
    assert!(!lab.ledger().iter().any(|line| line.contains(CANARY)), "{:?}", lab.ledger());
    let files = lab.sandbox.shell("grep -rl CANARY $HOME/jobs; true").out;
    assert_eq!(files, "", "the clusters are destroyed");
}

/// Expects that no secret is in anything that commands show, or in the files of a job.
fn assert_no_secret_is_shown(lab: &Lab) {
    let script = "for what in 'get pool,cluster,claim,cdc,secret,settings -A -o yaml' events 'job list --all -o yaml' 'describe pool lab' \
        'pool render lab' status metrics doctor plan 'export'; do poolctl $what; done 2>&1; \
        cat $HOME/jobs/*/log $HOME/jobs/*/outcome $HOME/jobs/*/order.json";
    let shown = lab.sandbox.shell(script).out;
    assert!(shown.len() > 2000 && !shown.contains(CANARY), "{shown}");
}

/// Expects that there are logs as long as there is the cluster, with secrets replaced.
fn assert_logs_are_scrubbed(lab: &Lab) {
    assert_no_secret_is_shown(lab);
    let logs = lab.sandbox.shell("cat $HOME/jobs/*/log").out;
    assert!(logs.contains("password: (hidden)"), "{logs}");
}

#[test]
fn an_installer_of_another_release_is_refused_by_name() {
    let lab = Lab::new();
    fs::write(lab.bin("version"), "4.17.1").unwrap();
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    let message = "the cluster needs the one of example.com/ocp:4.18.3-x86_64";
    lab.wait_until(message, |lab| lab.sandbox.ok("events").contains(message));
}

#[test]
fn logs_can_be_read_and_jobs_killed() {
    let lab = Lab::new();
    lab.set_behaviour("create-cluster: hang");
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    lab.wait_until("begun", |lab| {
        lab.ledger().iter().any(|line| line.starts_with("begin create-cluster"))
    });
    let cluster = jsonpath(&lab.sandbox, "cluster", "{.items[0].metadata.name}");
    let logs = lab.sandbox.ok(&format!("job logs {cluster}"));
    assert!(
        logs.contains("$ openshift-install create cluster") && !logs.contains(CANARY),
        "{logs}"
    );
    lab.set_behaviour("");
    lab.sandbox.ok(&format!("job kill {cluster}"));
    lab.wait_until("cancelled", |lab| {
        lab.sandbox.ok("events").contains("provision was interrupted: cancelled")
    });
    lab.wait_until_installed();
    lab.delete_clusters();
}

#[test]
fn under_a_rehearsed_clock_no_real_job_runs() {
    let mut lab = Lab::new();
    lab.sandbox.set_variable("POOLCTL_NOW", "2026-03-02T12:00:00Z");
    let path = lab.sandbox.write_file("pool.yaml", &pool("lab", VSPHERE, TEMPLATED));
    let ran = lab.sandbox.run(&format!("apply -f {path}"));
    assert!(ran.err.contains("only simulated jobs can run"), "{}", ran.err);
    assert!(lab.ledger().is_empty());
}

#[test]
fn programs_are_looked_at_as_cron_will_see_them() {
    let lab = Lab::new();
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    let poolctl = env!("CARGO_BIN_EXE_poolctl");
    // Nothing of a person's environment: cron sets next to nothing.
    let check =
        lab.sandbox.shell(&format!("env -i POOLCTL_STATE=$POOLCTL_STATE {poolctl} driver check"));
    assert!(check.out.contains("bin/openshift-install"), "{}{}", check.out, check.err);
    assert!(lab.sandbox.ok("driver list").contains("default/lab"));
    lab.wait_until_installed();
    lab.delete_clusters();
}

const EXAMPLE_DRIVER: &str = "examples/driver/poolctl-driver-directory";
/// Lines of the spec of a pool that is driven by it.
const BY_EXAMPLE_DRIVER: &str = "  annotations: {poolctl.dev/driver: 'exec:directory'}\n";

fn power_in_folder(lab: &Lab, cluster: &str) -> String {
    fs::read_to_string(lab.bin("machines").join(format!("{cluster}.power"))).unwrap()
}

#[test]
fn the_example_driver_keeps_clusters_in_a_folder() {
    let lab = Lab::new();
    fs::copy(EXAMPLE_DRIVER, lab.bin("poolctl-driver-directory")).unwrap();
    let pool = pool("lab", "{none: {}}", BY_EXAMPLE_DRIVER);
    apply(&lab.sandbox, &pool.replace("runningCount: 1", "runningCount: 0"));
    lab.wait_until_installed();
    let cluster = jsonpath(&lab.sandbox, "cluster", "{.items[0].metadata.name}");
    let install_config = fs::read_to_string(lab.bin("machines").join(&cluster)).unwrap();
    assert!(install_config.contains(&format!("name: {cluster}")));
    lab.wait_until("asleep", |lab| lab.sandbox.ok("get cluster").contains("Hibernating"));
    assert_eq!(power_in_folder(&lab, &cluster), "stopped\n");
    lab.sandbox.ok("claim lab k -q");
    lab.wait_until("awake", |lab| lab.sandbox.ok("get claim").contains("Running"));
    let cluster = jsonpath(&lab.sandbox, "claim", "{.items[0].spec.namespace}");
    assert_eq!(power_in_folder(&lab, &cluster), "running\n");
    lab.sandbox.ok("release k -y -q");
    lab.delete_clusters();
    assert!(!lab.bin("machines").join(&cluster).exists());
}

#[test]
fn a_driver_that_others_can_change_is_not_started() {
    let lab = Lab::new();
    let driver = lab.bin("poolctl-driver-directory");
    fs::copy(EXAMPLE_DRIVER, &driver).unwrap();
    // Whoever can write it could read every secret of the pools that it drives.
    fs::set_permissions(&driver, fs::Permissions::from_mode(0o777)).unwrap();
    let path = lab.sandbox.write_file("pool.yaml", &pool("lab", "{none: {}}", BY_EXAMPLE_DRIVER));
    let ran = lab.sandbox.run(&format!("apply -f {path}"));
    assert!(ran.err.contains("can be written by others"), "{}", ran.err);
    let checked = lab.sandbox.run("driver check");
    assert!(checked.code == 1 && checked.out.contains("missing"), "{}", checked.out);
    fs::set_permissions(&driver, fs::Permissions::from_mode(0o755)).unwrap();
    lab.sandbox.ok("driver check");
    lab.wait_until_installed();
    lab.delete_clusters();
    // Names that a path or a shell would take for something else.
    for name in ["../x", "a b", "$(touch x)", "-rf;id"] {
        let document = format!(
            "{{\"spec\": {{\"annotations\": {{\"poolctl.dev/driver\": \"exec:{name}\"}}}}}}"
        );
        assert_ne!(lab.sandbox.run(&format!("patch pool lab -p '{document}'")).code, 0, "{name}");
    }
}

fn count_running_jobs(lab: &Lab) -> usize {
    let jobs = fs::read_dir(lab.sandbox.path().join("jobs")).unwrap().flatten();
    jobs.filter(|job| job.path().join("started").exists() && !job.path().join("outcome").exists())
        .count()
}

#[test]
fn as_many_jobs_run_as_the_settings_say_and_every_pool_has_its_turn() {
    let lab = Lab::new();
    lab.set_behaviour("create-cluster: sleep 700");
    let settings = lab.sandbox.ok("get settings default -o yaml");
    apply(&lab.sandbox, &settings.replace("spec:\n", "spec:\n  maxJobs: 2\n"));
    apply(&lab.sandbox, &pool("lab", OPENSTACK, "").replace("size: 1", "size: 4"));
    apply(&lab.sandbox, &pool("other", OPENSTACK, ""));
    lab.wait_until("all are installed", |lab| {
        assert!(count_running_jobs(lab) <= 2);
        lab.sandbox.ok("get cluster --no-headers").matches("Installed").count() == 5
    });
    // The other pool did not wait for all four of the first.
    let mut creations = lab.ledger();
    creations.retain(|line| line.starts_with("made "));
    let position = creations.iter().position(|line| line.starts_with("made other-"));
    assert!(position.is_some_and(|index| index <= 3), "{creations:?}");
    lab.sandbox.ok("pool scale other --size 0 -q");
    lab.delete_clusters();
}

#[test]
fn a_real_cluster_wakes_in_hives_steps() {
    let lab = Lab::new();
    lab.sandbox.write_script(
        "bin/poolctl-driver-switch",
        "#!/bin/sh\ncase $1 in start) rm -f \"$(dirname \"$0\")/down\";; \
        stop) touch \"$(dirname \"$0\")/down\";; esac\n",
    );
    lab.sandbox.write_script(
        "bin/oc",
        "#!/bin/sh\nhere=$(dirname \"$0\"); [ ! -f \"$here/down\" ] || exit 1\n\
        says() { printf '{\"items\": [{\"metadata\": {\"name\": \"n1\"}, \"status\": {\"conditions\": [{\"type\": \"%s\", \"status\": \"%s\"}]}}]}' \"$1\" \"$(cat \"$here/$1\")\"; }\n\
        case \"$*\" in *certificatesigningrequests*) cat \"$here/csr\";; *approve*) echo \"$*\" >> \"$here/approved\";; *nodes*) says Ready;; *clusteroperators*) says Available;; esac\n",
    );
    fs::write(lab.bin("Ready"), "True").unwrap();
    fs::write(lab.bin("Available"), "False").unwrap();
    fs::copy("tests/cases/csr.json", lab.bin("csr")).unwrap();
    let settings = lab.sandbox.ok("get settings default -o yaml");
    let oc = format!("  programs:\n    oc: {}\n", lab.bin("oc").display());
    apply(&lab.sandbox, &settings.replace("  programs:\n", &oc));
    let power = "  annotations: {poolctl.dev/power: 'exec:switch'}\n";
    let pool = pool("lab", VSPHERE, &format!("{TEMPLATED}{power}"));
    apply(&lab.sandbox, &pool.replace("runningCount: 1", "runningCount: 0"));
    let state = |lab: &Lab| jsonpath(&lab.sandbox, "cluster", "{.items[0].status.powerState}");
    lab.wait_until("asleep", |lab| state(lab) == "Hibernating");
    assert!(lab.bin("down").exists());
    fs::write(lab.bin("Ready"), "False").unwrap();
    lab.sandbox.ok("claim lab k -q");
    lab.wait_until("nodes", |lab| state(lab) == "WaitingForNodes");
    // Only the certificate request of a node that was there at the installation is approved.
    let approved = fs::read_to_string(lab.bin("approved")).unwrap();
    assert!(approved.contains("csr-known") && !approved.contains("csr-stranger"), "{approved}");
    fs::write(lab.bin("Ready"), "True").unwrap();
    lab.wait_until("settling", |lab| state(lab) == "PausingForClusterOperatorsToSettle");
    // A label says that somebody does not want to wait for the operators.
    let cluster =
        format!("cluster/{}", jsonpath(&lab.sandbox, "cluster", "{.items[0].metadata.name}"));
    lab.sandbox
        .ok(&format!("label {cluster} hive.openshift.io/resume-skips-cluster-operators=true -q"));
    lab.wait_until("awake", |lab| state(lab) == "Running");
    lab.sandbox.ok("release k -y -q");
    lab.delete_clusters();
}

#[test]
fn under_crons_environment_a_cluster_is_installed_and_values_are_never_run_as_commands() {
    let lab = Lab::new();
    let value = "$(touch /tmp/poolctl-was-here);id";
    let variables = format!(
        "  installerEnv: [{{name: OPENSHIFT_INSTALL_X, value: '{value}'}}, {{name: LD_PRELOAD, value: /tmp/x.so}}]\n"
    );
    let path = lab
        .sandbox
        .write_file("pool.yaml", &pool("lab", VSPHERE, &format!("{TEMPLATED}{variables}")));
    let ran = lab.sandbox.run(&format!("apply --no-reconcile -f {path}"));
    assert!(
        ran.err.contains("installerEnv LD_PRELOAD is not passed to the installer"),
        "{}",
        ran.err
    );
    let poolctl = env!("CARGO_BIN_EXE_poolctl");
    let pass = format!(
        "env -i HOME=/nonexistent PATH=/usr/bin:/bin SHELL=/bin/sh POOLCTL_STATE=$POOLCTL_STATE {poolctl} reconcile"
    );
    for _ in 0..100 {
        let ran = lab.sandbox.shell(&pass);
        assert_eq!((ran.code, &*ran.out, &*ran.err), (0, "", ""), "cron mails every word");
        if lab.phase() == "Installed" {
            break;
        }
        lab.sandbox.shell("sleep 0.2");
    }
    assert_eq!(lab.phase(), "Installed");
    assert!(
        lab.ledger().contains(&format!("given OPENSHIFT_INSTALL_X={value}")),
        "{:?}",
        lab.ledger()
    );
    lab.delete_clusters();
}

#[test]
fn the_installer_of_a_release_is_fetched_once() {
    let lab = Lab::new();
    // The installer of the Settings is of another release, so that one is needed.
    fs::write(lab.bin("version"), "4.17.1").unwrap();
    // A stand-in for oc, which extracts an installer and writes down how it was called.
    lab.sandbox.write_script(
        "bin/oc",
        "#!/bin/sh\nhere=$(dirname \"$0\"); echo \"$@\" >> \"$here/asked\"\n\
         while [ \"$1\" != --to ]; do shift; done\n\
         printf '#!/bin/sh\\nif [ \"$1\" = version ]; then echo openshift-install 4.18.3; else exec %s/openshift-install \"$@\"; fi\\n' \"$here\" > \"$2/openshift-install\"\n\
         chmod 755 \"$2/openshift-install\"\n",
    );
    let settings = lab.sandbox.ok("get settings default -o yaml");
    let oc = format!("  programs:\n    oc: {}\n", lab.bin("oc").display());
    apply(&lab.sandbox, &settings.replace("  programs:\n", &oc));
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    lab.wait_until_installed();
    lab.delete_clusters();
    let asked = fs::read_to_string(lab.bin("asked")).unwrap();
    let extracted = asked.lines().filter(|line| line.contains("release extract")).count();
    assert_eq!(extracted, 1, "{asked}");
    assert!(asked.contains("adm release extract --command openshift-install"), "{asked}");
    assert!(!asked.contains(CANARY), "{asked}");
}

/// By this key, in whatever case, the libraries of a cloud start a program that has credentials.
#[test]
fn credentials_that_would_start_a_program_are_refused() {
    let lab = Lab::new();
    let aws = "{aws: {region: here, credentialsSecretRef: {name: aws}}}";
    apply(
        &lab.sandbox,
        "apiVersion: v1\nkind: Secret\nmetadata: {name: aws}\nstringData: {config: '[default]\n  Credential_Process = /bin/id'}\n",
    );
    apply(&lab.sandbox, &pool("lab", aws, ""));
    let message = "which poolctl does not pass on";
    lab.wait_until(message, |lab| lab.sandbox.ok("events").contains(message));
    assert!(lab.ledger().is_empty());
    lab.delete_clusters();
}
