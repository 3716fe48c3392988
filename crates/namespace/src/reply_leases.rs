//! # reply_leases: what a reply says, as keys of leases
//!
//! Owns   the list of leases that a session may get with a reply, and the attributes of inodes that its own change changed.
//! Never  grants a lease (`leases` does), or reads a record that the operation has not read.
//! Enter  at `leasable_keys`, `changed_attributes`.
//!
//! The records must be the newest ones: the driver calls this under the lock under which it applied the operation, after it has staged
//! the operation's batch.

use crate::driver::{CachedRecord, RecordBatch, RecordSource};
use crate::hash::{ReaddirCookie, name_hash};
use crate::key::{ParsedKey, RecordKey};
use crate::record::{Inode, Record};
use bytes::Bytes;
use gupfs_proto::lease::LeaseKey;
use gupfs_proto::meta::{AccessMode, MetaOp, MetaReplyBody, OpenMode};
use gupfs_proto::{Attr, FileKind, FsError, InodeId, Name, SessionId};

/// The key of what a reply says, and whether it is about a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeasableKey {
    pub key: LeaseKey,
    pub is_directory: bool,
}

impl LeasableKey {
    /// The attributes of an inode that the reply contains.
    pub fn attributes(attr: &Attr) -> LeasableKey {
        LeasableKey {
            key: LeaseKey::Attributes(attr.ino),
            is_directory: attr.kind == FileKind::Directory,
        }
    }

    fn of_directory(key: LeaseKey) -> LeasableKey {
        LeasableKey {
            key,
            is_directory: true,
        }
    }

    fn of_file(key: LeaseKey) -> LeasableKey {
        LeasableKey {
            key,
            is_directory: false,
        }
    }
}

/// The keys of what the reply says, in the order in which the reply says it: for an operation on one name, that name first; for a
/// listing, all names first, then each entry's name and attributes; for a new directory, last all its names, of which there are none yet.
/// Attributes and data of a file that another session writes, or whose truncate is not finished, are not among them. The names of a rename are not either: two hashes of one directory do not say which is
/// which.
pub fn leasable_keys(
    op: &MetaOp,
    reply: &Result<MetaReplyBody, FsError>,
    session: SessionId,
    records: &dyn RecordSource,
) -> Vec<LeasableKey> {
    let mut keys = KeyList {
        session,
        records,
        keys: Vec::new(),
    };
    match (op, reply) {
        (MetaOp::Lookup { dir, name }, Err(FsError::NotFound)) => keys.add_name(*dir, name),
        (
            MetaOp::Lookup { dir, name }
            | MetaOp::Mkdir { dir, name, .. }
            | MetaOp::Mknod { dir, name, .. }
            | MetaOp::Symlink { dir, name, .. }
            | MetaOp::Link { dir, name, .. },
            Ok(MetaReplyBody::Entry(attr)),
        ) => {
            keys.add_name(*dir, name);
            keys.add_attributes(attr);
            if let MetaOp::Mkdir { .. } = op {
                // It has no names yet, so this reply is its listing.
                keys.add_listing(attr.ino);
            }
        }
        (
            MetaOp::Create {
                dir, name, open, ..
            }
            | MetaOp::CreateForWriting {
                dir, name, open, ..
            },
            Ok(MetaReplyBody::Opened(opened) | MetaReplyBody::WriteBegun { opened, .. }),
        ) => {
            keys.add_name(*dir, name);
            keys.add_opened(&opened.attr, !opened.created && opens_for_reading(*open));
        }
        (
            MetaOp::Unlink { dir, name } | MetaOp::Rmdir { dir, name },
            Ok(MetaReplyBody::Removed(_)),
        ) => keys.add_name(*dir, name),
        (MetaOp::Rename { .. }, Ok(MetaReplyBody::Removed(removed))) => {
            removed
                .attr
                .iter()
                .for_each(|attr| keys.add_attributes(attr));
        }
        (MetaOp::Open { open, .. }, Ok(MetaReplyBody::Opened(opened))) => {
            keys.add_opened(&opened.attr, opens_for_reading(*open));
        }
        (MetaOp::BeginRead { .. }, Ok(MetaReplyBody::Opened(opened))) => {
            keys.add_opened(&opened.attr, true);
        }
        (_, Ok(MetaReplyBody::Opened(opened) | MetaReplyBody::WriteBegun { opened, .. })) => {
            keys.add_attributes(&opened.attr);
        }
        (MetaOp::LookupParent { .. }, _) => {}
        (_, Ok(MetaReplyBody::Attr(attr) | MetaReplyBody::Entry(attr))) => {
            keys.add_attributes(attr);
        }
        (MetaOp::Readdir { dir, .. }, Ok(MetaReplyBody::Entries { entries, .. })) => {
            keys.add_listing(*dir);
            for entry in entries {
                if let (Some(attr), Some(at)) = (&entry.attr, ReaddirCookie::decode(entry.cookie)) {
                    let (dir, hash) = (*dir, at.hash);
                    let name = LeaseKey::Name { dir, hash };
                    keys.keys.push(LeasableKey::of_directory(name));
                    keys.add_attributes(attr);
                }
            }
        }
        (
            MetaOp::Access { ino, .. }
            | MetaOp::Readlink { ino }
            | MetaOp::GetXattr { ino, .. }
            | MetaOp::ListXattr { ino },
            Ok(_) | Err(FsError::Denied | FsError::NoAttribute),
        ) => keys.add_attributes_of(*ino),
        _ => {}
    }
    keys.keys
}

