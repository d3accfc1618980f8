//! The fixture of tests with real drivers: a sandbox on the real clock with a stand-in for
//! openshift-install, which keeps a ledger of everything that it begins, makes and destroys.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::sandbox::{Sandbox, apply, jsonpath, pause};

/// A part of every secret that goes in. It must never come out.
pub const CANARY: &str = "CANARY";

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
    - {op: add, path: /platform/vsphere/ingressVIP, value: 10.0.0.11}
  installerManifestPatches:
    - manifestSelector: {glob: manifests/*.yml}
      patches: [{op: replace, path: /spec/mastersSchedulable, value: false}]
"#;

/// The manifest of a pool of one running cluster; `more` are further lines of its spec.
pub fn pool(name: &str, platform: &str, more: &str) -> String {
    format!(
        "apiVersion: hive.openshift.io/v1\nkind: ClusterPool\nmetadata: {{name: {name}}}\nspec:\n  \
         size: 1\n  runningCount: 1\n  baseDomain: example.com\n  imageSetRef: {{name: ocp}}\n  \
         pullSecretRef: {{name: pull}}\n  platform: {platform}\n{more}"
    )
}

pub const VSPHERE: &str = "{vsphere: {credentialsSecretRef: {name: vsphere}, certificatesSecretRef: {name: vsphere}, \
     vCenter: vcenter.example.com, datacenter: lab, defaultDatastore: fast}}";
pub const TEMPLATED: &str =
    "  installConfigSecretTemplateRef: {name: template}\n  inventory: [{name: foo}]\n";

pub struct Lab {
    pub sandbox: Sandbox,
}

impl Lab {
    pub fn new() -> Self {
        let mut sandbox = Sandbox::new();
        sandbox.set_variable("POOLCTL_NOW", "");
        sandbox.set_variable("POOLCTL_SEED", "");
        let bin = sandbox.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let programs = Path::new(env!("CARGO_BIN_EXE_poolctl")).parent().unwrap();
        let stub = programs.join("examples/openshift-install");
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

    /// The path of a file in the folder of programs, where the stand-in keeps its own, too.
    pub fn bin(&self, name: &str) -> PathBuf {
        self.sandbox.path().join("bin").join(name)
    }

    /// Tells the stand-in what to do at which step, such as `create-cluster: hang`; empty for all
    /// that a good installer does.
    pub fn set_behaviour(&self, script: &str) {
        fs::write(self.bin("behave"), script).unwrap();
    }

    /// Tells the stand-ins how the lab is now, such as `away: refused`; empty for a good day.
    /// stub/cloud.rs lists what there is.
    pub fn set_cloud(&self, conditions: &str) {
        fs::write(self.bin("cloud"), conditions).unwrap();
    }

    /// Installs the stand-in for oc, which extracts the installer of the release that clusters of
    /// the lab have. The one of the Settings is of another release then.
    pub fn install_oc(&self) {
        fs::write(self.bin("version"), "4.17.1").unwrap();
        self.install_program("oc", include_str!("stub/oc.sh"));
        self.add_to_settings("  programs:\n", &format!("    oc: {}\n", self.bin("oc").display()));
    }

    /// Puts a script into the folder of programs.
    pub fn install_program(&self, name: &str, script: &str) {
        // One that runs cannot be written, but it can be replaced.
        let new_program = self.bin(&format!("{name}.new"));
        fs::write(&new_program, script).unwrap();
        fs::set_permissions(&new_program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(new_program, self.bin(name)).unwrap();
    }

    /// Applies the Settings with more lines behind one of their lines.
    pub fn add_to_settings(&self, line: &str, lines: &str) {
        let settings = self.sandbox.ok("get settings default -o yaml");
        apply(&self.sandbox, &settings.replace(line, &format!("{line}{lines}")));
    }

    /// Status and reason of a condition of pool `lab`, such as `True CloudAway`.
    pub fn pool_condition(&self, kind: &str) -> String {
        let condition = format!("{{.status.conditions[?(@.type==\"{kind}\")]");
        let path = format!("{condition}.status}} {condition}.reason}}");
        jsonpath(&self.sandbox, "pool/lab", &path)
    }

    /// What was made and is not destroyed.
    pub fn infrastructure(&self) -> Vec<String> {
        let mut infrastructure: Vec<String> = Vec::new();
        for line in self.ledger() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["made", infra_id] => infrastructure.push(infra_id.to_owned()),
                ["destroyed", infra_id] => infrastructure.retain(|made_id| made_id != infra_id),
                _ => {}
            }
        }
        infrastructure
    }

    /// How many lines of the ledger begin with these words.
    pub fn count_in_ledger(&self, words: &str) -> usize {
        self.ledger().iter().filter(|line| line.starts_with(words)).count()
    }

    /// What the stand-in did, a line a deed.
    pub fn ledger(&self) -> Vec<String> {
        let ledger = fs::read_to_string(self.bin("ledger")).unwrap_or_default();
        ledger.lines().map(str::to_owned).collect()
    }

    /// Expects that no attempt was begun twice, and that all infrastructure that was made is
    /// known or destroyed.
    pub fn assert_balanced(&self) {
        let mut begun: BTreeMap<String, u32> = BTreeMap::new();
        for line in self.ledger() {
            if let ["begin", step @ ("create-manifests" | "create-cluster" | "destroy"), folder] =
                line.split(' ').collect::<Vec<_>>()[..]
            {
                *begun.entry(format!("{step} {folder}")).or_default() += 1;
            }
        }
        let mut infrastructure = self.infrastructure();
        let twice: Vec<_> = begun.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
        let live = jsonpath(&self.sandbox, "cluster", "{.items[*].spec.clusterMetadata.infraID}");
        infrastructure.retain(|infra_id| !live.contains(infra_id));
        assert!(
            infrastructure.is_empty(),
            "made, not known, not destroyed: {infrastructure:?} {:?}",
            self.ledger()
        );
    }

    /// Passes until a condition is met, for half a minute at most.
    pub fn wait_until(&self, what: &str, is_met: impl Fn(&Self) -> bool) {
        for _ in 0..120 {
            self.sandbox.run("reconcile -q");
            if is_met(self) {
                return;
            }
            pause(250);
        }
        let objects = self.sandbox.ok("get cluster,job");
        let logs = self.sandbox.shell("tail -n 20 $HOME/jobs/*/log").out;
        panic!("never {what}:\n{objects}\n{}\n{logs}", self.sandbox.ok("events"));
    }

    /// The phase of the first cluster; empty if there is none.
    pub fn phase(&self) -> String {
        let rows = self.sandbox.ok("get cluster --no-headers");
        rows.split_whitespace().nth(2).unwrap_or_default().to_owned()
    }

    /// Waits until the first cluster is installed.
    pub fn wait_until_installed(&self) {
        self.wait_until("installed", |lab| lab.phase() == "Installed");
    }

    /// Scales pool `lab` to nothing, waits until no cluster is left, and expects that nothing else
    /// is left of them either.
    pub fn delete_clusters(&self) {
        self.sandbox.ok("pool scale lab --size 0 -q");
        self.wait_until("gone", |lab| lab.phase().is_empty());
        self.assert_balanced();
    }
}

/// The number of a process of this lab with this word among its arguments: a supervisor
/// (`__supervise`) or an installer.
pub fn find_process(lab: &Lab, word: &str) -> Option<String> {
    let home = lab.sandbox.path().display().to_string();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let command_line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command_line = String::from_utf8_lossy(&command_line);
        let program = command_line.split('\0').next().unwrap_or_default();
        let is_ours = program.contains("poolctl")
            || program.contains("openshift-install")
            || program.ends_with("exe");
        if is_ours && command_line.contains(word) && command_line.contains(&home) {
            return entry.file_name().into_string().ok();
        }
    }
    None
}
