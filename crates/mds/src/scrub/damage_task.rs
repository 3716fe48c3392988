//! The damage task: repairs at once what readers have met on the targets.

use super::file::FileScrubber;
use super::pacer::Pacer;
use crate::limits::{DAMAGE_ASK_EVERY, DAMAGE_RETRY};
use crate::pending_work::ScrubRate;
use gupfs_platform::{BootTime, Clock};
use gupfs_proto::{InodeId, ObjectId, OstId};
use std::collections::{BTreeMap, BTreeSet};

pub struct DamageTask {
    pub scrubber: FileScrubber,
    pub clock: Clock,
}

impl DamageTask {
    pub async fn run(self) {
        let mut tried: BTreeMap<InodeId, BootTime> = BTreeMap::new();
        while self.scrubber.store.failure().is_none() {
            self.clock.sleep(DAMAGE_ASK_EVERY).await;
            let now = self.clock.boot();
            tried.retain(|_, since| now.since(*since) < DAMAGE_RETRY);
            for ino in self.damaged_files().await {
                if tried.insert(ino, now).is_none() {
                    self.repair(ino).await;
                }
            }
        }
    }

    async fn repair(&self, ino: InodeId) {
        let pacer = Pacer {
            rate: ScrubRate(None),
            clock: self.clock.clone(),
        };
        let mut intact: BTreeMap<OstId, Vec<ObjectId>> = BTreeMap::new();
        // A failed store ends the loop.
        for (ost, object) in self.scrubber.scrub(ino, &pacer).await.unwrap_or_default() {
            intact.entry(ost).or_default().push(object);
        }
        for (ost, objects) in intact {
            // Otherwise it lists them until the next time.
            let _ = self.scrubber.targets.damaged_objects(ost, objects).await;
        }
    }

    /// The files of which a target knows a damaged object.
    async fn damaged_files(&self) -> BTreeSet<InodeId> {
        let targets = &self.scrubber.targets;
        let mut files: BTreeSet<InodeId> =
            self.scrubber.progress.damaged_files().into_iter().collect();
        for ost in targets.all() {
            if targets.is_up(ost) {
                // A target of a former version does not tell.
                let damaged = targets
                    .damaged_objects(ost, Vec::new())
                    .await
                    .unwrap_or_default();
                files.extend(damaged.iter().map(|object| object.ino));
            }
        }
        files
    }
}
