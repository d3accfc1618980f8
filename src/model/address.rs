//! IP addresses of both families as one number, ranges of them, and subnets. It never knows which
//! addresses are leased.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// What is added to an IPv4 address to make its number: that of `::ffff:0:0/96`. IPv6 addresses of
/// this block are refused, so that each number is one address.
const IPV4_OFFSET: u128 = 0xffff << 32;

/// The two kinds of IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpFamily {
    V4,
    V6,
}

impl IpFamily {
    /// `IPv4` or `IPv6`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// How many bits an address has.
    pub fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

/// An IP address as a number. All spellings of one address are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addr(pub u128);

impl Addr {
    /// Whether it is an IPv4 address: IPv4 addresses have the numbers of `::ffff:0:0/96`.
    pub fn is_v4(self) -> bool {
        self.0 >> 32 == 0xffff
    }

    /// The family that the address belongs to.
    pub fn family(self) -> IpFamily {
        if self.is_v4() { IpFamily::V4 } else { IpFamily::V6 }
    }

    /// How many bits an address of its family has.
    pub fn bits(self) -> u8 {
        self.family().bits()
    }

    /// The last address of its family.
    #[must_use]
    pub fn last_of_family(self) -> Self {
        if self.is_v4() { Self(IPV4_OFFSET | 0xffff_ffff) } else { Self(u128::MAX) }
    }

    /// The address as the store has it: 4 or 6 for the family, then 4 or 16 bytes. Keys sort by
    /// family, then by address.
    pub fn to_key(self) -> Vec<u8> {
        let bytes = self.0.to_be_bytes();
        let mut key = Vec::new();
        if self.is_v4() {
            key.push(4);
            key.extend(&bytes[12..]);
        } else {
            key.push(6);
            key.extend(&bytes);
        }
        key
    }

    /// The address of a key. None if no address has this key.
    pub fn from_key(key: &[u8]) -> Option<Self> {
        let (family, bytes) = key.split_first()?;
        match (family, bytes.len()) {
            (4, 4) => {
                let bytes: [u8; 4] = bytes.try_into().ok()?;
                Some(Self(IPV4_OFFSET | u128::from(u32::from_be_bytes(bytes))))
            }
            (6, 16) => Some(Self(u128::from_be_bytes(bytes.try_into().ok()?))),
            _ => None,
        }
    }

    /// The address as a part of an object's name: `192-168-0-11`, `2001-db8--5`.
    pub fn to_dashed_text(self) -> String {
        self.to_string().replace([':', '.'], "-")
    }
}

impl FromStr for Addr {
    type Err = String;

    fn from_str(address: &str) -> Result<Self, String> {
        if let Ok(v4) = address.parse::<Ipv4Addr>() {
            return Ok(Self(IPV4_OFFSET | u128::from(u32::from(v4))));
        }
        // An IPv4 address inside of an IPv6 one is refused: `::ffff:1.2.3.4` and `::ffff:102:304`
        // would be two more spellings of `1.2.3.4`.
        if let Ok(v6) = address.parse::<Ipv6Addr>()
            && !address.contains('.')
            && !Self(u128::from(v6)).is_v4()
        {
            return Ok(Self(u128::from(v6)));
        }
        Err(format!("`{address}` is not a valid IP address"))
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
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Addr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let address = Cow::<str>::deserialize(deserializer)?;
        address.parse().map_err(de::Error::custom)
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

/// The addresses of one family from a first to a last one, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IpRange {
    pub start: Addr,
    pub end: Addr,
}

impl IpRange {
    /// The range of a single address.
    pub fn single(address: Addr) -> Self {
        Self { start: address, end: address }
    }

    /// Whether the address is in the range.
    pub fn contains(self, address: Addr) -> bool {
        address.is_v4() == self.start.is_v4() && (self.start..=self.end).contains(&address)
    }

    /// Whether the ranges have an address in common.
    pub fn overlaps(self, range: Self) -> bool {
        let is_same_family = self.start.is_v4() == range.start.is_v4();
        is_same_family && self.start <= range.end && range.start <= self.end
    }

    /// How many addresses it has. That of all IPv6 addresses is one too small, to fit in the type.
    pub fn address_count(self) -> u128 {
        self.end.0.saturating_sub(self.start.0).saturating_add(1)
    }

