//! The Ignition of a discovery image: how a host that is booted from it reaches poolctl, and the
//! scripts by which it says what it is. Never does IO.

mod digest;
mod manifests;
mod merge;
mod network;

pub use digest::made_of;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::model::infra_env::{InfraEnv, InfraEnvSpec, Proxy};
use crate::model::nmstate_config::NMStateConfig;

pub use manifests::manifests;

/// As much as upstream lets an Ignition have.
pub const LARGEST: usize = 256 << 10;

const VERSION: &str = "3.2.0";
const AGENT: &str = include_str!("discovery/agent.sh");
const AGENT_UNIT: &str = include_str!("discovery/agent.service");
const INVENTORY: &str = include_str!("discovery/inventory.sh");

const CONFIG: &str = "/etc/poolctl-agent/config.json";
/// Of the configuration, what is a file of its own, and where.
const TEXTS: [(&str, &str); 2] =
    [("key", "/etc/poolctl-agent/key"), ("knownHosts", "/etc/poolctl-agent/known_hosts")];

/// What the defaults of the distribution have beside the servers.
const CHRONY: &str = "driftfile /var/lib/chrony/drift\nmakestep 1.0 3\nrtcsync\n\
    keyfile /etc/chrony.keys\nleapsectz right/UTC\nlogdir /var/log/chrony\n";
/// The servers that it has, and those that DHCP names.
const CHRONY_SERVERS: &str = "pool 2.rhel.pool.ntp.org iburst\nsourcedir /run/chrony-dhcp\n";

/// What a discovery image is made of.
pub struct Discovery<'a> {
    pub infra_env: &'a InfraEnv,
    /// All that there are; those that the `InfraEnv` selects are taken.
    pub configs: &'a [NMStateConfig],
    pub pull_secret: Option<&'a str>,
    /// What the agent is told, an object: token, address, port, user, images; `key` and
    /// `knownHosts` are the texts of the private key and of the lines that name the host keys.
    pub config: Value,
    /// The Ignition that ours is merged over: what openshift-install makes of `manifests`, or none.
    pub base: &'a str,
}

/// Ignition 3.2, or later if the override asks for that.
pub fn ignition(discovery: &Discovery<'_>) -> Result<Value, String> {
    let spec = &discovery.infra_env.spec;
    let chosen = network::chosen(discovery.infra_env, discovery.configs)?;
    let mut files = discovery.own()?;
    let mut units = vec![unit("poolctl-agent.service", AGENT_UNIT)];
    if !chosen.is_empty() {
        files.extend(network::files(&chosen)?);
        units.push(unit("poolctl-agent-network.service", network::UNIT));
    }
    files.extend(surroundings(spec)?);
    let mut made = json!({
        "ignition": {"version": VERSION},
        "storage": {"files": files},
        "systemd": {"units": units},
    });
    let keys = spec.ssh_authorized_key.lines().map(str::trim).filter(|line| !line.is_empty());
    let keys: Vec<&str> = keys.collect();
    if !keys.is_empty() {
        made["passwd"] = json!({"users": [{"name": "core", "sshAuthorizedKeys": keys}]});
    }
    let mut all = merge::read("the Ignition of openshift-install", discovery.base)?;
    merge::over(&mut all, made);
    let given = &spec.ignition_config_override;
    merge::over(&mut all, merge::read("ignitionConfigOverride", given)?);
    let size = all.to_string().len();
    if size > LARGEST {
        let theirs = match discovery.base.len() {
            0 => String::new(),
            many => format!(", {many} of them openshift-install's"),
        };
        return Err(format!(
            "the Ignition has {size} bytes{theirs}, more than the {LARGEST} that it may have; {} NMStateConfigs are in it",
            chosen.len()
        ));
    }
    Ok(all)
}

/// Arguments of `coreos-installer iso customize` for the kernel of the image.
pub fn kernel_arguments(infra_env: &InfraEnv) -> Vec<String> {
    let all = infra_env.spec.kernel_arguments.iter();
    let known = all.filter(|one| ["append", "delete", "replace"].contains(&&*one.operation));
    known.map(|one| format!("--live-karg-{}={}", one.operation, one.value)).collect()
}

