//! IP addresses of both families as one number, stretches of them, and subnets. It never knows which
//! of them are leased.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Where IPv4 lies among the numbers. IPv6 addresses from there are not taken.
const MAPPED: u128 = 0xffff << 32;

/// An address. However it was spelled, it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addr(pub u128);

impl Addr {
    pub fn is_v4(self) -> bool {
        self.0 >> 32 == 0xffff
    }

    /// Bits of an address of its family.
    pub fn bits(self) -> u8 {
        if self.is_v4() { 32 } else { 128 }
    }

    /// The last address of its family.
    #[must_use]
    pub fn last(self) -> Self {
        if self.is_v4() { Self(MAPPED | 0xffff_ffff) } else { Self(u128::MAX) }
    }

    /// As the store has it: the family before the bytes, so that order is kept.
    pub fn key(self) -> Vec<u8> {
        let bytes = self.0.to_be_bytes();
        let (family, from) = if self.is_v4() { (4, 12) } else { (6, 0) };
        let mut key = vec![family];
        key.extend(bytes.iter().skip(from));
        key
    }

    pub fn from_key(key: &[u8]) -> Option<Self> {
        let (family, bytes) = key.split_first()?;
        match (family, bytes.len()) {
            (4, 4) => {
                let bytes: [u8; 4] = bytes.try_into().ok()?;
                Some(Self(MAPPED | u128::from(u32::from_be_bytes(bytes))))
            }
            (6, 16) => Some(Self(u128::from_be_bytes(bytes.try_into().ok()?))),
            _ => None,
        }
    }

    /// As part of a name: `192-168-0-11`, `2001-db8--5`.
    pub fn dashed(self) -> String {
        self.to_string().replace([':', '.'], "-")
    }
}

impl FromStr for Addr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(found) = text.parse::<Ipv4Addr>() {
            return Ok(Self(MAPPED | u128::from(u32::from(found))));
        }
        // An IPv4 address inside an IPv6 one has two spellings too many.
        let found = text.parse::<Ipv6Addr>().ok().filter(|_| !text.contains('.'));
        let found = found.map(|found| Self(u128::from(found))).filter(|found| !found.is_v4());
        found.ok_or_else(|| format!("`{text}` is not a valid IP address"))
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(*self).fmt(out)
    }
}

impl From<Addr> for IpAddr {
    fn from(address: Addr) -> Self {
        Ipv6Addr::from(address.0).to_canonical()
    }
}

impl From<IpAddr> for Addr {
    fn from(address: IpAddr) -> Self {
        let address = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        Self(u128::from(address))
    }
}

impl Serialize for Addr {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Addr {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Addr {
    fn schema_name() -> Cow<'static, str> {
        "Address".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string"})
    }
}

/// Addresses from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stretch {
    pub start: Addr,
    pub end: Addr,
}

impl Stretch {
    pub fn one(address: Addr) -> Self {
        Self { start: address, end: address }
    }

    pub fn has(self, address: Addr) -> bool {
        address.is_v4() == self.start.is_v4() && (self.start..=self.end).contains(&address)
    }

    pub fn meets(self, other: Self) -> bool {
        let one_family = self.start.is_v4() == other.start.is_v4();
        one_family && self.start <= other.end && other.start <= self.end
    }

    /// How many; of all IPv6 addresses one less.
    pub fn size(self) -> u128 {
        self.end.0.saturating_sub(self.start.0).saturating_add(1)
    }

    /// What is left of it without these.
    pub fn without(self, all: &[Self]) -> Vec<Self> {
        let mut gone: Vec<Self> = all.iter().copied().filter(|one| one.meets(self)).collect();
        gone.sort_unstable();
        let (mut left, mut from) = (Vec::new(), Some(self.start));
        for one in gone {
            let Some(start) = from else { break };
            if one.start > start {
                left.push(Self { start, end: Addr(one.start.0 - 1) });
            }
            from = one.end.0.checked_add(1).map(|next| Addr(next).max(start));
        }
        left.extend(from.filter(|start| *start <= self.end).map(|start| Self { start, ..self }));
        left
    }
}

impl FromStr for Stretch {
    type Err = String;

    /// `A-B`, `A` or `A/LENGTH`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((start, end)) = text.split_once('-') {
            let (start, end): (Addr, Addr) = (start.trim().parse()?, end.trim().parse()?);
            if start.is_v4() != end.is_v4() {
                return Err(format!("`{text}` is of mixed IP families"));
            }
            if end < start {
                return Err(format!("`{text}`: end IP {end} is before start IP {start}"));
            }
            return Ok(Self { start, end });
        }
        if text.contains('/') {
            return Ok(text.parse::<Subnet>()?.whole());
        }
        Ok(Self::one(text.parse()?))
    }
}

impl fmt::Display for Stretch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.start == self.end {
            return self.start.fmt(out);
        }
        write!(out, "{}-{}", self.start, self.end)
    }
}

/// A subnet with the address as it was written, whose host bits may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet(IpNet);

impl Subnet {
    /// The subnet of an address; none if addresses of its family have fewer bits than its prefix.
    pub fn around(address: Addr, prefix_length: u8) -> Option<Self> {
        IpNet::new(address.into(), prefix_length).ok().map(Self)
    }

    /// The address as it was written.
    pub fn written(self) -> Addr {
        self.0.addr().into()
    }

    pub fn prefix_length(self) -> u8 {
        self.0.prefix_len()
    }

    /// Its first address, which has no host bits.
    pub fn first(self) -> Addr {
        self.0.network().into()
    }

