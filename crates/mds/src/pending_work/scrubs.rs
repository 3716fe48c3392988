//! What the scrub has verified, repaired and found beyond repair.

use crate::limits::DAMAGE_KEPT;
use gupfs_proto::cluster::ScrubSummary;
use gupfs_proto::{InodeId, ObjectId, OstId, Timestamp};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeMap;
use tokio::sync::Notify;

/// What was found, and whether an administrator wants a scrub of everything now.
#[derive(Default)]
pub struct ScrubProgress {
    state: Mutex<ScrubState>,
    wake: Notify,
}

#[derive(Default)]
struct ScrubState {
    requested: Option<ScrubRate>,
    status: ScrubStatus,
    damaged: BTreeMap<(OstId, ObjectId), DamagedObject>,
}

/// Bytes a second that a scrub reads at the most; None: as fast as it can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubRate(pub Option<u64>);

/// Progress of scrubs, for `status`. Numbers are those since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ScrubStatus {
    /// A scrub that was asked for is under way or waits, and has examined so many inodes.
    pub is_scrubbing: bool,
    pub inodes_examined: u64,
    /// Scrubs of everything that an administrator asked for, and that ended; when the last one did, and the files that it could not verify
    /// whole, because an OST was down for instance.
    pub passes: u64,
    pub last_pass: Option<Timestamp>,
    pub files_left: u64,
    pub why: Option<String>,
    /// Regions whose bytes were read on their targets, in bytes: each copy counts.
    pub bytes_verified: u64,
    pub blocks_repaired: u64,
    /// Members that could not be repaired in place, and are made anew.
    pub members_renewed: u64,
    /// Objects with damage that nothing can repair, or members that differ although each matches its checksums.
    pub damaged: u64,
    /// Some of them.
    pub damaged_objects: Vec<DamagedObject>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DamagedObject {
    pub ino: InodeId,
    pub ost: OstId,
    #[serde(serialize_with = "as_text")]
    pub object: ObjectId,
    /// What is wrong with it: "is damaged".
    pub what: &'static str,
}

impl ScrubStatus {
    /// What an administrator is told.
    pub fn summary(self) -> ScrubSummary {
        ScrubSummary {
            is_scrubbing: self.is_scrubbing,
            inodes_examined: self.inodes_examined,
            passes: self.passes,
            files_left: self.files_left,
            why: self.why,
            bytes_verified: self.bytes_verified,
            blocks_repaired: self.blocks_repaired,
            members_renewed: self.members_renewed,
            damaged: self.damaged,
        }
    }
}

fn as_text<S: serde::Serializer>(object: &ObjectId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(object)
}

/// What a scrub of one file has done.
#[derive(Default)]
pub struct FileScrubbed {
    pub bytes: u64,
    pub repaired: u64,
    pub renewed: u64,
    /// Objects of which all that could be read is in order now.
    pub intact: Vec<(OstId, ObjectId)>,
    pub damaged: Vec<DamagedObject>,
    /// Not all of it was verified, for this reason.
    pub left: Option<String>,
}

impl ScrubProgress {
    /// An administrator wants everything to be scrubbed now.
    pub fn request(&self, rate: ScrubRate) {
        let mut state = self.state.lock();
        state.requested = Some(rate);
        if !state.status.is_scrubbing {
            (state.status.is_scrubbing, state.status.inodes_examined) = (true, 0);
        }
        self.wake.notify_one();
    }

    pub async fn wait(&self) {
        self.wake.notified().await;
    }

    /// The rate of the scrub that was requested; None if none was.
    pub fn take_request(&self) -> Option<ScrubRate> {
        self.state.lock().requested.take()
    }

    pub fn status(&self) -> ScrubStatus {
        let state = self.state.lock();
        let mut status = state.status.clone();
        status.damaged = state.damaged.len() as u64;
        status.damaged_objects = state.damaged.values().take(DAMAGE_SHOWN).cloned().collect();
        status
    }

    pub fn pass_begins(&self) {
        let status = &mut self.state.lock().status;
        (status.is_scrubbing, status.inodes_examined) = (true, 0);
        (status.files_left, status.why) = (0, None);
    }

