//! # mds: the metadata server
//!
//! Owns   the driver of the shard's state machine (records in, batches out), recovery, the background tasks; the registered
//!        targets and the space that placement chooses by; the sessions, and the callbacks to sessions (`callback`, `glimpse`);
//!        the locks of programs (`locks`), the leases on metadata (`metadata_leases`).
//! Never  touches file bytes beyond inline data, decides what an operation means.
//! Enter  at `Mds::start`; a request at `RequestHandler::handle_request` (request.rs), an operation at `OperationDriver::drive`
//!        (drive.rs). `parts/mod.rs` shows which part uses which.

mod access_check;
mod background;
mod callback;
mod capabilities;
mod capability_replies;
mod client_operation;
mod conversion;
mod drain_room;
mod drive;
mod error;
mod glimpse;
mod grace;
mod in_flight;
mod inode_numbers;
mod interest_records;
mod join;
pub mod limits;
mod locks;
mod lost_files;
mod mds;
mod metadata_leases;
mod mirrors;
mod options;
mod origin;
pub mod osts;
mod parts;
mod pending_work;
mod placement;
mod rebalance;
mod recover;
mod replay;
mod request;
mod reserve;
mod restarted_targets;
mod scrub;
mod serve;
mod service;
mod serving;
mod session_end;
mod session_registry;
mod shard;
mod shard_driver;
mod start;
pub mod stats;
mod status;
mod stopping_targets;
mod store;
mod successor;
mod survey;
mod target_records;
mod truncates;
mod waits;
mod write_leases;
mod writer_recovery;

pub use callback::CallbackPeer;
pub use error::StartError;
pub use mds::Mds;
pub use metadata_leases::LeaseStatus;
pub use options::MdsOptions;
pub use pending_work::{PurgeStatus, UnfinishedStatus};
pub use recover::RecoveryReport;
pub use reserve::allows_growth;
pub use serve::MetaHandler;
pub use shard::SessionInfo;
pub use status::{LogRoom, MdsState, MdsStatus, StoreStatus};
pub use successor::Successor;
pub use survey::{MetadataLoss, SurveyedTarget, TargetSurvey};
pub use waits::WaitStatus;
