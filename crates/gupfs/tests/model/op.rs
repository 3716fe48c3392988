//! The operations: they use few names, so that they affect each other.

use proptest::prelude::*;

/// A path of one or two names under the case's directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Path(pub Vec<&'static str>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    Create {
        path: Path,
        exclusive: bool,
    },
    Mkdir(Path),
    Rmdir(Path),
    Unlink(Path),
    Rename {
        from: Path,
        to: Path,
        how: How,
    },
    Link {
        of: Path,
        to: Path,
    },
    Symlink {
        to: Path,
    },
    Write {
        path: Path,
        at: u64,
        len: usize,
        fill: u8,
    },
    Append {
        path: Path,
        len: usize,
        fill: u8,
    },
    Truncate {
        path: Path,
        to: u64,
    },
    Punch {
        path: Path,
        at: u64,
        len: u64,
    },
    Allocate {
        path: Path,
        at: u64,
        len: u64,
    },
    Copy {
        from: Path,
        to: Path,
        at: u64,
        len: usize,
    },
    Read {
        path: Path,
        at: u64,
        len: usize,
    },
    Stat(Path),
    List(Path),
    Chmod {
        path: Path,
        mode: u32,
    },
    SetAttribute {
        path: Path,
        value: u8,
    },
    GetAttribute(Path),
    RemoveAttribute(Path),
    /// Opens for reading and writing into one of few slots; an open file outlives its name.
    Open {
        slot: usize,
        path: Path,
    },
    WriteOpen {
        slot: usize,
        at: u64,
        len: usize,
        fill: u8,
    },
    ReadOpen {
        slot: usize,
        at: u64,
        len: usize,
    },
    StatOpen {
        slot: usize,
    },
    Close {
        slot: usize,
    },
    Sync(Path),
    /// kill -9 and a new start.
    Restart,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    Replace,
    NoReplace,
    Exchange,
}

pub const SLOTS: usize = 3;

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c", "d"])
}

fn path() -> impl Strategy<Value = Path> {
    prop_oneof![
        3 => name().prop_map(|name| Path(vec![name])),
        2 => (name(), name()).prop_map(|(dir, name)| Path(vec![dir, name])),
    ]
}

/// Offsets and lengths at and around the borders that the inside of the file system has: inline, block, region, unit, component.
fn place() -> impl Strategy<Value = u64> {
    let borders = vec![
        0u64,
        1,
        100,
        4095,
        4096,
        4097,
        65_536,
        1 << 20,
        (1 << 20) - 1,
        (4 << 20) - 3,
        4 << 20,
        (5 << 20) + 7,
    ];
    (prop::sample::select(borders), 0u64..3).prop_map(|(border, beyond)| border + beyond)
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 1usize..200, 3 => 3000usize..10_000, 1 => Just(1_200_000usize)]
}

pub fn any() -> impl Strategy<Value = Op> {
    let how = prop::sample::select(vec![
        How::Replace,
        How::Replace,
        How::NoReplace,
        How::Exchange,
    ]);
    let slot = || 0..SLOTS;
    prop_oneof![
        6 => (path(), any_bool()).prop_map(|(path, exclusive)| Op::Create { path, exclusive }),
        4 => path().prop_map(Op::Mkdir),
        2 => path().prop_map(Op::Rmdir),
        3 => path().prop_map(Op::Unlink),
        5 => (path(), path(), how).prop_map(|(from, to, how)| Op::Rename { from, to, how }),
        2 => (path(), path()).prop_map(|(of, to)| Op::Link { of, to }),
        1 => path().prop_map(|to| Op::Symlink { to }),
        8 => (path(), place(), length(), 1u8..).prop_map(|(path, at, len, fill)| Op::Write { path, at, len, fill }),
        4 => (path(), length(), 1u8..).prop_map(|(path, len, fill)| Op::Append { path, len, fill }),
        4 => (path(), place()).prop_map(|(path, to)| Op::Truncate { path, to }),
        2 => (path(), place(), 1u64..100_000).prop_map(|(path, at, len)| Op::Punch { path, at, len }),
        1 => (path(), place(), 1u64..100_000).prop_map(|(path, at, len)| Op::Allocate { path, at, len }),
        1 => (path(), path(), place(), length()).prop_map(|(from, to, at, len)| Op::Copy { from, to, at, len }),
        5 => (path(), place(), length()).prop_map(|(path, at, len)| Op::Read { path, at, len }),
        4 => path().prop_map(Op::Stat),
        3 => path().prop_map(Op::List),
        1 => (path(), 0u32..0o1000).prop_map(|(path, mode)| Op::Chmod { path, mode }),
        1 => (path(), 0u8..).prop_map(|(path, value)| Op::SetAttribute { path, value }),
        1 => path().prop_map(Op::GetAttribute),
        1 => path().prop_map(Op::RemoveAttribute),
        3 => (slot(), path()).prop_map(|(slot, path)| Op::Open { slot, path }),
        4 => (slot(), place(), length(), 1u8..).prop_map(|(slot, at, len, fill)| Op::WriteOpen { slot, at, len, fill }),
        4 => (slot(), place(), length()).prop_map(|(slot, at, len)| Op::ReadOpen { slot, at, len }),
        2 => slot().prop_map(|slot| Op::StatOpen { slot }),
        1 => slot().prop_map(|slot| Op::Close { slot }),
        1 => path().prop_map(Op::Sync),
    ]
}

fn any_bool() -> impl Strategy<Value = bool> {
    proptest::bool::ANY
}
