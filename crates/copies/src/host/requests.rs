//! Requests of other hosts to this copy.

use super::CopyHost;
use super::store::text_of;
use bytes::Bytes;
use gupfs_proto::OwnerEpoch;
use gupfs_proto::copy::{CopyOp, CopyRefusal, CopyReply, CopyReplyBody, CopyRequest, LogPosition};
use gupfs_rpc::Service;
use gupfs_store::kv::KvCopy;
use gupfs_store::log::{AppendError, RecordGroup};
use std::sync::Arc;

impl Service<CopyRequest, CopyReply> for CopyHost {
    async fn handle(self: Arc<Self>, request: CopyRequest) -> CopyReply {
        let is_meant = (request.to.is_none_or(|copy| copy == self.id))
            && request.run.is_none_or(|run| run == self.run);
        if !is_meant {
            let (copy, run) = (self.id, self.run);
            return Ok(CopyReplyBody::Refused(CopyRefusal::OtherProcess {
                copy,
                run,
            }));
        }
        if let Some(owner) = request.op.owner()
            && let Err(known) = self.obey(owner)
        {
            return Ok(CopyReplyBody::Refused(CopyRefusal::FormerOwner { known }));
        }
        let done = match request.op {
            CopyOp::State => return Ok(CopyReplyBody::State(self.state())),
            CopyOp::HasRoom => return Ok(CopyReplyBody::HasRoom(self.files.has_room().await)),
            CopyOp::Obey { .. } => return Ok(CopyReplyBody::State(self.state())),
            CopyOp::Promise { owner } => self.answer_promise(owner),
            CopyOp::Release { owner } => {
                self.release_promise(owner);
                Ok(LogPosition::default())
            }
            CopyOp::Append {
                owner,
                after,
                upto,
                records,
            } => self.append((owner, after, upto), records).await,
            CopyOp::KeyList { list, .. } => self.keep_key_list(list).await,
            CopyOp::Sync { .. } => self.sync().await,
            CopyOp::CutTo { end, .. } => self.cut_to(end).await,
            CopyOp::BeginSnapshot { owner, at } => self.begin_snapshot(owner, at).await,
            CopyOp::SnapshotPart {
                owner,
                number,
                records,
            } => self.add_snapshot_part(owner, number, records).await,
            CopyOp::EndSnapshot { owner, parts } => self.end_snapshot(owner, parts).await,
        };
        Ok(match done {
            Ok(end) => CopyReplyBody::End(end),
            Err(refusal) => CopyReplyBody::Refused(refusal),
        })
    }
}

impl CopyHost {
    fn open_copy_of_requests(&self) -> Result<Arc<KvCopy>, CopyRefusal> {
        let copy = self.copy();
        copy.ok_or_else(|| CopyRefusal::Failed("it is not open".into()))
    }

    fn answer_promise(&self, owner: OwnerEpoch) -> Result<LogPosition, CopyRefusal> {
        let copy = self.open_copy_of_requests()?;
        match self.promise(owner) {
            true => Ok(copy.end()),
            false => Err(CopyRefusal::Failed("it takes over".into())),
        }
    }

    async fn append(
        &self,
        (owner, after, upto): (OwnerEpoch, LogPosition, LogPosition),
        bytes: Bytes,
    ) -> Result<LogPosition, CopyRefusal> {
        let copy = self.open_copy_of_requests()?;
        let group = RecordGroup {
            owner,
            after,
            upto,
            bytes,
        };
        copy.append(&group).await.map_err(|error| match error {
            AppendError::NotContinuous { has } => CopyRefusal::NotContinuous { has },
            AppendError::FormerOwner { known, .. } => CopyRefusal::FormerOwner { known },
            AppendError::Malformed { .. } => CopyRefusal::Malformed,
            AppendError::Log(error) => {
                self.note_failure(&copy, &error);
                CopyRefusal::Failed(text_of(&error))
            }
        })
    }

    async fn keep_key_list(&self, list: Bytes) -> Result<LogPosition, CopyRefusal> {
        let files = self.files.clone();
        let tasks = &self.platform.tasks;
        let kept = tasks.blocking(move || files.write_key_list(&list));
        kept.await.map_err(CopyRefusal::Failed)?;
        Ok(LogPosition::default())
    }

    async fn sync(&self) -> Result<LogPosition, CopyRefusal> {
        let copy = self.open_copy_of_requests()?;
        let synced = copy.make_durable().await;
        synced.map_err(|error| {
            self.note_failure(&copy, &error);
            CopyRefusal::Failed(text_of(&error))
        })?;
        Ok(copy.end())
    }
}
