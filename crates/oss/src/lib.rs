//! # oss: the object server
//!
//! Owns   the targets that this process serves, the authorization of requests, and the handling of a request for a target.
//! Never  knows names, users, directories; touches a disk except through `store::object`.
//! Enter  at `Oss::new`; requests of this process enter through `rpc::Service`, those of other processes through `DataHandler`.

mod authorization;
mod handler;
mod report;
mod service;
mod status;
mod targets;

pub use authorization::{Authorizer, AuthorizerStatus};
pub use handler::DataHandler;
pub use report::{OssReporter, VerifierReporter, run_reports};
pub use status::OssStatus;
pub use targets::{Oss, ServedTarget};
