//! Every pair of sizes, every test of it, in step with the other processes.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use super::args::Matrix;
use super::report::{Report, TestResult};
use super::tests::Test;
use crate::error::{ErrorContext, SuiteResult};
use crate::latency::{Histogram, Laps};
use crate::loads::STDIO;
use crate::memory::Buffer;
use crate::output::Destination;
use crate::pattern::{Origin, PatternChecker, PatternGenerator};
use crate::procs::Procs;
use crate::rng::mix_all;
use crate::run_directory::RunDirectory;
use crate::step::{self, Step, Work};
use crate::stop_flag::StopFlag;
use crate::threads;
use crate::workload::Workload;

impl Workload for Matrix {
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

fn run(args: &Matrix, procs: &mut Procs) -> SuiteResult<Report> {
    let run_dir = RunDirectory::make(procs, "matrix", &args.common, args.room())?;
    let mut report = Report::new(args);
    for (size, record) in args.pairs() {
        let mut pass = 0;
        for test in args.wanted() {
            if test.writes() {
                pass += 1;
            }
            let test_run = TestRun {
                args,
                run_dir: &run_dir,
                test,
                record: record.0,
                records: size.0 / record.0,
                pass,
            };
            let step = test_run.take(procs)?;
            report
                .tests
                .extend(step.map(|step| TestResult::new(test, size, record, step)));
            if test.writes() && args.common.check {
                let mine = step::workers_here(procs, usize::from(args.workers));
                threads::run_untimed(procs, |halt| test_run.check(mine, halt))?;
            }
            if test == Test::RecordRewrite {
                pass -= 1;
                procs.on_rank_0(|| test_run.remove())?;
            }
        }
        if !args.common.keep {
            procs.on_rank_0(|| remove_all(args, &run_dir))?;
        }
    }
    run_dir.end(procs, args.common.keep)?;
    Ok(report)
}

fn remove_all(args: &Matrix, run_dir: &RunDirectory) -> SuiteResult<()> {
    for worker in 0..usize::from(args.workers) {
        let path = run_dir.file(worker);
        std::fs::remove_file(&path).doing("remove", &path)?;
    }
    Ok(())
}

/// One test with one pair of sizes, in one process.
struct TestRun<'a> {
    args: &'a Matrix,
    run_dir: &'a RunDirectory,
    test: Test,
    record: u64,
    records: u64,
    /// How often the file has been written, with this test.
    pass: u64,
}

