//! A whole run in one process: each number of streams with each record size, in step with the others.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use super::args::{Streams, Sweep};
use super::layout::{Layout, Shape};
use super::report::{Report, Row};
use crate::error::{ErrorContext, SuiteResult};
use crate::latency::Laps;
use crate::memory::Buffer;
use crate::output::Destination;
use crate::page_cache;
use crate::pattern::{Origin, PatternChecker, PatternGenerator};
use crate::procs::Procs;
use crate::run_directory::RunDirectory;
use crate::size::Size;
use crate::step::{self, Step, Work};
use crate::stop_flag::StopFlag;
use crate::threads;
use crate::workload::Workload;

impl Workload for Streams {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.sweep.common.np
    }

    fn default_np(&self) -> usize {
        self.sweep.default_np()
    }

    fn check(&self) -> SuiteResult<()> {
        self.check_flags()
    }

    fn destination(&self) -> Destination<'_> {
        self.sweep.common.destination()
    }

    fn run(&self, procs: &mut Procs) -> SuiteResult<Option<Report>> {
        work(&self.sweep, self.layout, procs).map(Some)
    }
}

/// All of a sweep: files of one shape, in a directory that is gone at the end.
pub fn work(args: &Sweep, shape: Shape, procs: &mut Procs) -> SuiteResult<Report> {
    let pairs = || {
        args.streams.iter().flat_map(|streams| {
            let records = args.record.iter();
            records.map(|record| (usize::from(*streams), *record))
        })
    };
    let most = pairs().map(|(streams, record)| args.layout(shape, streams, record).bytes());
    let run_dir = RunDirectory::make(procs, "streams", &args.common, most.max().unwrap_or(0))?;
    let mut report = Report::new(args, shape);
    for (streams, record) in pairs() {
        let layout = args.layout(shape, streams, record);
        let rows = SweepPoint::new(args, &run_dir, layout).run(record, procs)?;
        report.rows.extend(rows);
    }
    run_dir.end(procs, args.common.keep)?;
    Ok(report)
}

/// One number of streams with one record size, on files of its own.
struct SweepPoint<'a> {
    args: &'a Sweep,
    run_dir: &'a RunDirectory,
    layout: Layout,
    /// How often the files have been written.
    passes: u64,
}

