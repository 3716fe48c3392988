//! The last look of a round at everything that was worked on.

use crate::history::{Call, Flavour, SpliceCall};
use crate::subject::{SLOTS, Subject, WHOLE};

/// What a look at a subject asks, through descriptors of its own.
pub fn looks(subject: Subject) -> Vec<Call> {
    let flavour = Flavour::Fresh;
    let range = WHOLE;
    match subject {
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
