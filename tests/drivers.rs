//! Real drivers, under supervision: openshift-install (a stand-in of ours) and exec drivers, on the
//! real clock, through failures at every step. The stand-in keeps a ledger: nothing is begun
//! twice, what was made is destroyed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::{Sandbox, apply, jsonpath};

/// In every secret that goes in: never to come out.
const CANARY: &str = "CANARY";

const OBJECTS: &str = r#"
apiVersion: hive.openshift.io/v1
kind: ClusterImageSet
metadata: {name: ocp}
spec: {releaseImage: "example.com/ocp:4.18.3-x86_64"}
---
apiVersion: v1
kind: Secret
metadata: {name: pull}
stringData: {.dockerconfigjson: '{"auths": {"q": {"auth": "CANARY-pull-secret"}}}'}
---
apiVersion: v1
kind: Secret
metadata: {name: vsphere}
stringData: {username: admin@vsphere.local, password: CANARY-vsphere-password}
---
apiVersion: v1
kind: Secret
metadata: {name: openstack}
stringData: {clouds.yaml: "clouds: {lab: {auth: {password: CANARY-openstack-password}}}"}
---
apiVersion: v1
kind: Secret
metadata: {name: template}
stringData:
  install-config.yaml: |
    apiVersion: v1
    baseDomain: other.example.com
    metadata: {name: x}
    compute: [{name: worker, replicas: 2}]
    controlPlane: {name: master, replicas: 3}
    platform: {vsphere: {vCenter: vcenter.example.com, datacenter: lab, network: machines}}
    pullSecret: ""
---
apiVersion: hive.openshift.io/v1
kind: ClusterDeploymentCustomization
metadata: {name: foo}
spec:
  installConfigPatches:
    - {op: replace, path: /metadata/name, value: foo}
    - {op: add, path: /platform/vsphere/apiVIP, value: 10.0.0.10}
  installerManifestPatches:
    - manifestSelector: {glob: manifests/*.yml}
      patches: [{op: replace, path: /spec/mastersSchedulable, value: false}]
"#;

fn pool(name: &str, platform: &str, more: &str) -> String {
    format!(
        "apiVersion: hive.openshift.io/v1\nkind: ClusterPool\nmetadata: {{name: {name}}}\nspec:\n  \
         size: 1\n  runningCount: 1\n  baseDomain: example.com\n  imageSetRef: {{name: ocp}}\n  \
         pullSecretRef: {{name: pull}}\n  platform: {platform}\n{more}"
    )
}

const VSPHERE: &str = "{vsphere: {credentialsSecretRef: {name: vsphere}, certificatesSecretRef: {name: vsphere}, \
     vCenter: vcenter.example.com, datacenter: lab, defaultDatastore: fast}}";
const TEMPLATED: &str =
    "  installConfigSecretTemplateRef: {name: template}\n  inventory: [{name: foo}]\n";

struct Lab {
    sandbox: Sandbox,
}

impl Lab {
    fn new() -> Self {
        let mut sandbox = Sandbox::new();
        sandbox.set("POOLCTL_NOW", "");
        sandbox.set("POOLCTL_SEED", "");
        let bin = sandbox.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let stub = Path::new(env!("CARGO_BIN_EXE_poolctl")).parent().unwrap();
        let stub = stub.join("examples/openshift-install");
        std::os::unix::fs::symlink(stub, bin.join("openshift-install")).unwrap();
        let settings = format!(
            "apiVersion: poolctl.dev/v1\nkind: Settings\nmetadata: {{name: default}}\nspec:\n  \
             programs: {{openshift-install: {0}/openshift-install}}\n  driverDirectory: {0}\n",
            bin.display()
        );
        apply(&sandbox, &settings);
        apply(&sandbox, OBJECTS);
        Self { sandbox }
    }

    fn bin(&self, name: &str) -> PathBuf {
        self.sandbox.path().join("bin").join(name)
    }

    fn behave(&self, text: &str) {
        fs::write(self.bin("behave"), text).unwrap();
    }

    fn ledger(&self) -> Vec<String> {
        let text = fs::read_to_string(self.bin("ledger")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// No attempt was begun twice, and what was made and is not there was destroyed.
    fn balanced(&self) {
        let (mut begun, mut made): (BTreeMap<String, u32>, Vec<String>) = Default::default();
        for line in self.ledger() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["begin", step @ ("create-manifests" | "create-cluster" | "destroy"), folder] => {
                    *begun.entry(format!("{step} {folder}")).or_default() += 1;
                }
                ["made", infra] => made.push(infra.to_owned()),
                ["destroyed", infra] => made.retain(|one| one != infra),
                _ => {}
            }
        }
        let twice: Vec<_> = begun.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
        let live = jsonpath(&self.sandbox, "cluster", "{.items[*].spec.clusterMetadata.infraID}");
        let lost: Vec<_> = made.iter().filter(|one| !live.contains(one.as_str())).collect();
        assert!(lost.is_empty(), "made, not known, not destroyed: {lost:?} {:?}", self.ledger());
    }

    /// Passes until a look is met, at most half a minute.
    fn until(&self, what: &str, met: impl Fn(&Self) -> bool) {
        for _ in 0..120 {
            self.sandbox.run(&["reconcile", "-q"]);
            if met(self) {
                return;
            }
            self.sandbox.shell("sleep 0.25");
        }
        let seen = self.sandbox.ok(&["get", "cluster,job"]);
        let logs = self.sandbox.shell("tail -n 20 $HOME/jobs/*/log").out;
        panic!("never {what}:\n{seen}\n{}\n{logs}", self.sandbox.ok(&["events"]));
    }

    fn phase(&self) -> String {
        let all = self.sandbox.ok(&["get", "cluster", "--no-headers"]);
        all.split_whitespace().nth(2).unwrap_or_default().to_owned()
    }

    fn installed(&self) {
        self.until("installed", |lab| lab.phase() == "Installed");
    }

    fn gone(&self) {
        self.sandbox.ok(&["pool", "scale", "lab", "--size", "0", "-q"]);
        self.until("gone", |lab| lab.phase().is_empty());
        self.balanced();
    }
}

