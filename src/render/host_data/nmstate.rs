//! Renders OpenStack's network data as nmstate reads it, which is what hosts of an agent-config
//! have.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

/// The kernel's main table.
const MAIN_TABLE: u32 = 254;

/// Renders interfaces, routes and DNS servers for nmstate. Without network data it is null.
pub fn render_nmstate(network_data: &Value) -> Value {
    if network_data.is_null() {
        return Value::Null;
    }
    let links = list_field(network_data, "links");
    let networks = list_field(network_data, "networks");
    let source = NetworkData { links, networks };
    let mut document = Map::new();
    document.insert("interfaces".into(), source.render_interfaces().into());
    let servers = dns_servers(network_data, networks);
    if !servers.is_empty() {
        document.insert("dns-resolver".into(), json!({"config": {"server": servers}}));
    }
    let routes = source.render_routes();
    if !routes.is_empty() {
        document.insert("routes".into(), json!({"config": routes}));
    }
    document.into()
}

/// The lists of OpenStack's network data that interfaces and routes are rendered from.
struct NetworkData<'a> {
    links: &'a [Value],
    networks: &'a [Value],
}

impl NetworkData<'_> {
    /// The links, then the interfaces of the machine that only networks name.
    fn render_interfaces(&self) -> Vec<Value> {
        let mut interfaces = Vec::new();
        let mut rendered_ids = Vec::new();
        for link in self.links {
            interfaces.push(self.render_interface(link));
            rendered_ids.push(text_field(link, "id"));
        }
        for network in self.networks {
            let id = text_field(network, "link");
            if !id.is_empty() && !rendered_ids.contains(&id) {
                interfaces.push(self.render_interface(&json!({"id": id})));
                rendered_ids.push(id);
            }
        }
        interfaces
    }

    /// The name of a link on the machine.
    fn interface_name(&self, id: &str) -> String {
        let link = self.links.iter().find(|link| text_field(link, "id") == id);
        link.map_or(id, name_of_link).to_owned()
    }

    /// The interface of a link. A link that only networks name has nothing but its id, and is a
    /// card of that name.
    fn render_interface(&self, link: &Value) -> Value {
        let id = text_field(link, "id");
        let mut interface = Map::new();
        interface.insert("name".into(), name_of_link(link).into());
        interface.insert("state".into(), "up".into());
        let interface_type = match text_field(link, "type") {
            "bond" => {
                interface.insert("link-aggregation".into(), self.render_aggregation(link));
                "bond"
            }
            "vlan" => {
                let base = self.interface_name(text_field(link, "vlan_link"));
                interface.insert("vlan".into(), json!({"base-iface": base, "id": link["vlan_id"]}));
                "vlan"
            }
            // The other types of OpenStack say how a hypervisor connects the machine. To the
            // machine they are all the same.
            _ => "ethernet",
        };
        interface.insert("type".into(), interface_type.into());
        for key in ["ethernet_mac_address", "vlan_mac_address"] {
            if let Some(mac) = link[key].as_str() {
                // Installers do not read dashes.
                interface.insert("mac-address".into(), mac.replace('-', ":").into());
            }
        }
        if let Some(mtu) = link.get("mtu") {
            interface.insert("mtu".into(), mtu.clone());
        }
        interface.insert("ipv4".into(), self.render_family(id, "ipv4"));
        interface.insert("ipv6".into(), self.render_family(id, "ipv6"));
        interface.into()
    }

    /// The `link-aggregation` of a bond: its mode, the names of its ports on the machine, and its
    /// options.
    fn render_aggregation(&self, bond: &Value) -> Value {
        let ids = list_field(bond, "bond_links").iter().filter_map(Value::as_str);
        let ports: Vec<String> = ids.map(|id| self.interface_name(id)).collect();
        let mut aggregation = Map::new();
        aggregation.insert("mode".into(), bond["bond_mode"].clone());
        aggregation.insert("port".into(), ports.into());
        let options = render_bond_options(bond);
        if !options.is_empty() {
            aggregation.insert("options".into(), options.into());
        }
        aggregation.into()
    }

    /// The addresses of one family on a link: `family` is `ipv4` or `ipv6`.
    fn render_family(&self, link_id: &str, family: &str) -> Value {
        let mut has_dhcp = false;
        let mut has_autoconf = false;
        let mut addresses = Vec::new();
        for network in self.networks {
            if text_field(network, "link") != link_id {
                continue;
            }
            match (text_field(network, "type"), family) {
                ("ipv4", "ipv4") | ("ipv6", "ipv6") => addresses.extend(render_address(network)),
                ("ipv4_dhcp", "ipv4") => has_dhcp = true,
                ("ipv6_dhcp", "ipv6") => {
                    has_dhcp = true;
                    // Only the advertisements of routers say where the gateway is.
                    has_autoconf = true;
                }
                ("ipv6_slaac", "ipv6") => has_autoconf = true,
                _ => {}
            }
        }
        if !has_dhcp && !has_autoconf && addresses.is_empty() {
            return json!({"enabled": false});
        }
        let mut rendered = Map::new();
        rendered.insert("enabled".into(), true.into());
        rendered.insert("dhcp".into(), has_dhcp.into());
        if family == "ipv6" {
            rendered.insert("autoconf".into(), has_autoconf.into());
        }
        if !addresses.is_empty() {
            rendered.insert("address".into(), addresses.into());
        }
        rendered.into()
    }

    /// The routes of all networks, without those whose netmask cannot be read.
    fn render_routes(&self) -> Vec<Value> {
        let mut routes = Vec::new();
        for network in self.networks {
            for route in list_field(network, "routes") {
                routes.extend(self.render_route(network, route));
            }
        }
        routes
    }

    /// None if the netmask of the route cannot be read, or if it leads everywhere without a gateway:
    /// then the interface would ask its link for every address of the world. A route without a
    /// network leads everywhere.
    fn render_route(&self, network: &Value, route: &Value) -> Option<Value> {
        let is_v6 = text_field(network, "type").starts_with("ipv6");
        let prefix_length = parse_prefix_length(text_field(route, "netmask"))?;
        let address = match text_field(route, "network") {
            "" if is_v6 => "::",
            "" => "0.0.0.0",
            address => address,
        };
        let interface = self.interface_name(text_field(network, "link"));
        let mut rendered = Map::new();
        rendered.insert("destination".into(), format!("{address}/{prefix_length}").into());
        let gateway = text_field(route, "gateway");
        if gateway.is_empty() && prefix_length == 0 {
            return None;
        }
        if !gateway.is_empty() {
            rendered.insert("next-hop-address".into(), gateway.into());
        }
        rendered.insert("next-hop-interface".into(), interface.into());
        rendered.insert("table-id".into(), MAIN_TABLE.into());
        Some(rendered.into())
    }
}

