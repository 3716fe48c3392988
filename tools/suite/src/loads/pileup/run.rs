//! Preparing the files, then one number of readers after the other.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::args::Pileup;
use super::report::{RampStep, Report};
use crate::error::{ErrorContext, SuiteResult};
use crate::latency::Laps;
use crate::memory::Buffer;
use crate::output::Destination;
use crate::page_cache;
use crate::pattern::{Origin, PatternChecker, PatternGenerator};
use crate::procs::Procs;
use crate::rng::{Rng, mix_all};
use crate::run_directory::RunDirectory;
use crate::step::{self, Work};
use crate::stop_flag::StopFlag;
use crate::threads;
use crate::workload::Workload;

/// One write of the preparation.
const PIECE: usize = 1 << 20;

impl Workload for Pileup {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.common.np
    }

    fn default_np(&self) -> usize {
        self.readers.iter().max().copied().unwrap_or(1).into()
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

fn run(args: &Pileup, procs: &mut Procs) -> SuiteResult<Report> {
    let run_dir = RunDirectory::make(procs, "pileup", &args.common, args.total())?;
    let mine = step::workers_here(procs, usize::from(args.files));
    threads::run_untimed(procs, |halt| prepare(args, &run_dir, mine, halt))?;
    let mut report = Report::new(args);
    for readers in &args.readers {
        let readers = usize::from(*readers);
        if args.cold {
            threads::run_untimed(procs, |halt| forget(args, &run_dir, halt))?;
        }
        let step = step::run(
            procs,
            readers,
            |reader| Reader::new(args, &run_dir, readers, reader),
            |_, reader, halt| reader.run(halt),
        )?;
        report
            .rungs
            .extend(step.map(|step| RampStep::new(readers, step)));
    }
    run_dir.end(procs, args.common.keep)?;
    Ok(report)
}

/// The origin of a file: one process wrote all of it, before the readers start.
fn origin(file: usize) -> Origin {
    Origin {
        file: file as u64,
        writer: file as u64,
        pass: 0,
    }
}

fn prepare(
    args: &Pileup,
    run_dir: &RunDirectory,
    mine: impl Iterator<Item = usize>,
    halt: &StopFlag,
) -> SuiteResult<()> {
    let size = args.size.0;
    for number in mine {
        let path = run_dir.file(number);
        let mut file = File::create_new(&path).doing("make", &path)?;
        let mut generator =
            PatternGenerator::new(run_dir.run, origin(number), PIECE, args.common.check);
        for offset in (0..size).step_by(PIECE) {
            let length = (size - offset).min(PIECE as u64) as usize;
            file.write_all(generator.record(offset, length))
                .doing("write", &path)?;
            halt.check()?;
        }
        file.sync_all().doing("sync", &path)?;
    }
    Ok(())
}

/// Each process sees to it that its host has none of the files in memory.
fn forget(args: &Pileup, run_dir: &RunDirectory, halt: &StopFlag) -> SuiteResult<()> {
    for number in 0..usize::from(args.files) {
        let path = run_dir.file(number);
        let file = File::open(&path).doing("open", &path)?;
        page_cache::forget(&file).doing("drop from memory", &path)?;
        halt.check()?;
    }
    Ok(())
}

/// The next read of a reader.
#[derive(Debug, PartialEq)]
struct NextRead {
    file: usize,
    offset: u64,
    length: usize,
}

/// The choices of one reader.
struct ReadChooser<'a> {
    args: &'a Pileup,
    rng: Rng,
    file: usize,
    /// Reads of this file so far.
    reads: u64,
}

impl ReadChooser<'_> {
    fn new(args: &Pileup, readers: usize, reader: usize) -> ReadChooser<'_> {
        let mut rng = Rng::new(mix_all(&[args.seed, readers as u64, reader as u64]));
        let file = rng.below(u64::from(args.files)) as usize;
        ReadChooser {
            args,
            rng,
            file,
            reads: 0,
        }
    }

    fn next(&mut self) -> NextRead {
        if self.args.stay == Some(self.reads) {
            self.file = self.rng.below(u64::from(self.args.files)) as usize;
            self.reads = 0;
        }
        self.reads += 1;
        let (least, most) = (self.args.least.0, self.args.most.0);
        let length = least + self.rng.below(most - least + 1);
        NextRead {
            file: self.file,
            offset: self.rng.below(self.args.size.0 - length + 1),
            length: length as usize,
        }
    }
}

