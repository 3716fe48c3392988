//! Carrying out patterns: every phase of each, in step with the others.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::args::Apps;
use super::pattern::{App, Phase, Piece};
use super::report::{Report, Tested};
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

impl Workload for Apps {
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

fn run(asked: &Apps, procs: &mut Procs) -> Outcome<Report> {
    let ground = Ground::make(procs, "apps", &asked.setting, asked.room())?;
    let mut report = Report::new(asked);
    for app in asked.apps() {
        for (index, phase) in app.phases.iter().enumerate() {
            let on = On {
                asked,
                ground: &ground,
                phase,
            };
            let before = &app.phases[..index];
            let round = 1 + before.iter().filter(|each| each.name == phase.name).count();
            let step = on.take(procs)?;
            let tested = |step| Tested::new(app.name, phase.name, round, step);
            report.tests.extend(step.map(tested));
            if phase.writes && asked.setting.check {
                let mine = step::dealt(procs, usize::from(asked.workers));
                team::apart(procs, |halt| on.check(mine, halt))?;
            }
        }
        procs.lead(|| clear(&app, &ground, asked.setting.keep))?;
    }
    ground.end(procs, asked.setting.keep)?;
    Ok(report)
}

/// The next pattern has files of the same names.
fn clear(app: &App, ground: &Ground, keep: bool) -> Outcome<()> {
    let listed = std::fs::read_dir(ground.dir()).doing("list", ground.dir())?;
    let listed: Vec<_> = listed
        .collect::<Result<_, _>>()
        .doing("list", ground.dir())?;
    for entry in listed {
        let (path, name) = (entry.path(), entry.file_name());
        match name.to_string_lossy().strip_prefix("file") {
            Some(number) if keep => {
                let kept = ground.dir().join(format!("{}_{number}", app.name));
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
struct On<'a> {
    asked: &'a Apps,
    ground: &'a Ground,
    phase: &'a Phase,
}

/// What a worker has in its hands.
struct Hands {
    pieces: Vec<Piece>,
    pen: Pen,
    buffer: Buffer,
    judge: Judge,
    open: BTreeMap<usize, File>,
}

impl On<'_> {
    fn take(&self, procs: &mut Procs) -> Outcome<Option<Step>> {
        let workers = usize::from(self.asked.workers);
        step::take(
            procs,
            workers,
            |worker| Ok(self.hands(worker)),
            |_, hands, halt| match self.phase.writes {
                true => self.write(hands, halt),
                false => self.read(hands, halt),
            },
        )
    }

    fn hands(&self, worker: usize) -> Hands {
        let pieces = (self.phase.pieces)(worker);
        let longest = pieces.iter().map(|piece| piece.length).max().unwrap_or(0) as usize;
        let origin = self.origin(&pieces[0]);
        // Only those who write need random bytes, and only those who read room for them.
        let (to_write, to_read) = if self.phase.writes {
            (longest, 0)
        } else {
            (0, longest)
        };
        Hands {
            pen: Pen::new(self.ground.run, origin, to_write, self.asked.setting.check),
            buffer: Buffer::zeroed(to_read),
            judge: self.judge(origin),
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
    fn judge(&self, first: Origin) -> Judge {
        let passes = first.pass.saturating_sub(1)..=first.pass;
        let workers = u64::from(self.asked.workers);
        let origins = passes.flat_map(|pass| {
            (0..workers).map(move |writer| Origin {
                writer,
                pass,
                ..first
            })
        });
        Judge::new(self.ground.run, origins.collect())
    }

    fn open(&self, file: usize) -> Outcome<File> {
        let path = self.ground.file(file);
        let writes = self.phase.writes;
        let mut options = File::options();
        options
            .read(!writes)
            .write(writes)
            .create(writes)
            .truncate(false);
        options.open(&path).doing("open", &path)
    }

    fn write(&self, mut hands: Hands, halt: &Halt) -> Outcome<Work> {
        let (mut laps, mut bytes) = (Laps::start(halt), 0);
        for piece in &hands.pieces {
            let path = self.ground.file(piece.file);
            if self.asked.setting.check {
                hands.pen.turn_to(self.origin(piece));
            }
            let file = self.file(&mut hands.open, piece)?;
            let record = hands.pen.record(piece.offset, piece.length as usize);
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

    fn read(&self, mut hands: Hands, halt: &Halt) -> Outcome<Work> {
        let (mut laps, mut bytes) = (Laps::start(halt), 0);
        for piece in &hands.pieces {
            let path = self.ground.file(piece.file);
            let file = self.file(&mut hands.open, piece)?;
            let found = &mut hands.buffer[..piece.length as usize];
            file.read_exact_at(found, piece.offset)
                .doing("read", &path)?;
            if self.asked.setting.check {
                let due = self.origin(piece);
                hands.judge.compare(&path, piece.offset, found, due)?;
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
    fn file<'o>(&self, open: &'o mut BTreeMap<usize, File>, piece: &Piece) -> Outcome<&'o File> {
        match open.entry(piece.file) {
            Entry::Occupied(there) => Ok(there.into_mut()),
            Entry::Vacant(empty) => Ok(empty.insert(self.open(piece.file)?)),
        }
    }

    fn close(&self, open: &mut BTreeMap<usize, File>) -> Outcome<()> {
        for (number, file) in std::mem::take(open) {
            if self.asked.sync {
                file.sync_all().doing("sync", &self.ground.file(number))?;
            }
        }
        Ok(())
    }

    /// Each process reads what the next worker has written.
    fn check(&self, mine: impl Iterator<Item = usize>, halt: &Halt) -> Outcome<()> {
        let workers = usize::from(self.asked.workers);
        for worker in mine {
            let mut buffer = Vec::new();
            let pieces = (self.phase.pieces)((worker + 1) % workers);
            let mut judge = self.judge(self.origin(&pieces[0]));
            for piece in pieces {
                let path = self.ground.file(piece.file);
                let file = File::open(&path).doing("open", &path)?;
                buffer.resize(piece.length as usize, 0);
                file.read_exact_at(&mut buffer, piece.offset)
                    .doing("read", &path)?;
                judge.compare(&path, piece.offset, &buffer, self.origin(&piece))?;
                halt.check()?;
            }
        }
        Ok(())
    }
}
