//! Renders the Ignition of a discovery image: how a host that is booted from it reaches poolctl,
//! and the scripts by which it reports its hardware. Makes no image.

mod digest;
mod manifests;
mod merge;
mod network;
mod site;

pub use digest::hash_image_sources;

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::model::infra_env::{InfraEnv, InfraEnvSpec, KernelArgument, Proxy};
use crate::model::nmstate_config::NMStateConfig;

pub use manifests::{ManifestFile, render_manifests};
pub use site::complete_infra_env;

/// The bytes that upstream allows an Ignition to have.
const MAX_IGNITION_SIZE: usize = 256 << 10;

/// The version of the Ignitions that are rendered.
pub const VERSION: &str = "3.2.0";
const AGENT: &str = include_str!("discovery/agent.sh");
const AGENT_UNIT: &str = include_str!("discovery/agent.service");
const INVENTORY: &str = include_str!("discovery/inventory.sh");

const CONFIG_PATH: &str = "/etc/poolctl-agent/config.json";
const MIRRORS_PATH: &str = "/etc/containers/registries.conf.d/50-poolctl.conf";
/// The texts of the configuration that become files of their own, and the paths of those files. The
/// configuration of the host then has the path in place of the text.
const CONFIG_FILES: [(&str, &str); 2] =
    [("key", "/etc/poolctl-agent/key"), ("knownHosts", "/etc/poolctl-agent/known_hosts")];

/// The default configuration of the distribution, without its servers.
const CHRONY: &str = "driftfile /var/lib/chrony/drift\nmakestep 1.0 3\nrtcsync\n\
    keyfile /etc/chrony.keys\nleapsectz right/UTC\nlogdir /var/log/chrony\n";
/// The servers of that default configuration, and those that DHCP names.
const CHRONY_SERVERS: &str = "pool 2.rhel.pool.ntp.org iburst\nsourcedir /run/chrony-dhcp\n";

/// What a discovery image is made of.
pub struct Discovery<'a> {
    pub infra_env: &'a InfraEnv,
    /// All NMStateConfigs; those that the `InfraEnv` selects are taken.
    pub configs: &'a [NMStateConfig],
    pub pull_secret: Option<&'a str>,
    /// The configuration of the agent, an object: token, address, port, user, images; `key` and
    /// `knownHosts` are the texts of the private key and of the lines that name the host keys.
    pub config: Value,
    /// The Ignition that ours is merged over: what openshift-install makes of `manifests`. It may
    /// be empty.
    pub base: &'a str,
    /// Repositories with the mirrors that hosts pull from in their place.
    pub mirrors: &'a BTreeMap<String, Vec<String>>,
}

/// Renders an Ignition of version 3.2, or later if the override asks for that.
pub fn render_ignition(discovery: &Discovery<'_>) -> Result<Value, String> {
    let spec = &discovery.infra_env.spec;
    let selected = network::select_configs(discovery.infra_env, discovery.configs)?;
    let mut files = discovery.render_agent_files()?;
    let mut units = vec![render_unit("poolctl-agent.service", AGENT_UNIT)];
    if !selected.is_empty() {
        files.extend(network::render_files(&selected)?);
        units.push(render_unit("poolctl-agent-network.service", network::UNIT));
    }
    files.extend(render_environment_files(spec)?);
    if !discovery.mirrors.is_empty() {
        let registries = site::render_registries(discovery.mirrors);
        files.push(render_file(MIRRORS_PATH, 0o644, &registries));
    }
    let mut own_ignition = json!({
        "ignition": {"version": VERSION},
        "storage": {"files": files},
        "systemd": {"units": units},
    });
    let lines = spec.ssh_authorized_key.lines().map(str::trim);
    let keys: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    if !keys.is_empty() {
        own_ignition["passwd"] = json!({"users": [{"name": "core", "sshAuthorizedKeys": keys}]});
    }
    let mut ignition = merge::parse("the Ignition of openshift-install", discovery.base)?;
    merge::merge_ignition(&mut ignition, own_ignition);
    let overrides = merge::parse("ignitionConfigOverride", &spec.ignition_config_override)?;
    merge::merge_ignition(&mut ignition, overrides);
    check_size(&ignition, discovery.base, selected.len())?;
    Ok(ignition)
}

