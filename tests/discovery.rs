//! What runs on hosts that are booted from a discovery image: the agent, against a real sshd on
//! loopback and the key that it is given there; and the script that sets up their networks.

use std::fs;
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};

use crate::rigs::{Rig, free_port, pause};
use crate::sandbox::{POOLCTL, Ran, Sandbox, apply, has, is_root, met};

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
        let there = Path::new(SSHD).exists();
        if !met(there, "sshd (package openssh-server) is not installed")
            || !["ssh", "ssh-keygen", "jq"].into_iter().all(has)
        {
            return None;
        }
        let mut sandbox = Sandbox::new();
        sandbox.set("POOLCTL_NOW", "");
        sandbox.set("POOLCTL_SEED", "");
        apply(&sandbox, OBJECTS);
        let token = sandbox.ok("infraenv token create rack -q").trim().to_owned();
        let keys = sandbox.shell(
            "for key in host_key key; do ssh-keygen -q -t ed25519 -N '' -f $HOME/$key; done; id -un",
        );
        assert_eq!(keys.code, 0, "{}", keys.err);
        let user = keys.out.trim().to_owned();
        let (port, sshd) = serve(&sandbox);
        let host_key = fs::read_to_string(sandbox.path().join("host_key.pub")).unwrap();
        sandbox.file("known_hosts", &format!("[127.0.0.1]:{port} {host_key}"));
        let site = Self { sandbox, user, token, port, _sshd: sshd };
        site.configure(&site.token);
        Some(site)
    }

    fn path(&self, name: &str) -> String {
        self.sandbox.path().join(name).display().to_string()
    }

    fn configure(&self, token: &str) {
        let config = json!({
            "infraEnv": "default/rack", "token": token, "address": "127.0.0.1", "port": self.port,
            "user": self.user, "key": self.path("key"), "knownHosts": self.path("known_hosts"),
            "images": [], "delay": 0,
        });
        self.sandbox.file("config.json", &config.to_string());
    }

    /// Registers, reports and checks in.
    fn agent(&self, before: &str) -> Ran {
        self.sandbox.shell(&format!("{before} bash {AGENT} --once $HOME/config.json"))
    }

    fn agents(&self) -> Vec<Value> {
        let text = self.sandbox.ok("get agent -A -o json");
        let all: Value = serde_json::from_str(&text).unwrap();
        all["items"].as_array().unwrap().clone()
    }

    /// A program of ssh with the key of hosts: `scp -P`, `ssh -p`.
    fn with_key(&self, program: &str, rest: &str) -> Ran {
        let at = format!("{}@127.0.0.1", self.user);
        let rest = rest.replace("HOST", &at);
        self.sandbox.shell(&format!(
            "timeout 10 {program} {} -F /dev/null -i $HOME/key -o UserKnownHostsFile=$HOME/known_hosts \
             -o StrictHostKeyChecking=yes -o BatchMode=yes -o IdentitiesOnly=yes {rest}",
            self.port
        ))
    }
}

fn serve(sandbox: &Sandbox) -> (u16, Rig) {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    if is_root() {
        // Where sshd wants to be when it is nobody.
        fs::create_dir_all("/run/sshd").unwrap();
    }
    let home = sandbox.path().display();
    let key = fs::read_to_string(sandbox.path().join("key.pub")).unwrap();
    let command = format!("{POOLCTL} agent ssh --state {}", sandbox.state().display());
    sandbox.file("authorized_keys", &format!("restrict,command=\"{command}\" {key}"));
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
        pause();
    }
    panic!("{}", fs::read_to_string(rig.folder.path().join("log")).unwrap());
}

/// Whether an inventory says what every machine has.
fn plausible(inventory: &Value) {
    let number = |path: &str| inventory.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    assert!(number("/cpu/count") >= 1, "{inventory}");
    assert!(number("/memory/physicalBytes") > 100 << 20, "{inventory}");
    assert!(number("/memory/usableBytes") > 100 << 20, "{inventory}");
    assert!(
        ["x86_64", "aarch64", "ppc64le", "s390x"]
            .iter()
            .any(|one| inventory["cpu"]["architecture"] == *one)
    );
    assert!(["uefi", "bios"].iter().any(|one| inventory["boot"]["currentBootMode"] == *one));
    assert!(!inventory["hostname"].as_str().unwrap().is_empty());
    assert!(inventory["disks"].is_array() && inventory["interfaces"].is_array(), "{inventory}");
}

