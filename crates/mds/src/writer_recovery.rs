//! Recovery of one file whose writer is gone, or does not know that it is the writer: its objects determine its size.

use crate::join;
use crate::limits::OST_CALLS;
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::shard_driver::ShardDriver;
use crate::store::{MetadataStore, damaged_record};
use crate::truncates::TruncateRunner;
use gupfs_namespace::{BackgroundOp, Inode, PurgeId, Record, RecordKey, UnfinishedTruncate};
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{Component, FsError, InodeId, OstId, Presence, SessionId};
use std::sync::Arc;

/// How often recovery repeats for a file that changed in the meantime.
const CHANGED_RETRIES: u32 = 100;

/// (component, stripe, the object's state).
type ObjectStats = Vec<(u32, u32, Option<ObjectStat>)>;

/// Why the server takes the write lease of a file from its session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TakenFrom {
    /// The session has ended. Its client may not know that, and still send requests.
    EndedSession(SessionId),
    /// The session is alive, and has answered that it has no lease of the file: none of its requests uses one. The OSTs must not
    /// fence it, because a fence ends all its work there.
    UnawareSession(SessionId),
}

impl TakenFrom {
    fn session(self) -> SessionId {
        match self {
            TakenFrom::EndedSession(session) | TakenFrom::UnawareSession(session) => session,
        }
    }
}

pub struct WriterRecovery {
    store: Arc<MetadataStore>,
    driver: Arc<ShardDriver>,
    targets: Arc<Targets>,
    truncates: Arc<TruncateRunner>,
}

impl WriterRecovery {
    pub fn new(
        store: Arc<MetadataStore>,
        driver: Arc<ShardDriver>,
        targets: Arc<Targets>,
        truncates: Arc<TruncateRunner>,
    ) -> WriterRecovery {
        WriterRecovery {
            store,
            driver,
            targets,
            truncates,
        }
    }

    /// Takes the state of a file from its objects after the session with its write lease has ended.
    ///
    /// # Errors
    /// The error of an OST: the file stays as it is recorded, and its reads fail with the same error.
    pub async fn recover_writer(&self, ino: InodeId, session: SessionId) -> Result<(), FsError> {
        self.take_lease(ino, TakenFrom::EndedSession(session)).await
    }

    /// The same for a session that is alive and does not know of the lease: the server recorded the grant, and its reply was lost.
    ///
    /// # Errors
    /// As `recover_writer`.
    pub async fn take_unknown_lease(
        &self,
        ino: InodeId,
        session: SessionId,
    ) -> Result<(), FsError> {
        self.take_lease(ino, TakenFrom::UnawareSession(session))
            .await
    }

    async fn take_lease(&self, ino: InodeId, taken_from: TakenFrom) -> Result<(), FsError> {
        let session = taken_from.session();
        let origin = RequestOrigin::server("recover writer");
        let key = RecordKey::inode(ino);
        for _ in 0..CHANGED_RETRIES {
            let Some(value) = self.store.get_now(&key).await? else {
                return self.commit_recovery(ino, session, ObjectStats::new()).await;
            };
            let inode = Inode::decode(&value).map_err(|error| damaged_record(&key, error))?;
            let file = inode.file()?;
            if let Some(UnfinishedTruncate { number, .. }) = file.truncating {
                self.truncates
                    .await_truncate(origin, PurgeId { ino, number })
                    .await?;
                continue;
            }
            // Inline bytes are the file: the contents of its objects do not count.
            let found = if file.inline.is_empty() {
                self.stat_objects(ino, Some(taken_from), &inode).await?
            } else {
                ObjectStats::new()
            };
            let op = BackgroundOp::RecoverWriteLease {
                ino,
                session,
                found,
            };
            // Only if the file is still as it was when its objects were read: it may have got another layout in the meantime.
            let expected = (key.clone(), value);
            let applied = self.driver.apply_if_unchanged(&op, Some(&expected)).await?;
            if let Some(applied) = applied {
                applied.result?;
                return self.store.committed(origin, applied.seq).await;
            }
        }
        Err(FsError::Busy)
    }

