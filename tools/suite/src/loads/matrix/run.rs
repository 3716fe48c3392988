//! Every pair of sizes, every test of it, in step with the other processes.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use super::args::Matrix;
use super::report::{Report, Tested};
use super::tests::Test;
use crate::chance::mix_all;
use crate::ground::Ground;
use crate::halt::Halt;
use crate::latency::{Histogram, Laps};
use crate::loads::STDIO;
use crate::memory::Buffer;
use crate::output::Destination;
use crate::procs::Procs;
use crate::step::{self, Step, Work};
use crate::team;
use crate::trouble::{Doing, Outcome};
use crate::words::{Judge, Origin, Pen};
use crate::workload::Workload;

impl Workload for Matrix {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.setting.np
    }

    fn default_np(&self) -> usize {
        usize::from(self.workers)
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

fn run(asked: &Matrix, procs: &mut Procs) -> Outcome<Report> {
    let ground = Ground::make(procs, "matrix", &asked.setting, asked.room())?;
    let mut report = Report::new(asked);
    for (size, record) in asked.pairs() {
        let mut pass = 0;
        for test in asked.wanted() {
            if test.writes() {
                pass += 1;
            }
            let on = On {
                asked,
                ground: &ground,
                test,
                record: record.0,
                records: size.0 / record.0,
                pass,
            };
            let step = on.take(procs)?;
            report
                .tests
                .extend(step.map(|step| Tested::new(test, size, record, step)));
            if test.writes() && asked.setting.check {
                let mine = step::dealt(procs, usize::from(asked.workers));
                team::apart(procs, |halt| on.check(mine, halt))?;
            }
            if test == Test::RecordRewrite {
                pass -= 1;
                procs.lead(|| on.remove())?;
            }
        }
        if !asked.setting.keep {
            procs.lead(|| remove_all(asked, &ground))?;
        }
    }
    ground.end(procs, asked.setting.keep)?;
    Ok(report)
}

fn remove_all(asked: &Matrix, ground: &Ground) -> Outcome<()> {
    for worker in 0..usize::from(asked.workers) {
        let path = ground.file(worker);
        std::fs::remove_file(&path).doing("remove", &path)?;
    }
    Ok(())
}

/// One test with one pair of sizes, in one process.
struct On<'a> {
    asked: &'a Matrix,
    ground: &'a Ground,
    test: Test,
    record: u64,
    records: u64,
    /// How often the file has been written, with this test.
    pass: u64,
}

impl On<'_> {
    fn take(&self, procs: &mut Procs) -> Outcome<Option<Step>> {
        let workers = usize::from(self.asked.workers);
        let length = self.record as usize;
        let order = |worker: usize| {
            let seed = mix_all(&[self.asked.seed, self.test as u64, worker as u64]);
            self.test.visits(self.records, seed)
        };
        match self.test.writes() {
            true => {
                let checked = self.asked.setting.check;
                let pen = |worker| Pen::new(self.ground.run, self.origin(worker), length, checked);
                step::take(
                    procs,
                    workers,
                    |worker| Ok((order(worker), pen(worker))),
                    |worker, (order, pen), halt| self.write(worker, &order, pen, halt),
                )
            }
            false => step::take(
                procs,
                workers,
                |worker| Ok((order(worker), Buffer::zeroed(length))),
                |worker, (order, buffer), halt| self.read(worker, &order, buffer, halt),
            ),
        }
    }

    fn path(&self, worker: usize) -> PathBuf {
        match self.test {
            Test::RecordRewrite => self.ground.dir().join(format!("record{worker}")),
            _ => self.ground.file(worker),
        }
    }

    fn origin(&self, worker: usize) -> Origin {
        Origin {
            file: worker as u64,
            writer: worker as u64,
            pass: self.pass,
        }
    }

    fn open(&self, worker: usize) -> Outcome<File> {
        let path = self.path(worker);
        let writes = self.test.writes();
        let mut options = File::options();
        options.read(!writes).write(writes);
        options
            .create(self.test.makes())
            .truncate(self.test.makes());
        options.custom_flags(if self.asked.direct { libc::O_DIRECT } else { 0 });
        options.open(&path).doing("open", &path)
    }

    fn write(&self, worker: usize, order: &[u64], mut pen: Pen, halt: &Halt) -> Outcome<Work> {
        let (file, path) = (self.open(worker)?, self.path(worker));
        let length = self.record as usize;
        let mut laps = Laps::start(halt);
        if self.test.buffered() {
            let mut buffered = BufWriter::with_capacity(STDIO, &file);
            for index in order {
                let bytes = pen.record(index * self.record, length);
                buffered.write_all(bytes).doing("write", &path)?;
                laps.lap()?;
            }
            buffered.flush().doing("write", &path)?;
        } else {
            for index in order {
                let offset = index * self.record;
                let bytes = pen.record(offset, length);
                file.write_all_at(bytes, offset).doing("write", &path)?;
                laps.lap()?;
            }
        }
        if self.asked.sync {
            file.sync_all().doing("sync", &path)?;
        }
        Ok(self.work(laps.histogram))
    }

    fn work(&self, latencies: Histogram) -> Work {
        Work {
            bytes: self.records * self.record,
            latencies,
            ..Work::default()
        }
    }

    fn read(&self, worker: usize, order: &[u64], mut buffer: Buffer, halt: &Halt) -> Outcome<Work> {
        let (file, path) = (self.open(worker)?, self.path(worker));
        let mut judge = self.judge(worker);
        let mut buffered = BufReader::with_capacity(STDIO, &file);
        let mut laps = Laps::start(halt);
        for index in order {
            let offset = index * self.record;
            let read = match self.test.buffered() {
                true => buffered.read_exact(&mut buffer),
                false => file.read_exact_at(&mut buffer, offset),
            };
            read.doing("read", &path)?;
            if self.asked.setting.check {
                judge.compare(&path, offset, &buffer, self.origin(worker))?;
            }
            laps.lap()?;
        }
        Ok(self.work(laps.histogram))
    }

    /// For saying whose wrong data are: those of all passes before.
    fn judge(&self, worker: usize) -> Judge {
        let passes = 0..self.pass;
        let origins = passes.map(|pass| Origin {
            pass,
            ..self.origin(worker)
        });
        Judge::new(self.ground.run, origins.collect())
    }

    /// Each process reads what the next worker has written.
    fn check(&self, mine: impl Iterator<Item = usize>, halt: &Halt) -> Outcome<()> {
        let workers = usize::from(self.asked.workers);
        for worker in mine {
            let next = (worker + 1) % workers;
            let path = self.path(next);
            let file = File::open(&path).doing("open", &path)?;
            let (mut judge, mut buffer) = (self.judge(next), Buffer::zeroed(self.record as usize));
            let records = match self.test {
                Test::RecordRewrite => 1,
                _ => self.records,
            };
            for offset in (0..records).map(|index| index * self.record) {
                file.read_exact_at(&mut buffer, offset)
                    .doing("read", &path)?;
                judge.compare(&path, offset, &buffer, self.origin(next))?;
                halt.check()?;
            }
            self.ends(&file, records * self.record)
                .doing("check", &path)?;
        }
        Ok(())
    }

    fn ends(&self, file: &File, expected: u64) -> io::Result<()> {
        let found = file.metadata()?.len();
        match found == expected {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "wrong size: expected {expected}, found {found}"
            ))),
        }
    }

    fn remove(&self) -> Outcome<()> {
        for worker in 0..usize::from(self.asked.workers) {
            let path = self.path(worker);
            std::fs::remove_file(&path).doing("remove", &path)?;
        }
        Ok(())
    }
}
