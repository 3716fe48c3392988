//! Carrying out patterns: every phase of each, in step with the others.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::args::Apps;
use super::pattern::{App, Phase, Piece};
use super::report::{Report, TestResult};
use crate::error::{ErrorContext, SuiteResult};
use crate::latency::Laps;
use crate::memory::Buffer;
use crate::output::Destination;
use crate::pattern::{Origin, PatternChecker, PatternGenerator};
use crate::procs::Procs;
use crate::run_directory::RunDirectory;
use crate::step::{self, Step, Work};
use crate::stop_flag::StopFlag;
use crate::threads;
use crate::workload::Workload;

impl Workload for Apps {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.common.np
    }

    fn default_np(&self) -> usize {
        usize::from(self.workers)
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

fn run(args: &Apps, procs: &mut Procs) -> SuiteResult<Report> {
    let run_dir = RunDirectory::make(procs, "apps", &args.common, args.room())?;
    let mut report = Report::new(args);
    for app in args.apps() {
        for (index, phase) in app.phases.iter().enumerate() {
            let test_run = PhaseRun {
                args,
                run_dir: &run_dir,
                phase,
            };
            let before = &app.phases[..index];
            let round = 1 + before.iter().filter(|each| each.name == phase.name).count();
            let step = test_run.take(procs)?;
            let tested = |step| TestResult::new(app.name, phase.name, round, step);
            report.tests.extend(step.map(tested));
            if phase.writes && args.common.check {
                let mine = step::workers_here(procs, usize::from(args.workers));
                threads::run_untimed(procs, |halt| test_run.check(mine, halt))?;
            }
        }
        procs.on_rank_0(|| clear(&app, &run_dir, args.common.keep))?;
    }
    run_dir.end(procs, args.common.keep)?;
    Ok(report)
}

/// The next pattern has files of the same names.
fn clear(app: &App, run_dir: &RunDirectory, keep: bool) -> SuiteResult<()> {
    let listed = std::fs::read_dir(run_dir.dir()).doing("list", run_dir.dir())?;
    let listed: Vec<_> = listed
        .collect::<Result<_, _>>()
        .doing("list", run_dir.dir())?;
    for entry in listed {
        let (path, name) = (entry.path(), entry.file_name());
        match name.to_string_lossy().strip_prefix("file") {
            Some(number) if keep => {
                let kept = run_dir.dir().join(format!("{}_{number}", app.name));
                std::fs::rename(&path, kept).doing("rename", &path)?;
            }
            Some(_) => std::fs::remove_file(&path).doing("remove", &path)?,
            // Kept of a pattern before.
            None => {}
        }
    }
    Ok(())
}

/// One phase, in one process.
struct PhaseRun<'a> {
    args: &'a Apps,
    run_dir: &'a RunDirectory,
    phase: &'a Phase,
}

/// The buffers and open files of a worker in a phase.
struct PhaseWorker {
    pieces: Vec<Piece>,
    generator: PatternGenerator,
    buffer: Buffer,
    checker: PatternChecker,
    open: BTreeMap<usize, File>,
}