impl TestRun<'_> {
    fn take(&self, procs: &mut Procs) -> SuiteResult<Option<Step>> {
        let workers = usize::from(self.args.workers);
        let length = self.record as usize;
        let order = |worker: usize| {
            let seed = mix_all(&[self.args.seed, self.test as u64, worker as u64]);
            self.test.visits(self.records, seed)
        };
        match self.test.writes() {
            true => {
                let checked = self.args.common.check;
                let generator = |worker| {
                    PatternGenerator::new(self.run_dir.run, self.origin(worker), length, checked)
                };
                step::run(
                    procs,
                    workers,
                    |worker| Ok((order(worker), generator(worker))),
                    |worker, (order, generator), halt| self.write(worker, &order, generator, halt),
                )
            }
            false => step::run(
                procs,
                workers,
                |worker| Ok((order(worker), Buffer::zeroed(length))),
                |worker, (order, buffer), halt| self.read(worker, &order, buffer, halt),
            ),
        }
    }

    fn path(&self, worker: usize) -> PathBuf {
        match self.test {
            Test::RecordRewrite => self.run_dir.dir().join(format!("record{worker}")),
            _ => self.run_dir.file(worker),
        }
    }

    fn origin(&self, worker: usize) -> Origin {
        Origin {
            file: worker as u64,
            writer: worker as u64,
            pass: self.pass,
        }
    }

    fn open(&self, worker: usize) -> SuiteResult<File> {
        let path = self.path(worker);
        let writes = self.test.writes();
        let mut options = File::options();
        options.read(!writes).write(writes);
        options
            .create(self.test.makes())
            .truncate(self.test.makes());
        options.custom_flags(if self.args.direct { libc::O_DIRECT } else { 0 });
        options.open(&path).doing("open", &path)
    }

    fn write(
        &self,
        worker: usize,
        order: &[u64],
        mut generator: PatternGenerator,
        halt: &StopFlag,
    ) -> SuiteResult<Work> {
        let (file, path) = (self.open(worker)?, self.path(worker));
        let length = self.record as usize;
        let mut laps = Laps::start(halt);
        if self.test.buffered() {
            let mut buffered = BufWriter::with_capacity(STDIO, &file);
            for index in order {
                let bytes = generator.record(index * self.record, length);
                buffered.write_all(bytes).doing("write", &path)?;
                laps.lap()?;
            }
            buffered.flush().doing("write", &path)?;
        } else {
            for index in order {
                let offset = index * self.record;
                let bytes = generator.record(offset, length);
                file.write_all_at(bytes, offset).doing("write", &path)?;
                laps.lap()?;
            }
        }
        if self.args.sync {
            file.sync_all().doing("sync", &path)?;
        }
        Ok(self.work(laps.histogram))
    }

    fn work(&self, latencies: Histogram) -> Work {
        Work {
            bytes: self.records * self.record,
            latencies,
            ..Work::default()
        }
    }

    fn read(
        &self,
        worker: usize,
        order: &[u64],
        mut buffer: Buffer,
        halt: &StopFlag,
    ) -> SuiteResult<Work> {
        let (file, path) = (self.open(worker)?, self.path(worker));
        let mut checker = self.checker(worker);
        let mut buffered = BufReader::with_capacity(STDIO, &file);
        let mut laps = Laps::start(halt);
        for index in order {
            let offset = index * self.record;
            let read = match self.test.buffered() {
                true => buffered.read_exact(&mut buffer),
                false => file.read_exact_at(&mut buffer, offset),
            };
            read.doing("read", &path)?;
            if self.args.common.check {
                checker.compare(&path, offset, &buffer, self.origin(worker))?;
            }
            laps.lap()?;
        }
        Ok(self.work(laps.histogram))
    }

    /// For saying whose wrong data are: those of all passes before.
    fn checker(&self, worker: usize) -> PatternChecker {
        let passes = 0..self.pass;
        let origins = passes.map(|pass| Origin {
            pass,
            ..self.origin(worker)
        });
        PatternChecker::new(self.run_dir.run, origins.collect())
    }

    /// Each process reads what the next worker has written.
    fn check(&self, mine: impl Iterator<Item = usize>, halt: &StopFlag) -> SuiteResult<()> {
        let workers = usize::from(self.args.workers);
        for worker in mine {
            let next = (worker + 1) % workers;
            let path = self.path(next);
            let file = File::open(&path).doing("open", &path)?;
            let (mut checker, mut buffer) =
                (self.checker(next), Buffer::zeroed(self.record as usize));
            let records = match self.test {
                Test::RecordRewrite => 1,
                _ => self.records,
            };
            for offset in (0..records).map(|index| index * self.record) {
                file.read_exact_at(&mut buffer, offset)
                    .doing("read", &path)?;
                checker.compare(&path, offset, &buffer, self.origin(next))?;
                halt.check()?;
            }
            self.ends(&file, records * self.record)
                .doing("check", &path)?;
        }
        Ok(())
    }

    fn ends(&self, file: &File, expected: u64) -> io::Result<()> {
        let found = file.metadata()?.len();
        match found == expected {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "wrong size: expected {expected}, found {found}"
            ))),
        }
    }

    fn remove(&self) -> SuiteResult<()> {
        for worker in 0..usize::from(self.args.workers) {
            let path = self.path(worker);
            std::fs::remove_file(&path).doing("remove", &path)?;
        }
        Ok(())
    }
}
