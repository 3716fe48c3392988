//! # cluster: how the processes of one file system find and authenticate each other
//!
//! Owns   the identity of this process, connections to object servers, the checks on requests from other processes (session
//!        owner, root squash), an object server's reports on its targets and their write verifiers.
//! Never  takes part in an operation, reads a file, knows a configuration.
//! Enter  at `ProcessIdentity`, `OssConnections::new`, `MetaHandler::new`, `run_reports`.

mod callbacks;
mod handlers;
mod identity;
mod oss_connections;
mod report;
mod verifiers;

pub use callbacks::{ClientCallbacks, renew_after_reconnect};
pub use handlers::{ClusterHandler, MetaHandler};
pub use identity::ProcessIdentity;
pub use oss_connections::OssConnections;
pub use report::{OssReporter, run_reports};
pub use verifiers::VerifierReporter;
