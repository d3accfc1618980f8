//! A stand-in for openshift-install, which behaves like it for create, wait-for, gather and destroy.
//! It reads and consumes files, refuses unknown keys, writes metadata.json, kubeconfig and logs, and
//! ends with the same exit codes. Beside it lie `behave` (what is to go wrong, one `step: action` or
//! `step of CLUSTER: action` a line), `cloud` (how the lab is now), `version` and `release` (which
//! ones it says it is of), and `ledger`, where it notes what it began, made and destroyed.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "it is a program of the tests")]

mod cloud;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use cloud::Cloud;

/// The image of the machines that `create cluster` uploads, and that of `agent create image`.
const MACHINE_IMAGE: &str = "https://rhcos.example.com/rhcos-vmware.x86_64.ova?sha256=0";
const AGENT_IMAGE: &str = "coreos-x86_64.iso";
/// Platforms whose machines are made of an image that the installer uploads.
const UPLOADING_PLATFORMS: [&str; 4] = ["nutanix", "openstack", "ovirt", "vsphere"];
/// Variables that say how the world is reached; they are noted as those of the installer itself.
const SITE_VARIABLES: [&str; 6] =
    ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "OVIRT_CONFIG", "SSL_CERT_FILE", "XDG_CACHE_HOME"];

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
    cloud: Cloud,
}

/// Why a step failed, and the exit code that follows.
struct Failure {
    code: i32,
    message: String,
}

impl Failure {
    fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// What is wrong with the install-config, or stands in the way of finding out.
    fn of_install_config(cause: &str) -> Self {
        let asset = "failed to fetch Master Machines: failed to load asset \"Install Config\"";
        Self::new(3, format!("{asset}: failed to create install config: {cause}"))
    }

    fn of_infrastructure(cause: &str) -> Self {
        let asset = "failed to fetch Cluster: failed to generate asset \"Cluster\"";
        Self::new(4, format!("{asset}: failed to create cluster: {cause}"))
    }
}

