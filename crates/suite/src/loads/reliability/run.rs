//! The load, the fault, and reading back.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::args::Reliability;
use super::audit::{Audit, Finding};
use super::fault;
use super::report::Report;
use super::writer::{Ledger, Writer};
use crate::ground::Ground;
use crate::procs::Procs;
use crate::step::{self, Work};
use crate::trouble::{Outcome, Trouble};

pub fn run(asked: &Reliability, procs: &mut Procs) -> Outcome<()> {
    let ground = Ground::make(procs, "reliability", &asked.setting, asked.total())?;
    let workers = usize::from(asked.workers);
    let ledgers = Mutex::new(Vec::new());
    let acts = Mutex::new(None);
    let ready = |worker| Ok(Writer::new(asked, &ground, worker));
    let step = step::take(procs, workers, ready, |worker, mut writer, halt| {
        if worker == 0 {
            *acts.lock().expect("nobody panics with it") = Some(fault::begin(asked, ground.dir()));
        }
        let latencies = writer.run(halt)?;
        let work = Work {
            bytes: writer.ledger.bytes,
            latencies,
            ..Work::default()
        };
        let mut ledgers = ledgers.lock().expect("nobody panics with it");
        ledgers.push((worker, writer.ledger));
        Ok(work)
    })?;
    let acts = acts.into_inner().expect("nobody panicked with it");
    let acts = acts.map_or(Ok(Ok(Vec::new())), |thread| thread.join());
    let acts = acts.unwrap_or_else(|_| Err(Trouble::met("a thread panicked")));
    let acts = procs.agree(acts)?;
    // Who wrote a file has it in its cache: another process reads it.
    let ledgers = ledgers.into_inner().expect("nobody panicked with it");
    let mut all: Vec<(usize, Ledger)> = procs.share(&ledgers)?.into_iter().flatten().collect();
    all.sort_by_key(|(worker, _)| *worker);
    let until = Instant::now() + Duration::from_secs_f64(asked.patience);
    let others = (procs.rank() + 1) % procs.size();
    let mine = all
        .iter()
        .filter(|(worker, _)| worker % procs.size() == others);
    let found: Vec<Finding> = mine
        .flat_map(|(worker, ledger)| {
            let audit = Audit {
                run: ground.run,
                worker: *worker as u64,
                path: &ground.file(*worker),
                record: asked.record.0,
                ledger,
                until,
            };
            audit.findings()
        })
        .collect();
    let found: Vec<Finding> = procs.share(&found)?.into_iter().flatten().collect();
    let lost = found.len();
    let ledgers: Vec<Ledger> = all.into_iter().map(|(_, ledger)| ledger).collect();
    let report = Report::new(asked, step, acts, &ledgers, found);
    ground.end(procs, &asked.setting, &report)?;
    match lost {
        0 => Ok(()),
        lost => Err(Trouble::met(format!(
            "{lost} records that were acknowledged are not there"
        ))),
    }
}