#[test]
fn a_vsphere_pool_lives_its_life_on_openshift_install() {
    let lab = Lab::new();
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    lab.installed();
    // What the installer read, whole.
    let seen = fs::read_to_string(lab.bin("seen-foo.yaml")).unwrap();
    let expected = "apiVersion: v1\nbaseDomain: example.com\ncompute:\n- name: worker\n  replicas: 2\n\
        controlPlane:\n  name: master\n  replicas: 3\nmetadata:\n  name: foo\nplatform:\n  vsphere:\n    \
        apiVIP: \"10.0.0.10\"\n    datacenter: lab\n    network: machines\n    password: CANARY-vsphere-password\n    \
        username: admin@vsphere.local\n    vCenter: vcenter.example.com\npullSecret: '{\"auths\": {\"q\": {\"auth\": \"CANARY-pull-secret\"}}}'\n";
    let read = |text: &str| poolctl::yaml::value(text).unwrap();
    assert_eq!(read(&seen), read(expected), "{seen}");
    assert!(fs::read_to_string(lab.bin("scheduler-foo.yaml")).unwrap().contains("false"));
    // It can be used, and claimed.
    lab.sandbox.ok(&["claim", "lab", "k", "-q"]);
    lab.until("claimed", |lab| lab.sandbox.ok(&["get", "claim"]).contains("Running"));
    assert!(lab.sandbox.ok(&["credentials", "k"]).contains("CANARY-kubeadmin"));
    assert!(lab.sandbox.ok(&["extract", "secret/pull", "--to=-"]).contains(CANARY));
    lab.sandbox.ok(&["release", "k", "-q"]);
    lab.gone();
    assert!(lab.ledger().iter().any(|line| line.starts_with("destroyed foo-")));
    silent(&lab);
}

#[test]
fn an_openstack_pool_takes_its_cloud_from_a_file() {
    let lab = Lab::new();
    let openstack = "{openstack: {cloud: lab, credentialsSecretRef: {name: openstack}}}";
    apply(&lab.sandbox, &pool("lab", openstack, ""));
    lab.installed();
    lab.gone();
    silent(&lab);
}

