//! A stand-in for openshift-install, which behaves like it for create, wait-for and destroy. It reads
//! and consumes files, refuses unknown keys, writes metadata.json, kubeconfig and logs, and ends
//! with the same exit codes. Beside it lie `behave` (what is to go wrong, one `step: action` or
//! `step of CLUSTER: action` a line) and `ledger`, where it notes what it began, made and
//! destroyed.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "it is a program of the tests")]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

/// The fields of an install-config that it knows.
const INSTALL_CONFIG_FIELDS: [&str; 16] = [
    "apiVersion",
    "additionalTrustBundle",
    "baseDomain",
    "compute",
    "controlPlane",
    "fips",
    "imageContentSources",
    "imageDigestSources",
    "metadata",
    "networking",
    "platform",
    "proxy",
    "publish",
    "pullSecret",
    "sshKey",
    "credentialsMode",
];

/// The fields of an InfraEnv's spec that it knows, as a version that is not the latest.
const INFRA_ENV_FIELDS: [&str; 10] = [
    "additionalNTPSources",
    "agentLabels",
    "clusterRef",
    "cpuArchitecture",
    "ignitionConfigOverride",
    "kernelArguments",
    "nmStateConfigLabelSelector",
    "proxy",
    "pullSecretRef",
    "sshAuthorizedKey",
];

struct Stub {
    /// The folder of the program itself.
    home: PathBuf,
    /// The folder that it works in: `--dir`, or the current one.
    folder: PathBuf,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let home = Path::new(&arguments[0]).parent().unwrap().to_owned();
    let words: Vec<&str> = arguments[1..]
        .iter()
        .map(String::as_str)
        .take_while(|word| !word.starts_with('-'))
        .collect();
    let option = arguments.iter().position(|word| word == "--dir");
    let dir = option.map_or(".", |index| arguments[index + 1].as_str());
    let folder = std::env::current_dir().unwrap().join(dir);
    let stub = Stub { home, folder };
    std::process::exit(match words[..] {
        ["version"] => print_version(&stub),
        ["create", "manifests"] => stub.run_step("create-manifests", Stub::create_manifests),
        ["create", "ignition-configs"] => {
            stub.run_step("create-ignition-configs", Stub::create_ignition)
        }
        ["create", "cluster"] => stub.run_step("create-cluster", Stub::create_cluster),
        ["wait-for", "install-complete"] => stub.run_step("wait-for", Stub::wait_for),
        ["destroy", "cluster"] => stub.run_step("destroy", Stub::destroy_cluster),
        ["agent", "create", "image"] => stub.run_step("agent-image", Stub::create_image),
        ["agent", "create", "unconfigured-ignition"] => {
            stub.run_step("agent-unconfigured", Stub::create_unconfigured_ignition)
        }
        ["agent", "wait-for", "bootstrap-complete"] => {
            stub.run_step("agent-bootstrap", Stub::wait_for_agents)
        }
        ["agent", "wait-for", "install-complete"] => {
            stub.run_step("agent-install", Stub::wait_for_agents)
        }
        _ => 1,
    });
}

fn log(level: &str, message: &str) {
    eprintln!("level={level} msg=\"{message}\"");
}

fn print_version(stub: &Stub) -> i32 {
    let number = fs::read_to_string(stub.home.join("version")).unwrap_or_else(|_| "4.18.3".into());
    println!(
        "openshift-install {}\nbuilt from commit 0\nrelease image example.com/ocp@sha256:0",
        number.trim()
    );
    0
}

fn asset_failure(asset: &str, cause: &str) -> String {
    format!("failed to generate asset \\\"{asset}\\\": {cause}")
}

/// A file of an Ignition, whose content must be replaced by that of poolctl.
fn ignition_file(path: &str) -> Value {
    let contents = json!({"source": "data:,theirs", "verification": {}});
    json!({"path": path, "mode": 0o600, "user": {"name": "root"}, "contents": contents})
}

impl Stub {
    /// Notes a step, does what `behave` asks for, and does the work. Returns the exit code.
    fn run_step(&self, name: &str, work: impl Fn(&Self) -> Result<i32, String>) -> i32 {
        self.note(&format!("begin {name} {}", self.folder.display()));
        let words: Vec<String> = std::env::args().collect();
        self.note(&format!("typed {}", words.join(" ")));
        for (name, value) in std::env::vars().filter(|(name, _)| name.starts_with("OPENSHIFT_")) {
            self.note(&format!("given {name}={value}"));
        }
        if let Some(code) = self.misbehave(name) {
            return code;
        }
        match work(self) {
            Ok(0) => self.misbehave(&format!("after-{name}")).unwrap_or(0),
            Ok(code) => code,
            Err(message) => {
                log("fatal", &message);
                if name.starts_with("create-m") { 3 } else { 1 }
            }
        }
    }

