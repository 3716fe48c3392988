//! # cluster: the processes of one file system, as this machine has them
//!
//! Owns   files of keys and the list of client keys, the site's certificates, which machine this is, where it may listen, a command's visit.
//! Never  takes part in an operation, speaks over a connection (crate `gupfs-rpc` does).
//! Enter  at `identity`, `listen`.

mod client_keys;
mod host;
mod key;
mod listen;
mod revoked;
mod survey;
mod tls;
mod visit;

pub use client_keys::{KeyList, KeyListFile, change_list};
pub use host::{host_name, host_number, identity};
pub use key::{read_cluster_key, read_key, write_client_key};
pub use listen::{BoundListener, CAPACITY_LEAST, capacity, listen, open_files};
pub use revoked::watch_revoked;
pub use survey::{SurveyContext, survey};
pub use tls::{TlsFlags, read_tls};
pub use visit::visit;

/// Where servers listen when nobody says otherwise.
pub const MDS_PORT: u16 = 7700;
pub const OSS_PORT: u16 = 7701;

/// "host" or "host:port", with the port that is meant when none is given.
pub fn with_port(address: &str, port: u16) -> String {
    let has_port = match address.rsplit_once(':') {
        // An IPv6 address in brackets may have a port after them; without brackets it has none.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_gets_the_usual_one() {
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
