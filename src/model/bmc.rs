//! The address of a host's management controller, in metal3's spellings. It never opens a
//! connection.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use url::{Host, Url};

use super::driver::Driver;

/// The port of IPMI over LAN, unless an address has another.
const IPMI_PORT: u16 = 623;
/// Schemes of IPMI. An address without a scheme is one of IPMI, too.
const IPMI_SCHEMES: [&str; 2] = ["ipmi", "libvirt"];
/// Schemes of Redfish. `+http` or `+https` may follow.
const REDFISH_SCHEMES: [&str; 7] = [
    "redfish",
    "redfish-virtualmedia",
    "redfish-uefihttp",
    "idrac-redfish",
    "idrac-virtualmedia",
    "ilo5-redfish",
    "ilo5-virtualmedia",
];
/// Paths that name no system, in lower case: the root of the service, and the list of its systems.
const PATHS_WITHOUT_SYSTEM: [&str; 3] = ["/redfish", "/redfish/v1", "/redfish/v1/systems"];
/// Privilege levels of IPMI, as `ipmitool -L` takes them.
const PRIVILEGES: [&str; 4] = ["ADMINISTRATOR", "OPERATOR", "USER", "CALLBACK"];

/// What `spec.bmc.address` of a host says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BmcAddress {
    Ipmi {
        /// Name or IP address. An IPv6 address has no brackets.
        host: String,
        port: u16,
        /// One of `PRIVILEGES`, if the address gives one.
        privilege: Option<String>,
    },
    Redfish {
        /// Scheme, host and port: `https://bmc:444`.
        origin: String,
        /// Path of the system; empty if the controller has only one.
        system: String,
    },
}

impl BmcAddress {
    /// The driver that talks to a controller at this address.
    pub fn driver(&self) -> Driver {
        match self {
            Self::Ipmi { .. } => Driver::Ipmi,
            Self::Redfish { .. } => Driver::Redfish,
        }
    }

    /// The controller and its system in one spelling, so that addresses can be compared. It is not
    /// for requests: controllers may tell upper from lower case in a path.
    pub fn canonical_name(&self) -> String {
        match self {
            Self::Ipmi { .. } => format!("ipmi://{self}").to_lowercase(),
            Self::Redfish { origin, system } => {
                let path = decode_percent_signs(system);
                let mut name = origin.clone();
                for segment in path.split('/').filter(|segment| !segment.is_empty()) {
                    name.push('/');
                    name.push_str(segment);
                }
                name.to_lowercase()
            }
        }
    }

    /// The IPv4 address that `spelling`, which this was read from, means without showing it: a
    /// number that begins with a zero is octal.
    pub fn hidden_ipv4(&self, spelling: &str) -> Option<Ipv4Addr> {
        let host = match self {
            Self::Ipmi { host, .. } => host.as_str(),
            Self::Redfish { origin, .. } => origin.split("://").nth(1)?.split(':').next()?,
        };
        let ip = host.parse().ok()?;
        if spelling.contains(host) { None } else { Some(ip) }
    }

    /// Whether it is plain HTTP, so that the network can read what is sent.
    pub fn is_unencrypted(&self) -> bool {
        matches!(self, Self::Redfish { origin, .. } if origin.starts_with("http:"))
    }
}

impl FromStr for BmcAddress {
    type Err = String;

    fn from_str(address: &str) -> Result<Self, String> {
        let (scheme, rest) = address.split_once("://").unwrap_or(("ipmi", address));
        let scheme = scheme.to_lowercase();
        if IPMI_SCHEMES.contains(&&*scheme) {
            let url = parse_url("ipmi", rest, address)?;
            let privilege = read_privilege(&url, address)?;
            if !matches!(url.path(), "" | "/") {
                return Err(format!(
                    "`{address}`: an IPMI address has no path; leave out `{}`",
                    url.path()
                ));
            }
            let port = url.port().unwrap_or(IPMI_PORT);
            return Ok(Self::Ipmi { host: read_host(&url, address)?, port, privilege });
        }
        let (flavour, transport) = scheme.split_once('+').unwrap_or((&scheme, "https"));
        if !REDFISH_SCHEMES.contains(&flavour) || !["http", "https"].contains(&transport) {
            return Err(format!(
                "`{address}`: `{scheme}` is not one of {}, {}",
                IPMI_SCHEMES.join(", "),
                REDFISH_SCHEMES.join(", ")
            ));
        }
        let url = parse_url(transport, rest, address)?;
        if url.query().is_some() {
            return Err(format!(
                "`{address}`: a Redfish address has no parameters; leave out the part from `?` on"
            ));
        }
        let host = read_host(&url, address)?;
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let origin = if host.contains(':') {
            format!("{transport}://[{host}]{port}")
        } else {
            format!("{transport}://{host}{port}")
        };
        let path = url.path().trim_end_matches('/');
        let names_no_system = PATHS_WITHOUT_SYSTEM.contains(&path.to_lowercase().as_str());
        let system = if names_no_system { String::new() } else { path.to_owned() };
        Ok(Self::Redfish { origin, system })
    }
}

