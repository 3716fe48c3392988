//! A holder's word, before another session's operation on its file.

use crate::core::Core;
use crate::drive::Asker;
use crate::holders::Word;
use crate::limits::{GIVEN_BACK_AGAIN, GIVEN_BACK_TRIES, SCAN_STEP};
use crate::turns::Turn;
use crate::waits::{Awaited, Who};
use gupfs_namespace::{Key, KeyRange, Parsed, Words};
use gupfs_proto::recall::Request;
use gupfs_proto::{InodeId, Refusal, SessionId};
use std::pin::{Pin, pin};

/// What one operation has of other sessions' files: their words, and its turn.
#[derive(Default)]
pub struct Hearing<'a> {
    pub words: Words,
    turn: Option<Turn<'a>>,
    /// How often somebody was asked.
    asked: u32,
}

impl Hearing<'_> {
    pub fn has_turn(&self, ino: InodeId) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.ino() == ino)
    }

    pub fn asked_anybody(&self) -> bool {
        self.asked > 0
    }
}

impl Core {
    /// Waits for the turn at a file that must be given back. Without one when the session holds the file: what it asked before
    /// a break of its connection was done.
    pub async fn take_turn<'a>(
        &'a self,
        hearing: &mut Hearing<'a>,
        who: Who,
        ino: InodeId,
    ) -> Result<(), Refusal> {
        hearing.turn = None;
        let place = self.turns.place(ino, who.session);
        // In the queue first, then looked: a grant before that is in the records, and one after it is told.
        if self.holders_of(ino).await? == [who.session] {
            return Ok(());
        }
        let turn = self.waits.wait(who, Awaited::Turn(ino), place.turn());
        hearing.turn = turn.await?;
        Ok(())
    }

    /// Has the holder of a file tell what it wrote, or give the file back.
    pub async fn hear_holder<'a>(
        &'a self,
        hearing: &mut Hearing<'a>,
        asker: Asker<'_>,
        ino: InodeId,
        give_back: bool,
    ) -> Result<(), Refusal> {
        if give_back && !hearing.has_turn(ino) {
            // The state is looked at again then: it may be free.
            return self.take_turn(hearing, asker.who, ino).await;
        }
        hearing.asked += 1;
        if give_back && hearing.asked > 1 {
            // Who says that it gave the file back and did not is not asked in a tight loop.
            self.platform.clock.sleep(GIVEN_BACK_AGAIN).await;
        }
        for session in self.holders_of(ino).await? {
            if session == asker.who.session {
                continue;
            }
            let (awaited, question) = match give_back {
                true => (Awaited::GiveBack(session, ino), Request::GiveBack { ino }),
                false => (Awaited::Tell(session, ino), Request::Tell { ino }),
            };
            let word = async {
                tokio::select! {
                    biased;
                    word = self.word_of(session, ino, &question) => word.map(Some),
                    // It has given the file back before it heard the question, and may wait for it behind us by now.
                    held = self.holds_no_more(session, ino) => held.map(|()| None),
                }
            };
            match self.waits.wait(asker.who, awaited, word).await?? {
                // It never heard that it holds the file: the answer to that was a failure, and a server before us recorded it.
                Some(Word::Said(_)) if give_back && hearing.asked > GIVEN_BACK_TRIES => {
                    self.recover_silent(ino, session).await?;
                }
                Some(Word::Said(_)) | None => {}
                Some(Word::Gone) => hearing.words.silent(ino, session),
            }
        }
        if !give_back {
            hearing.words.told(ino);
        }
        Ok(())
    }

    /// What it says; of one that has ended the objects, asked now if that was not done yet. Until then the record is not how the
    /// file stands.
    ///
    /// # Errors
    /// What an object server refused with. One that is down for good keeps nobody: the file is as it is recorded, and its
    /// bytes there are refused.
    async fn word_of(
        &self,
        session: SessionId,
        ino: InodeId,
        question: &Request,
    ) -> Result<Word, Refusal> {
        let word = self.ask_session(session, question).await?;
        if let Word::Gone = word {
            match self.recover_silent(ino, session).await {
                Ok(()) | Err(Refusal::TargetDown { .. }) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(word)
    }

    /// Boxed because it drives the machine by itself.
    fn recover_silent(
        &self,
        ino: InodeId,
        session: SessionId,
    ) -> Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send + '_>> {
        Box::pin(self.recover_writer(ino, session))
    }

    /// Returns when this session is not recorded as the file's holder.
    async fn holds_no_more(&self, session: SessionId, ino: InodeId) -> Result<(), Refusal> {
        loop {
            let mut changed = pin!(self.holding_ended.notified());
            changed.as_mut().enable();
            if !self.holders_of(ino).await?.contains(&session) {
                return Ok(());
            }
            changed.await;
        }
    }

    async fn holders_of(&self, ino: InodeId) -> Result<Vec<SessionId>, Refusal> {
        let records = self.scan_now(&KeyRange::writers(ino), SCAN_STEP).await?;
        let session = |key: &Key| match key.parse() {
            Some(Parsed::Writer { session, .. }) => Some(session),
            _ => None,
        };
        Ok(records.iter().filter_map(|(key, _)| session(key)).collect())
    }
}
