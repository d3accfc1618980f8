//! `ip export`: lists leased addresses for name servers, DHCP servers and inventories. It changes
//! nothing, and tells no program.

use std::collections::HashMap;

use clap::Args;
use serde_json::Value;

use crate::model::address::Subnet;
use crate::model::agent::Agent;
use crate::model::cluster::Cluster;
use crate::model::ip_lease::IpLease;
use crate::model::ip_pool::IpPool;
use crate::model::kinds::Kind;
use crate::model::meta::Key;
use crate::model::refusal::Refusal;
use crate::model::template::Template;
use crate::output::{Answer, Name, clean_line};
use crate::render::address_lists::{
    AddressUse, LOCAL_NAME_SERVER, ListFormat, ListOptions, ListProblem, ListedAddress,
    render_list, sort_addresses,
};
use crate::render::cluster_dns::cluster_records;
use crate::render::install_config;
use crate::rules;
use crate::store::{Filter, Store};

use crate::commands::{Context, RunCommand};

/// Arguments of `ip export`. The document goes to standard output, or whole into a file.
#[derive(Args)]
pub struct Export {
    /// Format of the list
    #[arg(long = "as", value_enum, value_name = "FORMAT")]
    format: ListFormat,
    /// List only the addresses of this IPPool
    #[arg(long, value_name = "IPPOOL")]
    pool: Option<String>,
    /// List only the addresses of this cluster
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
    /// List only the addresses in this network, such as 10.20.0.0/24
    #[arg(long, value_name = "NETWORK")]
    network: Option<Subnet>,
    #[command(flatten)]
    zone: ZoneOptions,
}

/// What lists of names need to know beside the names.
#[derive(Args)]
pub struct ZoneOptions {
    /// Domain of names without a dot; also the zone of --as bind
    #[arg(long)]
    domain: Option<String>,
    /// Name server of a zone
    #[arg(long, value_name = "NAME", default_value = LOCAL_NAME_SERVER)]
    name_server: String,
}

impl RunCommand for Export {
    const NAME: &'static str = "export";
    const ABOUT: &'static str = "List leased addresses for name servers, DHCP servers, inventories";
    const EXAMPLE: &'static str = "poolctl ip export --as hosts --domain lab.example.com";

    fn run(self, context: &Context) -> anyhow::Result<()> {
        let store = context.open_existing_state()?;
        // In one snapshot, so that no address is listed twice or not at all.
        let (addresses, serial) = store.read_snapshot(|| {
            let leases = self.select_leases(context, &store)?;
            anyhow::Ok((list_leases(&store, &leases)?, store.read_revision()?))
        })?;
        let options = self.zone.to_list_options(serial, self.network)?;
        answer_list(context, self.format, &addresses, &options)
    }
}

impl ZoneOptions {
    /// The options of a list. Names that cannot be in DNS are refused.
    pub fn to_list_options(
        &self,
        serial: i64,
        network: Option<Subnet>,
    ) -> Result<ListOptions<'_>, Refusal> {
        for name in self.domain.iter().chain([&self.name_server]) {
            let checked = rules::check_dns_name("a name in DNS", without_final_dot(name));
            checked.map_err(|refusal| Refusal::usage(refusal.what))?;
        }
        let domain = self.domain.as_deref().map(without_final_dot);
        Ok(ListOptions { domain, name_server: &self.name_server, serial, network })
    }
}

/// A full name without the dot at its end. A dot alone stays, so that a refusal shows it.
fn without_final_dot(name: &str) -> &str {
    match name.strip_suffix('.') {
        Some(bare_name) if !bare_name.is_empty() => bare_name,
        _ => name,
    }
}

/// Answers a list as text, its addresses as documents, and what it leaves out as hints.
pub fn answer_list(
    context: &Context,
    format: ListFormat,
    addresses: &[ListedAddress],
    options: &ListOptions<'_>,
) -> anyhow::Result<()> {
    let list = render_list(format, addresses, options).map_err(refuse_list)?;
    for omission in &list.omissions {
        context.hint(omission);
    }
    let documents: Vec<Value> =
        addresses.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    let claims = addresses.iter().map(|listed| Key::new(&*listed.namespace, &*listed.claim));
    let names = claims.map(|claim| Name::of(Kind::IpClaim, &claim));
    context.answer(Answer::text(list.text).with_names(names).with_list(documents))
}

/// Why a list cannot be made, for people.
pub fn refuse_list(problem: ListProblem) -> Refusal {
    match problem {
        ListProblem::NoDomain => Refusal::usage("a zone needs a domain")
            .advise("poolctl ip export --as bind --domain lab.example.com"),
        ListProblem::NoNetwork => Refusal::usage("there is no address that names a reverse zone")
            .advise("poolctl ip export --as ptr --network 10.20.0.0/24"),
        ListProblem::SeveralZones(networks) => {
            let first = networks.first().cloned().unwrap_or_default();
            let count = networks.len();
            Refusal::usage(format!("the addresses are in {count} reverse zones; a file has one"))
                .because(networks.join(", "))
                .advise(format!("poolctl ip export --as ptr --network {first}"))
        }
        ListProblem::Yaml(error) => Refusal::invalid(error),
    }
}