fn parse_url(scheme: &str, rest: &str, address: &str) -> Result<Url, String> {
    let url = Url::parse(&format!("{scheme}://{rest}"))
        .map_err(|error| format!("`{address}` is not a valid address: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        // The message does not repeat the address, because there is a password in it.
        let problem = "the address contains a user or a password";
        return Err(format!("{problem}; they belong in the Secret of credentialsName"));
    }
    if url.fragment().is_some() {
        return Err(format!("`{address}`: the part from `#` on has no meaning; leave it out"));
    }
    Ok(url)
}

/// The host of an address in the one spelling that it is compared in, if it can be given to a
/// program: a name that begins with a dash would be taken for an option. Numbers are read as the
/// system's resolver reads them (`010` is octal), and an IPv4 address within IPv6 is that address.
fn read_host(url: &Url, address: &str) -> Result<String, String> {
    let spelling = url.host_str().unwrap_or_default().trim_end_matches('.');
    let host = match Host::parse(spelling) {
        Ok(Host::Ipv6(ipv6)) => match ipv6.to_ipv4_mapped() {
            Some(ipv4) => ipv4.to_string(),
            None => ipv6.to_string(),
        },
        Ok(host) => host.to_string(),
        Err(_) => String::new(),
    };
    let is_usable = !host.is_empty()
        && !host.starts_with('-')
        && host.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.:".contains(letter));
    if !is_usable {
        return Err(format!("`{address}` has no valid host name or IP address"));
    }
    Ok(host)
}

/// A path whose percent signs are decoded. One that begins no code stays as it is.
fn decode_percent_signs(path: &str) -> String {
    let mut pieces = path.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let code = piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some((byte, rest)) = code.zip(piece.get(2..)) {
            bytes.push(byte);
            bytes.extend_from_slice(rest.as_bytes());
        } else {
            bytes.push(b'%');
            bytes.extend_from_slice(piece.as_bytes());
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn read_privilege(url: &Url, address: &str) -> Result<Option<String>, String> {
    let mut privilege = None;
    for (name, value) in url.query_pairs() {
        let level = value.to_uppercase();
        if name != "privilegelevel" || !PRIVILEGES.contains(&&*level) {
            let levels = PRIVILEGES.join(", ");
            return Err(format!(
                "`{address}`: the only parameter is ?privilegelevel=, one of {levels}"
            ));
        }
        privilege = Some(level);
    }
    Ok(privilege)
}

/// The host and, for IPMI, the port, as programs take them; the origin for Redfish.
impl fmt::Display for BmcAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ipmi { host, port, .. } if host.contains(':') => write!(out, "[{host}]:{port}"),
            Self::Ipmi { host, port, .. } => write!(out, "{host}:{port}"),
            Self::Redfish { origin, .. } => out.write_str(origin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_metal3_is_read() {
        let system = "/redfish/v1/Systems/1";
        for (spelling, address) in [
            ("192.0.2.1", ipmi("192.0.2.1", 623, None)),
            ("bmc.example.com:6230", ipmi("bmc.example.com", 6230, None)),
            ("ipmi://192.0.2.1", ipmi("192.0.2.1", 623, None)),
            ("ipmi://192.0.2.1:80", ipmi("192.0.2.1", 80, None)),
            ("ipmi://[2001:db8::1]", ipmi("2001:db8::1", 623, None)),
            ("libvirt://192.0.2.1:6234/", ipmi("192.0.2.1", 6234, None)),
            ("ipmi://192.0.2.1?privilegelevel=operator", ipmi("192.0.2.1", 623, Some("OPERATOR"))),
            ("redfish://bmc/redfish/v1/Systems/1", redfish("https://bmc", system)),
            ("redfish+http://bmc:8000/redfish/v1/Systems/1", redfish("http://bmc:8000", system)),
            ("redfish+https://bmc/redfish/v1/Systems/1/", redfish("https://bmc", system)),
            ("redfish-virtualmedia://[2001:db8::1]", redfish("https://[2001:db8::1]", "")),
            ("redfish-virtualmedia+http://bmc/", redfish("http://bmc", "")),
            ("idrac-virtualmedia+https://bmc:444", redfish("https://bmc:444", "")),
            ("ilo5-virtualmedia://bmc", redfish("https://bmc", "")),
            ("idrac-redfish://bmc", redfish("https://bmc", "")),
            ("ilo5-redfish://bmc", redfish("https://bmc", "")),
            ("redfish-uefihttp://bmc", redfish("https://bmc", "")),
            ("redfish://bmc/redfish/v1/", redfish("https://bmc", "")),
            ("redfish://bmc/redfish/v1/Systems", redfish("https://bmc", "")),
            ("redfish://BMC.example.com.:443", redfish("https://bmc.example.com", "")),
            ("ipmi://010.0.0.1", ipmi("8.0.0.1", 623, None)),
            ("ipmi://[::ffff:192.0.2.1]", ipmi("192.0.2.1", 623, None)),
        ] {
            assert_eq!(spelling.parse::<BmcAddress>(), Ok(address), "{spelling}");
        }
    }

    #[test]
    fn all_spellings_of_a_controller_have_one_name() {
        for (spelling, same) in [
            ("redfish://010.0.0.1/redfish/v1/Systems/1", "redfish://8.0.0.1/redfish/v1/Systems/1"),
            ("redfish://[::ffff:192.0.2.1]", "redfish://192.0.2.1"),
            ("redfish://[::ffff:c000:201]:444", "redfish://192.0.2.1:444"),
            ("redfish://bmc.lab./redfish/v1/", "idrac-virtualmedia://BMC.lab"),
            (
                "redfish://b%6Dc/redfish/v1/Systems/a.1",
                "redfish://bmc/redfish/v1//systems/%61%2e1/",
            ),
            ("ipmi://BMC.lab.", "libvirt://bmc.l%61b:623"),
            ("010.0.0.1", "ipmi://8.0.0.1"),
            ("ipmi://[::ffff:192.0.2.1]", "192.0.2.1"),
        ] {
            let name = spelling.parse::<BmcAddress>().unwrap().canonical_name();
            assert_eq!(name, same.parse::<BmcAddress>().unwrap().canonical_name(), "{spelling}");
        }
    }

    #[test]
    fn an_octal_number_is_said() {
        for (spelling, hidden) in [
            ("ipmi://010.0.0.1", Some("8.0.0.1")),
            ("redfish+http://192.0.2.011:8000", Some("192.0.2.9")),
            ("redfish://192.0.2.1", None),
            ("redfish://[2001:db8::1]", None),
            ("redfish://[::ffff:192.0.2.1]", None),
            ("bmc.lab", None),
        ] {
            let address = spelling.parse::<BmcAddress>().unwrap();
            let ip = address.hidden_ipv4(spelling).map(|ip| ip.to_string());
            assert_eq!(ip.as_deref(), hidden, "{spelling}");
        }
    }

    fn ipmi(host: &str, port: u16, privilege: Option<&str>) -> BmcAddress {
        BmcAddress::Ipmi { host: host.into(), port, privilege: privilege.map(str::to_owned) }
    }

    fn redfish(origin: &str, system: &str) -> BmcAddress {
        BmcAddress::Redfish { origin: origin.into(), system: system.into() }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for (spelling, message) in [
            ("", "no valid host name"),
            ("-oProxyCommand=x", "no valid host name"),
            ("ipmi://", "no valid host name"),
            ("ipmi://$(touch x)", "not a valid address"),
            ("ipmi://a b", "not a valid address"),
            ("ipmi://bmc/system", "no path"),
            ("ipmi://bmc?cipher=3", "the only parameter is ?privilegelevel="),
            ("redfish+ftp://bmc", "is not one of"),
            ("drac://bmc", "is not one of"),
            ("redfish://bmc?x=y", "from `?` on"),
            ("redfish://bmc#x", "from `#` on"),
            ("redfish://bmc:70000", "not a valid address"),
        ] {
            let refused = spelling.parse::<BmcAddress>().unwrap_err();
            assert!(refused.contains(message), "{spelling}: {refused}");
        }
        let refused = "redfish://admin:hunter2@bmc".parse::<BmcAddress>().unwrap_err();
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}