/// No secret in anything that is shown, or on a command line, or in a log.
fn silent(lab: &Lab) {
    let show = "for what in 'get all -A -o yaml' events 'job list --all -o yaml' 'describe pool lab' \
        'pool render lab' status metrics doctor plan 'export'; do poolctl $what; done 2>&1; \
        cat $HOME/jobs/*/log $HOME/jobs/*/outcome $HOME/jobs/*/order.json";
    let shown = lab.sandbox.shell(show).out;
    assert!(shown.len() > 2000 && !shown.contains(CANARY), "{shown}");
    // Logs are there, and scrubbed.
    assert!(shown.contains("password: (hidden)"), "{shown}");
    assert!(lab.ledger().iter().any(|line| line.starts_with("typed ")));
    assert!(!lab.ledger().iter().any(|line| line.contains(CANARY)), "{:?}", lab.ledger());
    let left = lab.sandbox.shell("grep -rl CANARY $HOME/jobs; true").out;
    assert!(left.lines().all(|path| path.contains("/saved/")), "{left}");
}

#[test]
fn exit_codes_are_reasons_and_failures_are_cleaned_up() {
    for (behave, says) in [
        ("create-cluster: exit 4\nwait-for: exit 5", "the infrastructure could not be made"),
        ("after-create-cluster: exit 6\nwait-for: exit 6", "operators did not come up"),
        ("create-ignition-configs: exit 42", "it failed (exit code 42): asked to fail"),
        ("create-manifests: exit 3", "the install-config is not valid"),
        ("create-manifests: die", "exit code 137"),
    ] {
        let lab = Lab::new();
        lab.behave(behave);
        apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
        lab.until(says, |lab| lab.sandbox.ok(&["events"]).contains(says));
        lab.behave("");
        lab.sandbox.ok(&["customization", "reset", "foo", "-q"]);
        lab.installed();
        lab.gone();
    }
}

#[test]
fn what_took_too_long_may_be_over_after_all() {
    let lab = Lab::new();
    lab.behave("after-create-cluster: exit 6");
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    lab.installed();
    assert_eq!(lab.ledger().iter().filter(|line| line.starts_with("begin wait-for")).count(), 1);
    lab.gone();
}

#[test]
fn another_release_is_refused_by_name() {
    let lab = Lab::new();
    fs::write(lab.bin("version"), "4.17.1").unwrap();
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    let says = "wanted is the one of example.com/ocp:4.18.3-x86_64";
    lab.until(says, |lab| lab.sandbox.ok(&["events"]).contains(says));
}

/// A process of this lab with this word among its arguments: a supervisor, or an installer.
fn pid(lab: &Lab, word: &str) -> Option<String> {
    let home = lab.sandbox.path().display().to_string();
    let arguments = |pid: &str| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).split('\0').map(str::to_owned).collect::<Vec<_>>()
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().into_string().ok());
    pids.find(|pid| {
        let words = arguments(pid);
        let ours = words[0].contains("poolctl")
            || words[0].contains("openshift-install")
            || words[0].ends_with("exe");
        ours && words.iter().any(|one| one.contains(word))
            && words.iter().any(|one| one.contains(&home))
    })
}

#[test]
fn whoever_is_killed_the_next_pass_repairs() {
    for (whom, at) in [
        ("__supervise", "create-cluster"),
        ("openshift-install", "create-cluster"),
        ("openshift-install", "create-ignition-configs"),
        ("__supervise", "create-manifests"),
    ] {
        let lab = Lab::new();
        lab.behave(&format!("{at}: hang\nafter-{at}: hang"));
        apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
        let step = format!("begin {at} ");
        lab.until(&step, |lab| lab.ledger().iter().any(|line| line.starts_with(&step)));
        let victim = pid(&lab, whom).unwrap_or_else(|| panic!("no {whom} to kill at {at}"));
        lab.behave("");
        lab.sandbox.shell(&format!("kill -9 {victim}"));
        if whom == "__supervise" {
            // Its program goes on and holds the lock: the job counts as running.
            lab.sandbox.ok(&["reconcile", "-q"]);
            assert_eq!(lab.phase(), "Installing", "{at}");
            let installer = pid(&lab, "openshift-install").unwrap();
            lab.sandbox.shell(&format!("kill -9 {installer}"));
        }
        lab.sandbox.ok(&["customization", "reset", "foo", "-q"]);
        lab.installed();
        lab.gone();
    }
}

