//! Reconnecting the session to a restarted metadata server.
//!
//! The client replays every answered change that is not known to be durable; the server makes those again that a power loss has
//! undone (docs/decisions, "Clients replay changes"). The client also reclaims the locks that it holds. Requests that it sends
//! meanwhile wait, and are sent again afterwards.

use super::MdsSession;
use gupfs_proto::capability::OpenCapability;
use gupfs_proto::limits::{BODY_MAX, REPLAY_LOCKS_MAX, REPLAY_RECORDS_MAX};
use gupfs_proto::lock::AdvisoryLock;
use gupfs_proto::meta::{self, MetaOp, ReplayRecord};
use gupfs_proto::{Caller, FsError, InodeId, JobId, OwnerEpoch, Seq, wire};
use std::collections::BTreeSet;

impl MdsSession {
    /// The server is another instance than the one that the replay log belongs to.
    ///
    /// # Errors
    /// `SessionEnded`: open files are stale. Others: the server does not accept the session now.
    pub(super) async fn reconnect(&self, mut instance: OwnerEpoch) -> Result<(), FsError> {
        let session = self.current.id();
        let _one_at_a_time = self.reconnecting.lock().await;
        if self.replay_log.position().0 == instance || self.current.id() != session {
            return Ok(());
        }
        loop {
            // Another client may change everything once this one is back.
            self.lease_cache.restart();
            self.kernel_attributes.invalidate_all().await;
            self.drop_all_pages().await;
            let ((former_instance, records), locks) =
                (self.replay_log.freeze(), self.state.locks.freeze());
            let sent = self.platform.clock.boot();
            let reply = self
                .replay(instance, former_instance, &records, &locks)
                .await;
            match reply.result {
                Ok(_) => {
                    tracing::info!(%session, %instance, replayed = records.len(), locks = locks.len(), "the metadata server was restarted; the session continues");
                    self.state.locks.restart(instance);
                    self.replay_log.restart(instance, &reply);
                    self.current.set_renewed(sent);
                    self.accept_leases().await;
                    return Ok(());
                }
                Err(FsError::OtherInstance(newer)) => instance = newer,
                Err(error) => {
                    if error == FsError::SessionEnded {
                        self.on_session_ended(session);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Sends them in parts that fit into a message; returns the reply to the last part, or to the first that the server refused.
    async fn replay(
        &self,
        instance: OwnerEpoch,
        former_instance: OwnerEpoch,
        records: &[ReplayRecord],
        locks: &[AdvisoryLock],
    ) -> meta::MetaReply {
        let (mut records_left, mut locks_left) = (records, locks);
        loop {
            let (part, more) = records_left.split_at(records_per_message(records_left));
            records_left = more;
            // A message has either changes or locks.
            let bytes_left = if part.is_empty() { REPLAY_LOCKS_MAX } else { 0 };
            let (locks, more) = locks_left.split_at(locks_left.len().min(bytes_left));
            locks_left = more;
            let last = records_left.is_empty() && locks_left.is_empty();
            let op = MetaOp::Replay {
                instance: former_instance,
                records: part.to_vec(),
                locks: locks.to_vec(),
                last,
            };
            // Changes carry their open capabilities in their recorded operations.
            let locked: BTreeSet<InodeId> = locks.iter().map(|lock| lock.holder.ino).collect();
            let open_capabilities: Vec<OpenCapability> = (locked.into_iter())
                .filter_map(|ino| self.state.open_capability(self.id(), ino))
                .collect();
            let op = match open_capabilities.is_empty() {
                true => op,
                false => MetaOp::WithOpenCapability {
                    open_capabilities,
                    op: wire::encode_op(&op),
                },
            };
            let request = meta::MetaRequest {
                session: self.current.id(),
                slot_seq: None,
                caller: Caller::root(),
                job: JobId::UNKNOWN,
                instance,
                last_seen: Seq(0),
                op,
            };
            let reply = self.route.mds.call(request).await;
            if last || reply.result.is_err() {
                return reply;
            }
        }
    }
}

/// How many of these records fit into one message.
fn records_per_message(records: &[ReplayRecord]) -> usize {
    let mut bytes_left = BODY_MAX.0 as usize;
    let fits = |change: &&ReplayRecord| {
        let stripes = change.layout.iter().flat_map(|layout| &layout.components);
        let stripes: usize = stripes.map(|component| component.targets.len()).sum();
        // Besides the operation's bytes: fixed-size fields, the caller's groups, the layout's targets.
        let size = change.op.len() + change.caller.groups.len() * 5 + stripes * 8 + 512;
        bytes_left
            .checked_sub(size)
            .map(|left| bytes_left = left)
            .is_some()
    };
    let count = records
        .iter()
        .take(REPLAY_RECORDS_MAX)
        .take_while(fits)
        .count();
    count.max(usize::from(!records.is_empty()))
}
