//! Preparing the files, then one number of readers after the other.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::args::Pileup;
use super::report::{Report, Rung};
use crate::cached;
use crate::chance::{Dice, mix_all};
use crate::ground::Ground;
use crate::halt::Halt;
use crate::latency::Laps;
use crate::memory::Buffer;
use crate::output::Destination;
use crate::procs::Procs;
use crate::step::{self, Work};
use crate::team;
use crate::trouble::{Doing, Outcome};
use crate::words::{Judge, Origin, Pen};
use crate::workload::Workload;

/// One write of the preparation.
const PIECE: usize = 1 << 20;

impl Workload for Pileup {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.setting.np
    }

    fn default_np(&self) -> usize {
        self.readers.iter().max().copied().unwrap_or(1).into()
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

fn run(asked: &Pileup, procs: &mut Procs) -> Outcome<Report> {
    let ground = Ground::make(procs, "pileup", &asked.setting, asked.total())?;
    let mine = step::dealt(procs, usize::from(asked.files));
    team::apart(procs, |halt| prepare(asked, &ground, mine, halt))?;
    let mut report = Report::new(asked);
    for readers in &asked.readers {
        let readers = usize::from(*readers);
        if asked.cold {
            team::apart(procs, |halt| forget(asked, &ground, halt))?;
        }
        let step = step::take(
            procs,
            readers,
            |reader| Reader::new(asked, &ground, readers, reader),
            |_, reader, halt| reader.run(halt),
        )?;
        report
            .rungs
            .extend(step.map(|step| Rung::new(readers, step)));
    }
    ground.end(procs, asked.setting.keep)?;
    Ok(report)
}

/// Who wrote a file: all of it one process, before the readers start.
fn origin(file: usize) -> Origin {
    Origin {
        file: file as u64,
        writer: file as u64,
        pass: 0,
    }
}

fn prepare(
    asked: &Pileup,
    ground: &Ground,
    mine: impl Iterator<Item = usize>,
    halt: &Halt,
) -> Outcome<()> {
    let size = asked.size.0;
    for number in mine {
        let path = ground.file(number);
        let mut file = File::create_new(&path).doing("make", &path)?;
        let mut pen = Pen::new(ground.run, origin(number), PIECE, asked.setting.check);
        for offset in (0..size).step_by(PIECE) {
            let length = (size - offset).min(PIECE as u64) as usize;
            file.write_all(pen.record(offset, length))
                .doing("write", &path)?;
            halt.check()?;
        }
        file.sync_all().doing("sync", &path)?;
    }
    Ok(())
}

/// Each process sees to it that its host has none of the files in memory.
fn forget(asked: &Pileup, ground: &Ground, halt: &Halt) -> Outcome<()> {
    for number in 0..usize::from(asked.files) {
        let path = ground.file(number);
        let file = File::open(&path).doing("open", &path)?;
        cached::forget(&file).doing("drop from memory", &path)?;
        halt.check()?;
    }
    Ok(())
}

/// What a reader reads next.
#[derive(Debug, PartialEq)]
struct Act {
    file: usize,
    offset: u64,
    length: usize,
}

/// The choices of one reader.
struct Choices<'a> {
    asked: &'a Pileup,
    dice: Dice,
    file: usize,
    /// Reads of this file so far.
    reads: u64,
}

impl Choices<'_> {
    fn new(asked: &Pileup, readers: usize, reader: usize) -> Choices<'_> {
        let mut dice = Dice::new(mix_all(&[asked.seed, readers as u64, reader as u64]));
        let file = dice.below(u64::from(asked.files)) as usize;
        Choices {
            asked,
            dice,
            file,
            reads: 0,
        }
    }

    fn next(&mut self) -> Act {
        if self.asked.stay == Some(self.reads) {
            self.file = self.dice.below(u64::from(self.asked.files)) as usize;
            self.reads = 0;
        }
        self.reads += 1;
        let (least, most) = (self.asked.least.0, self.asked.most.0);
        let length = least + self.dice.below(most - least + 1);
        Act {
            file: self.file,
            offset: self.dice.below(self.asked.size.0 - length + 1),
            length: length as usize,
        }
    }
}

struct Reader<'a> {
    choices: Choices<'a>,
    /// All of them are open before the reading starts: what is measured is reading.
    files: Vec<(PathBuf, File)>,
    buffer: Buffer,
    judge: Judge,
}

impl<'a> Reader<'a> {
    fn new(
        asked: &'a Pileup,
        ground: &Ground,
        readers: usize,
        reader: usize,
    ) -> Outcome<Reader<'a>> {
        let files = 0..usize::from(asked.files);
        let opened = files.clone().map(|file| {
            let path = ground.file(file);
            let file = File::open(&path).doing("open", &path)?;
            Ok((path, file))
        });
        Ok(Reader {
            choices: Choices::new(asked, readers, reader),
            files: opened.collect::<Outcome<_>>()?,
            buffer: Buffer::zeroed(asked.most.0 as usize),
            judge: Judge::new(ground.run, files.map(origin).collect()),
        })
    }

    fn run(mut self, halt: &Halt) -> Outcome<Work> {
        let asked = self.choices.asked;
        let end = Instant::now() + Duration::from_secs_f64(asked.seconds);
        let (mut laps, mut bytes) = (Laps::start(halt), 0);
        while Instant::now() < end {
            let act = self.choices.next();
            let (path, file) = &self.files[act.file];
            let found = &mut self.buffer[..act.length];
            file.read_exact_at(found, act.offset).doing("read", path)?;
            if asked.setting.check {
                self.judge
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

    fn acts(flags: &str, reader: usize) -> Vec<Act> {
        let all = ["pileup"].into_iter().chain(flags.split_whitespace());
        let asked = Line::try_parse_from(all).unwrap().pileup;
        let mut choices = Choices::new(&asked, 2, reader);
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
        let of_turn = |turn: &[Act]| turn.iter().all(|act| act.file == turn[0].file);
        assert!(acts.chunks(10).all(of_turn));
        let files: std::collections::BTreeSet<_> = acts.iter().map(|act| act.file).collect();
        assert!(files.len() > 20, "{files:?}");
    }
}
