//! The tests of the source's Table 1.

use super::args::Metabench;

/// The operation on each file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Create,
    Stat,
    Utime,
    Append,
    Untar,
}

/// One test, named as in the source's Table 1: A in separate directories and B in one; for creation, A is one process alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Test {
    pub kind: Kind,
    pub separate: bool,
    /// Only the process with the highest rank works.
    pub alone: bool,
}

impl Test {
    pub fn name(self) -> &'static str {
        match (self.kind, self.separate) {
            (Kind::Create, _) if self.alone => "Create-A",
            (Kind::Create, true) => "Create-B",
            (Kind::Create, false) => "Create-C",
            (Kind::Stat, true) => "Stat-A",
            (Kind::Stat, false) => "Stat-B",
            (Kind::Utime, true) => "Utime-A",
            (Kind::Utime, false) => "Utime-B",
            (Kind::Append, true) => "Append-A",
            (Kind::Append, false) => "Append-B",
            (Kind::Untar, _) => "Untar",
        }
    }

    /// Those that the flags ask for, in the source's order.
    pub fn list(args: &Metabench) -> Vec<Test> {
        let test = |kind, separate| Test {
            kind,
            separate,
            alone: false,
        };
        let mut tests = Vec::new();
        if args.create {
            tests.push(Test {
                alone: true,
                ..test(Kind::Create, false)
            });
        }
        for (wanted, kind) in [
            (args.create, Kind::Create),
            (args.stat, Kind::Stat),
            (args.utime, Kind::Utime),
            (args.append, Kind::Append),
        ] {
            if wanted {
                tests.extend([test(kind, true), test(kind, false)]);
            }
        }
        if args.untar {
            tests.push(test(Kind::Untar, true));
        }
        tests
    }
}
