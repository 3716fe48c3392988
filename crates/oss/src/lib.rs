//! # oss: the object server
//!
//! Owns   the targets that this process serves, the authorization of requests, the handling of a request for a target, the reports
//!        on the targets to the metadata server and the execution of its verdicts, the relay of writes to other object servers.
//! Never  knows names, users, directories; touches a disk except through `store::object`.
//! Enter  at `Oss::new`; requests of this process enter through `rpc::Service` (service.rs), those of other processes through
//!        `DataHandler`; reports start at `run_reports`.

mod authorization;
mod change_batch;
mod handler;
mod mirrored_write;
mod object_fences;
mod relay;
mod report;
mod service;
mod status;
mod targets;

pub use authorization::{Authorizer, AuthorizerStatus};
pub use handler::DataHandler;
pub use relay::WriteRelay;
pub use report::{OssReporter, VerifierReporter, run_reports};
pub use status::OssStatus;
pub use targets::{Oss, ServedTarget};
