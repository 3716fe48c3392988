//! Writes of mirrored files whose bytes this client sends once: the server of the first member relays them to the others.
//!
//! What a server has to say of the others may be missing, or come too late. Then the client sends the bytes itself, to each member, after the
//! member's target has refused to execute relayed writes that may still be on their way.

use super::{ChangedObject, ObjectIo, required_existence};
use crate::inodes::MemberObject;
use crate::metrics::Counters;
use crate::osts::RelayedMember;
use crate::relay_targets::TicketState;
use gupfs_proto::data::{DataOp, DataReplyBody, RelayOutcome};
use gupfs_proto::{ByteCount, FsError, OstId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::OnceLock;
use tokio::sync::Notify;

/// One attempt of a change at the full members of a stripe.
#[derive(Default)]
pub(super) struct ChangeAttempt {
    members: Vec<MemberObject>,
    /// The members to which the server of the first one relays the change.
    plan: OnceLock<Vec<RelayedMember>>,
    /// What the relay has done; None: it goes on.
    relayed: Mutex<Option<BTreeMap<OstId, ChangedObject>>>,
    ended: Notify,
}

impl ChangeAttempt {
    pub fn new(members: Vec<MemberObject>) -> ChangeAttempt {
        ChangeAttempt {
            members,
            ..ChangeAttempt::default()
        }
    }

    pub fn members(&self) -> &[MemberObject] {
        &self.members
    }

    fn end(&self, done: BTreeMap<OstId, ChangedObject>) {
        self.relayed.lock().get_or_insert(done);
        self.ended.notify_waiters();
    }

    /// The state of a member's object after the relayed write; None: the relay did not reach it.
    async fn wait_relayed(&self, ost: OstId) -> Option<ChangedObject> {
        loop {
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            if let Some(done) = &*self.relayed.lock() {
                return done.get(&ost).copied();
            }
            ended.await;
        }
    }
}

/// Ends the relay of an attempt, also when the call to the first member is given up.
struct RelayGuard<'a>(&'a ChangeAttempt);

impl Drop for RelayGuard<'_> {
    fn drop(&mut self) {
        self.0.end(BTreeMap::new());
    }
}

impl ObjectIo {
    /// Has a member written by the relay of this attempt. None: the caller sends it the bytes.
    pub(super) async fn write_by_relay(
        &self,
        attempt: &ChangeAttempt,
        member: MemberObject,
        len: ByteCount,
        is_reserved: bool,
        write: impl Fn(MemberObject) -> DataOp,
    ) -> Option<ChangedObject> {
        let plan = (attempt.plan).get_or_init(|| self.plan_relay(attempt.members(), len));
        let first = *attempt.members.first()?;
        if plan.is_empty() {
            return None;
        }
        if member.ost == first.ost {
            let guard = RelayGuard(attempt);
            let done = self.relay(first, plan, is_reserved, write(first)).await;
            let own = done.get(&first.ost).copied();
            attempt.end(done);
            drop(guard);
            return own;
        }
        let relayed = plan.iter().find(|relayed| relayed.ost == member.ost)?;
        tokio::select! {
            biased;
            written = attempt.wait_relayed(member.ost) => written,
            // The first member's target is given up, and the others must not wait for it.
            () = self.wait_until_silent(first.ost) => {
                self.osts.gave_up_relay(first.ost, relayed);
                None
            }
        }
    }

    /// The members to which the first one's server can relay a write of so many bytes.
    fn plan_relay(&self, members: &[MemberObject], len: ByteCount) -> Vec<RelayedMember> {
        let [first, others @ ..] = members else {
            return Vec::new();
        };
        let is_slow = |ost| self.silent_targets.is_doubtful(ost);
        if others.is_empty() || is_slow(first.ost) || !self.osts.can_relay_from(first.ost, len) {
            return Vec::new();
        }
        let near = self.osts.others_on_server(first.ost);
        let mut plan = Vec::new();
        for member in others {
            if is_slow(member.ost) || near.contains(&member.ost) {
                continue;
            }
            match self.osts.relay_ticket(member.ost) {
                TicketState::Accepted(ticket) => plan.push(RelayedMember {
                    ost: member.ost,
                    object: member.object,
                    existence: required_existence(member.presence),
                    ticket,
                }),
                TicketState::ToRequest => {
                    let (osts, ost) = (self.osts.clone(), member.ost);
                    let request = async move { osts.request_relay_ticket(ost).await };
                    self.tasks.spawn("request a relay ticket", request);
                }
                TicketState::NotNow => {}
            }
        }
        plan
    }

    /// Sends the write to the first member; returns the states of the members' objects that have the bytes now.
    async fn relay(
        &self,
        first: MemberObject,
        plan: &[RelayedMember],
        is_reserved: bool,
        write: DataOp,
    ) -> BTreeMap<OstId, ChangedObject> {
        tracing::trace!(target: "walk", file = file!(), "relay");
        let mut done = BTreeMap::new();
        let reply = self.osts.call_relaying(first.ost, write, is_reserved, plan);
        match reply.await {
            Ok(DataReplyBody::WrittenMembers { own, others }) => {
                match own {
                    Ok(written) => {
                        done.insert(first.ost, (written.stat, written.verifier));
                    }
                    Err(error) => log_missed(first.ost, &error),
                }
                for (relayed, outcome) in plan.iter().zip(others) {
                    match outcome {
                        RelayOutcome::Written(written) => {
                            done.insert(relayed.ost, (written.stat, written.verifier));
                            Counters::add(&self.counters.writes_relayed, 1);
                        }
                        RelayOutcome::Refused(error) => log_missed(relayed.ost, &error),
                        RelayOutcome::Unknown => {
                            log_missed(relayed.ost, &FsError::TimedOut("the relay".into()));
                        }
                    }
                }
            }
            Ok(_) => log_missed(first.ost, &FsError::Malformed("the reply".into())),
            Err(error) => log_missed(first.ost, &error),
        }
        done
    }
}

fn log_missed(ost: OstId, error: &FsError) {
    tracing::debug!(%ost, %error, "a relayed write did not reach a member; the client sends it");
}
