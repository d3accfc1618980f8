//! What a host has to reach, and how fast: us, the time, images, its cluster.

use std::collections::BTreeSet;

use crate::model::address::{Addr, Stretch, Subnet};
use crate::model::agent::inventory::{Interface, Inventory, Route};
use crate::model::agent::needs::Needs;
use crate::model::agent::{Agent, ImageReport, PeerReport, Role, Validation};

use super::{Around, FAILURE, Look, MISSING, PENDING, SUCCESS, check, result};

/// Seconds that the clock of a host may be ahead, and behind.
const AHEAD: i64 = 3600;
const BEHIND: i64 = 1200;
/// Fewer hosts have no majority.
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

const FAST: &str = "Host clock is not synchronized, host time is ahead of service at least for 1 \
                    hour, please configure an NTP server via DHCP";
const SLOW: &str = "Host clock is not synchronized, service time is ahead of host's at least for \
                    20 minutes, please configure an NTP server via DHCP";

pub(super) fn of(look: &Look<'_>) -> Vec<Validation> {
    let status = &look.agent.status;
    let lost = status.media_disconnected.then_some(UNREADABLE);
    let mut all = vec![check("media-connected", lost, "Media device is connected")];
    // Nobody asks a found host anything once it is bound.
    if !status.found || look.around.is_none() {
        let silent = look.agent.is_silent(look.now).then_some("Host is disconnected");
        all.push(check("connected", silent, "Host is connected"));
    }
    all.extend(platform(look));
    if !status.found {
        all.extend(reported(look));
    }
    if let Some(around) = look.around {
        all.extend(in_cluster(look, around));
    }
    all
}

/// What is seen in an inventory, once there is one.
fn seen(
    look: &Look<'_>,
    id: &str,
    good: &str,
    problem: impl FnOnce(&Inventory) -> Option<String>,
) -> Validation {
    match look.inventory() {
        Some(inventory) => check(id, problem(inventory).as_deref(), good),
        None => result(id, PENDING, MISSING),
    }
}

fn platform(look: &Look<'_>) -> Option<Validation> {
    let vendor = look.inventory().map(|one| &one.system_vendor);
    let rented = vendor.filter(|one| one.product_name == "OpenStack Compute");
    let fine = match (rented, look.around) {
        (None, _) => true,
        // Nobody knows yet whether its cluster will mind.
        (Some(_), None) => return None,
        (Some(_), Some(Around { needs, .. })) => needs.user_managed || needs.day2 || needs.is_sno(),
    };
    let id = "valid-platform-network-settings";
    Some(seen(look, id, "Platform is allowed", |one| {
        let product = &one.system_vendor.product_name;
        (!fine).then(|| {
            format!(
                "Platform {product} is allowed only for Single Node OpenShift or user-managed \
                 networking"
            )
        })
    }))
}

/// What a host says of itself.
fn reported(look: &Look<'_>) -> Vec<Validation> {
    let status = &look.agent.status;
    let synced = status.ntp_sources.iter().any(|one| one.source_state == "synced");
    let unsynced = (!synced).then_some("Host couldn't synchronize with any NTP server");
    let mut all = vec![
        check("ntp-synced", unsynced, "Host NTP is synced"),
        images(&status.images),
        seen(look, "has-default-route", "Host has a default route", |one| {
            let none = !one.routes.iter().any(is_default);
            none.then(|| "Host has not yet been configured with a default route.".to_owned())
        }),
        seen(look, "non-overlapping-subnets", "Host subnets are not overlapping", overlap),
    ];
    if let Some(ahead) = status.clock_offset_seconds {
        let id = "time-synced-between-host-and-service";
        all.push(check(id, clock(ahead), "Host clock is synchronized with service"));
    }
    all
}

fn images(all: &[ImageReport]) -> Validation {
    let id = "container-images-available";
    if all.is_empty() {
        return result(id, PENDING, "Images have not been pulled yet");
    }
    let failed = all.iter().filter(|one| one.result != "success");
    let failed: Vec<&str> = failed.map(|one| one.name.as_str()).collect();
    let problem = (!failed.is_empty()).then(|| {
        let names = failed.join(", ");
        format!("Failed to fetch container images needed for installation: {names}")
    });
    check(id, problem.as_deref(), "All required container images were pulled")
}

fn is_default(route: &Route) -> bool {
    let everywhere = ["0.0.0.0", "0.0.0.0/0", "::", "::/0"];
    everywhere.contains(&route.destination.as_str()) && !route.gateway.is_empty()
}

fn clock(ahead: i64) -> Option<&'static str> {
    if ahead > AHEAD {
        return Some(FAST);
    }
    (ahead < -BEHIND).then_some(SLOW)
}

