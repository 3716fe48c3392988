//! Fencing: before the server trusts or passes on what an ended session had, no OST executes requests of this session any more.
//!
//! An OST that replies has fenced the session: none of its requests is in flight there. An OST that does not reply may accept the
//! session until its last session capability expires, and no longer; the server waits until then. Recovery fences the requests
//! that such an OST had begun before it asks the OST for the state of its objects.

use super::Targets;
use crate::join;
use crate::limits::{CREDENTIAL_TICK, FENCE_RETRY, FENCE_TIMEOUT, OST_CALLS};
use gupfs_platform::BootTime;
use gupfs_proto::capability::CredentialTime;
use gupfs_proto::data::DataOp;
use gupfs_proto::{FsError, ObjectId, OstId, OwnerEpoch, SessionId};

impl Targets {
    /// Returns when no OST begins a request of a session that has ended.
    pub async fn fence(&self, session: SessionId) {
        let Some(issuer) = self.issuer() else {
            return;
        };
        let until = issuer.valid_until(session);
        let all = self.all().into_iter();
        let fences = all.map(|ost| self.fence_until(session, ost, until));
        let fenced = join::all(fences.collect(), OST_CALLS).await;
        if fenced.contains(&false) {
            tracing::info!(%session, "some OSTs could not be told that the session ended; its last session capability has expired");
        }
    }

    /// Whether an OST has fenced the session. After a start, OSTs report within a second or two, so the fence is tried again
    /// until the last session capability expires.
    async fn fence_until(&self, session: SessionId, ost: OstId, until: BootTime) -> bool {
        loop {
            let fenced = tokio::select! {
                biased;
                fenced = self.fence_at_now(session, ost) => fenced.is_ok(),
                () = self.clock.sleep(FENCE_TIMEOUT) => false,
            };
            if fenced || self.clock.boot() >= until {
                return fenced;
            }
            self.clock.sleep(FENCE_RETRY).await;
        }
    }

    /// Fences at the OST only if it can be reached now.
    async fn fence_at_now(&self, session: SessionId, ost: OstId) -> Result<(), FsError> {
        match self.is_up(ost) {
            true => self.fence_at(session, ost).await,
            false => Err(FsError::TimedOut(format!("ost{ost}"))),
        }
    }

    /// Returns when no request of this session is in flight at an OST, nor will be.
    ///
    /// # Errors
    /// The error that keeps the OST from answering.
    pub async fn fence_at(&self, session: SessionId, ost: OstId) -> Result<(), FsError> {
        let Some(issuer) = self.issuer() else {
            return Ok(());
        };
        if issuer.is_fenced(session, ost) {
            return Ok(());
        }
        self.call(ost, DataOp::Fence { session }).await?;
        issuer.mark_fenced(session, ost);
        Ok(())
    }

    /// Returns when no client's request from before this call changes the object any more.
    ///
    /// # Errors
    /// Of the OST.
    pub async fn fence_object(&self, ost: OstId, object: ObjectId) -> Result<(), FsError> {
        let newest = match self.issuer() {
            Some(issuer) => issuer.newest(),
            // Sessions without capabilities are in the OST's process.
            None => CredentialTime {
                epoch: OwnerEpoch(0),
                until: 0,
            },
        };
        // Those that clients get after the fence are newer.
        self.clock.sleep(CREDENTIAL_TICK).await;
        let op = DataOp::FenceObject { object, newest };
        self.call(ost, op).await.map(|_| ())
    }
}
