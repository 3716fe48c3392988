//! The addresses of servers.

use gupfs_rpc::ServerAddresses;
use std::sync::Arc;

/// The default ports of the servers.
pub const MDS_PORT: u16 = 7700;
pub const OSS_PORT: u16 = 7701;

/// Adds `port` to "host"; "host:port" stays.
pub fn with_port(address: &str, port: u16) -> String {
    let has_port = match address.rsplit_once(':') {
        // An IPv6 address has a port only after brackets.
        Some((host, last)) => {
            last.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
        }
        None => false,
    };
    match has_port {
        true => address.to_string(),
        false if address.contains(':') && !address.starts_with('[') => {
            format!("[{address}]:{port}")
        }
        false => format!("{address}:{port}"),
    }
}

/// The addresses of a metadata server, from "HOST[:PORT]" or several of them separated by commas. One is enough: it names the others.
pub fn mds_addresses(hosts: &str) -> Arc<ServerAddresses> {
    let hosts = hosts.split(',').map(str::trim);
    ServerAddresses::new(hosts.map(|host| with_port(host, MDS_PORT)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_gets_the_default_port() {
        for (given, full) in [
            ("node1", "node1:7700"),
            ("node1:9", "node1:9"),
            ("10.0.0.1", "10.0.0.1:7700"),
            ("fe80::1", "[fe80::1]:7700"),
            ("[fe80::1]", "[fe80::1]:7700"),
            ("[fe80::1]:9", "[fe80::1]:9"),
        ] {
            assert_eq!(with_port(given, 7700), full);
        }
    }
}