    /// Does what `behave` asks for at this step. Returns the exit code if the program is to end.
    fn misbehave(&self, step: &str) -> Option<i32> {
        let behaviour = fs::read_to_string(self.home.join("behave")).unwrap_or_default();
        let name = self.state().map(|state| state["name"].to_string()).unwrap_or_default();
        let for_all = format!("{step}: ");
        let for_cluster = format!("{step} of {}: ", name.trim_matches('"'));
        let action = behaviour.lines().find_map(|line| {
            line.strip_prefix(&for_all).or_else(|| line.strip_prefix(&for_cluster))
        })?;
        match action.split(' ').collect::<Vec<_>>()[..] {
            ["exit", code] => {
                log("error", &format!("asked to fail at {step}"));
                return code.parse().ok();
            }
            ["exit", code, ..] => {
                let message = action.splitn(3, ' ').last().unwrap_or_default();
                log("error", message);
                return code.parse().ok();
            }
            ["sleep", millis] => std::thread::sleep(Duration::from_millis(millis.parse().unwrap())),
            ["hang"] => std::thread::sleep(Duration::from_secs(60)),
            ["deaf"] => {
                let ignored = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
                signal_hook::flag::register(signal_hook::consts::SIGTERM, ignored).unwrap();
                let begun = std::time::Instant::now();
                while begun.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
            ["die"] => {
                let _ = rustix::process::kill_process(
                    rustix::process::getpid(),
                    rustix::process::Signal::KILL,
                );
            }
            ["leak", seconds] => {
                // A child that inherits the open files, and outlives this program.
                let _ = std::process::Command::new("/bin/sleep").arg(seconds).spawn();
            }
            _ => {}
        }
        None
    }

    /// Adds a line to the ledger.
    fn note(&self, line: &str) {
        let mut ledger =
            File::options().create(true).append(true).open(self.home.join("ledger")).unwrap();
        ledger.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn read(&self, name: &str) -> Result<String, String> {
        fs::read_to_string(self.folder.join(name)).map_err(|error| format!("{name}: {error}"))
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// The state that an earlier step left, with the name and the domain of the cluster.
    fn state(&self) -> Result<Value, String> {
        Ok(serde_json::from_str(&self.read(".openshift_install_state.json")?).unwrap())
    }

    /// Consumes install-config.yaml.
    fn create_manifests(&self) -> Result<i32, String> {
        let install_config = self.read("install-config.yaml")?;
        let config =
            poolctl::yaml::parse_value(&install_config).map_err(|error| error.to_string())?;
        let unknown = config
            .as_object()
            .unwrap()
            .keys()
            .find(|key| !INSTALL_CONFIG_FIELDS.contains(&key.as_str()));
        if let Some(key) = unknown {
            return Err(format!(
                "failed to load asset \\\"Install Config\\\": json: unknown field {key}"
            ));
        }
        // Like careless programs it prints secrets, which must not show anywhere.
        log(
            "info",
            &format!(
                "pull secret {}",
                config["pullSecret"].as_str().unwrap_or_default().replace('"', "\\\"")
            ),
        );
        let vsphere = &config["platform"]["vsphere"];
        log("debug", &format!("password: {}", vsphere["password"].as_str().unwrap_or_default()));
        for (name, value) in std::env::vars() {
            if name.starts_with("OS_CLIENT") {
                log("debug", &fs::read_to_string(value).unwrap_or_default().replace('\n', " / "));
            }
        }
        let name = config["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        fs::write(self.home.join(format!("seen-{name}.yaml")), &install_config).unwrap();
        fs::remove_file(self.folder.join("install-config.yaml")).unwrap();
        let state = json!({"name": name, "domain": config["baseDomain"]});
        self.write(".openshift_install_state.json", &state.to_string());
        self.write(
            "manifests/cluster-scheduler-02-config.yml",
            "kind: Scheduler\nspec: {mastersSchedulable: true}\n",
        );
        self.write("openshift/99_any.yaml", "kind: Any\nspec: {count: 1}\n");
        Ok(0)
    }

    fn create_ignition(&self) -> Result<i32, String> {
        let state = self.state()?;
        let name = state["name"].as_str().unwrap_or_default();
        let scheduler = self.read("manifests/cluster-scheduler-02-config.yml")?;
        fs::write(self.home.join(format!("scheduler-{name}.yaml")), scheduler).unwrap();
        let infra = format!("{name}-{:05x}", std::process::id());
        let metadata = json!({"clusterName": name, "clusterID": format!("id-{infra}"), "infraID": infra, "vsphere": {}});
        self.write("metadata.json", &metadata.to_string());
        self.write(
            "auth/kubeconfig",
            "apiVersion: v1\nkind: Config\nusers: [{name: admin, user: {token: CANARY-token}}]\n",
        );
        self.write("auth/kubeadmin-password", &format!("CANARY-kubeadmin-{infra}"));
        Ok(0)
    }

    fn create_cluster(&self) -> Result<i32, String> {
        let metadata: Value = serde_json::from_str(&self.read("metadata.json")?).unwrap();
        self.note(&format!("made {}", metadata["infraID"].as_str().unwrap_or_default()));
        log("info", "Waiting up to 20m0s for the Kubernetes API");
        log("info", &format!("password: {}", self.read("auth/kubeadmin-password")?));
        self.write(".openshift_install.log", "done");
        Ok(0)
    }

    fn wait_for(&self) -> Result<i32, String> {
        self.state()?;
        Ok(if self.read(".openshift_install.log").is_ok() { 0 } else { 6 })
    }

    /// Consumes both documents, and leaves an image and no metadata.json.
    fn create_image(&self) -> Result<i32, String> {
        let install_config = self.read("install-config.yaml")?;
        let config =
            poolctl::yaml::parse_value(&install_config).map_err(|error| error.to_string())?;
        let agent_config = self.read("agent-config.yaml")?;
        let hosts = poolctl::yaml::parse_value(&agent_config).map_err(|error| error.to_string())?;
        let name = config["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        fs::write(self.home.join(format!("seen-{name}.yaml")), &install_config).unwrap();
        fs::write(self.home.join(format!("agents-{name}.yaml")), &agent_config).unwrap();
        for file in ["install-config.yaml", "agent-config.yaml"] {
            fs::remove_file(self.folder.join(file)).unwrap();
        }
        let macs: Vec<String> = hosts["hosts"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|host| host["interfaces"].as_array().cloned().unwrap_or_default())
            .filter_map(|interface| interface["macAddress"].as_str().map(str::to_owned))
            .collect();
        self.note(&format!("image {name} {}", macs.join(",")));
        let state = json!({"name": name, "domain": config["baseDomain"]});
        self.write(".openshift_install_state.json", &state.to_string());
        self.write("agent.x86_64.iso", &format!("image of {name}"));
        self.write("rendezvousIP", "192.0.2.10");
        self.write(
            "auth/kubeconfig",
            "apiVersion: v1\nkind: Config\nusers: [{name: admin, user: {token: CANARY-token}}]\n",
        );
        self.write("auth/kubeadmin-password", &format!("CANARY-kubeadmin-{name}"));
        log("info", "The rendezvous host IP (node0 IP) is 192.0.2.10");
        Ok(0)
    }

    /// A manifest for the discovery image, which is called an asset in messages.
    fn read_manifest(&self, asset: &str, name: &str) -> Result<Value, String> {
        let manifest = self
            .read(&format!("cluster-manifests/{name}"))
            .map_err(|_| asset_failure(asset, "missing configuration or manifest file"))?;
        poolctl::yaml::parse_value(&manifest)
            .map_err(|error| asset_failure(asset, &error.to_string()))
    }

    /// Shows the pull secret that it refuses, as the real one does.
    fn create_unconfigured_ignition(&self) -> Result<i32, String> {
        let mode = fs::metadata(&self.folder).unwrap().permissions().mode() & 0o777;
        let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
        names.sort();
        self.note(&format!("alone {mode:o} {}", names.join(",")));
        let infra_env = self.read_manifest("InfraEnv Config", "infraenv.yaml")?;
        let secret = self.read_manifest("Agent PullSecret", "pull-secret.yaml")?;
        let spec = infra_env["spec"].as_object().unwrap();
        if let Some(key) = spec.keys().find(|key| !INFRA_ENV_FIELDS.contains(&key.as_str())) {
            return Err(format!("failed to unmarshal infraenv.yaml: unknown field {key}"));
        }
        let pull_secret = secret["stringData"][".dockerconfigjson"].as_str().unwrap();
        let auths: Value = serde_json::from_str(pull_secret).unwrap();
        if auths["auths"].as_object().is_none_or(serde_json::Map::is_empty) {
            return Err(format!(
                "invalid PullSecret: Invalid value: {pull_secret:?}: auths required"
            ));
        }
        self.write(".openshift_install_state.json", pull_secret);
        let key = &infra_env["spec"]["sshAuthorizedKey"];
        let ignition = json!({
            "ignition": {"version": "3.2.0"},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [key]}]},
            "storage": {"files": [
                ignition_file("/etc/assisted/manifests/infraenv.yaml"),
                ignition_file("/root/.docker/config.json"),
            ]},
            "systemd": {"units": [{"name": "agent-check-config-image.service", "enabled": true}]},
        });
        self.write("unconfigured-agent.ign", &ignition.to_string());
        Ok(0)
    }

    fn wait_for_agents(&self) -> Result<i32, String> {
        self.read("auth/kubeconfig")?;
        self.state()?;
        Ok(0)
    }

    fn destroy_cluster(&self) -> Result<i32, String> {
        let metadata: Value = serde_json::from_str(&self.read("metadata.json")?).unwrap();
        self.note(&format!("destroyed {}", metadata["infraID"].as_str().unwrap_or_default()));
        Ok(0)
    }
}
