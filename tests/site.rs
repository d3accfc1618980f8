//! A site that reaches the world by a proxy, a mirror and an authority of its own, or not at all:
//! what its Settings and its pools say of that reaches every program that needs it, and nothing is
//! fetched twice.

use std::fs;

use crate::lab::{CANARY, Lab, VSPHERE, pool};
use crate::sandbox::{apply, in_one_line, is_met_or_skipped, jsonpath};

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
const AUTHORITY: &str = "LAB-AUTHORITY";
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
const OPENSTACK: &str = "{openstack: {cloud: lab, credentialsSecretRef: {name: openstack}}}";

/// The site of a lab that is not connected.
const SITE: &str = "  site:
    proxy:
      httpProxy: http://proxy.example.com:3128
      httpsProxy: http://proxy.example.com:3128
      noProxy: .example.com,192.0.2.0/24
    trustBundle: |
      -----BEGIN CERTIFICATE-----
      LAB-AUTHORITY
      -----END CERTIFICATE-----
    mirrors:
      example.com/ocp: [mirror.example.com:5000/ocp]
";

/// The image set of the lab, with another release image.
fn image_set(release_image: &str) -> String {
    format!(
        "apiVersion: hive.openshift.io/v1\nkind: ClusterImageSet\nmetadata: {{name: ocp}}\n\
         spec: {{releaseImage: '{release_image}'}}\n"
    )
}

/// A Secret with the authority of the lab, under the key that it has for a platform.
fn authority_secret(key: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: authority}}\nstringData:\n  {key}: |\n    \
         -----BEGIN CERTIFICATE-----\n    {AUTHORITY}\n    -----END CERTIFICATE-----\n"
    )
}

/// What the installer was given as a variable, in the order of the steps.
fn given(lab: &Lab, variable: &str) -> Vec<String> {
    let prefix = format!("given {variable}=");
    let ledger = lab.ledger();
    ledger.iter().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
}

#[test]
fn a_release_is_the_same_whichever_registry_its_digest_is_pulled_from() {
    let lab = Lab::new();
    fs::write(lab.bin("release"), format!("quay.io/openshift/ocp-release@{DIGEST}")).unwrap();
    lab.set_cloud("mirror: mirror.example.com:5000/ocp\n");
    let mirrored_image = format!("mirror.example.com:5000/ocp@{DIGEST}");
    apply(&lab.sandbox, &image_set(&mirrored_image));
    apply(&lab.sandbox, &pool("lab", OPENSTACK, ""));
    lab.wait_until_installed();
    let overrides = given(&lab, "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE");
    assert!(overrides.contains(&mirrored_image), "{overrides:?}");
    lab.delete_clusters();
}

#[test]
fn the_site_of_the_settings_reaches_oc_the_installer_and_the_cluster() {
    let lab = Lab::new();
    lab.install_oc();
    lab.add_to_settings("spec:\n", SITE);
    lab.set_cloud(&format!(
        "proxy: http://proxy.example.com:3128\nmirror: mirror.example.com:5000/ocp\n\
         authority: {AUTHORITY}\nregistry-account: CANARY-pull-secret\n"
    ));
    apply(&lab.sandbox, &image_set(&format!("example.com/ocp@{DIGEST}")));
    apply(&lab.sandbox, &pool("lab", OPENSTACK, ""));
    lab.wait_until_installed();
    let extracted = fs::read_to_string(lab.bin("extracted")).unwrap();
    assert!(extracted.contains("ImageDigestMirrorSet"), "{extracted}");
    let no_proxy = given(&lab, "NO_PROXY");
    assert_eq!(no_proxy.first().map(String::as_str), Some(".example.com,192.0.2.0/24"));
    // The cluster gets all of it, too, because its own install-config says nothing else.
    let cluster = jsonpath(&lab.sandbox, "cluster", "{.items[0].metadata.name}");
    let seen = fs::read_to_string(lab.bin(&format!("seen-{cluster}.yaml"))).unwrap();
    for word in ["httpsProxy", "imageDigestSources", "mirror.example.com:5000/ocp", AUTHORITY] {
        assert!(seen.contains(word), "{word}: {seen}");
    }
    lab.delete_clusters();
}

