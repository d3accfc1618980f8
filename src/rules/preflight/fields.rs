//! The fields that install-configs have, as the types of the installer declare them, and the two
//! rules that follow: a key that is none of them, and a value of another type. Fields of clouds are
//! not listed, so that any are accepted there.

use serde_json::Value;

use crate::model::refusal::nearest_name;

use super::{Finding, InstallConfig, join_path};

use FieldType::{Any, Boolean, List, Mapping, Number, Text};

/// What a field holds. Mappings and lists of mappings are not in the table: they are seen from the
/// fields below them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldType {
    Text,
    Number,
    Boolean,
    List,
    Mapping,
    /// Whatever the installer makes of it.
    Any,
}

impl FieldType {
    fn allows(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Text => value.is_string(),
            Self::Number => value.is_i64() || value.is_u64(),
            Self::Boolean => value.is_boolean(),
            Self::List => value.is_array(),
            Self::Mapping => value.is_object(),
        }
    }

    /// What it is, and how it is written.
    fn describe(self) -> [&'static str; 2] {
        match self {
            Self::Any => ["anything", "anything"],
            Self::Text => ["a string", "it in quotes"],
            Self::Number => ["a whole number", "a number without quotes"],
            Self::Boolean => ["true or false", "true or false without quotes"],
            Self::List => ["a list", "a list, such as [a, b]"],
            Self::Mapping => ["a mapping", "a mapping, such as {key: value}"],
        }
    }
}

