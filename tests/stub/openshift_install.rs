//! Behaves like openshift-install for create, wait-for and destroy: reads and consumes files,
//! refuses unknown keys, writes metadata.json, kubeconfig and logs, and ends with its exit codes.
//! Beside it lie `behave` (what is to go wrong, one `step: action` or `step of CLUSTER: action` a
//! line) and `ledger`, where it writes down what it began, made and destroyed.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "it is a program of the tests")]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

const KNOWN: [&str; 16] = [
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

/// Of an `InfraEnv`, by a version that is not the latest.
const KNOWN_SPEC: [&str; 10] = [
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
    /// Where it was started from.
    home: PathBuf,
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
    let folder = arguments.iter().position(|word| word == "--dir").map(|at| &arguments[at + 1]);
    let folder = std::env::current_dir().unwrap().join(folder.map_or(".", String::as_str));
    let stub = Stub { home, folder };
    std::process::exit(match words[..] {
        ["version"] => version(&stub),
        ["create", "manifests"] => stub.step("create-manifests", Stub::manifests),
        ["create", "ignition-configs"] => stub.step("create-ignition-configs", Stub::ignition),
        ["create", "cluster"] => stub.step("create-cluster", Stub::cluster),
        ["wait-for", "install-complete"] => stub.step("wait-for", Stub::wait_for),
        ["destroy", "cluster"] => stub.step("destroy", Stub::destroy),
        ["agent", "create", "image"] => stub.step("agent-image", Stub::image),
        ["agent", "create", "unconfigured-ignition"] => {
            stub.step("agent-unconfigured", Stub::unconfigured)
        }
        ["agent", "wait-for", "bootstrap-complete"] => {
            stub.step("agent-bootstrap", Stub::agent_wait)
        }
        ["agent", "wait-for", "install-complete"] => stub.step("agent-install", Stub::agent_wait),
        _ => 1,
    });
}

fn log(level: &str, message: &str) {
    eprintln!("level={level} msg=\"{message}\"");
}

fn version(stub: &Stub) -> i32 {
    let number = fs::read_to_string(stub.home.join("version")).unwrap_or_else(|_| "4.18.3".into());
    println!(
        "openshift-install {}\nbuilt from commit 0\nrelease image example.com/ocp@sha256:0",
        number.trim()
    );
    0
}

impl Stub {
    fn step(&self, name: &str, work: impl Fn(&Self) -> Result<i32, String>) -> i32 {
        self.note(&format!("begin {name} {}", self.folder.display()));
        let words: Vec<String> = std::env::args().collect();
        self.note(&format!("typed {}", words.join(" ")));
        for (name, value) in std::env::vars().filter(|(name, _)| name.starts_with("OPENSHIFT_")) {
            self.note(&format!("given {name}={value}"));
        }
        if let Some(code) = self.act(name) {
            return code;
        }
        match work(self) {
            Ok(0) => self.act(&format!("after-{name}")).unwrap_or(0),
            Ok(code) => code,
            Err(why) => {
                log("fatal", &why);
                if name.starts_with("create-m") { 3 } else { 1 }
            }
        }
    }

    /// What was asked to go wrong.
    fn act(&self, step: &str) -> Option<i32> {
        let text = fs::read_to_string(self.home.join("behave")).unwrap_or_default();
        let name = self.state().map(|state| state["name"].to_string()).unwrap_or_default();
        let own = format!("{step} of {}: ", name.trim_matches('"'));
        let asked = |line: &str| {
            let action = line.strip_prefix(&format!("{step}: ")).or(line.strip_prefix(&own))?;
            Some(action.to_owned())
        };
        let action = text.lines().find_map(asked)?;
        match action.split(' ').collect::<Vec<_>>()[..] {
            ["exit", code] => {
                log("error", &format!("asked to fail at {step}"));
                return code.parse().ok();
            }
            ["exit", code, ..] => {
                let why = action.splitn(3, ' ').last().unwrap_or_default();
                log("error", why);
                return code.parse().ok();
            }
            ["sleep", millis] => std::thread::sleep(Duration::from_millis(millis.parse().unwrap())),
            ["hang"] => std::thread::sleep(Duration::from_secs(60)),
            ["deaf"] => {
                let never = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
                signal_hook::flag::register(signal_hook::consts::SIGTERM, never).unwrap();
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
                // Holds what we hold, and outlives us.
                let _ = std::process::Command::new("/bin/sleep").arg(seconds).spawn();
            }
            _ => {}
        }
        None
    }

    fn note(&self, what: &str) {
        let mut ledger =
            File::options().create(true).append(true).open(self.home.join("ledger")).unwrap();
        ledger.write_all(format!("{what}\n").as_bytes()).unwrap();
    }

    fn read(&self, name: &str) -> Result<String, String> {
        fs::read_to_string(self.folder.join(name)).map_err(|error| format!("{name}: {error}"))
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn state(&self) -> Result<Value, String> {
        Ok(serde_json::from_str(&self.read(".openshift_install_state.json")?).unwrap())
    }

    /// Consumes install-config.yaml.
    fn manifests(&self) -> Result<i32, String> {
        let text = self.read("install-config.yaml")?;
        let config = poolctl::yaml::value(&text).map_err(|error| error.to_string())?;
        let unknown = config.as_object().unwrap().keys().find(|key| !KNOWN.contains(&key.as_str()));
        if let Some(key) = unknown {
            return Err(format!(
                "failed to load asset \\\"Install Config\\\": json: unknown field {key}"
            ));
        }
        // Secrets are printed by careless programs.
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
        fs::write(self.home.join(format!("seen-{name}.yaml")), &text).unwrap();
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

    fn ignition(&self) -> Result<i32, String> {
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

    fn cluster(&self) -> Result<i32, String> {
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
    fn image(&self) -> Result<i32, String> {
        let text = self.read("install-config.yaml")?;
        let config = poolctl::yaml::value(&text).map_err(|error| error.to_string())?;
        let agents = self.read("agent-config.yaml")?;
        let hosts = poolctl::yaml::value(&agents).map_err(|error| error.to_string())?;
        let name = config["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        fs::write(self.home.join(format!("seen-{name}.yaml")), &text).unwrap();
        fs::write(self.home.join(format!("agents-{name}.yaml")), &agents).unwrap();
        for file in ["install-config.yaml", "agent-config.yaml"] {
            fs::remove_file(self.folder.join(file)).unwrap();
        }
        let macs: Vec<String> = hosts["hosts"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|host| host["interfaces"].as_array().cloned().unwrap_or_default())
            .filter_map(|one| one["macAddress"].as_str().map(str::to_owned))
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

    /// Shows the pull secret that it refuses, as the real one does.
    fn unconfigured(&self) -> Result<i32, String> {
        let mode = fs::metadata(&self.folder).unwrap().permissions().mode() & 0o777;
        let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
        names.sort();
        self.note(&format!("alone {mode:o} {}", names.join(",")));
        let read = |asset: &str, name: &str| {
            let wrong = |why: &str| format!("failed to generate asset \\\"{asset}\\\": {why}");
            let text = self.read(&format!("cluster-manifests/{name}"));
            let text = text.map_err(|_| wrong("missing configuration or manifest file"))?;
            poolctl::yaml::value(&text).map_err(|error| wrong(&error.to_string()))
        };
        let infra_env = read("InfraEnv Config", "infraenv.yaml")?;
        let secret = read("Agent PullSecret", "pull-secret.yaml")?;
        let spec = infra_env["spec"].as_object().unwrap();
        if let Some(key) = spec.keys().find(|key| !KNOWN_SPEC.contains(&key.as_str())) {
            return Err(format!("failed to unmarshal infraenv.yaml: unknown field {key}"));
        }
        let text = secret["stringData"][".dockerconfigjson"].as_str().unwrap();
        let auths: Value = serde_json::from_str(text).unwrap();
        if auths["auths"].as_object().is_none_or(serde_json::Map::is_empty) {
            return Err(format!("invalid PullSecret: Invalid value: {text:?}: auths required"));
        }
        self.write(".openshift_install_state.json", text);
        let file = |path: &str| {
            let contents = json!({"source": "data:,theirs", "verification": {}});
            json!({"path": path, "mode": 0o600, "user": {"name": "root"}, "contents": contents})
        };
        let key = &infra_env["spec"]["sshAuthorizedKey"];
        let ignition = json!({
            "ignition": {"version": "3.2.0"},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [key]}]},
            "storage": {"files": [
                file("/etc/assisted/manifests/infraenv.yaml"), file("/root/.docker/config.json"),
            ]},
            "systemd": {"units": [{"name": "agent-check-config-image.service", "enabled": true}]},
        });
        self.write("unconfigured-agent.ign", &ignition.to_string());
        Ok(0)
    }

    fn agent_wait(&self) -> Result<i32, String> {
        self.read("auth/kubeconfig")?;
        self.state()?;
        Ok(0)
    }

    fn destroy(&self) -> Result<i32, String> {
        let metadata: Value = serde_json::from_str(&self.read("metadata.json")?).unwrap();
        self.note(&format!("destroyed {}", metadata["infraID"].as_str().unwrap_or_default()));
        Ok(0)
    }
}