impl Discovery<'_> {
    /// The agent, what it is told, and what images are pulled with.
    fn own(&self) -> Result<Vec<Value>, String> {
        let config = self.config.as_object().cloned();
        let mut config = config.ok_or("the configuration of the agent is no object")?;
        let mut made = vec![
            file("/usr/local/bin/poolctl-agent", 0o755, AGENT),
            file("/etc/poolctl-agent/inventory.sh", 0o644, INVENTORY),
        ];
        for (name, path) in TEXTS {
            let text = config.insert(name.to_owned(), path.into());
            let text = text.as_ref().and_then(Value::as_str).unwrap_or_default();
            made.push(file(path, 0o600, &format!("{}\n", text.trim_end())));
        }
        let name = self.infra_env.key().to_string();
        config.entry("infraEnv").or_insert_with(|| name.into());
        let delay = self.infra_env.spec.network_discovery_delay_seconds.unwrap_or_default();
        config.entry("delay").or_insert_with(|| delay.into());
        made.push(file(CONFIG, 0o600, &Value::Object(config).to_string()));
        let secret = self.pull_secret.map(|text| file("/root/.docker/config.json", 0o600, text));
        made.extend(secret);
        Ok(made)
    }
}

/// How the host is to see the world around it.
fn surroundings(spec: &InfraEnvSpec) -> Result<Vec<Value>, String> {
    let mut made = Vec::new();
    if let Some(proxy) = &spec.proxy {
        let path = "/etc/systemd/system.conf.d/10-default-env.conf";
        made.push(file(path, 0o600, &environment(proxy)?));
    }
    if let Some(text) = chrony(spec)? {
        made.push(file("/etc/chrony.conf", 0o644, &text));
    }
    if !spec.additional_trust_bundle.is_empty() {
        let path = "/etc/pki/ca-trust/source/anchors/poolctl.pem";
        made.push(file(path, 0o644, &spec.additional_trust_bundle));
    }
    Ok(made)
}

/// The proxies, for every service: programs read either spelling.
fn environment(proxy: &Proxy) -> Result<String, String> {
    let all = [
        ("HTTP_PROXY", &proxy.http_proxy),
        ("HTTPS_PROXY", &proxy.https_proxy),
        ("NO_PROXY", &proxy.no_proxy),
    ];
    let mut words = Vec::new();
    for (name, value) in all.into_iter().filter(|(_, value)| !value.is_empty()) {
        // systemd replaces what stands behind a percent sign.
        let value = one_line(name, value)?.replace('\\', "\\\\").replace('"', "\\\"");
        let value = value.replace('%', "%%");
        words.push(format!("\"{name}={value}\" \"{}={value}\"", name.to_lowercase()));
    }
    Ok(format!("[Manager]\nDefaultEnvironment={}\n", words.join(" ")))
}

fn chrony(spec: &InfraEnvSpec) -> Result<Option<String>, String> {
    let (usual, servers) = match (&spec.ntp_sources, &spec.additional_ntp_sources) {
        (only, _) if !only.is_empty() => ("", only),
        (_, more) if !more.is_empty() => (CHRONY_SERVERS, more),
        _ => return Ok(None),
    };
    let line = |server: &String| {
        one_line("NTP source", server).map(|server| format!("server {server} iburst\n"))
    };
    let servers: Vec<String> = servers.iter().map(line).collect::<Result<_, _>>()?;
    Ok(Some([usual, &servers.concat(), CHRONY].concat()))
}

/// What is more than a line would say something else besides.
fn one_line<'t>(what: &str, text: &'t str) -> Result<&'t str, String> {
    if text.chars().any(char::is_control) {
        return Err(format!("{what} has characters that are no text"));
    }
    Ok(text)
}

fn file(path: &str, mode: u32, text: &str) -> Value {
    let source = format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(text));
    json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": source}})
}