#[test]
fn a_cluster_that_is_deleted_while_it_installs_takes_its_programs_along() {
    for at in ["create-cluster: deaf", "after-create-cluster: hang", "create-cluster: leak 30"] {
        let lab = Lab::new();
        lab.behave(at);
        apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
        lab.until("begun", |lab| lab.ledger().iter().any(|line| line.contains("create-cluster")));
        lab.behave("");
        lab.gone();
        assert_eq!(pid(&lab, "openshift-install"), None, "{at}");
    }
}

#[test]
fn many_passes_at_once_begin_a_job_once() {
    let lab = Lab::new();
    lab.behave("create-manifests: sleep 300");
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED).replace("size: 1", "size: 0"));
    let scale = ["pool", "scale", "lab", "--size", "1", "-q"].map(str::to_owned).to_vec();
    let pass = || ["reconcile", "-q"].map(str::to_owned).to_vec();
    let all: Vec<_> = std::iter::once(scale).chain((0..12).map(|_| pass())).collect();
    lab.sandbox.together(&all);
    lab.installed();
    lab.gone();
}

#[test]
fn logs_can_be_read_and_jobs_killed() {
    let lab = Lab::new();
    lab.behave("create-cluster: hang");
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    lab.until("begun", |lab| {
        lab.ledger().iter().any(|line| line.starts_with("begin create-cluster"))
    });
    let cluster = jsonpath(&lab.sandbox, "cluster", "{.items[0].metadata.name}");
    let logs = lab.sandbox.ok(&["job", "logs", &cluster]);
    assert!(
        logs.contains("$ openshift-install create cluster") && !logs.contains(CANARY),
        "{logs}"
    );
    lab.behave("");
    lab.sandbox.ok(&["job", "kill", &cluster]);
    lab.until("cancelled", |lab| {
        lab.sandbox.ok(&["events"]).contains("provision failed: cancelled")
    });
    lab.sandbox.ok(&["customization", "reset", "foo", "-q"]);
    lab.installed();
    lab.gone();
}

#[test]
fn a_deadline_ends_programs() {
    let lab = Lab::new();
    lab.behave("create-cluster: hang");
    let quick = "  annotations: {poolctl.dev/install-timeout: 2s}\n";
    apply(&lab.sandbox, &pool("lab", VSPHERE, &format!("{TEMPLATED}{quick}")));
    lab.until("late", |lab| lab.sandbox.ok(&["events"]).contains("not over after"));
    lab.behave("");
    assert_eq!(pid(&lab, "openshift-install"), None);
    lab.gone();
}

#[test]
fn under_a_rehearsed_clock_no_real_job_runs() {
    let mut lab = Lab::new();
    lab.sandbox.set("POOLCTL_NOW", "2026-03-02T12:00:00Z");
    let path = lab.sandbox.file("pool.yaml", &pool("lab", VSPHERE, TEMPLATED));
    let ran = lab.sandbox.run(&["apply", "-f", &path]);
    assert!(ran.err.contains("only simulated jobs run under it"), "{}", ran.err);
    assert!(lab.ledger().is_empty());
}

#[test]
fn programs_are_looked_at_as_cron_will_see_them() {
    let lab = Lab::new();
    apply(&lab.sandbox, &pool("lab", VSPHERE, TEMPLATED));
    let check = lab.sandbox.shell("env -u PATH poolctl driver check; true");
    let check = if check.out.is_empty() { lab.sandbox.run(&["driver", "check"]) } else { check };
    assert!(check.out.contains("bin/openshift-install"), "{}{}", check.out, check.err);
    assert!(lab.sandbox.ok(&["driver", "list"]).contains("default/lab"));
    lab.installed();
    lab.gone();
}

