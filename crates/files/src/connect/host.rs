//! The identity of this host.

use gupfs_platform::{Net, Platform};
use gupfs_rpc::{AuthKey, ProcessIdentity, TlsConfig};

/// The identity that all connections of this process share.
pub fn identity(
    platform: &Platform,
    key: Option<AuthKey>,
    tls: Option<TlsConfig>,
) -> ProcessIdentity {
    ProcessIdentity::new(platform, Net::real(), host_name(), key).with_tls(tls)
}

pub fn host_name() -> String {
    let host = rustix::system::uname();
    host.nodename().to_string_lossy().into_owned()
}

/// A number that all processes of this host share, different for other hosts: a hash of the machine id, or of the host name if there
/// is none.
pub fn host_number() -> u64 {
    let id = std::fs::read("/etc/machine-id").unwrap_or_default();
    let id = if id.is_empty() {
        host_name().into_bytes()
    } else {
        id
    };
    // FNV-1a: different hosts need different numbers, and nothing else.
    id.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
