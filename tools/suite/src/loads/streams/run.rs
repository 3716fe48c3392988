//! A whole run in one process: each number of streams with each record size, in step with the others.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use super::args::{Streams, Sweep};
use super::layout::{Layout, Shape};
use super::report::{Report, Row};
use crate::amount::Size;
use crate::cached;
use crate::ground::Ground;
use crate::halt::Halt;
use crate::latency::Laps;
use crate::memory::Buffer;
use crate::output::Destination;
use crate::procs::Procs;
use crate::step::{self, Step, Work};
use crate::team;
use crate::trouble::{Doing, Outcome};
use crate::words::{Judge, Origin, Pen};
use crate::workload::Workload;

impl Workload for Streams {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.sweep.setting.np
    }

    fn default_np(&self) -> usize {
        self.sweep.default_np()
    }

    fn check(&self) -> Outcome<()> {
        self.check_flags()
    }

    fn destination(&self) -> Destination<'_> {
        self.sweep.setting.destination()
    }

    fn run(&self, procs: &mut Procs) -> Outcome<Option<Report>> {
        work(&self.sweep, self.layout, procs).map(Some)
    }
}

/// All of a sweep: files of one shape, in a directory that is gone at the end.
pub fn work(asked: &Sweep, shape: Shape, procs: &mut Procs) -> Outcome<Report> {
    let pairs = || {
        asked.streams.iter().flat_map(|streams| {
            let records = asked.record.iter();
            records.map(|record| (usize::from(*streams), *record))
        })
    };
    let most = pairs().map(|(streams, record)| asked.layout(shape, streams, record).bytes());
    let ground = Ground::make(procs, "streams", &asked.setting, most.max().unwrap_or(0))?;
    let mut report = Report::new(asked, shape);
    for (streams, record) in pairs() {
        let layout = asked.layout(shape, streams, record);
        let rows = Turn::new(asked, &ground, layout).run(record, procs)?;
        report.rows.extend(rows);
    }
    ground.end(procs, asked.setting.keep)?;
    Ok(report)
}

/// One number of streams with one record size, on files of its own.
struct Turn<'a> {
    asked: &'a Sweep,
    ground: &'a Ground,
    layout: Layout,
    /// How often the files have been written.
    passes: u64,
}