/// Two networks of which one is part of the other; the same one twice is none.
fn overlap(inventory: &Inventory) -> Option<String> {
    let subnets = inventory.interfaces.iter().flat_map(texts);
    let subnets = subnets.filter_map(|text| text.parse::<Subnet>().ok());
    let wide = subnets.filter(|subnet| !subnet.is_single());
    // Sorted, for an agent may send very many: what overlaps at all, overlaps its neighbour.
    let mut all: Vec<(bool, Stretch, u8)> = wide
        .map(|subnet| (subnet.written().is_v4(), subnet.whole(), subnet.prefix_length()))
        .collect();
    all.sort_unstable();
    all.dedup();
    all.windows(2).find_map(|pair| match pair {
        [(_, one, length), (_, two, other)] if one.meets(*two) => Some(format!(
            "Address networks are overlapping: {}/{length}, {}/{other}",
            one.start, two.start
        )),
        _ => None,
    })
}

fn texts(one: &Interface) -> impl Iterator<Item = &String> {
    one.ipv4_addresses.iter().chain(&one.ipv6_addresses)
}

fn addresses(one: &Interface) -> impl Iterator<Item = Addr> {
    texts(one).filter_map(|text| address(text))
}

/// With its prefix or without.
fn address(text: &str) -> Option<Addr> {
    text.split('/').next()?.parse().ok()
}

fn is_in(networks: &[Subnet], address: Addr) -> bool {
    networks.iter().any(|network| network.contains(address))
}

/// What only a cluster can ask for.
fn in_cluster(look: &Look<'_>, around: &Around<'_>) -> Vec<Validation> {
    let (needs, networks) = (around.needs, &around.needs.machine_networks);
    let free = needs.user_managed || needs.day2;
    let undefined = !free && !needs.has_vips && networks.is_empty();
    let undefined = undefined.then_some(UNDEFINED);
    let mut all = vec![check("machine-cidr-defined", undefined, "Machine Network CIDR is defined")];
    if look.agent.status.found {
        return all;
    }
    if free || !networks.is_empty() {
        let good = "Host belongs to all machine network CIDRs";
        all.push(seen(look, "belongs-to-machine-cidr", good, |one| {
            let outside = !free && !belongs(one, networks);
            outside.then(|| OUTSIDE.to_owned())
        }));
    }
    let good = "No IP collisions were detected";
    all.push(seen(look, "no-ip-collisions-in-network", good, |one| {
        collision(&look.agent.metadata.name, one, around.others)
    }));
    all.extend(connectivity(look, around));
    all
}

/// Whether it has an address of every network.
fn belongs(inventory: &Inventory, networks: &[Subnet]) -> bool {
    let all: Vec<Addr> = inventory.interfaces.iter().flat_map(addresses).collect();
    networks.iter().all(|network| all.iter().any(|address| network.contains(*address)))
}

fn collision(name: &str, inventory: &Inventory, others: &[&Agent]) -> Option<String> {
    let mine: BTreeSet<Addr> = inventory.interfaces.iter().flat_map(addresses).collect();
    let theirs = others.iter().filter_map(|other| other.status.inventory.as_ref());
    let mut theirs = theirs.flat_map(|one| &one.interfaces);
    theirs.find_map(|one| {
        let taken = addresses(one).find(|address| mine.contains(address))?;
        let mac = &one.mac_address;
        Some(format!(
            "Collisions detected for host ID {name}, IP address: {taken} Mac addresses: {mac}"
        ))
    })
}

fn connectivity(look: &Look<'_>, around: &Around<'_>) -> Vec<Validation> {
    let needs = around.needs;
    let alike = |status: &str, why: &str| -> Vec<Validation> {
        [MAJORITY, LATENCY, LOSS].iter().map(|id| result(id, status, why)).collect()
    };
    if needs.is_sno() || needs.day2 {
        return alike(SUCCESS, "Host needs no others");
    }
    if around.others.len() + 1 < QUORUM {
        return alike(PENDING, "Not enough hosts in cluster to calculate connectivity groups");
    }
    let others: Vec<&Agent> =
        around.others.iter().copied().filter(|other| !other.status.found).collect();
    // Found ones answer nobody before they are installed.
    if others.is_empty() {
        return Vec::new();
    }
    if look.agent.status.peers.is_empty() {
        return alike(PENDING, "Missing connectivity information");
    }
    let mut all = vec![majority(look.agent, &others, needs)];
    all.extend(limits(look.role).iter().map(|limit| limit.check(look, &others)));
    all
}

fn peer<'a>(agent: &'a Agent, other: &Agent) -> Option<&'a PeerReport> {
    agent.status.peers.iter().find(|one| one.agent == other.metadata.name)
}

fn majority(agent: &Agent, others: &[&Agent], needs: &Needs) -> Validation {
    let networks = &needs.machine_networks;
    let anywhere = needs.user_managed || networks.is_empty();
    let met =
        |text: &String| anywhere || address(text).is_some_and(|address| is_in(networks, address));
    let known: Vec<&PeerReport> = others.iter().filter_map(|other| peer(agent, other)).collect();
    let reached = known.iter().filter(|one| one.reached.iter().any(met)).count();
    if (reached + 1) * 2 > others.len() + 1 {
        return result(MAJORITY, SUCCESS, "Host has connectivity to the majority of hosts");
    }
    if known.len() < others.len() {
        return result(MAJORITY, PENDING, "Missing connectivity information");
    }
    result(MAJORITY, FAILURE, "No connectivity to the majority of hosts in the cluster")
}

