//! Validates the network of a host: what it has to reach and how fast, and that its addresses fit
//! its cluster. Judges what hosts report, never asks them.

use std::collections::BTreeSet;

use crate::model::address::{Addr, IpRange, Subnet};
use crate::model::agent::inventory::{Interface, Inventory, Route};
use crate::model::agent::needs::{HostNeeds, LoadBalancer};
use crate::model::agent::{Agent, ImageReport, PeerReport, Role, Validation};

use super::network_reports;
use super::{
    ClusterContext, FAILURE, MISSING_INVENTORY, PENDING, SUCCESS, ValidationContext, fail_if,
    validation,
};

/// Seconds that the clock of a host may be ahead.
const MAX_SECONDS_AHEAD: i64 = 3600;
/// Seconds that the clock of a host may be behind.
const MAX_SECONDS_BEHIND: i64 = 1200;
/// The number of hosts from which on there is a majority.
const QUORUM: usize = 3;

const MAJORITY: &str = "belongs-to-majority-group";
const LATENCY: &str = "sufficient-network-latency-requirement-for-role";
const LOSS: &str = "sufficient-packet-loss-requirement-for-role";

const UNREADABLE: &str = "Unable to read from the discovery media. It was either disconnected or \
                          poor network conditions prevented it from being read";
const UNDEFINED: &str = "Machine Network CIDR is undefined; the Machine Network CIDR can be \
                         defined by setting either the API or Ingress virtual IPs";
const OUTSIDE: &str = "Host does not belong to machine network CIDRs. Verify that the host \
                       belongs to every CIDR listed under machine networks";

const OUTSIDE_ALL: &str = "Host does not belong to any of the machine network CIDRs. Verify that the \
                           host belongs to at least one CIDR listed under machine networks";

const FAST: &str = "Host clock is not synchronized, host time is ahead of service at least for 1 \
                    hour, please configure an NTP server via DHCP";
const SLOW: &str = "Host clock is not synchronized, service time is ahead of host's at least for \
                    20 minutes, please configure an NTP server via DHCP";

/// The validations of a host's network.
pub(super) fn validate(context: &ValidationContext<'_>) -> Vec<Validation> {
    let status = &context.agent.status;
    let media_problem = status.media_disconnected.then_some(UNREADABLE);
    let mut validations =
        vec![fail_if("media-connected", media_problem, "Media device is connected")];
    // Nobody asks a found host anything once it is bound.
    if !status.found_by_controller || context.cluster.is_none() {
        let is_silent = context.agent.is_silent(context.now);
        let problem = is_silent.then_some("Host is disconnected");
        validations.push(fail_if("connected", problem, "Host is connected"));
    }
    validations.extend(validate_platform(context));
    if !status.found_by_controller {
        validations.extend(validate_reports(context));
    }
    if let Some(cluster) = context.cluster {
        validations.extend(validate_for_cluster(context, cluster));
    }
    validations
}

/// A validation that needs the host's inventory, and is pending without it.
fn validate_inventory(
    context: &ValidationContext<'_>,
    id: &str,
    success: &str,
    find_problem: impl FnOnce(&Inventory) -> Option<String>,
) -> Validation {
    match context.agent.usable_inventory() {
        Some(inventory) => fail_if(id, find_problem(inventory).as_deref(), success),
        None => validation(id, PENDING, MISSING_INVENTORY),
    }
}

/// Machines of OpenStack have no network that a cluster could manage itself. Left out for a free
/// one, because nobody knows yet whether its cluster minds.
fn validate_platform(context: &ValidationContext<'_>) -> Option<Validation> {
    let vendor = context.agent.usable_inventory().map(|inventory| &inventory.system_vendor);
    let is_openstack = vendor.is_some_and(|vendor| vendor.product_name == "OpenStack Compute");
    let is_allowed = if is_openstack {
        let needs = context.cluster?.needs;
        needs.user_managed || needs.day2 || needs.is_single_node()
    } else {
        true
    };
    let id = "valid-platform-network-settings";
    Some(validate_inventory(context, id, "Platform is allowed", |inventory| {
        let product = &inventory.system_vendor.product_name;
        (!is_allowed).then(|| {
            format!(
                "Platform {product} is allowed only for Single Node OpenShift or user-managed \
                 networking"
            )
        })
    }))
}