impl PhaseRun<'_> {
    fn take(&self, procs: &mut Procs) -> SuiteResult<Option<Step>> {
        let workers = usize::from(self.args.workers);
        step::run(
            procs,
            workers,
            |worker| Ok(self.hands(worker)),
            |_, hands, halt| match self.phase.writes {
                true => self.write(hands, halt),
                false => self.read(hands, halt),
            },
        )
    }

    fn hands(&self, worker: usize) -> PhaseWorker {
        let pieces = (self.phase.pieces)(worker);
        let longest = pieces.iter().map(|piece| piece.length).max().unwrap_or(0) as usize;
        let origin = self.origin(&pieces[0]);
        // Only writers need random bytes, and only readers need a buffer.
        let (to_write, to_read) = if self.phase.writes {
            (longest, 0)
        } else {
            (0, longest)
        };
        PhaseWorker {
            generator: PatternGenerator::new(
                self.run_dir.run,
                origin,
                to_write,
                self.args.common.check,
            ),
            buffer: Buffer::zeroed(to_read),
            checker: self.checker(origin),
            open: BTreeMap::new(),
            pieces,
        }
    }

    fn origin(&self, piece: &Piece) -> Origin {
        Origin {
            file: piece.file as u64,
            writer: piece.writer as u64,
            pass: self.phase.pass,
        }
    }

    /// For saying whose wrong data are: all workers in this pass and the one before, in the file of the first piece.
    fn checker(&self, first: Origin) -> PatternChecker {
        let passes = first.pass.saturating_sub(1)..=first.pass;
        let workers = u64::from(self.args.workers);
        let origins = passes.flat_map(|pass| {
            (0..workers).map(move |writer| Origin {
                writer,
                pass,
                ..first
            })
        });
        PatternChecker::new(self.run_dir.run, origins.collect())
    }

    fn open(&self, file: usize) -> SuiteResult<File> {
        let path = self.run_dir.file(file);
        let writes = self.phase.writes;
        let mut options = File::options();
        options
            .read(!writes)
            .write(writes)
            .create(writes)
            .truncate(false);
        options.open(&path).doing("open", &path)
    }

    fn write(&self, mut hands: PhaseWorker, halt: &StopFlag) -> SuiteResult<Work> {
        let (mut laps, mut bytes) = (Laps::start(halt), 0);
        for piece in &hands.pieces {
            let path = self.run_dir.file(piece.file);
            if self.args.common.check {
                hands.generator.turn_to(self.origin(piece));
            }
            let file = self.file(&mut hands.open, piece)?;
            let record = hands.generator.record(piece.offset, piece.length as usize);
            file.write_all_at(record, piece.offset)
                .doing("write", &path)?;
            if self.phase.whole_files {
                self.close(&mut hands.open)?;
            }
            bytes += piece.length;
            laps.lap()?;
        }
        self.close(&mut hands.open)?;
        Ok(Work {
            bytes,
            latencies: laps.histogram,
            ..Work::default()
        })
    }

    fn read(&self, mut hands: PhaseWorker, halt: &StopFlag) -> SuiteResult<Work> {
        let (mut laps, mut bytes) = (Laps::start(halt), 0);
        for piece in &hands.pieces {
            let path = self.run_dir.file(piece.file);
            let file = self.file(&mut hands.open, piece)?;
            let found = &mut hands.buffer[..piece.length as usize];
            file.read_exact_at(found, piece.offset)
                .doing("read", &path)?;
            if self.args.common.check {
                let due = self.origin(piece);
                hands.checker.compare(&path, piece.offset, found, due)?;
            }
            if self.phase.whole_files {
                hands.open.clear();
            }
            bytes += piece.length;
            laps.lap()?;
        }
        Ok(Work {
            bytes,
            latencies: laps.histogram,
            ..Work::default()
        })
    }

    /// The piece's file, open.
    fn file<'o>(
        &self,
        open: &'o mut BTreeMap<usize, File>,
        piece: &Piece,
    ) -> SuiteResult<&'o File> {
        match open.entry(piece.file) {
            Entry::Occupied(there) => Ok(there.into_mut()),
            Entry::Vacant(empty) => Ok(empty.insert(self.open(piece.file)?)),
        }
    }

    fn close(&self, open: &mut BTreeMap<usize, File>) -> SuiteResult<()> {
        for (number, file) in std::mem::take(open) {
            if self.args.sync {
                file.sync_all().doing("sync", &self.run_dir.file(number))?;
            }
        }
        Ok(())
    }

    /// Each process reads what the next worker has written.
    fn check(&self, mine: impl Iterator<Item = usize>, halt: &StopFlag) -> SuiteResult<()> {
        let workers = usize::from(self.args.workers);
        for worker in mine {
            let mut buffer = Vec::new();
            let pieces = (self.phase.pieces)((worker + 1) % workers);
            let mut checker = self.checker(self.origin(&pieces[0]));
            for piece in pieces {
                let path = self.run_dir.file(piece.file);
                let file = File::open(&path).doing("open", &path)?;
                buffer.resize(piece.length as usize, 0);
                file.read_exact_at(&mut buffer, piece.offset)
                    .doing("read", &path)?;
                checker.compare(&path, piece.offset, &buffer, self.origin(&piece))?;
                halt.check()?;
            }
        }
        Ok(())
    }
}
