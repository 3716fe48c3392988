//! Asking targets how much room they have.

use super::{Targets, UnknownSpace, unexpected};
use crate::limits::SPACE_ANSWER;
use futures_util::future::join_all;
use gupfs_proto::data::{Answer, Op, Space};
use gupfs_proto::{OstId, Refusal};

impl Targets {
    /// Asks every target that may be asked, side by side, and notes what they say. A target that gives no answer in time
    /// gets no new files until it does. Servers elsewhere tell it by themselves.
    pub async fn poll_space(&self) {
        self.miss_the_silent();
        let near = |state: &super::State| state.far.is_none() && state.peer.is_some();
        let osts: Vec<OstId> = {
            let list = self.list.lock();
            let ours = list.iter().filter(|(_, state)| near(state));
            ours.map(|(ost, _)| *ost).collect()
        };
        let asked = osts.into_iter().map(|ost| async move {
            let space = tokio::select! {
                biased;
                space = self.space_of(ost) => space,
                () = self.clock.sleep(SPACE_ANSWER) => Err(Refusal::TimedOut(format!("the space of ost{ost}"))),
            };
            (ost, space)
        });
        for (ost, space) in join_all(asked).await {
            if let Some(state) = self.list.lock().get_mut(&ost) {
                state.space = space.map_err(|refusal| match refusal {
                    Refusal::TimedOut(_) => UnknownSpace::NotYet(refusal.to_string()),
                    _ => UnknownSpace::Failed(refusal.to_string()),
                });
            }
        }
        self.changed.notify_waiters();
    }

    async fn space_of(&self, ost: OstId) -> Result<Space, Refusal> {
        match self.call(ost, Op::Space).await? {
            Answer::Space(space) => Ok(space),
            other => Err(unexpected(ost, &other)),
        }
    }
}
