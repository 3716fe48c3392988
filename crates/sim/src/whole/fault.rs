//! What ends a life, and what is counted of how it ended.

use super::house::{House, Life, Store, TARGETS};
use crate::rare::Rare;
use gupfs_platform::fake::{CallKind, FakeRandom};
use gupfs_proto::OstId;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The process dies at this call of a disk, from now on.
    Die {
        disk: usize,
        kind: CallKind,
        at: u64,
    },
    /// A sync fails, once.
    FailSync { disk: usize, at: u64 },
    /// Of the free space so many bytes are left.
    Full { disk: usize, room: u64 },
    /// The process ends between two actions.
    Nothing,
}

/// Which disk is the metadata server's; the others are the targets'.
pub const METADATA: usize = TARGETS as usize;

impl Fault {
    pub fn throw(dice: &FakeRandom) -> Fault {
        let disk = dice.below(u64::from(TARGETS) + 1) as usize;
        match dice.below(16) {
            0..4 => Fault::Die {
                disk,
                kind: CallKind::Sync,
                at: 1 + dice.below(12),
            },
            4..11 => Fault::Die {
                disk,
                kind: CallKind::Write,
                at: 1 + dice.below(20),
            },
            11 => Fault::Die {
                disk,
                kind: CallKind::Any,
                at: 1 + dice.below(150),
            },
            12 => Fault::FailSync {
                disk,
                at: 1 + dice.below(12),
            },
            13 => Fault::Full {
                disk,
                room: dice.below(1 << 20),
            },
            _ => Fault::Nothing,
        }
    }

    pub async fn arm(self, house: &House) {
        match self {
            Fault::Die { disk, kind, at } => store(house, disk).disk.die_at(kind, at),
            Fault::FailSync { disk, at } => store(house, disk).disk.fail_sync(at),
            Fault::Full { disk, room } => {
                let fake = &store(house, disk).disk;
                let used = match fake.disk().space().await {
                    Ok(space) => space.total - space.free,
                    Err(_) => return, // it is dead: nothing to fill
                };
                fake.set_capacity(used + room);
            }
            Fault::Nothing => {}
        }
    }
}

fn store(house: &House, disk: usize) -> &Store {
    house.stores().nth(disk).expect("there are so many disks")
}

/// What is counted from call to call.
#[derive(Clone, Copy, Default)]
pub struct Marks {
    marks: u64,
}

impl Marks {
    pub async fn of(life: &Life) -> Marks {
        let mut marks = 0;
        for ost in (0..TARGETS).map(OstId) {
            if let Ok(objects) = life.oss.objects(ost) {
                marks += objects.status().await.regions_dirtied;
            }
        }
        Marks { marks }
    }
}

/// Counts how a life ended, from what disks and servers say.
pub async fn count(house: &House, life: &Life, before: Marks, made: u64, rare: &mut Rare) {
    for (disk, store) in house.stores().enumerate() {
        if !store.disk.is_dead() {
            continue;
        }
        let Some(death) = store.disk.died() else {
            continue;
        };
        let is_data = death.path.contains("objects/");
        let marked = Marks::of(life).await.marks > before.marks;
        rare.saw_if(
            disk != METADATA && is_data && death.kind == CallKind::Write && marked,
            "crash between mark and data",
        );
        rare.saw_if(death.kind == CallKind::Sync, "crash at a sync");
    }
    let blocks = life.mds.status().await.number_blocks;
    rare.saw_if(
        blocks > 0 && made == 0,
        "crash between inode block and its first use",
    );
}
