//! Requests to this server's targets: waits for the metadata server's verdict on the target, passes the request to the target's
//! objects, makes the reply.

use crate::targets::Oss;
use gupfs_accounting::FinishedCall;
use gupfs_proto::JobId;
use gupfs_proto::data::{DataOp, DataReply, DataReplyBody, DataRequest};
use gupfs_proto::jobs::{CallClass, JobKey};
use gupfs_rpc::Service;
use gupfs_store::object::{AllocateRequest, Objects, WriteRequest};
use std::sync::Arc;
use std::time::Duration;

impl Service<DataRequest, DataReply> for Oss {
    async fn handle(self: Arc<Self>, request: DataRequest) -> DataReply {
        // The metadata server asks every few seconds.
        if let DataOp::Damaged { repaired } = &request.op {
            let target = self.objects_after_verdict(request.ost).await?;
            let damaged = target.damaged_after_repair(repaired)?;
            return Ok(DataReplyBody::DamagedObjects(damaged));
        }
        tracing::trace!(target: "walk", file = file!(), "handle");
        // A fence concerns all targets of this server, whether they have a verdict or not.
        if let DataOp::Fence { session } = request.op {
            self.authorizer().fence(session).await;
            self.free_session(session);
            return Ok(DataReplyBody::Done);
        }
        let Some(jobs) = self.jobs() else {
            return self.handle_any(request).await;
        };
        let mut call = FinishedCall {
            key: JobKey {
                session: request.session,
                job: request.job,
            },
            class: request.op.class(),
            ost: Some(request.ost),
            has_failed: false,
            bytes_read: 0,
            bytes_written: request.op.bytes_written(),
            took: Duration::ZERO,
        };
        let begun = jobs.now();
        let reply = self.handle_any(request).await;
        call.took = jobs.now().since(begun);
        match &reply {
            Ok(DataReplyBody::Data { data, .. }) => call.bytes_read = data.len() as u64,
            Ok(_) => {}
            Err(_) => (call.has_failed, call.bytes_written) = (true, 0),
        }
        if call.key.job != JobId::UNKNOWN || call.class != CallClass::Client {
            jobs.count(call);
        }
        reply
    }
}

impl Oss {
    async fn handle_any(&self, request: DataRequest) -> DataReply {
        match request.op {
            DataOp::MirroredWrite { .. } => self.write_members(request).await,
            _ => self.handle_at_target(request).await,
        }
    }

    /// Handles a request that concerns one target.
    pub(crate) async fn handle_at_target(&self, request: DataRequest) -> DataReply {
        let target = &self.objects_after_verdict(request.ost).await?;
        if let DataOp::AcceptRelays { ticket } = request.op {
            let tickets = self.relay_tickets(request.ost);
            tickets.accept(request.session, ticket).await?;
            return Ok(DataReplyBody::Done);
        }
        if let DataOp::FenceObject { object, newest } = request.op {
            self.object_fences(request.ost)
                .fence(object, newest)
                .await?;
            return Ok(DataReplyBody::Done);
        }
        let Some(changed) = request.op.changed_object() else {
            return self.execute(target, request).await;
        };
        let _relayed = match request.op {
            DataOp::RelayedWrite { ticket, .. } => {
                Some((self.relay_tickets(request.ost)).begin(request.session, ticket)?)
            }
            _ => None,
        };
        let change = (self.object_fences(request.ost)).begin(changed, &request.credentials)?;
        let reply = self.execute(target, request).await;
        change.finish();
        reply
    }

