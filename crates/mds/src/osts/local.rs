//! Local targets, which this process serves: checked at the start, and now and then.

use super::Targets;
use super::call::down;
use super::entry::{OlderCopy, TargetCondition};
use super::identity::{Acceptance, IdentityVerdict, check_identity, copy_of};
use gupfs_namespace::KnownTarget;
use gupfs_proto::cluster::TargetIdentity;
use gupfs_proto::{FsError, OstId};

/// What to do with a local target after a check.
pub(crate) enum LocalTargetAction {
    /// Record this, with `true` so that it survives a power loss; then the target adopts this start, and is checked again.
    Adopt(Option<(KnownTarget, bool)>),
    /// The target serves once this is recorded.
    Serve(Option<(KnownTarget, bool)>),
    /// The target has served a later state of the store than this one.
    StoreOutdated(String),
}

impl Targets {
    /// # Errors
    /// `TargetDown` with the reason if the target's identity does not match the recorded one, or the target is lost or unknown.
    pub(crate) fn check_local(
        &self,
        ost: OstId,
        reported: &TargetIdentity,
    ) -> Result<LocalTargetAction, FsError> {
        let mut list = self.list.lock();
        let Some(entry) = list.get_mut(&ost) else {
            return Err(down(
                ost,
                "no target with this number is part of this start",
            ));
        };
        if let TargetCondition::Lost(why) = &entry.condition {
            return Err(down(ost, why));
        }
        self.changed.notify_waiters();
        // A loss is accepted once: no operator restored a target that goes back while the server runs.
        let accepts = match self.identity_context.accept_loss && !entry.condition.is_up() {
            true => Acceptance::Copies,
            false => Acceptance::None,
        };
        let domain = self.local_domain;
        let in_domain = |known: KnownTarget| KnownTarget { domain, ..known };
        match check_identity(
            &self.identity_context,
            ost,
            entry.recorded,
            reported,
            accepts,
        ) {
            IdentityVerdict::Adopt(known) => {
                Ok(LocalTargetAction::Adopt(entry.record(in_domain(known))))
            }
            IdentityVerdict::Serve(known)
                if reported.owner.is_same_instance(&self.identity_context.ours) =>
            {
                Ok(LocalTargetAction::Serve(entry.record(in_domain(known))))
            }
            IdentityVerdict::Serve(known) => {
                Ok(LocalTargetAction::Adopt(entry.record(in_domain(known))))
            }
            IdentityVerdict::Refused(why) => {
                entry.condition = TargetCondition::Refused(why.clone());
                Err(down(ost, why))
            }
            IdentityVerdict::OlderCopy(why) => {
                entry.older_copy = Some(OlderCopy {
                    copy: copy_of(reported),
                    why: why.clone(),
                    address: None,
                    objects: None,
                });
                entry.condition = TargetCondition::Refused(why.clone());
                Err(down(ost, why))
            }
            IdentityVerdict::StoreOutdated(why) => Ok(LocalTargetAction::StoreOutdated(why)),
        }
    }

    /// The target may be used from here on.
    pub(crate) fn mark_local_up(&self, ost: OstId) {
        self.set_condition(ost, TargetCondition::Up);
    }

    /// The target cannot be reached.
    pub(crate) fn mark_local_down(&self, ost: OstId, why: &str) -> FsError {
        self.set_condition(ost, TargetCondition::Down(why.to_owned()));
        down(ost, why)
    }

    fn set_condition(&self, ost: OstId, condition: TargetCondition) {
        if let Some(entry) = self.list.lock().get_mut(&ost)
            && !entry.condition.is_lost()
        {
            entry.condition = condition;
        }
        self.changed.notify_waiters();
    }
}
