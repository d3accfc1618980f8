//! Network data as nmstate reads it, which is what hosts of an agent-config have.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

/// The kernel's main table.
const TABLE: u32 = 254;

/// Interfaces, routes and DNS servers of OpenStack's network data; null of null.
pub fn nmstate(network_data: &Value) -> Value {
    if network_data.is_null() {
        return Value::Null;
    }
    let all = All { links: list(network_data, "links"), networks: list(network_data, "networks") };
    let mut made = Map::new();
    made.insert("interfaces".into(), all.interfaces().into());
    let servers = servers(network_data, all.networks);
    if !servers.is_empty() {
        made.insert("dns-resolver".into(), json!({"config": {"server": servers}}));
    }
    let routes = all.routes();
    if !routes.is_empty() {
        made.insert("routes".into(), json!({"config": routes}));
    }
    made.into()
}

struct All<'a> {
    links: &'a [Value],
    networks: &'a [Value],
}

impl All<'_> {
    /// Those of the links, then those that only networks name.
    fn interfaces(&self) -> Vec<Value> {
        let mut made: Vec<Value> = self.links.iter().map(|link| self.interface(link)).collect();
        let mut told: Vec<&str> = self.links.iter().map(|link| text(link, "id")).collect();
        for id in self.networks.iter().map(|network| text(network, "link")) {
            if !id.is_empty() && !told.contains(&id) {
                told.push(id);
                made.push(self.interface(&json!({"id": id})));
            }
        }
        made
    }

    /// What a link is called on the machine.
    fn name_of(&self, id: &str) -> String {
        let link = self.links.iter().find(|link| text(link, "id") == id);
        let name = link.map(|link| text(link, "name")).filter(|name| !name.is_empty());
        name.unwrap_or(id).to_owned()
    }

    fn interface(&self, link: &Value) -> Value {
        let id = text(link, "id");
        let name = Some(text(link, "name")).filter(|name| !name.is_empty()).unwrap_or(id);
        let mut made = Map::new();
        made.insert("name".into(), name.into());
        made.insert("state".into(), "up".into());
        let kind = match text(link, "type") {
            "bond" => {
                made.insert("link-aggregation".into(), self.aggregation(link));
                "bond"
            }
            "vlan" => {
                let base = self.name_of(text(link, "vlan_link"));
                made.insert("vlan".into(), json!({"base-iface": base, "id": link["vlan_id"]}));
                "vlan"
            }
            // To the machine all others are plain interfaces.
            _ => "ethernet",
        };
        made.insert("type".into(), kind.into());
        for key in ["ethernet_mac_address", "vlan_mac_address"] {
            if let Some(mac) = link[key].as_str() {
                // Installers read no dashes.
                made.insert("mac-address".into(), mac.replace('-', ":").into());
            }
        }
        if let Some(mtu) = link.get("mtu") {
            made.insert("mtu".into(), mtu.clone());
        }
        made.insert("ipv4".into(), self.addresses(id, "ipv4"));
        made.insert("ipv6".into(), self.addresses(id, "ipv6"));
        made.into()
    }

    fn aggregation(&self, link: &Value) -> Value {
        let ports = list(link, "bond_links").iter().filter_map(Value::as_str);
        let ports: Vec<String> = ports.map(|id| self.name_of(id)).collect();
        let mut made = Map::new();
        made.insert("mode".into(), link["bond_mode"].clone());
        made.insert("port".into(), ports.into());
        let option = |(key, value): (&String, &Value)| {
            let name =
                key.strip_prefix("bond_").filter(|name| !["mode", "links"].contains(name))?;
            let given = !value.is_null() && value.as_str() != Some("");
            given.then(|| (name.to_owned(), plain(value)))
        };
        let fields = link.as_object().into_iter().flatten();
        let options: Map<String, Value> = fields.filter_map(option).collect();
        if !options.is_empty() {
            made.insert("options".into(), options.into());
        }
        made.into()
    }

    /// What one family is on a link.
    fn addresses(&self, id: &str, family: &str) -> Value {
        let here = self.networks.iter().filter(|network| text(network, "link") == id);
        let (mut dhcp, mut autoconf, mut addresses) = (false, false, Vec::new());
        for network in here {
            match (text(network, "type"), family) {
                ("ipv4", "ipv4") | ("ipv6", "ipv6") => addresses.extend(address(network)),
                ("ipv4_dhcp", "ipv4") => dhcp = true,
                // Only routers' advertisements say where the gateway is.
                ("ipv6_dhcp", "ipv6") => (dhcp, autoconf) = (true, true),
                ("ipv6_slaac", "ipv6") => autoconf = true,
                _ => {}
            }
        }
        if !dhcp && !autoconf && addresses.is_empty() {
            return json!({"enabled": false});
        }
        let mut made = Map::new();
        made.insert("enabled".into(), true.into());
        made.insert("dhcp".into(), dhcp.into());
        if family == "ipv6" {
            made.insert("autoconf".into(), autoconf.into());
        }
        if !addresses.is_empty() {
            made.insert("address".into(), addresses.into());
        }
        made.into()
    }

    fn routes(&self) -> Vec<Value> {
        let of = |network| list(network, "routes").iter().map(move |one| self.route(network, one));
        self.networks.iter().flat_map(of).flatten().collect()
    }

    fn route(&self, network: &Value, one: &Value) -> Option<Value> {
        let any = if text(network, "type").starts_with("ipv6") { "::" } else { "0.0.0.0" };
        let to = Some(text(one, "network")).filter(|to| !to.is_empty()).unwrap_or(any);
        let mut made = Map::new();
        let destination = format!("{to}/{}", length(text(one, "netmask"))?);
        made.insert("destination".into(), destination.into());
        let gateway = text(one, "gateway");
        if !gateway.is_empty() {
            made.insert("next-hop-address".into(), gateway.into());
        }
        made.insert("next-hop-interface".into(), self.name_of(text(network, "link")).into());
        made.insert("table-id".into(), TABLE.into());
        Some(made.into())
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn address(network: &Value) -> Option<Value> {
    let length = length(text(network, "netmask"))?;
    Some(json!({"ip": text(network, "ip_address"), "prefix-length": length}))
}

/// How many bits of a mask are set before the first that is not.
fn length(mask: &str) -> Option<u32> {
    Some(match mask.parse::<IpAddr>().ok()? {
        IpAddr::V4(mask) => u32::from(mask).leading_ones(),
        IpAddr::V6(mask) => u128::from(mask).leading_ones(),
    })
}

/// nmstate has numbers of options as text.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.to_string().into(),
        other => other.clone(),
    }
}

/// Those of all, then those of routes, each once.
fn servers<'v>(network_data: &'v Value, networks: &'v [Value]) -> Vec<&'v str> {
    let routes = networks.iter().flat_map(|network| list(network, "routes"));
    let services = routes.flat_map(|route| list(route, "services"));
    let mut made = Vec::new();
    for one in list(network_data, "services").iter().chain(services) {
        let address = text(one, "address");
        if text(one, "type") == "dns" && !address.is_empty() && !made.contains(&address) {
            made.push(address);
        }
    }
    made
}
