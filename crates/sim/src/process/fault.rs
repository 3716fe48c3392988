//! The faults that end an instance, and the rare events that are counted when it has ended.

use super::host::{Host, ProcessInstance, Store, TARGETS};
use crate::rare_events::RareEvents;
use gupfs_platform::fake::{CallKind, FakeRandom};
use gupfs_proto::OstId;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The process crashes at this call of a disk, counted from the injection.
    CrashAt {
        disk: usize,
        kind: CallKind,
        at: u64,
    },
    /// One sync fails.
    FailSync { disk: usize, at: u64 },
    /// The disk has this many free bytes left.
    Full { disk: usize, free_bytes: u64 },
    /// No fault: the process ends between two actions.
    None,
}

/// Index of the metadata server's disk; the other disks belong to targets.
pub const METADATA: usize = TARGETS as usize;

impl Fault {
    pub fn random(random: &FakeRandom) -> Fault {
        let disk = random.below(u64::from(TARGETS) + 1) as usize;
        match random.below(16) {
            0..4 => Fault::CrashAt {
                disk,
                kind: CallKind::Sync,
                at: 1 + random.below(12),
            },
            4..11 => Fault::CrashAt {
                disk,
                kind: CallKind::Write,
                at: 1 + random.below(20),
            },
            11 => Fault::CrashAt {
                disk,
                kind: CallKind::Any,
                at: 1 + random.below(150),
            },
            12 => Fault::FailSync {
                disk,
                at: 1 + random.below(12),
            },
            13 => Fault::Full {
                disk,
                free_bytes: random.below(1 << 20),
            },
            _ => Fault::None,
        }
    }

    pub async fn inject(self, host: &Host) {
        match self {
            Fault::CrashAt { disk, kind, at } => store(host, disk).disk.die_at(kind, at),
            Fault::FailSync { disk, at } => store(host, disk).disk.fail_sync(at),
            Fault::Full { disk, free_bytes } => {
                let fake_disk = &store(host, disk).disk;
                let used = match fake_disk.disk().space().await {
                    Ok(space) => space.total - space.free,
                    Err(_) => return, // the disk is dead, so nothing can be written to it
                };
                fake_disk.set_capacity(used + free_bytes);
            }
            Fault::None => {}
        }
    }
}

fn store(host: &Host, disk: usize) -> &Store {
    host.stores().nth(disk).expect("the disk exists")
}

/// Number of regions that were made dirty so far.
#[derive(Clone, Copy, Default)]
pub struct DirtyRegions {
    regions: u64,
}

impl DirtyRegions {
    pub async fn of(instance: &ProcessInstance) -> DirtyRegions {
        let mut regions = 0;
        for ost in (0..TARGETS).map(OstId) {
            if let Ok(objects) = instance.oss.objects(ost) {
                regions += objects.status().await.regions_dirtied;
            }
        }
        DirtyRegions { regions }
    }
}

/// Counts the rare events of an instance's end, from the state of its disks and servers.
pub async fn count_ending(
    host: &Host,
    instance: &ProcessInstance,
    before: DirtyRegions,
    files_created: u64,
    rare_events: &mut RareEvents,
) {
    for (disk, store) in host.stores().enumerate() {
        if !store.disk.is_dead() {
            continue;
        }
        let Some(death) = store.disk.died() else {
            continue;
        };
        let is_data = death.path.contains("objects/");
        let marked = DirtyRegions::of(instance).await.regions > before.regions;
        rare_events.count_if(
            disk != METADATA && is_data && death.kind == CallKind::Write && marked,
            "crash between making a region dirty and writing its data",
        );
        rare_events.count_if(death.kind == CallKind::Sync, "crash at a sync");
    }
    let blocks = instance.mds.status().await.number_blocks;
    rare_events.count_if(
        blocks > 0 && files_created == 0,
        "crash between inode block and its first use",
    );
}
