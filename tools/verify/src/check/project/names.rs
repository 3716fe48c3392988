//! Names of a subject, all together: renames and links join them.
//!
//! An operation that Linux does in steps is several acts: link(2) finds the file, then makes the name. A listing is judged name by name,
//! and only those that nothing touches meanwhile; a count of links only while no operation changes any.

use super::interval_index::IntervalIndex;
use super::{Ended, HistoryParts, SubjectRecords, ended, timed};
use crate::check::model::name_state::{File, NameAction, Node, SLOTS, State};
use crate::check::model::names::{self, Act, Names};
use crate::check::part::{ImpossibleAnswer, StatePart};
use crate::check::search::Timed;
use crate::history::{Answer, Call, Kind, Record};
use crate::subject::{self, Subject, subject_path};

/// The names of a subject at the beginning of a round: none.
pub fn initial() -> State {
    [Node::None; SLOTS]
}

pub(super) fn add(of: &SubjectRecords, parts: &mut HistoryParts) {
    let changes = IntervalIndex::of(of.records.iter().map(|(_, record)| *record), |record| {
        Some((touched(&record.call)?, record.worker))
    });
    let mut acts: Vec<Timed<Act>> = Vec::new();
    for (index, record) in &of.records {
        if matches!(record.answer, Answer::Listed { stranger: true, .. }) {
            parts.parts.push(Box::new(ImpossibleAnswer {
                about: format!(
                    "a listing of {} with a name nobody made",
                    subject_path(of.subject)
                ),
                record: *index,
            }));
        }
        for mut act in acts_of(record) {
            let anything = match &mut act.what {
                NameAction::Listed { at, .. } => touch(&changes, record, 1 << *at),
                NameAction::Links { .. } => touch(&changes, record, u32::MAX),
                NameAction::Rename {
                    from, to, racing, ..
                } => {
                    *racing = touch(&changes, record, 1 << *from | 1 << *to);
                    false
                }
                _ => false,
            };
            match anything {
                true => parts.permitted += 1,
                false => acts.push(timed(act, *index, record)),
            }
        }
    }
    parts.parts.push(piece(of.subject, acts));
}

fn piece(subject: Subject, acts: Vec<Timed<Act>>) -> Box<StatePart<Names>> {
    Box::new(StatePart {
        about: format!("the names of {}", subject_path(subject)),
        spec: Names,
        initial: initial(),
        acts,
    })
}

fn acts_of(record: &Record) -> Vec<Act> {
    match ended(record) {
        Ended::Answered => done(record),
        Ended::Refused(errno) => refused(record, errno),
        Ended::Unknown => unknown(record),
        Ended::Unsupported => Vec::new(),
    }
}

fn done(record: &Record) -> Vec<Act> {
    let file = match record.answer {
        Answer::File {
            inode,
            generation,
            tag,
        } => Some(File {
            inode,
            generation,
            tag,
        }),
        _ => None,
    };
    let mut more = Vec::new();
    let what = match (record.call, &record.answer) {
        (Call::Create { at, exclusive }, _) => NameAction::Create {
            at,
            exclusive,
            file,
        },
        (Call::Get { at }, _) => NameAction::Get { at, seen: file },
        (Call::Look { at }, Answer::Seen { kind, inode, links }) => {
            if *kind == Kind::File {
                more.push(NameAction::Links {
                    inode: *inode,
                    count: *links,
                });
            }
            let seen = Some((*kind, number(*kind, *inode)));
            NameAction::Look { at, seen }
        }
        (Call::ReadLink { at }, Answer::Target { tag }) => NameAction::ReadLink {
            at,
            seen: Some(*tag),
        },
        (Call::List { directory }, Answer::Listed { slots, .. }) => {
            let listed = subject::listed(directory).map(|(at, _)| NameAction::Listed {
                at,
                there: slots & (1 << at) != 0,
            });
            return listed.map(|what| act(what, names::Ended::Done)).collect();
        }
        (Call::Publish { at, .. }, _) => match file {
            Some(file) => NameAction::Publish { at, file },
            None => return Vec::new(),
        },
        (
            Call::Link { from, to },
            Answer::Linked {
                kind, inode, tag, ..
            },
        ) => {
            more.push(link(*kind, *inode, *tag, to));
            NameAction::Look {
                at: from,
                seen: Some((*kind, number(*kind, *inode))),
            }
        }
        _ => return changed(record).into_iter().collect(),
    };
    more.push(what);
    more.into_iter()
        .map(|what| act(what, names::Ended::Done))
        .collect()
}

