//! The scripts that run on hosts which were booted from a discovery image: the agent, against a
//! real sshd on loopback that knows the key of hosts, and the script that sets up their networks.

use std::fs;
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};

use crate::rigs::{Rig, free_port};
use crate::sandbox::{
    POOLCTL, Ran, Sandbox, apply, has_program, is_met_or_skipped, is_root, pause,
};

const AGENT: &str = "src/render/discovery/agent.sh";
const SSHD: &str = "/usr/sbin/sshd";

const OBJECTS: &str = "apiVersion: v1
kind: Secret
metadata: {name: pull}
stringData: {.dockerconfigjson: '{\"auths\": {}}'}
---
apiVersion: agent-install.openshift.io/v1beta1
kind: InfraEnv
metadata: {name: rack}
spec: {pullSecretRef: {name: pull}, agentLabels: {rack: r7}}
";

/// A state with an InfraEnv, and an sshd where its hosts' key runs `poolctl agent ssh`.
struct Site {
    sandbox: Sandbox,
    user: String,
    token: String,
    port: u16,
    _sshd: Rig,
}

impl Site {
    fn open() -> Option<Self> {
        let is_installed = Path::new(SSHD).exists();
        if !is_met_or_skipped(is_installed, "sshd (package openssh-server) is not installed")
            || !["ssh", "ssh-keygen", "jq"].into_iter().all(has_program)
        {
            return None;
        }
        let mut sandbox = Sandbox::new();
        sandbox.set_variable("POOLCTL_NOW", "");
        sandbox.set_variable("POOLCTL_SEED", "");
        apply(&sandbox, OBJECTS);
        let token = sandbox.ok("infraenv token create rack -q").trim().to_owned();
        let keys = sandbox.shell(
            "for key in host_key key; do ssh-keygen -q -t ed25519 -N '' -f $HOME/$key; done; id -un",
        );
        assert_eq!(keys.code, 0, "{}", keys.err);
        let user = keys.out.trim().to_owned();
        let (port, sshd) = start_sshd(&sandbox);
        let host_key = fs::read_to_string(sandbox.path().join("host_key.pub")).unwrap();
        sandbox.write_file("known_hosts", &format!("[127.0.0.1]:{port} {host_key}"));
        let site = Self { sandbox, user, token, port, _sshd: sshd };
        site.configure(&site.token);
        Some(site)
    }

    fn path(&self, name: &str) -> String {
        self.sandbox.path().join(name).display().to_string()
    }

    /// Writes the configuration that a discovery image has.
    fn configure(&self, token: &str) {
        let config = json!({
            "infraEnv": "default/rack", "token": token, "address": "127.0.0.1", "port": self.port,
            "user": self.user, "key": self.path("key"), "knownHosts": self.path("known_hosts"),
            "images": [], "delay": 0,
        });
        self.sandbox.write_file("config.json", &config.to_string());
    }

    /// Runs the agent once, by itself or under another program: it registers, reports, checks in.
    fn run_agent(&self, wrapper: &str) -> Ran {
        self.sandbox.shell(&format!("{wrapper} bash {AGENT} --once $HOME/config.json"))
    }

    /// The Agents of the state.
    fn agents(&self) -> Vec<Value> {
        let list: Value = serde_json::from_str(&self.sandbox.ok("get agent -A -o json")).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// Runs a program of ssh with the key of hosts: `scp -P`, `ssh -p`. HOST stands for sshd's user
    /// and address.
    fn run_with_key(&self, program: &str, arguments: &str) -> Ran {
        let arguments = arguments.replace("HOST", &format!("{}@127.0.0.1", self.user));
        self.sandbox.shell(&format!(
            "timeout 10 {program} {} -F /dev/null -i $HOME/key -o UserKnownHostsFile=$HOME/known_hosts \
             -o StrictHostKeyChecking=yes -o BatchMode=yes -o IdentitiesOnly=yes {arguments}",
            self.port
        ))
    }
}

/// Starts an sshd that accepts the key of hosts for one command only, and waits until it listens.
fn start_sshd(sandbox: &Sandbox) -> (u16, Rig) {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    if is_root() {
        // The empty folder that sshd changes into when it drops its privileges.
        fs::create_dir_all("/run/sshd").unwrap();
    }
    let home = sandbox.path().display();
    let key = fs::read_to_string(sandbox.path().join("key.pub")).unwrap();
    let command = format!("{POOLCTL} agent ssh --state {}", sandbox.state().display());
    sandbox.write_file("authorized_keys", &format!("restrict,command=\"{command}\" {key}"));
    let config = format!(
        "ListenAddress 127.0.0.1\nPort {port}\nHostKey {home}/host_key\nPidFile none\n\
         AuthorizedKeysFile {home}/authorized_keys\nStrictModes no\nUsePAM no\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 100\n\
         AllowTcpForwarding yes\nSubsystem sftp internal-sftp\n"
    );
    fs::write(folder.path().join("sshd.conf"), config).unwrap();
    let rig = Rig::start(folder, &[SSHD, "-D", "-e", "-f", "sshd.conf"]);
    for _ in 0..100 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return (port, rig);
        }
        pause(100);
    }
    panic!("{}", fs::read_to_string(rig.folder.path().join("log")).unwrap());
}

