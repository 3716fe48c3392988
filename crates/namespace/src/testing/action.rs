//! One random operation. Nodes and names are picked by small numbers, so that a shrunk case remains meaningful.

use super::model::ModelCaller;
use gupfs_proto::meta::{RenameMode, SetTime};
use gupfs_proto::{FileKind, Timestamp};
use proptest::prelude::*;
use proptest::sample::select;

#[derive(Clone, Debug)]
pub enum Action {
    Create {
        dir: usize,
        name: &'static str,
        mode: u32,
        umask: u32,
        exclusive: bool,
        access: u8,
        truncate: bool,
    },
    Mkdir {
        dir: usize,
        name: &'static str,
        mode: u32,
    },
    Mknod {
        dir: usize,
        name: &'static str,
        kind: FileKind,
        mode: u32,
    },
    Symlink {
        dir: usize,
        name: &'static str,
    },
    TmpFile {
        dir: usize,
        mode: u32,
    },
    Link {
        node: usize,
        dir: usize,
        name: &'static str,
    },
    Unlink {
        dir: usize,
        name: u8,
    },
    Rmdir {
        dir: usize,
        name: u8,
    },
    Rename {
        from: usize,
        name: u8,
        to: usize,
        new: &'static str,
        how: RenameMode,
    },
    Lookup {
        dir: usize,
        name: u8,
    },
    Access {
        node: usize,
        want: u8,
    },
    Open {
        node: usize,
        access: u8,
        truncate: bool,
    },
    Truncate {
        node: usize,
        to: u64,
        by_handle: bool,
    },
    Write {
        node: usize,
        at: Option<u64>,
        len: usize,
    },
    WriteObjects {
        node: usize,
        size: u64,
        keep: bool,
    },
    Chmod {
        node: usize,
        mode: u32,
    },
    Chown {
        node: usize,
        uid: Option<u32>,
        gid: Option<u32>,
    },
    Utimes {
        node: usize,
        atime: Option<SetTime>,
        mtime: Option<SetTime>,
    },
    SetXattr {
        node: usize,
        name: &'static str,
        len: usize,
    },
    GetXattr {
        node: usize,
        name: &'static str,
    },
    RemoveXattr {
        node: usize,
        name: &'static str,
    },
    Forget {
        node: usize,
    },
    Growth {
        allowed: bool,
    },
}

pub const NAMES: [&str; 5] = [
    "a",
    "b",
    "c",
    "d",
    "a name that is too long for the inline part of a record key",
];
const MODES: [u32; 11] = [
    0, 0o644, 0o600, 0o755, 0o777, 0o4755, 0o2755, 0o2644, 0o1777, 0o2777, 0o311,
];
const XATTRS: [&str; 2] = ["user.a", "user.colour"];

pub fn action() -> impl Strategy<Value = Action> {
    use Action::*;
    let name = || select(&NAMES[..]);
    // Usually a name that exists.
    let old = any::<u8>;
    let mode = || select(&MODES[..]);
    let node = || 0usize..40;
    // Few directories, so that many operations use the same names.
    let dir = || 0usize..8;
    let access = || 0u8..8;
    let how = select(vec![
        RenameMode::Replace,
        RenameMode::NoReplace,
        RenameMode::Exchange,
    ]);
    let kind = select(vec![
        FileKind::Regular,
        FileKind::Fifo,
        FileKind::Socket,
        FileKind::CharDevice,
    ]);
    let time = || {
        select(vec![
            None,
            Some(SetTime::Now),
            Some(SetTime::To(Timestamp::new(77, 5))),
        ])
    };
    let id = || select(vec![None, Some(0), Some(1000), Some(1001), Some(50)]);
    prop_oneof![
        6 => (dir(), name(), mode(), select(vec![0, 0o22]), any::<bool>(), access(), any::<bool>()).prop_map(
            |(dir, name, mode, umask, exclusive, access, truncate)| Create { dir, name, mode, umask, exclusive, access, truncate }),
        6 => (dir(), name(), mode()).prop_map(|(dir, name, mode)| Mkdir { dir, name, mode }),
        2 => (dir(), name(), kind, mode()).prop_map(|(dir, name, kind, mode)| Mknod { dir, name, kind, mode }),
        1 => (dir(), name()).prop_map(|(dir, name)| Symlink { dir, name }),
        1 => (dir(), mode()).prop_map(|(dir, mode)| TmpFile { dir, mode }),
        5 => (node(), dir(), name()).prop_map(|(node, dir, name)| Link { node, dir, name }),
        5 => (dir(), old()).prop_map(|(dir, name)| Unlink { dir, name }),
        3 => (dir(), old()).prop_map(|(dir, name)| Rmdir { dir, name }),
        12 => (dir(), old(), dir(), name(), how).prop_map(|(from, name, to, new, how)| Rename { from, name, to, new, how }),
        1 => (dir(), old()).prop_map(|(dir, name)| Lookup { dir, name }),
        1 => (node(), access()).prop_map(|(node, want)| Access { node, want }),
        2 => (node(), access(), any::<bool>()).prop_map(|(node, access, truncate)| Open { node, access, truncate }),
        3 => (node(), select(vec![0, 1, 100, 5000, 1 << 20, 9 << 20]), any::<bool>()).prop_map(
            |(node, to, by_handle)| Truncate { node, to, by_handle }),
        4 => (node(), select(vec![None, Some(0), Some(50), Some(4000)]), select(vec![0, 1, 96, 97, 3000])).prop_map(
            |(node, at, len)| Write { node, at, len }),
        3 => (node(), select(vec![1, 5000, 3 << 20, 20 << 20]), any::<bool>()).prop_map(
            |(node, size, keep)| WriteObjects { node, size, keep }),
        3 => (node(), mode()).prop_map(|(node, mode)| Chmod { node, mode }),
        3 => (node(), id(), id()).prop_map(|(node, uid, gid)| Chown { node, uid, gid }),
        2 => (node(), time(), time()).prop_map(|(node, atime, mtime)| Utimes { node, atime, mtime }),
        2 => (node(), select(&XATTRS[..]), select(vec![0, 10, 5000])).prop_map(
            |(node, name, len)| SetXattr { node, name, len }),
        1 => (node(), select(&XATTRS[..])).prop_map(|(node, name)| GetXattr { node, name }),
        1 => (node(), select(&XATTRS[..])).prop_map(|(node, name)| RemoveXattr { node, name }),
        3 => node().prop_map(|node| Forget { node }),
        1 => select(vec![true, true, false]).prop_map(|allowed| Growth { allowed }),
    ]
}

pub fn callers() -> [ModelCaller; 5] {
    [
        ModelCaller::default(),
        ModelCaller::default(),
        ModelCaller::default(),
        ModelCaller {
            uid: 1000,
            gid: 1000,
            groups: vec![50],
        },
        ModelCaller {
            uid: 1001,
            gid: 1001,
            groups: vec![1000],
        },
    ]
}