    /// What is left of the range without the addresses of others, in order.
    pub fn subtract(self, ranges: &[Self]) -> Vec<Self> {
        let mut removed: Vec<Self> =
            ranges.iter().copied().filter(|range| range.overlaps(self)).collect();
        removed.sort_unstable();
        let mut remaining = Vec::new();
        // The first address that is still to be looked at; none after the last address there is.
        let mut next = Some(self.start);
        for range in removed {
            let Some(start) = next else { break };
            if range.start > start {
                remaining.push(Self { start, end: Addr(range.start.0 - 1) });
            }
            next = range.end.0.checked_add(1).map(|after| Addr(after).max(start));
        }
        if let Some(start) = next
            && start <= self.end
        {
            remaining.push(Self { start, end: self.end });
        }
        remaining
    }
}

impl FromStr for IpRange {
    type Err = String;

    /// Reads `FIRST-LAST`, `ADDRESS` or `ADDRESS/LENGTH`.
    fn from_str(range: &str) -> Result<Self, String> {
        if let Some((start, end)) = range.split_once('-') {
            let start: Addr = start.trim().parse()?;
            let end: Addr = end.trim().parse()?;
            if start.is_v4() != end.is_v4() {
                return Err(format!("`{range}` contains both IPv4 and IPv6 addresses"));
            }
            if end < start {
                return Err(format!("`{range}`: end IP {end} is before start IP {start}"));
            }
            return Ok(Self { start, end });
        }
        if range.contains('/') {
            return Ok(range.parse::<Subnet>()?.to_range());
        }
        Ok(Self::single(range.parse()?))
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.start == self.end {
            return self.start.fmt(out);
        }
        write!(out, "{}-{}", self.start, self.end)
    }
}

/// A subnet together with the address that was written for it, whose host bits may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet(IpNet);

impl Subnet {
    /// The subnet that an address lies in. None if addresses of its family have fewer bits than the
    /// prefix.
    pub fn containing(address: Addr, prefix_length: u8) -> Option<Self> {
        IpNet::new(address.into(), prefix_length).ok().map(Self)
    }

    /// The address as it was written.
    pub fn written_address(self) -> Addr {
        self.0.addr().into()
    }

    /// The number of leading bits that all addresses of the subnet share: 0 to 32, or 0 to 128.
    pub fn prefix_length(self) -> u8 {
        self.0.prefix_len()
    }

    /// The first address, whose host bits are all 0.
    pub fn first_address(self) -> Addr {
        self.0.network().into()
    }

    /// Whether the address is in the subnet. Its network and broadcast addresses count, too.
    pub fn contains(self, address: Addr) -> bool {
        self.0.contains(&IpAddr::from(address))
    }

    /// Whether the subnet has no more than two addresses, as that of a point-to-point link. Machines
    /// may have both (RFC 3021, RFC 6164).
    pub fn is_link(self) -> bool {
        self.0.prefix_len() + 1 >= self.0.max_prefix_len()
    }

    /// Whether the subnet is a single address.
    pub fn is_single(self) -> bool {
        self.0.prefix_len() == self.0.max_prefix_len()
    }

    /// All addresses of the subnet.
    pub fn to_range(self) -> IpRange {
        IpRange { start: self.first_address(), end: self.0.broadcast().into() }
    }