/// Expects that an inventory says what every machine has.
fn assert_plausible(inventory: &Value) {
    assert!(inventory["cpu"]["count"].as_u64() >= Some(1), "{inventory}");
    let memory = &inventory["memory"];
    assert!(memory["physicalBytes"].as_u64() > Some(100 << 20), "{inventory}");
    assert!(memory["usableBytes"].as_u64() > Some(100 << 20), "{inventory}");
    let architecture = inventory["cpu"]["architecture"].as_str().unwrap();
    assert!(["x86_64", "aarch64", "ppc64le", "s390x"].contains(&architecture), "{architecture}");
    let boot_mode = inventory["boot"]["currentBootMode"].as_str().unwrap();
    assert!(["uefi", "bios"].contains(&boot_mode), "{boot_mode}");
    assert!(!inventory["hostname"].as_str().unwrap().is_empty());
    assert!(inventory["disks"].is_array() && inventory["interfaces"].is_array(), "{inventory}");
}

#[test]
fn a_booted_host_registers_reports_and_checks_in() {
    let Some(site) = Site::open() else { return };
    // A pass would create clusters of this pool: the agent's commands must not run one.
    site.sandbox.ok("pool create lab --fake --size 1 --no-reconcile");
    let ran = site.run_agent("");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&answer["next"], &answer["after"]), (&json!("none"), &json!(60)));
    let agents = site.agents();
    assert_eq!(agents.len(), 1, "{agents:?}");
    let labels = &agents[0]["metadata"]["labels"];
    assert_eq!(labels["infraenvs.agent-install.openshift.io"], "rack");
    assert_eq!(labels["rack"], "r7");
    assert_plausible(&agents[0]["status"]["inventory"]);
    // The token, which all hosts have, does not let anybody speak for a host that is registered.
    assert_ne!(site.run_agent("").code, 0);
    assert_eq!(site.agents().len(), 1);
    // What the host said was recorded, and nothing else was done.
    assert_eq!(site.sandbox.ok("get cluster -A -o name"), "");
    assert_eq!(site.sandbox.ok("get job -A -o name"), "");
    let list: Value = serde_json::from_str(&site.sandbox.ok("get event -A -o json")).unwrap();
    let mut events = list["items"].as_array().unwrap().clone();
    events.retain(|event| event["involvedObject"]["kind"] == "Agent");
    assert!(!events.is_empty(), "{list}");
    for event in events {
        let reason = event["reason"].as_str().unwrap_or_default();
        assert!(reason.starts_with("host_"), "{reason}");
    }
}

#[test]
fn hosts_without_a_good_token_are_refused() {
    let Some(site) = Site::open() else { return };
    site.configure("guessed");
    let ran = site.run_agent("");
    assert_ne!(ran.code, 0, "{}", ran.out);
    assert!(ran.err.contains("register: refused or not heard"), "{}", ran.err);
    assert!(site.agents().is_empty());
}

