//! # cluster: what a process of this host needs to take part in a cluster
//!
//! Owns   the list of client keys, the flags of TLS, listening addresses, the request of a monitoring command.
//! Never  takes part in an operation, handles messages (crate `gupfs-rpc` does), reads keys and certificates (crate `gupfs-files` does).
//! Enter  at `identity`, `listen`.

mod client_keys;
mod etcd;
mod etcd_tls;
mod listen;
mod request;
mod revocation;
mod survey;
mod tls;

pub use client_keys::{KeyList, KeyListFile, change_list, replace_key_list};
pub use etcd::EtcdSettings;
#[cfg(not(feature = "etcd"))]
pub use etcd::built_without_etcd;
pub use gupfs_files::{
    MDS_PORT, OSS_PORT, host_name, host_number, identity, mds_addresses, read_cluster_key,
    read_key, with_port, write_client_key,
};
pub use listen::{BoundListener, CAPACITY_MIN, capacity, is_wildcard, listen, open_files};
pub use request::send_request;
pub use revocation::disconnect_revoked_keys;
pub use survey::{SurveyContext, survey};
pub use tls::{TlsFlags, read_tls};