    pub fn examined(&self, inodes: u64) {
        self.state.lock().status.inodes_examined += inodes;
    }

    pub fn pass_ended(&self, at: Timestamp) {
        let mut state = self.state.lock();
        state.status.is_scrubbing = state.requested.is_some();
        state.status.passes += 1;
        state.status.last_pass = Some(at);
    }

    /// A file could not be verified whole. Counts for a scrub that was asked for.
    pub fn file_left(&self, why: String) {
        let status = &mut self.state.lock().status;
        if status.is_scrubbing {
            status.files_left += 1;
            status.why = Some(why);
        }
    }

    /// Notes what was found in a file.
    pub fn scrubbed(&self, ino: InodeId, found: FileScrubbed) {
        let mut state = self.state.lock();
        state.status.bytes_verified += found.bytes;
        state.status.blocks_repaired += found.repaired;
        state.status.members_renewed += found.renewed;
        for object in &found.intact {
            state.damaged.remove(object);
        }
        for damage in found.damaged {
            if state.damaged.len() < DAMAGE_KEPT {
                let at = (damage.ost, damage.object);
                let what = damage.what;
                if state.damaged.insert(at, damage).is_none() {
                    tracing::error!(%ino, ost = %at.0, object = %at.1, what, "an object is damaged and cannot be repaired");
                }
            }
        }
        if let Some(why) = found.left {
            drop(state);
            self.file_left(why);
        }
    }

    /// The file is gone, or is something else now.
    pub fn forget(&self, ino: InodeId) {
        let damaged = &mut self.state.lock().damaged;
        damaged.retain(|_, object| object.ino != ino);
    }

    /// The files with damage that could not be repaired.
    pub fn damaged_files(&self) -> Vec<InodeId> {
        let state = self.state.lock();
        let mut files: Vec<InodeId> = state.damaged.values().map(|object| object.ino).collect();
        files.dedup();
        files
    }
}

/// Damaged objects that `status` lists.
const DAMAGE_SHOWN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::Generation;

    fn damage(ino: u64) -> FileScrubbed {
        let object = ObjectId {
            ino: InodeId(ino),
            generation: Generation(1),
            stripe: 0,
        };
        FileScrubbed {
            damaged: vec![DamagedObject {
                ino: InodeId(ino),
                ost: OstId(1),
                object,
                what: "is damaged",
            }],
            left: Some("ost2 is not up".into()),
            ..FileScrubbed::default()
        }
    }

    #[test]
    fn damage_is_known_until_the_object_is_in_order_or_gone() {
        let progress = ScrubProgress::default();
        progress.scrubbed(InodeId(1), damage(1));
        progress.scrubbed(InodeId(2), damage(2));
        progress.scrubbed(InodeId(1), damage(1));
        let found = progress.status();
        assert_eq!((found.damaged, found.files_left), (2, 0));
        assert_eq!(progress.damaged_files(), [InodeId(1), InodeId(2)]);
        let intact = damage(1).damaged.into_iter();
        let repaired = FileScrubbed {
            intact: intact.map(|it| (it.ost, it.object)).collect(),
            ..FileScrubbed::default()
        };
        progress.scrubbed(InodeId(1), repaired);
        progress.forget(InodeId(2));
        assert_eq!(progress.status().damaged, 0);
    }

    #[test]
    fn a_request_during_a_scrub_begins_another_one_after_it() {
        let progress = ScrubProgress::default();
        progress.request(ScrubRate(None));
        assert!(progress.status().is_scrubbing && progress.take_request().is_some());
        progress.pass_begins();
        progress.scrubbed(InodeId(1), damage(1));
        progress.request(ScrubRate(Some(5)));
        assert_eq!(progress.status().files_left, 1);
        progress.pass_ended(Timestamp::default());
        assert!(progress.status().is_scrubbing);
        assert_eq!(progress.take_request(), Some(ScrubRate(Some(5))));
        progress.pass_begins();
        progress.pass_ended(Timestamp::default());
        let ended = progress.status();
        assert_eq!(
            (ended.is_scrubbing, ended.passes, ended.files_left),
            (false, 2, 0)
        );
    }
}
