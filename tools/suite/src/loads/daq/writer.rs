//! The writer, in the role of the detector: writes file after file, no faster than asked and no further ahead than allowed.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use super::args::Daq;
use super::file::DaqFile;
use super::tally::Tally;
use crate::error::{ErrorContext, SuiteResult};
use crate::pattern::PatternGenerator;
use crate::run_directory::RunDirectory;
use crate::size::MB;
use crate::step::Work;
use crate::stop_flag::StopFlag;

pub struct Writer<'a> {
    args: &'a Daq,
    run_dir: &'a RunDirectory,
    writer: u64,
    generator: PatternGenerator,
}

impl Writer<'_> {
    pub fn new<'a>(args: &'a Daq, run_dir: &'a RunDirectory, writer: usize) -> Writer<'a> {
        let writer = writer as u64;
        let first = DaqFile { writer, number: 0 };
        let record = args.record.0.min(args.size.0) as usize;
        Writer {
            args,
            run_dir,
            writer,
            generator: PatternGenerator::new(
                run_dir.run,
                first.origin(),
                record,
                args.common.check,
            ),
        }
    }

    pub fn run(mut self, halt: &StopFlag) -> SuiteResult<Work> {
        let mut tally = Tally::start(self.args, halt);
        let mut pace = self
            .args
            .influx
            .map(|all| Pace::new(all / f64::from(self.args.writers)));
        for number in 0u64.. {
            let writer = self.writer;
            if let Some(before) = number.checked_sub(u64::from(self.args.ahead)) {
                let before = DaqFile {
                    writer,
                    number: before,
                };
                let path = before.whole(self.run_dir);
                if !tally.wait_until(|| gone(&path))? {
                    break;
                }
            }
            if !self.write(DaqFile { writer, number }, &mut tally, &mut pace)? {
                break;
            }
        }
        Ok(tally.work())
    }

    /// Whether the file was written whole before all was over.
    fn write(
        &mut self,
        file: DaqFile,
        tally: &mut Tally,
        pace: &mut Option<Pace>,
    ) -> SuiteResult<bool> {
        self.generator.turn_to(file.origin());
        let (part, whole) = (file.part(self.run_dir), file.whole(self.run_dir));
        let mut to = File::create_new(&part).doing("make", &part)?;
        let (size, record) = (self.args.size.0, self.args.record.0);
        let mut offset = 0;
        while offset < size {
            if tally.over() {
                return Ok(false);
            }
            if let Some(pace) = pace {
                tally.sleep_until(pace.next(record.min(size - offset)));
            }
            let length = record.min(size - offset);
            let bytes = self.generator.record(offset, length as usize);
            to.write_all(bytes).doing("write", &part)?;
            tally.count(length)?;
            offset += length;
        }
        drop(to);
        std::fs::rename(&part, &whole).doing("rename", &part)?;
        tally.skip();
        Ok(true)
    }
}

fn gone(path: &std::path::Path) -> SuiteResult<bool> {
    path.try_exists()
        .map(|there| !there)
        .doing("look for", path)
}

/// When the next bytes may be written.
struct Pace {
    bytes_a_second: f64,
    next: Instant,
}

impl Pace {
    fn new(megabytes_a_second: f64) -> Pace {
        Pace {
            bytes_a_second: megabytes_a_second * MB,
            next: Instant::now(),
        }
    }

    /// The moment for so many bytes. A writer that was held up does not catch up: a detector does not send twice as much afterwards.
    fn next(&mut self, bytes: u64) -> Instant {
        let moment = self.next.max(Instant::now());
        self.next = moment + Duration::from_secs_f64(bytes as f64 / self.bytes_a_second);
        moment
    }
}

#[test]
fn a_pace_leaves_time_for_the_bytes_before() {
    let mut pace = Pace::new(1.0);
    let first = pace.next(1 << 20);
    let second = pace.next(1 << 19);
    let third = pace.next(1);
    assert_eq!(second - first, Duration::from_secs(1));
    assert_eq!(third - second, Duration::from_millis(500));
}
