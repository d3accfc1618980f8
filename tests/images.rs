//! Discovery images: what they are made of, by which programs, and who may read them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::lab::{CANARY, Lab};
use crate::sandbox::{Ran, Sandbox, apply, jsonpath};

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2rPHp+8pqQ0i0MkmjIlz6l8uLSsLfGQVNTjbEVVSMi";

fn rack(more: &str) -> String {
    format!(
        "apiVersion: agent-install.openshift.io/v1beta1\nkind: InfraEnv\nmetadata: {{name: rack}}\n\
         spec:\n  pullSecretRef: {{name: pull}}\n  sshAuthorizedKey: {KEY}\n  \
         networkDiscoveryDelaySeconds: 60\n{more}"
    )
}

fn settings(lab: &Lab, more: &str) {
    let bin = lab.bin("").display().to_string();
    let text = format!(
        "apiVersion: poolctl.dev/v1\nkind: Settings\nmetadata: {{name: default}}\nspec:\n  programs: \
         {{openshift-install: {bin}openshift-install, coreos-installer: {bin}coreos-installer}}\n{more}"
    );
    apply(&lab.sandbox, &text);
}

/// What plays coreos-installer: `iso customize --live-ignition FILE -o IMAGE BASE`.
fn coreos_installer(lab: &Lab, script: &str) {
    let path = lab.bin("coreos-installer");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Its image is the Ignition.
fn lab() -> Lab {
    let lab = Lab::new();
    coreos_installer(&lab, "stat -c %a . \"$4\" >\"${0%/*}/modes\"; cat \"$4\" \"$7\" >\"$6\"");
    let images = lab.bin("images").display().to_string();
    settings(&lab, &format!("  isoDirectory: {images}\n  isoURL: http://192.0.2.9/images/\n"));
    apply(&lab.sandbox, &rack(""));
    lab.sandbox.file("base.iso", "BASE");
    lab.sandbox.file("hosts", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n");
    lab.sandbox.file("known_hosts", &format!("192.0.2.1 {KEY}\n"));
    lab
}

fn path(lab: &Lab, name: &str) -> String {
    lab.sandbox.path().join(name).display().to_string()
}

fn iso(lab: &Lab, more: &[&str]) -> Ran {
    let (key, known) = (path(lab, "hosts"), path(lab, "known_hosts"));
    let mut all = vec!["infraenv", "iso", "rack", "--address", "192.0.2.1"];
    all.extend(["--key", &key, "--known-hosts", &known]);
    all.extend(more);
    lab.sandbox.run(&all)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn ours_is_merged_over_the_ignition_of_openshift_install() {
    let lab = lab();
    let out = path(&lab, "rack.ign");
    let ran = iso(&lab, &["--with", "openshift-install", "--out", &out]);
    assert!(ran.code == 0 && ran.out.contains("Ignition is in"), "{ran:?}");
    assert_eq!(mode(Path::new(&out)), 0o600);
    let made: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let files = made["storage"]["files"].as_array().unwrap();
    let at = |path: &str| files.iter().filter(|one| one["path"] == path).collect::<Vec<_>>();
    assert_eq!(at("/etc/assisted/manifests/infraenv.yaml").len(), 1);
    assert_eq!(at("/etc/poolctl-agent/config.json")[0]["mode"], 0o600);
    let both = at("/root/.docker/config.json");
    let source = both[0]["contents"]["source"].as_str().unwrap();
    assert!(both.len() == 1 && source.contains(";base64,"), "{both:?}");
    let units = made["systemd"]["units"].as_array().unwrap();
    let units: Vec<_> = units.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(units, ["agent-check-config-image.service", "poolctl-agent.service"]);
    let users = json!([{"name": "core", "sshAuthorizedKeys": [KEY]}]);
    assert_eq!(made["passwd"]["users"], users);
    // It ran in a folder of its own, which is gone with what it keeps there.
    let ledger = lab.ledger();
    let typed = "openshift-install agent create unconfigured-ignition --dir .";
    assert!(ledger.iter().any(|line| line.ends_with(typed)), "{ledger:?}");
    assert!(ledger.contains(&"alone 700 HOME,PATH".to_owned()), "{ledger:?}");
    let begun = ledger.iter().find_map(|line| line.strip_prefix("begin agent-unconfigured "));
    assert!(!Path::new(begun.unwrap()).exists());
}

#[test]
fn an_image_is_served_from_where_nobody_guesses() {
    let lab = lab();
    let base = path(&lab, "base.iso");
    let url = || jsonpath(&lab.sandbox, "infraenv/rack", "{.status.isoDownloadURL}");
    let ran = iso(&lab, &["--with", "openshift-install", "--base", &base]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let first = url();
    assert!(ran.err.contains(&format!("it is fetched from {first}")), "{}", ran.err);
    let rest = first.strip_prefix("http://192.0.2.9/images/").unwrap();
    let image = lab.bin("images").join(rest);
    let folder = image.parent().unwrap();
    assert_eq!(folder.file_name().unwrap().len(), 64);
    assert_eq!((mode(&image), mode(folder)), (0o640, 0o750));
    let text = fs::read_to_string(&image).unwrap();
    assert!(text.contains("poolctl-agent.service") && text.ends_with("BASE"), "{text}");
    // While it is made, nobody else can read it either.
    assert_eq!(fs::read_to_string(lab.bin("modes")).unwrap(), "700\n600\n");
    let ran = iso(&lab, &["--base", &base]);
    let former = format!("the former one is still in {}", image.display());
    assert!(ran.code == 0 && url() != first && ran.err.contains(&former), "{ran:?}");
    // One that is not made leaves nothing.
    coreos_installer(&lab, "echo 'Error: no ISO' >&2; exit 1");
    let ran = iso(&lab, &["--base", &base]);
    let says = "cause: coreos-installer failed (exit code 1): Error: no ISO\n  \
                next: coreos-installer iso ignition show ";
    assert!(ran.code == 1 && ran.err.contains(says), "{ran:?}");
    coreos_installer(&lab, "exit 3");
    let ran = iso(&lab, &["--base", &base]);
    assert!(ran.err.contains("cause: coreos-installer failed (exit code 3)\n"), "{ran:?}");
    assert_eq!(fs::read_dir(lab.bin("images")).unwrap().count(), 2);
}

#[test]
fn why_there_is_no_image_is_said_without_secrets() {
    let lab = lab();
    let one = &lab.sandbox;
    let (out, base) = (path(&lab, "rack.ign"), path(&lab, "base.iso"));
    let failed = |says: &str| {
        let ran = iso(&lab, &["--with", "openshift-install", "--out", &out]);
        assert!(ran.code == 1 && ran.err.contains(says), "{says}: {ran:?}");
        let told = jsonpath(one, "infraenv/rack", "{.status.conditions[0].message}");
        assert!(told.starts_with("Failed to create image: ") && !told.contains('\n'), "{told}");
        let seen = one.ok(&["events", "infraenv/rack", "-o", "json"]);
        assert!(![ran.err, told, seen].iter().any(|text| text.contains(CANARY)));
        assert!(!Path::new(&out).exists());
    };
    lab.behave("agent-unconfigured: exit 1\n");
    failed("cause: openshift-install failed (exit code 1): level=error");
    lab.behave("");
    let long = "x".repeat(300_000);
    let file = json!({"path": "/x", "contents": {"source": format!("data:,{long}")}});
    let long = json!({"storage": {"files": [file]}}).to_string();
    apply(one, &rack(&format!("  ignitionConfigOverride: '{long}'\n")));
    failed("of them openshift-install's, more than the 262144 that it may have");
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: pull}\n\
                  stringData: {.dockerconfigjson: '{\"auths\": {}, \"token\": \"CANARY-token\"}'}\n";
    apply(one, secret);
    failed("auths required");
    settings(&lab, "");
    let ran = iso(&lab, &["--base", &base]);
    assert!(ran.code == 2 && ran.err.contains("there is no place for the image"), "{ran:?}");
    assert_eq!(iso(&lab, &[]).code, 2);
}

#[test]
fn what_cannot_be_read_or_written_is_said_before_anybody_is_admitted() {
    let lab = lab();
    let (folder, base) = (path(&lab, ""), path(&lab, "base.iso"));
    let nowhere = path(&lab, "nowhere/rack.ign");
    let missing = path(&lab, "missing.iso");
    for (more, says) in [
        (&["--base", &*missing][..], "--base: there is no file"),
        (&["--base", &*base, "--out", &*folder], "is a folder"),
        (&["--out", &*nowhere], "next: mkdir -p "),
    ] {
        let ran = iso(&lab, more);
        assert!(ran.code == 2 && ran.err.contains(says), "{says}: {ran:?}");
    }
    let tokens = lab.sandbox.ok(&["infraenv", "token", "list", "rack", "-o", "name"]);
    assert_eq!(tokens, "");
}

#[test]
fn an_image_that_is_interrupted_leaves_no_token_and_no_condition() {
    let lab = lab();
    let (key, known, base) =
        (path(&lab, "hosts"), path(&lab, "known_hosts"), path(&lab, "base.iso"));
    // It asks for the end of who has started it.
    coreos_installer(&lab, "kill -TERM $PPID; sleep 60");
    let ran = lab.sandbox.run(&[
        "infraenv",
        "iso",
        "rack",
        "--address",
        "192.0.2.1",
        "--key",
        &key,
        "--known-hosts",
        &known,
        "--base",
        &base,
    ]);
    assert_eq!((ran.code, &*ran.err), (143, "error: interrupted\n"));
    let one = &lab.sandbox;
    let reasons = jsonpath(one, "infraenv/rack", "{.status.conditions[*].reason}");
    assert!(!reasons.contains("ImageCreationError"), "{reasons}");
    let tokens = one.ok(&["infraenv", "token", "list", "rack", "-o", "json"]);
    assert!(!tokens.contains("\"revoked\": null"), "{tokens}");
    assert!(!one.ok(&["events", "infraenv/rack"]).contains("infra_env_image_failed"));
    assert_eq!(fs::read_dir(lab.bin("images")).unwrap().count(), 0);
}

#[test]
fn where_images_are_put_is_checked() {
    let lab = Lab::new();
    let one = &lab.sandbox;
    let row = |name: &str, state: &str, says: &str| {
        let seen = one.run(&["driver", "check", "agent"]).out;
        let line = seen.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert!(line.contains(state) && line.contains(says), "{name} {state} {says}: {seen}");
    };
    settings(&lab, "");
    row("isoDirectory", "absent", "not set");
    row("isoURL", "absent", "not set");
    one.file("file", "");
    let shelf = format!("  isoDirectory: {}\n  isoURL: http://192.0.2.9/\n", path(&lab, "file/x"));
    settings(&lab, &shelf);
    row("isoDirectory", "missing", "is not a folder");
    settings(&lab, &shelf.replace("file/x", "new/images"));
    row("isoDirectory", "ok", "new/images");
    row("isoURL", "ok", "http://192.0.2.9/");
    for (wrong, says) in [
        ("  isoDirectory: images\n", "spec.isoDirectory is no absolute path"),
        ("  isoURL: ftp://192.0.2.9/\n", "spec.isoURL is no address by http or https"),
    ] {
        let document = "apiVersion: poolctl.dev/v1\nkind: Settings\nmetadata: {name: default}\n";
        let file = one.file("wrong.yaml", &format!("{document}spec:\n{wrong}"));
        let ran = one.run(&["apply", "-f", &file]);
        assert!(ran.code != 0 && ran.err.contains(says), "{says}: {ran:?}");
    }
}

#[test]
fn fields_that_have_no_effect_here_are_named() {
    let sandbox = Sandbox::new();
    let text = rack(
        "  imageType: minimal-iso\n  osImageVersion: '4.20'\n  ipxeScriptType: BootOrderControl\n  \
         mirrorRegistryRef: {name: mirror}\n",
    );
    let file = sandbox.file("rack.yaml", &text);
    let ran = sandbox.run(&["apply", "-f", &file]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for field in ["imageType", "osImageVersion", "ipxeScriptType", "mirrorRegistryRef"] {
        let said = ran.err.lines().filter(|line| line.contains(&format!("spec.{field}")));
        assert_eq!(said.filter(|line| line.contains("has no effect here")).count(), 1, "{field}");
    }
    let file = sandbox.file("rack.yaml", &rack("  imageType: full-iso\n"));
    assert_eq!(sandbox.run(&["apply", "-f", &file]).err, "");
}