#[test]
fn a_booted_host_registers_reports_and_checks_in() {
    let Some(site) = Site::open() else { return };
    // A pass would make a cluster of it.
    site.sandbox.ok("pool create lab --fake --size 1 --no-reconcile");
    let ran = site.agent("");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&answer["next"], &answer["after"]), (&json!("none"), &json!(60)));
    let agents = site.agents();
    assert_eq!(agents.len(), 1, "{agents:?}");
    let labels = &agents[0]["metadata"]["labels"];
    assert_eq!(labels["infraenvs.agent-install.openshift.io"], "rack");
    assert_eq!(labels["rack"], "r7");
    plausible(&agents[0]["status"]["inventory"]);
    // Somebody with the token of all hosts cannot speak for one that is there.
    assert_ne!(site.agent("").code, 0);
    assert_eq!(site.agents().len(), 1);
    // It was written down, and nothing else was done.
    assert_eq!(site.sandbox.ok("get cluster -A -o name"), "");
    assert_eq!(site.sandbox.ok("get job -A -o name"), "");
    let events = site.sandbox.ok("get event -A -o json");
    let events: Value = serde_json::from_str(&events).unwrap();
    let about = |one: &Value| one["involvedObject"]["kind"] == "Agent";
    let events = events["items"].as_array().unwrap();
    assert!(events.iter().any(about), "{events:?}");
    let reasons = events.iter().filter(|one| about(one)).map(|one| one["reason"].as_str());
    for reason in reasons.map(Option::unwrap_or_default) {
        assert!(reason.starts_with("host_"), "{reason}");
    }
}

#[test]
fn hosts_without_a_good_token_are_refused() {
    let Some(site) = Site::open() else { return };
    site.configure("guessed");
    let ran = site.agent("");
    assert_ne!(ran.code, 0, "{}", ran.out);
    assert!(ran.err.contains("register: refused or not heard"), "{}", ran.err);
    assert!(site.agents().is_empty());
}

#[test]
fn no_secret_is_among_the_arguments_of_a_program() {
    let Some(site) = Site::open() else { return };
    if !has("strace") {
        return;
    }
    let ran = site.agent("strace -f -qq -s 65536 -e trace=execve -o $HOME/trace");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let trace = fs::read_to_string(site.path("trace")).unwrap();
    assert!(trace.contains("\"ssh\"") && trace.contains("\"check-in\""));
    assert!(!trace.contains(&site.token));
    // Whatever the Agent's secret is, it is no argument either.
    assert!(!trace.contains("secret\\\": \\\""), "a document with its values is an argument");
}

#[test]
fn the_key_of_hosts_runs_nothing_else() {
    let Some(site) = Site::open() else { return };
    site.sandbox.ok("pool create treasure --fake --size 0");
    let taken = |ran: &Ran| ran.out.contains("treasure") || ran.err.contains("treasure");
    for command in [
        "'get pools'",
        "'agent ssh'",
        "'register; poolctl get pool'",
        "'$(poolctl get pool)'",
        "",
        "sh",
    ] {
        let ran = site.with_key("ssh -p", &format!("HOST {command} </dev/null"));
        assert!(![0, 124].contains(&ran.code) && !taken(&ran), "{command}: {ran:?}");
    }
    for copy in [
        "HOST:$HOME/state.db $HOME/stolen",
        "-O HOST:$HOME/state.db $HOME/stolen",
        "$HOME/config.json HOST:$HOME/planted",
        "-O $HOME/config.json HOST:$HOME/planted",
    ] {
        assert_ne!(site.with_key("scp -P", copy).code, 0, "{copy}");
    }
    site.sandbox.file("batch", &format!("get {0}/state.db {0}/stolen\n", site.path("")));
    assert_ne!(site.with_key("sftp -P", "-b $HOME/batch HOST").code, 0);
    for name in ["stolen", "planted"] {
        assert!(!Path::new(&site.path(name)).exists(), "{name}");
    }
    // Nor does it lead anywhere else, in either direction.
    let through = site.with_key("ssh -p", &format!("-W 127.0.0.1:{} HOST </dev/null", site.port));
    assert!(through.code != 0 && !through.out.contains("SSH-2.0"), "{through:?}");
    let back = "-N -o ExitOnForwardFailure=yes -R 0:127.0.0.1:1 HOST </dev/null";
    let back = site.with_key("ssh -p", back);
    assert!(![0, 124].contains(&back.code), "{back:?}");
    assert!(site.agents().is_empty());
}