#[test]
fn the_example_driver_keeps_clusters_in_a_folder() {
    let lab = Lab::new();
    let driver = lab.bin("poolctl-driver-directory");
    fs::copy("examples/driver/poolctl-driver-directory", &driver).unwrap();
    let exec = "  annotations: {poolctl.dev/driver: 'exec:directory'}\n";
    apply(
        &lab.sandbox,
        &pool("lab", "{none: {}}", exec).replace("runningCount: 1", "runningCount: 0"),
    );
    lab.installed();
    let cluster = jsonpath(&lab.sandbox, "cluster", "{.items[0].metadata.name}");
    let file = |end: &str| fs::read_to_string(lab.bin("machines").join(format!("{cluster}{end}")));
    assert!(file("").unwrap().contains(&format!("name: {cluster}")));
    lab.until("asleep", |lab| lab.sandbox.ok(&["get", "cluster"]).contains("Hibernating"));
    assert_eq!(file(".power").unwrap(), "stopped\n");
    lab.sandbox.ok(&["claim", "lab", "k", "-q"]);
    lab.until("awake", |lab| lab.sandbox.ok(&["get", "claim"]).contains("Running"));
    let cluster = jsonpath(&lab.sandbox, "claim", "{.items[0].spec.namespace}");
    let file = |end: &str| fs::read_to_string(lab.bin("machines").join(format!("{cluster}{end}")));
    assert_eq!(file(".power").unwrap(), "running\n");
    lab.sandbox.ok(&["release", "k", "-y", "-q"]);
    lab.gone();
    assert!(file("").is_err());
}

#[test]
fn a_driver_that_others_can_change_is_not_started() {
    use std::os::unix::fs::PermissionsExt;
    let lab = Lab::new();
    let driver = lab.bin("poolctl-driver-directory");
    fs::copy("examples/driver/poolctl-driver-directory", &driver).unwrap();
    let mode = |mode| fs::set_permissions(&driver, fs::Permissions::from_mode(mode)).unwrap();
    let exec = "  annotations: {poolctl.dev/driver: 'exec:directory'}\n";
    mode(0o777);
    let path = lab.sandbox.file("pool.yaml", &pool("lab", "{none: {}}", exec));
    let ran = lab.sandbox.run(&["apply", "-f", &path]);
    assert!(ran.err.contains("can be written by others"), "{}", ran.err);
    let check = lab.sandbox.run(&["driver", "check"]);
    assert!(check.code == 1 && check.out.contains("missing"), "{}", check.out);
    mode(0o755);
    lab.sandbox.ok(&["driver", "check"]);
    lab.installed();
    lab.gone();
    for name in ["../x", "a b", "$(touch x)", "-rf;id"] {
        let note = format!("poolctl.dev/driver=exec:{name}");
        let change = format!(
            "{{\"spec\": {{\"annotations\": {{\"poolctl.dev/driver\": \"exec:{name}\"}}}}}}"
        );
        assert_ne!(lab.sandbox.run(&["patch", "pool", "lab", "-p", &change]).code, 0, "{note}");
    }
}

#[test]
fn as_many_jobs_run_as_the_settings_say_and_every_pool_has_its_turn() {
    let lab = Lab::new();
    lab.behave("create-cluster: sleep 700");
    let settings = lab.sandbox.ok(&["get", "settings", "default", "-o", "yaml"]);
    apply(&lab.sandbox, &settings.replace("spec:\n", "spec:\n  maxJobs: 2\n"));
    let openstack = "{openstack: {cloud: lab, credentialsSecretRef: {name: openstack}}}";
    apply(&lab.sandbox, &pool("lab", openstack, "").replace("size: 1", "size: 4"));
    apply(&lab.sandbox, &pool("other", openstack, ""));
    let running = |lab: &Lab| {
        let jobs = fs::read_dir(lab.sandbox.path().join("jobs")).unwrap().flatten();
        let live = jobs.filter(|job| {
            job.path().join("started").exists() && !job.path().join("outcome").exists()
        });
        live.count()
    };
    lab.until("all", |lab| {
        assert!(running(lab) <= 2);
        lab.sandbox.ok(&["get", "cluster", "--no-headers"]).matches("Installed").count() == 5
    });
    // The other pool did not wait for all four of the first.
    let seen: Vec<String> =
        lab.ledger().into_iter().filter(|line| line.starts_with("made ")).collect();
    let place = seen.iter().position(|line| line.starts_with("made other-"));
    assert!(place.is_some_and(|at| at <= 3), "{seen:?}");
    lab.sandbox.ok(&["pool", "scale", "other", "--size", "0", "-q"]);
    lab.gone();
}