#[test]
fn no_secret_is_among_the_arguments_of_a_program() {
    let Some(site) = Site::open() else { return };
    if !has_program("strace") {
        return;
    }
    let ran = site.run_agent("strace -f -qq -s 65536 -e trace=execve -o $HOME/trace");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let trace = fs::read_to_string(site.path("trace")).unwrap();
    assert!(trace.contains("\"ssh\"") && trace.contains("\"check-in\""));
    assert!(!trace.contains(&site.token));
    // Nor is the secret that the Agent got when it registered.
    assert!(!trace.contains("secret\\\": \\\""), "a document with its values is an argument");
}

#[test]
fn the_key_of_hosts_runs_nothing_else() {
    let Some(site) = Site::open() else { return };
    site.sandbox.ok("pool create treasure --fake --size 0");
    for command in [
        "'get pools'",
        "'agent ssh'",
        "'register; poolctl get pool'",
        "'$(poolctl get pool)'",
        "",
        "sh",
    ] {
        let ran = site.run_with_key("ssh -p", &format!("HOST {command} </dev/null"));
        assert!(![0, 124].contains(&ran.code), "{command}: {ran:?}");
        let printed = format!("{}{}", ran.out, ran.err);
        assert!(!printed.contains("treasure"), "{command}: {printed}");
    }
    for copy in [
        "HOST:$HOME/state.db $HOME/stolen",
        "-O HOST:$HOME/state.db $HOME/stolen",
        "$HOME/config.json HOST:$HOME/planted",
        "-O $HOME/config.json HOST:$HOME/planted",
    ] {
        assert_ne!(site.run_with_key("scp -P", copy).code, 0, "{copy}");
    }
    site.sandbox.write_file("batch", &format!("get {0}/state.db {0}/stolen\n", site.path("")));
    assert_ne!(site.run_with_key("sftp -P", "-b $HOME/batch HOST").code, 0);
    for name in ["stolen", "planted"] {
        assert!(!Path::new(&site.path(name)).exists(), "{name}");
    }
    // Nor does it forward connections, in either direction.
    let forward = format!("-W 127.0.0.1:{} HOST </dev/null", site.port);
    let ran = site.run_with_key("ssh -p", &forward);
    assert!(ran.code != 0 && !ran.out.contains("SSH-2.0"), "{ran:?}");
    let back = "-N -o ExitOnForwardFailure=yes -R 0:127.0.0.1:1 HOST </dev/null";
    let ran = site.run_with_key("ssh -p", back);
    assert!(![0, 124].contains(&ran.code), "{ran:?}");
    assert!(site.agents().is_empty());
}