    pub fn contains(self, address: Addr) -> bool {
        self.0.contains(&IpAddr::from(address))
    }

    /// Whether it has one address or two. Those of a link are both a machine's: RFC 3021, RFC 6164.
    pub fn is_link(self) -> bool {
        self.0.prefix_len() + 1 >= self.0.max_prefix_len()
    }

    /// Whether it is one address.
    pub fn is_single(self) -> bool {
        self.0.prefix_len() == self.0.max_prefix_len()
    }

    /// From its first to its last address.
    pub fn whole(self) -> Stretch {
        Stretch { start: self.first(), end: self.0.broadcast().into() }
    }

    /// Those that no machine has: the network's own, and for IPv4 the broadcast.
    pub fn reserved(self) -> Vec<Addr> {
        match self.0 {
            _ if self.is_link() => Vec::new(),
            IpNet::V4(_) => vec![self.first(), self.whole().end],
            IpNet::V6(_) => vec![self.first()],
        }
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("invalid Subnet \"{text}\": ADDRESS/LENGTH makes one");
        let (written, length) = text.split_once('/').ok_or_else(wrong)?;
        let written: Addr = written.parse().map_err(|_| wrong())?;
        let plain = !length.starts_with(['+', '0']) || length == "0";
        let length: u8 = length.parse().map_err(|_| wrong())?;
        Self::around(written, length).filter(|_| plain).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_many_spellings_and_some_texts_are_none() {
        for (text, means) in [
            ("192.168.0.1", "192.168.0.1"),
            ("2001:0db8:0000:0000:0000:0000:0000:0005", "2001:db8::5"),
            ("2001:DB8::5", "2001:db8::5"),
            ("::", "::"),
            ("::1", "::1"),
        ] {
            let found: Addr = text.parse().unwrap();
            assert_eq!(found.to_string(), means);
            assert_eq!(Addr::from_key(&found.key()), Some(found));
        }
        for text in [
            "192.168.00.1",
            "1.2.3",
            "::ffff:1.2.3.4",
            "::ffff:102:304",
            "fe80::1%eth0",
            "",
            "1.2.3.4 ",
        ] {
            assert!(text.parse::<Addr>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_subnet_is_read_with_host_bits_and_in_one_spelling() {
        for (text, whole, reserved) in [
            ("10.0.0.7/24", "10.0.0.0-10.0.0.255", "10.0.0.0 10.0.0.255"),
            ("10.0.0.6/31", "10.0.0.6-10.0.0.7", ""),
            ("10.0.0.6/32", "10.0.0.6", ""),
            ("0.0.0.0/0", "0.0.0.0-255.255.255.255", "0.0.0.0 255.255.255.255"),
            ("2001:db8::5/64", "2001:db8::-2001:db8::ffff:ffff:ffff:ffff", "2001:db8::"),
            ("2001:db8::5/127", "2001:db8::4-2001:db8::5", ""),
            ("2001:db8::5/128", "2001:db8::5", ""),
            ("::/0", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::"),
        ] {
            let subnet: Subnet = text.parse().unwrap();
            assert_eq!(subnet.whole().to_string(), whole, "{text}");
            let addresses: Vec<String> =
                subnet.reserved().iter().map(ToString::to_string).collect();
            assert_eq!(addresses.join(" "), reserved, "{text}");
            let written = format!("{}/{}", subnet.written(), subnet.prefix_length());
            assert_eq!(written, text);
        }
        for text in [
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/024",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "10.0.0.0/255.0.0.0",
            "2001:db8::/129",
            "::ffff:10.0.0.0/104",
            "10.0.0.0/8/8",
        ] {
            let error = text.parse::<Subnet>().unwrap_err();
            assert_eq!(error, format!("invalid Subnet \"{text}\": ADDRESS/LENGTH makes one"));
        }
    }

    #[test]
    fn a_subnet_contains_addresses_of_its_family_only() {
        for (text, address, contains) in [
            ("10.0.0.7/24", "10.0.0.255", true),
            ("10.0.0.7/24", "10.0.1.0", false),
            ("0.0.0.0/0", "::a00:1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "10.0.0.1", false),
            ("::/64", "10.0.0.1", false),
        ] {
            let subnet: Subnet = text.parse().unwrap();
            let address: Addr = address.parse().unwrap();
            assert_eq!(subnet.contains(address), contains, "{text} {address}");
            assert_eq!(subnet.whole().has(address), contains, "{text} {address}");
        }
    }

    #[test]
    fn stretches_lose_what_is_taken_out_of_them() {
        let stretch = |text: &str| text.parse::<Stretch>().unwrap();
        let left = |from: &str, all: &[&str]| {
            let all: Vec<Stretch> = all.iter().map(|one| stretch(one)).collect();
            stretch(from)
                .without(&all)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            left("10.0.0.1-10.0.0.9", &["10.0.0.3", "10.0.0.5-10.0.0.6"]),
            "10.0.0.1-10.0.0.2 10.0.0.4 10.0.0.7-10.0.0.9"
        );
        assert_eq!(left("10.0.0.1-10.0.0.9", &["10.0.0.0/24"]), "");
        assert_eq!(
            left("10.0.0.1-10.0.0.9", &["10.0.0.0-10.0.0.4", "10.0.0.2-10.0.0.3"]),
            "10.0.0.5-10.0.0.9"
        );
        assert_eq!(
            left("255.255.255.250-255.255.255.255", &["255.255.255.255"]),
            "255.255.255.250-255.255.255.254"
        );
        assert_eq!(
            left(
                "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                &["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]
            ),
            "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"
        );
    }
}
