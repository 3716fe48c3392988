//! The four tests, each in all threads.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use super::args::Tiotest;
use super::mapped::Mapped;
use super::report::{Report, Tested};
use crate::chance::{Dice, mix_all};
use crate::ground::Ground;
use crate::halt::Halt;
use crate::latency::Laps;
use crate::memory::Buffer;
use crate::output::Destination;
use crate::procs::Procs;
use crate::step::{self, Work};
use crate::trouble::{Doing, Outcome};
use crate::words::{Judge, Origin, Pen};
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
        self.setting.np
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
}

fn run(asked: &Tiotest, procs: &mut Procs) -> Outcome<Report> {
    let ground = Ground::make(procs, "tiotest", &asked.setting, asked.total())?;
    let mut report = Report::new(asked);
    for test in ALL {
        let on = On {
            asked,
            ground: &ground,
            test,
        };
        let length = asked.block.0 as usize;
        let threads = usize::from(asked.threads);
        let step = match test.writes() {
            true => step::take(
                procs,
                threads,
                |thread| Ok(on.pen(thread)),
                |thread, pen, halt| on.write(thread, pen, halt),
            ),
            false => step::take(
                procs,
                threads,
                |_| Ok(Buffer::zeroed(length)),
                |thread, buffer, halt| on.read(thread, buffer, halt),
            ),
        }?;
        report
            .tests
            .extend(step.map(|step| Tested::new(test.name(), step)));
    }
    ground.end(procs, asked.setting.keep)?;
    Ok(report)
}

/// Blocks that a thread visits in a random test: any, and some more than once.
fn random(asked: &Tiotest, test: Test, thread: usize) -> impl Iterator<Item = u64> + use<> {
    let mut dice = Dice::new(mix_all(&[asked.seed, test as u64, thread as u64]));
    let blocks = asked.blocks();
    (0..asked.random).map(move |_| dice.below(blocks))
}

/// One test, in one process.
struct On<'a> {
    asked: &'a Tiotest,
    ground: &'a Ground,
    test: Test,
}

/// How a thread reaches its file.
enum Way {
    Calls(File),
    Memory(File, Mapped),
}

impl Way {
    fn write(&mut self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        match self {
            Way::Calls(file) => file.write_all_at(bytes, offset),
            Way::Memory(_, mapped) => {
                mapped.write(bytes, offset as usize);
                Ok(())
            }
        }
    }

    fn read(&mut self, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
        match self {
            Way::Calls(file) => file.read_exact_at(bytes, offset),
            Way::Memory(_, mapped) => {
                mapped.read(bytes, offset as usize);
                Ok(())
            }
        }
    }

    fn sync(&self) -> std::io::Result<()> {
        match self {
            Way::Calls(file) => file.sync_all(),
            Way::Memory(file, mapped) => mapped.sync().and_then(|()| file.sync_all()),
        }
    }
}

impl On<'_> {
    fn path(&self, thread: usize) -> PathBuf {
        self.ground.file(thread)
    }

    fn origin(&self, thread: usize, test: Test) -> Origin {
        Origin {
            file: thread as u64,
            writer: thread as u64,
            pass: test as u64,
        }
    }

    fn pen(&self, thread: usize) -> Pen {
        let (length, checked) = (self.asked.block.0 as usize, self.asked.setting.check);
        Pen::new(
            self.ground.run,
            self.origin(thread, self.test),
            length,
            checked,
        )
    }

    fn open(&self, thread: usize) -> Outcome<Way> {
        let (path, mmap) = (self.path(thread), self.asked.mmap);
        let writes = self.test.writes();
        let mut options = File::options();
        // Memory that is mapped to be written is read, too.
        options.read(!writes || mmap).write(writes);
        options.create(self.test == Test::Write).truncate(false);
        options.custom_flags(if self.asked.direct { libc::O_DIRECT } else { 0 });
        let file = options.open(&path).doing("open", &path)?;
        if !mmap {
            return Ok(Way::Calls(file));
        }
        let length = self.asked.blocks() * self.asked.block.0;
        if self.test == Test::Write {
            file.set_len(length).doing("lengthen", &path)?;
        }
        let mapped = Mapped::new(&file, length as usize, writes).doing("map", &path)?;
        Ok(Way::Memory(file, mapped))
    }

    fn blocks(&self, thread: usize) -> Box<dyn Iterator<Item = u64>> {
        match self.test {
            Test::Write | Test::Read => Box::new(0..self.asked.blocks()),
            test => Box::new(random(self.asked, test, thread)),
        }
    }

    fn write(&self, thread: usize, mut pen: Pen, halt: &Halt) -> Outcome<Work> {
        let (mut way, path) = (self.open(thread)?, self.path(thread));
        let mut laps = Laps::start(halt);
        for block in self.blocks(thread) {
            let offset = block * self.asked.block.0;
            let bytes = pen.record(offset, self.asked.block.0 as usize);
            way.write(bytes, offset).doing("write", &path)?;
            laps.lap()?;
        }
        if self.asked.sync {
            way.sync().doing("sync", &path)?;
        }
        Ok(self.work(laps))
    }

    fn read(&self, thread: usize, mut buffer: Buffer, halt: &Halt) -> Outcome<Work> {
        let checked = self.asked.setting.check;
        let overwritten: BTreeSet<u64> = match checked {
            true => random(self.asked, Test::RandomWrite, thread).collect(),
            false => BTreeSet::new(),
        };
        let both = [Test::Write, Test::RandomWrite].map(|test| self.origin(thread, test));
        let mut judge = Judge::new(self.ground.run, both.to_vec());
        let (mut way, path) = (self.open(thread)?, self.path(thread));
        let mut laps = Laps::start(halt);
        for block in self.blocks(thread) {
            let offset = block * self.asked.block.0;
            way.read(&mut buffer, offset).doing("read", &path)?;
            if checked {
                let due = both[usize::from(overwritten.contains(&block))];
                judge.compare(&path, offset, &buffer, due)?;
            }
            laps.lap()?;
        }
        Ok(self.work(laps))
    }

    fn work(&self, laps: Laps) -> Work {
        Work {
            bytes: laps.histogram.operations() * self.asked.block.0,
            latencies: laps.histogram,
            ..Work::default()
        }
    }
}