/// The inventory that the agent takes of this machine, with these stand-ins for programs.
fn take_inventory(stand_ins: &[(&str, &str)]) -> Value {
    let sandbox = Sandbox::new();
    for (name, script) in stand_ins {
        sandbox.write_script(name, &format!("#!/bin/sh\n{script}\n"));
    }
    let ran = sandbox.shell(&format!("PATH=$HOME:$PATH bash {AGENT} --inventory"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn a_program_that_is_missing_leaves_its_part_out() {
    if !has_program("jq") {
        return;
    }
    let absent = ["lscpu", "lsblk", "ip", "dmidecode", "lspci", "systemd-detect-virt"];
    let inventory = take_inventory(&absent.map(|name| (name, "exit 127")));
    for key in ["boot", "cpu", "memory", "system_vendor"] {
        assert!(inventory[key].is_object(), "{key}: {inventory}");
    }
    for key in ["disks", "gpus", "routes"] {
        assert_eq!(inventory[key], json!([]), "{key}");
    }
    assert!(inventory["cpu"]["count"].as_u64().unwrap() >= 1);
    assert_eq!(inventory["memory"]["physical_bytes_method"], "meminfo");
}

/// Path, type, what it is marked as, and the number of reasons not to install on it.
fn summary_of_disk(disk: &Value) -> String {
    let path = disk["path"].as_str().unwrap();
    let drive_type = disk["drive_type"].as_str().unwrap();
    let mut marks = ["bootable", "is_installation_media"].to_vec();
    marks.retain(|mark| disk[*mark] == true);
    let reasons = disk["installation_eligibility"]["not_eligible_reasons"].as_array().unwrap();
    format!("{path} {drive_type} {} {}", marks.concat(), reasons.len())
}

#[test]
fn disks_are_named_once_and_judged_by_what_they_are() {
    if !has_program("jq") {
        return;
    }
    let disk = |name: &str, more: &str| {
        format!(
            "{{\"name\":\"{name}\",\"kname\":\"{name}\",\"type\":\"disk\",\"size\":\"120000000000\"{more}}}"
        )
    };
    let multipath = ",\"rota\":true,\"children\":[{\"name\":\"mpatha\",\"kname\":\"dm-0\",\"type\":\"mpath\",\"rota\":true,\"size\":1}]";
    let disks = [
        disk("sda", multipath),
        disk("sdb", multipath),
        disk("nvme0n1", ",\"rota\":false,\"pttype\":\"gpt\",\"wwn\":\"eui.1\",\"model\":\"M  \""),
        disk("sdc", ",\"rota\":\"1\",\"rm\":\"1\",\"label\":\"rhcos-418.94\""),
        disk("sr0", ",\"mountpoints\":[\"/run/media/iso\"]").replace("disk", "rom"),
        disk("zram0", ""),
    ];
    let lsblk = format!("echo '{{\"blockdevices\":[{}]}}'", disks.join(","));
    let inventory = take_inventory(&[("lsblk", &lsblk)]);
    let lines: Vec<String> =
        inventory["disks"].as_array().unwrap().iter().map(summary_of_disk).collect();
    let expected = [
        "/dev/dm-0 Multipath  0",
        "/dev/nvme0n1 SSD bootable 0",
        "/dev/sda HDD  1",
        "/dev/sdb HDD  1",
        "/dev/sdc HDD is_installation_media 2",
        "/dev/sr0 ODD is_installation_media 1",
    ];
    assert_eq!(lines, expected);
    assert_eq!(inventory["disks"][1]["model"], "M");
    assert_eq!(inventory["disks"][1]["size_bytes"], 120_000_000_000_u64);
}

/// The name and MAC address of a network interface of this machine, chosen as the script does:
/// rather a real one than a virtual one, and the loopback last.
fn network_interface() -> (String, String) {
    let mut interfaces = Vec::new();
    for entry in fs::read_dir("/sys/class/net").unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let address = fs::read_to_string(entry.path().join("address")).unwrap_or_default();
        let mac = address.trim().to_uppercase();
        if mac.len() == 17 {
            let is_virtual = !entry.path().join("device").exists();
            interfaces.push((is_virtual, name == "lo", name, mac));
        }
    }
    interfaces.sort_by_key(|(is_virtual, is_loopback, ..)| (*is_virtual, *is_loopback));
    let (_, _, name, mac) = interfaces.swap_remove(0);
    (name, mac)
}

#[test]
fn the_network_of_a_host_is_found_by_its_mac_addresses() {
    if !has_program("jq") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write_script("nmstatectl", "#!/bin/sh\necho $1; jq -c . $2\n");
    let (name, mac) = network_interface();
    let config = json!({
        "interfaces": [
            {"name": "nic0", "type": "ethernet", "state": "up"},
            {"name": "nic0.5", "type": "vlan", "vlan": {"base-iface": "nic0", "id": 5}},
            {"name": "bond0", "type": "bond", "link-aggregation": {"port": ["nic0", "nic1"]}},
        ],
        "routes": {"config": [{"next-hop-interface": "nic0"}]},
    });
    fs::create_dir(sandbox.path().join("network")).unwrap();
    for (file, content) in [
        ("0000.macs", "52:54:00:ff:ff:fe nic0\n"),
        ("0000.yml", "{}"),
        ("0001.macs", &format!("{mac} nic0\n52:54:00:ff:ff:ff nic1\n")),
        ("0001.yml", &config.to_string()),
    ] {
        sandbox.write_file(&format!("network/{file}"), content);
    }
    let ran = sandbox.shell("PATH=$HOME:$PATH bash src/render/discovery/network.sh $HOME/network");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut lines = ran.out.lines().skip_while(|line| *line != "apply").skip(1);
    let applied: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    let expected = config.to_string().replace("\"nic0\"", &format!("\"{name}\""));
    assert_eq!(applied, serde_json::from_str::<Value>(&expected).unwrap());
    let ran = sandbox.shell("bash src/render/discovery/network.sh $HOME/nowhere");
    assert!(ran.code == 0 && ran.out.contains("no configuration"), "{}", ran.out);
}