/// Every field by its path, in which `[]` is each item of a list. A mapping without fields of its
/// own here may have any. From pkg/types/installconfig.go, machinepools.go and the platform.go of
/// each platform.
const FIELDS: &[(&str, FieldType)] = &[
    ("apiVersion", Text),
    ("kind", Text),
    ("metadata", Any),
    ("metadata.name", Text),
    ("metadata.namespace", Text),
    ("metadata.labels", Any),
    ("metadata.annotations", Any),
    ("metadata.creationTimestamp", Any),
    ("baseDomain", Text),
    ("pullSecret", Text),
    ("sshKey", Text),
    ("fips", Boolean),
    ("publish", Text),
    ("additionalTrustBundle", Text),
    ("additionalTrustBundlePolicy", Text),
    ("cpuPartitioningMode", Text),
    ("credentialsMode", Text),
    ("featureSet", Text),
    ("featureGates", List),
    ("osImageStream", Text),
    ("pki", Any),
    ("operatorPublishingStrategy.apiserver", Text),
    ("operatorPublishingStrategy.ingress", Text),
    ("bootstrapInPlace.installationDisk", Text),
    ("capabilities.baselineCapabilitySet", Text),
    ("capabilities.additionalEnabledCapabilities", List),
    ("proxy.httpProxy", Text),
    ("proxy.httpsProxy", Text),
    ("proxy.noProxy", Text),
    ("imageContentSources[].source", Text),
    ("imageContentSources[].mirrors", List),
    ("imageDigestSources[].source", Text),
    ("imageDigestSources[].mirrors", List),
    ("imageDigestSources[].sourcePolicy", Text),
    ("networking.networkType", Text),
    ("networking.machineNetwork[].cidr", Text),
    ("networking.clusterNetwork[].cidr", Text),
    ("networking.clusterNetwork[].hostPrefix", Number),
    ("networking.clusterNetwork[].hostSubnetLength", Number),
    ("networking.serviceNetwork", List),
    ("networking.clusterNetworkMTU", Number),
    ("networking.ovnKubernetesConfig", Any),
    ("networking.machineCIDR", Text),
    ("networking.serviceCIDR", Text),
    ("networking.clusterNetworks", Any),
    ("networking.type", Text),
    ("controlPlane.name", Text),
    ("controlPlane.replicas", Number),
    ("controlPlane.architecture", Text),
    ("controlPlane.hyperthreading", Text),
    ("controlPlane.platform", Any),
    ("controlPlane.fencing", Any),
    ("controlPlane.diskSetup", Any),
    ("arbiter.name", Text),
    ("arbiter.replicas", Number),
    ("arbiter.architecture", Text),
    ("arbiter.hyperthreading", Text),
    ("arbiter.platform", Any),
    ("arbiter.diskSetup", Any),
    ("compute[].name", Text),
    ("compute[].replicas", Number),
    ("compute[].architecture", Text),
    ("compute[].hyperthreading", Text),
    ("compute[].platform", Any),
    ("compute[].diskSetup", Any),
    ("platform", Any),
    ("platform.external.platformName", Text),
    ("platform.external.cloudControllerManager", Text),
    ("platform.baremetal.apiVIP", Text),
    ("platform.baremetal.apiVIPs", List),
    ("platform.baremetal.ingressVIP", Text),
    ("platform.baremetal.ingressVIPs", List),
    ("platform.baremetal.libvirtURI", Text),
    ("platform.baremetal.provisioningHostIP", Text),
    ("platform.baremetal.clusterProvisioningIP", Text),
    ("platform.baremetal.bootstrapProvisioningIP", Text),
    ("platform.baremetal.bootstrapExternalStaticIP", Text),
    ("platform.baremetal.bootstrapExternalStaticGateway", Text),
    ("platform.baremetal.bootstrapExternalStaticDNS", Text),
    ("platform.baremetal.externalBridge", Text),
    ("platform.baremetal.externalMACAddress", Text),
    ("platform.baremetal.provisioningNetwork", Text),
    ("platform.baremetal.provisioningBridge", Text),
    ("platform.baremetal.provisioningMACAddress", Text),
    ("platform.baremetal.provisioningNetworkInterface", Text),
    ("platform.baremetal.provisioningNetworkCIDR", Text),
    ("platform.baremetal.provisioningDHCPExternal", Boolean),
    ("platform.baremetal.provisioningDHCPRange", Text),
    ("platform.baremetal.bootstrapOSImage", Text),
    ("platform.baremetal.clusterOSImage", Text),
    ("platform.baremetal.defaultMachinePlatform", Any),
    ("platform.baremetal.additionalNTPServers", List),
    ("platform.baremetal.loadBalancer.type", Text),
    ("platform.baremetal.dnsRecordsType", Text),
    ("platform.baremetal.hosts[].name", Text),
    ("platform.baremetal.hosts[].role", Text),
    ("platform.baremetal.hosts[].bootMACAddress", Text),
    ("platform.baremetal.hosts[].bootMode", Text),
    ("platform.baremetal.hosts[].hardwareProfile", Text),
    ("platform.baremetal.hosts[].rootDeviceHints", Any),
    ("platform.baremetal.hosts[].networkConfig", Any),
    ("platform.baremetal.hosts[].bmc.address", Text),
    ("platform.baremetal.hosts[].bmc.username", Text),
    ("platform.baremetal.hosts[].bmc.password", Text),
    ("platform.baremetal.hosts[].bmc.disableCertificateVerification", Boolean),
    ("platform.vsphere.apiVIP", Text),
    ("platform.vsphere.apiVIPs", List),
    ("platform.vsphere.ingressVIP", Text),
    ("platform.vsphere.ingressVIPs", List),
    ("platform.vsphere.vCenter", Text),
    ("platform.vsphere.username", Text),
    ("platform.vsphere.password", Text),
    ("platform.vsphere.datacenter", Text),
    ("platform.vsphere.defaultDatastore", Text),
    ("platform.vsphere.folder", Text),
    ("platform.vsphere.cluster", Text),
    ("platform.vsphere.resourcePool", Text),
    ("platform.vsphere.network", Text),
    ("platform.vsphere.clusterOSImage", Text),
    ("platform.vsphere.diskType", Text),
    ("platform.vsphere.defaultMachinePlatform", Any),
    ("platform.vsphere.nodeNetworking", Any),
    ("platform.vsphere.hosts", Any),
    ("platform.vsphere.loadBalancer.type", Text),
    ("platform.vsphere.dnsRecordsType", Text),
    ("platform.vsphere.vcenters[].server", Text),
    ("platform.vsphere.vcenters[].port", Number),
    ("platform.vsphere.vcenters[].user", Text),
    ("platform.vsphere.vcenters[].password", Text),
    ("platform.vsphere.vcenters[].datacenters", List),
    ("platform.vsphere.failureDomains[].name", Text),
    ("platform.vsphere.failureDomains[].region", Text),
    ("platform.vsphere.failureDomains[].zone", Text),
    ("platform.vsphere.failureDomains[].regionType", Text),
    ("platform.vsphere.failureDomains[].zoneType", Text),
    ("platform.vsphere.failureDomains[].server", Text),
    ("platform.vsphere.failureDomains[].topology.datacenter", Text),
    ("platform.vsphere.failureDomains[].topology.computeCluster", Text),
    ("platform.vsphere.failureDomains[].topology.datastore", Text),
    ("platform.vsphere.failureDomains[].topology.networks", List),
    ("platform.vsphere.failureDomains[].topology.resourcePool", Text),
    ("platform.vsphere.failureDomains[].topology.folder", Text),
    ("platform.vsphere.failureDomains[].topology.template", Text),
    ("platform.vsphere.failureDomains[].topology.tagIDs", List),
    ("platform.vsphere.failureDomains[].topology.hostGroup", Text),
    ("platform.openstack.apiVIP", Text),
    ("platform.openstack.apiVIPs", List),
    ("platform.openstack.ingressVIP", Text),
    ("platform.openstack.ingressVIPs", List),
    ("platform.openstack.cloud", Text),
    ("platform.openstack.region", Text),
    ("platform.openstack.externalNetwork", Text),
    ("platform.openstack.computeFlavor", Text),
    ("platform.openstack.lbFloatingIP", Text),
    ("platform.openstack.apiFloatingIP", Text),
    ("platform.openstack.ingressFloatingIP", Text),
    ("platform.openstack.externalDNS", List),
    ("platform.openstack.trunkSupport", Any),
    ("platform.openstack.octaviaSupport", Any),
    ("platform.openstack.clusterOSImage", Text),
    ("platform.openstack.clusterOSImageProperties", Any),
    ("platform.openstack.machinesSubnet", Text),
    ("platform.openstack.controlPlanePort", Any),
    ("platform.openstack.defaultMachinePlatform", Any),
    ("platform.openstack.failureDomains", Any),
    ("platform.openstack.loadBalancer.type", Text),
    ("platform.openstack.dnsRecordsType", Text),
    ("platform.nutanix.apiVIP", Text),
    ("platform.nutanix.apiVIPs", List),
    ("platform.nutanix.ingressVIP", Text),
    ("platform.nutanix.ingressVIPs", List),
    ("platform.nutanix.prismCentral.endpoint.address", Text),
    ("platform.nutanix.prismCentral.endpoint.port", Number),
    ("platform.nutanix.prismCentral.username", Text),
    ("platform.nutanix.prismCentral.password", Text),
    ("platform.nutanix.prismElements[].uuid", Text),
    ("platform.nutanix.prismElements[].name", Text),
    ("platform.nutanix.prismElements[].endpoint.address", Text),
    ("platform.nutanix.prismElements[].endpoint.port", Number),
    ("platform.nutanix.clusterOSImage", Text),
    ("platform.nutanix.preloadedOSImageName", Text),
    ("platform.nutanix.subnetUUIDs", List),
    ("platform.nutanix.defaultMachinePlatform", Any),
    ("platform.nutanix.failureDomains", Any),
    ("platform.nutanix.prismAPICallTimeout", Number),
    ("platform.nutanix.loadBalancer.type", Text),
    ("platform.nutanix.dnsRecordsType", Text),
];

