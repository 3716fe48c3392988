//! Attributes: a register each.

use super::{Ended, HistoryParts, SubjectRecords, ended};
use crate::check::model::register::{Act, Register};
use crate::check::part::StatePart;
use crate::check::search::Timed;
use crate::history::{Answer, Call, Record};
use crate::subject::subject_path;

/// The initial attributes of every attribute file: its mode, and its time in seconds since 1970.
pub const ATTRIBUTES: (u32, u64) = (0o600, 1_000_000_000);

pub(super) fn add(of: &SubjectRecords, parts: &mut HistoryParts) {
    let mut one = |what: &str, initial: u64, act: fn(&Record) -> Option<Act>| {
        let Ok(look) = of.initial_look(|record| matches!(act(record), Some(Act::See(_)))) else {
            parts.permitted += of.records.len();
            return;
        };
        let known = |record: &Record| match ended(record) {
            Ended::Answered | Ended::Unknown => act(record),
            Ended::Refused(libc::ENODATA) if record.call == Call::RemoveXattr => act(record),
            _ => None,
        };
        parts.parts.push(Box::new(StatePart {
            about: format!("the {what} of {}", subject_path(of.subject)),
            spec: Register,
            initial,
            acts: of
                .acts(known)
                .map(|timed| Timed {
                    act: match look == Some(timed.record) {
                        true => timed.act.defining(),
                        false => timed.act,
                    },
                    ..timed
                })
                .collect(),
        }));
    };
    one("mode", u64::from(ATTRIBUTES.0), |record| {
        match (&record.call, &record.answer) {
            (Call::SetMode { mode }, _) => Some(Act::Put(u64::from(*mode))),
            (Call::Stat, Answer::Attributes { mode, .. }) => Some(Act::See(u64::from(*mode))),
            _ => None,
        }
    });
    one("time", ATTRIBUTES.1, |record| {
        match (&record.call, &record.answer) {
            (Call::SetTime { seconds }, _) => Some(Act::Put(*seconds)),
            (Call::Stat, Answer::Attributes { seconds, .. }) => Some(Act::See(*seconds)),
            _ => None,
        }
    });
    one("extended attribute", 0, |record| {
        match (&record.call, &record.answer) {
            (Call::SetXattr { tag }, _) => Some(Act::Put(*tag)),
            (Call::GetXattr, Answer::Value(tag)) => Some(Act::See(*tag)),
            // Refused when there was none, for sure.
            (Call::RemoveXattr, Answer::Errno(libc::ENODATA)) => Some(Act::See(0)),
            (Call::RemoveXattr, _) => Some(Act::Put(0)),
            _ => None,
        }
    });
}