/// The validations of what a host reports about itself.
fn validate_reports(context: &ValidationContext<'_>) -> Vec<Validation> {
    let status = &context.agent.status;
    let is_synced = status.ntp_sources.iter().any(|source| source.source_state == "synced");
    let ntp_problem = (!is_synced).then_some("Host couldn't synchronize with any NTP server");
    let mut validations = vec![
        fail_if("ntp-synced", ntp_problem, "Host NTP is synced"),
        validate_images(&status.images),
        validate_inventory(
            context,
            "has-default-route",
            "Host has a default route",
            find_missing_default_route,
        ),
        validate_inventory(
            context,
            "non-overlapping-subnets",
            "Host subnets are not overlapping",
            find_overlapping_subnets,
        ),
    ];
    if let Some(seconds_ahead) = status.clock_offset_seconds {
        let id = "time-synced-between-host-and-service";
        let problem = find_clock_problem(seconds_ahead);
        validations.push(fail_if(id, problem, "Host clock is synchronized with service"));
    }
    validations
}

/// Whether the host could pull the images that its installation needs, as it reports.
fn validate_images(reports: &[ImageReport]) -> Validation {
    let id = "container-images-available";
    if reports.is_empty() {
        return validation(id, PENDING, "Images have not been pulled yet");
    }
    let failed_names: Vec<&str> = reports
        .iter()
        .filter(|report| report.result != "success")
        .map(|report| report.name.as_str())
        .collect();
    let problem = (!failed_names.is_empty()).then(|| {
        let names = failed_names.join(", ");
        format!("Failed to fetch container images needed for installation: {names}")
    });
    fail_if(id, problem.as_deref(), "All required container images were pulled")
}

fn find_missing_default_route(inventory: &Inventory) -> Option<String> {
    if inventory.routes.iter().any(is_default_route) {
        return None;
    }
    Some("Host has not yet been configured with a default route.".to_owned())
}

fn is_default_route(route: &Route) -> bool {
    let is_for_all = ["0.0.0.0", "0.0.0.0/0", "::", "::/0"].contains(&route.destination.as_str());
    is_for_all && !route.gateway.is_empty()
}

fn find_clock_problem(seconds_ahead: i64) -> Option<&'static str> {
    if seconds_ahead > MAX_SECONDS_AHEAD {
        return Some(FAST);
    }
    (seconds_ahead < -MAX_SECONDS_BEHIND).then_some(SLOW)
}

/// A network that a host has an address in. Networks sort by family, then by their first address.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct HostNetwork<'a> {
    is_v4: bool,
    range: IpRange,
    prefix_length: u8,
    interface: &'a str,
}

impl HostNetwork<'_> {
    fn describe(&self) -> String {
        format!("{}/{}", self.range.start, self.prefix_length)
    }
}

/// The networks that an interface has addresses in, without those of a single address.
fn networks_of(interface: &Interface) -> impl Iterator<Item = HostNetwork<'_>> {
    let subnets = written_addresses(interface).filter_map(|address| address.parse::<Subnet>().ok());
    subnets.filter(|subnet| !subnet.is_single()).map(move |subnet| HostNetwork {
        is_v4: subnet.written_address().is_v4(),
        range: subnet.to_range(),
        prefix_length: subnet.prefix_length(),
        interface: &interface.name,
    })
}

/// Finds two networks of which one is part of the other, or one network on two interfaces. The same
/// network twice on one interface does not count, nor do networks of a single address.
fn find_overlapping_subnets(inventory: &Inventory) -> Option<String> {
    // An agent may send very many. Once they are sorted, a network that overlaps any other one also
    // overlaps its neighbour.
    let mut networks: Vec<HostNetwork<'_>> =
        inventory.interfaces.iter().flat_map(networks_of).collect();
    networks.sort_unstable();
    networks.dedup();
    for (network, next_network) in networks.iter().zip(networks.iter().skip(1)) {
        let overlap = if network.describe() == next_network.describe() {
            format!(
                "Address network {} appears on multiple interfaces [{}, {}]",
                network.describe(),
                network.interface,
                next_network.interface
            )
        } else if network.range.overlaps(next_network.range) {
            format!("{}, {}", network.describe(), next_network.describe())
        } else {
            continue;
        };
        return Some(format!("Address networks are overlapping: {overlap}"));
    }
    None
}

/// The addresses of an interface as the agent writes them, with their prefixes.
fn written_addresses(interface: &Interface) -> impl Iterator<Item = &String> {
    interface.ipv4_addresses.iter().chain(&interface.ipv6_addresses)
}

fn addresses_of(interface: &Interface) -> impl Iterator<Item = Addr> {
    written_addresses(interface).filter_map(|written| parse_address(written))
}

/// Reads an address with its prefix or without.
fn parse_address(written: &str) -> Option<Addr> {
    written.split('/').next()?.parse().ok()
}

