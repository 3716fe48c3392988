//! A history played again: its operations by the same workers, each begun when those have ended that ended before it began.

use std::time::{Duration, Instant};

use super::workers::Workers;
use super::{RunResult, Settings, cannot, held, probe};
use crate::check::{Bound, Judgement, judge};
use crate::history::{History, Record};
use crate::report::{Replayed, ReportedFinding, Script};
use crate::subject::Subject;
use crate::work::Order;

/// Replays of the small history, then of more of what went before.
const ALONE: u32 = 5;
const WITH_MORE: u32 = 3;

/// Records of the same thing that are played with the small history when it alone does not fail again.
const MORE: usize = 400;

/// The time that all replays of a finding may take.
const LONGEST: Duration = Duration::from_secs(10);

/// Rounds of replays are numbered from here.
const FIRST_ROUND: u32 = 1_000_000;

/// Plays a finding again, and says how often it failed again.
pub fn confirm(
    workers: &mut Workers,
    settings: &Settings,
    found: &ReportedFinding,
    history: &History,
) -> RunResult<Replayed> {
    let begun = Instant::now();
    let alone = repeat(workers, settings, &found.records, ALONE, 0, begun)?;
    if alone.failed > 0 {
        return Ok(alone);
    }
    let last = found.records.iter().filter_map(|record| record.end).max();
    let subject = found.records[found.fails].subject;
    let mut more: Vec<Record> = history
        .records
        .iter()
        .filter(|record| record.subject == subject && Some(record.start) <= last)
        .cloned()
        .collect();
    more.drain(..more.len().saturating_sub(MORE));
    let with_more = repeat(workers, settings, &more, WITH_MORE, ALONE, begun)?;
    Ok(match with_more.failed {
        0 => alone,
        _ => Replayed {
            alone: false,
            ..with_more
        },
    })
}

/// Plays a saved finding on these mounts.
pub fn replay(settings: &Settings, script: &Script) -> RunResult<Replayed> {
    let wanted = script.mount_of.len();
    if wanted != usize::from(settings.processes) * settings.sites.len() {
        return cannot(format!(
            "the finding is of {wanted} workers: give {} mounts",
            script.mount_of.iter().max().map_or(0, |most| most + 1)
        ));
    }
    let mut workers = Workers::start(settings)?;
    probe::probe(&mut workers, settings)?;
    let records = &script.found.records;
    let has_held = records.iter().any(|record| record.subject.is_held());
    let is_mapped = |record: &Record| matches!(record.subject, Subject::HeldMapped(_));
    if has_held && let Err(cannot) = held::hold(&mut workers, records.iter().any(is_mapped)) {
        workers.remove_directory();
        return Err(cannot);
    }
    let replayed = repeat(
        &mut workers,
        settings,
        &script.found.records,
        ALONE * 4,
        0,
        Instant::now(),
    );
    if has_held {
        held::release(&mut workers);
    }
    workers.remove_directory();
    replayed
}

fn repeat(
    workers: &mut Workers,
    settings: &Settings,
    records: &[Record],
    times: u32,
    since: u32,
    begun: Instant,
) -> RunResult<Replayed> {
    let mut replayed = Replayed {
        failed: 0,
        of: 0,
        alone: true,
    };
    for time in 0..times {
        if begun.elapsed() > LONGEST {
            break;
        }
        let round = FIRST_ROUND + since + time;
        let judgement = once(workers, settings, round, records)?;
        replayed.of += 1;
        replayed.failed += u32::from(!judgement.findings.is_empty());
    }
    Ok(replayed)
}

fn once(
    workers: &mut Workers,
    settings: &Settings,
    round: u32,
    records: &[Record],
) -> RunResult<Judgement> {
    let all = workers.all();
    workers.tell(&all[..1], |_| Order::Furnish { round })?;
    if records.iter().any(|record| record.subject.is_held()) {
        workers.tell(&all[..1], |_| Order::LookAtHeld { round })?;
    }
    // Those that overlap the first that is left go together.
    let mut left: Vec<&Record> = records.iter().collect();
    while !left.is_empty() {
        let first_end = left.iter().map(|record| record.end_or_never()).min();
        let together = left
            .iter()
            .take_while(|record| Some(record.start) <= first_end)
            .count();
        let mut wave: Vec<&Record> = Vec::new();
        for record in &left[..together] {
            if all.contains(&usize::from(record.worker))
                && !wave.iter().any(|other| other.worker == record.worker)
            {
                wave.push(record);
            }
        }
        let who: Vec<usize> = wave.iter().map(|record| record.worker.into()).collect();
        let order = |worker: usize| {
            let its = wave
                .iter()
                .find(|record| usize::from(record.worker) == worker);
            let record = its.copied().unwrap_or(&records[0]);
            Order::Do {
                round,
                record: Box::new(record.clone()),
            }
        };
        workers.order(&who, |handle| order(handle.number))?;
        let missing = |record: &&Record| !all.contains(&usize::from(record.worker));
        left.retain(|record| {
            !missing(record) && !wave.iter().any(|done| std::ptr::eq(*done, *record))
        });
    }
    for worker in workers.one_a_mount() {
        workers.order(&[worker], |_| Order::LookAround { round })?;
    }
    let mount_of = workers.handles.iter().map(|handle| handle.mount).collect();
    let history = History::new(mount_of, workers.collect()?);
    workers.tell(&all[..1], |_| Order::Clean { round })?;
    Ok(judge(&history, settings.model, Bound::default()))
}
