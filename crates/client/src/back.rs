//! Coming back to a metadata server that was started again.
//!
//! Whatever was answered and is not known to be durable is said again; the server makes again what a power cut took
//! (docs/decisions, "Changes said again"). So is which locks are held here. Who asks something meanwhile waits, and asks again
//! then.

use crate::service::Client;
use gupfs_proto::capability::OpenProof;
use gupfs_proto::limits::{BODY_MAX, KEPT_PART, LOCKS_PART};
use gupfs_proto::lock::Lock;
use gupfs_proto::meta::{self, Kept, Op};
use gupfs_proto::{Caller, InodeId, OwnerEpoch, Refusal, Seq, wire};
use std::collections::BTreeSet;

impl Client {
    /// The server lives another life than the one counted on.
    ///
    /// # Errors
    /// `SessionEnded`: what is open is stale. Others: the server does not take us back now.
    pub(crate) async fn come_back(&self, mut life: OwnerEpoch) -> Result<(), Refusal> {
        let session = self.session.current();
        let _one_at_a_time = self.coming_back.lock().await;
        if self.view.now().0 == life || self.session.current() != session {
            return Ok(());
        }
        loop {
            let ((of, kept), locks) = (self.view.leave(), self.locks.leave());
            let sent = self.platform.clock.boot();
            let reply = self.say_again(life, of, &kept, &locks).await;
            match reply.result {
                Ok(_) => {
                    tracing::info!(%session, %life, said_again = kept.len(), locks = locks.len(), "the metadata server was started again; the session goes on");
                    self.locks.arrive(life);
                    self.view.arrive(life, &reply);
                    self.session.was_renewed(sent);
                    return Ok(());
                }
                Err(Refusal::AnotherLife(newer)) => life = newer,
                Err(refusal) => {
                    if refusal == Refusal::SessionEnded {
                        self.session_has_ended(session);
                    }
                    return Err(refusal);
                }
            }
        }
    }

    /// In parts that fit into a message; the reply to the last one, or to the first that was refused.
    async fn say_again(
        &self,
        life: OwnerEpoch,
        of: OwnerEpoch,
        kept: &[Kept],
        locks: &[Lock],
    ) -> meta::Reply {
        let (mut rest, mut held) = (kept, locks);
        loop {
            let (part, more) = rest.split_at(part_of(rest));
            rest = more;
            // A message has changes or locks.
            let room = if part.is_empty() { LOCKS_PART } else { 0 };
            let (locks, more) = held.split_at(held.len().min(room));
            held = more;
            let last = rest.is_empty() && held.is_empty();
            let op = Op::Return {
                of,
                kept: part.to_vec(),
                locks: locks.to_vec(),
                last,
            };
            // Changes have their proofs in themselves.
            let locked: BTreeSet<InodeId> = locks.iter().map(|lock| lock.holder.ino).collect();
            let proofs: Vec<OpenProof> = (locked.into_iter())
                .filter_map(|ino| self.open_proof(ino))
                .collect();
            let op = match proofs.is_empty() {
                true => op,
                false => Op::Proven {
                    proofs,
                    op: wire::op_bytes(&op),
                },
            };
            let request = meta::Request {
                session: self.session.current(),
                lane: None,
                caller: Caller::root(),
                job: self.options.job,
                life,
                seen: Seq(0),
                op,
            };
            let reply = self.route.mds.call(request).await;
            if last || reply.result.is_err() {
                return reply;
            }
        }
    }
}

/// How many of these go into one message.
fn part_of(kept: &[Kept]) -> usize {
    let mut room = BODY_MAX.0 as usize;
    let fits = |change: &&Kept| {
        let stripes = change.layout.iter().flat_map(|layout| &layout.components);
        let stripes: usize = stripes.map(|component| component.targets.len()).sum();
        // Beyond the operation's bytes: numbers, the caller's groups, what a layout's targets take.
        let size = change.op.len() + change.caller.groups.len() * 5 + stripes * 8 + 512;
        room.checked_sub(size).map(|left| room = left).is_some()
    };
    let count = kept.iter().take(KEPT_PART).take_while(fits).count();
    count.max(usize::from(!kept.is_empty()))
}