/// The name of a link, or else its id.
fn name_of_link(link: &Value) -> &str {
    match text_field(link, "name") {
        "" => text_field(link, "id"),
        name => name,
    }
}

fn text_field<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn list_field<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The fields of a bond that are options of the kernel, by the names that the kernel has for them.
fn render_bond_options(bond: &Value) -> Map<String, Value> {
    let mut options = Map::new();
    for (key, value) in bond.as_object().into_iter().flatten() {
        let Some(name) = key.strip_prefix("bond_") else { continue };
        let is_given = !value.is_null() && value.as_str() != Some("");
        if is_given && !["mode", "links"].contains(&name) {
            options.insert(name.to_owned(), render_option(value));
        }
    }
    options
}

/// nmstate has the numbers of options as text.
fn render_option(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.to_string().into(),
        _ => value.clone(),
    }
}

/// None if the netmask of the network cannot be read.
fn render_address(network: &Value) -> Option<Value> {
    let prefix_length = parse_prefix_length(text_field(network, "netmask"))?;
    Some(json!({"ip": text_field(network, "ip_address"), "prefix-length": prefix_length}))
}

/// How many bits of a mask are set before the first that is not.
fn parse_prefix_length(mask: &str) -> Option<u32> {
    Some(match mask.parse::<IpAddr>().ok()? {
        IpAddr::V4(mask) => u32::from(mask).leading_ones(),
        IpAddr::V6(mask) => u128::from(mask).leading_ones(),
    })
}

/// The DNS servers of the whole machine, then those of its routes, each once.
fn dns_servers<'v>(network_data: &'v Value, networks: &'v [Value]) -> Vec<&'v str> {
    let routes = networks.iter().flat_map(|network| list_field(network, "routes"));
    let services_of_routes = routes.flat_map(|route| list_field(route, "services"));
    let mut servers = Vec::new();
    for service in list_field(network_data, "services").iter().chain(services_of_routes) {
        let address = text_field(service, "address");
        let is_dns = text_field(service, "type") == "dns";
        if is_dns && !address.is_empty() && !servers.contains(&address) {
            servers.push(address);
        }
    }
    servers
}
