//! For each block size, all processes write for a time, then all read for a time.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::args::Pioraw;
use super::report::{BlockSizeResult, Report};
use crate::error::{ErrorContext, SuiteResult};
use crate::latency::Laps;
use crate::memory::Buffer;
use crate::output::Destination;
use crate::pattern::{Origin, PatternChecker, PatternGenerator};
use crate::procs::Procs;
use crate::run_directory::RunDirectory;
use crate::step::{self, Work};
use crate::stop_flag::StopFlag;
use crate::workload::Workload;

impl Workload for Pioraw {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.common.np
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

fn run(args: &Pioraw, procs: &mut Procs) -> SuiteResult<Report> {
    let workers = procs.size();
    let all = args.size.0.saturating_mul(workers as u64);
    let run_dir = RunDirectory::make(procs, "pioraw", &args.common, all)?;
    let mut report = Report::new(args, workers);
    for (pass, block) in args.block.iter().enumerate() {
        let test_run = BlockSizePass {
            args,
            run_dir: &run_dir,
            pass: pass as u64,
            block: block.0,
            written: AtomicU64::new(0),
        };
        let length = block.0 as usize;
        let checked = args.common.check;
        let generator = |worker| {
            Ok(PatternGenerator::new(
                run_dir.run,
                test_run.origin(worker),
                length,
                checked,
            ))
        };
        let wrote = step::run(procs, workers, generator, |worker, generator, halt| {
            test_run.write(worker, generator, halt)
        })?;
        let buffer = |_| Ok(Buffer::zeroed(length));
        let read = step::run(procs, workers, buffer, |worker, buffer, halt| {
            test_run.read(worker, buffer, halt)
        })?;
        let turn = wrote
            .zip(read)
            .map(|(write, read)| BlockSizeResult::new(*block, write, read));
        report.turns.extend(turn);
    }
    run_dir.end(procs, args.common.keep)?;
    Ok(report)
}

/// One block size, in one process.
struct BlockSizePass<'a> {
    args: &'a Pioraw,
    run_dir: &'a RunDirectory,
    pass: u64,
    block: u64,
    /// Blocks of the file that there are: as far as the writing came in its time, at most all.
    written: AtomicU64,
}

impl BlockSizePass<'_> {
    fn path(&self, worker: usize) -> PathBuf {
        self.run_dir.file(worker)
    }

    fn origin(&self, worker: usize) -> Origin {
        Origin {
            file: worker as u64,
            writer: worker as u64,
            pass: self.pass,
        }
    }

    fn flags(&self) -> i32 {
        if self.args.direct { libc::O_DIRECT } else { 0 }
    }

    fn end(&self) -> Instant {
        Instant::now() + Duration::from_secs_f64(self.args.seconds)
    }

    /// At least one block, whatever the time.
    fn write(
        &self,
        worker: usize,
        mut generator: PatternGenerator,
        halt: &StopFlag,
    ) -> SuiteResult<Work> {
        let path = self.path(worker);
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(true);
        let file = options
            .custom_flags(self.flags())
            .open(&path)
            .doing("open", &path)?;
        let blocks = self.args.size.0 / self.block;
        let (end, mut laps, mut moved) = (self.end(), Laps::start(halt), 0);
        loop {
            let offset = moved % blocks * self.block;
            let bytes = generator.record(offset, self.block as usize);
            file.write_all_at(bytes, offset).doing("write", &path)?;
            laps.lap()?;
            moved += 1;
            if Instant::now() >= end {
                break;
            }
        }
        self.written.store(moved.min(blocks), Ordering::Relaxed);
        Ok(Work {
            bytes: moved * self.block,
            latencies: laps.histogram,
            ..Work::default()
        })
    }

    fn read(&self, worker: usize, mut buffer: Buffer, halt: &StopFlag) -> SuiteResult<Work> {
        let path = self.path(worker);
        let mut options = File::options();
        let options = options.read(true).custom_flags(self.flags());
        let file = options.open(&path).doing("open", &path)?;
        let before = self.pass.checked_sub(1);
        let before = before.map(|pass| Origin {
            pass,
            ..self.origin(worker)
        });
        let mut checker = PatternChecker::new(self.run_dir.run, before.into_iter().collect());
        let blocks = self.written.load(Ordering::Relaxed);
        let (end, mut laps, mut moved) = (self.end(), Laps::start(halt), 0);
        loop {
            let offset = moved % blocks * self.block;
            file.read_exact_at(&mut buffer, offset)
                .doing("read", &path)?;
            if self.args.common.check {
                checker.compare(&path, offset, &buffer, self.origin(worker))?;
            }
            laps.lap()?;
            moved += 1;
            if Instant::now() >= end {
                break;
            }
        }
        Ok(Work {
            bytes: moved * self.block,
            latencies: laps.histogram,
            ..Work::default()
        })
    }
}