/// The attributes, after the change, of inodes that the batch changes and the reply does not contain, as far as `is_held` selects them.
/// A file whose truncate is not finished is not among them: its attributes change once more before the reply leaves.
pub fn changed_attributes(
    batch: &RecordBatch,
    reply: &Result<MetaReplyBody, FsError>,
    mut is_held: impl FnMut(InodeId) -> bool,
) -> Vec<Attr> {
    let contained = reply.as_ref().ok().and_then(contained_inode);
    let changed = batch.iter().filter_map(|(key, value)| match key.parse() {
        Some(ParsedKey::Inode(ino)) if Some(ino) != contained && is_held(ino) => {
            let inode = decode(ino, value.as_ref()?)?;
            (!is_truncating(&inode)).then(|| inode.attr())
        }
        _ => None,
    });
    changed.collect()
}

/// The inode whose attributes the reply contains.
fn contained_inode(reply: &MetaReplyBody) -> Option<InodeId> {
    match reply {
        MetaReplyBody::Attr(attr) | MetaReplyBody::Entry(attr) => Some(attr.ino),
        MetaReplyBody::Opened(opened) | MetaReplyBody::WriteBegun { opened, .. } => {
            Some(opened.attr.ino)
        }
        MetaReplyBody::Removed(removed) => removed.attr.map(|attr| attr.ino),
        _ => None,
    }
}

fn opens_for_reading(open: OpenMode) -> bool {
    !open.truncate && !open.access.contains(AccessMode::WRITE)
}

fn decode(ino: InodeId, value: &Bytes) -> Option<Inode> {
    let mut inode = Inode::decode(value).ok()?;
    inode.ino = ino;
    Some(inode)
}

fn is_truncating(inode: &Inode) -> bool {
    inode.file().is_ok_and(|file| file.truncating.is_some())
}

struct KeyList<'a> {
    session: SessionId,
    records: &'a dyn RecordSource,
    keys: Vec<LeasableKey>,
}

