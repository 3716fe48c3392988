//! For each block size, all processes write for a time, then all read for a time.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::args::Pioraw;
use super::report::{Report, Turn};
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

impl Workload for Pioraw {
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

fn run(asked: &Pioraw, procs: &mut Procs) -> Outcome<Report> {
    let workers = procs.size();
    let all = asked.size.0.saturating_mul(workers as u64);
    let ground = Ground::make(procs, "pioraw", &asked.setting, all)?;
    let mut report = Report::new(asked, workers);
    for (pass, block) in asked.block.iter().enumerate() {
        let on = On {
            asked,
            ground: &ground,
            pass: pass as u64,
            block: block.0,
            written: AtomicU64::new(0),
        };
        let length = block.0 as usize;
        let checked = asked.setting.check;
        let pen = |worker| Ok(Pen::new(ground.run, on.origin(worker), length, checked));
        let wrote = step::take(procs, workers, pen, |worker, pen, halt| {
            on.write(worker, pen, halt)
        })?;
        let buffer = |_| Ok(Buffer::zeroed(length));
        let read = step::take(procs, workers, buffer, |worker, buffer, halt| {
            on.read(worker, buffer, halt)
        })?;
        let turn = wrote
            .zip(read)
            .map(|(write, read)| Turn::new(*block, write, read));
        report.turns.extend(turn);
    }
    ground.end(procs, asked.setting.keep)?;
    Ok(report)
}

/// One block size, in one process.
struct On<'a> {
    asked: &'a Pioraw,
    ground: &'a Ground,
    pass: u64,
    block: u64,
    /// Blocks of the file that there are: as far as the writing came in its time, at most all.
    written: AtomicU64,
}

impl On<'_> {
    fn path(&self, worker: usize) -> PathBuf {
        self.ground.file(worker)
    }

    fn origin(&self, worker: usize) -> Origin {
        Origin {
            file: worker as u64,
            writer: worker as u64,
            pass: self.pass,
        }
    }

    fn flags(&self) -> i32 {
        if self.asked.direct { libc::O_DIRECT } else { 0 }
    }

    fn end(&self) -> Instant {
        Instant::now() + Duration::from_secs_f64(self.asked.seconds)
    }

    /// At least one block, whatever the time.
    fn write(&self, worker: usize, mut pen: Pen, halt: &Halt) -> Outcome<Work> {
        let path = self.path(worker);
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(true);
        let file = options
            .custom_flags(self.flags())
            .open(&path)
            .doing("open", &path)?;
        let blocks = self.asked.size.0 / self.block;
        let (end, mut laps, mut moved) = (self.end(), Laps::start(halt), 0);
        loop {
            let offset = moved % blocks * self.block;
            let bytes = pen.record(offset, self.block as usize);
            file.write_all_at(bytes, offset).doing("write", &path)?;
            laps.lap()?;
            moved += 1;
            if Instant::now() >= end {
                break;
            }
        }
        self.written.store(moved.min(blocks), Ordering::Relaxed);
        Ok(Work {
            bytes: moved * self.block,
            latencies: laps.histogram,
            ..Work::default()
        })
    }

    fn read(&self, worker: usize, mut buffer: Buffer, halt: &Halt) -> Outcome<Work> {
        let path = self.path(worker);
        let mut options = File::options();
        let options = options.read(true).custom_flags(self.flags());
        let file = options.open(&path).doing("open", &path)?;
        let before = self.pass.checked_sub(1);
        let before = before.map(|pass| Origin {
            pass,
            ..self.origin(worker)
        });
        let mut judge = Judge::new(self.ground.run, before.into_iter().collect());
        let blocks = self.written.load(Ordering::Relaxed);
        let (end, mut laps, mut moved) = (self.end(), Laps::start(halt), 0);
        loop {
            let offset = moved % blocks * self.block;
            file.read_exact_at(&mut buffer, offset)
                .doing("read", &path)?;
            if self.asked.setting.check {
                judge.compare(&path, offset, &buffer, self.origin(worker))?;
            }
            laps.lap()?;
            moved += 1;
            if Instant::now() >= end {
                break;
            }
        }
        Ok(Work {
            bytes: moved * self.block,
            latencies: laps.histogram,
            ..Work::default()
        })
    }
}
