//! The directory of one worker: it creates and removes files of many sizes.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use super::args::Aging;
use crate::error::{ErrorContext, SuiteResult};
use crate::latency::Laps;
use crate::pattern::{Origin, PatternGenerator};
use crate::rng::{Rng, mix_all};
use crate::run_directory::RunDirectory;
use crate::step::Work;
use crate::stop_flag::StopFlag;

pub struct WorkerFiles {
    dir: PathBuf,
    files: Vec<AgedFile>,
    bytes: u64,
    /// Files that were ever made.
    made: u64,
    rng: Rng,
    generator: PatternGenerator,
    worker: u64,
    sizes: (u64, u64),
}

struct AgedFile {
    number: u64,
    bytes: u64,
}

/// The share of its bytes that a worker removes before it writes as many anew.
const TURN: u64 = 8;

impl WorkerFiles {
    pub fn new(args: &Aging, run_dir: &RunDirectory, worker: usize) -> WorkerFiles {
        let worker = worker as u64;
        let longest = args.record.0 as usize;
        WorkerFiles {
            dir: run_dir.dir().join(format!("worker{worker}")),
            files: Vec::new(),
            bytes: 0,
            made: 0,
            rng: Rng::new(mix_all(&[args.seed, worker])),
            generator: PatternGenerator::new(run_dir.run, origin(worker, 0), longest, false),
            worker,
            sizes: (args.least.0, args.most.0),
        }
    }

    pub fn make(&self) -> SuiteResult<()> {
        std::fs::create_dir(&self.dir).doing("make", &self.dir)
    }

    /// Writes files until there are so many bytes.
    pub fn fill(&mut self, to: u64, record: u64, halt: &StopFlag) -> SuiteResult<Work> {
        let (before, mut laps) = (self.bytes, Laps::start(halt));
        self.write(to, record, &mut laps)?;
        self.settle()?;
        Ok(Work {
            bytes: self.bytes.saturating_sub(before),
            latencies: laps.histogram,
            ..Work::default()
        })
    }

    /// Removes files at random and writes others, until so many bytes were written.
    pub fn churn(&mut self, bytes: u64, record: u64, halt: &StopFlag) -> SuiteResult<Work> {
        let (full, mut written, mut laps) = (self.bytes, 0, Laps::start(halt));
        while written < bytes {
            let low = full - (full / TURN).max(1).min(bytes - written);
            while self.bytes > low && !self.files.is_empty() {
                let chosen = self.rng.below(self.files.len() as u64) as usize;
                let file = self.files.swap_remove(chosen);
                let path = self.path(file.number);
                std::fs::remove_file(&path).doing("remove", &path)?;
                self.bytes -= file.bytes;
            }
            laps.skip();
            written += full - self.bytes;
            self.write(full, record, &mut laps)?;
            // A file that was removed before it got its place on a disk would leave no gap there.
            self.settle()?;
        }
        Ok(Work {
            bytes: written,
            latencies: laps.histogram,
            ..Work::default()
        })
    }

    fn write(&mut self, to: u64, record: u64, laps: &mut Laps) -> SuiteResult<()> {
        while self.bytes < to {
            let bytes = self.size().min(to - self.bytes);
            let number = self.made;
            self.made += 1;
            let path = self.path(number);
            self.generator.turn_to(origin(self.worker, number));
            let mut file = File::create_new(&path).doing("make", &path)?;
            for offset in (0..bytes).step_by(record as usize) {
                let length = record.min(bytes - offset) as usize;
                let piece = self.generator.record(offset, length);
                file.write_all(piece).doing("write", &path)?;
            }
            drop(file);
            laps.lap()?;
            self.files.push(AgedFile { number, bytes });
            self.bytes += bytes;
        }
        Ok(())
    }

    /// Each power of two is as likely as any other: most files are small, most bytes lie in large ones.
    fn size(&mut self) -> u64 {
        let (least, most) = (self.sizes.0 as f64, self.sizes.1 as f64);
        (least * (most / least).powf(self.rng.fraction())).round() as u64
    }

    fn settle(&self) -> SuiteResult<()> {
        let dir = File::open(&self.dir).doing("open", &self.dir)?;
        rustix::fs::syncfs(&dir).doing("sync the file system of", &self.dir)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(number.to_string())
    }
}

fn origin(worker: u64, number: u64) -> Origin {
    Origin {
        file: number + 1,
        writer: worker,
        pass: 0,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        aging: Aging,
    }

    fn there(dir: &std::path::Path) -> (usize, u64) {
        let sizes = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len());
        sizes.fold((0, 0), |(count, sum), size| (count + 1, sum + size))
    }

    #[test]
    fn files_come_and_go_and_there_are_as_many_bytes_as_wanted() {
        let place = tempfile::tempdir().unwrap();
        let args = Line::try_parse_from(["aging", "--least", "100", "--most", "5000"])
            .unwrap()
            .aging;
        let mut plot = WorkerFiles {
            dir: place.path().join("plot"),
            files: Vec::new(),
            bytes: 0,
            made: 0,
            rng: Rng::new(args.seed),
            generator: PatternGenerator::new(1, origin(0, 0), 1000, false),
            worker: 0,
            sizes: (args.least.0, args.most.0),
        };
        plot.make().unwrap();
        let halt = StopFlag::default();
        assert_eq!(plot.fill(100_000, 1000, &halt).unwrap().bytes, 100_000);
        let (before, bytes) = there(&plot.dir);
        assert_eq!((before as u64, bytes), (plot.made, 100_000));
        let churned = plot.churn(250_000, 1000, &halt).unwrap();
        assert!(
            (250_000..260_000).contains(&churned.bytes),
            "{}",
            churned.bytes
        );
        assert_eq!(there(&plot.dir), (plot.files.len(), 100_000));
        assert!(plot.made > 2 * before as u64);
        assert_eq!(plot.churn(0, 1000, &halt).unwrap().bytes, 0);
        assert!(plot.fill(50_000, 1000, &halt).unwrap().bytes == 0);
    }
}