impl Export {
    /// The leases that are asked for, without those that wait for an address.
    fn select_leases(&self, context: &Context, store: &Store) -> Result<Vec<IpLease>, Refusal> {
        let mut leases = Vec::new();
        let pools = if let Some(name) = &self.pool {
            vec![context.find::<IpPool>(store, name)?]
        } else {
            let namespace = context.namespace_filter()?;
            if let Some(namespace) = &namespace {
                leases.extend(store.list_leases_from_shared_pools(namespace)?);
            }
            store.list::<IpPool>(&Filter { namespace, ..Filter::default() })?
        };
        if let Some(name) = &self.cluster {
            find_cluster(store, name)?;
        }
        for pool in pools {
            leases.extend(store.list_leases_of_pool(&pool)?);
        }
        leases.retain(|lease| {
            let is_of_cluster =
                self.cluster.is_none() || lease.cluster() == self.cluster.as_deref();
            let is_in_network = self.network.is_none_or(|network| {
                lease.address.is_some_and(|address| network.contains(address))
            });
            is_of_cluster && is_in_network
        });
        Ok(leases)
    }
}

/// A cluster by its name, which is unique in the state.
fn find_cluster(store: &Store, name: &str) -> Result<Cluster, Refusal> {
    let filter = Filter { name: Some(name.to_owned()), ..Filter::default() };
    store.list::<Cluster>(&filter)?.pop().ok_or_else(|| {
        Refusal::not_found(format!("there is no cluster `{name}`")).next("poolctl get cluster -A")
    })
}

/// What is known of the clusters that leases name; each is read once.
#[derive(Default)]
struct ClusterNames {
    /// `NAME.DOMAIN` of each cluster; none if the cluster is gone.
    domains: HashMap<String, Option<String>>,
    /// The names of each address in the install-config of a cluster.
    names_of_vips: HashMap<String, HashMap<String, Vec<String>>>,
}

impl ClusterNames {
    fn domain_of(&mut self, store: &Store, cluster: &str) -> Result<Option<String>, Refusal> {
        if let Some(domain) = self.domains.get(cluster) {
            return Ok(domain.clone());
        }
        let filter = Filter { name: Some(cluster.to_owned()), ..Filter::default() };
        let row = store.list::<Cluster>(&filter)?.pop();
        let domain = row.map(|row| format!("{}.{}", row.cluster_name, row.base_domain));
        self.domains.insert(cluster.to_owned(), domain.clone());
        Ok(domain)
    }

    /// The names that the install-config of a cluster has for an address.
    fn names_of_vip(
        &mut self,
        store: &Store,
        cluster: &str,
        address: &str,
    ) -> Result<Vec<String>, Refusal> {
        if let Some(names) = self.names_of_vips.get(cluster) {
            return Ok(names.get(address).cloned().unwrap_or_default());
        }
        let mut names: HashMap<String, Vec<String>> = HashMap::new();
        if let Some(config) = read_install_config(store, cluster)? {
            for record in cluster_records(&config) {
                for vip in record.addresses {
                    names.entry(vip).or_default().extend(record.names.iter().cloned());
                }
            }
        }
        let names_of_address = names.get(address).cloned().unwrap_or_default();
        self.names_of_vips.insert(cluster.to_owned(), names);
        Ok(names_of_address)
    }
}

/// The install-config that a cluster was made from, if it is kept.
pub fn read_install_config(store: &Store, cluster: &str) -> Result<Option<Value>, Refusal> {
    let secret = Key::new(cluster, format!("{cluster}-install-config"));
    let Some(yaml) = store.read_secret_value(&secret, "install-config.yaml")? else {
        return Ok(None);
    };
    let template = Template::new(yaml);
    Ok(install_config::template_document(&template).ok().cloned())
}

/// Leases as lists have them, in the order of lists.
pub fn list_leases(store: &Store, leases: &[IpLease]) -> Result<Vec<ListedAddress>, Refusal> {
    let mut cluster_names = ClusterNames::default();
    let mut addresses = Vec::new();
    for lease in leases {
        let Some(address) = lease.address else { continue };
        let agent = lease.agent();
        let is_vip = lease.holder.is_some() && agent.is_none();
        let names = match lease.cluster() {
            Some(cluster) if is_vip => {
                cluster_names.names_of_vip(store, cluster, &address.to_string())?
            }
            Some(cluster) => {
                let domain = cluster_names.domain_of(store, cluster)?;
                host_name(store, lease, domain.as_deref())?.into_iter().collect()
            }
            None => names_of_claim(lease),
        };
        addresses.push(ListedAddress {
            address,
            address_use: if is_vip { AddressUse::Vip } else { AddressUse::Host },
            names,
            mac: lease.mac(),
            network: lease.network.clone(),
            namespace: lease.namespace.clone(),
            pool: lease.pool.clone(),
            claim: lease.claim.clone(),
            cluster: lease.cluster().map(str::to_owned),
            host: agent.map(str::to_owned),
            comment: clean_line(lease.comment()).into_owned(),
            since: Some(lease.leased.unwrap_or(lease.created)),
            until: lease.expires_at(),
        });
    }
    sort_addresses(&mut addresses);
    Ok(addresses)
}

/// The name of a host of a cluster: what it is called, below the name of its cluster.
fn host_name(
    store: &Store,
    lease: &IpLease,
    domain: Option<&str>,
) -> Result<Option<String>, Refusal> {
    let Some(agent_name) = lease.agent() else { return Ok(None) };
    let agent = store.find::<Agent>(&Key::new(&*lease.namespace, agent_name))?;
    let host = agent.as_ref().map_or(agent_name, Agent::hostname);
    Ok(match domain {
        Some(domain) if !host.contains('.') => Some(format!("{host}.{domain}")),
        _ => Some(host.to_owned()),
    })
}

/// The names that a claim asks for, else its own name if that can be one in DNS.
fn names_of_claim(lease: &IpLease) -> Vec<String> {
    let mut names: Vec<String> = lease.dns_names().map(str::to_owned).collect();
    let claim_name = lease.claim.to_ascii_lowercase();
    if names.is_empty() && rules::check_dns_name("a name in DNS", &claim_name).is_ok() {
        names.push(claim_name);
    }
    names
}