#[test]
fn what_an_install_config_says_of_its_proxy_is_not_replaced_by_the_site() {
    let lab = Lab::new();
    lab.add_to_settings("spec:\n", SITE);
    let template = "apiVersion: v1\nkind: Secret\nmetadata: {name: template}\nstringData:\n  \
        install-config.yaml: |\n    {apiVersion: v1, metadata: {name: x}, platform: {openstack: {}},\n     \
        proxy: {httpsProxy: 'http://of-the-cluster:1'}}\n";
    apply(&lab.sandbox, template);
    let templated = "  installConfigSecretTemplateRef: {name: template}\n";
    apply(&lab.sandbox, &pool("lab", OPENSTACK, templated));
    lab.wait_until_installed();
    let cluster = jsonpath(&lab.sandbox, "cluster", "{.items[0].metadata.name}");
    let seen = fs::read_to_string(lab.bin(&format!("seen-{cluster}.yaml"))).unwrap();
    assert!(seen.contains("of-the-cluster") && !seen.contains("proxy.example.com"), "{seen}");
    lab.delete_clusters();
}

#[test]
fn the_password_of_a_proxy_of_the_site_is_shown_nowhere() {
    let lab = Lab::new();
    let site = SITE.replace("http://proxy.", "http://user:CANARY-proxy@proxy.");
    lab.add_to_settings("spec:\n", &site);
    lab.set_cloud("away: refused");
    apply(&lab.sandbox, &pool("lab", OPENSTACK, ""));
    lab.wait_until("failed", |lab| lab.phase() == "Retrying");
    let script = "for shown in 'get settings -o yaml' events 'status' 'export' 'job list --all -o yaml'; \
        do poolctl $shown; done 2>&1; cat $HOME/jobs/*/log $HOME/jobs/*/order.json";
    let shown = lab.sandbox.shell(script).out;
    assert!(shown.len() > 1000 && !shown.contains(CANARY), "{shown}");
}

#[test]
fn an_installer_of_the_settings_is_chosen_by_version_or_digest() {
    let lab = Lab::new();
    fs::write(lab.bin("version"), "4.17.1").unwrap();
    let installer = lab.bin("openshift-install").display().to_string();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = version ] || exec {installer} \"$@\"\necho 'openshift-install 4.18.3'\n\
         echo 'built from commit 0'\necho 'release image example.com/ocp@{DIGEST}'\n"
    );
    lab.install_program("openshift-install-4.18.3", &script);
    let program = lab.bin("openshift-install-4.18.3").display().to_string();
    let original = lab.sandbox.ok("get settings default -o yaml");
    for key in ["4.18.3", DIGEST] {
        let site = format!("spec:\n  site: {{installers: {{'{key}': {program}}}}}\n");
        apply(&lab.sandbox, &original.replace("spec:\n", &site));
        let tag = if key == DIGEST { format!("@{DIGEST}") } else { ":4.18.3-x86_64".to_owned() };
        apply(&lab.sandbox, &image_set(&format!("mirror.example.com:5000/ocp{tag}")));
        apply(&lab.sandbox, &pool("lab", OPENSTACK, ""));
        lab.wait_until_installed();
        lab.delete_clusters();
    }
}

#[test]
fn jobs_that_start_together_extract_one_installer() {
    let lab = Lab::new();
    lab.install_oc();
    lab.set_cloud("extraction-takes: 1\n");
    apply(&lab.sandbox, &pool("lab", OPENSTACK, "").replace("size: 1", "size: 3"));
    lab.wait_until("all are installed", |lab| {
        lab.sandbox.ok("get cluster --no-headers").matches("Installed").count() == 3
    });
    let extracted = fs::read_to_string(lab.bin("extracted")).unwrap();
    assert_eq!(extracted.lines().filter(|line| line.starts_with("image ")).count(), 1);
    lab.delete_clusters();
}

