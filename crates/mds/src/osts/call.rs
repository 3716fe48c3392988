//! Requests to targets.

use super::entry::{TargetCondition, TargetEntry};
use super::{OstPeer, Targets};
use crate::limits::{DEADLINE, KEYS_RETRY};
use crate::origin::MDS_SESSION;
use gupfs_proto::capability::{CapabilityFault, DataCredentials};
use gupfs_proto::data::{self, DataReplyBody};
use gupfs_proto::{FsError, OstId};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;

impl Targets {
    /// Sends a request to a target. Sends nothing unless the target's identity is verified; waits for an expected target.
    ///
    /// # Errors
    /// The target's error; `TargetDown` if it cannot be reached, `TimedOut` if it does not reply.
    pub async fn call(&self, ost: OstId, op: data::DataOp) -> data::DataReply {
        let request = data::DataRequest {
            session: MDS_SESSION,
            map_epoch: self.epoch(),
            job: gupfs_proto::JobId(0),
            ost,
            credentials: match &self.issuer {
                Some(issuer) => issuer.server_credentials(ost),
                None => DataCredentials::None,
            },
            op,
        };
        let asking = async {
            loop {
                let peer = self.wait_for_peer(ost).await?;
                let reply = tokio::select! {
                    biased;
                    reply = peer.call(request.clone()) => reply,
                    error = self.wait_until_lost(ost) => Err(error),
                };
                if reply != Err(FsError::Capability(CapabilityFault::Expired)) {
                    return reply;
                }
                // Its server has reported, and not received our reply yet, which brings the keys for our credentials.
                self.clock.sleep(KEYS_RETRY).await;
            }
        };
        tokio::select! {
            biased;
            reply = asking => reply,
            () = self.clock.sleep(DEADLINE) => Err(FsError::TimedOut(format!("ost{ost}"))),
        }
    }

    /// Returns when one of these targets cannot be reached.
    pub async fn wait_until_one_is_down(&self, osts: BTreeSet<OstId>) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if !osts.iter().all(|ost| self.is_up(*ost)) {
                return;
            }
            changed.await;
        }
    }

    /// The peer of a target, as soon as it can be used. While no server can report yet, does not wait.
    async fn wait_for_peer(&self, ost: OstId) -> Result<OstPeer, FsError> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.peer_of(ost)? {
                Some(peer) => return Ok(peer),
                None if !self.listens.load(SeqCst) => {
                    return Err(down(ost, "its server has not reported yet"));
                }
                None => changed.await,
            }
        }
    }

    /// Returns when the target was declared lost, with the error of requests to it.
    async fn wait_until_lost(&self, ost: OstId) -> FsError {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.is_lost(ost)
                && let Err(error) = self.peer_of(ost)
            {
                return error;
            }
            changed.await;
        }
    }

    /// None for a target that is expected.
    fn peer_of(&self, ost: OstId) -> Result<Option<OstPeer>, FsError> {
        let list = self.list.lock();
        let Some(entry) = list.get(&ost) else {
            return Err(down(ost, "no target with this number is known"));
        };
        match (&entry.condition, &entry.peer) {
            (TargetCondition::Up, Some(peer)) => Ok(Some(peer.clone())),
            (TargetCondition::Expected(_), _) => Ok(None),
            (
                TargetCondition::Down(why)
                | TargetCondition::Refused(why)
                | TargetCondition::Lost(why),
                _,
            ) => Err(down(ost, why)),
            (TargetCondition::Up, None) => Err(down(ost, "it is not part of this start")),
        }
    }

    /// The targets of this start; where servers are remote, all known ones that are not lost.
    pub fn all(&self) -> Vec<OstId> {
        let list = self.list.lock();
        let ours = |entry: &TargetEntry| entry.peer.is_some() || self.dial.is_some();
        list.iter()
            .filter(|(_, entry)| ours(entry) && !entry.condition.is_lost())
            .map(|(ost, _)| *ost)
            .collect()
    }

    /// Whether a target can be reached now.
    pub fn is_up(&self, ost: OstId) -> bool {
        matches!(self.peer_of(ost), Ok(Some(_)))
    }
}

pub(super) fn down(ost: OstId, why: impl Into<String>) -> FsError {
    FsError::TargetDown {
        ost,
        reason: why.into(),
    }
}

/// The error for a reply that does not belong to the request.
pub fn unexpected_reply(ost: OstId, answer: &DataReplyBody) -> FsError {
    down(
        ost,
        format!("its reply does not belong to the request: {answer:?}"),
    )
}
