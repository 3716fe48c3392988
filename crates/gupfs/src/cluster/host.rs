//! Which machine this is.

use gupfs_platform::{Net, Platform};
use gupfs_rpc::{AuthKey, ProcessIdentity, TlsConfig};

/// This process of this machine.
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

/// The same for all processes of this machine, and another on others: made of its machine id, or else of its name.
pub fn host_number() -> u64 {
    let id = std::fs::read("/etc/machine-id").unwrap_or_default();
    let id = if id.is_empty() {
        host_name().into_bytes()
    } else {
        id
    };
    // FNV-1a: it only has to differ.
    id.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