fn unit(name: &str, text: &str) -> Value {
    json!({"name": name, "enabled": true, "contents": text})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::infra_env::KernelArgument;
    use crate::model::nmstate_config::NMStateInterface;

    fn infra_env() -> InfraEnv {
        let mut one = InfraEnv::default();
        one.metadata.name = "rack".into();
        one.metadata.namespace = "lab".into();
        one
    }

    fn config(name: &str, label: &str, mac: &str) -> NMStateConfig {
        let mut one = NMStateConfig::default();
        one.metadata.name = name.into();
        one.metadata.namespace = "lab".into();
        one.metadata.labels.insert("rack".into(), label.into());
        one.spec.interfaces =
            vec![NMStateInterface { name: "nic0".into(), mac_address: mac.into() }];
        one.spec.config = json!({"interfaces": [{"name": "nic0", "state": "up"}]});
        one
    }

    fn made(infra_env: &InfraEnv, configs: &[NMStateConfig]) -> Result<Value, String> {
        let config = json!({
            "token": "t0ken", "address": "192.0.2.1", "port": 22, "user": "poolctl",
            "key": "-----BEGIN\nKEY\n", "knownHosts": "192.0.2.1 ssh-ed25519 AAAA",
        });
        let pull_secret = Some("{\"auths\": {}}");
        ignition(&Discovery { infra_env, configs, pull_secret, config, base: "" })
    }

    /// Files by path: their modes, and what is in them.
    fn files(of: &Value) -> BTreeMap<&str, (u64, String)> {
        let read = |file: &Value| {
            let source = file["contents"]["source"].as_str().unwrap();
            let text = source.strip_prefix("data:text/plain;charset=utf-8;base64,").unwrap();
            String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()
        };
        let all = of["storage"]["files"].as_array().unwrap().iter();
        all.map(|one| (one["path"].as_str().unwrap(), (one["mode"].as_u64().unwrap(), read(one))))
            .collect()
    }

    #[test]
    fn a_host_is_told_how_it_reaches_poolctl() {
        let made = made(&infra_env(), &[]).unwrap();
        assert_eq!(made["ignition"]["version"], "3.2.0");
        let files = files(&made);
        let paths: Vec<&str> = files.keys().copied().collect();
        let expected = [
            "/etc/poolctl-agent/config.json",
            "/etc/poolctl-agent/inventory.sh",
            "/etc/poolctl-agent/key",
            "/etc/poolctl-agent/known_hosts",
            "/root/.docker/config.json",
            "/usr/local/bin/poolctl-agent",
        ];
        assert_eq!(paths, expected);
        let secret = |path: &str| {
            assert_eq!(files[path].0, 0o600, "{path}");
            files[path].1.clone()
        };
        assert_eq!(secret("/etc/poolctl-agent/key"), "-----BEGIN\nKEY\n");
        assert_eq!(secret("/etc/poolctl-agent/known_hosts"), "192.0.2.1 ssh-ed25519 AAAA\n");
        assert_eq!(secret("/root/.docker/config.json"), "{\"auths\": {}}");
        let told: Value = serde_json::from_str(&secret(CONFIG)).unwrap();
        let expected = json!({
            "infraEnv": "lab/rack", "token": "t0ken", "address": "192.0.2.1", "port": 22,
            "user": "poolctl", "delay": 0, "key": "/etc/poolctl-agent/key",
            "knownHosts": "/etc/poolctl-agent/known_hosts",
        });
        assert_eq!(told, expected);
        assert_eq!(files["/usr/local/bin/poolctl-agent"].0, 0o755);
        assert!(files["/usr/local/bin/poolctl-agent"].1.starts_with("#!/bin/bash\n"));
        let units = made["systemd"]["units"].as_array().unwrap();
        assert_eq!((units.len(), &units[0]["enabled"]), (1, &json!(true)));
        assert!(made["passwd"].is_null());
    }

    #[test]
    fn a_host_sees_its_surroundings_as_its_infra_env_says() {
        let mut one = infra_env();
        one.spec.proxy = Some(Proxy {
            http_proxy: "http://me:a%20\"b@proxy:3128".into(),
            no_proxy: ".lab".into(),
            ..Proxy::default()
        });
        one.spec.additional_trust_bundle = "PEM\n".into();
        one.spec.ssh_authorized_key = "ssh-ed25519 A a\n\nssh-rsa B b\n".into();
        one.spec.additional_ntp_sources = vec!["192.0.2.7".into()];
        let first = made(&one, &[]).unwrap();
        let text = |made: &Value, path: &str| files(made)[path].1.clone();
        let proxy = text(&first, "/etc/systemd/system.conf.d/10-default-env.conf");
        let url = "http://me:a%%20\\\"b@proxy:3128";
        assert_eq!(
            proxy,
            format!(
                "[Manager]\nDefaultEnvironment=\"HTTP_PROXY={url}\" \"http_proxy={url}\" \
                 \"NO_PROXY=.lab\" \"no_proxy=.lab\"\n"
            )
        );
        assert_eq!(text(&first, "/etc/pki/ca-trust/source/anchors/poolctl.pem"), "PEM\n");
        let user = &first["passwd"]["users"][0];
        assert_eq!(user["sshAuthorizedKeys"], json!(["ssh-ed25519 A a", "ssh-rsa B b"]));
        let time = text(&first, "/etc/chrony.conf");
        assert!(time.contains("pool ") && time.contains("\nserver 192.0.2.7 iburst\n"), "{time}");
        one.spec.ntp_sources = vec!["192.0.2.8".into()];
        let time = text(&made(&one, &[]).unwrap(), "/etc/chrony.conf");
        let only = !time.contains("pool ") && !time.contains("192.0.2.7");
        assert!(only && time.starts_with("server 192.0.2.8 iburst\n"), "{time}");
        one.spec.ntp_sources = vec!["a\nallow all".into()];
        assert!(made(&one, &[]).unwrap_err().contains("NTP source"));
    }

    #[test]
    fn networks_are_selected_by_label_and_are_for_one_host_each() {
        let configs = [
            config("a", "1", "52:54:00:00:00:0A"),
            config("b", "1", "52:54:00:00:00:0b"),
            config("c", "2", "52:54:00:00:00:0a"),
        ];
        let mut one = infra_env();
        let none = made(&one, &configs).unwrap();
        assert!(!files(&none).contains_key("/usr/local/bin/poolctl-agent-network"));
        let labels = &mut one.spec.nm_state_config_label_selector.match_labels;
        labels.insert("rack".into(), "1".into());
        let two = made(&one, &configs).unwrap();
        let found = files(&two);
        assert_eq!(found["/etc/poolctl-agent/network/0000.macs"].1, "52:54:00:00:00:0a nic0\n");
        assert_eq!(
            serde_json::from_str::<Value>(&found["/etc/poolctl-agent/network/0001.yml"].1).unwrap(),
            configs[1].spec.config
        );
        assert!(!found.contains_key("/etc/poolctl-agent/network/0002.yml"));
        assert_eq!(two["systemd"]["units"].as_array().unwrap().len(), 2);
        let same = [configs[0].clone(), config("d", "1", "52:54:00:00:00:0a")];
        let why = made(&one, &same).unwrap_err();
        let says = "`lab/a` and `lab/d` have the same MAC address 52:54:00:00:00:0a";
        assert!(why.contains(says), "{why}");
    }

    #[test]
    fn what_is_too_large_is_refused_with_its_networks() {
        let mut one = infra_env();
        let labels = &mut one.spec.nm_state_config_label_selector.match_labels;
        labels.insert("rack".into(), "1".into());
        let mac = |at: usize| format!("52:54:00:00:{:02x}:{:02x}", at / 256, at % 256);
        let many: Vec<_> = (0..1000).map(|at| config(&format!("n{at}"), "1", &mac(at))).collect();
        let why = made(&one, &many).unwrap_err();
        assert!(why.contains("262144") && why.contains("1000 NMStateConfigs"), "{why}");
    }

    #[test]
    fn an_override_is_merged_as_ignition_does() {
        let mut one = infra_env();
        one.spec.ssh_authorized_key = "ssh-ed25519 A".into();
        let check = |one: &mut InfraEnv, text: Value| {
            one.spec.ignition_config_override = text.to_string();
            made(one, &[])
        };
        let merged = check(
            &mut one,
            json!({
                "ignition": {"version": "3.1.0"},
                "passwd": {"users": [{"name": "core", "passwordHash": "$6$x"}, {"name": "me"}]},
                "storage": {"files": [
                    {"path": "/etc/poolctl-agent/key", "mode": 256},
                    {"path": "/etc/motd", "contents": {"source": "data:,hi"}},
                ], "links": null},
                "systemd": {"units": [{"name": "poolctl-agent.service", "enabled": false}]},
            }),
        )
        .unwrap();
        assert_eq!(merged["ignition"]["version"], "3.2.0");
        let users = json!([
            {"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 A"], "passwordHash": "$6$x"},
            {"name": "me"},
        ]);
        assert_eq!(merged["passwd"]["users"], users);
        let all = merged["storage"]["files"].as_array().unwrap();
        let key = all.iter().find(|file| file["path"] == "/etc/poolctl-agent/key").unwrap();
        assert!(key["mode"] == 256 && key["contents"]["source"].is_string());
        assert_eq!(all.last().unwrap()["path"], "/etc/motd");
        let units = merged["systemd"]["units"].as_array().unwrap();
        assert_eq!((units.len(), &units[0]["enabled"]), (1, &json!(false)));
        let later = check(&mut one, json!({"ignition": {"version": "3.4.0"}})).unwrap();
        assert_eq!(later["ignition"]["version"], "3.4.0");
        for (text, says) in [
            (json!({"ignition": {"version": "2.2.0"}}), "not of version 3"),
            (json!({"ignition": 3}), "no Ignition"),
            (json!(["x"]), "no Ignition"),
        ] {
            assert!(check(&mut one, text).unwrap_err().contains(says), "{says}");
        }
        one.spec.ignition_config_override = "{".into();
        assert!(made(&one, &[]).unwrap_err().contains("is not JSON"));
    }

    #[test]
    fn arguments_of_the_kernel_are_the_programs() {
        let mut one = infra_env();
        for (operation, value) in [("append", "a=1"), ("delete", "quiet"), ("replace", "b=1=2")] {
            let (operation, value) = (operation.to_owned(), value.to_owned());
            one.spec.kernel_arguments.push(KernelArgument { operation, value });
        }
        let expected =
            ["--live-karg-append=a=1", "--live-karg-delete=quiet", "--live-karg-replace=b=1=2"];
        assert_eq!(kernel_arguments(&one), expected);
    }
}
