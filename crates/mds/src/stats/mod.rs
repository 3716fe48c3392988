//! # stats: what the metadata server has done, and how long it took
//!
//! Owns   counters and latency histograms, one of each an operation.
//! Never  locks, allocates while counting, or decides anything.
//! Enter  at `Stats::finished`; readers at `Stats::snapshot`.

mod histogram;

pub use histogram::{Histogram, HistogramSnapshot};

use gupfs_proto::meta::Op;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The operations in alphabetical order, so that a name is found by halving; the last counts what is not in the list.
const NAMES: [&str; 39] = [
    "access",
    "begin_write",
    "chore",
    "close_session",
    "create",
    "end_write",
    "forgotten",
    "get_layout_rule",
    "getattr",
    "getxattr",
    "kill_privileges",
    "link",
    "listxattr",
    "lock",
    "lookup",
    "lookup_parent",
    "mkdir",
    "mknod",
    "open",
    "open_session",
    "permit",
    "readdir",
    "readlink",
    "removexattr",
    "rename",
    "renew",
    "rmdir",
    "set_layout_rule",
    "setattr",
    "setxattr",
    "spilled",
    "statfs",
    "symlink",
    "sync",
    "tmpfile",
    "truncate",
    "unlink",
    "write_inline",
    "~other",
];

/// Which counters an operation has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind(usize);

impl Kind {
    /// The metadata server's own work through the machine: purges, cuts, recoveries.
    pub fn chore() -> Kind {
        Kind::named("chore")
    }

    pub fn of(op: &Op) -> Kind {
        Kind::named(op.name())
    }

    fn named(name: &str) -> Kind {
        Kind(NAMES.binary_search(&name).unwrap_or(NAMES.len() - 1))
    }

    pub fn name(self) -> &'static str {
        NAMES[self.0]
    }
}

/// What happened since the start. Counting takes no lock.
pub struct Stats {
    ops: [OpStats; NAMES.len()],
    /// Rounds in which an operation asked for records that were not in memory.
    pub fetch_rounds: AtomicU64,
    /// Blocks of inode numbers reserved.
    pub number_blocks: AtomicU64,
    /// Changes that a power cut undid and clients said again.
    pub made_again: AtomicU64,
    /// Objects removed at OSTs.
    pub objects_removed: AtomicU64,
}

#[derive(Default)]
struct OpStats {
    refused: AtomicU64,
    latency: Histogram,
}

/// One operation's numbers at a moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct OpSnapshot {
    pub op: &'static str,
    /// Finished, the refused ones among them.
    pub done: u64,
    pub refused: u64,
    pub latency: HistogramSnapshot,
}

impl Default for Stats {
    fn default() -> Stats {
        Stats {
            ops: std::array::from_fn(|_| OpStats::default()),
            fetch_rounds: AtomicU64::new(0),
            number_blocks: AtomicU64::new(0),
            made_again: AtomicU64::new(0),
            objects_removed: AtomicU64::new(0),
        }
    }
}

impl Stats {
    pub fn finished(&self, kind: Kind, took: Duration, refused: bool) {
        let op = &self.ops[kind.0];
        op.latency.record(took);
        if refused {
            op.refused.fetch_add(1, Relaxed);
        }
    }

    /// The operations that occurred, in alphabetical order.
    pub fn snapshot(&self) -> Vec<OpSnapshot> {
        NAMES
            .iter()
            .zip(&self.ops)
            .map(|(name, op)| {
                let latency = op.latency.snapshot();
                OpSnapshot {
                    op: name,
                    done: latency.count,
                    refused: op.refused.load(Relaxed),
                    latency,
                }
            })
            .filter(|op| op.done > 0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::InodeId;

    #[test]
    fn the_names_are_in_order_so_that_halving_finds_them() {
        assert!(NAMES.is_sorted());
        for name in NAMES {
            assert_eq!(Kind::named(name).name(), name);
        }
    }

    #[test]
    fn an_operation_counts_under_its_own_name() {
        let ino = InodeId::ROOT;
        for op in [
            Op::StatFs,
            Op::GetAttr { ino },
            Op::CloseSession,
            Op::KillPrivileges { ino },
        ] {
            assert_eq!(Kind::of(&op).name(), op.name());
        }
    }

    #[test]
    fn only_what_occurred_is_told() {
        let stats = Stats::default();
        stats.finished(Kind::named("mkdir"), Duration::from_micros(5), false);
        stats.finished(Kind::named("mkdir"), Duration::from_micros(6), true);
        let told = stats.snapshot();
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].op, told[0].done, told[0].refused), ("mkdir", 2, 1));
    }
}
