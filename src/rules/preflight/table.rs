//! The rules of openshift-install as data: the field, what must hold, the platforms and releases
//! for which it does, and the place in the public source of openshift/installer. A rule for a
//! release that somebody learns about is a row here.

use serde_json::Value;

use crate::model::release::Release;

use super::fields::{find_unknown_fields, find_wrong_types};
use super::values::{
    find_address_problem, find_both_mirror_lists, find_capability_set_problem, find_count_problem,
    find_extra_subnets, find_fips_key_problem, find_folder_problem, find_http_proxy_problem,
    find_https_proxy_problem, find_incomplete_failure_domains, find_mac_address_problem,
    find_many_masters, find_master_count_problem, find_missing_baremetal_capability,
    find_missing_proxy_url, find_missing_version, find_no_proxy_problem, find_platform_problem,
    find_port_problem, find_prism_element_problem, find_provisioning_overlap,
    find_pull_secret_problem, find_repository_problem, find_single_node_problem,
    find_ssh_key_problem, find_trust_bundle_problem, find_twin_compute_pools, find_twin_hosts,
    find_unknown_vcenters, find_unset_feature_set, find_uuid_problem, find_version_problem,
};
use super::{Finding, InstallConfig, InstallMethod, networks, vips};

/// A rule of the installer.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name for people and for tests.
    pub id: &'static str,
    /// The platforms for which it holds; every one if there are none.
    pub(super) platforms: &'static [&'static str],
    /// The way of installing for which it holds; both if it is none.
    pub(super) method: Option<InstallMethod>,
    /// The first release for which it holds.
    pub since: Option<Release>,
    /// The last release for which it holds.
    pub until: Option<Release>,
    pub(super) weight: Weight,
    /// Whether it reads the addresses of API and ingress, which may be leased.
    pub(super) reads_vips: bool,
    pub(super) check: Check,
    /// File and function in github.com/openshift/installer.
    pub source: &'static str,
}

/// What follows if a rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// The installer refuses the document.
    Refuses,
    /// The installer goes on, but surely not with what was meant.
    Warns,
}

