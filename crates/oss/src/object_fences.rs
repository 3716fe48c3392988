//! # object_fences: changes that come too late
//!
//! Owns   which changes of a target's objects are being executed; which objects clients may only change with credentials of a later time.
//! Never  survives a restart: no request of a former process is executed in this one.
//! Enter  at `ObjectFences::begin` for each change, at `ObjectFences::fence` for the metadata server's.
//!
//! A client gives up a change that does not reach a member of a mirrored stripe, and the member is stale from then on. The change may still be
//! on its way. Before the member is made equal to the others, the metadata server fences its object.

use crate::change_batch::{ChangeBatch, CurrentBatch};
use gupfs_platform::hash::{Map, Set};
use gupfs_proto::capability::{CapabilityFault, CredentialTime, DataCredentials};
use gupfs_proto::limits::SESSION_CAPABILITY_TERM;
use gupfs_proto::{FsError, ObjectId};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Fences of a target, and changes of it that were dropped: about 60 bytes each.
const FENCES_MAX: usize = 1 << 16;

/// Of one target.
#[derive(Default)]
pub struct ObjectFences {
    /// The changes that began since the last fence.
    batch: CurrentBatch,
    fences: RwLock<Map<ObjectId, CredentialTime>>,
    /// Of `fences`.
    count: AtomicUsize,
    dropped: Mutex<DroppedChanges>,
}

/// The objects with a change that was dropped half way, as those of this process may be: a thread may still be executing it.
#[derive(Default)]
struct DroppedChanges {
    objects: Set<ObjectId>,
    /// There are too many to know which.
    may_be_any: bool,
}

impl DroppedChanges {
    fn insert(&mut self, object: ObjectId) {
        match self.objects.len() < FENCES_MAX {
            true => drop(self.objects.insert(object)),
            false => self.may_be_any = true,
        }
    }

    fn may_contain(&self, object: &ObjectId) -> bool {
        self.may_be_any || self.objects.contains(object)
    }
}

/// A change that is being executed. Dropped before `finish`, it may go on in a thread.
pub struct RunningChange {
    fences: Arc<ObjectFences>,
    /// None once it has ended.
    changed: Option<ObjectId>,
    _batch: Arc<ChangeBatch>,
}

impl RunningChange {
    pub fn finish(mut self) {
        self.changed = None;
    }
}

impl Drop for RunningChange {
    fn drop(&mut self) {
        if let Some(object) = self.changed {
            self.fences.dropped.lock().insert(object);
        }
    }
}

impl ObjectFences {
    /// The object is about to be changed.
    ///
    /// # Errors
    /// `Expired` for a change of a fenced object with credentials that are too old: the client must get new ones.
    pub fn begin(
        self: &Arc<Self>,
        object: ObjectId,
        credentials: &DataCredentials,
    ) -> Result<RunningChange, FsError> {
        let batch = self.batch.begin();
        if self.count.load(Acquire) > 0
            && let DataCredentials::Client {
                session_capability, ..
            } = credentials
            && let Some(fence) = self.fences.read().get(&object)
            && !session_capability.time().is_after(fence)
        {
            return Err(FsError::Capability(CapabilityFault::Expired));
        }
        Ok(RunningChange {
            fences: self.clone(),
            changed: Some(object),
            _batch: batch,
        })
    }

    /// When this returns, no client's change of the object with credentials from before this time is being executed, or will be.
    ///
    /// # Errors
    /// `Busy` if a thread may still be executing a change for which no request waits, or if there are too many fences.
    pub async fn fence(&self, object: ObjectId, newest: CredentialTime) -> Result<(), FsError> {
        self.insert(object, newest)?;
        self.batch.end().await;
        match self.dropped.lock().may_contain(&object) {
            false => Ok(()),
            true => Err(FsError::Busy),
        }
    }