fn refused(record: &Record, errno: i32) -> Vec<Act> {
    let refused = names::Ended::Refused(errno);
    let what = match (record.call, &record.answer) {
        (Call::Create { at, exclusive }, _) => NameAction::Create {
            at,
            exclusive,
            file: None,
        },
        (Call::Get { at }, _) => NameAction::Get { at, seen: None },
        (Call::Look { at }, _) => NameAction::Look { at, seen: None },
        (Call::ReadLink { at }, _) => NameAction::ReadLink { at, seen: None },
        (
            Call::Link { from, to },
            Answer::Linked {
                kind, inode, tag, ..
            },
        ) => {
            let seen = NameAction::Look {
                at: from,
                seen: Some((*kind, number(*kind, *inode))),
            };
            let mut acts = vec![act(seen, names::Ended::Done)];
            // Linux itself says so of a file that it believes to have no name left, and where several mounts change names that
            // belief may be wrong.
            if errno != libc::ENOENT {
                acts.push(act(link(*kind, *inode, *tag, to), refused));
            }
            return acts;
        }
        // The file to link was not found.
        (Call::Link { from, .. }, _) => NameAction::Look {
            at: from,
            seen: None,
        },
        (Call::Publish { at, tag }, _) => NameAction::Publish {
            at,
            file: File {
                inode: 0,
                generation: 0,
                tag,
            },
        },
        // A directory that is never moved can be opened at all times; to refuse it fits no state.
        (Call::List { directory }, _) => NameAction::Look {
            at: directory * 3,
            seen: Some((Kind::Symlink, u64::MAX)),
        },
        _ => {
            return changed(record)
                .map(|changed| act(changed.what, refused))
                .into_iter()
                .collect();
        }
    };
    vec![act(what, refused)]
}

/// The acts of an operation that may have been done.
fn unknown(record: &Record) -> Vec<Act> {
    match record.call {
        Call::Create { at, .. } | Call::Publish { at, .. } | Call::Link { to: at, .. } => {
            vec![act(NameAction::PutAny { at }, names::Ended::Done)]
        }
        _ => changed(record).into_iter().collect(),
    }
}

/// Changes that are one act, whose answer says nothing.
fn changed(record: &Record) -> Option<Act> {
    let what = match record.call {
        Call::Unlink { at } => NameAction::Unlink { at },
        Call::Rename { from, to, how } => NameAction::Rename {
            from,
            to,
            how,
            racing: false,
        },
        Call::Symlink { at, tag } => NameAction::Symlink { at, tag },
        Call::MakeDir { at } => NameAction::MakeDir { at },
        Call::RemoveDir { at } => NameAction::RemoveDir { at },
        _ => return None,
    };
    Some(act(what, names::Ended::Done))
}

fn act(what: NameAction, ended: names::Ended) -> Act {
    Act { what, ended }
}

/// Files alone are known by their number.
fn number(kind: Kind, inode: u64) -> u64 {
    match kind {
        Kind::File => inode,
        Kind::Dir | Kind::Symlink => 0,
    }
}

fn link(kind: Kind, inode: u64, tag: u64, to: u8) -> NameAction {
    match kind {
        Kind::File => NameAction::LinkFile { inode, to },
        Kind::Symlink => NameAction::LinkSymlink { tag, to },
        Kind::Dir => NameAction::LinkDir { to },
    }
}

/// Whether another worker changes any of these slots meanwhile.
fn touch(changes: &IntervalIndex<(u32, u16)>, record: &Record, slots: u32) -> bool {
    changes
        .beside(record)
        .any(|(touched, who)| touched & slots != 0 && *who != record.worker)
}

fn touched(call: &Call) -> Option<u32> {
    match *call {
        Call::Create { at, .. }
        | Call::Unlink { at }
        | Call::Symlink { at, .. }
        | Call::MakeDir { at }
        | Call::RemoveDir { at }
        | Call::Publish { at, .. }
        | Call::Link { to: at, .. } => Some(1 << at),
        Call::Rename { from, to, .. } => Some(1 << from | 1 << to),
        _ => None,
    }
}
