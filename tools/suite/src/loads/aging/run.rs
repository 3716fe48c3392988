//! Level after level: filling, churning, measuring.

use std::fs::File;
use std::os::unix::fs::FileExt;

use parking_lot::{Mutex, MutexGuard};

use super::args::{Aging, Room};
use super::plot::Plot;
use super::report::{Level, Report};
use crate::cached;
use crate::ground::Ground;
use crate::halt::Halt;
use crate::latency::Laps;
use crate::memory::Buffer;
use crate::output::Destination;
use crate::procs::Procs;
use crate::space;
use crate::step::{self, Step, Work};
use crate::trouble::{Doing, Outcome, Trouble};
use crate::words::{Judge, Origin, Pen};
use crate::workload::Workload;

impl Workload for Aging {
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

fn run(asked: &Aging, procs: &mut Procs) -> Outcome<Report> {
    let room = procs.lead(|| room(asked))?;
    let all = room.saturating_add(asked.probes());
    let ground = Ground::make(procs, "aging", &asked.setting, all)?;
    let workers = usize::from(asked.workers);
    let plots = (0..workers).map(|worker| Mutex::new(Plot::new(asked, &ground, worker)));
    let run = Run {
        asked,
        ground: &ground,
        plots: plots.collect(),
    };
    let made = step::dealt(procs, workers).try_for_each(|worker| run.plot(worker).make());
    procs.agree(made)?;
    let mut report = Report::new(asked, room);
    let mut level = Level::new(0);
    run.measure(&mut level, procs)?;
    report.levels.push(level);
    for percent in &asked.levels {
        let mut level = Level::new(*percent);
        let share = room / workers as u64 * u64::from(*percent) / 100;
        level.fill = run.all(procs, |plot, halt| plot.fill(share, asked.record.0, halt))?;
        let churn = (share as f64 * asked.churn) as u64;
        if churn > 0 {
            level.churn = run.all(procs, |plot, halt| plot.churn(churn, asked.record.0, halt))?;
        }
        run.measure(&mut level, procs)?;
        report.levels.push(level);
    }
    ground.end(procs, asked.setting.keep)?;
    Ok(report)
}

/// Bytes that are filled at 100 %.
fn room(asked: &Aging) -> Outcome<u64> {
    let room = match asked.room {
        Room::Bytes(bytes) => bytes,
        Room::Percent(percent) => {
            let free = space::free(&asked.setting.dir)?;
            (free / 100 * u64::from(percent)).saturating_sub(asked.probes())
        }
    };
    let least = u64::from(asked.workers) * asked.most.0;
    match room < least {
        true => Err(Trouble::asked(format!(
            "--room is {} MB, too little for {} workers with files of up to {}: choose a larger one, or less --most",
            room >> 20,
            asked.workers,
            asked.most
        ))),
        false => Ok(room),
    }
}

struct Run<'a> {
    asked: &'a Aging,
    ground: &'a Ground,
    /// By worker; those of this process are used.
    plots: Vec<Mutex<Plot>>,
}

impl Run<'_> {
    fn plot(&self, worker: usize) -> MutexGuard<'_, Plot> {
        self.plots[worker].lock()
    }

    fn all(
        &self,
        procs: &mut Procs,
        does: impl Fn(&mut Plot, &Halt) -> Outcome<Work> + Sync,
    ) -> Outcome<Option<Step>> {
        let ready = |worker| Ok(self.plot(worker));
        // A plot is taken before the start, by its worker's thread.
        step::take(procs, self.plots.len(), ready, |_, mut plot, halt| {
            does(&mut plot, halt)
        })
    }

    /// Large files, several times: made and synced, read without this host's cache, and removed.
    fn measure(&self, level: &mut Level, procs: &mut Procs) -> Outcome<()> {
        for pass in 1..=u64::from(self.asked.runs) {
            let origin = move |worker: usize| Origin {
                file: 0,
                writer: worker as u64,
                pass,
            };
            let workers = self.plots.len();
            let ready = |worker| {
                let length = self.asked.record.0 as usize;
                Ok(Pen::new(
                    self.ground.run,
                    origin(worker),
                    length,
                    self.asked.setting.check,
                ))
            };
            let wrote = step::take(procs, workers, ready, |worker, pen, halt| {
                self.write(worker, pen, halt)
            })?;
            let ready = |worker| {
                let path = self.ground.file(worker);
                let file = File::open(&path).doing("open", &path)?;
                cached::forget(&file).doing("forget the cache of", &path)?;
                Ok(Buffer::zeroed(self.asked.record.0 as usize))
            };
            let read = step::take(procs, workers, ready, |worker, buffer, halt| {
                self.read(worker, origin(worker), buffer, halt)
            })?;
            let removed = step::dealt(procs, workers).try_for_each(|worker| {
                let path = self.ground.file(worker);
                std::fs::remove_file(&path).doing("remove", &path)
            });
            procs.agree(removed)?;
            level.writes.extend(wrote);
            level.reads.extend(read);
        }
        Ok(())
    }

    fn offsets(&self) -> impl Iterator<Item = u64> {
        let record = self.asked.record.0;
        (0..self.asked.size.0 / record).map(move |index| index * record)
    }

    fn write(&self, worker: usize, mut pen: Pen, halt: &Halt) -> Outcome<Work> {
        let path = self.ground.file(worker);
        let file = File::create_new(&path).doing("make", &path)?;
        let (mut laps, mut bytes) = (Laps::start(halt), 0);
        for offset in self.offsets() {
            let record = pen.record(offset, self.asked.record.0 as usize);
            file.write_all_at(record, offset).doing("write", &path)?;
            bytes += self.asked.record.0;
            laps.lap()?;
        }
        file.sync_all().doing("sync", &path)?;
        Ok(Work {
            bytes,
            latencies: laps.histogram,
            ..Work::default()
        })
    }

    fn read(
        &self,
        worker: usize,
        origin: Origin,
        mut buffer: Buffer,
        halt: &Halt,
    ) -> Outcome<Work> {
        let path = self.ground.file(worker);
        let file = File::open(&path).doing("open", &path)?;
        let mut judge = Judge::new(self.ground.run, Vec::new());
        let (mut laps, mut bytes) = (Laps::start(halt), 0);
        for offset in self.offsets() {
            file.read_exact_at(&mut buffer, offset)
                .doing("read", &path)?;
            if self.asked.setting.check {
                judge.compare(&path, offset, &buffer, origin)?;
            }
            bytes += self.asked.record.0;
            laps.lap()?;
        }
        Ok(Work {
            bytes,
            latencies: laps.histogram,
            ..Work::default()
        })
    }
}
