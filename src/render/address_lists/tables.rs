//! Tables of comma-separated values (RFC 4180): poolctl's own, and that of NetBox's import.

use super::{AddressUse, ListOptions, ListedAddress};

/// Everything that is known of each address. `ip import` reads the table again.
pub fn csv_table(addresses: &[ListedAddress]) -> String {
    let mut table = "address,prefix,namespace,pool,claim,dns_name,mac,cluster,host,gateway,\
                     dns_servers,since,until,comment\n"
        .to_owned();
    for listed in addresses {
        let network = &listed.network;
        let prefix = match network.prefix {
            0 => String::new(),
            prefix => prefix.to_string(),
        };
        let fields = [
            listed.address.to_string(),
            prefix,
            listed.namespace.clone(),
            listed.pool.clone(),
            listed.claim.clone(),
            listed.names.join(" "),
            listed.mac.clone().unwrap_or_default(),
            listed.cluster.clone().unwrap_or_default(),
            listed.host.clone().unwrap_or_default(),
            network.gateway.clone().unwrap_or_default(),
            network.dns_servers.join(" "),
            listed.since.map(|since| since.to_string()).unwrap_or_default(),
            listed.until.map(|until| until.to_string()).unwrap_or_default(),
            listed.comment.clone(),
        ];
        push_line(&mut table, &fields);
    }
    table
}

/// The columns of NetBox's import of IP addresses. NetBox wants a prefix with every address.
pub fn netbox_table(addresses: &[ListedAddress], options: &ListOptions<'_>) -> String {
    let mut table = "address,status,role,dns_name,description\n".to_owned();
    for listed in addresses {
        let prefix = match listed.network.prefix {
            0 => listed.address.bits(),
            prefix => prefix,
        };
        let role = match listed.address_use {
            AddressUse::Host => "",
            AddressUse::Vip => "vip",
        };
        let wildcards = listed.wildcards().map(str::to_owned);
        let name = listed.plain_names(options).into_iter().chain(wildcards).next();
        let fields = [
            format!("{}/{prefix}", listed.address),
            "active".to_owned(),
            role.to_owned(),
            name.unwrap_or_default(),
            listed.note(),
        ];
        push_line(&mut table, &fields);
    }
    table
}

fn push_line(table: &mut String, fields: &[String]) {
    let quoted: Vec<String> = fields.iter().map(|field| quote_field(field)).collect();
    *table += &quoted.join(",");
    table.push('\n');
}

/// A field in quotes if anything in it would end it.
fn quote_field(field: &str) -> String {
    if !field.contains([',', '"', '\n', '\r']) {
        return field.to_owned();
    }
    format!("\"{}\"", field.replace('"', "\"\""))
}