/// What must hold. Paths are such as `compute[].name`, where `[]` is each item of a list.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    /// The field is empty or one of the words.
    OneOf { path: &'static str, words: &'static [&'static str] },
    /// The field is none of the words.
    NoneOf { path: &'static str, words: &'static [&'static str], advice: &'static str },
    /// The field is not set.
    Absent { path: &'static str, advice: &'static str },
    /// Nothing is wrong with the value of the field.
    Value { path: &'static str, find_problem: fn(&Value) -> Option<String>, advice: &'static str },
    /// As `Value`, but messages leave out the value, because it is long or may be secret.
    HiddenValue {
        path: &'static str,
        find_problem: fn(&Value) -> Option<String>,
        advice: &'static str,
    },
    /// Fields fit one another.
    Document(fn(&InstallConfig<'_>) -> Vec<Finding>),
}

const fn rule(id: &'static str, check: Check, source: &'static str) -> Rule {
    Rule {
        id,
        platforms: &[],
        method: None,
        since: None,
        until: None,
        weight: Weight::Refuses,
        reads_vips: false,
        check,
        source,
    }
}

impl Rule {
    const fn on(self, platforms: &'static [&'static str]) -> Self {
        Self { platforms, ..self }
    }

    const fn by(self, method: InstallMethod) -> Self {
        Self { method: Some(method), ..self }
    }

    const fn since(self, major: u64, minor: u64) -> Self {
        Self { since: Some(Release::new(major, minor)), ..self }
    }

    const fn until(self, major: u64, minor: u64) -> Self {
        Self { until: Some(Release::new(major, minor)), ..self }
    }

    const fn warns(self) -> Self {
        Self { weight: Weight::Warns, ..self }
    }
}

/// A rule about the addresses of API and ingress.
const fn vip_rule(id: &'static str, find: fn(&InstallConfig<'_>) -> Vec<Finding>) -> Rule {
    Rule { reads_vips: true, ..rule(id, Check::Document(find), VIPS) }
}

const fn one_of(path: &'static str, words: &'static [&'static str]) -> Check {
    Check::OneOf { path, words }
}

const fn value(
    path: &'static str,
    find_problem: fn(&Value) -> Option<String>,
    advice: &'static str,
) -> Check {
    Check::Value { path, find_problem, advice }
}

const fn hidden_value(
    path: &'static str,
    find_problem: fn(&Value) -> Option<String>,
    advice: &'static str,
) -> Check {
    Check::HiddenValue { path, find_problem, advice }
}

const CONFIG: &str = "pkg/types/validation/installconfig.go ValidateInstallConfig";
const NETWORKING: &str = "pkg/types/validation/installconfig.go validateNetworking";
const IP_VERSIONS: &str = "pkg/types/validation/installconfig.go validateNetworkingIPVersion";
const OVN: &str =
    "pkg/types/validation/installconfig.go validateNetworkNotOverlapDefaultOVNSubnets";
const VIPS: &str = "pkg/types/validation/installconfig.go validateAPIAndIngressVIPs";
const PROXY: &str = "pkg/types/validation/installconfig.go validateProxy";
const MIRRORS: &str = "pkg/types/validation/installconfig.go validateImageDigestSources";
const CAPABILITIES: &str = "pkg/types/validation/installconfig.go validateCapabilities";
const FEATURES: &str = "pkg/types/validation/installconfig.go ValidateFeatureSet";
const CREDENTIALS: &str = "pkg/types/validation/installconfig.go validateCloudCredentialsMode";
const FIPS: &str = "pkg/types/validation/installconfig.go validateFIPSconfig";
const CONTROL_PLANE: &str = "pkg/types/validation/installconfig.go validateControlPlane";
const COMPUTE: &str = "pkg/types/validation/installconfig.go validateCompute";
const MACHINE_POOL: &str = "pkg/types/validation/machinepools.go ValidateMachinePool";
const AGENT: &str = "pkg/asset/agent/installconfig.go validateControlPlaneConfiguration";
const SINGLE_NODE: &str = "pkg/asset/agent/installconfig.go validateSNOConfiguration";
const LOADING: &str = "pkg/asset/installconfig/installconfigbase.go LoadFromFile";
const BAREMETAL: &str = "pkg/types/baremetal/validation/platform.go ValidatePlatform";
const PROVISIONING: &str = "pkg/types/baremetal/validation/platform.go ValidateProvisioning";
const VSPHERE: &str = "pkg/types/vsphere/validation/platform.go ValidatePlatform";
const FAILURE_DOMAINS: &str = "pkg/types/vsphere/validation/platform.go validateFailureDomains";
const OPENSTACK: &str = "pkg/types/openstack/validation/platform.go ValidatePlatform";
const NUTANIX: &str = "pkg/types/nutanix/validation/platform.go ValidatePlatform";

/// Platforms on which clusters look after the addresses of API and ingress themselves.
const WITH_VIPS: &[&str] = &["baremetal", "nutanix", "openstack", "vsphere"];
/// Those of them on which the addresses have to be in a network of the machines, whoever installs.
const WITH_VIPS_INSIDE: &[&str] = &["baremetal", "openstack"];
const ON_PREMISES: &[&str] =
    &["baremetal", "external", "none", "nutanix", "openstack", "ovirt", "vsphere"];
const WITHOUT_CREDENTIALS_MODE: &[&str] =
    &["baremetal", "external", "none", "openstack", "ovirt", "vsphere"];
/// Platforms that take no dual stack which begins with IPv6, in any release.
const IPV4_FIRST: &[&str] = &["external", "none", "nutanix", "ovirt"];

const ARCHITECTURES: &[&str] = &["amd64", "arm64", "ppc64le", "s390x"];
const LOAD_BALANCERS: &[&str] = &["OpenShiftManagedDefault", "UserManaged"];
const REPOSITORY: &str = "write it like mirror.example.com:5000/ocp";

/// Every rule, from the document as a whole to its platform.
pub const RULES: &[Rule] = &[
    rule("unknown-field", Check::Document(find_unknown_fields), LOADING).warns(),
    rule("field-type", Check::Document(find_wrong_types), LOADING),
    rule("api-version-missing", Check::Document(find_missing_version), CONFIG),
    rule("api-version", value("apiVersion", find_version_problem, "write v1"), CONFIG),
    rule("platform", Check::Document(find_platform_problem), CONFIG),
    rule(
        "ssh-key",
        hidden_value(
            "sshKey",
            find_ssh_key_problem,
            "write the content of a file such as ~/.ssh/id_ed25519.pub",
        ),
        CONFIG,
    ),
    rule("ssh-key-of-fips", Check::Document(find_fips_key_problem), FIPS).since(4, 16),
    rule(
        "trust-bundle",
        hidden_value(
            "additionalTrustBundle",
            find_trust_bundle_problem,
            "write whole certificates in PEM, and nothing after the last one",
        ),
        CONFIG,
    ),
    rule(
        "trust-bundle-policy",
        one_of("additionalTrustBundlePolicy", &["Proxyonly", "Always"]),
        CONFIG,
    ),
    rule(
        "pull-secret",
        hidden_value(
            "pullSecret",
            find_pull_secret_problem,
            "leave it empty to use that of the pool's pullSecretRef",
        ),
        CONFIG,
    ),
    rule("publish", one_of("publish", &["External", "Internal", "Mixed"]), CONFIG),
    rule(
        "publish-on-premises",
        Check::NoneOf {
            path: "publish",
            words: &["Internal", "Mixed"],
            advice: "write External, or leave it out on this platform",
        },
        CONFIG,
    )
    .on(ON_PREMISES),
    rule(
        "cpu-partitioning",
        one_of("cpuPartitioningMode", &["None", "AllNodes"]),
        "pkg/types/installconfig.go CPUPartitioningMode",
    ),
    rule(
        "credentials-mode",
        Check::Absent { path: "credentialsMode", advice: "leave it out on this platform" },
        CREDENTIALS,
    )
    .on(WITHOUT_CREDENTIALS_MODE),
    rule("credentials-mode-of-nutanix", one_of("credentialsMode", &["Manual"]), CREDENTIALS)
        .on(&["nutanix"]),
    rule(
        "feature-set",
        one_of(
            "featureSet",
            &[
                "Default",
                "TechPreviewNoUpgrade",
                "DevPreviewNoUpgrade",
                "CustomNoUpgrade",
                "LatencySensitive",
                "OKD",
            ],
        ),
        FEATURES,
    ),
    rule("feature-gates", Check::Document(find_unset_feature_set), FEATURES).since(4, 14),
    rule(
        "capability-set",
        value(
            "capabilities.baselineCapabilitySet",
            find_capability_set_problem,
            "write None, vCurrent or a release such as v4.18",
        ),
        CAPABILITIES,
    ),
    rule("baremetal-capability", Check::Document(find_missing_baremetal_capability), CONFIG)
        .on(&["baremetal"])
        .since(4, 12),
    rule("proxy", Check::Document(find_missing_proxy_url), PROXY),
    rule(
        "http-proxy",
        hidden_value(
            "proxy.httpProxy",
            find_http_proxy_problem,
            "write it like http://proxy.example.com:3128",
        ),
        PROXY,
    ),
    rule(
        "https-proxy",
        hidden_value(
            "proxy.httpsProxy",
            find_https_proxy_problem,
            "write it like http://proxy.example.com:3128",
        ),
        PROXY,
    ),
    rule("proxy-inside", Check::Document(networks::find_proxies_inside), PROXY),
    rule(
        "no-proxy",
        value("proxy.noProxy", find_no_proxy_problem, "separate entries with commas"),
        PROXY,
    ),
    rule(
        "mirrored-source",
        value("imageDigestSources[].source", find_repository_problem, REPOSITORY),
        MIRRORS,
    ),
    rule(
        "mirror",
        value("imageDigestSources[].mirrors[]", find_repository_problem, REPOSITORY),
        MIRRORS,
    ),
    rule(
        "mirrored-content-source",
        value("imageContentSources[].source", find_repository_problem, REPOSITORY),
        MIRRORS,
    ),
    rule(
        "content-mirror",
        value("imageContentSources[].mirrors[]", find_repository_problem, REPOSITORY),
        MIRRORS,
    ),
    rule("one-mirror-list", Check::Document(find_both_mirror_lists), CONFIG).since(4, 14),
    rule(
        "network-type-gone",
        Check::NoneOf {
            path: "networking.networkType",
            words: &["OpenShiftSDN", "Kuryr"],
            advice: "write OVNKubernetes",
        },
        NETWORKING,
    )
    .since(4, 15),
    rule(
        "machine-network",
        value(
            "networking.machineNetwork[].cidr",
            networks::find_network_problem,
            "write it like 192.0.2.0/24",
        ),
        NETWORKING,
    ),
    rule(
        "service-network",
        value(
            "networking.serviceNetwork[]",
            networks::find_network_problem,
            "write it like 172.30.0.0/16",
        ),
        NETWORKING,
    ),
    rule(
        "cluster-network",
        value(
            "networking.clusterNetwork[].cidr",
            networks::find_network_problem,
            "write it like 10.128.0.0/14",
        ),
        NETWORKING,
    ),
    rule("overlapping-networks", Check::Document(networks::find_overlaps), NETWORKING),
    rule("ovn-networks", Check::Document(networks::find_overlaps_with_ovn), OVN).since(4, 19),
    rule("host-prefix", Check::Document(networks::find_wrong_host_prefixes), NETWORKING),
    rule("service-networks", Check::Document(networks::find_extra_service_networks), IP_VERSIONS),
    rule("dual-stack-families", Check::Document(networks::find_missing_families), IP_VERSIONS),
    rule("ipv4-first", Check::Document(networks::find_ipv6_first), IP_VERSIONS).on(IPV4_FIRST),
    rule("ipv4-first-on-baremetal", Check::Document(networks::find_ipv6_first), IP_VERSIONS)
        .on(&["baremetal"])
        .until(4, 12),
    rule("ipv4-first-on-vsphere", Check::Document(networks::find_ipv6_first), IP_VERSIONS)
        .on(&["vsphere"])
        .until(4, 13),
    rule("ipv4-first-on-openstack", Check::Document(networks::find_ipv6_first), IP_VERSIONS)
        .on(&["openstack"])
        .until(4, 14),
    rule("control-plane-name", one_of("controlPlane.name", &["master"]), CONTROL_PLANE),
    rule("control-plane-count", Check::Document(find_master_count_problem), AGENT),
    rule("many-masters", Check::Document(find_many_masters), AGENT).until(4, 17),
    rule("single-node", Check::Document(find_single_node_problem), SINGLE_NODE)
        .by(InstallMethod::Agent),
    rule(
        "control-plane-replicas",
        value("controlPlane.replicas", find_count_problem, "write 3"),
        CONTROL_PLANE,
    ),
    rule(
        "compute-replicas",
        value("compute[].replicas", find_count_problem, "write 0 or more"),
        MACHINE_POOL,
    ),
    rule("compute-name", one_of("compute[].name", &["worker", "edge"]), COMPUTE),
    rule("compute-names", Check::Document(find_twin_compute_pools), COMPUTE),
    rule(
        "hyperthreading",
        one_of("controlPlane.hyperthreading", &["Enabled", "Disabled"]),
        MACHINE_POOL,
    ),
    rule(
        "compute-hyperthreading",
        one_of("compute[].hyperthreading", &["Enabled", "Disabled"]),
        MACHINE_POOL,
    ),
    rule("architecture", one_of("controlPlane.architecture", ARCHITECTURES), MACHINE_POOL),
    rule("compute-architecture", one_of("compute[].architecture", ARCHITECTURES), MACHINE_POOL),
    vip_rule("vips-of-hosts", vips::find_missing)
        .on(&["baremetal", "nutanix", "vsphere"])
        .by(InstallMethod::Agent),
    vip_rule("vips-paired", vips::find_unpaired).on(WITH_VIPS),
    vip_rule("vips", vips::find_unreadable).on(WITH_VIPS),
    vip_rule("vips-of-two-families", vips::find_same_family).on(WITH_VIPS),
    vip_rule("vips-apart", vips::find_shared).on(WITH_VIPS),
    vip_rule("vips-inside", vips::find_outside).on(WITH_VIPS_INSIDE),
    vip_rule("vips-of-hosts-inside", vips::find_outside)
        .on(&["nutanix", "vsphere"])
        .by(InstallMethod::Agent),
    vip_rule("vips-in-order", vips::find_wrong_order).on(WITH_VIPS),
    rule(
        "baremetal-load-balancer",
        one_of("platform.baremetal.loadBalancer.type", LOAD_BALANCERS),
        BAREMETAL,
    ),
    rule(
        "vsphere-load-balancer",
        one_of("platform.vsphere.loadBalancer.type", LOAD_BALANCERS),
        VSPHERE,
    ),
    rule(
        "openstack-load-balancer",
        one_of("platform.openstack.loadBalancer.type", LOAD_BALANCERS),
        OPENSTACK,
    ),
    rule(
        "nutanix-load-balancer",
        one_of("platform.nutanix.loadBalancer.type", LOAD_BALANCERS),
        NUTANIX,
    ),
    rule(
        "provisioning-network",
        one_of("platform.baremetal.provisioningNetwork", &["Managed", "Unmanaged", "Disabled"]),
        PROVISIONING,
    ),
    rule("provisioning-overlap", Check::Document(find_provisioning_overlap), PROVISIONING)
        .on(&["baremetal"]),
    rule("baremetal-hosts-differ", Check::Document(find_twin_hosts), BAREMETAL).on(&["baremetal"]),
    rule(
        "baremetal-host-mac",
        value(
            "platform.baremetal.hosts[].bootMACAddress",
            find_mac_address_problem,
            "write it like 02:00:00:00:00:0a",
        ),
        BAREMETAL,
    ),
    rule(
        "baremetal-host-role",
        one_of("platform.baremetal.hosts[].role", &["master", "worker", "arbiter"]),
        BAREMETAL,
    ),
    rule(
        "baremetal-boot-mode",
        one_of("platform.baremetal.hosts[].bootMode", &["UEFI", "UEFISecureBoot", "legacy"]),
        BAREMETAL,
    ),
    rule(
        "vsphere-disk-type",
        one_of("platform.vsphere.diskType", &["thin", "thick", "eagerZeroedThick"]),
        VSPHERE,
    ),
    rule("vsphere-folder", Check::Document(find_folder_problem), VSPHERE).on(&["vsphere"]),
    rule(
        "vsphere-failure-domain",
        Check::Document(find_incomplete_failure_domains),
        FAILURE_DOMAINS,
    )
    .on(&["vsphere"]),
    rule("vsphere-server", Check::Document(find_unknown_vcenters), FAILURE_DOMAINS)
        .on(&["vsphere"]),
    rule(
        "vsphere-port",
        value("platform.vsphere.vcenters[].port", find_port_problem, "write 443"),
        VSPHERE,
    ),
    rule(
        "openstack-dns",
        value(
            "platform.openstack.externalDNS[]",
            find_address_problem,
            "write the address of a DNS server",
        ),
        OPENSTACK,
    ),
    rule(
        "openstack-subnet",
        value(
            "platform.openstack.machinesSubnet",
            find_uuid_problem,
            "write the id that `openstack subnet list` shows",
        ),
        OPENSTACK,
    ),
    rule(
        "openstack-api-address",
        value("platform.openstack.apiFloatingIP", find_address_problem, "write a floating address"),
        OPENSTACK,
    ),
    rule(
        "openstack-ingress-address",
        value(
            "platform.openstack.ingressFloatingIP",
            find_address_problem,
            "write a floating address",
        ),
        OPENSTACK,
    ),
    rule(
        "nutanix-port",
        value("platform.nutanix.prismCentral.endpoint.port", find_port_problem, "write 9440"),
        NUTANIX,
    ),
    rule("nutanix-element", Check::Document(find_prism_element_problem), NUTANIX).on(&["nutanix"]),
    rule(
        "nutanix-element-uuid",
        value(
            "platform.nutanix.prismElements[].uuid",
            find_uuid_problem,
            "write the UUID that Prism Central shows",
        ),
        NUTANIX,
    ),
    rule("nutanix-subnets", Check::Document(find_extra_subnets), NUTANIX)
        .on(&["nutanix"])
        .until(4, 17),
];
