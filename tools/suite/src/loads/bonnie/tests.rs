//! The work of one process in each of the six tests.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::args::Bonnie;
use crate::error::{ErrorContext, SuiteResult};
use crate::latency::Laps;
use crate::loads::STDIO;
use crate::memory::Buffer;
use crate::pattern::{Origin, PatternChecker, PatternGenerator};
use crate::rng::{Rng, mix_all};
use crate::run_directory::RunDirectory;
use crate::step::Work;
use crate::stop_flag::StopFlag;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Test {
    Putc,
    Rewrite,
    BlockWrite,
    Getc,
    BlockRead,
    Seeks,
}

impl Test {
    pub const ALL: [Test; 6] = [
        Test::Putc,
        Test::Rewrite,
        Test::BlockWrite,
        Test::Getc,
        Test::BlockRead,
        Test::Seeks,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Test::Putc => "Putc",
            Test::Rewrite => "Rewrite",
            Test::BlockWrite => "Block_write",
            Test::Getc => "Getc",
            Test::BlockRead => "Block_read",
            Test::Seeks => "Seeks",
        }
    }
}

/// A word of each chunk, which the rewriting changes.
const WORD: usize = 8;

/// One process at the file.
pub struct FileWorker<'a> {
    pub args: &'a Bonnie,
    pub path: PathBuf,
    pub run: u64,
}

