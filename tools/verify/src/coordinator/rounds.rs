//! Runs round after round, until the time is over or a finding ends the run.

use std::time::{Duration, Instant};

use super::faults::{self, Injected};
use super::held::{self, Unanswered};
use super::judge_thread::{JudgeThread, JudgedRound};
use super::replay::confirm;
use super::workers::{Loss, Workers};
use super::{RunResult, Settings, probe};
use crate::check::{Certainty, certainty};
use crate::history::{Answer, History, Nanos, Record};
use crate::report::{Figures, FindingKind, ReportedFinding, Run};
use crate::subject::Subject;
use crate::work::{Order, RoundPlan, now};

/// Between the order to work and the begin: it must have reached all.
const LEAD_TIME: Duration = Duration::from_millis(20);

/// Operations of a worker on one subject before all go on to the next.
const BURST: u32 = 16;

/// With no rate given a turn lasts so long.
const TURN_UNPACED: Duration = Duration::from_millis(5);

/// Records shown before one that hangs.
const BEFORE_A_HANG: usize = 10;

/// Runs and reports. An error: it could not even begin.
pub fn run(settings: &Settings) -> RunResult<Run> {
    let mut workers = Workers::start(settings)?;
    probe::probe(&mut workers, settings)?;
    let has_held = settings.mix.has_held();
    let mapped = settings.mix.has(Subject::HeldMapped(0));
    if has_held && let Err(cannot) = held::hold(&mut workers, mapped) {
        workers.remove_directory();
        return Err(cannot);
    }
    let mut run = Run {
        mounts: settings
            .sites
            .iter()
            .map(|site| site.name.clone())
            .collect(),
        mount_of: workers.handles.iter().map(|handle| handle.mount).collect(),
        model: settings.model,
        seed: settings.seed,
        figures: Figures::default(),
        found: Vec::new(),
        cut_short: None,
        saved: Vec::new(),
    };
    if let Err(cannot) = rounds(&mut workers, settings, &mut run) {
        run.cut_short = Some(cannot.0);
    }
    let figures = &mut run.figures;
    figures.operations_per_second = figures.operations as f64 / figures.seconds.max(1e-9);
    figures.clock_uncertain_us = workers.uncertain().as_nanos() as f64 / 1e3;
    if has_held {
        held::release(&mut workers);
    }
    workers.remove_directory();
    Ok(run)
}

fn rounds(workers: &mut Workers, settings: &Settings, run: &mut Run) -> RunResult<()> {
    let judge = JudgeThread::start(settings.model);
    let mut injected = Injected::default();
    let mut unanswered = Unanswered::default();
    let begun = Instant::now();
    let mut worked = Duration::ZERO;
    let mut ended = Ok(());
    while begun.elapsed() < settings.length && run.found.is_empty() {
        let round = run.figures.rounds;
        run.figures.rounds += 1;
        let before = Instant::now();
        let history = match self::round(workers, settings, run, round, &mut injected) {
            Ok(history) => history,
            Err(cannot) => {
                ended = Err(cannot);
                break;
            }
        };
        worked += before.elapsed();
        tally(&mut run.figures, &history);
        judge.give(round, unanswered.join(history))?;
        while let Some(judged) = judge.verdict() {
            hear(workers, settings, run, judged)?;
        }
        if settings.progress {
            let figures = &run.figures;
            eprint!(
                "\r{:.0} s, {} operations ",
                begun.elapsed().as_secs_f64(),
                figures.operations
            );
        }
    }
    run.figures.seconds = worked.as_secs_f64();
    (run.figures.faults, run.figures.faults_failed) = (injected.done, injected.failed);
    let (rest, whole) = judge.rest();
    for judged in rest {
        hear(workers, settings, run, judged)?;
    }
    if settings.progress {
        eprintln!();
    }
    ended.and(whole)
}

