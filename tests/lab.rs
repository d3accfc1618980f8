//! A lab for real drivers: openshift-install's stand-in with its ledger, on the real clock.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::{Sandbox, apply, jsonpath};

/// In every secret that goes in: never to come out.
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
  installerManifestPatches:
    - manifestSelector: {glob: manifests/*.yml}
      patches: [{op: replace, path: /spec/mastersSchedulable, value: false}]
"#;

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

    pub fn bin(&self, name: &str) -> PathBuf {
        self.sandbox.path().join("bin").join(name)
    }

    pub fn behave(&self, text: &str) {
        fs::write(self.bin("behave"), text).unwrap();
    }

    pub fn ledger(&self) -> Vec<String> {
        let text = fs::read_to_string(self.bin("ledger")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// No attempt was begun twice, and what was made and is not there was destroyed.
    pub fn balanced(&self) {
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
    pub fn until(&self, what: &str, met: impl Fn(&Self) -> bool) {
        for _ in 0..120 {
            self.sandbox.run("reconcile -q");
            if met(self) {
                return;
            }
            self.sandbox.shell("sleep 0.25");
        }
        let seen = self.sandbox.ok("get cluster,job");
        let logs = self.sandbox.shell("tail -n 20 $HOME/jobs/*/log").out;
        panic!("never {what}:\n{seen}\n{}\n{logs}", self.sandbox.ok("events"));
    }

    pub fn phase(&self) -> String {
        let all = self.sandbox.ok("get cluster --no-headers");
        all.split_whitespace().nth(2).unwrap_or_default().to_owned()
    }

    pub fn installed(&self) {
        self.until("installed", |lab| lab.phase() == "Installed");
    }

    pub fn gone(&self) {
        self.sandbox.ok("pool scale lab --size 0 -q");
        self.until("gone", |lab| lab.phase().is_empty());
        self.balanced();
    }
}

/// A process of this lab with this word among its arguments: a supervisor, or an installer.
pub fn pid(lab: &Lab, word: &str) -> Option<String> {
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
