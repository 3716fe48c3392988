//! Writers and readers in one step, and what they agree on: which file is whose, and when the counting starts and ends.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::args::Daq;
use super::reader::Reader;
use super::report::Report;
use super::writer::Writer;
use crate::ground::Ground;
use crate::halt::Halt;
use crate::latency::Histogram;
use crate::latency::Laps;
use crate::procs::Procs;
use crate::step::{self, Work};
use crate::trouble::Outcome;
use crate::words::Origin;

pub fn run(asked: &Daq, procs: &mut Procs) -> Outcome<()> {
    let ground = Ground::make(procs, "daq", &asked.setting, asked.total())?;
    let writers = usize::from(asked.writers);
    let ready = |worker| {
        Ok(match worker < writers {
            true => Worker::Writer(Writer::new(asked, &ground, worker)),
            false => Worker::Reader(Reader::new(asked, &ground, worker - writers)),
        })
    };
    let step = step::take(
        procs,
        asked.workers(),
        ready,
        |_, worker, halt| match worker {
            Worker::Writer(writer) => writer.run(halt),
            Worker::Reader(reader) => reader.run(halt),
        },
    )?;
    // The step's parts are in process 0 only, and so is the report that is written.
    let report = Report::new(asked, step);
    ground.end(procs, &asked.setting, &report)
}

enum Worker<'a> {
    Writer(Writer<'a>),
    Reader(Reader<'a>),
}

/// One file: the writer's so-manieth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crate {
    pub writer: u64,
    pub number: u64,
}

impl Crate {
    /// The files that a reader takes, in order: all of all writers are dealt to the readers in turn, so that each file has one
    /// reader whatever the numbers of both.
    pub fn of_reader(asked: &Daq, reader: usize) -> impl Iterator<Item = Crate> {
        let writers = u64::from(asked.writers);
        let dealt = (reader as u64..).step_by(usize::from(asked.readers));
        dealt.map(move |turn| Crate {
            writer: turn % writers,
            number: turn / writers,
        })
    }

    /// Its name while it is written.
    pub fn part(self, ground: &Ground) -> PathBuf {
        ground
            .dir()
            .join(format!("w{}.{}.part", self.writer, self.number))
    }

    /// Its name when it waits to be read.
    pub fn whole(self, ground: &Ground) -> PathBuf {
        ground
            .dir()
            .join(format!("w{}.{}", self.writer, self.number))
    }

    pub fn origin(self) -> Origin {
        Origin {
            file: self.writer,
            writer: self.writer,
            pass: self.number,
        }
    }
}

/// What a worker counts, and until when it works.
pub struct Tally<'a> {
    from: Instant,
    end: Instant,
    laps: Laps<'a>,
    bytes: u64,
    waited: Duration,
}

/// How long to wait before looking again whether another worker has done its part.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

impl Tally<'_> {
    pub fn start<'a>(asked: &Daq, halt: &'a Halt) -> Tally<'a> {
        let now = Instant::now();
        Tally {
            from: now + Duration::from_secs_f64(asked.warm_up()),
            end: now + Duration::from_secs_f64(asked.seconds),
            laps: Laps::start(halt),
            bytes: 0,
            waited: Duration::ZERO,
        }
    }

    pub fn over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// A record was moved, since the last or since [`Tally::skip`].
    pub fn count(&mut self, bytes: u64) -> Outcome<()> {
        self.laps.lap()?;
        let now = Instant::now();
        if now >= self.from && now < self.end {
            self.bytes += bytes;
        }
        Ok(())
    }

    /// What took time until now was no moving of a record.
    pub fn skip(&mut self) {
        self.laps.skip();
    }

    /// Until what is asked for is so, or all is over: whether it is so.
    pub fn wait_until(&mut self, mut is: impl FnMut() -> Outcome<bool>) -> Outcome<bool> {
        let begun = Instant::now();
        let so = loop {
            if is()? {
                break true;
            }
            if self.over() {
                break false;
            }
            self.laps.check()?;
            std::thread::sleep(LOOK_AGAIN);
        };
        let counted = Instant::now().saturating_duration_since(begun.max(self.from));
        self.waited += counted;
        self.laps.skip();
        Ok(so)
    }

    /// Sleeps until a moment, or until all is over.
    pub fn sleep_until(&mut self, moment: Instant) {
        std::thread::sleep(
            moment
                .min(self.end)
                .saturating_duration_since(Instant::now()),
        );
        self.laps.skip();
    }

    pub fn work(self) -> Work {
        let latencies: Histogram = self.laps.histogram;
        Work {
            bytes: self.bytes,
            latencies,
            waited: self.waited,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        daq: Daq,
    }

    #[test]
    fn every_file_has_one_reader() {
        for (writers, readers) in [(1, 1), (3, 3), (4, 2), (2, 5), (3, 2)] {
            let flags = format!("daq -w {writers} -r {readers}");
            let asked = Line::try_parse_from(flags.split_whitespace()).unwrap().daq;
            let mut seen = Vec::new();
            for reader in 0..readers {
                let first = Crate::of_reader(&asked, reader).take_while(|each| each.number < 10);
                seen.extend(first.map(|each| (each.number, each.writer)));
            }
            seen.sort();
            let expected: Vec<_> = (0..10)
                .flat_map(|number| (0..writers as u64).map(move |writer| (number, writer)))
                .collect();
            assert_eq!(seen, expected, "{writers} {readers}");
        }
    }
}
