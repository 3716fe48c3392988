//! One test in one thread: open, every record, close.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use super::content::{self, Writer, visits};
use super::regions::Region;
use super::tests::Test;
use crate::error::{ErrorContext, SuiteResult};
use crate::latency::{Histogram, Laps};
use crate::memory::Buffer;
use crate::pattern::{PatternWords, first_word, mark};
use crate::rng::mix_all;
use crate::stop_flag::StopFlag;

/// Everything a thread needs to know.
pub struct Work {
    pub run: u64,
    pub writer: Writer,
    pub path: PathBuf,
    pub region: Region,
    pub record: u64,
    pub records: u64,
    /// Operations if the test is a random one.
    pub random: u64,
    /// Whether what is written will be checked.
    pub checked: bool,
    pub direct: bool,
    pub sync: bool,
}

/// The bytes that a thread moved, and how long its operations took.
pub struct Done {
    pub bytes: u64,
    pub latencies: Histogram,
}

impl Work {
    /// Memory for a record, with data: a thread needs it before it can start.
    pub fn buffer(&self) -> Buffer {
        let mut buffer = Buffer::zeroed(self.record as usize);
        content::fill_at_random(&mut buffer, self.run, self.writer.rank, self.writer.thread);
        buffer
    }

    pub fn run(&self, mut buffer: Buffer, halt: &StopFlag) -> SuiteResult<Done> {
        let mut file = self.open().doing("open", &self.path)?;
        let latencies = match self.writer.test {
            Test::SeqWrite => self.write_in_order(&mut file, &mut buffer, halt),
            Test::ReadModifyWrite => self.modify(&mut file, &mut buffer, halt),
            Test::RandomWrite => self.write_at_random(&mut file, &mut buffer, halt),
            Test::SeqRead => self.read_in_order(&mut file, &mut buffer, halt),
            Test::RandomRead => self.read_at_random(&mut file, &mut buffer, halt),
        }?;
        if self.sync && self.writer.test.writes() {
            file.sync_all().doing("sync", &self.path)?;
        }
        let operations = latencies.operations();
        Ok(Done {
            bytes: operations * self.record * self.writer.test.moves(),
            latencies,
        })
    }

    fn open(&self) -> std::io::Result<File> {
        let test = self.writer.test;
        let on_file = !matches!(self.region.place, super::regions::TargetFile::Device(_));
        File::options()
            .read(test != Test::SeqWrite && test != Test::RandomWrite)
            .write(test.writes())
            .create(test == Test::SeqWrite && on_file)
            .truncate(false)
            .custom_flags(if self.direct { libc::O_DIRECT } else { 0 })
            .open(&self.path)
    }

    fn offset(&self, index: u64) -> u64 {
        self.region.offset + index * self.record
    }

    fn go_to(&self, offset: u64, file: &mut File) -> SuiteResult<()> {
        let gone = file.seek(SeekFrom::Start(offset));
        gone.doing("seek in", &self.path).map(drop)
    }

    /// Puts into the buffer what shall lie at the offset.
    fn make(&self, buffer: &mut [u8], offset: u64) {
        if self.checked {
            self.words().fill(buffer, offset);
        } else {
            mark(buffer, self.mark(), offset);
        }
    }

    fn words(&self) -> PatternWords {
        content::words(self.run, self.region.place, self.writer)
    }

    fn mark(&self) -> u64 {
        let Writer { rank, thread, test } = self.writer;
        mix_all(&[self.run, rank as u64, thread as u64, test as u64])
    }

    fn write_in_order(
        &self,
        file: &mut File,
        buffer: &mut [u8],
        halt: &StopFlag,
    ) -> SuiteResult<Histogram> {
        self.go_to(self.region.offset, file)?;
        let mut laps = Laps::start(halt);
        for index in 0..self.records {
            self.make(buffer, self.offset(index));
            file.write_all(buffer).doing("write", &self.path)?;
            laps.lap()?;
        }
        Ok(laps.histogram)
    }

    fn write_at_random(
        &self,
        file: &mut File,
        buffer: &mut [u8],
        halt: &StopFlag,
    ) -> SuiteResult<Histogram> {
        let visited = visits(self.run, self.writer, self.records);
        let mut laps = Laps::start(halt);
        for index in visited.take(self.random as usize) {
            self.make(buffer, self.offset(index));
            self.go_to(self.offset(index), file)?;
            file.write_all(buffer).doing("write", &self.path)?;
            laps.lap()?;
        }
        Ok(laps.histogram)
    }

    /// Reads the next record, modifies a word, goes back to its beginning and rewrites it.
    fn modify(
        &self,
        file: &mut File,
        buffer: &mut [u8],
        halt: &StopFlag,
    ) -> SuiteResult<Histogram> {
        self.go_to(self.region.offset, file)?;
        let mut laps = Laps::start(halt);
        for index in 0..self.records {
            let offset = self.offset(index);
            file.read_exact(buffer).doing("read", &self.path)?;
            self.words()
                .fill(&mut buffer[..first_word(offset, self.record)], offset);
            self.go_to(offset, file)?;
            file.write_all(buffer).doing("write", &self.path)?;
            laps.lap()?;
        }
        Ok(laps.histogram)
    }

    fn read_in_order(
        &self,
        file: &mut File,
        buffer: &mut [u8],
        halt: &StopFlag,
    ) -> SuiteResult<Histogram> {
        self.go_to(self.region.offset, file)?;
        let mut laps = Laps::start(halt);
        for _ in 0..self.records {
            file.read_exact(buffer).doing("read", &self.path)?;
            laps.lap()?;
        }
        Ok(laps.histogram)
    }

    fn read_at_random(
        &self,
        file: &mut File,
        buffer: &mut [u8],
        halt: &StopFlag,
    ) -> SuiteResult<Histogram> {
        let visited = visits(self.run, self.writer, self.records);
        let mut laps = Laps::start(halt);
        for index in visited.take(self.random as usize) {
            self.go_to(self.offset(index), file)?;
            file.read_exact(buffer).doing("read", &self.path)?;
            laps.lap()?;
        }
        Ok(laps.histogram)
    }
}
