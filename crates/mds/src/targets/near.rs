//! Targets of this process: heard at the start, and now and then.

use super::judge::{Verdict, judge};
use super::{Standing, Targets, down};
use gupfs_namespace::KnownTarget;
use gupfs_proto::cluster::TargetIdentity;
use gupfs_proto::{OstId, Refusal};

/// What is to be done about a target that was heard.
pub(crate) enum Near {
    /// To be remembered, with `true` also after a power cut; then it is told who we are, and heard again.
    Tell(Option<(KnownTarget, bool)>),
    /// It serves, once this is remembered.
    Serves(Option<(KnownTarget, bool)>),
    /// It has served a later state of the store than this.
    Restored(String),
}

impl Targets {
    /// # Errors
    /// `TargetDown` with the reason if the target is not who it was, or unknown.
    pub(crate) fn near(&self, ost: OstId, told: &TargetIdentity) -> Result<Near, Refusal> {
        let mut list = self.list.lock();
        let Some(state) = list.get_mut(&ost) else {
            return Err(down(ost, "no target of this number belongs to this start"));
        };
        self.changed.notify_waiters();
        // Loss is accepted once: whoever goes back while we run was not restored by an operator who knew.
        let accept = self.ground.accept_loss && !state.standing.is_good();
        match judge(&self.ground, ost, state.remembered, told, accept) {
            Verdict::Adopt(known) => Ok(Near::Tell(state.remember(known))),
            Verdict::Serve(known) if told.owner.is_same_start(&self.ground.ours) => {
                Ok(Near::Serves(state.remember(known)))
            }
            Verdict::Serve(known) => Ok(Near::Tell(state.remember(known))),
            Verdict::Refused(why) => {
                state.standing = Standing::Refused(why.clone());
                Err(down(ost, why))
            }
            Verdict::Restored(why) => Ok(Near::Restored(why)),
        }
    }

    /// It may be used from here on.
    pub(crate) fn near_serves(&self, ost: OstId) {
        self.stands(ost, Standing::Good);
    }

    /// It cannot be asked.
    pub(crate) fn near_is_down(&self, ost: OstId, why: &str) -> Refusal {
        self.stands(ost, Standing::Down(why.to_owned()));
        down(ost, why)
    }

    fn stands(&self, ost: OstId, standing: Standing) {
        if let Some(state) = self.list.lock().get_mut(&ost) {
            state.standing = standing;
        }
        self.changed.notify_waiters();
    }
}
