//! As BT-IO without collective buffering: a cube of five doubles a point, of which each process holds cells on a diagonal; every
//! line of a cell is a write of its own, and each solution is appended to one file.

use super::pattern::{App, Piece, Scale};

/// Five doubles.
const POINT: u64 = 40;
/// BT-IO writes 40 solutions; these are enough to see the pattern.
const SOLUTIONS: u64 = 5;

/// The side of the processes' square, if they fill one.
pub fn square(workers: usize) -> Option<u64> {
    let side = (workers as f64).sqrt().round() as u64;
    (side * side == workers as u64).then_some(side)
}

/// For workers that fill a square.
pub fn btio(scale: Scale) -> App {
    let across = square(scale.workers).expect("other numbers were refused");
    let points = scale.workers as u64 * scale.each / (SOLUTIONS * POINT);
    let cell = ((points as f64).cbrt() as u64 / across).max(1);
    let side = cell * across;
    let lines = move |worker: usize| {
        let (i, j) = (worker as u64 % across, worker as u64 / across);
        let mut pieces = Vec::new();
        for solution in 0..SOLUTIONS {
            // One cell in each layer, moved by one in both directions from layer to layer.
            for layer in 0..across {
                let (x, y) = ((i + layer) % across * cell, (j + layer) % across * cell);
                for z in layer * cell..(layer + 1) * cell {
                    pieces.extend((y..y + cell).map(|y| Piece {
                        file: 0,
                        offset: (((solution * side + z) * side + y) * side + x) * POINT,
                        length: cell * POINT,
                        writer: worker,
                    }));
                }
            }
        }
        pieces
    };
    App::new("btio")
        .writes("BT_Write", 0, lines)
        .reads("BT_Read", 0, lines)
}

#[test]
fn the_cells_of_all_processes_fill_the_cube() {
    use super::pattern::judging::{is_sound, scale};
    for (workers, across) in [(1, 1), (4, 2), (9, 3)] {
        assert_eq!(square(workers), Some(across));
        is_sound(&btio(scale(workers)), workers);
    }
    assert_eq!(square(8), None);
}
