//! # names: what POSIX promises about names, attributes and permissions
//!
//! Owns   the keys and records of a shard, every metadata operation (`ops/`, one file each), the background steps that
//!        finish what an operation began (`chores/`), placement of new files, and the rules of `gupfs check`.
//!        Which operation needs which right (`rights`). Beside the records: the locks of programs (`locks`).
//! Never  does I/O, knows a clock, waits, or keeps anything in memory that the records do not say (but for unused inode numbers,
//!        and locks).
//! Enter  at `Machine::apply`; for locks at `locks::Table::ask`.
//!
//! A driver calls `apply`; on `Step::Need` it fetches and calls again, from the start; on `Step::Done` it commits the batch,
//! answers when the newest batch that the view saw is committed, and does the `Work`. All records that an operation reads must
//! come from one view (committed batches and the staged ones), so `apply` and staging its batch happen under one lock.

mod acl;
pub mod check;
mod context;
mod digest;
mod format;
mod generations;
mod hash;
mod held;
mod key;
pub mod locks;
mod machine;
mod may;
mod newborn;
mod place;
mod placement;
mod protected;
mod purge;
mod record;
pub mod rights;
pub mod salvage;
mod step;
#[cfg(test)]
mod testing;
mod view;
mod xattr;

mod chores;
mod ops;

pub use acl::Acl;
pub use chores::ChoreOp;
pub use context::{Again, Context, Op};
pub use format::format;
pub use hash::Cookie;
pub use held::{NOT_ASKED, Words};
pub use key::{Key, KeyRange, Kind, Parsed, PurgeId};
pub use machine::Machine;
pub use record::{
    AcceptedLoss, BackLink, Body, Cutting, Directory, EndedLife, Entry, Essence, File, Format,
    Inode, KnownTarget, Link, Numbers, Orphan, Purge, PurgeWhat, Record, Reply, Ruled, Session,
    Unconfirmed, Undecodable, Usage, Writer, Xattr,
};
pub use step::{Batch, Effects, Known, Need, Records, Step, Work};