/// The validations that only a cluster can ask for.
fn validate_for_cluster(
    context: &ValidationContext<'_>,
    cluster: &ClusterContext<'_>,
) -> Vec<Validation> {
    let needs = cluster.needs;
    let networks = &needs.machine_networks;
    let may_be_anywhere = needs.user_managed || needs.day2;
    let is_undefined = !may_be_anywhere && !needs.has_vips && networks.is_empty();
    let problem = is_undefined.then_some(UNDEFINED);
    let mut validations =
        vec![fail_if("machine-cidr-defined", problem, "Machine Network CIDR is defined")];
    if context.agent.status.found_by_controller {
        return validations;
    }
    if may_be_anywhere || !networks.is_empty() {
        let id = "belongs-to-machine-cidr";
        let success = "Host belongs to all machine network CIDRs";
        validations.push(validate_inventory(context, id, success, |inventory| {
            if may_be_anywhere {
                return None;
            }
            find_missing_network(inventory, needs).map(str::to_owned)
        }));
    }
    let id = "no-ip-collisions-in-network";
    let success = "No IP collisions were detected";
    validations.push(validate_inventory(context, id, success, |inventory| {
        find_collision(&context.agent.metadata.name, inventory, cluster.other_agents)
    }));
    validations.extend(validate_connectivity(context, cluster));
    validations.extend(network_reports::validate(context, cluster));
    validations
}

/// Says that a host lacks an address: of one of the networks, or, behind a load balancer of somebody
/// else, of all of them.
fn find_missing_network(inventory: &Inventory, needs: &HostNeeds) -> Option<&'static str> {
    let addresses: Vec<Addr> = inventory.interfaces.iter().flat_map(addresses_of).collect();
    let mut has_address = needs
        .machine_networks
        .iter()
        .map(|network| addresses.iter().any(|address| network.contains(*address)));
    match needs.load_balancer {
        LoadBalancer::ClusterManaged => (!has_address.all(|has| has)).then_some(OUTSIDE),
        LoadBalancer::UserManaged => (!has_address.any(|has| has)).then_some(OUTSIDE_ALL),
    }
}

/// Finds an address that another host of the cluster has, too.
fn find_collision(name: &str, inventory: &Inventory, other_agents: &[&Agent]) -> Option<String> {
    let own_addresses: BTreeSet<Addr> =
        inventory.interfaces.iter().flat_map(addresses_of).collect();
    let other_inventories = other_agents.iter().filter_map(|agent| agent.inventory());
    for interface in other_inventories.flat_map(|inventory| &inventory.interfaces) {
        let mac = &interface.mac_address;
        if let Some(address) =
            addresses_of(interface).find(|address| own_addresses.contains(address))
        {
            return Some(format!(
                "Collisions detected for host ID {name}, IP address: {address} Mac addresses: {mac}"
            ));
        }
    }
    None
}

/// Whether the host reaches the others of its cluster, and how fast. Left out while all others are
/// found hosts: those answer nobody before they are installed.
fn validate_connectivity(
    context: &ValidationContext<'_>,
    cluster: &ClusterContext<'_>,
) -> Vec<Validation> {
    let needs = cluster.needs;
    if needs.is_single_node() || needs.day2 {
        return connectivity_validations(SUCCESS, "Host needs no connectivity to other hosts");
    }
    if cluster.other_agents.len() + 1 < QUORUM {
        let why = "Not enough hosts in cluster to calculate connectivity groups";
        return connectivity_validations(PENDING, why);
    }
    let other_agents: Vec<&Agent> = cluster
        .other_agents
        .iter()
        .copied()
        .filter(|agent| !agent.status.found_by_controller)
        .collect();
    if other_agents.is_empty() {
        return Vec::new();
    }
    if context.agent.status.peers.is_empty() {
        return connectivity_validations(PENDING, "Missing connectivity information");
    }
    let [latency, loss] = limits_of_role(context.role);
    vec![
        validate_majority(context.agent, &other_agents, needs),
        latency.validate(context, &other_agents),
        loss.validate(context, &other_agents),
    ]
}

/// All validations of connectivity, with one status.
fn connectivity_validations(status: &str, why: &str) -> Vec<Validation> {
    [MAJORITY, LATENCY, LOSS].iter().map(|id| validation(id, status, why)).collect()
}

/// What an agent reports about its connection to another one.
fn report_about<'a>(agent: &'a Agent, peer: &Agent) -> Option<&'a PeerReport> {
    agent.status.peers.iter().find(|report| report.agent == peer.metadata.name)
}