#[test]
fn the_image_of_machines_is_downloaded_once() {
    let lab = Lab::new();
    apply(&lab.sandbox, &pool("lab", OPENSTACK, "").replace("size: 1", "size: 2"));
    lab.wait_until("both are installed", |lab| {
        lab.sandbox.ok("get cluster --no-headers").matches("Installed").count() == 2
    });
    lab.delete_clusters();
    // Two may begin together; whoever comes later finds the image.
    lab.sandbox.ok("pool scale lab --size 1 -q");
    lab.wait_until_installed();
    assert!(lab.count_in_ledger("downloaded ") <= 2, "{:?}", lab.ledger());
    let caches = given(&lab, "XDG_CACHE_HOME");
    assert!(!caches.is_empty() && caches.windows(2).all(|pair| pair[0] == pair[1]), "{caches:?}");
    assert!(!caches[0].contains("/jobs/"), "{caches:?}");
    lab.delete_clusters();
}

/// The name of a platform, its settings in a pool, the key of its authority, and its credentials.
const PRIVATE_PLATFORMS: [(&str, &str, &str, &str); 3] = [
    (
        "vsphere",
        "{vsphere: {credentialsSecretRef: {name: cloud}, certificatesSecretRef: {name: authority}, \
         vCenter: vcenter.example.com, datacenter: lab, defaultDatastore: fast}}",
        ".cacert",
        "{username: admin, password: CANARY-password}",
    ),
    (
        "openstack",
        "{openstack: {cloud: lab, credentialsSecretRef: {name: cloud}, certificatesSecretRef: {name: authority}}}",
        "ca.crt",
        "{clouds.yaml: 'clouds: {lab: {auth: {password: CANARY-password}}}'}",
    ),
    (
        "nutanix",
        "{nutanix: {credentialsSecretRef: {name: cloud}, certificatesSecretRef: {name: authority}, \
         prismCentral: {address: prism.example.com, port: 9440}}}",
        "ca.pem",
        "{username: admin, password: CANARY-password}",
    ),
];

fn credentials_secret(values: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: cloud}}\nstringData: {values}\n")
}

#[test]
fn the_authority_of_a_pools_platform_is_trusted_beside_those_of_the_system() {
    for (platform, settings, key, credentials) in PRIVATE_PLATFORMS {
        let lab = Lab::new();
        lab.set_cloud(&format!("authority: {AUTHORITY}"));
        apply(&lab.sandbox, &credentials_secret(credentials));
        apply(&lab.sandbox, &authority_secret(key));
        apply(&lab.sandbox, &pool("lab", settings, ""));
        lab.wait_until_installed();
        let bundle = given(&lab, "SSL_CERT_FILE").pop().unwrap_or_default();
        assert!(!bundle.is_empty(), "{platform}");
        // It destroys the cluster with the cluster's own copy, when that of the pool is gone.
        lab.sandbox.ok("delete secret authority -y -q");
        lab.delete_clusters();
    }
}

#[test]
fn the_trust_of_a_program_is_that_of_the_system_and_more() {
    let system_authorities = fs::read_to_string(SYSTEM_AUTHORITIES).unwrap_or_default();
    if !is_met_or_skipped(!system_authorities.is_empty(), "the system trusts no authority") {
        return;
    }
    let lab = Lab::new();
    lab.set_cloud("away: refused");
    lab.add_to_settings("spec:\n", SITE);
    apply(&lab.sandbox, &pool("lab", OPENSTACK, ""));
    lab.wait_until("begun", |lab| !given(lab, "SSL_CERT_FILE").is_empty());
    let path = given(&lab, "SSL_CERT_FILE").pop().unwrap();
    // The folder of a job that is over is emptied; the bundle of the site is not the job's.
    let bundle = fs::read_to_string(path).unwrap();
    assert!(bundle.contains(system_authorities.lines().nth(1).unwrap_or_default()));
    assert!(bundle.contains(AUTHORITY));
}

