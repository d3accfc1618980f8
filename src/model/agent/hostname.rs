//! Names that hosts may have in a cluster.

/// Names that every machine has for itself, so none of them can name a host in a cluster.
pub const DEFAULT_HOSTNAMES: [&str; 6] = [
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost4.localdomain4",
    "localhost6",
    "localhost6.localdomain6",
];

/// Whether a host may have this name in a cluster: a name in DNS of at most 63 characters, in lower
/// case, and not one that every machine has for itself.
pub fn is_valid_hostname(name: &str) -> bool {
    name.len() <= 63
        && !name.starts_with('-')
        && name.split('.').all(is_dns_label)
        && !DEFAULT_HOSTNAMES.contains(&name)
}

fn is_dns_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}
