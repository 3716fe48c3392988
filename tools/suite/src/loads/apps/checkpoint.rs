//! Checkpoint and restart: each process dumps its memory into a file of its own, in turn into one of two, and reads another's
//! after a failure, since it may come to run elsewhere.

use super::pattern::{App, Scale, in_order};

const RECORD: u64 = 1 << 20;

pub fn checkpoint(scale: Scale) -> App {
    let Scale {
        workers,
        each,
        rounds,
        ..
    } = scale;
    // The one before stays whole until the new one is.
    let file = move |round: u64, worker| (round % 2) as usize * workers + worker;
    let mut app = App::new("checkpoint");
    for round in 0..rounds {
        app = app.writes("Checkpoint", round, move |worker| {
            in_order(file(round, worker), worker, each, RECORD)
        });
    }
    let last = rounds - 1;
    app.reads("Restart", last, move |worker| {
        let other = (worker + 1) % workers;
        in_order(file(last, other), other, each, RECORD)
    })
}

#[test]
fn the_last_checkpoint_is_read_by_another() {
    use super::pattern::judging::{is_sound, scale};
    for (workers, rounds) in [(1, 1), (3, 1), (3, 2), (2, 5)] {
        let scale = Scale {
            rounds,
            ..scale(workers)
        };
        is_sound(&checkpoint(scale), workers);
    }
    let app = checkpoint(scale(3));
    let files: Vec<usize> = app
        .phases
        .iter()
        .map(|phase| (phase.pieces)(1)[0].file)
        .collect();
    assert_eq!(files, [1, 4, 5]);
}
