//! The rules about the networks of an install-config: what they are, that they do not overlap, and
//! which families of addresses they have.

use serde_json::Value;

use crate::model::address::{Addr, IpFamily, Subnet};

use super::{Finding, InstallConfig, field, select};

/// The networks of the installer where a document has none: of the machines, of the services and
/// of the pods. The last number is the prefix of the part that each node gets.
const DEFAULT_MACHINE_NETWORK: &str = "10.0.0.0/16";
const DEFAULT_SERVICE_NETWORK: &str = "172.30.0.0/16";
const DEFAULT_CLUSTER_NETWORK: &str = "10.128.0.0/14";

/// Networks that OVN-Kubernetes has inside of every node, unless it is told otherwise.
const OVN_JOIN_NETWORKS: [&str; 2] = ["100.64.0.0/16", "fd98::/64"];
const OVN: &str = "OVNKubernetes";
/// The prefix of the part that each node gets of a network of pods with IPv6.
const HOST_PREFIX_OF_IPV6: u64 = 64;

/// A network, and where the document says it.
struct Network {
    path: String,
    subnet: Subnet,
}

impl Network {
    fn describe(&self) -> String {
        describe_subnet(self.subnet)
    }

    fn family(&self) -> IpFamily {
        self.subnet.written_address().family()
    }

    fn overlaps(&self, other_network: &Self) -> bool {
        self.family() == other_network.family()
            && self.subnet.to_range().overlaps(other_network.subnet.to_range())
    }
}

fn describe_subnet(subnet: Subnet) -> String {
    format!("{}/{}", subnet.first_address(), subnet.prefix_length())
}

/// The networks at a path that can be read; the default if the list is empty.
fn read_networks(document: &Value, path: &str, default: &str) -> Vec<Network> {
    let values = select(document, path);
    let mut networks = Vec::new();
    for (path, value) in &values {
        if let Ok(subnet) = value.as_str().unwrap_or_default().parse::<Subnet>() {
            networks.push(Network { path: path.clone(), subnet });
        }
    }
    if values.is_empty()
        && let Ok(subnet) = default.parse::<Subnet>()
    {
        let list = path.split("[]").next().unwrap_or_default();
        networks.push(Network { path: format!("{list} (its default)"), subnet });
    }
    networks
}

fn read_machine_networks(document: &Value) -> Vec<Network> {
    read_networks(document, "networking.machineNetwork[].cidr", DEFAULT_MACHINE_NETWORK)
}

fn read_service_networks(document: &Value) -> Vec<Network> {
    read_networks(document, "networking.serviceNetwork[]", DEFAULT_SERVICE_NETWORK)
}

fn read_cluster_networks(document: &Value) -> Vec<Network> {
    read_networks(document, "networking.clusterNetwork[].cidr", DEFAULT_CLUSTER_NETWORK)
}

/// The networks of the machines, in the order of the document.
pub(super) fn machine_networks(document: &Value) -> Vec<Subnet> {
    read_machine_networks(document).into_iter().map(|network| network.subnet).collect()
}

/// Whether services have addresses of both families: then the cluster is dual-stack.
pub(super) fn is_dual_stack(document: &Value) -> bool {
    has_both_families(&read_service_networks(document))
}

fn has_both_families(networks: &[Network]) -> bool {
    has_family(networks, IpFamily::V4) && has_family(networks, IpFamily::V6)
}

fn has_family(networks: &[Network], family: IpFamily) -> bool {
    networks.iter().any(|network| network.family() == family)
}

/// Why a value is no network, such as 10.0.0.0/16.
pub(super) fn find_network_problem(value: &Value) -> Option<String> {
    let Ok(subnet) = value.as_str().unwrap_or_default().parse::<Subnet>() else {
        return Some("is not a network".to_owned());
    };
    let first_address = subnet.first_address();
    if subnet.written_address() == first_address {
        return None;
    }
    Some(format!("is an address in a network, which is {}", describe_subnet(subnet)))
}

/// Networks that have addresses in common. Each is compared with its neighbours only, because a
/// document may have very many: once they are sorted, one that overlaps any also overlaps the next.
pub(super) fn find_overlaps(config: &InstallConfig<'_>) -> Vec<Finding> {
    let document = config.document;
    let mut networks = read_machine_networks(document);
    networks.extend(read_service_networks(document));
    networks.extend(read_cluster_networks(document));
    networks.sort_by_key(|network| (network.family().bits(), network.subnet.first_address()));
    let mut findings = Vec::new();
    for (network, next_network) in networks.iter().zip(networks.iter().skip(1)) {
        if network.overlaps(next_network) {
            let why = format!(
                "`{}` overlaps {} `{}`",
                network.describe(),
                next_network.path,
                next_network.describe()
            );
            let advice = "choose networks that have no address in common";
            findings.push(Finding::new(&network.path, why, advice));
        }
    }
    findings
}

