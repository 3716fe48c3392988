//! # namespace: what POSIX promises about names, attributes and permissions
//!
//! Owns   the keys and records of a shard, every metadata operation (`ops/`, one file each), the background operations that
//!        finish what a client operation began (`background/`), placement of new files, the rules of `gupfs check`, and the
//!        check of each operation's access rule (`rights`). Beside the records: advisory file locks (`locks`), and the leases on
//!        metadata (`leases`).
//! Never  does I/O, reads a clock, waits, or keeps state in memory that is not in the records (except reserved inode numbers,
//!        locks, and leases).
//! Enter  at `ShardMachine::apply`; for locks at `locks::LockTable::request`; for leases at `leases::LeaseTable::grant`.
//!
//! A driver (the metadata server) calls `apply`. On `ApplyResult::Needs` it fetches what is missing and calls `apply` again, from
//! the start. On `ApplyResult::Done` it commits the batch, sends the reply when the newest batch that the operation read is
//! committed, and carries out the `FollowUp`s. All records that an operation reads must come from one state (committed batches
//! and the staged ones over them), so the driver calls `apply` and stages its batch under one lock.
//!
//! Layers, each of which uses only those above it:
//!
//! | modules | contents |
//! |---|---|
//! | `acl`, `key`, `record`, `hash`, `generations`, `placement`, `digest` | keys, values and pure functions of them |
//! | `driver`, `callbacks`, `open_rights`, `context`, `requester` | the driver's interface, and the inputs of an operation |
//! | `inode_numbers`, `view` | an operation reads records through `ReadView` and changes them through `OpView` |
//! | `permission`, `flag_checks`, `xattr`, `rights` | checks of access; they change nothing |
//! | `steps` | changes that several operations share |
//! | `ops`, `background` | the operations of clients and of the driver, each with the handles that it needs |
//! | `stored_reply`, `shard_machine` | one operation from its request to its effects |
//!
//! Beside them, `check` and `salvage` work on records without a view (`background` repairs with both), `initial_batch` makes the
//! first records, `locks` uses no record, and `leases` compares the records that a batch changes with those that it replaces.

mod acl;
mod background;
mod callbacks;
pub mod check;
mod context;
mod digest;
mod driver;
mod flag_checks;
mod generations;
mod hash;
mod initial_batch;
mod inode_numbers;
mod interest;
mod key;
pub mod leases;
pub mod locks;
mod open_rights;
mod ops;
mod permission;
mod placement;
mod record;
mod reply_leases;
mod requester;
pub mod rights;
pub mod salvage;
mod shard_machine;
mod steps;
mod stored_reply;
#[cfg(test)]
mod testing;
mod view;
mod xattr;

pub use acl::Acl;
pub use background::BackgroundOp;
pub use callbacks::CallbackResults;
pub use context::{OpContext, OriginalResult};
pub use driver::{
    ApplyResult, CachedRecord, Effects, FollowUp, LeaseCallback, Prerequisite, RecordBatch,
    RecordSource,
};
pub use generations::first_generation;
pub use hash::ReaddirCookie;
pub use initial_batch::initial_batch;
pub use interest::{Interest, InterestSet};
pub use key::{KeyRange, ParsedKey, PurgeId, RecordKey, RecordKind};
pub use permission::Protection;
pub use placement::{choose_layout, choose_move, choose_replacement, choose_replacement_of};
pub use record::{
    AcceptedCopy, AcceptedLoss, BackLink, DentryPosition, DirectoryBody, DirectoryDefaultLayout,
    DrainSettings, EntryRecord, FileBody, Inode, InodeBody, InodeCounter, KnownTarget, Orphan,
    Purge, PurgeAction, Rebalance, Record, RecordDecodeError, RecordedInterest, ReplySummary,
    RetiredVerifier, SessionRecord, StaleMembers, StoreFormat, StoredReply, UNASKED_SESSIONS,
    Unconfirmed, UnfinishedTruncate, Usage, WriteLease, WriteLeaseMode, XattrRecord,
};
pub use reply_leases::{LeasableKey, changed_attributes, leasable_keys};
pub use shard_machine::{Operation, ShardMachine};
