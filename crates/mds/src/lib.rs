//! # mds: the metadata server
//!
//! Owns   the driver of the shard machine: records in, batches out, recovery, chores; the registered targets; placement's ground;
//!        the sessions, and what is asked of those that hold files (`hear`, `holders`); the locks of programs (`locks`).
//! Never  touches file bytes beyond inline data, decides what an operation means.
//! Enter  at `Mds::start`; a request at `Core::answer` (request.rs), one try at the machine at `Core::drive` (drive.rs).

mod accept;
mod carry_out;
mod chores;
mod cluster;
mod core;
mod cuts;
mod drive;
mod entropy;
mod error;
mod fence;
mod grace;
mod hear;
mod holders;
pub mod limits;
mod lives;
mod locks;
mod mds;
mod newborn;
mod opens;
mod permit;
mod permits;
mod records;
mod recover;
mod request;
mod reserve;
mod service;
mod shard;
pub mod stats;
mod status;
mod survey;
pub mod targets;
mod terms;
mod together;
mod turns;
mod waits;

pub use chores::{PurgeStatus, UnfinishedStatus};
pub use error::StartError;
pub use holders::Back;
pub use mds::{Mds, Options};
pub use recover::RecoveryReport;
pub use shard::SessionInfo;
pub use status::{LogRoom, MdsState, MdsStatus, StoreStatus};
pub use survey::{Loss, Survey, Surveyed};
pub use waits::WaitStatus;
