//! Level after level: filling, churning, measuring.

use std::fs::File;
use std::os::unix::fs::FileExt;

use parking_lot::{Mutex, MutexGuard};

use super::args::{Aging, FillLimit};
use super::report::{Level, Report};
use super::worker_files::WorkerFiles;
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::latency::Laps;
use crate::memory::Buffer;
use crate::output::Destination;
use crate::page_cache;
use crate::pattern::{Origin, PatternChecker, PatternGenerator};
use crate::procs::Procs;
use crate::run_directory::RunDirectory;
use crate::space;
use crate::step::{self, Step, Work};
use crate::stop_flag::StopFlag;
use crate::workload::Workload;

impl Workload for Aging {
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
}

fn run(args: &Aging, procs: &mut Procs) -> SuiteResult<Report> {
    let room = procs.on_rank_0(|| room(args))?;
    let all = room.saturating_add(args.probes());
    let run_dir = RunDirectory::make(procs, "aging", &args.common, all)?;
    let workers = usize::from(args.workers);
    let plots = (0..workers).map(|worker| Mutex::new(WorkerFiles::new(args, &run_dir, worker)));
    let run = Run {
        args,
        run_dir: &run_dir,
        plots: plots.collect(),
    };
    let made = step::workers_here(procs, workers).try_for_each(|worker| run.plot(worker).make());
    procs.agree(made)?;
    let mut report = Report::new(args, room);
    let mut level = Level::new(0);
    run.measure(&mut level, procs)?;
    report.levels.push(level);
    for percent in &args.levels {
        let mut level = Level::new(*percent);
        let share = room / workers as u64 * u64::from(*percent) / 100;
        level.fill = run.all(procs, |plot, halt| plot.fill(share, args.record.0, halt))?;
        let churn = (share as f64 * args.churn) as u64;
        if churn > 0 {
            level.churn = run.all(procs, |plot, halt| plot.churn(churn, args.record.0, halt))?;
        }
        run.measure(&mut level, procs)?;
        report.levels.push(level);
    }
    run_dir.end(procs, args.common.keep)?;
    Ok(report)
}

/// Bytes that are filled at 100 %.
fn room(args: &Aging) -> SuiteResult<u64> {
    let room = match args.room {
        FillLimit::Bytes(bytes) => bytes,
        FillLimit::Percent(percent) => {
            let free = space::free(&args.common.dir)?;
            (free / 100 * u64::from(percent)).saturating_sub(args.probes())
        }
    };
    let least = u64::from(args.workers) * args.most.0;
    match room < least {
        true => Err(SuiteError::usage(format!(
            "--room is {} MB, too little for {} workers with files of up to {}: choose a larger one, or less --most",
            room >> 20,
            args.workers,
            args.most
        ))),
        false => Ok(room),
    }
}

struct Run<'a> {
    args: &'a Aging,
    run_dir: &'a RunDirectory,
    /// By worker; those of this process are used.
    plots: Vec<Mutex<WorkerFiles>>,
}

impl Run<'_> {
    fn plot(&self, worker: usize) -> MutexGuard<'_, WorkerFiles> {
        self.plots[worker].lock()
    }

    fn all(
        &self,
        procs: &mut Procs,
        does: impl Fn(&mut WorkerFiles, &StopFlag) -> SuiteResult<Work> + Sync,
    ) -> SuiteResult<Option<Step>> {
        let ready = |worker| Ok(self.plot(worker));
        // A plot is taken before the start, by its worker's thread.
        step::run(procs, self.plots.len(), ready, |_, mut plot, halt| {
            does(&mut plot, halt)
        })
    }

    /// Large files, several times: made and synced, read without this host's cache, and removed.
    fn measure(&self, level: &mut Level, procs: &mut Procs) -> SuiteResult<()> {
        for pass in 1..=u64::from(self.args.runs) {
            let origin = move |worker: usize| Origin {
                file: 0,
                writer: worker as u64,
                pass,
            };
            let workers = self.plots.len();
            let ready = |worker| {
                let length = self.args.record.0 as usize;
                Ok(PatternGenerator::new(
                    self.run_dir.run,
                    origin(worker),
                    length,
                    self.args.common.check,
                ))
            };
            let wrote = step::run(procs, workers, ready, |worker, generator, halt| {
                self.write(worker, generator, halt)
            })?;
            let ready = |worker| {
                let path = self.run_dir.file(worker);
                let file = File::open(&path).doing("open", &path)?;
                page_cache::forget(&file).doing("forget the cache of", &path)?;
                Ok(Buffer::zeroed(self.args.record.0 as usize))
            };
            let read = step::run(procs, workers, ready, |worker, buffer, halt| {
                self.read(worker, origin(worker), buffer, halt)
            })?;
            let removed = step::workers_here(procs, workers).try_for_each(|worker| {
                let path = self.run_dir.file(worker);
                std::fs::remove_file(&path).doing("remove", &path)
            });
            procs.agree(removed)?;
            level.writes.extend(wrote);
            level.reads.extend(read);
        }
        Ok(())
    }

    fn offsets(&self) -> impl Iterator<Item = u64> {
        let record = self.args.record.0;
        (0..self.args.size.0 / record).map(move |index| index * record)
    }

    fn write(
        &self,
        worker: usize,
        mut generator: PatternGenerator,
        halt: &StopFlag,
    ) -> SuiteResult<Work> {
        let path = self.run_dir.file(worker);
        let file = File::create_new(&path).doing("make", &path)?;
        let (mut laps, mut bytes) = (Laps::start(halt), 0);
        for offset in self.offsets() {
            let record = generator.record(offset, self.args.record.0 as usize);
            file.write_all_at(record, offset).doing("write", &path)?;
            bytes += self.args.record.0;
            laps.lap()?;
        }
        file.sync_all().doing("sync", &path)?;
        Ok(Work {
            bytes,
            latencies: laps.histogram,
            ..Work::default()
        })
    }

    fn read(
        &self,
        worker: usize,
        origin: Origin,
        mut buffer: Buffer,
        halt: &StopFlag,
    ) -> SuiteResult<Work> {
        let path = self.run_dir.file(worker);
        let file = File::open(&path).doing("open", &path)?;
        let mut checker = PatternChecker::new(self.run_dir.run, Vec::new());
        let (mut laps, mut bytes) = (Laps::start(halt), 0);
        for offset in self.offsets() {
            file.read_exact_at(&mut buffer, offset)
                .doing("read", &path)?;
            if self.args.common.check {
                checker.compare(&path, offset, &buffer, origin)?;
            }
            bytes += self.args.record.0;
            laps.lap()?;
        }
        Ok(Work {
            bytes,
            latencies: laps.histogram,
            ..Work::default()
        })
    }
}