struct Reader<'a> {
    choices: ReadChooser<'a>,
    /// All of them are open before the reading starts: what is measured is reading.
    files: Vec<(PathBuf, File)>,
    buffer: Buffer,
    checker: PatternChecker,
}

impl<'a> Reader<'a> {
    fn new(
        args: &'a Pileup,
        run_dir: &RunDirectory,
        readers: usize,
        reader: usize,
    ) -> SuiteResult<Reader<'a>> {
        let files = 0..usize::from(args.files);
        let opened = files.clone().map(|file| {
            let path = run_dir.file(file);
            let file = File::open(&path).doing("open", &path)?;
            Ok((path, file))
        });
        Ok(Reader {
            choices: ReadChooser::new(args, readers, reader),
            files: opened.collect::<SuiteResult<_>>()?,
            buffer: Buffer::zeroed(args.most.0 as usize),
            checker: PatternChecker::new(run_dir.run, files.map(origin).collect()),
        })
    }

    fn run(mut self, halt: &StopFlag) -> SuiteResult<Work> {
        let args = self.choices.args;
        let end = Instant::now() + Duration::from_secs_f64(args.seconds);
        let (mut laps, mut bytes) = (Laps::start(halt), 0);
        while Instant::now() < end {
            let act = self.choices.next();
            let (path, file) = &self.files[act.file];
            let found = &mut self.buffer[..act.length];
            file.read_exact_at(found, act.offset).doing("read", path)?;
            if args.common.check {
                self.checker
                    .compare(path, act.offset, found, origin(act.file))?;
            }
            bytes += act.length as u64;
            laps.lap()?;
        }
        Ok(Work {
            bytes,
            latencies: laps.histogram,
            ..Work::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        pileup: Pileup,
    }

    fn acts(flags: &str, reader: usize) -> Vec<NextRead> {
        let all = ["pileup"].into_iter().chain(flags.split_whitespace());
        let args = Line::try_parse_from(all).unwrap().pileup;
        let mut choices = ReadChooser::new(&args, 2, reader);
        (0..400).map(|_| choices.next()).collect()
    }

    #[test]
    fn a_reader_reads_50_to_60_kb_anywhere_in_its_file() {
        let acts = acts("-f 100K", 0);
        let lengths = acts.iter().map(|act| act.length);
        let (low, high) = (lengths.clone().min().unwrap(), lengths.max().unwrap());
        assert!((51_200..51_500).contains(&low) && (61_100..=61_440).contains(&high));
        assert!(
            acts.iter()
                .all(|act| act.offset + act.length as u64 <= 102_400)
        );
        assert!(acts.iter().all(|act| act.file == acts[0].file));
        assert!(
            acts.iter()
                .any(|act| act.offset + act.length as u64 > 100_000)
        );
    }

    #[test]
    fn choices_are_those_of_the_seed_and_the_reader() {
        assert_eq!(acts("--seed 7", 0), acts("--seed 7", 0));
        assert_ne!(acts("--seed 7", 0), acts("--seed 8", 0));
        assert_ne!(acts("--seed 7", 0), acts("--seed 7", 1));
    }

    #[test]
    fn a_reader_that_shall_not_stay_goes_to_other_files() {
        let acts = acts("--stay 10", 0);
        let of_turn = |turn: &[NextRead]| turn.iter().all(|act| act.file == turn[0].file);
        assert!(acts.chunks(10).all(of_turn));
        let files: std::collections::BTreeSet<_> = acts.iter().map(|act| act.file).collect();
        assert!(files.len() > 20, "{files:?}");
    }
}