/// Whether a host reaches more than half of the hosts of its cluster, itself included. It passes as
/// soon as that is certain, also while measurements are missing.
fn validate_majority(agent: &Agent, other_agents: &[&Agent], needs: &HostNeeds) -> Validation {
    let reports: Vec<&PeerReport> =
        other_agents.iter().filter_map(|peer| report_about(agent, peer)).collect();
    let reached_count = reports.iter().filter(|report| is_reached(report, needs)).count();
    // The host itself belongs to the majority.
    if (reached_count + 1) * 2 > other_agents.len() + 1 {
        return validation(MAJORITY, SUCCESS, "Host has connectivity to the majority of hosts");
    }
    if reports.len() < other_agents.len() {
        return validation(MAJORITY, PENDING, "Missing connectivity information");
    }
    validation(MAJORITY, FAILURE, "No connectivity to the majority of hosts in the cluster")
}

/// Whether a peer is reached at an address of the machine networks, or at any if there are none.
fn is_reached(report: &PeerReport, needs: &HostNeeds) -> bool {
    let networks = &needs.machine_networks;
    if needs.user_managed || networks.is_empty() {
        return !report.reached.is_empty();
    }
    report
        .reached
        .iter()
        .filter_map(|written| parse_address(written))
        .any(|address| networks.iter().any(|network| network.contains(address)))
}

/// What may not be exceeded between hosts of one role.
struct Limit {
    id: &'static str,
    quantity: &'static str,
    unit: &'static str,
    maximum: f64,
    measure: fn(&PeerReport) -> Option<f64>,
}

/// Latency, and then the loss of packets.
fn limits_of_role(role: Role) -> [Limit; 2] {
    let (max_latency, max_loss) = match role_of_limits(role) {
        Role::Master => (100.0, 0.0),
        Role::Arbiter => (1000.0, 0.0),
        _ => (1000.0, 10.0),
    };
    [
        Limit {
            id: LATENCY,
            quantity: "Network latency",
            unit: "ms",
            maximum: max_latency,
            measure: |report| report.latency_ms,
        },
        Limit {
            id: LOSS,
            quantity: "Packet loss",
            unit: "%",
            maximum: max_loss,
            measure: |report| report.loss_percent,
        },
    ]
}

impl Limit {
    /// Compares what this host has measured to each peer of a like role with the maximum. While a
    /// peer was not measured the result is pending, unless another peer fails already.
    fn validate(&self, context: &ValidationContext<'_>, other_agents: &[&Agent]) -> Validation {
        let Self { id, quantity, unit, maximum, measure } = self;
        let mut is_any_unknown = false;
        let mut exceeding = Vec::new();
        for peer in other_agents {
            if role_of_limits(peer.role()) != role_of_limits(context.role) {
                continue;
            }
            match report_about(context.agent, peer).and_then(measure) {
                Some(measured) if measured > *maximum => {
                    exceeding.push(format!("{} ({measured:.2} {unit})", peer.hostname()));
                }
                Some(_) => {}
                None => is_any_unknown = true,
            }
        }
        if exceeding.is_empty() && is_any_unknown {
            let why = format!("Missing {} information", quantity.to_lowercase());
            return validation(id, PENDING, &why);
        }
        let problem = (!exceeding.is_empty()).then(|| {
            let name = context.agent.hostname();
            let peers = exceeding.join(", ");
            format!(
                "{quantity} requirements of less or equals than {maximum:.2} {unit} not met for \
                 connectivity between {name} and {peers}"
            )
        });
        let success = format!("{quantity} requirement has been satisfied");
        fail_if(id, problem.as_deref(), &success)
    }
}