/// Refuses an Ignition that is too large for the image. `base` and `config_count` are for the
/// message: they are what it may be too large by.
fn check_size(ignition: &Value, base: &str, config_count: usize) -> Result<(), String> {
    let size = ignition.to_string().len();
    if size <= MAX_IGNITION_SIZE {
        return Ok(());
    }
    let share_of_base = match base.len() {
        0 => String::new(),
        bytes => format!(", {bytes} of them openshift-install's"),
    };
    Err(format!(
        "the Ignition has {size} bytes{share_of_base}; the limit is {MAX_IGNITION_SIZE} \
         (NMStateConfigs in it: {config_count})"
    ))
}

/// The arguments of `coreos-installer iso customize` for the kernel of the image.
pub fn kernel_arguments(infra_env: &InfraEnv) -> Vec<String> {
    let mut arguments = Vec::new();
    for KernelArgument { operation, value } in &infra_env.spec.kernel_arguments {
        if ["append", "delete", "replace"].contains(&operation.as_str()) {
            arguments.push(format!("--live-karg-{operation}={value}"));
        }
    }
    arguments
}

impl Discovery<'_> {
    /// The scripts of the agent, its configuration, and the pull secret.
    fn render_agent_files(&self) -> Result<Vec<Value>, String> {
        let config = self.config.as_object().cloned();
        let mut config = config.ok_or("the configuration of the agent is not an object")?;
        let mut files = vec![
            render_file("/usr/local/bin/poolctl-agent", 0o755, AGENT),
            render_file("/etc/poolctl-agent/inventory.sh", 0o644, INVENTORY),
        ];
        for (name, path) in CONFIG_FILES {
            let replaced = config.insert(name.to_owned(), path.into());
            let contents = replaced.as_ref().and_then(Value::as_str).unwrap_or_default();
            files.push(render_file(path, 0o600, &format!("{}\n", contents.trim_end())));
        }
        let name = self.infra_env.key().to_string();
        config.entry("infraEnv").or_insert_with(|| name.into());
        let delay = self.infra_env.spec.network_discovery_delay_seconds.unwrap_or_default();
        config.entry("delay").or_insert_with(|| delay.into());
        files.push(render_file(CONFIG_PATH, 0o600, &Value::Object(config).to_string()));
        if let Some(pull_secret) = self.pull_secret {
            files.push(render_file("/root/.docker/config.json", 0o600, pull_secret));
        }
        Ok(files)
    }
}

/// The files by which the host finds its way: proxies, time servers and certificates.
fn render_environment_files(spec: &InfraEnvSpec) -> Result<Vec<Value>, String> {
    let mut files = Vec::new();
    if let Some(proxy) = &spec.proxy {
        let path = "/etc/systemd/system.conf.d/10-default-env.conf";
        files.push(render_file(path, 0o600, &render_proxy(proxy)?));
    }
    if let Some(config) = render_chrony(spec)? {
        files.push(render_file("/etc/chrony.conf", 0o644, &config));
    }
    if !spec.additional_trust_bundle.is_empty() {
        let path = "/etc/pki/ca-trust/source/anchors/poolctl.pem";
        files.push(render_file(path, 0o644, &spec.additional_trust_bundle));
    }
    Ok(files)
}

/// The proxies as variables of every service. Both spellings are set, because some programs read
/// only one of them.
fn render_proxy(proxy: &Proxy) -> Result<String, String> {
    let mut assignments = Vec::new();
    for (name, value) in [
        ("HTTP_PROXY", &proxy.http_proxy),
        ("HTTPS_PROXY", &proxy.https_proxy),
        ("NO_PROXY", &proxy.no_proxy),
    ] {
        if value.is_empty() {
            continue;
        }
        let quoted = check_one_line(name, value)?.replace('\\', "\\\\").replace('"', "\\\"");
        // systemd expands what begins with a percent sign.
        let escaped = quoted.replace('%', "%%");
        assignments.push(format!("\"{name}={escaped}\" \"{}={escaped}\"", name.to_lowercase()));
    }
    Ok(format!("[Manager]\nDefaultEnvironment={}\n", assignments.join(" ")))
}

