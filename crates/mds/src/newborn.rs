//! Files that were made a short while ago, and that nobody has had open but the session that made them: nobody else can have
//! asked for a sync of what they hold.
//!
//! Only ever forgets: a file that is not listed here may be one all the same.

use crate::limits::NEWBORN_MAX;
use gupfs_proto::meta::{Answer, Op};
use gupfs_proto::{InodeId, SessionId};
use std::collections::{BTreeMap, VecDeque};

#[derive(Default)]
pub struct Newborn {
    makers: BTreeMap<InodeId, SessionId>,
    /// In the order in which they were made; some may have been opened by others since.
    order: VecDeque<InodeId>,
}

impl Newborn {
    /// Whether only this session has had the file open since it was made, which it was by the session itself.
    pub fn is_unseen(&self, ino: InodeId, session: SessionId) -> bool {
        self.makers.get(&ino) == Some(&session)
    }

    /// What a session was answered.
    pub fn hear(&mut self, session: SessionId, op: &Op, answer: &Answer) {
        match (op, answer) {
            (Op::Create { .. }, Answer::Opened(opened)) if opened.created => {
                self.made(opened.attr.ino, session);
            }
            (Op::Create { .. }, Answer::Opened(opened)) => self.opened(opened.attr.ino, session),
            (
                Op::Open { ino, .. }
                | Op::Truncate { ino, .. }
                | Op::BeginWrite { ino, .. }
                | Op::WriteInline { ino, .. },
                _,
            ) => self.opened(*ino, session),
            _ => {}
        }
    }

    fn made(&mut self, ino: InodeId, session: SessionId) {
        if self.order.len() >= NEWBORN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.makers.remove(&oldest);
        }
        self.order.push_back(ino);
        self.makers.insert(ino, session);
    }

    fn opened(&mut self, ino: InodeId, session: SessionId) {
        if self.makers.get(&ino).is_some_and(|maker| *maker != session) {
            self.makers.remove(&ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SessionId = SessionId(1);
    const OTHER: SessionId = SessionId(2);

    #[test]
    fn a_file_is_unseen_until_another_session_opens_it() {
        let mut newborn = Newborn::default();
        let file = InodeId(7);
        assert!(!newborn.is_unseen(file, ONE));
        newborn.made(file, ONE);
        newborn.opened(file, ONE);
        assert!(newborn.is_unseen(file, ONE) && !newborn.is_unseen(file, OTHER));
        newborn.opened(file, OTHER);
        newborn.opened(file, ONE);
        assert!(!newborn.is_unseen(file, ONE));
    }

    #[test]
    fn only_the_newest_are_known() {
        let mut newborn = Newborn::default();
        for number in 0..=NEWBORN_MAX as u64 {
            newborn.made(InodeId(number), ONE);
        }
        assert_eq!(newborn.makers.len(), NEWBORN_MAX);
        assert!(!newborn.is_unseen(InodeId(0), ONE) && newborn.is_unseen(InodeId(1), ONE));
    }
}
