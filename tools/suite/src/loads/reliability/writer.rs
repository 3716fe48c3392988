//! One worker: writes its file round and round, and knows what was acknowledged.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::args::Reliability;
use super::watch::Call;
use crate::error::SuiteResult;
use crate::latency::{Histogram, Laps};
use crate::pattern::{Origin, PatternGenerator};
use crate::run_directory::RunDirectory;
use crate::stop_flag::StopFlag;

/// Passes over a file count from 1; 0 says that there was none.
pub type Pass = u64;

/// The passes that a worker wrote and had acknowledged, by record of its file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// The pass whose bytes an fsync acknowledged last.
    pub kept: Vec<Pass>,
    /// The pass that was tried last: its bytes may be there, too, or parts of them.
    pub tried: Vec<Pass>,
    /// Calls that failed.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
    /// Seconds from the start at which an fsync came back well.
    pub moments: Vec<f64>,
    /// Seconds that the worker took in all.
    pub seconds: f64,
    pub bytes: u64,
}

/// Pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(20);

pub struct Writer {
    args: Reliability,
    pub path: PathBuf,
    worker: u64,
    generator: PatternGenerator,
    ledger: Ledger,
}

pub fn origin(worker: u64, pass: Pass) -> Origin {
    Origin {
        file: worker,
        writer: worker,
        pass,
    }
}

impl Writer {
    pub fn new(args: &Reliability, run_dir: &RunDirectory, worker: usize) -> Writer {
        let records = args.records();
        let ledger = Ledger {
            kept: vec![0; records],
            tried: vec![0; records],
            ..Ledger::default()
        };
        let (path, worker) = (run_dir.file(worker), worker as u64);
        Writer {
            args: args.clone(),
            path,
            worker,
            generator: PatternGenerator::new(
                run_dir.run,
                origin(worker, 1),
                args.record.0 as usize,
                true,
            ),
            ledger,
        }
    }

    /// Until the time is over; calls that fail are counted and tried again.
    pub fn run(mut self, call: &Call, halt: &StopFlag) -> SuiteResult<(Histogram, Ledger)> {
        let begun = Instant::now();
        let end = begun + Duration::from_secs_f64(self.args.seconds);
        let mut laps = Laps::start(halt);
        let (mut file, mut next) = (None, 0);
        while Instant::now() < end {
            let batch = next..next + self.args.sync_every;
            match self.write(&mut file, batch.clone(), call) {
                Ok(()) => {
                    laps.lap()?;
                    self.acknowledge(batch.clone());
                    self.ledger.moments.push(begun.elapsed().as_secs_f64());
                    next = batch.end;
                }
                Err(error) => {
                    self.note(&error);
                    // Whether an fsync through the old descriptor would tell of lost bytes again is not sure.
                    file = None;
                    std::thread::sleep(PAUSE);
                    laps.skip();
                }
            }
        }
        self.ledger.seconds = begun.elapsed().as_secs_f64();
        Ok((laps.histogram, self.ledger))
    }

    /// The record's place in the file, and the pass, of a write by its number.
    fn place(&self, write: u64) -> (usize, Pass) {
        let records = self.ledger.kept.len() as u64;
        ((write % records) as usize, write / records + 1)
    }

    fn write(
        &mut self,
        file: &mut Option<File>,
        batch: std::ops::Range<u64>,
        call: &Call,
    ) -> io::Result<()> {
        let file = match file {
            Some(file) => file,
            none => {
                let mut options = File::options();
                options.write(true).create(true).truncate(false);
                none.insert(call.make("open of", || options.open(&self.path))?)
            }
        };
        for write in batch {
            let (record, pass) = self.place(write);
            let offset = record as u64 * self.args.record.0;
            self.generator.turn_to(origin(self.worker, pass));
            self.ledger.tried[record] = pass;
            let bytes = self.generator.record(offset, self.args.record.0 as usize);
            call.make("write to", || file.write_all_at(bytes, offset))?;
        }
        call.make("fsync of", || file.sync_data())
    }

    fn acknowledge(&mut self, batch: std::ops::Range<u64>) {
        self.ledger.bytes += (batch.end - batch.start) * self.args.record.0;
        for write in batch {
            let (record, pass) = self.place(write);
            self.ledger.kept[record] = pass;
        }
    }

    fn note(&mut self, error: &io::Error) {
        self.ledger.errors += 1;
        self.ledger
            .first_error
            .get_or_insert_with(|| error.to_string());
    }
}
