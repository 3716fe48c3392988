//! Targets that are about to be stopped in order: sessions learn it before, so that no change of a mirrored file waits for them.

use crate::callback::{CallbackPeer, CallbackTable};
use crate::join;
use crate::limits::STOP_PATIENCE;
use crate::osts::Targets;
use crate::placement::Placement;
use gupfs_platform::Clock;
use gupfs_proto::callback::CallbackRequest;
use gupfs_proto::cluster::{ClusterReply, ClusterReplyBody, StoppingTarget};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub struct StoppingTargets {
    pub targets: Arc<Targets>,
    pub placement: Arc<Placement>,
    pub callbacks: Arc<CallbackTable>,
    pub clock: Clock,
}

impl StoppingTargets {
    /// Tells all connected sessions that these targets stop. The object server does not wait for a session that does not reply in time: that
    /// session notices by itself that the targets do not answer. Costs one message per session.
    pub async fn tell_sessions(&self, stopping: &[StoppingTarget]) -> ClusterReply {
        let osts = self.targets.note_stopping(stopping);
        let told = AtomicU64::new(0);
        if !osts.is_empty() {
            self.placement.update();
            let peers = self
                .callbacks
                .connected_peers(CallbackRequest::TARGETS_STOP_SINCE);
            let count = peers.len();
            let tell = |peer: CallbackPeer| {
                let (osts, told) = (osts.clone(), &told);
                async move {
                    if peer
                        .call(CallbackRequest::TargetsStop { osts })
                        .await
                        .is_ok()
                    {
                        told.fetch_add(1, Relaxed);
                    }
                }
            };
            let calls = peers.into_iter().map(tell).collect();
            tokio::select! {
                biased;
                _ = join::all(calls, count) => {}
                () = self.clock.sleep(STOP_PATIENCE) => {}
            }
        }
        Ok(ClusterReplyBody::SessionsTold {
            sessions: told.load(Relaxed),
        })
    }
}
