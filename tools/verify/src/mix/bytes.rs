//! Operations on bytes: ranges that begin and end around borders.

use crate::history::{Allocate, Call, Flavour, SpliceCall};
use crate::rng::Rng;
use crate::subject::{BORDERS, CONSTANT_SIZE, Range, WHOLE};

/// A range that is changed: mostly short, so that many fit into a second.
fn range(rng: &mut Rng) -> Range {
    let longest = rng.weighted(&[(80, 8 << 10), (17, 80 << 10), (3, 2 << 20)]);
    between_borders(rng, longest)
}

/// A range that is read: mostly long: bytes that one mount shows too late are soon changed again, so only a read before that finds them.
fn seen(rng: &mut Rng) -> Range {
    match rng.below(100) {
        0..35 => between_borders(rng, 8 << 10),
        35..95 => Range {
            from: BORDERS[rng.below(6) as usize],
            to: 68 << 10,
        },
        _ => WHOLE,
    }
}

fn between_borders(rng: &mut Rng, longest: u64) -> Range {
    loop {
        let from = rng.below(BORDERS.len() as u64 - 1) as usize;
        // The first pages are where most meet.
        let from = if rng.chance(40) { from % 6 } else { from };
        let to = from + 1 + rng.below(6) as usize;
        let Some(end) = BORDERS.get(to) else { continue };
        if end - BORDERS[from] <= longest {
            return Range {
                from: BORDERS[from],
                to: *end,
            };
        }
    }
}

pub fn data(rng: &mut Rng, tag: u64) -> Call {
    let (range, seen) = (range(rng), seen(rng));
    let flavour = rng.weighted(&[(3, Flavour::Session), (1, Flavour::Fresh)]);
    let to = rng.one_of(&BORDERS);
    let allocate = |how| Call::Allocate { range, how };
    rng.weighted(&[
        (
            34,
            Call::Write {
                range,
                tag,
                flavour,
            },
        ),
        (
            36,
            Call::Read {
                range: seen,
                flavour,
            },
        ),
        (10, Call::Size { flavour }),
        (6, Call::Truncate { to }),
        (1, allocate(Allocate::Plain)),
        (1, allocate(Allocate::KeepSize)),
        (2, allocate(Allocate::Punch)),
        (1, allocate(Allocate::Zero)),
        (1, Call::Sync),
        (4, Call::Open),
        (4, Call::Close),
    ])
}

/// A range of a file of constant size.
fn inside(rng: &mut Rng) -> Range {
    loop {
        let range = range(rng);
        if range.to <= CONSTANT_SIZE && range.to - range.from <= 16 << 10 {
            return range;
        }
    }
}

pub fn mapped(rng: &mut Rng, tag: u64) -> Call {
    let range = inside(rng);
    let flavour = rng.one_of(&[Flavour::Session, Flavour::Fresh]);
    rng.weighted(&[
        (30, Call::MapRead { range }),
        (30, Call::MapWrite { range, tag }),
        (15, Call::Read { range, flavour }),
        (
            15,
            Call::Write {
                range,
                tag,
                flavour,
            },
        ),
    ])
}

/// The next call that goes through a descriptor which is open.
pub fn held(mut next: impl FnMut() -> Call) -> Call {
    loop {
        match next() {
            Call::Open | Call::Close => {}
            Call::Write { range, tag, .. } => {
                let flavour = Flavour::Session;
                return Call::Write {
                    range,
                    tag,
                    flavour,
                };
            }
            Call::Read { range, .. } => {
                let flavour = Flavour::Session;
                return Call::Read { range, flavour };
            }
            Call::Size { .. } => {
                let flavour = Flavour::Session;
                return Call::Size { flavour };
            }
            other => return other,
        }
    }
}

pub fn spliced(rng: &mut Rng, tag: u64) -> Call {
    let range = inside(rng);
    // Long, as reads are.
    let seen = match rng.chance(40) {
        true => inside(rng),
        false => Range {
            from: BORDERS[rng.below(6) as usize],
            to: CONSTANT_SIZE,
        },
    };
    let flavour = rng.weighted(&[(3, Flavour::Session), (1, Flavour::Fresh)]);
    let how = rng.weighted(&[
        (4, SpliceCall::Sendfile),
        (2, SpliceCall::Splice),
        (2, SpliceCall::CopyFileRange),
    ]);
    rng.weighted(&[
        (
            30,
            Call::Write {
                range,
                tag,
                flavour,
            },
        ),
        (
            50,
            Call::Splice {
                range: seen,
                how,
                flavour,
            },
        ),
        (
            8,
            Call::Read {
                range: seen,
                flavour,
            },
        ),
        (1, Call::Size { flavour }),
        (2, Call::Open),
        (2, Call::Close),
    ])
}
