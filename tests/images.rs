//! Discovery images: what they are made of, by which programs they are made, and who may read them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::lab::{CANARY, Lab};
use crate::sandbox::{Ran, Sandbox, apply, jsonpath};

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2rPHp+8pqQ0i0MkmjIlz6l8uLSsLfGQVNTjbEVVSMi";

/// The InfraEnv `rack`, with these lines added to its spec.
fn infra_env(spec: &str) -> String {
    format!(
        "apiVersion: agent-install.openshift.io/v1beta1\nkind: InfraEnv\nmetadata: {{name: rack}}\n\
         spec:\n  pullSecretRef: {{name: pull}}\n  sshAuthorizedKey: {KEY}\n  \
         networkDiscoveryDelaySeconds: 60\n{spec}"
    )
}

fn apply_settings(lab: &Lab, spec: &str) {
    let bin = lab.bin("").display().to_string();
    let settings = format!(
        "apiVersion: poolctl.dev/v1\nkind: Settings\nmetadata: {{name: default}}\nspec:\n  programs: \
         {{openshift-install: {bin}openshift-install, coreos-installer: {bin}coreos-installer}}\n{spec}"
    );
    apply(&lab.sandbox, &settings);
}

/// Writes a stand-in for coreos-installer, which is called as
/// `coreos-installer iso customize --live-ignition FILE -o IMAGE BASE`.
pub fn write_coreos_installer(lab: &Lab, script: &str) {
    lab.sandbox.write_script("bin/coreos-installer", &format!("#!/bin/sh\n{script}\n"));
}

/// A lab whose coreos-installer makes an image of the Ignition, followed by the base.
pub fn lab_with_images() -> Lab {
    let lab = Lab::new();
    write_coreos_installer(
        &lab,
        "stat -c %a . \"$4\" >\"${0%/*}/modes\"; cat \"$4\" \"$7\" >\"$6\"",
    );
    let images = lab.bin("images").display().to_string();
    apply_settings(
        &lab,
        &format!("  isoDirectory: {images}\n  isoURL: http://192.0.2.9/images/\n"),
    );
    apply(&lab.sandbox, &infra_env(""));
    lab.sandbox.write_file("base.iso", "BASE");
    lab.sandbox.write_file("hosts", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n");
    lab.sandbox.write_file("known_hosts", &format!("192.0.2.1 {KEY}\n"));
    lab
}

pub fn file_path(lab: &Lab, name: &str) -> String {
    lab.sandbox.path().join(name).display().to_string()
}

/// Runs `infraenv iso` with what it always needs and these options.
pub fn run_infraenv_iso(lab: &Lab, options: &str) -> Ran {
    let key = file_path(lab, "hosts");
    let known_hosts = file_path(lab, "known_hosts");
    lab.sandbox.run(&format!(
        "infraenv iso rack --address 192.0.2.1 --key {key} --known-hosts {known_hosts} {options}"
    ))
}

pub fn permission_bits(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Files of an Ignition that are written to this path.
fn files_at<'a>(files: &'a [Value], path: &str) -> Vec<&'a Value> {
    files.iter().filter(|file| file["path"] == path).collect()
}

pub fn download_url(lab: &Lab) -> String {
    jsonpath(&lab.sandbox, "infraenv/rack", "{.status.isoDownloadURL}")
}

#[test]
fn the_ignition_of_poolctl_is_merged_over_that_of_openshift_install() {
    let lab = lab_with_images();
    let out = file_path(&lab, "rack.ign");
    let ran = run_infraenv_iso(&lab, &format!("--with openshift-install --out {out}"));
    assert!(ran.code == 0 && ran.out.contains("Ignition is in"), "{ran:?}");
    assert_eq!(permission_bits(Path::new(&out)), 0o600);
    let ignition: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let files = ignition["storage"]["files"].as_array().unwrap();
    assert_eq!(files_at(files, "/etc/assisted/manifests/infraenv.yaml").len(), 1);
    assert_eq!(files_at(files, "/etc/poolctl-agent/config.json")[0]["mode"], 0o600);
    let registry_logins = files_at(files, "/root/.docker/config.json");
    let source = registry_logins[0]["contents"]["source"].as_str().unwrap();
    assert!(registry_logins.len() == 1 && source.contains(";base64,"), "{registry_logins:?}");
    let units = ignition["systemd"]["units"].as_array().unwrap();
    let unit_names: Vec<_> = units.iter().map(|unit| unit["name"].as_str().unwrap()).collect();
    assert_eq!(unit_names, ["agent-check-config-image.service", "poolctl-agent.service"]);
    let users = json!([{"name": "core", "sshAuthorizedKeys": [KEY]}]);
    assert_eq!(ignition["passwd"]["users"], users);
    // It ran in a folder of its own, which was deleted with all that it kept there.
    let ledger = lab.ledger();
    let typed = "openshift-install agent create unconfigured-ignition --dir .";
    assert!(ledger.iter().any(|line| line.ends_with(typed)), "{ledger:?}");
    assert!(ledger.contains(&"alone 700 HOME,PATH".to_owned()), "{ledger:?}");
    let begun = ledger.iter().find_map(|line| line.strip_prefix("begin agent-unconfigured "));
    assert!(!Path::new(begun.unwrap()).exists());
}

