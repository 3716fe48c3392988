//! One file whose writer is gone: its objects say how large it is.

use crate::core::Core;
use crate::limits::OST_CALLS;
use crate::records::damaged;
use crate::targets::unexpected;
use crate::together;
use crate::waits::Who;
use gupfs_namespace::{ChoreOp, Cutting, Inode, Key, Op, PurgeId, Record};
use gupfs_proto::data::{self, Answer, ObjectStat};
use gupfs_proto::{InodeId, ObjectId, OstId, Presence, Refusal, SessionId};

/// How often a file is asked for again because it changed meanwhile.
const TRIES: u32 = 100;

/// (component, stripe, how the object stands).
type Found = Vec<(u32, u32, Option<ObjectStat>)>;

impl Core {
    /// # Errors
    /// What an OST refused with: the file stays as it is recorded, and its reads meet the same refusal.
    pub async fn recover_writer(&self, ino: InodeId, session: SessionId) -> Result<(), Refusal> {
        let who = Who::own("recover writer");
        let key = Key::inode(ino);
        for _ in 0..TRIES {
            let Some(value) = self.get_now(&key).await? else {
                return self.commit_recovery(ino, session, Found::new()).await;
            };
            let inode = Inode::decode(&value).map_err(|error| damaged(&key, error))?;
            let file = inode.file()?;
            if let Some(Cutting { number, .. }) = file.cutting {
                self.finish_cut(who, PurgeId { ino, number }).await?;
                continue;
            }
            // Inline bytes are the file: what its objects hold does not count.
            let found = if file.inline.is_empty() {
                self.ask_objects(ino, Some(session), &inode).await?
            } else {
                Found::new()
            };
            let op = ChoreOp::RecoverWriter {
                ino,
                session,
                found,
            };
            // Only if the file is still what was asked about: meanwhile it may have got another layout.
            let expected = (key.clone(), value);
            let applied = self
                .drive_if(self.own(), Op::Chore(&op), Some(&expected))
                .await?;
            if let Some(applied) = applied {
                applied.answer?;
                return self.committed(who, applied.seq).await;
            }
        }
        Err(Refusal::Busy)
    }

    /// A file of an older copy of the store, of which objects know more than the record: it is as they say.
    pub async fn recover_as_found(&self, ino: InodeId) -> Result<(), Refusal> {
        let key = Key::inode(ino);
        for _ in 0..TRIES {
            let Some(value) = self.get_now(&key).await? else {
                return Ok(());
            };
            let inode = Inode::decode(&value).map_err(|error| damaged(&key, error))?;
            let found = self.ask_objects(ino, None, &inode).await?;
            let op = ChoreOp::AsFound { ino, found };
            let expected = (key.clone(), value);
            let applied = self
                .drive_if(self.own(), Op::Chore(&op), Some(&expected))
                .await?;
            if let Some(applied) = applied {
                applied.answer?;
                return self.committed(Who::own("recover file"), applied.seq).await;
            }
        }
        Err(Refusal::Busy)
    }

    async fn commit_recovery(
        &self,
        ino: InodeId,
        session: SessionId,
        found: Found,
    ) -> Result<(), Refusal> {
        let op = ChoreOp::RecoverWriter {
            ino,
            session,
            found,
        };
        let seq = self.chore(&op).await?;
        self.committed(Who::own("recover writer"), seq).await
    }

    /// How each object stands: with `session`, after all that it asked for; without, also those that are said not to be.
    async fn ask_objects(
        &self,
        ino: InodeId,
        session: Option<SessionId>,
        inode: &Inode,
    ) -> Result<Found, Refusal> {
        let layout = &inode.file()?.layout;
        let asked =
            layout
                .objects(ino)
                .map(|(component, stripe, ost, object, presence)| async move {
                    let stat = match (presence, session) {
                        (Presence::Never, Some(_)) => None,
                        (Presence::Maybe | Presence::Present, Some(session)) => {
                            // What is under way there would come after the answer.
                            self.fence_at(session, ost).await?;
                            self.stat_object(ost, object).await?
                        }
                        (_, None) => self.stat_object(ost, object).await?,
                    };
                    Ok((component as u32, stripe as u32, stat))
                });
        let answers = together::all(asked.collect(), OST_CALLS).await;
        answers.into_iter().collect()
    }

    async fn stat_object(
        &self,
        ost: OstId,
        object: ObjectId,
    ) -> Result<Option<ObjectStat>, Refusal> {
        match self.targets.call(ost, data::Op::Stat { object }).await? {
            Answer::Stat(stat) => Ok(stat),
            other => Err(unexpected(ost, &other)),
        }
    }
}
