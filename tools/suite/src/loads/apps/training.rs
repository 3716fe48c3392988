//! Training: many small files, read whole and each once an epoch, in an order that chance makes new for every epoch.

use super::pattern::{App, Piece, Scale};
use crate::rng::{Rng, mix_all};

/// Sizes of samples: as many between 8 and 16 KB as between 128 and 256 KB.
const LEAST: u64 = 8 << 10;
const DOUBLINGS: u64 = 5;

/// The samples: as many as fit, and at least one for each worker.
fn samples(scale: Scale) -> Vec<u64> {
    let mut rng = Rng::new(mix_all(&[scale.seed, 17]));
    let mut left = scale.each * scale.workers as u64;
    let mut sizes = Vec::new();
    loop {
        let least = LEAST << rng.below(DOUBLINGS);
        let size = least + rng.below(least);
        if size > left && sizes.len() >= scale.workers {
            return sizes;
        }
        left = left.saturating_sub(size);
        sizes.push(size);
    }
}

/// The samples of a worker in an epoch: its part of all, shuffled.
fn epoch(samples: usize, scale: Scale, round: u64, worker: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..samples).collect();
    let mut rng = Rng::new(mix_all(&[scale.seed, 18, round]));
    for last in (1..samples).rev() {
        order.swap(last, rng.below(last as u64 + 1) as usize);
    }
    order
        .into_iter()
        .skip(worker)
        .step_by(scale.workers)
        .collect()
}

pub fn training(scale: Scale) -> App {
    let sizes = samples(scale);
    let count = sizes.len();
    let piece = move |file: usize| Piece {
        file,
        offset: 0,
        length: sizes[file],
        writer: file % scale.workers,
    };
    let made = piece.clone();
    let mut app = App::new("training").writes("Samples_Make", 0, move |worker| {
        (worker..count).step_by(scale.workers).map(&made).collect()
    });
    for round in 0..scale.rounds {
        let piece = piece.clone();
        app = app.reads("Epoch", 0, move |worker| {
            epoch(count, scale, round, worker)
                .into_iter()
                .map(&piece)
                .collect()
        });
    }
    app.of_whole_files()
}

#[test]
fn every_sample_is_read_once_an_epoch_in_another_order() {
    use super::pattern::judging::{is_sound, scale};
    for workers in [1, 3] {
        is_sound(&training(scale(workers)), workers);
    }
    let all = |round| -> Vec<usize> {
        (0..3)
            .flat_map(|worker| epoch(10, scale(3), round, worker))
            .collect()
    };
    assert_ne!(all(0), all(1));
    let mut sorted = all(1);
    sorted.sort();
    assert_eq!(sorted, (0..10).collect::<Vec<_>>());
}