/// What may not be more between hosts of one role.
struct Limit {
    id: &'static str,
    what: &'static str,
    unit: &'static str,
    most: f64,
    of: fn(&PeerReport) -> Option<f64>,
}

fn limits(role: Role) -> [Limit; 2] {
    let (latency, loss) = match kind(role) {
        Role::Master => (100.0, 0.0),
        Role::Arbiter => (1000.0, 0.0),
        _ => (1000.0, 10.0),
    };
    [
        Limit {
            id: LATENCY,
            what: "Network latency",
            unit: "ms",
            most: latency,
            of: |peer| peer.latency_ms,
        },
        Limit {
            id: LOSS,
            what: "Packet loss",
            unit: "%",
            most: loss,
            of: |peer| peer.loss_percent,
        },
    ]
}

impl Limit {
    fn check(&self, look: &Look<'_>, others: &[&Agent]) -> Validation {
        let Self { id, what, unit, most, of } = self;
        let (mut unknown, mut bad) = (false, Vec::new());
        for other in others.iter().filter(|other| kind(other.role()) == kind(look.role)) {
            match peer(look.agent, other).and_then(of) {
                Some(found) if found > *most => {
                    bad.push(format!("{} ({found:.2} {unit})", other.hostname()));
                }
                Some(_) => {}
                None => unknown = true,
            }
        }
        if bad.is_empty() && unknown {
            return result(id, PENDING, &format!("Missing {} information", what.to_lowercase()));
        }
        let problem = (!bad.is_empty()).then(|| {
            let (name, bad) = (look.agent.hostname(), bad.join(", "));
            format!(
                "{what} requirements of less or equals than {most:.2} {unit} not met for \
                 connectivity between {name} and {bad}"
            )
        });
        check(id, problem.as_deref(), &format!("{what} requirement has been satisfied"))
    }
}

/// Roles that are held to the same.
fn kind(role: Role) -> Role {
    match role {
        Role::Bootstrap => Role::Master,
        Role::AutoAssign => Role::Worker,
        other => other,
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

    fn met(agent: &str, reached: &str, latency: f64) -> PeerReport {
        PeerReport {
            agent: agent.into(),
            reached: vec![reached.into()],
            unreached: Vec::new(),
            latency_ms: Some(latency),
            loss_percent: Some(0.0),
        }
    }

    /// Majority, latency and loss, as status.
    fn found(peers: Vec<PeerReport>) -> String {
        let (one, two) = (host("b", Role::Master, vec![]), host("c", Role::Worker, vec![]));
        let needs =
            Needs { machine_networks: vec!["10.0.0.0/24".parse().unwrap()], ..Needs::default() };
        let agent = host("a", Role::Master, peers);
        let around = Around { needs: &needs, others: &[&one, &two] };
        let look =
            Look { agent: &agent, role: Role::Master, around: Some(&around), now: Time::default() };
        let all = connectivity(&look, &around);
        all.iter().map(|one| one.status.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn nobody_is_reached_before_it_is_said() {
        assert_eq!(found(vec![]), "pending pending pending");
        assert_eq!(found(vec![met("c", "10.0.0.9", 5.0)]), "success pending pending");
        assert_eq!(found(vec![met("c", "10.1.0.9", 5.0)]), "pending pending pending");
        let two = |latency| vec![met("b", "10.0.0.8", latency), met("c", "10.0.0.9/24", 500.0)];
        assert_eq!(found(two(100.0)), "success success success");
        assert_eq!(found(two(101.0)), "success failure success");
        let both = vec![met("b", "10.1.0.8", 5.0), met("c", "10.1.0.9", 5.0)];
        assert_eq!(found(both), "failure success success");
    }

    #[test]
    fn networks_of_one_host_do_not_overlap() {
        let inventory = |all: &[&str]| {
            let ipv4_addresses = all.iter().map(|one| String::from(*one)).collect();
            let one = Interface { ipv4_addresses, ..Interface::default() };
            Inventory { interfaces: vec![one], ..Inventory::default() }
        };
        let bad = inventory(&["10.1.0.1/16", "1.2.3.4/24", "10.1.7.1/24"]);
        let why = "Address networks are overlapping: 10.1.0.0/16, 10.1.7.0/24";
        assert_eq!(overlap(&bad).unwrap(), why);
        let good = ["10.1.0.1/24", "10.1.0.2/24", "10.1.0.3/32", "2001:db8::1/64", "::/0"];
        assert_eq!(overlap(&inventory(&good[..4])), None);
        assert!(overlap(&inventory(&good)).unwrap().ends_with("::/0, 2001:db8::/64"));
        assert_eq!(
            [-1201, -1200, 3600, 3601].map(|ahead| clock(ahead).is_some()),
            [true, false, false, true]
        );
    }
}