/// Runs the agent's look at the machine, with these programs before all others.
fn inventory(programs: &[(&str, &str)]) -> Value {
    let sandbox = Sandbox::new();
    for (name, text) in programs {
        program(&sandbox, name, text);
    }
    let ran = sandbox.shell(&format!("PATH=$HOME:$PATH bash {AGENT} --inventory"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

fn program(sandbox: &Sandbox, name: &str, text: &str) {
    let path = sandbox.file(name, &format!("#!/bin/sh\n{text}\n"));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(path, mode).unwrap();
}

#[test]
fn a_program_that_is_missing_leaves_its_part_out() {
    if !has("jq") {
        return;
    }
    let absent = ["lscpu", "lsblk", "ip", "dmidecode", "lspci", "systemd-detect-virt"];
    let bare = inventory(&absent.map(|name| (name, "exit 127")));
    for key in ["boot", "cpu", "memory", "system_vendor"] {
        assert!(bare[key].is_object(), "{key}: {bare}");
    }
    for key in ["disks", "gpus", "routes"] {
        assert_eq!(bare[key], json!([]), "{key}");
    }
    assert!(bare["cpu"]["count"].as_u64().unwrap() >= 1);
    assert_eq!(bare["memory"]["physical_bytes_method"], "meminfo");
}

#[test]
fn disks_are_told_apart() {
    if !has("jq") {
        return;
    }
    let disk = |name: &str, more: &str| {
        format!(
            "{{\"name\":\"{name}\",\"kname\":\"{name}\",\"type\":\"disk\",\"size\":\"120000000000\"{more}}}"
        )
    };
    let path = ",\"rota\":true,\"children\":[{\"name\":\"mpatha\",\"kname\":\"dm-0\",\"type\":\"mpath\",\"rota\":true,\"size\":1}]";
    let all = [
        disk("sda", path),
        disk("sdb", path),
        disk("nvme0n1", ",\"rota\":false,\"pttype\":\"gpt\",\"wwn\":\"eui.1\",\"model\":\"M  \""),
        disk("sdc", ",\"rota\":\"1\",\"rm\":\"1\",\"label\":\"rhcos-418.94\""),
        disk("sr0", ",\"mountpoints\":[\"/run/media/iso\"]").replace("disk", "rom"),
        disk("zram0", ""),
    ];
    let lsblk = format!("echo '{{\"blockdevices\":[{}]}}'", all.join(","));
    let found = inventory(&[("lsblk", &lsblk)]);
    let line = |one: &Value| {
        let reasons = one["installation_eligibility"]["not_eligible_reasons"].as_array().unwrap();
        let text = |key: &str| one[key].as_str().unwrap().to_owned();
        let mark = |key: &str| if one[key] == true { key.to_owned() } else { String::new() };
        let marks = mark("bootable") + &mark("is_installation_media");
        format!("{} {} {marks} {}", text("path"), text("drive_type"), reasons.len())
    };
    let lines: Vec<String> = found["disks"].as_array().unwrap().iter().map(line).collect();
    let expected = [
        "/dev/dm-0 Multipath  0",
        "/dev/nvme0n1 SSD bootable 0",
        "/dev/sda HDD  1",
        "/dev/sdb HDD  1",
        "/dev/sdc HDD is_installation_media 2",
        "/dev/sr0 ODD is_installation_media 1",
    ];
    assert_eq!(lines, expected);
    assert_eq!(found["disks"][1]["model"], "M");
    assert_eq!(found["disks"][1]["size_bytes"], 120_000_000_000_u64);
}

/// A card that this machine has, as the script looks for them, and its address.
fn card() -> (String, String) {
    let folder = Path::new("/sys/class/net");
    let address = |name: &str| {
        let text = fs::read_to_string(folder.join(name).join("address")).unwrap_or_default();
        text.trim().to_uppercase()
    };
    let all = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> = all.filter_map(|one| one.file_name().into_string().ok()).collect();
    names.retain(|name| address(name).len() == 17);
    names.sort_by_key(|name| (!folder.join(name).join("device").exists(), *name == "lo"));
    let name = names.swap_remove(0);
    let mac = address(&name);
    (name, mac)
}

#[test]
fn the_network_of_a_host_is_found_by_its_addresses() {
    if !has("jq") {
        return;
    }
    let sandbox = Sandbox::new();
    program(&sandbox, "nmstatectl", "echo $1; jq -c . $2");
    let (name, mac) = card();
    let config = json!({
        "interfaces": [
            {"name": "nic0", "type": "ethernet", "state": "up"},
            {"name": "nic0.5", "type": "vlan", "vlan": {"base-iface": "nic0", "id": 5}},
            {"name": "bond0", "type": "bond", "link-aggregation": {"port": ["nic0", "nic1"]}},
        ],
        "routes": {"config": [{"next-hop-interface": "nic0"}]},
    });
    fs::create_dir(sandbox.path().join("network")).unwrap();
    for (file, text) in [
        ("0000.macs", "52:54:00:ff:ff:fe nic0\n"),
        ("0000.yml", "{}"),
        ("0001.macs", &format!("{mac} nic0\n52:54:00:ff:ff:ff nic1\n")),
        ("0001.yml", &config.to_string()),
    ] {
        sandbox.file(&format!("network/{file}"), text);
    }
    let ran = sandbox.shell("PATH=$HOME:$PATH bash src/render/discovery/network.sh $HOME/network");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut lines = ran.out.lines().skip_while(|line| *line != "apply").skip(1);
    let applied: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    let expected = config.to_string().replace("\"nic0\"", &format!("\"{name}\""));
    assert_eq!(applied, serde_json::from_str::<Value>(&expected).unwrap());
    let none = sandbox.shell("bash src/render/discovery/network.sh $HOME/nowhere");
    assert!(none.code == 0 && none.out.contains("no configuration"), "{}", none.out);
}
