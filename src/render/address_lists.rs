//! Lists of leased addresses for the programs of a network: name servers, DHCP servers, inventories.
//! The same addresses give the same list, byte by byte. It reads no state and tells no program.

mod config_files;
mod inventories;
mod kea;
mod tables;
mod zones;

use clap::ValueEnum;
use serde::Serialize;

use crate::model::address::{Addr, IpFamily, Subnet};
use crate::model::ip_pool::AddressNetwork;
use crate::model::time::Time;

/// The name server of a zone whose server nobody has named. It is in no domain.
pub const LOCAL_NAME_SERVER: &str = "localhost";

/// The program that a list is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// Lines of /etc/hosts; names with wildcards are comments
    Hosts,
    /// Configuration of dnsmasq: names, and dhcp-host lines of addresses with a MAC
    Dnsmasq,
    /// Configuration of Kea's DHCPv4: reservations of addresses with a MAC
    Kea,
    /// Configuration of Kea's DHCPv6: the same for IPv6 addresses
    Kea6,
    /// Zone of BIND with the names in --domain
    Bind,
    /// Reverse zone of BIND, for one network
    Ptr,
    /// YAML inventory of Ansible, with a group for each pool and each cluster
    Ansible,
    /// Table of everything that is known, which `ip import` reads
    Csv,
    /// Table for NetBox's import of IP addresses
    Netbox,
}

impl ListFormat {
    /// What begins a comment; none in formats without comments.
    pub fn comment_mark(self) -> Option<&'static str> {
        match self {
            Self::Hosts | Self::Dnsmasq | Self::Ansible => Some("#"),
            Self::Bind | Self::Ptr => Some(";"),
            Self::Kea | Self::Kea6 | Self::Csv | Self::Netbox => None,
        }
    }
}

/// What has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AddressUse {
    /// A machine.
    Host,
    /// The API or the applications of a cluster. The address moves between machines.
    Vip,
}

/// An address, and all that a list may say about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedAddress {
    pub address: Addr,
    #[serde(rename = "use")]
    pub address_use: AddressUse,
    /// Names in DNS. The first one without a wildcard is what the address points back to. A name
    /// without a dot is below the domain of the list.
    pub names: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    #[serde(flatten)]
    pub network: AddressNetwork,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// The IPClaim; in a list of what clusters need, the customization.
    pub claim: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The Agent of the host that has the address in its cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// One line of text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comment: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

impl ListedAddress {
    /// What stands beside the address for people: the claim, and its comment.
    fn note(&self) -> String {
        if self.comment.is_empty() {
            return self.claim.clone();
        }
        format!("{}: {}", self.claim, self.comment)
    }

    /// The names without those that begin with a wildcard, each as a full name if there is a
    /// domain.
    fn plain_names(&self, options: &ListOptions<'_>) -> Vec<String> {
        let names = self.names.iter().filter(|name| !is_wildcard(name));
        names.map(|name| options.full_name(name)).collect()
    }

    fn wildcards(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter(|name| is_wildcard(name)).map(String::as_str)
    }

    /// The network of the address; none if the length of its prefix is not known.
    fn subnet(&self) -> Option<Subnet> {
        if self.network.prefix == 0 {
            return None;
        }
        Subnet::containing(self.address, self.network.prefix)
    }
}

/// Whether a name stands for all names below the rest.
fn is_wildcard(name: &str) -> bool {
    name.starts_with("*.")
}

/// What a list needs to know beside the addresses.
#[derive(Clone, Debug)]
pub struct ListOptions<'a> {
    /// The domain of names without a dot, and of a zone.
    pub domain: Option<&'a str>,
    /// The name server of a zone.
    pub name_server: &'a str,
    /// The serial number of a zone, which must grow with every change.
    pub serial: i64,
    /// The network of a reverse zone. By default that of its addresses.
    pub network: Option<Subnet>,
}

impl ListOptions<'_> {
    /// A name with its domain; as it is if it has one already, or if there is none.
    fn full_name(&self, name: &str) -> String {
        match self.domain {
            Some(domain) if !name.contains('.') => format!("{name}.{domain}"),
            _ => name.to_owned(),
        }
    }

    /// The full name of the name server, without the dot that may end it.
    fn server_name(&self) -> String {
        match self.name_server.strip_suffix('.') {
            Some(full_name) => full_name.to_owned(),
            None if self.name_server == LOCAL_NAME_SERVER => LOCAL_NAME_SERVER.to_owned(),
            None => self.full_name(self.name_server),
        }
    }
}

/// A list, and what could not be said in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressList {
    /// Lines with their ends.
    pub text: String,
    /// What is left out of a format without comments, in sentences for people.
    pub omissions: Vec<String>,
}

/// Why there is no list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListProblem {
    /// A zone needs a domain.
    NoDomain,
    /// The addresses are in several reverse zones; a file has one. Their networks.
    SeveralZones(Vec<String>),
    /// There are no addresses, so that nobody knows which reverse zone is meant.
    NoNetwork,
    /// The document cannot be written as YAML.
    Yaml(String),
}

/// Sorts addresses as all lists have them: IPv4 first, then by number.
pub fn sort_addresses(addresses: &mut [ListedAddress]) {
    addresses.sort_by(|left, right| {
        let left_key = (!left.address.is_v4(), left.address, &left.namespace, &left.claim);
        let right_key = (!right.address.is_v4(), right.address, &right.namespace, &right.claim);
        left_key.cmp(&right_key)
    });
}

/// Writes addresses, which are sorted, as a program reads them.
pub fn render_list(
    format: ListFormat,
    addresses: &[ListedAddress],
    options: &ListOptions<'_>,
) -> Result<AddressList, ListProblem> {
    let text = match format {
        ListFormat::Hosts => config_files::hosts_file(addresses, options),
        ListFormat::Dnsmasq => config_files::dnsmasq_file(addresses, options),
        ListFormat::Kea => return Ok(kea::kea_config(addresses, IpFamily::V4, options)),
        ListFormat::Kea6 => return Ok(kea::kea_config(addresses, IpFamily::V6, options)),
        ListFormat::Bind => return zones::forward_zone(addresses, options),
        ListFormat::Ptr => zones::reverse_zone(addresses, options)?,
        ListFormat::Ansible => inventories::ansible_inventory(addresses, options)?,
        ListFormat::Csv => tables::csv_table(addresses),
        ListFormat::Netbox => tables::netbox_table(addresses, options),
    };
    Ok(AddressList { text, omissions: Vec::new() })
}
