//! # stats: what the metadata server has done, and how long it took
//!
//! Owns   counters and latency histograms, one of each per operation.
//! Never  locks, allocates while counting, or decides anything.
//! Enter  at `MdsStats::finished`; readers at `MdsStats::snapshot`.

mod histogram;

pub use histogram::{HistogramSnapshot, LatencyHistogram};

use gupfs_proto::meta::MetaOp;
use gupfs_proto::operations::OperationKind;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const KINDS: usize = OperationKind::ALL.len();

/// The index of an operation's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpKind(usize);

impl OpKind {
    /// Kinds with one name have one counter.
    pub fn of(op: &MetaOp) -> OpKind {
        match op.kind() {
            OperationKind::OpenTmpFile => OpKind(OperationKind::TmpFile as usize),
            kind => OpKind(kind as usize),
        }
    }

    pub fn name(self) -> &'static str {
        OperationKind::ALL[self.0].name()
    }
}

/// Counts since the start. Counting takes no lock.
pub struct MdsStats {
    ops: [OpCounters; KINDS],
    /// Rounds in which an operation fetched records that were not in memory.
    pub fetch_rounds: AtomicU64,
    /// Blocks of inode numbers reserved.
    pub number_blocks: AtomicU64,
    /// Changes that a power loss undid and clients replayed.
    pub replayed_changes: AtomicU64,
    /// Objects removed at OSTs.
    pub objects_removed: AtomicU64,
}

#[derive(Default)]
struct OpCounters {
    refused: AtomicU64,
    latency: LatencyHistogram,
}

/// One operation's counts at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct OpSnapshot {
    pub op: &'static str,
    /// Finished operations, refused ones among them.
    pub done: u64,
    pub refused: u64,
    pub latency: HistogramSnapshot,
}

impl Default for MdsStats {
    fn default() -> MdsStats {
        MdsStats {
            ops: std::array::from_fn(|_| OpCounters::default()),
            fetch_rounds: AtomicU64::new(0),
            number_blocks: AtomicU64::new(0),
            replayed_changes: AtomicU64::new(0),
            objects_removed: AtomicU64::new(0),
        }
    }
}

impl MdsStats {
    pub fn finished(&self, kind: OpKind, took: Duration, refused: bool) {
        let op = &self.ops[kind.0];
        op.latency.record(took);
        if refused {
            op.refused.fetch_add(1, Relaxed);
        }
    }

    /// The operations that occurred, in alphabetical order.
    pub fn snapshot(&self) -> Vec<OpSnapshot> {
        let mut ops: Vec<OpSnapshot> = self
            .ops
            .iter()
            .enumerate()
            .map(|(index, op)| {
                let latency = op.latency.snapshot();
                OpSnapshot {
                    op: OpKind(index).name(),
                    done: latency.count,
                    refused: op.refused.load(Relaxed),
                    latency,
                }
            })
            .filter(|op| op.done > 0)
            .collect();
        ops.sort_unstable_by_key(|op| op.op);
        ops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::InodeId;
    use gupfs_proto::meta::{AccessMode, CreateMode};

    #[test]
    fn kinds_with_one_name_have_one_counter() {
        let (dir, create_mode) = (InodeId::ROOT, CreateMode { mode: 0, umask: 0 });
        let access = AccessMode::READ;
        let stats = MdsStats::default();
        for op in [
            MetaOp::TmpFile { dir, create_mode },
            MetaOp::OpenTmpFile {
                dir,
                create_mode,
                access,
            },
        ] {
            stats.finished(OpKind::of(&op), Duration::from_micros(5), false);
        }
        let counted = stats.snapshot();
        let counted: Vec<(&str, u64)> = counted.iter().map(|op| (op.op, op.done)).collect();
        assert_eq!(counted, [("tmpfile", 2)]);
    }

    #[test]
    fn an_operation_counts_under_its_own_name() {
        let ino = InodeId::ROOT;
        for op in [
            MetaOp::StatFs,
            MetaOp::GetAttr { ino },
            MetaOp::CloseSession,
            MetaOp::KillPrivileges { ino },
        ] {
            assert_eq!(OpKind::of(&op).name(), op.name());
        }
    }

    #[test]
    fn only_operations_that_occurred_are_listed() {
        let stats = MdsStats::default();
        stats.finished(
            OpKind(OperationKind::Mkdir as usize),
            Duration::from_micros(5),
            false,
        );
        stats.finished(
            OpKind(OperationKind::Mkdir as usize),
            Duration::from_micros(6),
            true,
        );
        let listed = stats.snapshot();
        assert_eq!(listed.len(), 1);
        assert_eq!(
            (listed[0].op, listed[0].done, listed[0].refused),
            ("mkdir", 2, 1)
        );
    }
}