impl SweepPoint<'_> {
    fn new<'a>(args: &'a Sweep, run_dir: &'a RunDirectory, layout: Layout) -> SweepPoint<'a> {
        SweepPoint {
            args,
            run_dir,
            layout,
            passes: 0,
        }
    }

    /// The steps of this turn, in process 0.
    fn run(mut self, record: Size, procs: &mut Procs) -> SuiteResult<Vec<Row>> {
        let mut rows = Vec::new();
        let streams = self.layout.streams;
        let mut add = |name, run, step: Option<Step>| {
            rows.extend(step.map(|step| Row::new(name, run, streams, record, step)));
        };
        let runs = self.args.runs;
        if self.args.operation.writes() {
            for run in 1..=runs {
                add("Write", run, self.write(procs)?);
            }
        } else {
            self.write(procs)?;
        }
        if self.args.operation.reads() {
            for run in 1..=runs {
                if run == 1 && self.args.cold {
                    let mine = step::workers_here(procs, streams);
                    threads::run_untimed(procs, |halt| self.drop_cached(mine, halt))?;
                }
                add("Read", run, self.read(procs)?);
            }
        }
        procs.on_rank_0(|| self.remove())?;
        Ok(rows)
    }

    fn path(&self, stream: usize) -> PathBuf {
        self.run_dir.file(self.layout.file(stream))
    }

    fn open(&self, stream: usize, writes: bool) -> SuiteResult<File> {
        let path = self.path(stream);
        File::options()
            .read(!writes)
            .write(writes)
            .create(writes)
            .truncate(false)
            .custom_flags(if self.args.direct { libc::O_DIRECT } else { 0 })
            .open(&path)
            .doing("open", &path)
    }

    /// The origin of a record in the last pass.
    fn origin(&self, stream: usize, offset: u64) -> Origin {
        let file = self.layout.file(stream);
        Origin {
            file: file as u64,
            writer: self.layout.writer(file, offset) as u64,
            pass: self.passes,
        }
    }

    fn write(&mut self, procs: &mut Procs) -> SuiteResult<Option<Step>> {
        self.passes += 1;
        let (layout, length) = (self.layout, self.layout.record as usize);
        let checked = self.args.common.check;
        let ready = |stream| {
            let mine = Origin {
                file: layout.file(stream) as u64,
                writer: stream as u64,
                pass: self.passes,
            };
            Ok(PatternGenerator::new(
                self.run_dir.run,
                mine,
                length,
                checked,
            ))
        };
        let step = step::run(
            procs,
            layout.streams,
            ready,
            |stream, mut generator, halt| {
                let file = self.open(stream, true)?;
                let path = self.path(stream);
                let (mut laps, mut bytes) = (Laps::start(halt), 0);
                for offset in layout.written(stream) {
                    let record = generator.record(offset, length);
                    file.write_all_at(record, offset).doing("write", &path)?;
                    bytes += layout.record;
                    laps.lap()?;
                }
                if self.args.sync {
                    file.sync_all().doing("sync", &path)?;
                }
                Ok(Work {
                    bytes,
                    latencies: laps.histogram,
                    ..Work::default()
                })
            },
        )?;
        if checked {
            let mine = step::workers_here(procs, layout.streams);
            threads::run_untimed(procs, |halt| self.check(mine, halt))?;
        }
        Ok(step)
    }

    fn read(&self, procs: &mut Procs) -> SuiteResult<Option<Step>> {
        let ready = |_| Ok((Buffer::zeroed(self.layout.record as usize), self.checker()));
        step::run(
            procs,
            self.layout.streams,
            ready,
            |stream, (buffer, checker), halt| self.read_stream(stream, buffer, checker, halt),
        )
    }

    fn read_stream(
        &self,
        stream: usize,
        mut buffer: Buffer,
        mut checker: PatternChecker,
        halt: &StopFlag,
    ) -> SuiteResult<Work> {
        let (file, path) = (self.open(stream, false)?, self.path(stream));
        let (mut laps, mut bytes) = (Laps::start(halt), 0);
        for offset in self.layout.offsets(stream) {
            file.read_exact_at(&mut buffer, offset)
                .doing("read", &path)?;
            if self.args.common.check {
                checker.compare(&path, offset, &buffer, self.origin(stream, offset))?;
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
    fn checker(&self) -> PatternChecker {
        let passes = 1..=self.passes;
        let origins = passes.flat_map(|pass| {
            (0..self.layout.streams).map(move |stream| Origin {
                file: self.layout.file(stream) as u64,
                writer: stream as u64,
                pass,
            })
        });
        PatternChecker::new(self.run_dir.run, origins.collect())
    }

    /// Each process reads what the next stream works on: another than it wrote, where there is another.
    fn check(&self, mine: impl Iterator<Item = usize>, halt: &StopFlag) -> SuiteResult<()> {
        for stream in mine {
            let next = (stream + 1) % self.layout.streams;
            let buffer = Buffer::zeroed(self.layout.record as usize);
            self.read_stream(next, buffer, self.checker(), halt)?;
        }
        Ok(())
    }

    fn drop_cached(&self, mine: impl Iterator<Item = usize>, halt: &StopFlag) -> SuiteResult<()> {
        for stream in mine {
            halt.check()?;
            let path = self.path(stream);
            let file = File::open(&path).doing("open", &path)?;
            file.sync_all().doing("sync", &path)?;
            page_cache::forget(&file).doing("drop from memory", &path)?;
        }
        Ok(())
    }

    fn remove(&self) -> SuiteResult<()> {
        if self.args.common.keep {
            return Ok(());
        }
        for file in 0..self.layout.files() {
            let path = self.run_dir.file(file);
            std::fs::remove_file(&path).doing("remove", &path)?;
        }
        Ok(())
    }
}
