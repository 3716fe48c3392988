//! Locks of a file.

use super::{Ended, HistoryParts, SubjectRecords, ended};
use crate::check::model::locks::{Act, LockAction, Locks, UNITS, Unit};
use crate::check::part::StatePart;
use crate::check::search::Timed;
use crate::history::{Call, Record};
use crate::subject::subject_path;

pub(in crate::check) fn add(of: &SubjectRecords, parts: &mut HistoryParts) {
    let mut acts: Vec<Timed<Act>> = of.acts(act).collect();
    // A worker that gets no answer may be dead, and its locks free.
    for (index, record) in &of.records {
        if ended(record) == Ended::Unknown {
            acts.push(Timed {
                act: Act {
                    who: record.worker,
                    first: 0,
                    last: UNITS as u8,
                    what: LockAction::Unlock,
                },
                start: record.start,
                end: None,
                record: *index,
            });
        }
    }
    parts.parts.push(Box::new(StatePart {
        about: format!("the locks of {}", subject_path(of.subject)),
        spec: Locks,
        initial: [const { Unit::Free }; UNITS],
        acts,
    }));
}

fn act(record: &Record) -> Option<Act> {
    let refused = match ended(record) {
        Ended::Answered | Ended::Unknown => false,
        Ended::Refused(_) => true,
        Ended::Unsupported => return None,
    };
    let (first, last, what) = match (record.call, refused) {
        (
            Call::Lock {
                first,
                last,
                exclusive,
            },
            _,
        ) => {
            let what = match (exclusive, refused) {
                (false, false) => LockAction::Shared,
                (true, false) => LockAction::Exclusive,
                (false, true) => LockAction::RefusedShared,
                (true, true) => LockAction::RefusedExclusive,
            };
            (first, last, what)
        }
        (Call::Unlock { first, last }, false) => (first, last, LockAction::Unlock),
        _ => return None,
    };
    Some(Act {
        who: record.worker,
        first,
        last,
        what,
    })
}
