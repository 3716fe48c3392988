//! # mds: the metadata server
//!
//! Owns   the driver of the shard's state machine (records in, batches out), recovery, the background tasks; the registered
//!        targets and the space that placement chooses by; the sessions, and the callbacks to sessions (`callback`, `glimpse`);
//!        the locks of programs (`locks`).
//! Never  touches file bytes beyond inline data, decides what an operation means.
//! Enter  at `Mds::start`; a request at `Core::handle_request` (request.rs), an operation at `Core::drive` (drive.rs).

mod accept_loss;
mod background;
mod callback;
mod capability_issuer;
mod cluster;
mod core;
mod drive;
mod entropy;
mod error;
mod fence;
mod glimpse;
mod grace;
mod issue;
mod join;
mod lease_queue;
pub mod limits;
mod locks;
mod mds;
mod new_files;
mod open_capabilities;
pub mod osts;
mod pending_truncates;
mod records;
mod recover;
mod request;
mod reserve;
mod run_truncate;
mod serve;
mod service;
mod session_expiry;
mod shard;
pub mod stats;
mod status;
mod survey;
mod verifiers;
mod waits;

pub use background::{PurgeStatus, UnfinishedStatus};
pub use callback::CallbackPeer;
pub use error::StartError;
pub use mds::{Mds, MdsOptions};
pub use recover::RecoveryReport;
pub use serve::MetaHandler;
pub use shard::SessionInfo;
pub use status::{LogRoom, MdsState, MdsStatus, StoreStatus};
pub use survey::{MetadataLoss, SurveyedTarget, TargetSurvey};
pub use waits::WaitStatus;
