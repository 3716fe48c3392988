//! The origin of a connection: the unit among which the server divides its limits.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// One IPv4 address or one IPv6 /64 prefix. A single host usually gets a whole /64 and can use any number of addresses in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Origin(OriginAddress);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum OriginAddress {
    V4([u8; 4]),
    V6([u8; 8]),
    /// A host of the simulated network.
    Named(String),
}

/// The network of an origin: the IPv4 /24 or IPv6 /48 prefix, which is the least that an organisation gets.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Network(OriginAddress);

impl Origin {
    /// The origin of "host:port".
    pub fn of(peer: &str) -> Origin {
        Origin(match peer.parse::<SocketAddr>() {
            Ok(address) => match address.ip().to_canonical() {
                IpAddr::V4(ip) => OriginAddress::V4(ip.octets()),
                IpAddr::V6(ip) => OriginAddress::V6(std::array::from_fn(|at| ip.octets()[at])),
            },
            Err(_) => OriginAddress::Named(peer.to_string()),
        })
    }

    pub(super) fn network(&self) -> Network {
        Network(match &self.0 {
            OriginAddress::V4([a, b, c, _]) => OriginAddress::V4([*a, *b, *c, 0]),
            OriginAddress::V6(part) => {
                let mut part = *part;
                part[6..].fill(0);
                OriginAddress::V6(part)
            }
            OriginAddress::Named(name) => OriginAddress::Named(name.clone()),
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            OriginAddress::V4([a, b, c, d]) => write!(f, "{a}.{b}.{c}.{d}"),
            OriginAddress::V6(part) => {
                let mut octets = [0; 16];
                octets[..8].copy_from_slice(part);
                write!(f, "{}/64", Ipv6Addr::from(octets))
            }
            OriginAddress::Named(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ports_of_an_address_and_all_addresses_of_a_64_prefix_are_one_origin() {
        for (peer, shown) in [
            ("10.1.2.3:4000", "10.1.2.3"),
            ("10.1.2.3:4001", "10.1.2.3"),
            ("[::ffff:10.1.2.3]:1", "10.1.2.3"),
            ("[2001:db8:1:2:3::4]:1", "2001:db8:1:2::/64"),
            ("[2001:db8:1:2:ffff::9]:1", "2001:db8:1:2::/64"),
            ("mds", "mds"),
        ] {
            assert_eq!(Origin::of(peer).to_string(), shown);
        }
        let network = |peer| Origin::of(peer).network();
        assert_eq!(network("10.1.2.3:1"), network("10.1.2.200:1"));
        assert_ne!(network("10.1.2.3:1"), network("10.1.3.3:1"));
        assert_eq!(network("[2001:db8:1:2::]:1"), network("[2001:db8:1:3::]:1"));
    }
}