/// A place in a document, and the fields that may be below it.
struct Place<'v> {
    /// The path as people write it, with the indexes of lists.
    path: String,
    /// The path as the table has it.
    pattern: String,
    value: &'v Value,
}

/// The keys of the document that are no fields.
pub(super) fn find_unknown_fields(config: &InstallConfig<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for place in places_of(config.document) {
        let names = names_below(&place.pattern);
        if names.is_empty() || place.pattern == "platform" {
            continue;
        }
        for key in place.value.as_object().into_iter().flat_map(serde_json::Map::keys) {
            if names.iter().any(|name| name.eq_ignore_ascii_case(key)) {
                continue;
            }
            let advice = match nearest_name(key, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "leave it out".to_owned(),
            };
            let path = join_path(&place.path, key);
            findings.push(Finding::new(path, "is unknown to the installer", advice));
        }
    }
    findings
}

/// Values of another type than their fields.
pub(super) fn find_wrong_types(config: &InstallConfig<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for place in places_of(config.document) {
        let field_type = type_of_field(&place.pattern);
        if place.value.is_null() || field_type.allows(place.value) {
            continue;
        }
        let [expected, advice] = field_type.describe();
        let why = format!("is not {expected}");
        let finding = Finding::new(place.path, why, format!("write {advice}"));
        findings.push(if may_be_shown(place.value) {
            finding.with_value(place.value)
        } else {
            finding
        });
    }
    findings
}