/// The time servers, if any are given: either in the place of the default ones, or beside them.
fn render_chrony(spec: &InfraEnvSpec) -> Result<Option<String>, String> {
    let (default_servers, servers) = if spec.ntp_sources.is_empty() {
        (CHRONY_SERVERS, &spec.additional_ntp_sources)
    } else {
        ("", &spec.ntp_sources)
    };
    if servers.is_empty() {
        return Ok(None);
    }
    let mut config = default_servers.to_owned();
    for server in servers {
        let server = check_one_line("NTP source", server)?;
        config.push_str("server ");
        config.push_str(server);
        config.push_str(" iburst\n");
    }
    config.push_str(CHRONY);
    Ok(Some(config))
}

/// Refuses a value with line breaks: what follows them would be read as a setting of its own.
fn check_one_line<'t>(what: &str, value: &'t str) -> Result<&'t str, String> {
    if value.chars().any(char::is_control) {
        return Err(format!("{what} contains control characters"));
    }
    Ok(value)
}

/// A file of an Ignition. `mode` is its permissions; a file of the same path in the base is
/// replaced.
pub fn render_file(path: &str, mode: u32, contents: &str) -> Value {
    let source = format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(contents));
    json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": source}})
}

/// A systemd unit of an Ignition, which starts at every boot.
pub fn render_unit(name: &str, contents: &str) -> Value {
    json!({"name": name, "enabled": true, "contents": contents})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::nmstate_config::NMStateInterface;

    fn infra_env() -> InfraEnv {
        let mut infra_env = InfraEnv::default();
        infra_env.metadata.name = "rack".into();
        infra_env.metadata.namespace = "lab".into();
        infra_env
    }

    fn config(name: &str, label: &str, mac: &str) -> NMStateConfig {
        let mut config = NMStateConfig::default();
        config.metadata.name = name.into();
        config.metadata.namespace = "lab".into();
        config.metadata.labels.insert("rack".into(), label.into());
        config.spec.interfaces =
            vec![NMStateInterface { name: "nic0".into(), mac_address: mac.into() }];
        config.spec.config = json!({"interfaces": [{"name": "nic0", "state": "up"}]});
        config
    }

    fn render(infra_env: &InfraEnv, configs: &[NMStateConfig]) -> Result<Value, String> {
        let config = json!({
            "token": "t0ken", "address": "192.0.2.1", "port": 22, "user": "poolctl",
            "key": "-----BEGIN\nKEY\n", "knownHosts": "192.0.2.1 ssh-ed25519 AAAA",
        });
        let pull_secret = Some("{\"auths\": {}}");
        let mirrors = &BTreeMap::new();
        render_ignition(&Discovery { infra_env, configs, pull_secret, config, base: "", mirrors })
    }

    /// The modes and contents of the files of an Ignition, by their paths.
    fn files(ignition: &Value) -> BTreeMap<&str, (u64, String)> {
        let mut files = BTreeMap::new();
        for file in ignition["storage"]["files"].as_array().unwrap() {
            let path = file["path"].as_str().unwrap();
            let mode = file["mode"].as_u64().unwrap();
            let source = file["contents"]["source"].as_str().unwrap();
            let encoded = source.strip_prefix("data:text/plain;charset=utf-8;base64,").unwrap();
            let contents = String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap();
            files.insert(path, (mode, contents));
        }
        files
    }

    fn contents(ignition: &Value, path: &str) -> String {
        files(ignition)[path].1.clone()
    }

    #[test]
    fn a_host_is_told_how_it_reaches_poolctl() {
        let ignition = render(&infra_env(), &[]).unwrap();
        assert_eq!(ignition["ignition"]["version"], "3.2.0");
        let files = files(&ignition);
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
        for (path, expected) in [
            ("/etc/poolctl-agent/key", "-----BEGIN\nKEY\n"),
            ("/etc/poolctl-agent/known_hosts", "192.0.2.1 ssh-ed25519 AAAA\n"),
            ("/root/.docker/config.json", "{\"auths\": {}}"),
        ] {
            assert_eq!(files[path], (0o600, expected.to_owned()), "{path}");
        }
        let (mode, config) = &files[CONFIG_PATH];
        assert_eq!(*mode, 0o600);
        let config: Value = serde_json::from_str(config).unwrap();
        let expected = json!({
            "infraEnv": "lab/rack", "token": "t0ken", "address": "192.0.2.1", "port": 22,
            "user": "poolctl", "delay": 0, "key": "/etc/poolctl-agent/key",
            "knownHosts": "/etc/poolctl-agent/known_hosts",
        });
        assert_eq!(config, expected);
        assert_eq!(files["/usr/local/bin/poolctl-agent"].0, 0o755);
        assert!(files["/usr/local/bin/poolctl-agent"].1.starts_with("#!/bin/bash\n"));
        let units = ignition["systemd"]["units"].as_array().unwrap();
        assert_eq!((units.len(), &units[0]["enabled"]), (1, &json!(true)));
        assert!(ignition["passwd"].is_null());
    }

    #[test]
    fn a_host_sees_its_surroundings_as_its_infra_env_says() {
        let mut infra_env = infra_env();
        infra_env.spec.proxy = Some(Proxy {
            http_proxy: "http://me:a%20\"b@proxy:3128".into(),
            no_proxy: ".lab".into(),
            ..Proxy::default()
        });
        infra_env.spec.additional_trust_bundle = "PEM\n".into();
        infra_env.spec.ssh_authorized_key = "ssh-ed25519 A a\n\nssh-rsa B b\n".into();
        infra_env.spec.additional_ntp_sources = vec!["192.0.2.7".into()];
        let ignition = render(&infra_env, &[]).unwrap();
        let proxy = contents(&ignition, "/etc/systemd/system.conf.d/10-default-env.conf");
        let url = "http://me:a%%20\\\"b@proxy:3128";
        assert_eq!(
            proxy,
            format!(
                "[Manager]\nDefaultEnvironment=\"HTTP_PROXY={url}\" \"http_proxy={url}\" \
                 \"NO_PROXY=.lab\" \"no_proxy=.lab\"\n"
            )
        );
        assert_eq!(contents(&ignition, "/etc/pki/ca-trust/source/anchors/poolctl.pem"), "PEM\n");
        let user = &ignition["passwd"]["users"][0];
        assert_eq!(user["sshAuthorizedKeys"], json!(["ssh-ed25519 A a", "ssh-rsa B b"]));
        let chrony = contents(&ignition, "/etc/chrony.conf");
        assert!(chrony.contains("pool "), "{chrony}");
        assert!(chrony.contains("\nserver 192.0.2.7 iburst\n"), "{chrony}");
        infra_env.spec.ntp_sources = vec!["192.0.2.8".into()];
        let chrony = contents(&render(&infra_env, &[]).unwrap(), "/etc/chrony.conf");
        assert!(!chrony.contains("pool ") && !chrony.contains("192.0.2.7"), "{chrony}");
        assert!(chrony.starts_with("server 192.0.2.8 iburst\n"), "{chrony}");
        infra_env.spec.ntp_sources = vec!["a\nallow all".into()];
        assert!(render(&infra_env, &[]).unwrap_err().contains("NTP source"));
    }

    #[test]
    fn networks_are_selected_by_label_and_are_for_one_host_each() {
        let configs = [
            config("a", "1", "52:54:00:00:00:0A"),
            config("b", "1", "52:54:00:00:00:0b"),
            config("c", "2", "52:54:00:00:00:0a"),
        ];
        let mut infra_env = infra_env();
        let ignition = render(&infra_env, &configs).unwrap();
        assert!(!files(&ignition).contains_key("/usr/local/bin/poolctl-agent-network"));
        let labels = &mut infra_env.spec.nm_state_config_label_selector.match_labels;
        labels.insert("rack".into(), "1".into());
        let ignition = render(&infra_env, &configs).unwrap();
        let files = files(&ignition);
        assert_eq!(files["/etc/poolctl-agent/network/0000.macs"].1, "52:54:00:00:00:0a nic0\n");
        assert_eq!(
            serde_json::from_str::<Value>(&files["/etc/poolctl-agent/network/0001.yml"].1).unwrap(),
            configs[1].spec.config
        );
        assert!(!files.contains_key("/etc/poolctl-agent/network/0002.yml"));
        assert_eq!(ignition["systemd"]["units"].as_array().unwrap().len(), 2);
        let twins = [configs[0].clone(), config("d", "1", "52:54:00:00:00:0a")];
        let why = render(&infra_env, &twins).unwrap_err();
        let expected = "`lab/a` and `lab/d` have the same MAC address 52:54:00:00:00:0a";
        assert!(why.contains(expected), "{why}");
    }

    #[test]
    fn too_large_an_ignition_is_refused_with_the_number_of_its_networks() {
        let mut infra_env = infra_env();
        let labels = &mut infra_env.spec.nm_state_config_label_selector.match_labels;
        labels.insert("rack".into(), "1".into());
        let mut configs = Vec::new();
        for index in 0..1000 {
            let mac = format!("52:54:00:00:{:02x}:{:02x}", index / 256, index % 256);
            configs.push(config(&format!("n{index}"), "1", &mac));
        }
        let why = render(&infra_env, &configs).unwrap_err();
        assert!(why.contains("262144") && why.contains("NMStateConfigs in it: 1000"), "{why}");
    }

    fn render_with_override(infra_env: &mut InfraEnv, overrides: &Value) -> Result<Value, String> {
        infra_env.spec.ignition_config_override = overrides.to_string();
        render(infra_env, &[])
    }

    #[test]
    fn an_override_is_merged_as_ignition_does() {
        let mut infra_env = infra_env();
        infra_env.spec.ssh_authorized_key = "ssh-ed25519 A".into();
        let merged = render_with_override(
            &mut infra_env,
            &json!({
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
        let files = merged["storage"]["files"].as_array().unwrap();
        let key = files.iter().find(|file| file["path"] == "/etc/poolctl-agent/key").unwrap();
        assert!(key["mode"] == 256 && key["contents"]["source"].is_string());
        assert_eq!(files.last().unwrap()["path"], "/etc/motd");
        let units = merged["systemd"]["units"].as_array().unwrap();
        assert_eq!((units.len(), &units[0]["enabled"]), (1, &json!(false)));
        let overrides = json!({"ignition": {"version": "3.4.0"}});
        let merged = render_with_override(&mut infra_env, &overrides).unwrap();
        assert_eq!(merged["ignition"]["version"], "3.4.0");
        for (overrides, expected) in [
            (json!({"ignition": {"version": "2.2.0"}}), "poolctl supports version 3"),
            (json!({"ignition": 3}), "is not an Ignition config"),
            (json!(["x"]), "is not an Ignition config"),
        ] {
            let why = render_with_override(&mut infra_env, &overrides).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
        infra_env.spec.ignition_config_override = "{".into();
        assert!(render(&infra_env, &[]).unwrap_err().contains("is not JSON"));
    }

    #[test]
    fn kernel_arguments_are_passed_to_coreos_installer() {
        let mut infra_env = infra_env();
        for (operation, value) in [("append", "a=1"), ("delete", "quiet"), ("replace", "b=1=2")] {
            let argument = KernelArgument { operation: operation.into(), value: value.into() };
            infra_env.spec.kernel_arguments.push(argument);
        }
        let expected =
            ["--live-karg-append=a=1", "--live-karg-delete=quiet", "--live-karg-replace=b=1=2"];
        assert_eq!(kernel_arguments(&infra_env), expected);
    }
}
