//! Held objects: they last for the run, so that a round begins with the state of the one before.
//!
//! One worker looks at them before the others begin. That look defines the state: it counts as the change that made what it shows. Where it
//! says nothing, the round is not judged in this. In a held directory each name is a register of its file's number, as is the name of the directory itself.
//!
//! getcwd(2) asks no file system: only on the mount that renames the directory must Linux know the name.

use super::{Ended, HistoryParts, SubjectRecords, ended, timed};
use crate::check::model::register::{Act, Register};
use crate::check::part::{ImpossibleAnswer, StatePart};
use crate::history::{Answer, Call, Record};
use crate::subject::{HELD_NAMES, held_name, subject_path};

/// The state of a held object is not known at the beginning of this round.
pub(super) struct UnknownState;

impl SubjectRecords<'_> {
    /// The first look that `shows` the state of a held object, while nothing else happened to it. None: it is not held, and its state is known.
    ///
    /// # Errors
    /// There is no such look.
    pub(super) fn initial_look(
        &self,
        shows: impl Fn(&Record) -> bool,
    ) -> Result<Option<usize>, UnknownState> {
        if !self.subject.is_held() {
            return Ok(None);
        }
        // What has no answer happens before the look, or later: it does not matter to it.
        let mut records = self
            .records
            .iter()
            .filter(|(_, record)| record.call.only_looks() || ended(record) != Ended::Unknown);
        let mut looks: Vec<&(usize, &Record)> = Vec::new();
        let next = records.find(|looked| {
            let same = looks
                .first()
                .is_none_or(|first| first.1.worker == looked.1.worker);
            let goes_on = same && looked.1.call.only_looks();
            if goes_on {
                looks.push(looked);
            }
            !goes_on
        });
        let others_begin = next.map_or(u64::MAX, |(_, record)| record.start);
        looks
            .into_iter()
            .filter(|(_, record)| record.end_or_never() < others_begin)
            .find(|(_, record)| {
                matches!(ended(record), Ended::Answered | Ended::Refused(_)) && shows(record)
            })
            .map(|(index, _)| Some(*index))
            .ok_or(UnknownState)
    }
}

/// The names in a held directory, and its own.
pub(super) fn add_directory(of: &SubjectRecords, mount_of: &[u16], parts: &mut HistoryParts) {
    let path = subject_path(of.subject);
    if let Some((index, record)) = of.records.iter().find(|(_, record)| impossible(record)) {
        parts.parts.push(Box::new(ImpossibleAnswer {
            about: format!("{} in {path}, which nothing can refuse", record.call.name()),
            record: *index,
        }));
    }
    for slot in 0..HELD_NAMES {
        let about = format!("the name {} in {path}", held_name(slot));
        // Which file a creation without an answer made is not known.
        let unknown = |(_, record): &(usize, &Record)| {
            ended(record) == Ended::Unknown
                && matches!(record.call, Call::Create { at, .. } if at == slot)
        };
        match of.records.iter().any(unknown) {
            true => parts.permitted += of.records.len(),
            false => add_register(of, about, |record| name_acts(record, slot), parts),
        }
    }
    let moved_on = |mount: u16| {
        let mut moves = of.records.iter().filter_map(|(_, record)| {
            matches!(record.call, Call::MoveDir { .. }).then_some(record.worker)
        });
        moves.all(|worker| mount_of.get(usize::from(worker)) == Some(&mount))
    };
    // The first worker looks and moves.
    let knows = mount_of.first().filter(|mount| moved_on(**mount));
    let may_be_old = |record: &Record| {
        record.call == Call::GetCwd && knows != mount_of.get(usize::from(record.worker))
    };
    parts.permitted += of
        .records
        .iter()
        .filter(|(_, record)| may_be_old(record))
        .count();
    let acts = |record: &Record| match may_be_old(record) {
        true => Vec::new(),
        false => own_name_acts(record),
    };
    let is_seen = |record: &Record| matches!(acts(record)[..], [Act::See(_)]);
    if of
        .records
        .iter()
        .any(|(_, record)| record.call == Call::GetCwd && is_seen(record))
    {
        add_register(
            of,
            format!("the name of the directory in {path}"),
            acts,
            parts,
        );
    }
}

fn add_register(
    of: &SubjectRecords,
    about: String,
    acts: impl Fn(&Record) -> Vec<Act>,
    parts: &mut HistoryParts,
) {
    let Ok(look) = of.initial_look(|record| matches!(acts(record)[..], [Act::See(_)])) else {
        parts.permitted += of
            .records
            .iter()
            .filter(|(_, record)| !acts(record).is_empty())
            .count();
        return;
    };
    let all = of.records.iter().flat_map(|(index, record)| {
        let defines = look == Some(*index);
        acts(record).into_iter().map(move |act| {
            let act = match defines {
                true => act.defining(),
                false => act,
            };
            timed(act, *index, record)
        })
    });
    parts.parts.push(Box::new(StatePart {
        about,
        spec: Register,
        initial: 0,
        acts: all.collect(),
    }));
}

/// What a record says of a name: its file's number, or 0 for none.
fn name_acts(record: &Record, slot: u8) -> Vec<Act> {
    match (record.call, &record.answer, ended(record)) {
        (Call::Create { at, .. }, Answer::File { inode, .. }, _) if at == slot => {
            vec![Act::See(0), Act::Put(*inode)]
        }
        (Call::Look { at }, Answer::Seen { inode, .. }, _) if at == slot => vec![Act::See(*inode)],
        (Call::Look { at } | Call::Unlink { at }, _, Ended::Refused(libc::ENOENT))
            if at == slot =>
        {
            vec![Act::See(0)]
        }
        (Call::Unlink { at }, _, Ended::Answered | Ended::Unknown) if at == slot => {
            vec![Act::Put(0)]
        }
        _ => Vec::new(),
    }
}

/// What a record says of the directory's own name.
fn own_name_acts(record: &Record) -> Vec<Act> {
    match (record.call, &record.answer, ended(record)) {
        (Call::MoveDir { to }, _, Ended::Answered) => {
            vec![Act::See(u64::from(1 - to)), Act::Put(u64::from(to))]
        }
        (Call::MoveDir { to }, _, Ended::Unknown) => vec![Act::Put(u64::from(to))],
        (Call::MoveDir { to }, _, Ended::Refused(libc::ENOENT)) => vec![Act::See(u64::from(to))],
        (Call::GetCwd, Answer::Called(name), _) => vec![Act::See(u64::from(*name))],
        _ => Vec::new(),
    }
}

/// Whether no state of a directory that stays explains the answer.
fn impossible(record: &Record) -> bool {
    match (record.call, ended(record)) {
        (_, Ended::Answered | Ended::Unknown | Ended::Unsupported) => false,
        (Call::Create { .. }, Ended::Refused(errno)) => errno != libc::EEXIST,
        // Linux has no path for a working directory whose name it was told to forget.
        (_, Ended::Refused(errno)) => errno != libc::ENOENT,
    }
}