    fn insert(&self, object: ObjectId, newest: CredentialTime) -> Result<(), FsError> {
        let mut fences = self.fences.write();
        if fences.len() >= FENCES_MAX {
            // The credentials that others of the same shard group are for have expired, by the clock of the same metadata server.
            let term = 2 * SESSION_CAPABILITY_TERM.as_millis() as u64;
            fences.retain(|_, fence| {
                let is_current =
                    fence.epoch == newest.epoch && fence.until.saturating_add(term) > newest.until;
                is_current || fence.epoch.group() != newest.epoch.group()
            });
            if fences.len() >= FENCES_MAX {
                return Err(FsError::Busy);
            }
        }
        let fence = fences.entry(object).or_insert(newest);
        // An owner of another group has the object's file now.
        if !fence.is_after(&newest) {
            *fence = newest;
        }
        self.count.store(fences.len(), Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::capability::{CapabilityMac, SessionCapability};
    use gupfs_proto::{Generation, InodeId, OwnerEpoch, ShardGroup};
    use std::time::Duration;

    fn object(ino: u64) -> ObjectId {
        ObjectId {
            ino: InodeId(ino),
            generation: Generation(1),
            stripe: 0,
        }
    }

    fn time(epoch: u64, until: u64) -> CredentialTime {
        CredentialTime {
            epoch: OwnerEpoch(epoch),
            until,
        }
    }

    fn credentials(at: CredentialTime) -> DataCredentials {
        DataCredentials::Client {
            session_capability: SessionCapability {
                epoch: at.epoch,
                until: at.until,
                mac: CapabilityMac([0; 16]),
            },
            object_capability: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_fence_waits_for_changes_and_refuses_former_ones() {
        let fences = Arc::new(ObjectFences::default());
        let other = fences.begin(object(2), &DataCredentials::None).unwrap();
        let running = fences.begin(object(1), &credentials(time(3, 100))).unwrap();
        let fence = {
            let fences = fences.clone();
            tokio::spawn(async move { fences.fence(object(1), time(3, 120)).await })
        };
        tokio::time::sleep(Duration::from_secs(1)).await;
        for (at, is_refused) in [
            (time(2, 900), true),
            (time(3, 100), true),
            (time(3, 120), true),
            (time(3, 121), false),
            (time(4, 1), false),
        ] {
            match fences.begin(object(1), &credentials(at)) {
                Ok(change) if !is_refused => change.finish(),
                Err(FsError::Capability(CapabilityFault::Expired)) if is_refused => {}
                _ => panic!("{at:?}"),
            }
        }
        let later = fences.begin(object(3), &credentials(time(1, 1))).unwrap();
        assert!(!fence.is_finished());
        running.finish();
        other.finish();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(fence.is_finished(), "it waits for nothing that began later");
        later.finish();
        fence.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_whose_change_was_dropped_cannot_be_fenced() {
        let fences = Arc::new(ObjectFences::default());
        drop(fences.begin(object(1), &DataCredentials::None).unwrap());
        let fenced = fences.fence(object(1), time(1, 1)).await;
        assert_eq!(fenced, Err(FsError::Busy));
        fences.fence(object(2), time(1, 1)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn fences_of_credentials_that_have_expired_make_room() {
        let fences = Arc::new(ObjectFences::default());
        for ino in 0..FENCES_MAX as u64 {
            fences.fence(object(ino), time(1, 1)).await.unwrap();
        }
        let full = fences.fence(object(1 << 40), time(1, 1)).await;
        assert_eq!(full, Err(FsError::Busy));
        fences
            .fence(object(1 << 40), time(1, 90_000))
            .await
            .unwrap();
        assert_eq!(fences.fences.read().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn fences_of_two_groups_do_not_concern_each_other() {
        let fences = Arc::new(ObjectFences::default());
        let of_other = |counter, until| CredentialTime {
            epoch: OwnerEpoch::new(ShardGroup(1), counter),
            until,
        };
        fences.fence(object(1), time(3, 100)).await.unwrap();
        fences.fence(object(2), of_other(1, 100)).await.unwrap();
        let may_begin = |ino, at| match fences.begin(object(ino), &credentials(at)) {
            Ok(change) => {
                change.finish();
                true
            }
            Err(_) => false,
        };
        assert!(may_begin(1, time(3, 101)) && may_begin(2, of_other(1, 101)));
        // Credentials of another group's owner are not later, whatever they say.
        assert!(!may_begin(1, of_other(9, 900)) && !may_begin(2, time(9, 900)));
        // The file has moved to the other group: its former owner's credentials are void.
        fences.fence(object(1), of_other(1, 5)).await.unwrap();
        assert!(!may_begin(1, time(3, 900)) && may_begin(1, of_other(1, 6)));
        // Fences that make room leave those of the other group.
        for ino in 10..FENCES_MAX as u64 + 8 {
            fences.fence(object(ino), time(3, 100)).await.unwrap();
        }
        fences.fence(object(5), time(3, 90_000)).await.unwrap();
        assert!(!may_begin(2, of_other(1, 100)));
    }
}
