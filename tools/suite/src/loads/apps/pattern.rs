//! Patterns: phases, in which each worker moves pieces of files in an order.

/// One read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub file: usize,
    pub offset: u64,
    pub length: u64,
    /// The worker that writes it, or wrote it.
    pub writer: usize,
}

/// The pieces of all workers between two barriers.
pub struct Phase {
    pub name: &'static str,
    pub writes: bool,
    /// So many write phases have been at these files before this one is over: a number for whose data they are.
    pub pass: u64,
    /// Each piece is a file: opening and closing it is part of the operation.
    pub whole_files: bool,
    /// The pieces of a worker, in its order.
    pub pieces: Box<dyn Fn(usize) -> Vec<Piece> + Sync>,
}

pub struct App {
    pub name: &'static str,
    pub phases: Vec<Phase>,
}

/// How large a pattern shall be.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub workers: usize,
    /// Bytes of each worker, about.
    pub each: u64,
    /// How often what repeats is repeated.
    pub rounds: u64,
    pub seed: u64,
}

impl Scale {
    /// Bytes that a pattern takes at most, without growing it: it may be far too large.
    pub fn room(&self, pattern: &str) -> u64 {
        let all = self.each.saturating_mul(self.workers as u64);
        // Room for rounding up: to records, to a block, to rows of an array.
        let rounded = (self.workers as u64) << 20;
        let more = match pattern {
            // Two files of each process.
            "checkpoint" if self.rounds > 1 => all,
            // The plots.
            "flash" => all / 4,
            _ => 0,
        };
        all.saturating_add(more).saturating_add(rounded)
    }
}

impl App {
    pub fn new(name: &'static str) -> App {
        App {
            name,
            phases: Vec::new(),
        }
    }

    /// A phase in which pieces are written for the `pass`th time.
    pub fn writes(
        mut self,
        name: &'static str,
        pass: u64,
        pieces: impl Fn(usize) -> Vec<Piece> + Sync + 'static,
    ) -> App {
        self.phases.push(Phase {
            name,
            writes: true,
            pass,
            whole_files: false,
            pieces: Box::new(pieces),
        });
        self
    }

    /// A phase in which pieces are read that were written for the `pass`th time.
    pub fn reads(
        mut self,
        name: &'static str,
        pass: u64,
        pieces: impl Fn(usize) -> Vec<Piece> + Sync + 'static,
    ) -> App {
        self = self.writes(name, pass, pieces);
        if let Some(phase) = self.phases.last_mut() {
            phase.writes = false;
        }
        self
    }

    pub fn of_whole_files(mut self) -> App {
        for phase in &mut self.phases {
            phase.whole_files = true;
        }
        self
    }
}

/// A range of a file in records, the last of which may be shorter.
pub fn in_order(file: usize, writer: usize, bytes: u64, record: u64) -> Vec<Piece> {
    let offsets = (0..bytes).step_by(record as usize);
    offsets
        .map(|offset| Piece {
            file,
            offset,
            length: record.min(bytes - offset),
            writer,
        })
        .collect()
}

#[cfg(test)]
pub mod judging {
    use std::collections::BTreeMap;

    use super::*;

    pub fn scale(workers: usize) -> Scale {
        Scale {
            workers,
            each: 300_000,
            rounds: 2,
            seed: 1,
        }
    }

    /// Nothing is written twice in a phase; all of a file is written from its beginning to its end; and what is read was written
    /// by whom the reader expects, in the pass that it expects.
    pub fn is_sound(app: &App, workers: usize) {
        let mut written = BTreeMap::new();
        for phase in &app.phases {
            let mut fresh = BTreeMap::new();
            for worker in 0..workers {
                let pieces = (phase.pieces)(worker);
                assert!(!pieces.is_empty(), "{} {}", app.name, phase.name);
                for piece in pieces {
                    assert!(piece.length > 0);
                    if phase.writes {
                        assert_eq!(piece.writer, worker);
                        let twice = fresh.insert((piece.file, piece.offset), (piece, phase.pass));
                        assert_eq!(twice, None, "{} {}", app.name, phase.name);
                    } else {
                        holds(&written, piece, phase.pass);
                    }
                }
            }
            written.extend(fresh);
        }
        let mut ends: BTreeMap<usize, u64> = BTreeMap::new();
        for ((file, offset), (piece, _)) in &written {
            let end = ends.entry(*file).or_default();
            assert_eq!(
                end, offset,
                "{}: a hole, or an overlap, in file {file}",
                app.name
            );
            *end += piece.length;
        }
        let bytes: u64 = ends.values().sum();
        assert!(
            bytes <= scale(workers).room(app.name),
            "{}: {bytes} bytes",
            app.name
        );
    }

    fn holds(written: &BTreeMap<(usize, u64), (Piece, u64)>, read: Piece, pass: u64) {
        let (_, (wrote, when)) = written
            .range(..=(read.file, read.offset))
            .next_back()
            .expect("what is read was written");
        assert_eq!(
            (wrote.file, wrote.writer, *when),
            (read.file, read.writer, pass),
            "{read:?}"
        );
        assert!(
            read.offset + read.length <= wrote.offset + wrote.length,
            "{read:?} {wrote:?}"
        );
    }
}
