//! # connect: how a host takes part in a cluster as a client
//!
//! Owns   files of keys and of TLS certificates, the identity of this host, addresses of servers, opening and ending a session over them.
//! Never  knows what the session is for: mounts and `ClusterFiles` use the same.
//! Enter  at `read_key`, `identity`, `DialedCluster::dial`.

mod addresses;
mod cluster_session;
mod host;
mod key;
mod setup_error;
mod tls;

pub use addresses::{MDS_PORT, OSS_PORT, mds_addresses, with_port};
pub use cluster_session::{ClusterSession, DialedCluster};
pub use host::{host_name, host_number, identity};
pub use key::{read_cluster_key, read_key, write_client_key};
pub use setup_error::{SetupError, SetupErrorKind};
pub use tls::{TlsOptions, check_private_key, read_tls};