    /// The addresses that no machine may have: that of the network, and for IPv4 the broadcast one.
    pub fn unusable_addresses(self) -> Vec<Addr> {
        match self.0 {
            _ if self.is_link() => Vec::new(),
            IpNet::V4(_) => vec![self.first_address(), self.to_range().end],
            IpNet::V6(_) => vec![self.first_address()],
        }
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(subnet: &str) -> Result<Self, String> {
        parse_subnet(subnet)
            .ok_or_else(|| format!("invalid Subnet \"{subnet}\": it is not ADDRESS/LENGTH"))
    }
}

/// Parses ADDRESS/LENGTH.
fn parse_subnet(subnet: &str) -> Option<Subnet> {
    let (address, length) = subnet.split_once('/')?;
    // The parser of numbers would take `+8` and `024`, too.
    if length.starts_with(['+', '0']) && length != "0" {
        return None;
    }
    Subnet::containing(address.parse().ok()?, length.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_many_spellings_and_some_texts_are_none() {
        for (spelling, canonical) in [
            ("192.168.0.1", "192.168.0.1"),
            ("2001:0db8:0000:0000:0000:0000:0000:0005", "2001:db8::5"),
            ("2001:DB8::5", "2001:db8::5"),
            ("::", "::"),
            ("::1", "::1"),
        ] {
            let address: Addr = spelling.parse().unwrap();
            assert_eq!(address.to_string(), canonical);
            assert_eq!(Addr::from_key(&address.to_key()), Some(address));
        }
        for spelling in [
            "192.168.00.1",
            "1.2.3",
            "::ffff:1.2.3.4",
            "::ffff:102:304",
            "fe80::1%eth0",
            "",
            "1.2.3.4 ",
        ] {
            assert!(spelling.parse::<Addr>().is_err(), "{spelling}");
        }
    }

    #[test]
    fn a_subnet_is_read_with_host_bits_and_in_one_spelling() {
        for (written, whole, reserved) in [
            ("10.0.0.7/24", "10.0.0.0-10.0.0.255", "10.0.0.0 10.0.0.255"),
            ("10.0.0.6/31", "10.0.0.6-10.0.0.7", ""),
            ("10.0.0.6/32", "10.0.0.6", ""),
            ("0.0.0.0/0", "0.0.0.0-255.255.255.255", "0.0.0.0 255.255.255.255"),
            ("2001:db8::5/64", "2001:db8::-2001:db8::ffff:ffff:ffff:ffff", "2001:db8::"),
            ("2001:db8::5/127", "2001:db8::4-2001:db8::5", ""),
            ("2001:db8::5/128", "2001:db8::5", ""),
            ("::/0", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::"),
        ] {
            let subnet: Subnet = written.parse().unwrap();
            assert_eq!(subnet.to_range().to_string(), whole, "{written}");
            let addresses: Vec<String> =
                subnet.unusable_addresses().iter().map(ToString::to_string).collect();
            assert_eq!(addresses.join(" "), reserved, "{written}");
            let written_again = format!("{}/{}", subnet.written_address(), subnet.prefix_length());
            assert_eq!(written_again, written);
        }
        for subnet in [
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
            let error = subnet.parse::<Subnet>().unwrap_err();
            assert_eq!(error, format!("invalid Subnet \"{subnet}\": it is not ADDRESS/LENGTH"));
        }
    }

    #[test]
    fn a_subnet_contains_addresses_of_its_family_only() {
        for (subnet, address, contains) in [
            ("10.0.0.7/24", "10.0.0.255", true),
            ("10.0.0.7/24", "10.0.1.0", false),
            ("0.0.0.0/0", "::a00:1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "10.0.0.1", false),
            ("::/64", "10.0.0.1", false),
        ] {
            let subnet: Subnet = subnet.parse().unwrap();
            let address: Addr = address.parse().unwrap();
            assert_eq!(subnet.contains(address), contains, "{subnet:?} {address}");
            assert_eq!(subnet.to_range().contains(address), contains, "{subnet:?} {address}");
        }
    }

    fn range(range: &str) -> IpRange {
        range.parse().unwrap()
    }

    #[test]
    fn ranges_lose_what_is_taken_out_of_them() {
        for (whole, removed, remaining) in [
            (
                "10.0.0.1-10.0.0.9",
                vec!["10.0.0.3", "10.0.0.5-10.0.0.6"],
                "10.0.0.1-10.0.0.2 10.0.0.4 10.0.0.7-10.0.0.9",
            ),
            ("10.0.0.1-10.0.0.9", vec!["10.0.0.0/24"], ""),
            (
                "10.0.0.1-10.0.0.9",
                vec!["10.0.0.0-10.0.0.4", "10.0.0.2-10.0.0.3"],
                "10.0.0.5-10.0.0.9",
            ),
            (
                "255.255.255.250-255.255.255.255",
                vec!["255.255.255.255"],
                "255.255.255.250-255.255.255.254",
            ),
            (
                "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                vec!["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
                "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe",
            ),
        ] {
            let removed: Vec<IpRange> = removed.into_iter().map(range).collect();
            let parts = range(whole).subtract(&removed);
            let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
            assert_eq!(parts.join(" "), remaining, "{whole}");
        }
    }
}