#[test]
fn an_image_is_served_from_an_address_that_nobody_can_guess() {
    let lab = lab_with_images();
    let base = file_path(&lab, "base.iso");
    let ran = run_infraenv_iso(&lab, &format!("--with openshift-install --base {base}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let first_url = download_url(&lab);
    assert!(
        ran.err.contains(&format!("management controllers fetch the image from {first_url}")),
        "{}",
        ran.err
    );
    let path_in_images = first_url.strip_prefix("http://192.0.2.9/images/").unwrap();
    let image = lab.bin("images").join(path_in_images);
    let folder = image.parent().unwrap();
    assert_eq!(folder.file_name().unwrap().len(), 64);
    assert_eq!((permission_bits(&image), permission_bits(folder)), (0o640, 0o750));
    let content = fs::read_to_string(&image).unwrap();
    assert!(content.contains("poolctl-agent.service") && content.ends_with("BASE"), "{content}");
    // While it is made, nobody else can read it either.
    assert_eq!(fs::read_to_string(lab.bin("modes")).unwrap(), "700\n600\n");
    let ran = run_infraenv_iso(&lab, &format!("--base {base}"));
    let former = format!("the previous image is still in {}", image.display());
    assert!(
        ran.code == 0 && download_url(&lab) != first_url && ran.err.contains(&former),
        "{ran:?}"
    );
    // An image that could not be made leaves nothing.
    write_coreos_installer(&lab, "echo 'Error: no ISO' >&2; exit 1");
    let ran = run_infraenv_iso(&lab, &format!("--base {base}"));
    let says = "cause: coreos-installer failed (exit code 1): Error: no ISO\n  \
                next: coreos-installer iso ignition show ";
    assert!(ran.code == 1 && ran.err.contains(says), "{ran:?}");
    write_coreos_installer(&lab, "exit 3");
    let ran = run_infraenv_iso(&lab, &format!("--base {base}"));
    assert!(ran.err.contains("cause: coreos-installer failed (exit code 3)\n"), "{ran:?}");
    assert_eq!(fs::read_dir(lab.bin("images")).unwrap().count(), 2);
}

/// No Ignition is made; the cause is said, and no secret with it.
fn assert_no_image_is_made(lab: &Lab, cause: &str) {
    let out = file_path(lab, "rack.ign");
    let ran = run_infraenv_iso(lab, &format!("--with openshift-install --out {out}"));
    assert!(ran.code == 1 && ran.err.contains(cause), "{cause}: {ran:?}");
    let message = jsonpath(&lab.sandbox, "infraenv/rack", "{.status.conditions[0].message}");
    let is_one_line = !message.contains('\n');
    assert!(message.starts_with("Failed to create image: ") && is_one_line, "{message}");
    let events = lab.sandbox.ok("events infraenv/rack -o json");
    assert!(![ran.err, message, events].iter().any(|output| output.contains(CANARY)));
    assert!(!Path::new(&out).exists());
}

#[test]
fn why_there_is_no_image_is_said_without_secrets() {
    let lab = lab_with_images();
    let sandbox = &lab.sandbox;
    lab.set_behaviour("agent-unconfigured: exit 1\n");
    assert_no_image_is_made(&lab, "cause: openshift-install failed (exit code 1): level=error");
    lab.set_behaviour("");
    // Larger than the Ignition that an image has room for.
    let source = format!("data:,{}", "x".repeat(300_000));
    let file = json!({"path": "/x", "contents": {"source": source}});
    let ignition = json!({"storage": {"files": [file]}}).to_string();
    apply(sandbox, &infra_env(&format!("  ignitionConfigOverride: '{ignition}'\n")));
    assert_no_image_is_made(&lab, "of them openshift-install's; the limit is 262144");
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: pull}\n\
                  stringData: {.dockerconfigjson: '{\"auths\": {}, \"token\": \"CANARY-token\"}'}\n";
    apply(sandbox, secret);
    assert_no_image_is_made(&lab, "auths required");
    apply_settings(&lab, "");
    let ran = run_infraenv_iso(&lab, &format!("--base {}", file_path(&lab, "base.iso")));
    assert!(ran.code == 2 && ran.err.contains("there is no place for the image"), "{ran:?}");
    assert_eq!(run_infraenv_iso(&lab, "").code, 2);
}

#[test]
fn files_that_cannot_be_read_or_written_are_refused_before_a_token_is_made() {
    let lab = lab_with_images();
    let folder = file_path(&lab, "");
    let base = file_path(&lab, "base.iso");
    let nowhere = file_path(&lab, "nowhere/rack.ign");
    let missing = file_path(&lab, "missing.iso");
    for (options, says) in [
        (format!("--base {missing}"), "--base: there is no file"),
        (format!("--base {base} --out {folder}"), "is a folder"),
        (format!("--out {nowhere}"), "next: mkdir -p "),
    ] {
        let ran = run_infraenv_iso(&lab, &options);
        assert!(ran.code == 2 && ran.err.contains(says), "{says}: {ran:?}");
    }
    let tokens = lab.sandbox.ok("infraenv token list rack -o name");
    assert_eq!(tokens, "");
}

#[test]
fn an_image_that_is_interrupted_leaves_no_token_and_no_condition() {
    let lab = lab_with_images();
    // The stand-in sends SIGTERM to poolctl, which has started it.
    write_coreos_installer(&lab, "kill -TERM $PPID; sleep 60");
    let ran = run_infraenv_iso(&lab, &format!("--base {}", file_path(&lab, "base.iso")));
    assert_eq!((ran.code, &*ran.err), (143, "error: interrupted\n"));
    let sandbox = &lab.sandbox;
    let reasons = jsonpath(sandbox, "infraenv/rack", "{.status.conditions[*].reason}");
    assert!(!reasons.contains("ImageCreationError"), "{reasons}");
    let tokens = sandbox.ok("infraenv token list rack -o json");
    assert!(!tokens.contains("\"revoked\": null"), "{tokens}");
    assert!(!sandbox.ok("events infraenv/rack").contains("infra_env_image_failed"));
    assert_eq!(fs::read_dir(lab.bin("images")).unwrap().count(), 0);
}

/// `driver check` has a line of this name with this state and message.
fn assert_driver_check(sandbox: &Sandbox, name: &str, state: &str, message: &str) {
    let table = sandbox.run("driver check agent").out;
    let line = table.lines().find(|line| line.contains(name)).unwrap_or_default();
    let is_expected = line.contains(state) && line.contains(message);
    assert!(is_expected, "{name} {state} {message}: {table}");
}

#[test]
fn the_folder_and_the_address_of_images_are_checked() {
    let lab = Lab::new();
    let sandbox = &lab.sandbox;
    apply_settings(&lab, "");
    assert_driver_check(sandbox, "isoDirectory", "absent", "not set");
    assert_driver_check(sandbox, "isoURL", "absent", "not set");
    sandbox.write_file("file", "");
    let image_settings =
        format!("  isoDirectory: {}\n  isoURL: http://192.0.2.9/\n", file_path(&lab, "file/x"));
    apply_settings(&lab, &image_settings);
    assert_driver_check(sandbox, "isoDirectory", "missing", "is not a folder");
    apply_settings(&lab, &image_settings.replace("file/x", "new/images"));
    assert_driver_check(sandbox, "isoDirectory", "ok", "new/images");
    assert_driver_check(sandbox, "isoURL", "ok", "http://192.0.2.9/");
    for (wrong, says) in [
        ("  isoDirectory: images\n", "spec.isoDirectory is not an absolute path"),
        ("  isoURL: ftp://192.0.2.9/\n", "spec.isoURL is not an http or https URL"),
    ] {
        let document = "apiVersion: poolctl.dev/v1\nkind: Settings\nmetadata: {name: default}\n";
        let file = sandbox.write_file("wrong.yaml", &format!("{document}spec:\n{wrong}"));
        let ran = sandbox.run(&format!("apply -f {file}"));
        assert!(ran.code != 0 && ran.err.contains(says), "{says}: {ran:?}");
    }
}

#[test]
fn fields_that_have_no_effect_here_are_named() {
    let sandbox = Sandbox::new();
    let manifest = infra_env(
        "  imageType: minimal-iso\n  osImageVersion: '4.20'\n  ipxeScriptType: BootOrderControl\n  \
         mirrorRegistryRef: {name: mirror}\n",
    );
    let file = sandbox.write_file("rack.yaml", &manifest);
    let ran = sandbox.run(&format!("apply -f {file}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    for field in ["imageType", "osImageVersion", "ipxeScriptType", "mirrorRegistryRef"] {
        let warnings = ran.err.lines().filter(|line| line.contains(&format!("spec.{field}")));
        assert_eq!(
            warnings.filter(|line| line.contains("has no effect here")).count(),
            1,
            "{field}"
        );
    }
    let file = sandbox.write_file("rack.yaml", &infra_env("  imageType: full-iso\n"));
    assert_eq!(sandbox.run(&format!("apply -f {file}")).err, "");
}
