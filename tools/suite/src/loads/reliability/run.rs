//! The load, the fault, and reading back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::args::Reliability;
use super::audit::{Audit, Finding};
use super::fault::{self, Acts};
use super::report::Report;
use super::watch::{HANGS_LEAST, watched};
use super::writer::{Ledger, Writer};
use crate::ground::Ground;
use crate::halt::Halt;
use crate::leftovers;
use crate::output::Destination;
use crate::procs::Procs;
use crate::step::{self, Step, Work};
use crate::team;
use crate::trouble::{Outcome, Trouble};
use crate::workload::Workload;

impl Workload for Reliability {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.setting.np
    }

    fn default_np(&self) -> usize {
        usize::from(self.workers)
    }

    fn check(&self) -> Outcome<()> {
        self.check_flags()
    }

    fn destination(&self) -> Destination<'_> {
        self.setting.destination()
    }

    fn run(&self, procs: &mut Procs) -> Outcome<Option<Report>> {
        run(self, procs).map(Some)
    }

    fn verdict(&self, report: &Report) -> Outcome<()> {
        match report.found.len() {
            0 => Ok(()),
            lost => Err(Trouble::met(format!(
                "{lost} records that were acknowledged are not there"
            ))),
        }
    }
}

fn run(asked: &Reliability, procs: &mut Procs) -> Outcome<Report> {
    let ground = Ground::make(procs, "reliability", &asked.setting, asked.total())?;
    if !procs.leads() {
        // What repairs may need the directory: only the process that repairs removes it, after that.
        leftovers::forget();
    }
    let (step, ledgers) = load(asked, &ground, procs)?;
    let (acts, ledgers) = match ledgers {
        (Some(acts), ledgers) => (acts.end(), ledgers),
        (None, ledgers) => (Ok(Vec::new()), ledgers),
    };
    let acts = procs.agree(acts)?;
    // Who wrote a file has it in its cache: another process reads it.
    let mut all: Vec<(usize, Ledger)> = procs.share(&ledgers)?.into_iter().flatten().collect();
    all.sort_by_key(|(worker, _)| *worker);
    let found = read_back(asked, &ground, &all, procs)?;
    let ledgers: Vec<Ledger> = all.into_iter().map(|(_, ledger)| ledger).collect();
    let report = Report::new(asked, step, acts, &ledgers, found);
    ground.end(procs, asked.setting.keep)?;
    Ok(report)
}

/// After how long a call counts as one that does not come back.
fn hangs_after(asked: &Reliability) -> Duration {
    Duration::from_secs_f64(asked.patience).max(HANGS_LEAST)
}

type Loaded = (Option<Acts>, Vec<(usize, Ledger)>);

/// The step, in process 0; the commands, in the process of the first worker; what the workers of this process know.
fn load(
    asked: &Reliability,
    ground: &Ground,
    procs: &mut Procs,
) -> Outcome<(Option<Step>, Loaded)> {
    let ledgers = Mutex::new(Vec::new());
    let acts = Mutex::new(None);
    let ready = |worker| Ok(Writer::new(asked, ground, worker));
    let workers = usize::from(asked.workers);
    let step = step::take(procs, workers, ready, |worker, writer, halt| {
        let begun = worker == 0;
        let begun = begun.then(|| fault::begin(asked, ground.dir()));
        let worked = write(asked, writer, begun.as_ref(), halt);
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
    asked: &Reliability,
    writer: Writer,
    acts: Option<&Acts>,
    halt: &Halt,
) -> Outcome<(Work, Ledger)> {
    let path = writer.path.clone();
    let until = Instant::now() + Duration::from_secs_f64(asked.seconds) + hangs_after(asked);
    let stop = Arc::new(Halt::default());
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

/// What is not there of what was acknowledged, for everybody: each process reads what the one before it wrote.
fn read_back(
    asked: &Reliability,
    ground: &Ground,
    all: &[(usize, Ledger)],
    procs: &mut Procs,
) -> Outcome<Vec<Finding>> {
    let until = Instant::now() + Duration::from_secs_f64(asked.patience);
    let (size, others) = (procs.size(), (procs.rank() + 1) % procs.size());
    let mine = all.iter().filter(|(worker, _)| worker % size == others);
    let audits = mine.map(|(worker, ledger)| Audit {
        run: ground.run,
        worker: *worker as u64,
        path: ground.file(*worker),
        record: asked.record.0,
        ledger: ledger.clone(),
        until,
    });
    let found = team::apart(procs, |halt| {
        let mut found = Vec::new();
        for audit in audits {
            let worker = audit.worker;
            let hangs = |lasted| lasted >= hangs_after(asked);
            let path = audit.path.clone();
            let look = || halt.check();
            let findings = watched(&path, look, hangs, move |call| audit.findings(call));
            let named = |trouble: Trouble| trouble.at(format_args!("worker {worker}'s file"));
            found.extend(findings.map_err(named)?);
        }
        Ok(found)
    })?;
    Ok(procs.share(&found)?.into_iter().flatten().collect())
}
