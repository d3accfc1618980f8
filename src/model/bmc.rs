//! Where the management controller of a host is, in metal3's spellings.

use std::fmt;
use std::str::FromStr;

use url::{Host, Url};

use super::driver::Driver;

/// The port of RMCP+.
const IPMI: u16 = 623;
/// Schemes that are IPMI; an address without a scheme is, too.
const IPMIS: [&str; 2] = ["ipmi", "libvirt"];
/// Schemes that are Redfish; `+http` and `+https` may follow.
const REDFISHES: [&str; 7] = [
    "redfish",
    "redfish-virtualmedia",
    "redfish-uefihttp",
    "idrac-redfish",
    "idrac-virtualmedia",
    "ilo5-redfish",
    "ilo5-virtualmedia",
];
const PRIVILEGES: [&str; 4] = ["ADMINISTRATOR", "OPERATOR", "USER", "CALLBACK"];

/// `bmc.address`, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Ipmi {
        /// Name or address, an IPv6 one without brackets.
        host: String,
        port: u16,
        /// As ipmitool's -L takes it.
        privilege: Option<String>,
    },
    Redfish {
        /// Scheme, host and port.
        origin: String,
        /// Path of the system; empty for the only one.
        system: String,
    },
}

impl Address {
    pub fn driver(&self) -> Driver {
        match self {
            Self::Ipmi { .. } => Driver::Ipmi,
            Self::Redfish { .. } => Driver::Redfish,
        }
    }

    /// The one spelling of a controller and its system, whichever was given.
    pub fn controller(&self) -> String {
        match self {
            Self::Ipmi { .. } => format!("ipmi://{self}").to_lowercase(),
            Self::Redfish { origin, system } => format!("{origin}{system}"),
        }
    }

    /// Whether what is sent there can be read on the way.
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::Redfish { origin, .. } if origin.starts_with("http:"))
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("ipmi", text));
        let scheme = scheme.to_lowercase();
        if IPMIS.contains(&&*scheme) {
            let url = parsed("ipmi", rest, text)?;
            let privilege = privilege(&url, text)?;
            if !matches!(url.path(), "" | "/") {
                return Err(format!("`{text}`: IPMI has no paths, `{}` leads nowhere", url.path()));
            }
            let port = url.port().unwrap_or(IPMI);
            return Ok(Self::Ipmi { host: host(&url, text)?, port, privilege });
        }
        let (flavour, transport) = scheme.split_once('+').unwrap_or((&scheme, "https"));
        if !REDFISHES.contains(&flavour) || !["http", "https"].contains(&transport) {
            return Err(format!(
                "`{text}`: `{scheme}` is not one of {}, {}",
                IPMIS.join(", "),
                REDFISHES.join(", ")
            ));
        }
        let url = parsed(transport, rest, text)?;
        if url.query().is_some() {
            return Err(format!("`{text}`: what follows the `?` means nothing to Redfish"));
        }
        host(&url, text)?;
        let origin = url.origin().ascii_serialization();
        Ok(Self::Redfish { origin, system: url.path().trim_end_matches('/').to_owned() })
    }
}

fn parsed(scheme: &str, rest: &str, text: &str) -> Result<Url, String> {
    let url = Url::parse(&format!("{scheme}://{rest}"));
    let url = url.map_err(|error| format!("`{text}` is no address: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        // Not said again: it has a secret in it.
        return Err("the address has a user in it: credentialsName says who".into());
    }
    if url.fragment().is_some() {
        return Err(format!("`{text}`: what follows the `#` means nothing here"));
    }
    Ok(url)
}

fn host(url: &Url, text: &str) -> Result<String, String> {
    let found = match url.host() {
        Some(Host::Ipv6(address)) => return Ok(address.to_string()),
        Some(found) => found.to_string(),
        None => String::new(),
    };
    let usable = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if found.is_empty() || found.starts_with('-') || !found.chars().all(usable) {
        return Err(format!("`{text}` has no usable host"));
    }
    Ok(found.trim_end_matches('.').to_owned())
}

fn privilege(url: &Url, text: &str) -> Result<Option<String>, String> {
    let mut found = None;
    for (name, value) in url.query_pairs() {
        let value = value.to_uppercase();
        if name != "privilegelevel" || !PRIVILEGES.contains(&&*value) {
            let known = PRIVILEGES.join(", ");
            return Err(format!("`{text}`: only ?privilegelevel= is known, one of {known}"));
        }
        found = Some(value);
    }
    Ok(found)
}

impl fmt::Display for Address {
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
        let ipmi = |host: &str, port, privilege: Option<&str>| {
            Ok(Address::Ipmi { host: host.into(), port, privilege: privilege.map(str::to_owned) })
        };
        let redfish = |origin: &str, system: &str| {
            Ok(Address::Redfish { origin: origin.into(), system: system.into() })
        };
        let one = "/redfish/v1/Systems/1";
        for (text, means) in [
            ("192.0.2.1", ipmi("192.0.2.1", 623, None)),
            ("bmc.example.com:6230", ipmi("bmc.example.com", 6230, None)),
            ("ipmi://192.0.2.1", ipmi("192.0.2.1", 623, None)),
            ("ipmi://192.0.2.1:80", ipmi("192.0.2.1", 80, None)),
            ("ipmi://[2001:db8::1]", ipmi("2001:db8::1", 623, None)),
            ("libvirt://192.0.2.1:6234/", ipmi("192.0.2.1", 6234, None)),
            ("ipmi://192.0.2.1?privilegelevel=operator", ipmi("192.0.2.1", 623, Some("OPERATOR"))),
            ("redfish://bmc/redfish/v1/Systems/1", redfish("https://bmc", one)),
            ("redfish+http://bmc:8000/redfish/v1/Systems/1", redfish("http://bmc:8000", one)),
            ("redfish+https://bmc/redfish/v1/Systems/1/", redfish("https://bmc", one)),
            ("redfish-virtualmedia://[2001:db8::1]", redfish("https://[2001:db8::1]", "")),
            ("redfish-virtualmedia+http://bmc/", redfish("http://bmc", "")),
            ("idrac-virtualmedia+https://bmc:444", redfish("https://bmc:444", "")),
            ("ilo5-virtualmedia://bmc", redfish("https://bmc", "")),
            ("idrac-redfish://bmc", redfish("https://bmc", "")),
            ("ilo5-redfish://bmc", redfish("https://bmc", "")),
            ("redfish-uefihttp://bmc", redfish("https://bmc", "")),
        ] {
            assert_eq!(text.parse::<Address>(), means, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for (text, why) in [
            ("", "no usable host"),
            ("-oProxyCommand=x", "no usable host"),
            ("ipmi://", "no usable host"),
            ("ipmi://$(touch x)", "no address"),
            ("ipmi://a b", "no address"),
            ("ipmi://bmc/system", "no paths"),
            ("ipmi://bmc?cipher=3", "only ?privilegelevel="),
            ("redfish+ftp://bmc", "is not one of"),
            ("drac://bmc", "is not one of"),
            ("redfish://bmc?x=y", "follows the `?`"),
            ("redfish://bmc#x", "follows the `#`"),
            ("redfish://bmc:70000", "no address"),
        ] {
            let refused = text.parse::<Address>().unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        let refused = "redfish://admin:hunter2@bmc".parse::<Address>().unwrap_err();
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}