impl<'a> FileWorker<'a> {
    pub fn new(args: &'a Bonnie, run_dir: &RunDirectory) -> FileWorker<'a> {
        FileWorker {
            args,
            path: run_dir.file(0),
            run: run_dir.run,
        }
    }

    pub fn generator(&self, test: Test) -> PatternGenerator {
        let length = self.args.chunk.0 as usize;
        PatternGenerator::new(self.run, origin(test), length, self.args.common.check)
    }

    fn checker(&self) -> PatternChecker {
        let writers = [Test::Putc, Test::Rewrite, Test::BlockWrite];
        PatternChecker::new(self.run, writers.map(origin).to_vec())
    }

    fn offsets(&self) -> impl Iterator<Item = u64> + use<> {
        let chunk = self.args.chunk.0;
        (0..self.args.chunks()).map(move |index| index * chunk)
    }

    pub fn put_bytes(&self, mut generator: PatternGenerator, halt: &StopFlag) -> SuiteResult<Work> {
        let file = File::create(&self.path).doing("make", &self.path)?;
        let mut buffered = BufWriter::with_capacity(STDIO, &file);
        let mut laps = Laps::start(halt);
        for offset in self.offsets() {
            let chunk = generator.record(offset, self.args.chunk.0 as usize);
            for byte in chunk {
                let one = std::slice::from_ref(byte);
                buffered.write_all(one).doing("write", &self.path)?;
            }
            laps.lap()?;
        }
        buffered.flush().doing("write", &self.path)?;
        drop(buffered);
        self.written(&file, laps)
    }

    pub fn rewrite(&self, mut generator: PatternGenerator, halt: &StopFlag) -> SuiteResult<Work> {
        let file = File::options().read(true).write(true).open(&self.path);
        let file = file.doing("open", &self.path)?;
        let mut chunk = Buffer::zeroed(self.args.chunk.0 as usize);
        let mut laps = Laps::start(halt);
        for offset in self.offsets() {
            file.read_exact_at(&mut chunk, offset)
                .doing("read", &self.path)?;
            chunk[..WORD].copy_from_slice(generator.record(offset, WORD));
            file.write_all_at(&chunk, offset)
                .doing("write", &self.path)?;
            laps.lap()?;
        }
        // As in the source's rates: a chunk that is read and written is one chunk.
        self.written(&file, laps)
    }

    pub fn write(&self, mut generator: PatternGenerator, halt: &StopFlag) -> SuiteResult<Work> {
        std::fs::remove_file(&self.path).doing("remove", &self.path)?;
        let file = File::create_new(&self.path).doing("make", &self.path)?;
        let mut laps = Laps::start(halt);
        for offset in self.offsets() {
            let chunk = generator.record(offset, self.args.chunk.0 as usize);
            file.write_all_at(chunk, offset)
                .doing("write", &self.path)?;
            laps.lap()?;
        }
        self.written(&file, laps)
    }

    fn written(&self, file: &File, laps: Laps) -> SuiteResult<Work> {
        if self.args.sync {
            file.sync_all().doing("sync", &self.path)?;
        }
        Ok(self.work(laps))
    }

    fn work(&self, laps: Laps) -> Work {
        Work {
            bytes: laps.histogram.operations() * self.args.chunk.0,
            latencies: laps.histogram,
            ..Work::default()
        }
    }

    pub fn get_bytes(&self, mut chunk: Buffer, halt: &StopFlag) -> SuiteResult<Work> {
        let file = File::open(&self.path).doing("open", &self.path)?;
        let mut buffered = BufReader::with_capacity(STDIO, &file);
        let mut checker = self.checker();
        let mut laps = Laps::start(halt);
        for offset in self.offsets() {
            for byte in chunk.iter_mut() {
                let one = std::slice::from_mut(byte);
                buffered.read_exact(one).doing("read", &self.path)?;
            }
            self.compare(&mut checker, offset, &chunk)?;
            laps.lap()?;
        }
        Ok(self.work(laps))
    }

    pub fn read(&self, mut chunk: Buffer, halt: &StopFlag) -> SuiteResult<Work> {
        let file = File::open(&self.path).doing("open", &self.path)?;
        let mut checker = self.checker();
        let mut laps = Laps::start(halt);
        for offset in self.offsets() {
            file.read_exact_at(&mut chunk, offset)
                .doing("read", &self.path)?;
            self.compare(&mut checker, offset, &chunk)?;
            laps.lap()?;
        }
        Ok(self.work(laps))
    }

    /// Goes to places that chance chooses, and reads a chunk there.
    pub fn seek(&self, seeker: usize, mut chunk: Buffer, halt: &StopFlag) -> SuiteResult<Work> {
        let file = File::open(&self.path).doing("open", &self.path)?;
        let mut rng = Rng::new(mix_all(&[self.args.seed, seeker as u64]));
        let mut checker = self.checker();
        let mut laps = Laps::start(halt);
        for _ in 0..self.args.seeks {
            let offset = rng.below(self.args.chunks()) * self.args.chunk.0;
            file.read_exact_at(&mut chunk, offset)
                .doing("read", &self.path)?;
            self.compare(&mut checker, offset, &chunk)?;
            laps.lap()?;
        }
        Ok(self.work(laps))
    }

    fn compare(&self, checker: &mut PatternChecker, offset: u64, found: &[u8]) -> SuiteResult<()> {
        match self.args.common.check {
            true => checker.compare(&self.path, offset, found, origin(Test::BlockWrite)),
            false => Ok(()),
        }
    }

    /// Whether the file holds what a test wrote: after the rewriting, a word of each chunk is new.
    pub fn check(&self, test: Test) -> SuiteResult<()> {
        let file = File::open(&self.path).doing("open", &self.path)?;
        let mut checker = self.checker();
        let mut chunk = Buffer::zeroed(self.args.chunk.0 as usize);
        let rest = if test == Test::Rewrite {
            Test::Putc
        } else {
            test
        };
        for offset in self.offsets() {
            file.read_exact_at(&mut chunk, offset)
                .doing("read", &self.path)?;
            let (word, others) = chunk.split_at(WORD);
            checker.compare(&self.path, offset, word, origin(test))?;
            checker.compare(&self.path, offset + WORD as u64, others, origin(rest))?;
        }
        Ok(())
    }
}

fn origin(test: Test) -> Origin {
    Origin {
        file: 0,
        writer: 0,
        pass: test as u64,
    }
}
