//! The load, the fault, and reading back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::args::Reliability;
use super::audit::{Audit, LostRecord};
use super::fault::{self, FaultCommands};
use super::report::Report;
use super::watch::{HANGS_LEAST, watched};
use super::writer::{Ledger, Writer};
use crate::cleanup;
use crate::error::{SuiteError, SuiteResult};
use crate::output::Destination;
use crate::procs::Procs;
use crate::run_directory::RunDirectory;
use crate::step::{self, Step, Work};
use crate::stop_flag::StopFlag;
use crate::threads;
use crate::workload::Workload;

impl Workload for Reliability {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.common.np
    }

    fn default_np(&self) -> usize {
        usize::from(self.workers)
    }

    fn check(&self) -> SuiteResult<()> {
        self.check_flags()
    }

    fn destination(&self) -> Destination<'_> {
        self.common.destination()
    }

    fn run(&self, procs: &mut Procs) -> SuiteResult<Option<Report>> {
        run(self, procs).map(Some)
    }

    fn verdict(&self, report: &Report) -> SuiteResult<()> {
        match report.found.len() {
            0 => Ok(()),
            lost => Err(SuiteError::failed(format!(
                "{lost} records that were acknowledged are not there"
            ))),
        }
    }
}

fn run(args: &Reliability, procs: &mut Procs) -> SuiteResult<Report> {
    let run_dir = RunDirectory::make(procs, "reliability", &args.common, args.total())?;
    if !procs.is_rank_0() {
        // A repair may need the directory: only the process that repairs removes it, after that.
        cleanup::clear();
    }
    let (step, ledgers) = load(args, &run_dir, procs)?;
    let (acts, ledgers) = match ledgers {
        (Some(acts), ledgers) => (acts.end(), ledgers),
        (None, ledgers) => (Ok(Vec::new()), ledgers),
    };
    let acts = procs.agree(acts)?;
    // The writer of a file has it in its cache: another process reads it.
    let mut all: Vec<(usize, Ledger)> = procs.share(&ledgers)?.into_iter().flatten().collect();
    all.sort_by_key(|(worker, _)| *worker);
    let found = read_back(args, &run_dir, &all, procs)?;
    let ledgers: Vec<Ledger> = all.into_iter().map(|(_, ledger)| ledger).collect();
    let report = Report::new(args, step, acts, &ledgers, found);
    run_dir.end(procs, args.common.keep)?;
    Ok(report)
}

/// After how long a call counts as one that does not come back.
fn hangs_after(args: &Reliability) -> Duration {
    Duration::from_secs_f64(args.patience).max(HANGS_LEAST)
}

type Loaded = (Option<FaultCommands>, Vec<(usize, Ledger)>);

/// The step, in process 0; the commands, in the process of the first worker; what the workers of this process know.
fn load(
    args: &Reliability,
    run_dir: &RunDirectory,
    procs: &mut Procs,
) -> SuiteResult<(Option<Step>, Loaded)> {
    let ledgers = Mutex::new(Vec::new());
    let acts = Mutex::new(None);
    let ready = |worker| Ok(Writer::new(args, run_dir, worker));
    let workers = usize::from(args.workers);
    let step = step::run(procs, workers, ready, |worker, writer, halt| {
        let begun = worker == 0;
        let begun = begun.then(|| fault::begin(args, run_dir.dir()));
        let worked = write(args, writer, begun.as_ref(), halt);
        if let Some(begun) = begun {
            *acts.lock() = Some(begun);
        }
        let (work, ledger) = worked?;
        let mut ledgers = ledgers.lock();
        ledgers.push((worker, ledger));
        Ok(work)
    })?;
    let acts = acts.into_inner();
    let ledgers = ledgers.into_inner();
    Ok((step, (acts, ledgers)))
}

/// A writer at work, until its time is over and its last call has come back.
fn write(
    args: &Reliability,
    writer: Writer,
    acts: Option<&FaultCommands>,
    halt: &StopFlag,
) -> SuiteResult<(Work, Ledger)> {
    let path = writer.path.clone();
    let until = Instant::now() + Duration::from_secs_f64(args.seconds) + hangs_after(args);
    let stop = Arc::new(StopFlag::default());
    let theirs = stop.clone();
    let look = || {
        let called_off = halt
            .check()
            .and_then(|()| acts.map_or(Ok(()), |acts| acts.check()));
        if called_off.is_err() {
            stop.raise();
        }
        called_off
    };
    let worked = watched(
        &path,
        look,
        |_| Instant::now() >= until,
        move |call| writer.run(call, &theirs),
    )?;
    let (latencies, ledger) = worked?;
    let work = Work {
        bytes: ledger.bytes,
        latencies,
        ..Work::default()
    };
    Ok((work, ledger))
}

/// The acknowledged records that are not there, in all processes: each reads the files that the one before it wrote.
fn read_back(
    args: &Reliability,
    run_dir: &RunDirectory,
    all: &[(usize, Ledger)],
    procs: &mut Procs,
) -> SuiteResult<Vec<LostRecord>> {
    let until = Instant::now() + Duration::from_secs_f64(args.patience);
    let (size, others) = (procs.size(), (procs.rank() + 1) % procs.size());
    let mine = all.iter().filter(|(worker, _)| worker % size == others);
    let audits = mine.map(|(worker, ledger)| Audit {
        run: run_dir.run,
        worker: *worker as u64,
        path: run_dir.file(*worker),
        record: args.record.0,
        ledger: ledger.clone(),
        until,
    });
    let found = threads::run_untimed(procs, |halt| {
        let mut found = Vec::new();
        for audit in audits {
            let worker = audit.worker;
            let hangs = |lasted| lasted >= hangs_after(args);
            let path = audit.path.clone();
            let look = || halt.check();
            let findings = watched(&path, look, hangs, move |call| audit.findings(call));
            let named = |error: SuiteError| error.at(format_args!("worker {worker}'s file"));
            found.extend(findings.map_err(named)?);
        }
        Ok(found)
    })?;
    Ok(procs.share(&found)?.into_iter().flatten().collect())
}
