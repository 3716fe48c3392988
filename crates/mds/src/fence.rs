//! Before what a session held is believed or given to another, no OST does anything in its name any more.
//!
//! An OST that answers has fenced the session: nothing of it is under way there. One that does not believes it until the
//! last pass is over, and no longer; it is waited for until then. What it had begun before is fenced before its objects are
//! asked how they stand.

use crate::core::Core;
use crate::limits::{FENCE_AGAIN, FENCE_ANSWER, OST_CALLS};
use crate::together;
use gupfs_platform::BootTime;
use gupfs_proto::data::Op;
use gupfs_proto::{OstId, Refusal, SessionId};

impl Core {
    /// Returns when no OST begins anything in the name of a session that has ended.
    pub async fn fence(&self, session: SessionId) {
        let Some(permits) = self.targets.permits() else {
            return;
        };
        let until = permits.counts_until(session);
        let all = self.targets.all().into_iter();
        let fences = all.map(|ost| self.fence_until(session, ost, until));
        let fenced = together::all(fences.collect(), OST_CALLS).await;
        if fenced.contains(&false) {
            tracing::info!(%session, "not every OST could be told that it has ended; its last pass is over");
        }
    }

    /// Whether an OST has fenced the session. After a start OSTs are heard of within a second or two: they are tried again
    /// until the last pass is over.
    async fn fence_until(&self, session: SessionId, ost: OstId, until: BootTime) -> bool {
        loop {
            let fenced = tokio::select! {
                biased;
                fenced = self.fence_at_now(session, ost) => fenced.is_ok(),
                () = self.platform.clock.sleep(FENCE_ANSWER) => false,
            };
            if fenced || self.platform.clock.boot() >= until {
                return fenced;
            }
            self.platform.clock.sleep(FENCE_AGAIN).await;
        }
    }

    /// Only if the OST can be asked now.
    async fn fence_at_now(&self, session: SessionId, ost: OstId) -> Result<(), Refusal> {
        match self.targets.is_up(ost) {
            true => self.fence_at(session, ost).await,
            false => Err(Refusal::TimedOut(format!("ost{ost}"))),
        }
    }

    /// Returns when nothing in the name of this session is under way at an OST, nor will be.
    ///
    /// # Errors
    /// What keeps the OST from answering.
    pub async fn fence_at(&self, session: SessionId, ost: OstId) -> Result<(), Refusal> {
        let Some(permits) = self.targets.permits() else {
            return Ok(());
        };
        if permits.is_fenced(session, ost) {
            return Ok(());
        }
        self.targets.call(ost, Op::Fence { session }).await?;
        permits.was_fenced(session, ost);
        Ok(())
    }
}
