//! As FLASH I/O: one checkpoint file and two plot files, each with a data set for each variable, in which the blocks of a process
//! lie together.

use super::pattern::{App, Piece, Scale};

/// Points of a block, and with its corners.
const POINTS: u64 = 8 * 8 * 8;
const CORNERS: u64 = 9 * 9 * 9;
/// FLASH I/O: 24 unknowns as doubles in the checkpoint, 4 variables as floats in plots.
const UNKNOWNS: u64 = 24;
const PLOTTED: u64 = 4;

pub fn flash(scale: Scale) -> App {
    // FLASH I/O has 80 blocks in each process: 7.7 MB.
    let blocks = (scale.each / (UNKNOWNS * POINTS * 8)).max(1);
    let file = move |file: usize, variables: u64, of_block: u64| {
        let length = blocks * of_block;
        move |worker: usize| -> Vec<Piece> {
            let data_sets = 0..variables;
            data_sets
                .map(|variable| Piece {
                    file,
                    offset: (variable * scale.workers as u64 + worker as u64) * length,
                    length,
                    writer: worker,
                })
                .collect()
        }
    };
    App::new("flash")
        .writes("FLASH_Checkpoint", 0, file(0, UNKNOWNS, POINTS * 8))
        .writes("FLASH_Plot", 0, file(1, PLOTTED, POINTS * 4))
        .writes("FLASH_Corners", 0, file(2, PLOTTED, CORNERS * 4))
}

#[test]
fn the_data_sets_lie_one_behind_the_other() {
    use super::pattern::judging::{is_sound, scale};
    for workers in [1, 3] {
        is_sound(&flash(scale(workers)), workers);
    }
    let all = Scale {
        each: 80 * UNKNOWNS * POINTS * 8,
        ..scale(2)
    };
    let piece = (flash(all).phases[0].pieces)(1)[1];
    assert_eq!((piece.offset, piece.length), (3 * 327_680, 327_680));
}