/// A verdict's part in the report. The first finding is played again.
fn hear(
    workers: &mut Workers,
    settings: &Settings,
    run: &mut Run,
    judged: JudgedRound,
) -> RunResult<()> {
    let figures = &mut run.figures;
    figures.conflicting += judged.conflicting;
    figures.permitted += judged.judgement.permitted;
    figures.undecided += judged.judgement.undecided;
    figures.judging_seconds += judged.took.as_secs_f64();
    let Some(finding) = judged.judgement.findings.first() else {
        let cleaner = workers.all().first().copied();
        return match cleaner {
            Some(worker) => workers.tell(&[worker], |_| Order::Clean {
                round: judged.round,
            }),
            None => Ok(()),
        };
    };
    let records: Vec<Record> = finding
        .records
        .iter()
        .map(|index| judged.history.records[*index].clone())
        .collect();
    let fails = finding
        .records
        .iter()
        .position(|index| *index == finding.fails);
    let mut found = ReportedFinding {
        what: FindingKind::Disagreement,
        about: finding.about.clone(),
        round: judged.round,
        records,
        fails: fails.unwrap_or(0),
        before: finding.before.clone(),
        replayed: None,
    };
    // A history that cannot be played again is a finding all the same.
    found.replayed = confirm(workers, settings, &found, &judged.history).ok();
    run.found.push(found);
    Ok(())
}

fn round(
    workers: &mut Workers,
    settings: &Settings,
    run: &mut Run,
    round: u32,
    injected: &mut Injected,
) -> RunResult<History> {
    let all = workers.all();
    workers.tell(&all[..1], |_| Order::Furnish { round })?;
    if settings.mix.has_held() {
        workers.tell(&all[..1], |_| Order::LookAtHeld { round })?;
    }
    let left = settings
        .length
        .saturating_sub(Duration::from_secs_f64(run.figures.seconds));
    let length = settings.round.min(left).max(Duration::from_millis(200));
    let count = all.len() as u32;
    let turn = match settings.rate {
        0 => TURN_UNPACED,
        rate => Duration::from_secs_f64(f64::from(BURST * count) / f64::from(rate)),
    };
    let start = now() + LEAD_TIME.as_nanos() as Nanos;
    let trouble = settings
        .faults
        .as_ref()
        .map(|command| faults::inject(command, round, settings, length));
    let plan = |start| {
        Order::Work(RoundPlan {
            round,
            seed: settings.seed,
            mix: settings.mix.clone(),
            start,
            length: length.as_nanos() as Nanos,
            turn: turn.as_nanos() as Nanos,
            burst: BURST,
        })
    };
    let mut lost = workers.order(&all, |handle| plan(handle.theirs(start)))?;
    if let Some(trouble) = trouble {
        injected.done += 1;
        injected.failed += usize::from(!trouble.join().unwrap_or(false));
    }
    for worker in workers.one_a_mount() {
        lost.extend(workers.order(&[worker], |_| Order::LookAround { round })?);
    }
    let mount_of = run.mount_of.clone();
    let history = History::new(mount_of, workers.collect()?);
    for loss in lost {
        match loss {
            Loss::Hangs(record) => run.found.push(hang(round, &record, &history)),
            Loss::Gone { worker, why } => {
                run.cut_short = Some(format!("worker {worker} is gone: {why}"));
            }
        }
    }
    match (&run.cut_short, workers.all().len()) {
        (Some(why), _) => {
            let why = why.clone();
            tally(&mut run.figures, &history);
            super::cannot(why)
        }
        (None, 0) => super::cannot("no worker is left"),
        _ => Ok(history),
    }
}

/// An operation that hangs, and what went before it on the same thing.
fn hang(round: u32, record: &Record, history: &History) -> ReportedFinding {
    let same = |other: &&Record| other.subject == record.subject && other.start <= record.start;
    let mut records: Vec<Record> = history.records.iter().filter(same).cloned().collect();
    records.drain(..records.len().saturating_sub(BEFORE_A_HANG));
    let it = |other: &Record| (other.worker, other.number) == (record.worker, record.number);
    if !records.iter().any(it) {
        records.push(record.clone());
    }
    ReportedFinding {
        what: FindingKind::Hang,
        about: format!("{} has no answer", record.asked()),
        round,
        fails: records.iter().position(it).unwrap_or(0),
        records,
        before: String::new(),
        replayed: None,
    }
}

fn tally(figures: &mut Figures, history: &History) {
    for record in &history.records {
        figures.operations += 1;
        *figures.kinds.entry(record.call.name().into()).or_default() += 1;
        match certainty(record) {
            Certainty::Nothing => figures.unanswered += 1,
            Certainty::Unsupported => {
                let kind = record.call.name().to_string();
                *figures.unsupported.entry(kind).or_default() += 1;
            }
            Certainty::Enough => {}
        }
        let took = record.end.map_or(0, |end| end.saturating_sub(record.start)) as f64 / 1e6;
        if took > figures.longest_ms && record.answer != Answer::None {
            figures.longest_ms = took;
            figures.longest = record.asked();
        }
    }
}