/// A failure without an exit code of its own.
impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::new(1, message)
    }
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
    let cloud = Cloud::read(&home);
    let stub = Stub { home, folder, cloud };
    std::process::exit(match words[..] {
        ["version"] => print_version(&stub),
        ["create", "manifests"] => stub.run_step("create-manifests", Stub::create_manifests),
        ["create", "ignition-configs"] => {
            stub.run_step("create-ignition-configs", Stub::create_ignition)
        }
        ["create", "cluster"] => stub.run_step("create-cluster", Stub::create_cluster),
        ["wait-for", "install-complete"] => stub.run_step("wait-for", Stub::wait_for),
        ["gather", "bootstrap"] => stub.run_step("gather", Stub::gather_bootstrap),
        ["destroy", "cluster"] => stub.run_step("destroy", Stub::destroy_cluster),
        ["agent", "create", "image"] => stub.run_step("agent-image", Stub::create_image),
        ["agent", "create", "config-image"] => {
            stub.run_step("agent-config-image", Stub::create_config_image)
        }
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

/// Prints a message in which quotes are escaped already.
fn log(level: &str, message: &str) {
    eprintln!("level={level} msg=\"{message}\"");
}

fn escape(message: &str) -> String {
    message.replace('\\', "\\\\").replace('"', "\\\"")
}

fn print_version(stub: &Stub) -> i32 {
    let number = fs::read_to_string(stub.home.join("version")).unwrap_or_else(|_| "4.18.3".into());
    let release = fs::read_to_string(stub.home.join("release"))
        .unwrap_or_else(|_| "example.com/ocp@sha256:0".into());
    println!(
        "openshift-install {}\nbuilt from commit 0\nrelease image {}",
        number.trim(),
        release.trim()
    );
    0
}

fn asset_failure(asset: &str, cause: &str) -> String {
    format!("failed to generate asset \"{asset}\": {cause}")
}

/// A file of an Ignition, whose content must be replaced by that of poolctl.
fn ignition_file(path: &str) -> Value {
    let contents = json!({"source": "data:,theirs", "verification": {}});
    json!({"path": path, "mode": 0o600, "user": {"name": "root"}, "contents": contents})
}

impl Stub {
    /// Notes a step, does what `behave` asks for, and does the work. Returns the exit code.
    fn run_step(&self, name: &str, work: impl Fn(&Self) -> Result<i32, Failure>) -> i32 {
        self.note(&format!("begin {name} {}", self.folder.display()));
        let words: Vec<String> = std::env::args().collect();
        self.note(&format!("typed {}", words.join(" ")));
        for (name, value) in std::env::vars() {
            if name.starts_with("OPENSHIFT_") || SITE_VARIABLES.contains(&name.as_str()) {
                self.note(&format!("given {name}={value}"));
            }
        }
        if let Some(code) = self.misbehave(name) {
            return code;
        }
        match work(self) {
            Ok(0) => self.misbehave(&format!("after-{name}")).unwrap_or(0),
            Ok(code) => code,
            Err(failure) => {
                // It ends by itself with its own codes, and by `logrus.Fatal` with 1.
                self.log_failure(
                    if failure.code == 1 { "fatal" } else { "error" },
                    &failure.message,
                );
                failure.code
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

    /// Prints a message, and adds it to the installer's own log.
    fn log_failure(&self, level: &str, message: &str) {
        let message = escape(message);
        log(level, &message);
        let path = self.folder.join(".openshift_install.log");
        if let Ok(mut file) = File::options().create(true).append(true).open(path) {
            let time = "2026-03-02T12:00:00Z";
            let _ = writeln!(file, "time=\"{time}\" level={level} msg=\"{message}\"");
        }
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

    fn write_state(&self, state: &Value) {
        self.write(".openshift_install_state.json", &state.to_string());
    }

    /// The state that an earlier step left, with the name and the domain of the cluster.
    fn state(&self) -> Result<Value, String> {
        Ok(serde_json::from_str(&self.read(".openshift_install_state.json")?).unwrap())
    }

    /// Consumes install-config.yaml.
    fn create_manifests(&self) -> Result<i32, Failure> {
        let install_config = self.read("install-config.yaml")?;
        let config =
            poolctl::yaml::parse_value(&install_config).map_err(|error| error.to_string())?;
        let unknown = config
            .as_object()
            .unwrap()
            .keys()
            .find(|key| !INSTALL_CONFIG_FIELDS.contains(&key.as_str()));
        if let Some(key) = unknown {
            return Err(Failure::of_install_config(&format!("json: unknown field \"{key}\"")));
        }
        let (platform, settings) = platform_of(&config);
        if let Some(cause) = cloud::find_invalid_setting(&platform, &settings) {
            let cause = format!("invalid \"install-config.yaml\" file: {cause}");
            return Err(Failure::of_install_config(&cause));
        }
        if let Some(url) = cloud::api_url(&platform) {
            let refusal = self.cloud.refuse_request("create-manifests", url);
            let misplacement = self.cloud.find_misplacement(&platform, &settings);
            if let Some(cause) = refusal.or(misplacement) {
                return Err(Failure::of_install_config(&cause));
            }
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
        let image_sources = json!([config["imageDigestSources"], config["imageContentSources"]]);
        let state = json!({"name": name, "domain": config["baseDomain"], "platform": platform,
                           "imageSources": image_sources});
        self.write_state(&state);
        self.write(
            "manifests/cluster-scheduler-02-config.yml",
            "kind: Scheduler\nspec: {mastersSchedulable: true}\n",
        );
        self.write("openshift/99_any.yaml", "kind: Any\nspec: {count: 1}\n");
        Ok(0)
    }

    /// Notes the manifests that come on top of those of the installer.
    fn note_manifests(&self) {
        for entry in fs::read_dir(self.folder.join("openshift")).into_iter().flatten().flatten() {
            self.note(&format!("manifest {}", entry.file_name().to_string_lossy()));
        }
    }

    fn create_ignition(&self) -> Result<i32, Failure> {
        let state = self.state()?;
        self.note_manifests();
        let name = state["name"].as_str().unwrap_or_default();
        let scheduler = self.read("manifests/cluster-scheduler-02-config.yml")?;
        fs::write(self.home.join(format!("scheduler-{name}.yaml")), scheduler).unwrap();
        let infra = format!("{name}-{:05x}", std::process::id());
        let platform = state["platform"].as_str().unwrap_or("none");
        let metadata = json!({"clusterName": name, "clusterID": format!("id-{infra}"), "infraID": infra, platform: {}});
        self.write("metadata.json", &metadata.to_string());
        self.write(
            "auth/kubeconfig",
            "apiVersion: v1\nkind: Config\nusers: [{name: admin, user: {token: CANARY-token}}]\n",
        );
        self.write("auth/kubeadmin-password", &format!("CANARY-kubeadmin-{infra}"));
        Ok(0)
    }

    /// Makes the infrastructure, and waits until the cluster is complete.
    fn create_cluster(&self) -> Result<i32, Failure> {
        let metadata: Value = serde_json::from_str(&self.read("metadata.json")?)
            .map_err(|error| error.to_string())?;
        let mut state = self.state()?;
        let platform = state["platform"].as_str().unwrap_or_default().to_owned();
        if UPLOADING_PLATFORMS.contains(&platform.as_str()) {
            log("info", &format!("Obtaining RHCOS image file from '{MACHINE_IMAGE}'"));
            self.use_image("openshift-installer/image_cache", MACHINE_IMAGE);
        }
        // A network, at least, is there before anything can go wrong.
        self.note(&format!("made {}", metadata["infraID"].as_str().unwrap_or_default()));
        self.write(".clusterapi_output/Cluster.yaml", "kind: Cluster\nstatus: {phase: Failed}\n");
        let url = cloud::api_url(&platform);
        if let Some(cause) = url.and_then(|url| self.cloud.refuse_request("create-cluster", url)) {
            return Err(Failure::of_infrastructure(&cause));
        }
        if let Some(resource) = self.cloud.quota() {
            let cause = format!("Quota exceeded for {resource}: Requested 8, but already used 40");
            return Err(Failure::of_infrastructure(&cause));
        }
        log("info", "Waiting up to 20m0s for the Kubernetes API");
        if self.cloud.is("bootstrap", "fails")
            || !self.cloud.can_pull_release(&state["imageSources"])
        {
            return Err(self.fail_bootstrap());
        }
        state["isBootstrapped"] = true.into();
        self.write_state(&state);
        self.write(".openshift_install.log", "done");
        if self.cloud.is("operators", "late") || self.cloud.is("operators", "never") {
            return Err(unready_operators());
        }
        log("info", &format!("password: {}", self.read("auth/kubeadmin-password")?));
        Ok(0)
    }

    /// Says that the bootstrap did not complete. Without a key nobody can look at its machine.
    fn fail_bootstrap(&self) -> Failure {
        self.log_failure(
            "error",
            "Attempted to gather debug logs after installation failure: failed to create SSH \
             client: failed to use pre-existing agent, make sure the appropriate keys exist",
        );
        self.log_failure(
            "error",
            "Bootstrap failed to complete: timed out waiting for the condition",
        );
        Failure::new(
            5,
            "Failed to wait for bootstrapping to complete. This error usually happens when there \
             is a problem with control plane hosts that prevents the control plane operators from \
             creating the control plane.",
        )
    }

    /// Keeps an image in the user's cache, as Go finds that folder, and notes when it had to be
    /// downloaded.
    fn use_image(&self, folder: &str, image: &str) {
        let cache = std::env::var("XDG_CACHE_HOME").map_or_else(
            |_| PathBuf::from(std::env::var("HOME").unwrap_or_default()).join(".cache"),
            PathBuf::from,
        );
        let path = cache.join(folder).join(image.replace(['/', ':', '?', '='], "_"));
        if path.exists() {
            log("info", &format!("The file was found in cache: {}. Reusing...", path.display()));
            return;
        }
        self.note(&format!("downloaded {image}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "image").unwrap();
    }

    fn wait_for(&self) -> Result<i32, Failure> {
        let state = self.state()?;
        if state["isBootstrapped"] != true {
            let api = format!(
                "api.{}.{}",
                state["name"].as_str().unwrap_or_default(),
                state["domain"].as_str().unwrap_or_default()
            );
            return Err(Failure::new(
                6,
                format!("Get \"https://{api}:6443\": dial tcp: lookup {api}: no such host"),
            ));
        }
        if self.cloud.is("operators", "never") {
            return Err(unready_operators());
        }
        Ok(0)
    }

    /// Fetches the logs of a bootstrap that failed, with the key that it is given.
    fn gather_bootstrap(&self) -> Result<i32, Failure> {
        let arguments: Vec<String> = std::env::args().collect();
        let key = arguments.iter().position(|word| word == "--key").map(|at| &arguments[at + 1]);
        let Some(key) = key.filter(|path| fs::read_to_string(path).is_ok()) else {
            return Err(Failure::new(1, "failed to create SSH client: no key was provided"));
        };
        self.note(&format!("gathered with {}", fs::read_to_string(key).unwrap().trim()));
        let bundle = "log-bundle-20260302120000.tar.gz";
        self.write(bundle, "bundle of the bootstrap");
        log("info", &format!("Bootstrap gather logs captured here \\\"{bundle}\\\""));
        Ok(0)
    }

    /// Consumes both documents, and leaves an image and no metadata.json.
    fn create_image(&self) -> Result<i32, Failure> {
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
        self.note_manifests();
        self.use_image("agent/image_cache", AGENT_IMAGE);
        self.write_state(&json!({"name": name, "domain": config["baseDomain"]}));
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

    /// The same without the live system, for hosts that wait for it.
    fn create_config_image(&self) -> Result<i32, Failure> {
        let code = self.create_image()?;
        let image = self.folder.join("agent.x86_64.iso");
        fs::rename(image, self.folder.join("agentconfig.noarch.iso")).unwrap();
        Ok(code)
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
    fn create_unconfigured_ignition(&self) -> Result<i32, Failure> {
        let mode = fs::metadata(&self.folder).unwrap().permissions().mode() & 0o777;
        let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
        names.sort();
        self.note(&format!("alone {mode:o} {}", names.join(",")));
        let infra_env = self.read_manifest("InfraEnv Config", "infraenv.yaml")?;
        let secret = self.read_manifest("Agent PullSecret", "pull-secret.yaml")?;
        let spec = infra_env["spec"].as_object().unwrap();
        if let Some(key) = spec.keys().find(|key| !INFRA_ENV_FIELDS.contains(&key.as_str())) {
            return Err(format!("failed to unmarshal infraenv.yaml: unknown field {key}").into());
        }
        let pull_secret = secret["stringData"][".dockerconfigjson"].as_str().unwrap();
        let auths: Value = serde_json::from_str(pull_secret).unwrap();
        if auths["auths"].as_object().is_none_or(serde_json::Map::is_empty) {
            let value = format!("{pull_secret:?}");
            return Err(
                format!("invalid PullSecret: Invalid value: {value}: auths required").into()
            );
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

    fn wait_for_agents(&self) -> Result<i32, Failure> {
        self.read("auth/kubeconfig")?;
        self.state()?;
        Ok(0)
    }

    fn destroy_cluster(&self) -> Result<i32, Failure> {
        let metadata: Value = serde_json::from_str(&self.read("metadata.json")?)
            .map_err(|error| format!("Failed while preparing to destroy cluster: {error}"))?;
        let platforms = ["openstack", "vsphere", "nutanix", "ovirt"];
        let platform = platforms.into_iter().find(|platform| !metadata[platform].is_null());
        let url = platform.and_then(cloud::api_url);
        if let Some(cause) = url.and_then(|url| self.cloud.refuse_request("destroy", url)) {
            return Err(format!("Failed to destroy cluster: {cause}").into());
        }
        self.note(&format!("destroyed {}", metadata["infraID"].as_str().unwrap_or_default()));
        log("info", "Uninstallation complete!");
        Ok(0)
    }
}

/// The name of the platform of an install-config, and its settings.
fn platform_of(config: &Value) -> (String, Value) {
    let platforms = config["platform"].as_object();
    let platform = platforms.and_then(|platforms| platforms.iter().next());
    platform.map_or_else(
        || ("none".to_owned(), Value::Null),
        |(name, settings)| (name.clone(), settings.clone()),
    )
}

fn unready_operators() -> Failure {
    Failure::new(
        6,
        "failed to initialize the cluster: Cluster operators authentication, console are not \
         available",
    )
}