/// The role whose limits count: a bootstrap host becomes a master, and one that is not yet assigned
/// is held to the limits of a worker.
fn role_of_limits(role: Role) -> Role {
    match role {
        Role::Bootstrap => Role::Master,
        Role::AutoAssign => Role::Worker,
        Role::Master | Role::Arbiter | Role::Worker => role,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Time;

    fn host(name: &str, role: Role, peers: Vec<PeerReport>) -> Agent {
        let mut agent = Agent::default();
        agent.metadata.name = name.into();
        agent.spec.role = role;
        agent.status.peers = peers;
        agent
    }

    fn report(peer: &str, address: &str, latency: f64) -> PeerReport {
        PeerReport {
            agent: peer.into(),
            reached: vec![address.into()],
            unreached: Vec::new(),
            latency_ms: Some(latency),
            loss_percent: Some(0.0),
            mtu_failed: Vec::new(),
        }
    }

    /// The status of majority, latency and loss.
    fn connectivity_of(peers: Vec<PeerReport>) -> String {
        let master = host("b", Role::Master, vec![]);
        let worker = host("c", Role::Worker, vec![]);
        let needs = HostNeeds {
            machine_networks: vec!["10.0.0.0/24".parse().unwrap()],
            ..HostNeeds::default()
        };
        let agent = host("a", Role::Master, peers);
        let cluster = ClusterContext { needs: &needs, other_agents: &[&master, &worker] };
        let context = ValidationContext {
            agent: &agent,
            role: Role::Master,
            cluster: Some(&cluster),
            now: Time::default(),
        };
        let validations = validate_connectivity(&context, &cluster);
        let statuses: Vec<&str> =
            validations.iter().map(|validation| validation.status.as_str()).collect();
        statuses.join(" ")
    }

    #[test]
    fn connectivity_is_pending_until_it_is_reported() {
        assert_eq!(connectivity_of(vec![]), "pending pending pending");
        assert_eq!(connectivity_of(vec![report("c", "10.0.0.9", 5.0)]), "success pending pending");
        assert_eq!(connectivity_of(vec![report("c", "10.1.0.9", 5.0)]), "pending pending pending");
        for (latency, expected) in
            [(100.0, "success success success"), (101.0, "success failure success")]
        {
            let worker = report("c", "10.0.0.9/24", 500.0);
            assert_eq!(connectivity_of(vec![report("b", "10.0.0.8", latency), worker]), expected);
        }
        let in_other_network = vec![report("b", "10.1.0.8", 5.0), report("c", "10.1.0.9", 5.0)];
        assert_eq!(connectivity_of(in_other_network), "failure success success");
    }

    fn inventory_with(addresses: &[&str]) -> Inventory {
        let ipv4_addresses = addresses.iter().copied().map(String::from).collect();
        let interface = Interface { ipv4_addresses, ..Interface::default() };
        Inventory { interfaces: vec![interface], ..Inventory::default() }
    }

    #[test]
    fn networks_of_one_host_do_not_overlap() {
        let overlapping = inventory_with(&["10.1.0.1/16", "1.2.3.4/24", "10.1.7.1/24"]);
        let problem = "Address networks are overlapping: 10.1.0.0/16, 10.1.7.0/24";
        assert_eq!(find_overlapping_subnets(&overlapping).unwrap(), problem);
        let mut addresses = vec!["10.1.0.1/24", "10.1.0.2/24", "10.1.0.3/32", "2001:db8::1/64"];
        assert_eq!(find_overlapping_subnets(&inventory_with(&addresses)), None);
        addresses.push("::/0");
        let problem = find_overlapping_subnets(&inventory_with(&addresses)).unwrap();
        assert!(problem.ends_with("::/0, 2001:db8::/64"), "{problem}");
    }

    #[test]
    fn two_interfaces_are_not_in_one_network() {
        let mut inventory = inventory_with(&["10.1.0.1/24", "10.1.0.2/24"]);
        inventory.interfaces[0].name = "eno1".into();
        let mut second = inventory.interfaces[0].clone();
        second.name = "eno2".into();
        second.ipv4_addresses = vec!["10.1.0.3/24".into()];
        inventory.interfaces.push(second);
        let problem = "Address networks are overlapping: Address network 10.1.0.0/24 appears on \
                       multiple interfaces [eno1, eno2]";
        assert_eq!(find_overlapping_subnets(&inventory).unwrap(), problem);
        inventory.interfaces[1].ipv4_addresses = vec!["10.1.1.3/24".into()];
        assert_eq!(find_overlapping_subnets(&inventory), None);
    }

    #[test]
    fn behind_a_load_balancer_of_somebody_else_one_machine_network_is_enough() {
        let networks: [Subnet; 2] =
            ["10.0.0.0/24", "10.1.0.0/24"].map(|network| network.parse().unwrap());
        for (load_balancer, address, expected) in [
            (LoadBalancer::ClusterManaged, "10.0.0.5/24", Some(OUTSIDE)),
            (LoadBalancer::UserManaged, "10.0.0.5/24", None),
            (LoadBalancer::UserManaged, "10.2.0.5/24", Some(OUTSIDE_ALL)),
        ] {
            let needs = HostNeeds {
                machine_networks: networks.to_vec(),
                load_balancer,
                ..HostNeeds::default()
            };
            let problem = find_missing_network(&inventory_with(&[address]), &needs);
            assert_eq!(problem, expected, "{load_balancer:?} {address}");
        }
    }

    #[test]
    fn a_clock_may_be_an_hour_ahead_and_20_minutes_behind() {
        for (seconds_ahead, is_problem) in
            [(-1201, true), (-1200, false), (3600, false), (3601, true)]
        {
            assert_eq!(find_clock_problem(seconds_ahead).is_some(), is_problem, "{seconds_ahead}");
        }
    }
}
