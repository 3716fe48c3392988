//! Contention in a history: operations that run beside one that conflicts with them.

use std::collections::BTreeMap;

use crate::history::{Call, History, Record};
use crate::subject::{self, Subject};

/// How many operations ran beside one of another worker that they conflict with: they are about the same bytes or names, and at
/// least one of the two changes them.
pub fn conflicts(history: &History) -> usize {
    let mut conflicting = vec![false; history.records.len()];
    let mut running: BTreeMap<Subject, Vec<usize>> = BTreeMap::new();
    for (index, record) in history.records.iter().enumerate() {
        let running = running.entry(record.subject).or_default();
        running.retain(|other| history.records[*other].end_or_never() >= record.start);
        for other in running.iter() {
            if conflict(record, &history.records[*other]) {
                conflicting[index] = true;
                conflicting[*other] = true;
            }
        }
        running.push(index);
    }
    conflicting.into_iter().filter(|one| *one).count()
}

fn conflict(a: &Record, b: &Record) -> bool {
    let changes = !a.call.only_looks() || !b.call.only_looks();
    changes && a.worker != b.worker && meet(&a.call, &b.call)
}

fn meet(a: &Call, b: &Call) -> bool {
    match (touches(a), touches(b)) {
        (Footprint::Nothing, _) | (_, Footprint::Nothing) => false,
        (Footprint::Slots(a), Footprint::Slots(b)) => a & b != 0,
        (Footprint::Bytes(from, to), Footprint::Bytes(since, until)) => from < until && since < to,
        _ => true,
    }
}

enum Footprint {
    Nothing,
    Slots(u32),
    Bytes(u64, u64),
    All,
}

fn touches(call: &Call) -> Footprint {
    use Call::*;
    match *call {
        Create { at, .. }
        | Get { at }
        | Look { at }
        | Unlink { at }
        | Symlink { at, .. }
        | ReadLink { at }
        | MakeDir { at }
        | RemoveDir { at }
        | Publish { at, .. } => Footprint::Slots(1 << at),
        Rename { from, to, .. } | Link { from, to } => Footprint::Slots(1 << from | 1 << to),
        List { directory } => {
            Footprint::Slots(subject::listed(directory).fold(0, |mask, (slot, _)| mask | 1 << slot))
        }
        Write { range, .. }
        | Read { range, .. }
        | Splice { range, .. }
        | MapRead { range }
        | MapWrite { range, .. } => Footprint::Bytes(range.from, range.to),
        Allocate { range, .. } => Footprint::Bytes(range.from, range.to),
        Truncate { to } => Footprint::Bytes(to, u64::MAX),
        MoveDir { .. } | GetCwd => Footprint::Slots(1 << 31),
        Open | Close | Sync => Footprint::Nothing,
        _ => Footprint::All,
    }
}