impl KeyList<'_> {
    fn add_name(&mut self, dir: InodeId, name: &Name) {
        if let Some(inode) = self.inode(dir)
            && let Ok(directory) = inode.directory()
        {
            let hash = name_hash(directory.salt, name);
            let name = LeaseKey::Name { dir, hash };
            self.keys.push(LeasableKey::of_directory(name));
        }
    }

    fn add_listing(&mut self, dir: InodeId) {
        let names = LeaseKey::Names(dir);
        self.keys.push(LeasableKey::of_directory(names));
    }

    /// Only regular files are written under a write lease.
    fn add_attributes(&mut self, attr: &Attr) {
        if attr.kind != FileKind::Regular || self.is_leasable_file(attr.ino) {
            self.keys.push(LeasableKey::attributes(attr));
        }
    }

    fn add_attributes_of(&mut self, ino: InodeId) {
        let inode = self.inode(ino).filter(|inode| self.is_leasable(inode));
        self.keys.extend(inode.map(|inode| LeasableKey {
            key: LeaseKey::Attributes(ino),
            is_directory: inode.directory().is_ok(),
        }));
    }

    fn add_opened(&mut self, attr: &Attr, with_data: bool) {
        let before = self.keys.len();
        self.add_attributes(attr);
        if with_data && attr.kind == FileKind::Regular && self.keys.len() > before {
            let data = LeaseKey::Data(attr.ino);
            self.keys.push(LeasableKey::of_file(data));
        }
    }

    fn is_leasable_file(&self, ino: InodeId) -> bool {
        self.inode(ino)
            .is_some_and(|inode| self.is_leasable(&inode))
    }

    /// No other session writes the file, and no truncate of it is under way.
    fn is_leasable(&self, inode: &Inode) -> bool {
        let Ok(file) = inode.file() else { return true };
        let is_own = || {
            let key = RecordKey::write_lease(inode.ino, self.session);
            matches!(self.records.get(&key), CachedRecord::Value(Some(_)))
        };
        file.truncating.is_none()
            && (file.write_leases == 0 || (file.write_leases == 1 && is_own()))
    }

    fn inode(&self, ino: InodeId) -> Option<Inode> {
        match self.records.get(&RecordKey::inode(ino)) {
            CachedRecord::Value(Some(value)) => decode(ino, &value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyRange;
    use crate::testing::*;
    use gupfs_proto::Caller;
    use gupfs_proto::meta::CreateMode;
    use std::collections::BTreeMap;

    /// The keys of an operation's reply, and the changed attributes that the reply does not contain.
    fn keys_after(server: &mut TestServer, op: &MetaOp) -> (Vec<LeaseKey>, Vec<Attr>) {
        let reply = server.request(&Caller::root(), op);
        let keys = leasable_keys(op, &reply, server.session, &Records(&server.records));
        let changed = changed_attributes(&server.batch, &reply, |_| true);
        (only_keys(keys), changed)
    }

    fn only_keys(keys: Vec<LeasableKey>) -> Vec<LeaseKey> {
        keys.into_iter().map(|leasable| leasable.key).collect()
    }

    struct Records<'a>(&'a BTreeMap<RecordKey, Bytes>);

    impl RecordSource for Records<'_> {
        fn get(&self, key: &RecordKey) -> CachedRecord {
            CachedRecord::Value(self.0.get(key).cloned())
        }

        fn scan(&self, _: &KeyRange, _: usize) -> Option<Vec<(RecordKey, Bytes)>> {
            None
        }
    }

    fn name_key(server: &TestServer, dir: InodeId, text: &str) -> LeaseKey {
        let hash = name_hash(server.directory(dir).salt, &name(text));
        LeaseKey::Name { dir, hash }
    }

    fn lookup(text: &str) -> MetaOp {
        let (dir, name) = (ROOT, name(text));
        MetaOp::Lookup { dir, name }
    }

    #[test]
    fn a_name_can_be_leased_whether_it_exists_or_not() {
        let mut server = TestServer::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        let name_of = |server: &TestServer, text| name_key(server, ROOT, text);
        let (keys, _) = keys_after(&mut server, &lookup("f"));
        assert_eq!(keys, [name_of(&server, "f"), LeaseKey::Attributes(file)]);
        let (keys, _) = keys_after(&mut server, &lookup("absent"));
        assert_eq!(keys, [name_of(&server, "absent")]);
        let unlink = MetaOp::Unlink {
            dir: ROOT,
            name: name("f"),
        };
        let (keys, changed) = keys_after(&mut server, &unlink);
        assert_eq!(keys, [name_of(&server, "f")]);
        let changed: Vec<InodeId> = changed.iter().map(|attr| attr.ino).collect();
        assert!(changed.contains(&ROOT), "the parent's times: {changed:?}");
    }

    #[test]
    fn a_new_directory_is_leased_with_all_its_names() {
        let mut server = TestServer::new(2);
        let mkdir = MetaOp::Mkdir {
            dir: ROOT,
            name: name("d"),
            create_mode: CreateMode {
                mode: 0o755,
                umask: 0,
            },
        };
        let (keys, _) = keys_after(&mut server, &mkdir);
        let made = server.lookup(&Caller::root(), ROOT, "d").unwrap().ino;
        assert_eq!(
            keys,
            [
                name_key(&server, ROOT, "d"),
                LeaseKey::Attributes(made),
                LeaseKey::Names(made)
            ]
        );
        let (keys, _) = keys_after(&mut server, &mkdir);
        assert_eq!(keys, [], "it exists");
    }

    #[test]
    fn the_keys_of_a_listing_name_its_entries_by_their_cookies() {
        let mut server = TestServer::new(2);
        let mut expected = vec![LeaseKey::Names(ROOT)];
        let mut listed = Vec::new();
        for text in ["a", "b", "c"] {
            let ino = server
                .create(&Caller::root(), ROOT, text, 0o644)
                .unwrap()
                .ino;
            listed.push((name_key(&server, ROOT, text), LeaseKey::Attributes(ino)));
        }
        listed.sort();
        expected.extend(listed.into_iter().flat_map(|(name, attr)| [name, attr]));
        let op = |plus| MetaOp::Readdir {
            dir: ROOT,
            after: 0,
            limit: 100,
            plus,
        };
        assert_eq!(keys_after(&mut server, &op(true)).0, expected);
        assert_eq!(
            keys_after(&mut server, &op(false)).0,
            [LeaseKey::Names(ROOT)]
        );
    }

    #[test]
    fn a_file_that_another_session_writes_is_leased_to_none() {
        let (mut server, file) = leased_file();
        let getattr = MetaOp::GetAttr { ino: file };
        let own = keys_after(&mut server, &getattr).0;
        assert_eq!(own, [LeaseKey::Attributes(file)], "its writer may");
        let attr = server.inode(file).attr();
        assert_eq!(attr.kind, FileKind::Regular);
        let records = Records(&server.records);
        for (op, reply) in [
            (getattr, MetaReplyBody::Attr(attr)),
            (lookup("f"), MetaReplyBody::Entry(attr)),
            (
                MetaOp::ListXattr { ino: file },
                MetaReplyBody::XattrNames(vec![]),
            ),
        ] {
            let keys = only_keys(leasable_keys(&op, &Ok(reply), OTHER_SESSION, &records));
            let of_file = keys.iter().filter(|key| key.inode() == file);
            assert_eq!(of_file.count(), 0, "{op:?}");
        }
    }

    #[test]
    fn data_is_leased_to_readers_only() {
        let mut server = TestServer::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        let (attributes, data) = (LeaseKey::Attributes(file), LeaseKey::Data(file));
        for (access, truncate, expected) in [
            (AccessMode::READ, false, vec![attributes, data]),
            (AccessMode::empty(), false, vec![attributes, data]),
            (
                AccessMode::READ | AccessMode::WRITE,
                false,
                vec![attributes],
            ),
            (AccessMode::READ, true, vec![attributes]),
        ] {
            let keys = keys_after(&mut server, &open_op(file, access, truncate)).0;
            assert_eq!(keys, expected, "{access:?} {truncate}");
        }
    }

    #[test]
    fn a_file_whose_truncate_is_not_finished_is_not_leased() {
        let (mut server, file) = leased_file();
        server
            .end_write(file, report(5 << 20, &[(0, 0), (1, 0)]), false)
            .unwrap();
        let truncate = MetaOp::Truncate {
            ino: file,
            to: 10,
            by_handle: true,
            kill_privileges: false,
        };
        server.truncates_at_once = false;
        assert_eq!(keys_after(&mut server, &truncate).0, []);
        assert!(server.file(file).truncating.is_some());
        let getattr = MetaOp::GetAttr { ino: file };
        assert_eq!(keys_after(&mut server, &getattr).0, []);
    }
}