    async fn execute(&self, target: &Objects, request: DataRequest) -> DataReply {
        target.note_map_epoch(request.map_epoch);
        // The reply to a change carries the write verifier: the client compares it with the one of its next sync.
        let written = |stat| DataReplyBody::Written(stat, target.write_verifier());
        let done = |()| DataReplyBody::DoneWithVerifier(target.write_verifier());
        match request.op {
            // The bytes are in the memory of this host: they survive the end of the process, but not a power loss.
            DataOp::Write {
                object,
                at,
                data,
                checksums: sums,
                existence: existing,
                owner,
            }
            | DataOp::RelayedWrite {
                object,
                at,
                data,
                checksums: sums,
                existence: existing,
                owner,
                is_reserved: false,
                ..
            } => {
                let write = WriteRequest {
                    object,
                    at,
                    data: &data,
                    sums: &sums,
                    existing,
                    owner,
                };
                target.write(write).await.map(written)
            }
            DataOp::NumberedWrite {
                number,
                object,
                at,
                data,
                checksums: sums,
                existence: existing,
                owner,
            } => {
                let write = WriteRequest {
                    object,
                    at,
                    data: &data,
                    sums: &sums,
                    existing,
                    owner,
                };
                let write = target.write_numbered(write, request.session, number);
                write.await.map(written)
            }
            DataOp::Reserve { bytes } => {
                self.note_volume(target).await?;
                let reserved = target.reserve(request.session, bytes).await;
                reserved.map(DataReplyBody::Reserved)
            }
            DataOp::ReservedWrite {
                object,
                at,
                data,
                checksums: sums,
                existence: existing,
                owner,
            }
            | DataOp::RelayedWrite {
                object,
                at,
                data,
                checksums: sums,
                existence: existing,
                owner,
                is_reserved: true,
                ..
            } => {
                let write = WriteRequest {
                    object,
                    at,
                    data: &data,
                    sums: &sums,
                    existing,
                    owner,
                };
                let (stat, left) = target.write_reserved(write, request.session).await?;
                let verifier = target.write_verifier();
                Ok(DataReplyBody::WrittenReserved(stat, verifier, left))
            }
            // The reader verifies the bytes with the checksums.
            DataOp::Read {
                object,
                at,
                len,
                existence,
                checksum_check,
            } => {
                let read = target.read(object, at, len, existence, checksum_check);
                read.await.map(|read| DataReplyBody::Data {
                    data: read.data,
                    checksums: read.sums,
                })
            }
            // Earlier writes and removals of these objects that got a reply survive a power loss from now on.
            DataOp::Sync { objects } => target.sync(&objects).await.map(done),
            DataOp::Confirm { objects } => {
                target.confirm(&objects).await.map(DataReplyBody::Confirmed)
            }
            DataOp::Truncate { object, to } => target.truncate(object, to).await.map(written),
            DataOp::Allocate {
                object,
                at,
                len,
                keep_size,
                existence: existing,
                owner,
            } => {
                let allocate = AllocateRequest {
                    object,
                    at,
                    len,
                    keep_size,
                    existing,
                    owner,
                };
                target.allocate(allocate).await.map(written)
            }
            DataOp::Zero {
                object,
                at,
                len,
                punch,
            } => target.zero(object, at, len, punch).await.map(written),
            DataOp::Seek { object, at, whence } => {
                (target.seek(object, at, whence).await).map(DataReplyBody::Position)
            }
            DataOp::Stat { object } => target.stat(object).await.map(DataReplyBody::Stat),
            // Idempotent, as is a quarantine; durable with the next sync of the object.
            DataOp::Remove { object } => target.remove(object).await.map(done),
            DataOp::Quarantine { object } => target.quarantine(object).await.map(done),
            DataOp::List { after, limit } => {
                target.list(after, limit).await.map(DataReplyBody::Objects)
            }
            DataOp::Space => self.space(target).await,
            DataOp::Digest {
                object,
                first_region,
                regions,
            } => {
                let digests = target.digest(object, first_region, regions).await;
                digests.map(DataReplyBody::Digests)
            }
            DataOp::Repair {
                object, at, data, ..
            } => {
                let repaired = target.repair(object, at, &data).await;
                repaired.map(DataReplyBody::Repaired)
            }
            DataOp::Fence { .. }
            | DataOp::FenceObject { .. }
            | DataOp::Damaged { .. }
            | DataOp::MirroredWrite { .. }
            | DataOp::AcceptRelays { .. } => unreachable!("handled before"),
        }
    }

    /// The target's capacity and the space available to writers. Volumes of different hosts have different numbers in the reply.
    async fn space(&self, target: &Objects) -> DataReply {
        let mut space = target.space().await?;
        space.volume = self.cluster_volume(space.volume);
        Ok(DataReplyBody::Space(space))
    }
}