impl Turn<'_> {
    fn new<'a>(asked: &'a Sweep, ground: &'a Ground, layout: Layout) -> Turn<'a> {
        Turn {
            asked,
            ground,
            layout,
            passes: 0,
        }
    }

    /// The steps of this turn, in process 0.
    fn run(mut self, record: Size, procs: &mut Procs) -> Outcome<Vec<Row>> {
        let mut rows = Vec::new();
        let streams = self.layout.streams;
        let mut add = |name, run, step: Option<Step>| {
            rows.extend(step.map(|step| Row::new(name, run, streams, record, step)));
        };
        let runs = self.asked.runs;
        if self.asked.operation.writes() {
            for run in 1..=runs {
                add("Write", run, self.write(procs)?);
            }
        } else {
            self.write(procs)?;
        }
        if self.asked.operation.reads() {
            for run in 1..=runs {
                if run == 1 && self.asked.cold {
                    let mine = step::dealt(procs, streams);
                    team::apart(procs, |halt| self.drop_cached(mine, halt))?;
                }
                add("Read", run, self.read(procs)?);
            }
        }
        procs.lead(|| self.remove())?;
        Ok(rows)
    }

    fn path(&self, stream: usize) -> PathBuf {
        self.ground.file(self.layout.file(stream))
    }

    fn open(&self, stream: usize, writes: bool) -> Outcome<File> {
        let path = self.path(stream);
        File::options()
            .read(!writes)
            .write(writes)
            .create(writes)
            .truncate(false)
            .custom_flags(if self.asked.direct { libc::O_DIRECT } else { 0 })
            .open(&path)
            .doing("open", &path)
    }

    /// Who wrote a record in the last pass.
    fn origin(&self, stream: usize, offset: u64) -> Origin {
        let file = self.layout.file(stream);
        Origin {
            file: file as u64,
            writer: self.layout.writer(file, offset) as u64,
            pass: self.passes,
        }
    }

    fn write(&mut self, procs: &mut Procs) -> Outcome<Option<Step>> {
        self.passes += 1;
        let (layout, length) = (self.layout, self.layout.record as usize);
        let checked = self.asked.setting.check;
        let ready = |stream| {
            let mine = Origin {
                file: layout.file(stream) as u64,
                writer: stream as u64,
                pass: self.passes,
            };
            Ok(Pen::new(self.ground.run, mine, length, checked))
        };
        let step = step::take(procs, layout.streams, ready, |stream, mut pen, halt| {
            let file = self.open(stream, true)?;
            let path = self.path(stream);
            let (mut laps, mut bytes) = (Laps::start(halt), 0);
            for offset in layout.written(stream) {
                let record = pen.record(offset, length);
                file.write_all_at(record, offset).doing("write", &path)?;
                bytes += layout.record;
                laps.lap()?;
            }
            if self.asked.sync {
                file.sync_all().doing("sync", &path)?;
            }
            Ok(Work {
                bytes,
                latencies: laps.histogram,
                ..Work::default()
            })
        })?;
        if checked {
            let mine = step::dealt(procs, layout.streams);
            team::apart(procs, |halt| self.check(mine, halt))?;
        }
        Ok(step)
    }

    fn read(&self, procs: &mut Procs) -> Outcome<Option<Step>> {
        let ready = |_| Ok((Buffer::zeroed(self.layout.record as usize), self.judge()));
        step::take(
            procs,
            self.layout.streams,
            ready,
            |stream, (buffer, judge), halt| self.read_stream(stream, buffer, judge, halt),
        )
    }

    fn read_stream(
        &self,
        stream: usize,
        mut buffer: Buffer,
        mut judge: Judge,
        halt: &Halt,
    ) -> Outcome<Work> {
        let (file, path) = (self.open(stream, false)?, self.path(stream));
        let (mut laps, mut bytes) = (Laps::start(halt), 0);
        for offset in self.layout.offsets(stream) {
            file.read_exact_at(&mut buffer, offset)
                .doing("read", &path)?;
            if self.asked.setting.check {
                judge.compare(&path, offset, &buffer, self.origin(stream, offset))?;
            }
            bytes += self.layout.record;
            laps.lap()?;
        }
        Ok(Work {
            bytes,
            latencies: laps.histogram,
            ..Work::default()
        })
    }

    /// All that wrote anything in this turn.
    fn judge(&self) -> Judge {
        let passes = 1..=self.passes;
        let origins = passes.flat_map(|pass| {
            (0..self.layout.streams).map(move |stream| Origin {
                file: self.layout.file(stream) as u64,
                writer: stream as u64,
                pass,
            })
        });
        Judge::new(self.ground.run, origins.collect())
    }

    /// Each process reads what the next stream works on: another than it wrote, where there is another.
    fn check(&self, mine: impl Iterator<Item = usize>, halt: &Halt) -> Outcome<()> {
        for stream in mine {
            let next = (stream + 1) % self.layout.streams;
            let buffer = Buffer::zeroed(self.layout.record as usize);
            self.read_stream(next, buffer, self.judge(), halt)?;
        }
        Ok(())
    }

    fn drop_cached(&self, mine: impl Iterator<Item = usize>, halt: &Halt) -> Outcome<()> {
        for stream in mine {
            halt.check()?;
            let path = self.path(stream);
            let file = File::open(&path).doing("open", &path)?;
            file.sync_all().doing("sync", &path)?;
            cached::forget(&file).doing("drop from memory", &path)?;
        }
        Ok(())
    }

    fn remove(&self) -> Outcome<()> {
        if self.asked.setting.keep {
            return Ok(());
        }
        for file in 0..self.layout.files() {
            let path = self.ground.file(file);
            std::fs::remove_file(&path).doing("remove", &path)?;
        }
        Ok(())
    }
}
