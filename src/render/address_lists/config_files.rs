//! Lists of lines: /etc/hosts, and the configuration of dnsmasq.

use std::fmt::Write;

use super::{ListOptions, ListedAddress};

/// A line for each address with its names. A name without a dot keeps its short form, too.
pub fn hosts_file(addresses: &[ListedAddress], options: &ListOptions<'_>) -> String {
    let mut lines = String::new();
    for listed in addresses {
        let note = listed.note();
        let names = names_with_short_forms(listed, options);
        if !names.is_empty() {
            let address = listed.address.to_string();
            let _ = writeln!(lines, "{address:<15} {} # {note}", names.join(" "));
        }
        for wildcard in listed.wildcards() {
            // A hosts file has no wildcards. The line says which record a name server needs.
            let address = listed.address;
            let _ = writeln!(lines, "# no wildcards  {address} {wildcard} # {note}");
        }
    }
    lines
}

/// What dnsmasq reads from `--conf-file`. Addresses without a name and a MAC have nothing there.
pub fn dnsmasq_file(addresses: &[ListedAddress], options: &ListOptions<'_>) -> String {
    let mut lines = String::new();
    for listed in addresses {
        let address = listed.address;
        if !listed.comment.is_empty() {
            let _ = writeln!(lines, "# {}", listed.note());
        }
        let names = names_with_short_forms(listed, options);
        if !names.is_empty() {
            let _ = writeln!(lines, "host-record={},{address}", names.join(","));
        }
        for wildcard in listed.wildcards() {
            // dnsmasq answers with the address for the domain and all names below it.
            let domain = wildcard.trim_start_matches("*.");
            let _ = writeln!(lines, "address=/{domain}/{address}");
        }
        if let Some(mac) = &listed.mac {
            let client = if address.is_v4() { address.to_string() } else { format!("[{address}]") };
            let first_name = names.first().and_then(|name| name.split('.').next());
            let host_name = first_name.map(|name| format!(",{name}")).unwrap_or_default();
            let _ = writeln!(lines, "dhcp-host={mac},{client}{host_name}");
        }
    }
    lines
}

/// The full names of an address, and behind each the name as it was given, if that is shorter.
fn names_with_short_forms(listed: &ListedAddress, options: &ListOptions<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for name in listed.names.iter().filter(|name| !super::is_wildcard(name)) {
        for spelling in [options.full_name(name), name.clone()] {
            if !names.contains(&spelling) {
                names.push(spelling);
            }
        }
    }
    names
}
