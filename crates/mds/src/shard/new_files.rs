//! Files that were created a short while ago, and that no session has had open except the session that created them: no other
//! session can have asked for a sync of their contents.
//!
//! The list only forgets: a file that is not listed here may still be such a file.

use crate::limits::NEW_FILES_MAX;
use gupfs_proto::meta::{MetaOp, MetaReplyBody};
use gupfs_proto::{InodeId, SessionId};
use std::collections::{BTreeMap, VecDeque};

#[derive(Default)]
pub struct NewFiles {
    creators: BTreeMap<InodeId, SessionId>,
    /// In the order of creation; other sessions may have opened some since.
    order: VecDeque<InodeId>,
}

impl NewFiles {
    /// Whether this session created the file, and no other session has had it open since.
    pub fn is_private(&self, ino: InodeId, session: SessionId) -> bool {
        self.creators.get(&ino) == Some(&session)
    }

    /// Notes the server's reply to a session.
    pub fn note_reply(&mut self, session: SessionId, op: &MetaOp, reply: &MetaReplyBody) {
        match (op, reply) {
            (
                MetaOp::Create { .. } | MetaOp::CreateForWriting { .. },
                MetaReplyBody::Opened(opened) | MetaReplyBody::WriteBegun { opened, .. },
            ) => match opened.created {
                true => self.note_created(opened.attr.ino, session),
                false => self.opened(opened.attr.ino, session),
            },
            (
                MetaOp::Open { ino, .. }
                | MetaOp::Truncate { ino, .. }
                | MetaOp::BeginRead { ino }
                | MetaOp::BeginWrite { ino, .. }
                | MetaOp::BeginWriteAt { ino, .. }
                | MetaOp::WriteInline { ino, .. },
                _,
            ) => self.opened(*ino, session),
            _ => {}
        }
    }

    fn note_created(&mut self, ino: InodeId, session: SessionId) {
        if self.order.len() >= NEW_FILES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.creators.remove(&oldest);
        }
        self.order.push_back(ino);
        self.creators.insert(ino, session);
    }

    fn opened(&mut self, ino: InodeId, session: SessionId) {
        if self
            .creators
            .get(&ino)
            .is_some_and(|creator| *creator != session)
        {
            self.creators.remove(&ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SessionId = SessionId(1);
    const OTHER: SessionId = SessionId(2);

    #[test]
    fn a_file_is_private_until_another_session_opens_it() {
        let mut new_files = NewFiles::default();
        let file = InodeId(7);
        assert!(!new_files.is_private(file, ONE));
        new_files.note_created(file, ONE);
        new_files.opened(file, ONE);
        assert!(new_files.is_private(file, ONE) && !new_files.is_private(file, OTHER));
        new_files.opened(file, OTHER);
        new_files.opened(file, ONE);
        assert!(!new_files.is_private(file, ONE));
    }

    #[test]
    fn only_the_newest_are_known() {
        let mut new_files = NewFiles::default();
        for number in 0..=NEW_FILES_MAX as u64 {
            new_files.note_created(InodeId(number), ONE);
        }
        assert_eq!(new_files.creators.len(), NEW_FILES_MAX);
        assert!(!new_files.is_private(InodeId(0), ONE) && new_files.is_private(InodeId(1), ONE));
    }
}
