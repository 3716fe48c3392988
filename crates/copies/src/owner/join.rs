//! Brings a process up to date, and counts it.

use super::OwnerShared;
use crate::limits::{ASK_TIMEOUT, PART_BYTES, REOPEN_TIMEOUT, RETRY_PAUSE, SYNC_TIMEOUT};
use crate::peers::{CopyCallError, CopyPeer};
use crate::register::{Member, Standing};
use gupfs_proto::copy::{CopyLogState, CopyOp, CopyRefusal, LogPosition};
use gupfs_store::kv::Kv;
use gupfs_store::log::LogError;
use std::sync::Arc;
use std::time::Duration;

/// How often the owner sends what it has written meanwhile, while the others get nothing, and the pause between.
const LAST_TRIES: usize = 100;
const LAST_PAUSE: Duration = Duration::from_millis(1);

/// Why a process was not brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("{0}")]
    Call(#[from] CopyCallError),
    #[error("the owner's log cannot be read: {0}")]
    Log(#[from] LogError),
    #[error("the owner's metadata cannot be read: {0}")]
    Store(#[from] gupfs_store::kv::KvError),
    #[error("{0}")]
    Deposed(String),
    #[error("the owner stops")]
    Stopping,
    #[error("the owner's last records are not written yet")]
    Unwritten,
    #[error("another process of the copy runs")]
    Replaced,
}

impl OwnerShared {
    /// Tries until the process counts, or asks for it no more.
    pub(super) async fn bring_up_to_date(self: Arc<Self>, member: &Member) {
        let copy = (self.peers).copy_at(&member.address, member.id, Some(member.run));
        tracing::info!(copy = %member.id, address = member.address, "bringing a copy of the metadata up to date");
        while self.is_joining(member) && !self.is_deposed() {
            match self.catch_up_and_count(&copy).await {
                Ok(()) => {
                    tracing::info!(copy = %member.id, address = member.address, "this copy of the metadata counts now");
                    return;
                }
                Err(JoinError::Stopping | JoinError::Deposed(_) | JoinError::Replaced) => return,
                Err(error) => {
                    if let JoinError::Call(error) = &error {
                        self.note_refusal(error);
                        // Another process runs there: it asks for itself.
                        if let CopyCallError::Refused(CopyRefusal::OtherProcess { .. }) = error {
                            return;
                        }
                    }
                    tracing::warn!(copy = %member.id, address = member.address, %error, "a copy of the metadata is not up to date yet; trying again");
                    self.platform.clock.sleep(RETRY_PAUSE * 4).await;
                }
            }
        }
    }

    fn is_joining(&self, member: &Member) -> bool {
        let known = self.register.known();
        let register = known.as_ref().and_then(|known| known.register.as_ref());
        let found = register.and_then(|register| register.member(member.id));
        found.is_some_and(|found| found.run == member.run && found.standing == Standing::Joining)
    }

    fn kv(&self) -> Result<Arc<Kv>, JoinError> {
        let kv = self.kv.get().and_then(|kv| kv.upgrade());
        kv.ok_or(JoinError::Stopping)
    }

    async fn catch_up_and_count(&self, copy: &CopyPeer) -> Result<(), JoinError> {
        let obey = CopyOp::Obey { owner: self.epoch };
        let state = copy.state(obey, ASK_TIMEOUT).await?;
        let end = match state.log {
            CopyLogState::Open { end, decided, .. } => self.find_common(copy, end, decided).await?,
            CopyLogState::Unusable(_) => None,
            CopyLogState::Owner => return Err(JoinError::Call(CopyCallError::Malformed)),
        };
        match end {
            Some(end) => self.catch_up_from(copy, end).await?,
            None => {
                let kept = self.send_snapshot(copy).await?;
                self.catch_up_from(copy, kept.position()).await?;
            }
        }
        self.count(copy).await
    }

    /// Where the copy's log is a beginning of this one, after it dropped records that this one does not have. None: it needs a snapshot.
    async fn find_common(
        &self,
        copy: &CopyPeer,
        end: LogPosition,
        decided: LogPosition,
    ) -> Result<Option<LogPosition>, JoinError> {
        if self.has(end).await? {
            return Ok(Some(end));
        }
        if !self.has(decided).await? {
            return Ok(None);
        }
        let cut = CopyOp::CutTo {
            owner: self.epoch,
            end: decided,
        };
        Ok(Some(copy.call(cut, REOPEN_TIMEOUT).await?))
    }

    /// Whether the log has this position, and all records after it.
    async fn has(&self, position: LogPosition) -> Result<bool, JoinError> {
        match self.kv()?.records_after(position).await {
            Ok(_) => Ok(true),
            Err(LogError::NoSuchPosition(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends all written records after this position.
    async fn catch_up_from(&self, copy: &CopyPeer, mut end: LogPosition) -> Result<(), JoinError> {
        while let Some(missed) = self.kv()?.records_after(end).await? {
            end = missed.upto;
            let parts = missed.into_parts(self.store, PART_BYTES);
            let parts = parts.map_err(|_| CopyCallError::Malformed)?;
            self.append_parts(copy, &parts).await?;
        }
        Ok(())
    }

    /// Sends the last records while no others are sent, and counts the copy from then on.
    async fn count(&self, copy: &CopyPeer) -> Result<(), JoinError> {
        let end = self.turn.lock().await;
        self.send_last(copy, *end).await?;
        let sync = CopyOp::Sync { owner: self.epoch };
        let synced = copy.call(sync, SYNC_TIMEOUT).await?;
        self.note_synced(copy.id, synced);
        // It may count as soon as the arbiter has the change, whatever the arbiter replies: from now on nothing is committed without it.
        self.counting.lock().insert(copy.id, copy.clone());
        let counted = self.count_in_register(copy).await;
        if counted.is_err() {
            self.counting.lock().remove(&copy.id);
        }
        drop(end);
        counted
    }

    /// Returns when the copy ends where the others do; the caller has the turn.
    async fn send_last(&self, copy: &CopyPeer, end: LogPosition) -> Result<(), JoinError> {
        for _ in 0..LAST_TRIES {
            let state = copy.state(CopyOp::State, ASK_TIMEOUT).await?;
            let CopyLogState::Open { end: has, .. } = state.log else {
                return Err(JoinError::Call(CopyCallError::Malformed));
            };
            if has == end {
                return Ok(());
            }
            self.catch_up_from(copy, has).await?;
            let kv = self.kv()?;
            if let Some(why) = kv.closed() {
                return Err(why.into());
            }
            // The others have the last records, and they are being written here.
            if kv.written() != end {
                self.platform.clock.sleep(LAST_PAUSE).await;
            }
        }
        Err(JoinError::Unwritten)
    }

    async fn count_in_register(&self, copy: &CopyPeer) -> Result<(), JoinError> {
        // A copy that counts could take over: the owner's right may rest on the promises of the others alone.
        let promise = CopyOp::Promise { owner: self.epoch };
        copy.call(promise, ASK_TIMEOUT).await?;
        self.send_key_list_to(copy).await?;
        let run = copy.run.ok_or(CopyCallError::Malformed)?;
        let counted = self.edit(|register| {
            let member = register.member(copy.id)?;
            let is_joining = member.run == run && member.standing == Standing::Joining;
            is_joining.then(|| {
                register.set_standing(copy.id, run, Standing::Counting);
            })
        });
        // As this change found it: a read that began before may have told an older state since.
        let known = counted.await.map_err(JoinError::Deposed)?;
        let register = known.register.as_ref();
        let member = register.and_then(|register| register.member(copy.id));
        let counts =
            member.is_some_and(|member| member.run == run && member.standing == Standing::Counting);
        match counts {
            true => Ok(()),
            // Another process of the copy asks to join.
            false => Err(JoinError::Replaced),
        }
    }
}
