//! Short fixed workloads: one that crashes at its first sync, its second and so on until it ends without a crash, and three
//! that a power loss or a full disk hits.

use super::action::Action;
use super::fault::{Fault, METADATA};
use super::host::TARGETS;
use super::simulation::ProcessSimulation;
use crate::rare_events::RareEvents;
use crate::seeds::SeedRun;
use gupfs_platform::fake::CallKind;

/// Every kind of action that syncs: small and striped files, renames over others, truncates, removals, background tasks.
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

/// The file is closed without a sync and confirmed ten seconds after the start. The record of that is durable before the OST
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

/// Power is lost after a file was confirmed.
///
/// # Panics
/// When a promise is broken.
pub fn confirmed_file(seed: u64, verbose: bool) -> SeedRun {
    super::on_paused_time(async {
        let mut simulation = ProcessSimulation::set_up(seed, verbose).await;
        let instance = simulation.start().await;
        simulation
            .run_actions(&instance, Fault::None, CONFIRMATION.into_iter())
            .await;
        let confirmed = instance.mds.status().await.confirm.files_done;
        simulation
            .rare_events
            .add("file confirmed before a power loss", confirmed);
        simulation.end(Some(instance), true).await;
        simulation.finish().await
    })
}

/// All objects of a file are present; then the file is opened again and written behind its end.
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

/// After the power loss, the file grows over bytes that may have been left in its objects.
const GROWTH: [Action; 2] = [
    Action::Write {
        file: 0,
        at: 380_000,
        len: 100,
    },
    Action::Read { file: 0 },
];

/// Bytes that a power loss left behind a file's end must never be read.
///
/// # Panics
/// When a promise is broken.
pub fn bytes_behind_end(seed: u64, verbose: bool) -> SeedRun {
    super::on_paused_time(async {
        let mut simulation = ProcessSimulation::set_up(seed, verbose).await;
        let instance = simulation.start().await;
        let actions = BEHIND_THE_END.into_iter();
        simulation
            .run_actions(&instance, Fault::None, actions)
            .await;
        simulation.end(Some(instance), true).await;
        let instance = simulation.start().await;
        simulation
            .run_actions(&instance, Fault::None, GROWTH.into_iter())
            .await;
        simulation.end(Some(instance), false).await;
        simulation.finish().await
    })
}

/// Writes a file over both targets.
const STRIPED: [Action; 3] = [
    Action::Create { dir: 0, name: 0 },
    Action::Write {
        file: 0,
        at: 0,
        len: 400_000,
    },
    Action::SyncAll,
];

/// One target is full: the part of the write that the other target stores lies behind the file's end.
const WRITES_WITHOUT_SPACE: [Action; 3] = [
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

/// The process is killed after a full disk cut a write short; the file's size and times must be those that the program was
/// told.
///
/// # Panics
/// When a promise is broken.
pub fn write_cut_short(seed: u64, verbose: bool) -> SeedRun {
    super::on_paused_time(async {
        let mut simulation = ProcessSimulation::set_up(seed, verbose).await;
        let instance = simulation.start().await;
        let actions = STRIPED.into_iter();
        simulation
            .run_actions(&instance, Fault::None, actions)
            .await;
        let fault = Fault::Full {
            disk: (seed % u64::from(TARGETS)) as usize,
            free_bytes: seed % 3 * 40_000,
        };
        fault.inject(&simulation.host).await;
        simulation
            .run_actions(&instance, fault, WRITES_WITHOUT_SPACE.into_iter())
            .await;
        simulation.end(Some(instance), false).await;
        simulation.finish().await
    })
}

/// Crashes at every sync of each disk in turn; the result has the sums of all runs.
///
/// # Panics
/// When a promise is broken.
pub fn crash_at_every_sync(seed: u64, verbose: bool) -> SeedRun {
    let mut total = SeedRun {
        events: crate::event_log::EventLog::new(verbose),
        rare_events: RareEvents::default(),
    };
    for disk in 0..=METADATA {
        for at in 1.. {
            let (ran, has_struck) = crash_at(seed, disk, at, verbose);
            total.events.record(format_args!(
                "disk {disk} sync {at}: {:x}",
                ran.events.hash()
            ));
            total.rare_events.merge(&ran.rare_events);
            if !has_struck {
                break;
            }
        }
    }
    total
}

fn crash_at(seed: u64, disk: usize, at: u64, verbose: bool) -> (SeedRun, bool) {
    super::on_paused_time(async {
        let mut simulation = ProcessSimulation::set_up(seed, verbose).await;
        let instance = simulation.start().await;
        let fault = Fault::CrashAt {
            disk,
            kind: CallKind::Sync,
            at,
        };
        fault.inject(&simulation.host).await;
        simulation
            .run_actions(&instance, fault, WORKLOAD.into_iter())
            .await;
        simulation.count_ending(&instance).await;
        let has_struck = simulation.host.is_dead();
        simulation
            .end(Some(instance), (seed + at).is_multiple_of(2))
            .await;
        (simulation.finish().await, has_struck)
    })
}