/// What the field at a path holds, by its own row or by the rows below it.
fn type_of_field(pattern: &str) -> FieldType {
    if let Some((_, field_type)) =
        FIELDS.iter().find(|(path, _)| path.eq_ignore_ascii_case(pattern))
    {
        return *field_type;
    }
    if pattern.is_empty() || FIELDS.iter().any(|(path, _)| strip_place(path, pattern).is_some()) {
        return Mapping;
    }
    // An item of a list of texts has no row, and none below it.
    if is_place(pattern) { List } else { Any }
}

/// Whether a value is short, and surely no secret.
fn may_be_shown(value: &Value) -> bool {
    const LONGEST: usize = 20;
    match value {
        Value::Bool(_) | Value::Number(_) => true,
        Value::String(string) => string.len() <= LONGEST,
        _ => false,
    }
}

/// The names of the fields below a place; none if it may have any.
fn names_below(pattern: &str) -> Vec<&'static str> {
    let mut names = Vec::new();
    for (path, _) in FIELDS {
        let below = if pattern.is_empty() { Some(*path) } else { strip_place(path, pattern) };
        let name = below.map(|below| below.split(['.', '[']).next().unwrap_or_default());
        names.extend(name.filter(|name| !name.is_empty()));
    }
    names.dedup();
    names
}

/// What of a path is below a place, whatever the case of its letters.
fn strip_place(path: &'static str, pattern: &str) -> Option<&'static str> {
    let (start, below) = path.split_at_checked(pattern.len())?;
    if start.eq_ignore_ascii_case(pattern) { below.strip_prefix('.') } else { None }
}

/// Every place of a document that the table knows, the document itself first.
fn places_of(document: &Value) -> Vec<Place<'_>> {
    let mut places = Vec::new();
    let mut waiting = vec![Place { path: String::new(), pattern: String::new(), value: document }];
    while let Some(place) = waiting.pop() {
        match place.value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let pattern = join_path(&place.pattern, key);
                    if is_place(&pattern) {
                        waiting.push(Place { path: join_path(&place.path, key), pattern, value });
                    }
                }
            }
            Value::Array(items) => {
                let pattern = format!("{}[]", place.pattern);
                for (index, value) in items.iter().enumerate() {
                    if is_place(&pattern) {
                        let path = format!("{}[{index}]", place.path);
                        waiting.push(Place { path, pattern: pattern.clone(), value });
                    }
                }
            }
            _ => {}
        }
        places.push(place);
    }
    places
}

/// Whether the table has a field at a path or below it.
fn is_place(pattern: &str) -> bool {
    FIELDS.iter().any(|(path, _)| {
        path.split_at_checked(pattern.len()).is_some_and(|(start, below)| {
            start.eq_ignore_ascii_case(pattern)
                && (below.is_empty() || below.starts_with('.') || below.starts_with('['))
        })
    })
}
