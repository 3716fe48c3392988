//! One short workload that dies at its first sync, at its second, at its third, until it comes to its end unharmed.

use super::action::Action;
use super::fault::{Fault, METADATA};
use super::house::TARGETS;
use super::story::Story;
use crate::rare::Rare;
use crate::seeds::Ran;
use gupfs_platform::fake::CallKind;

/// A little of everything that syncs: small files and striped ones, renames over, cuts, removals, chores.
const WORKLOAD: [Action; 22] = [
    Action::Create { dir: 0, name: 0 },
    Action::Write {
        file: 0,
        at: 0,
        len: 3_000,
    },
    Action::Fsync {
        file: 0,
        data_only: false,
    },
    Action::Append {
        file: 0,
        len: 90_000,
    },
    Action::Fsync {
        file: 0,
        data_only: true,
    },
    Action::Mkdir { dir: 0, name: 1 },
    Action::Create { dir: 1, name: 2 },
    Action::Write {
        file: 1,
        at: 200_000,
        len: 150_000,
    },
    Action::SyncAll,
    Action::Link {
        file: 1,
        dir: 0,
        name: 3,
    },
    Action::Write {
        file: 1,
        at: 100,
        len: 5_000,
    },
    Action::Truncate {
        file: 0,
        to: 10_000,
    },
    Action::Wait { millis: 7_000 },
    Action::Create { dir: 0, name: 4 },
    Action::Write {
        file: 2,
        at: 0,
        len: 70_000,
    },
    Action::Rename {
        from: (0, 4),
        to: (0, 0),
    },
    Action::Fsync {
        file: 1,
        data_only: false,
    },
    Action::TmpFile { len: 20_000 },
    Action::Unlink { dir: 1, name: 2 },
    Action::Close { file: 0 },
    Action::Wait { millis: 7_000 },
    Action::SyncAll,
];

/// A file is closed without a sync, confirmed ten seconds after the start, and the record of that is durable before its OST
/// would have synced the bytes by itself.
const CONFIRMATION: [Action; 8] = [
    Action::Wait { millis: 7_000 },
    Action::Create { dir: 0, name: 0 },
    Action::Write {
        file: 0,
        at: 0,
        len: 70_000,
    },
    Action::Close { file: 0 },
    Action::Wait { millis: 3_500 },
    Action::Create { dir: 0, name: 1 },
    Action::Write {
        file: 1,
        at: 0,
        len: 100,
    },
    Action::Fsync {
        file: 1,
        data_only: false,
    },
];

/// The power goes after a file was confirmed.
///
/// # Panics
/// When a promise is broken.
pub fn confirmed(seed: u64, aloud: bool) -> Ran {
    super::on_paused_time(async {
        let mut story = Story::begin(seed, aloud).await;
        let life = story.start().await;
        story
            .work(&life, Fault::Nothing, CONFIRMATION.into_iter())
            .await;
        let confirmed = life.mds.status().await.confirm.files_done;
        story
            .rare
            .add("file confirmed before a power loss", confirmed);
        story.end(Some(life), true).await;
        story.finish().await
    })
}

/// All objects of a file are there and nothing is in doubt; then it is opened again and written behind its end.
const BEHIND_THE_END: [Action; 9] = [
    Action::Create { dir: 0, name: 0 },
    Action::Write {
        file: 0,
        at: 0,
        len: 390_000,
    },
    Action::Fsync {
        file: 0,
        data_only: false,
    },
    Action::Truncate {
        file: 0,
        to: 70_000,
    },
    Action::SyncAll,
    Action::Close { file: 0 },
    Action::Wait { millis: 7_000 },
    Action::Wait { millis: 7_000 },
    Action::Write {
        file: 0,
        at: 300_000,
        len: 20_000,
    },
];

/// The power goes, and the file grows over what may have been left there.
const GROWTH: [Action; 2] = [
    Action::Write {
        file: 0,
        at: 380_000,
        len: 100,
    },
    Action::Read { file: 0 },
];

/// What a power loss left behind a file's end must not come to light.
///
/// # Panics
/// When a promise is broken.
pub fn behind_the_end(seed: u64, aloud: bool) -> Ran {
    super::on_paused_time(async {
        let mut story = Story::begin(seed, aloud).await;
        let life = story.start().await;
        let actions = BEHIND_THE_END.into_iter();
        story.work(&life, Fault::Nothing, actions).await;
        story.end(Some(life), true).await;
        let life = story.start().await;
        story.work(&life, Fault::Nothing, GROWTH.into_iter()).await;
        story.end(Some(life), false).await;
        story.finish().await
    })
}

/// A file over both targets.
const STRIPED: [Action; 3] = [
    Action::Create { dir: 0, name: 0 },
    Action::Write {
        file: 0,
        at: 0,
        len: 400_000,
    },
    Action::SyncAll,
];

/// On a full target: what the other takes of the write lies behind the file's end.
const NO_ROOM: [Action; 3] = [
    Action::Write {
        file: 0,
        at: 420_000,
        len: 150_000,
    },
    Action::Read { file: 0 },
    Action::Fsync {
        file: 0,
        data_only: false,
    },
];

/// The process ends after a full disk cut a write short; size and times of the file are those that were told.
///
/// # Panics
/// When a promise is broken.
pub fn cut_short(seed: u64, aloud: bool) -> Ran {
    super::on_paused_time(async {
        let mut story = Story::begin(seed, aloud).await;
        let life = story.start().await;
        let actions = STRIPED.into_iter();
        story.work(&life, Fault::Nothing, actions).await;
        let fault = Fault::Full {
            disk: (seed % u64::from(TARGETS)) as usize,
            room: seed % 3 * 40_000,
        };
        fault.arm(&story.house).await;
        story.work(&life, fault, NO_ROOM.into_iter()).await;
        story.end(Some(life), false).await;
        story.finish().await
    })
}

/// Runs to the end of the syncs of each disk; `Ran` sums up all.
///
/// # Panics
/// When a promise is broken.
pub fn every_sync(seed: u64, aloud: bool) -> Ran {
    let mut total = Ran {
        events: crate::events::Events::new(aloud),
        rare: Rare::default(),
    };
    for disk in 0..=METADATA {
        for at in 1.. {
            let (ran, struck) = dying_at(seed, disk, at, aloud);
            total.events.say(format_args!(
                "disk {disk} sync {at}: {:x}",
                ran.events.hash()
            ));
            total.rare.merge(&ran.rare);
            if !struck {
                break;
            }
        }
    }
    total
}

fn dying_at(seed: u64, disk: usize, at: u64, aloud: bool) -> (Ran, bool) {
    super::on_paused_time(async {
        let mut story = Story::begin(seed, aloud).await;
        let life = story.start().await;
        let fault = Fault::Die {
            disk,
            kind: CallKind::Sync,
            at,
        };
        fault.arm(&story.house).await;
        story.work(&life, fault, WORKLOAD.into_iter()).await;
        story.count(&life).await;
        let struck = story.house.is_dead();
        story.end(Some(life), (seed + at).is_multiple_of(2)).await;
        (story.finish().await, struck)
    })
}
