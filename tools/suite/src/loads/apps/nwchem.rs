//! NWChem's three modes of I/O, as its library ChemIO has them: exclusive access files, shared files, disk resident arrays.

use super::pattern::{App, Piece, Scale, in_order};
use crate::rng::{Rng, mix_all};

/// One buffer of integrals.
const RECORD: u64 = 64 << 10;

/// Exclusive access files: each process writes its integrals once, and reads them in every iteration.
pub fn exclusive(scale: Scale) -> App {
    let own = move |worker| in_order(worker, worker, scale.each, RECORD);
    let mut app = App::new("nwchem-eaf").writes("EAF_Write", 0, own);
    for _ in 0..scale.rounds {
        app = app.reads("EAF_Read", 0, own);
    }
    app
}

/// Shared files: each process writes a part of one file, then all read records anywhere in it.
pub fn shared(scale: Scale) -> App {
    let records = scale.each.div_ceil(RECORD);
    let piece = move |index: u64| Piece {
        file: 0,
        offset: index * RECORD,
        length: RECORD,
        writer: (index / records) as usize,
    };
    let mut app = App::new("nwchem-sf").writes("SF_Write", 0, move |worker| {
        let first = worker as u64 * records;
        (first..first + records).map(piece).collect()
    });
    for round in 0..scale.rounds {
        app = app.reads("SF_Read", 0, move |worker| {
            let mut rng = Rng::new(mix_all(&[scale.seed, round, worker as u64]));
            let all = records * scale.workers as u64;
            (0..records).map(|_| piece(rng.below(all))).collect()
        });
    }
    app
}

/// Disk resident arrays: a square array of doubles, of which each process holds a block, goes into a file row by row; it comes
/// back with another distribution, in which each process holds some columns.
pub fn resident(scale: Scale) -> App {
    let workers = scale.workers as u64;
    let down = (1..=workers)
        .filter(|rows| workers.is_multiple_of(*rows) && rows * rows <= workers)
        .max()
        .unwrap_or(1);
    let across = workers / down;
    // Blocks and panels come out even.
    let side = ((workers * scale.each / 8) as f64).sqrt() as u64;
    let side = side.div_ceil(workers) * workers;
    let (rows, columns) = (side / down, side / across);
    let piece = move |row: u64, column: u64, length: u64| Piece {
        file: 0,
        offset: (row * side + column) * 8,
        length: length * 8,
        writer: (row / rows * across + column / columns) as usize,
    };
    let mut app = App::new("nwchem-dra").writes("DRA_Write", 0, move |worker| {
        let (row, column) = (
            worker as u64 / across * rows,
            worker as u64 % across * columns,
        );
        (row..row + rows)
            .map(|row| piece(row, column, columns))
            .collect()
    });
    for _ in 0..scale.rounds {
        app = app.reads("DRA_Read", 0, move |worker| {
            let panel = side / workers;
            (0..side)
                .map(|row| piece(row, worker as u64 * panel, panel))
                .collect()
        });
    }
    app
}

#[test]
fn what_is_read_is_what_was_written() {
    use super::pattern::judging::{is_sound, scale};
    for workers in [1, 2, 3, 4, 6, 7] {
        for app in [exclusive, shared, resident] {
            is_sound(&app(scale(workers)), workers);
        }
    }
}
