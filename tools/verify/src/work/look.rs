//! The last look of a round at everything that was worked on, and the first at what is held.

use crate::history::{Call, Flavour, SpliceCall};
use crate::subject::{CONSTANT_SIZE, HELD_NAMES, Range, SLOTS, Subject, WHOLE};

/// What a look at a subject asks, through descriptors of its own, or what is held.
pub fn looks(subject: Subject) -> Vec<Call> {
    let flavour = Flavour::Fresh;
    let range = WHOLE;
    let held = Flavour::Session;
    match subject {
        Subject::HeldData(_) => {
            let flavour = held;
            vec![Call::Size { flavour }, Call::Read { range, flavour }]
        }
        Subject::HeldMapped(_) => {
            let flavour = held;
            let mapped = Call::MapRead {
                range: Range {
                    from: 0,
                    to: CONSTANT_SIZE,
                },
            };
            vec![
                Call::Size { flavour },
                Call::Read { range, flavour },
                mapped,
            ]
        }
        Subject::HeldAttr(_) => vec![Call::Stat, Call::GetXattr],
        Subject::HeldDir(n) => (0..HELD_NAMES)
            .map(|at| Call::Look { at })
            .chain((n % 2 == 1).then_some(Call::GetCwd))
            .collect(),
        Subject::Names(_) => (0..SLOTS)
            .flat_map(|at| [Call::Look { at }, Call::Get { at }])
            .chain([Call::List { directory: 0 }, Call::List { directory: 1 }])
            .collect(),
        Subject::Data(_) | Subject::Mapped(_) => {
            vec![Call::Size { flavour }, Call::Read { range, flavour }]
        }
        Subject::Log(_) => vec![Call::LogSize, Call::ReadLog],
        Subject::Attr(_) => vec![Call::Stat, Call::GetXattr],
        Subject::Lock(_) => Vec::new(),
        Subject::Spliced(_) => {
            let how = SpliceCall::Sendfile;
            let splice = Call::Splice {
                range,
                how,
                flavour,
            };
            vec![Call::Read { range, flavour }, splice]
        }
    }
}