#[test]
fn the_credentials_of_nutanix_and_ovirt_and_of_several_vcenters_arrive() {
    let nutanix = "{nutanix: {credentialsSecretRef: {name: cloud}, \
        prismCentral: {address: prism.example.com, port: 9440}}}";
    let ovirt = "{ovirt: {credentialsSecretRef: {name: cloud}, certificatesSecretRef: {name: authority}, \
        ovirt_cluster_id: a, storage_domain_id: b}}";
    let vcenters = "{vsphere: {credentialsSecretRef: {name: cloud}, certificatesSecretRef: {name: authority}, \
        infrastructure: {vcenters: [{server: a.example.com, datacenters: [lab]}, \
        {server: b.example.com, datacenters: [lab]}]}}}";
    for (settings, credentials, expected) in [
        (nutanix, "{username: admin, password: CANARY-password}", "endpoint"),
        (
            ovirt,
            "{ovirt_url: 'https://engine.example.com', ovirt_username: admin, ovirt_password: CANARY-password, \
             ovirt_ca_bundle: LAB}",
            "ovirt_cluster_id",
        ),
        (
            vcenters,
            "{vcenters: '[{vCenter: a.example.com, username: user-a, password: CANARY-a}, \
             {vCenter: b.example.com, username: user-b, password: CANARY-b}]'}",
            "user-b",
        ),
    ] {
        let lab = Lab::new();
        apply(&lab.sandbox, &credentials_secret(credentials));
        apply(&lab.sandbox, &authority_secret(".cacert"));
        apply(&lab.sandbox, &pool("lab", settings, ""));
        lab.wait_until_installed();
        let cluster = jsonpath(&lab.sandbox, "cluster", "{.items[0].metadata.name}");
        let seen = fs::read_to_string(lab.bin(&format!("seen-{cluster}.yaml"))).unwrap();
        assert!(seen.contains(expected), "{expected}: {seen}");
        lab.delete_clusters();
        assert!(!lab.sandbox.shell("grep -rl CANARY $HOME/jobs; true").out.contains("jobs"));
    }
}

#[test]
fn the_configuration_of_a_hive_becomes_that_of_the_site() {
    let lab = Lab::new();
    let secrets = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: authorities, namespace: hive}}\n\
         stringData: {{ca.crt: {AUTHORITY}}}\n---\napiVersion: v1\nkind: Secret\n\
         metadata: {{name: global-pull, namespace: hive}}\n\
         stringData: {{.dockerconfigjson: '{{\"auths\": {{\"m\": {{\"auth\": \"CANARY-global\"}}}}}}'}}\n"
    );
    apply(&lab.sandbox, &secrets);
    // As Settings are, it is taken when it is named alone.
    let hive_config = "apiVersion: hive.openshift.io/v1\nkind: HiveConfig\nmetadata: {name: hive}\nspec:\n  \
        additionalCertificateAuthoritiesSecretRef: [{name: authorities}]\n  \
        globalPullSecretRef: {name: global-pull}\n  \
        failedProvisionConfig: {retryReasons: [Capacity]}\n";
    let path = lab.sandbox.write_file("hive.yaml", hive_config);
    let ran = lab.sandbox.run(&format!("apply -f {path}"));
    assert_eq!((ran.code, ran.err.contains("skipped")), (0, false), "{}", ran.err);
    let settings = lab.sandbox.ok("get settings default -o yaml");
    for word in ["authorities", "global-pull", "Capacity"] {
        assert!(settings.contains(word), "{word}: {settings}");
    }
    assert!(!settings.contains(CANARY), "{settings}");
}

#[test]
fn a_pool_with_a_private_authority_says_what_is_missing_before_anything_is_leased() {
    let lab = Lab::new();
    apply(
        &lab.sandbox,
        &pool(
            "lab",
            &VSPHERE.replace(
                "certificatesSecretRef: {name: vsphere}",
                "certificatesSecretRef: {name: authority}",
            ),
            "",
        ),
    );
    assert_eq!(lab.pool_condition("MissingDependencies").split(' ').next(), Some("True"));
    assert_eq!(lab.phase(), "");
}

#[test]
fn a_secret_that_is_not_there_is_said_when_it_is_named() {
    let lab = Lab::new();
    let settings = lab.sandbox.ok("get settings default -o yaml");
    let named =
        "spec:\n  site: {additionalCertificateAuthorities: [{name: gone, namespace: hive}]}\n";
    let path = lab.sandbox.write_file("settings.yaml", &settings.replace("spec:\n", named));
    let ran = lab.sandbox.run(&format!("apply -f {path}"));
    let warnings = in_one_line(&ran.err);
    assert_eq!(ran.code, 0, "{warnings}");
    assert!(
        warnings.contains("there is no Secret `gone`; next: poolctl secret create"),
        "{warnings}"
    );
}