/// Networks that overlap those that OVN-Kubernetes uses inside of the nodes.
pub(super) fn find_overlaps_with_ovn(config: &InstallConfig<'_>) -> Vec<Finding> {
    let networking = field(config.document, "networking");
    let network_type = field(networking, "networkType").as_str().unwrap_or(OVN);
    let is_join_network_chosen = !field(networking, "ovnKubernetesConfig").is_null();
    if !network_type.eq_ignore_ascii_case(OVN) || is_join_network_chosen {
        return Vec::new();
    }
    let mut networks = read_machine_networks(config.document);
    networks.extend(read_service_networks(config.document));
    networks.extend(read_cluster_networks(config.document));
    let join_networks = OVN_JOIN_NETWORKS.iter().filter_map(|network| {
        Some(Network { path: String::new(), subnet: network.parse::<Subnet>().ok()? })
    });
    let mut findings = Vec::new();
    for join_network in join_networks {
        for network in networks.iter().filter(|network| network.overlaps(&join_network)) {
            let why = format!(
                "`{}` overlaps {}, which OVN-Kubernetes uses inside of the nodes",
                network.describe(),
                join_network.describe()
            );
            findings.push(Finding::new(&network.path, why, "choose another network"));
        }
    }
    findings
}

/// Parts of the networks of pods that nodes cannot get.
pub(super) fn find_wrong_host_prefixes(config: &InstallConfig<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut first_prefix_of_ipv4 = None;
    for (path, entry) in select(config.document, "networking.clusterNetwork[]") {
        let cidr = field(entry, "cidr").as_str().unwrap_or_default();
        let Ok(subnet) = cidr.parse::<Subnet>() else { continue };
        let Some(prefix) = field(entry, "hostPrefix").as_u64() else { continue };
        let path = format!("{path}.hostPrefix");
        let is_v4 = subnet.written_address().is_v4();
        let shortest = u64::from(subnet.prefix_length());
        let why = if prefix < shortest || prefix > u64::from(subnet.written_address().bits()) {
            format!("is no part of {cidr}")
        } else if !is_v4 && prefix != HOST_PREFIX_OF_IPV6 {
            format!("is not {HOST_PREFIX_OF_IPV6}, which IPv6 needs")
        } else if is_v4 && *first_prefix_of_ipv4.get_or_insert(prefix) != prefix {
            "differs from that of another network with IPv4".to_owned()
        } else {
            continue;
        };
        let value = field(entry, "hostPrefix");
        let advice = "write 23 for IPv4 and 64 for IPv6, or what suits the network";
        findings.push(Finding::new(path, why, advice).with_value(value));
    }
    findings
}

/// A service network too many: there is one for each family of addresses.
pub(super) fn find_extra_service_networks(config: &InstallConfig<'_>) -> Vec<Finding> {
    let networks = read_service_networks(config.document);
    let most = if has_both_families(&networks) { 2 } else { 1 };
    if networks.len() <= most {
        return Vec::new();
    }
    let why = format!("has {} networks", networks.len());
    let advice = "give one, or for dual stack one of IPv4 and one of IPv6";
    vec![Finding::new("networking.serviceNetwork", why, advice)]
}

/// In a dual-stack cluster, lists of networks that lack one of the families.
pub(super) fn find_missing_families(config: &InstallConfig<'_>) -> Vec<Finding> {
    let document = config.document;
    if !is_dual_stack(document) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (list, networks) in [
        ("machineNetwork", read_machine_networks(document)),
        ("clusterNetwork", read_cluster_networks(document)),
    ] {
        for family in [IpFamily::V4, IpFamily::V6] {
            if !has_family(&networks, family) {
                let name = family.name();
                let why = format!("has no {name}, but networking.serviceNetwork has both families");
                let advice = format!("add a network of {name}");
                findings.push(Finding::new(format!("networking.{list}"), why, advice));
            }
        }
    }
    findings
}

/// In a dual-stack cluster, lists of networks that begin with IPv6.
pub(super) fn find_ipv6_first(config: &InstallConfig<'_>) -> Vec<Finding> {
    let document = config.document;
    let mut findings = Vec::new();
    for (list, networks) in [
        ("machineNetwork", read_machine_networks(document)),
        ("serviceNetwork", read_service_networks(document)),
        ("clusterNetwork", read_cluster_networks(document)),
    ] {
        let begins_with_ipv6 =
            networks.first().is_some_and(|network| network.family() == IpFamily::V6);
        if begins_with_ipv6 && has_both_families(&networks) {
            let why = "begins with IPv6, which this platform refuses in a dual-stack cluster";
            let advice = "put the networks of IPv4 first, also the VIPs";
            findings.push(Finding::new(format!("networking.{list}"), why, advice));
        }
    }
    findings
}

/// Proxies whose address is in a network that exists only inside of the cluster.
pub(super) fn find_proxies_inside(config: &InstallConfig<'_>) -> Vec<Finding> {
    let document = config.document;
    let mut networks = read_service_networks(document);
    networks.extend(read_cluster_networks(document));
    let mut findings = Vec::new();
    for path in ["proxy.httpProxy", "proxy.httpsProxy"] {
        for (path, value) in select(document, path) {
            let Some(address) = address_of_url(value.as_str().unwrap_or_default()) else {
                continue;
            };
            let network = networks.iter().find(|network| network.subnet.contains(address));
            if let Some(network) = network {
                let why = format!("is in {} `{}`", network.path, network.describe());
                let advice = "name a proxy that exists before the cluster does";
                findings.push(Finding::new(path, why, advice));
            }
        }
    }
    findings
}

/// The address in a URL; none if it has a name.
fn address_of_url(url: &str) -> Option<Addr> {
    let url = url::Url::parse(url).ok()?;
    url.host_str()?.trim_matches(['[', ']']).parse().ok()
}
