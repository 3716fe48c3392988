//! The four tests, each in all threads.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use super::args::Tiotest;
use super::mapped::Mapped;
use super::report::{Report, TestResult};
use crate::error::{ErrorContext, SuiteResult};
use crate::latency::Laps;
use crate::memory::Buffer;
use crate::output::Destination;
use crate::pattern::{Origin, PatternChecker, PatternGenerator};
use crate::procs::Procs;
use crate::rng::{Rng, mix_all};
use crate::run_directory::RunDirectory;
use crate::step::{self, Work};
use crate::stop_flag::StopFlag;
use crate::workload::Workload;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Test {
    Write,
    RandomWrite,
    Read,
    RandomRead,
}

const ALL: [Test; 4] = [Test::Write, Test::RandomWrite, Test::Read, Test::RandomRead];

impl Test {
    fn name(self) -> &'static str {
        match self {
            Test::Write => "Write",
            Test::RandomWrite => "Random_write",
            Test::Read => "Read",
            Test::RandomRead => "Random_read",
        }
    }

    fn writes(self) -> bool {
        self <= Test::RandomWrite
    }
}

impl Workload for Tiotest {
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

fn run(args: &Tiotest, procs: &mut Procs) -> SuiteResult<Report> {
    let run_dir = RunDirectory::make(procs, "tiotest", &args.common, args.total())?;
    let mut report = Report::new(args);
    for test in ALL {
        let test_run = TestRun {
            args,
            run_dir: &run_dir,
            test,
        };
        let length = args.block.0 as usize;
        let threads = usize::from(args.threads);
        let step = match test.writes() {
            true => step::run(
                procs,
                threads,
                |thread| Ok(test_run.generator(thread)),
                |thread, generator, halt| test_run.write(thread, generator, halt),
            ),
            false => step::run(
                procs,
                threads,
                |_| Ok(Buffer::zeroed(length)),
                |thread, buffer, halt| test_run.read(thread, buffer, halt),
            ),
        }?;
        report
            .tests
            .extend(step.map(|step| TestResult::new(test.name(), step)));
    }
    run_dir.end(procs, args.common.keep)?;
    Ok(report)
}

/// Blocks that a thread visits in a random test: any, and some more than once.
fn random(args: &Tiotest, test: Test, thread: usize) -> impl Iterator<Item = u64> + use<> {
    let mut rng = Rng::new(mix_all(&[args.seed, test as u64, thread as u64]));
    let blocks = args.blocks();
    (0..args.random).map(move |_| rng.below(blocks))
}

/// One test, in one process.
struct TestRun<'a> {
    args: &'a Tiotest,
    run_dir: &'a RunDirectory,
    test: Test,
}

/// How a thread reaches its file.
enum FileAccess {
    Calls(File),
    Memory(File, Mapped),
}

impl FileAccess {
    fn write(&mut self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        match self {
            FileAccess::Calls(file) => file.write_all_at(bytes, offset),
            FileAccess::Memory(_, mapped) => {
                mapped.write(bytes, offset as usize);
                Ok(())
            }
        }
    }

    fn read(&mut self, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
        match self {
            FileAccess::Calls(file) => file.read_exact_at(bytes, offset),
            FileAccess::Memory(_, mapped) => {
                mapped.read(bytes, offset as usize);
                Ok(())
            }
        }
    }

    fn sync(&self) -> std::io::Result<()> {
        match self {
            FileAccess::Calls(file) => file.sync_all(),
            FileAccess::Memory(file, mapped) => mapped.sync().and_then(|()| file.sync_all()),
        }
    }
}

impl TestRun<'_> {
    fn path(&self, thread: usize) -> PathBuf {
        self.run_dir.file(thread)
    }

    fn origin(&self, thread: usize, test: Test) -> Origin {
        Origin {
            file: thread as u64,
            writer: thread as u64,
            pass: test as u64,
        }
    }

    fn generator(&self, thread: usize) -> PatternGenerator {
        let (length, checked) = (self.args.block.0 as usize, self.args.common.check);
        PatternGenerator::new(
            self.run_dir.run,
            self.origin(thread, self.test),
            length,
            checked,
        )
    }

    fn open(&self, thread: usize) -> SuiteResult<FileAccess> {
        let (path, mmap) = (self.path(thread), self.args.mmap);
        let writes = self.test.writes();
        let mut options = File::options();
        // Memory that is mapped to be written is read, too.
        options.read(!writes || mmap).write(writes);
        options.create(self.test == Test::Write).truncate(false);
        options.custom_flags(if self.args.direct { libc::O_DIRECT } else { 0 });
        let file = options.open(&path).doing("open", &path)?;
        if !mmap {
            return Ok(FileAccess::Calls(file));
        }
        let length = self.args.blocks() * self.args.block.0;
        if self.test == Test::Write {
            file.set_len(length).doing("lengthen", &path)?;
        }
        let mapped = Mapped::new(&file, length as usize, writes).doing("map", &path)?;
        Ok(FileAccess::Memory(file, mapped))
    }

    fn blocks(&self, thread: usize) -> Box<dyn Iterator<Item = u64>> {
        match self.test {
            Test::Write | Test::Read => Box::new(0..self.args.blocks()),
            test => Box::new(random(self.args, test, thread)),
        }
    }

    fn write(
        &self,
        thread: usize,
        mut generator: PatternGenerator,
        halt: &StopFlag,
    ) -> SuiteResult<Work> {
        let (mut way, path) = (self.open(thread)?, self.path(thread));
        let mut laps = Laps::start(halt);
        for block in self.blocks(thread) {
            let offset = block * self.args.block.0;
            let bytes = generator.record(offset, self.args.block.0 as usize);
            way.write(bytes, offset).doing("write", &path)?;
            laps.lap()?;
        }
        if self.args.sync {
            way.sync().doing("sync", &path)?;
        }
        Ok(self.work(laps))
    }

    fn read(&self, thread: usize, mut buffer: Buffer, halt: &StopFlag) -> SuiteResult<Work> {
        let checked = self.args.common.check;
        let overwritten: BTreeSet<u64> = match checked {
            true => random(self.args, Test::RandomWrite, thread).collect(),
            false => BTreeSet::new(),
        };
        let both = [Test::Write, Test::RandomWrite].map(|test| self.origin(thread, test));
        let mut checker = PatternChecker::new(self.run_dir.run, both.to_vec());
        let (mut way, path) = (self.open(thread)?, self.path(thread));
        let mut laps = Laps::start(halt);
        for block in self.blocks(thread) {
            let offset = block * self.args.block.0;
            way.read(&mut buffer, offset).doing("read", &path)?;
            if checked {
                let due = both[usize::from(overwritten.contains(&block))];
                checker.compare(&path, offset, &buffer, due)?;
            }
            laps.lap()?;
        }
        Ok(self.work(laps))
    }

    fn work(&self, laps: Laps) -> Work {
        Work {
            bytes: laps.histogram.operations() * self.args.block.0,
            latencies: laps.histogram,
            ..Work::default()
        }
    }
}
