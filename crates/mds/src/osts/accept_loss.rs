//! Copies of targets that lack what the targets have served, and that an administrator accepts.

use super::Targets;
use super::call::down;
use super::entry::TargetCondition;
use super::lost;
use gupfs_namespace::{AcceptedCopy, KnownTarget};
use gupfs_proto::cluster::{RefusedCopy, TargetCopy};
use gupfs_proto::{FsError, OstId};

const NO_COPY: &str = "no copy of it was refused since the metadata server started: start its object server, which reports the copy";

/// What a target waits for whose copy was accepted after its server had closed it.
pub(super) fn restart_of(address: &str) -> String {
    format!("its loss was accepted: restart its object server at {address}, which has closed it")
}

impl Targets {
    /// The copy of a target that was refused.
    ///
    /// # Errors
    /// `TargetDown` if there is none, or if the target is unknown, serves, or is lost.
    pub(crate) fn refused_copy(&self, ost: OstId) -> Result<RefusedCopy, FsError> {
        let list = self.list.lock();
        let Some((entry, known)) = list
            .get(&ost)
            .and_then(|entry| Some((entry, entry.recorded?)))
        else {
            return Err(down(ost, "no target with this number was ever added"));
        };
        if let Some(since) = known.lost_since {
            return Err(down(ost, lost::reason(known.is_removed, since)));
        }
        if entry.condition.is_up() {
            return Err(down(ost, "it serves, so there is no loss to accept"));
        }
        let Some(older) = &entry.older_copy else {
            return Err(down(ost, NO_COPY));
        };
        Ok(RefusedCopy {
            copy: TargetCopy {
                incarnation: older.copy.incarnation,
                stamp: older.copy.stamp,
                run: older.copy.run,
            },
            why: older.why.clone(),
            address: older.address.clone(),
            objects: older.objects,
            // Of the last instance that served.
            objects_before: entry.space.as_ref().ok().map(|space| space.objects),
            is_accepted: known.accepted == Some(older.copy),
        })
    }

    /// Accepts this copy of a target, once: the next time that its server opens it it serves. Returns the record that the caller has to
    /// store.
    ///
    /// # Errors
    /// As of `refused_copy`; also if another copy was refused since.
    pub(crate) fn accept_copy(&self, ost: OstId, copy: TargetCopy) -> Result<KnownTarget, FsError> {
        let refused = self.refused_copy(ost)?;
        if refused.copy != copy {
            return Err(down(ost, "another copy of it was refused meanwhile"));
        }
        let mut list = self.list.lock();
        let entry = list.get_mut(&ost);
        let Some((entry, mut known)) = entry.and_then(|it| it.recorded.map(|known| (it, known)))
        else {
            return Err(down(ost, NO_COPY));
        };
        known.accepted = Some(AcceptedCopy {
            incarnation: copy.incarnation,
            stamp: copy.stamp,
            run: copy.run,
        });
        entry.recorded = Some(known);
        entry.condition = match refused.address {
            Some(address) => TargetCondition::Expected(restart_of(&address)),
            None => TargetCondition::Down(
                "its loss was accepted: restart the metadata server, whose process has closed it"
                    .into(),
            ),
        };
        self.changed.notify_waiters();
        Ok(known)
    }
}