    /// Recovers a file of an older copy of the store, whose objects are newer than its record: it gets the state of its objects.
    pub async fn recover_from_objects(&self, ino: InodeId) -> Result<(), FsError> {
        let key = RecordKey::inode(ino);
        for _ in 0..CHANGED_RETRIES {
            let Some(value) = self.store.get_now(&key).await? else {
                return Ok(());
            };
            let inode = Inode::decode(&value).map_err(|error| damaged_record(&key, error))?;
            let found = self.stat_objects(ino, None, &inode).await?;
            let op = BackgroundOp::UpdateFromObjects { ino, found };
            let expected = (key.clone(), value);
            let applied = self.driver.apply_if_unchanged(&op, Some(&expected)).await?;
            if let Some(applied) = applied {
                applied.result?;
                return self
                    .store
                    .committed(RequestOrigin::server("recover file"), applied.seq)
                    .await;
            }
        }
        Err(FsError::Busy)
    }

    async fn commit_recovery(
        &self,
        ino: InodeId,
        session: SessionId,
        found: ObjectStats,
    ) -> Result<(), FsError> {
        let op = BackgroundOp::RecoverWriteLease {
            ino,
            session,
            found,
        };
        let seq = self.driver.background_op(&op).await?;
        self.store
            .committed(RequestOrigin::server("recover writer"), seq)
            .await
    }

    /// The state of each object: with `taken_from`, after all requests of that session; without, also of objects that are recorded
    /// as absent.
    async fn stat_objects(
        &self,
        ino: InodeId,
        taken_from: Option<TakenFrom>,
        inode: &Inode,
    ) -> Result<ObjectStats, FsError> {
        let layout = &inode.file()?.layout;
        let stats =
            layout
                .objects(ino)
                .map(|(component, stripe, ost, object, presence)| async move {
                    let at = (component as u32, stripe as u32);
                    // Without its answer it is stale, if another member's target answers.
                    let component = &layout.components[component];
                    let has_partner = |is_usable: &dyn Fn(OstId) -> bool| {
                        let mut members = component.full_members(component.stripe_of(stripe));
                        members.any(|index| index != stripe && is_usable(component.targets[index]))
                    };
                    let has_partner_up = has_partner(&|ost| self.targets.is_up(ost));
                    if presence == Presence::Stale || has_partner_up && !self.targets.is_up(ost) {
                        return Ok(None);
                    }
                    if self.targets.is_lost(ost) {
                        return Ok(match presence {
                            // The partner is asked, or fails this attempt.
                            _ if has_partner(&|ost| !self.targets.is_lost(ost)) => None,
                            Presence::Never => Some((at.0, at.1, None)),
                            // As it is recorded: reads must find it missing, not a hole.
                            _ => Some((at.0, at.1, Some(lost_object(component, stripe, inode)))),
                        });
                    }
                    let stat = match (presence, taken_from) {
                        (Presence::Never, Some(_)) => Ok(None),
                        (
                            Presence::Maybe | Presence::Present | Presence::Stale,
                            Some(TakenFrom::EndedSession(session)),
                        ) => {
                            // A request in flight there would take effect after the reply.
                            match self.targets.fence_at(session, ost).await {
                                Ok(()) => self.targets.stat_object(ost, object).await,
                                Err(error) => Err(error),
                            }
                        }
                        (_, _) => self.targets.stat_object(ost, object).await,
                    };
                    match stat {
                        Err(FsError::TargetDown { .. }) if has_partner_up => Ok(None),
                        stat => Ok(Some((at.0, at.1, stat?))),
                    }
                });
        let results = join::all(stats.collect(), OST_CALLS).await;
        let results: Result<Vec<Option<_>>, FsError> = results.into_iter().collect();
        Ok(results?.into_iter().flatten().collect())
    }
}

/// The state of an object on a lost OST, as far as the file's record has it.
fn lost_object(component: &Component, index: usize, inode: &Inode) -> ObjectStat {
    ObjectStat {
        size: component.object_size(index, inode.size),
        mtime: inode.mtime,
        ..ObjectStat::default()
    }
}
