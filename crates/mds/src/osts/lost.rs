//! Targets that an administrator declared lost for ever: requests to them fail at once, and they never serve again.

use super::Targets;
use super::call::down;
use super::entry::TargetCondition;
use gupfs_namespace::KnownTarget;
use gupfs_proto::{FsError, OstId, Timestamp};
use std::sync::atomic::Ordering::AcqRel;

/// The result of a declaration that a target is lost.
pub(crate) enum LossDeclaration {
    /// It is lost from now on, and the caller records that.
    New(KnownTarget),
    /// It was declared lost before.
    Known(Timestamp),
    /// Its server serves it, and the declaration is not for such a target. With the server's address if it is another process.
    Serves(Option<String>),
}

impl Targets {
    /// Declares that a target is lost: from now on requests to it fail, no new file is laid out on it, and clients learn that it is gone.
    ///
    /// # Errors
    /// `TargetDown` for a target that was never recorded.
    pub(crate) fn declare_lost(
        &self,
        ost: OstId,
        while_serving: bool,
        now: Timestamp,
    ) -> Result<LossDeclaration, FsError> {
        let mut list = self.list.lock();
        let Some(entry) = list.get_mut(&ost) else {
            return Err(down(ost, "no target with this number was ever added"));
        };
        let Some(recorded) = &mut entry.recorded else {
            return Err(down(ost, "its identity was never recorded"));
        };
        if let Some(since) = recorded.lost_since {
            return Ok(LossDeclaration::Known(since));
        }
        if entry.condition.is_up() && !while_serving {
            let address = entry.remote.as_ref().map(|remote| remote.address.clone());
            return Ok(LossDeclaration::Serves(address));
        }
        recorded.lost_since = Some(now);
        let recorded = *recorded;
        (entry.condition, entry.serving) = (condition(false, now), None);
        // Under the lock: the map with this epoch does not list the target.
        self.epoch.fetch_add(1, AcqRel);
        self.changed.notify_waiters();
        Ok(LossDeclaration::New(recorded))
    }

    pub fn is_lost(&self, ost: OstId) -> bool {
        let list = self.list.lock();
        list.get(&ost)
            .is_some_and(|entry| entry.condition.is_lost())
    }

    /// The targets that were declared lost.
    pub fn lost(&self) -> Vec<OstId> {
        let list = self.list.lock();
        let lost = list.iter().filter(|(_, entry)| entry.condition.is_lost());
        lost.map(|(ost, _)| *ost).collect()
    }

    /// The newest record of a target.
    pub(crate) fn recorded(&self, ost: OstId) -> Option<KnownTarget> {
        self.list.lock().get(&ost).and_then(|entry| entry.recorded)
    }
}

pub(super) fn condition(is_removed: bool, since: Timestamp) -> TargetCondition {
    TargetCondition::Lost(reason(is_removed, since))
}

/// Why a target is not part of the cluster any more.
pub(super) fn reason(is_removed: bool, since: Timestamp) -> String {
    format!("it {}", what_happened(is_removed, since))
}

/// What the server of such a target is told.
pub(super) fn refusal(ost: OstId, is_removed: bool, since: Timestamp) -> String {
    format!(
        "ost{ost} {}; wipe the directory and add it as a new target (`gupfs ost add`)",
        what_happened(is_removed, since)
    )
}

fn what_happened(is_removed: bool, since: Timestamp) -> String {
    let what = match is_removed {
        true => "removed",
        false => "declared lost",
    };
    format!("was {what} on {}", since.format_minute())
}
