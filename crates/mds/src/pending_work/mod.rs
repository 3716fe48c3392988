//! # pending_work: what staged batches leave to do
//!
//! Owns   in memory: truncates that were promised, objects to remove, removed files that sessions may have open, whether files
//!        wait for a confirmation, sessions whose cleanup an OST delays; what scrubs have found; files whose layout is to change; the rebalance; how far
//!        the sweep is.
//! Never  does that work (`truncates`, `background`), or is the only place where it is known: the records say the same.
//! Enter  at the `add` of each; `ShardDriver` calls it at the moment when a batch is staged.

mod confirms;
mod conversions;
mod purges;
mod rebalances;
mod removed_files;
mod replacements;
mod resyncs;
mod scrubs;
mod sweeps;
mod truncates;
mod unfinished;

pub use confirms::{ConfirmProgress, ConfirmRound, ConfirmStatus};
pub use conversions::{ConversionQueue, ConversionStatus};
pub use purges::{ObjectRemoval, PurgeQueue, PurgeRequest, PurgeStatus};
pub use rebalances::RebalanceProgress;
pub use removed_files::{RemovedFile, RemovedFiles};
pub use replacements::{
    DrainEstimate, ReplacementProgress, ReplacementRound, ReplacementStatus, WalkedDrain,
};
pub use resyncs::{ResyncProgress, ResyncRound, RoundWork};
pub use scrubs::{DamagedObject, FileScrubbed, ScrubProgress, ScrubRate, ScrubStatus};
pub use sweeps::{SweepProgress, SweepStatus};
pub use truncates::{PendingTruncate, PendingTruncates};
pub use unfinished::{UnfinishedStatus, UnfinishedWork};
