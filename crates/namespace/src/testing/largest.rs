//! Every operation with the longest names, values, ACLs and layouts, on the longest records that are valid. Each makes a batch
//! within the limits of the log.

use super::*;
use crate::acl::Acl;
use crate::check::Problem;
use crate::record::{BackLink, Record, XattrRecord};
use crate::{BackgroundOp, PurgeId, RecordKey, RecordKind};
use bytes::Bytes;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::layout::{DefaultComponent, DefaultLayout};
use gupfs_proto::limits::{
    BATCH_BYTES, BATCH_BYTES_MAX, COMPONENTS_MAX, FORGET_MAX, STRIPE_COUNT_MAX, STRIPE_UNIT_MIN,
    SYMLINK_MAX, XATTR_VALUE_MAX,
};
use gupfs_proto::meta::{
    AccessMode, MetaOp, OpenMode, RenameMode, SetAttr, WritePosition, XattrMode,
};
use gupfs_proto::units::{ByteCount, FileOffset};
use gupfs_proto::{Caller, FileKind, InodeId, OstId, VirtualShard};
use std::collections::BTreeMap;

/// A server with the longest possible records, and the size of each operation's largest batch.
struct LargestRecords {
    server: TestServer,
    sizes: BTreeMap<&'static str, usize>,
    number: u32,
}

fn longest_acl() -> Acl {
    let entries = (XATTR_VALUE_MAX - 4) / 8 - 4;
    Acl {
        owner: 7,
        users: (0..entries as u32)
            .map(|id| (u32::MAX - 1 - entries as u32 + id, 7))
            .collect(),
        group: 7,
        groups: Vec::new(),
        mask: Some(7),
        other: 7,
    }
}

fn longest_rule() -> DefaultLayout {
    let last = COMPONENTS_MAX - 1;
    let component = |n: usize| DefaultComponent {
        to: FileOffset(if n == last {
            u64::MAX
        } else {
            (n as u64 + 1) << 60 >> 4
        }),
        unit: ByteCount(STRIPE_UNIT_MIN.0),
        count: STRIPE_COUNT_MAX,
        first: Some(OstId(u16::MAX)),
    };
    DefaultLayout {
        components: (0..COMPONENTS_MAX).map(component).collect(),
    }
}

/// Every (component, stripe) of the longest layout.
fn stripes() -> impl Iterator<Item = (u32, u32)> {
    (0..COMPONENTS_MAX as u32)
        .flat_map(|component| (0..STRIPE_COUNT_MAX).map(move |stripe| (component, stripe)))
}

impl LargestRecords {
    fn new() -> LargestRecords {
        let mut server = TestServer::new(1);
        let first = server.targets[0].clone();
        let target = |n: u32| gupfs_proto::meta::PlacementTarget {
            ost: OstId(u16::MAX - n as u16),
            ..first.clone()
        };
        server.targets = (0..STRIPE_COUNT_MAX).map(target).collect();
        server.replays = false;
        let mut test = LargestRecords {
            server,
            sizes: BTreeMap::new(),
            number: 0,
        };
        test.enlarge(ROOT);
        test
    }

    /// Gives this inode the longest possible record.
    fn enlarge(&mut self, ino: InodeId) {
        self.server.edit(ino, |inode| {
            inode.acl = Some(longest_acl());
            if let Ok(dir) = inode.directory_mut() {
                dir.default_acl = Some(longest_acl());
                dir.default_layout = Some(crate::record::DirectoryDefaultLayout {
                    layout: longest_rule(),
                    is_own: true,
                });
            }
            inode.security = (0..4)
                .map(|n| {
                    let name = xattr(&format!("security.{n:0>246}"));
                    (name, Bytes::from(vec![7; 256]))
                })
                .collect();
        });
    }

    fn new_name(&mut self) -> String {
        self.number += 1;
        format!("{:0>255}", self.number)
    }

    fn dir(&mut self) -> (InodeId, String) {
        let text = self.new_name();
        let root = Caller::root();
        let ino = self.server.mkdir(&root, ROOT, &text, 0o777).unwrap().ino;
        self.enlarge(ino);
        (ino, text)
    }

    /// An empty file.
    fn file(&mut self, dir: InodeId) -> (InodeId, String) {
        let text = self.new_name();
        let root = Caller::root();
        let ino = self.server.create(&root, dir, &text, 0o666).unwrap().ino;
        self.enlarge(ino);
        (ino, text)
    }

    /// A file with the longest layout, all objects of which may exist, and with a write lease of this session.
    fn laid_out(&mut self, dir: InodeId) -> (InodeId, String) {
        let (ino, text) = self.file(dir);
        let opened = self.server.begin_write(ino).unwrap();
        let stripes: usize = opened
            .layout
            .components
            .iter()
            .map(|component| component.targets.len())
            .sum();
        assert_eq!(stripes, COMPONENTS_MAX * STRIPE_COUNT_MAX as usize);
        (ino, text)
    }

    fn attributes(&mut self, ino: InodeId, count: usize) {
        let names: Vec<String> = (0..count).map(|n| format!("user.{n:0>250}")).collect();
        for name in &names {
            let value = XattrRecord(Bytes::from_static(b"v")).encode();
            let key = RecordKey::xattr(ino, name.as_bytes());
            self.server.records.insert(key, value);
        }
        self.server.edit(ino, |inode| {
            inode.xattrs = count as u32;
            inode.xattr_names = names.iter().map(|name| name.len() as u32 + 1).sum();
        });
    }

    fn record_size(&mut self, op_name: &'static str) {
        let bytes = batch_bytes(&self.server.batch);
        let size = self.sizes.entry(op_name).or_default();
        *size = bytes.max(*size);
    }

    fn run(&mut self, op: MetaOp) {
        let reply = self.server.request(&Caller::root(), &op);
        assert!(reply.is_ok(), "{}: {reply:?}", op.name());
        self.record_size(op.name());
    }

    fn run_background(&mut self, op_name: &'static str, op: BackgroundOp) {
        let reply = self.server.run_background(&op);
        assert!(reply.is_ok(), "{op_name}: {reply:?}");
        self.record_size(op_name);
    }
}

fn open_how(truncate: bool) -> OpenMode {
    OpenMode {
        access: AccessMode::READ | AccessMode::WRITE,
        truncate,
        kill_privileges: true,
    }
}

fn written() -> gupfs_proto::meta::AttrReport {
    gupfs_proto::meta::AttrReport {
        size: 1 << 50,
        mtime: None,
        atime: None,
        blocks: 1 << 41,
        present: stripes().collect(),
        unsynced: stripes().collect(),
    }
}

fn names(test: &mut LargestRecords) {
    let root = Caller::root();
    let (dir, dir_name) = test.dir();
    let (name_of, mode) = (|text: String| name(&text), create_mode(0o777));
    let text = test.new_name();
    test.run(MetaOp::Create {
        dir,
        name: name_of(text),
        create_mode: mode,
        exclusive: true,
        open: open_how(false),
    });
    let text = test.new_name();
    let to = name_of(text);
    test.run(MetaOp::Mkdir {
        dir,
        name: to.clone(),
        create_mode: mode,
    });
    test.run(MetaOp::Rmdir { dir, name: to });
    let text = test.new_name();
    test.run(MetaOp::Mknod {
        dir,
        name: name_of(text),
        kind: FileKind::Fifo,
        rdev: u32::MAX,
        create_mode: mode,
    });
    let text = test.new_name();
    test.run(MetaOp::Symlink {
        dir,
        name: name_of(text),
        target: vec![b'x'; SYMLINK_MAX],
    });
    test.run(MetaOp::TmpFile {
        dir,
        create_mode: mode,
    });
    let (file, text) = test.laid_out(dir);
    let other = test.new_name();
    test.run(MetaOp::Link {
        ino: file,
        dir: ROOT,
        name: name_of(other),
    });
    test.run(MetaOp::Unlink {
        dir,
        name: name_of(text),
    });
    // Four inodes change: two directories, the moved file, the replaced file. Another session may have the latter open.
    test.server.is_only_session = false;
    for how in [RenameMode::Replace, RenameMode::Exchange] {
        let ((_, from), (_, to)) = (test.laid_out(dir), test.laid_out(ROOT));
        test.run(MetaOp::Rename {
            from: dir,
            name: name_of(from),
            to: ROOT,
            new_name: name_of(to),
            mode: how,
        });
    }
    test.server.is_only_session = true;
    assert!(test.server.lookup(&root, ROOT, &dir_name).is_ok());
}

fn files(test: &mut LargestRecords) {
    let (dir, _) = test.dir();
    let (empty, _) = test.file(dir);
    let (laid_out, _) = test.laid_out(dir);
    test.attributes(laid_out, 200);
    test.run(MetaOp::SetAttr {
        ino: laid_out,
        set: SetAttr {
            mode: Some(0o4777),
            uid: Some(u32::MAX - 1),
            ..SetAttr::default()
        },
    });
    test.run(MetaOp::KillPrivileges { ino: laid_out });
    test.run(MetaOp::SetXattr {
        ino: laid_out,
        name: xattr(&format!("user.{:x>250}", 1)),
        value: Bytes::from(vec![7; XATTR_VALUE_MAX]),
        mode: XattrMode::CreateOrReplace,
    });
    test.run(MetaOp::RemoveXattr {
        ino: laid_out,
        name: xattr(&format!("user.{:x>250}", 1)),
    });
    for list in ["system.posix_acl_access", "system.posix_acl_default"] {
        test.run(MetaOp::SetXattr {
            ino: dir,
            name: xattr(list),
            value: Bytes::from(longest_acl().to_bytes()),
            mode: XattrMode::CreateOrReplace,
        });
    }
    let rule = Some(longest_rule());
    test.run(MetaOp::SetDefaultLayout {
        ino: dir,
        layout: rule.clone(),
    });
    test.run(MetaOp::SetDefaultLayout {
        ino: empty,
        layout: rule,
    });
    test.run(MetaOp::WriteInline {
        ino: empty,
        at: WritePosition::Offset(0),
        data: Bytes::from(vec![7; 4096]),
        kill_privileges: true,
    });
    // Inline bytes and the longest layout, until the inline bytes are spilled.
    test.run(MetaOp::BeginWrite {
        ino: empty,
        kill_privileges: true,
    });
    test.run(MetaOp::SpillInline {
        ino: empty,
        report: written(),
    });
    test.run(MetaOp::EndWrite {
        ino: empty,
        report: written(),
        keep_lease: true,
    });
    test.run(MetaOp::EndWrite {
        ino: laid_out,
        report: written(),
        keep_lease: false,
    });
    test.run(MetaOp::Truncate {
        ino: laid_out,
        to: 1,
        by_handle: true,
        kill_privileges: true,
    });
    test.run(MetaOp::Open {
        ino: laid_out,
        open: open_how(true),
    });
    test.run(MetaOp::SetFlags {
        ino: empty,
        flags: InodeFlags::SETTABLE,
    });
}

fn sessions(test: &mut LargestRecords) {
    let root = Caller::root();
    test.run(MetaOp::OpenSession {
        client: "c".repeat(256),
    });
    let mut inodes = Vec::new();
    for n in 0..FORGET_MAX {
        // Creating the longest layouts is slow: just enough of them to fill a batch.
        let (ino, text) = match n < 40 {
            true => test.laid_out(ROOT),
            false => test.file(ROOT),
        };
        if n >= 40 && n % 8 == 0 {
            test.attributes(ino, 250);
        }
        if n < 40 {
            test.server.end_write(ino, written(), false).unwrap();
        }
        test.server.unlink(&root, ROOT, &text).unwrap();
        // Some are orphans of another session too, so that their inodes remain.
        if n % 3 == 0 {
            let other = RecordKey::orphan(ino, gupfs_proto::SessionId(8));
            let orphan = test.server.records[&RecordKey::orphan(ino, test.server.session)].clone();
            test.server.records.insert(other, orphan);
            test.server.edit(ino, |inode| inode.orphan_records += 1);
        }
        inodes.push(ino);
    }
    let slot_seq = Some(gupfs_proto::meta::SlotSeq {
        slot: gupfs_proto::Slot(9),
        sequence: 1,
    });
    let op = MetaOp::Forget { inodes };
    for batch in 0.. {
        let effects = test
            .server
            .apply(&root, slot_seq, crate::Operation::Client(&op));
        test.server.batch = effects.batch.clone();
        test.record_size("forgotten");
        test.server.commit(effects.batch);
        if !effects.unfinished {
            assert!(batch > 3, "the request took more than three batches");
            break;
        }
    }
    test.server.batch = Vec::new();
    test.run(MetaOp::CloseSession);
}

fn background(test: &mut LargestRecords) {
    let root = Caller::root();
    let session = test.server.session;
    let shard = VirtualShard(0);
    test.run_background(
        "reserve inode numbers",
        BackgroundOp::ReserveInodeNumbers { shard },
    );
    let (ino, text) = test.laid_out(ROOT);
    let stat = ObjectStat {
        size: 1 << 40,
        ..ObjectStat::default()
    };
    let found = stripes().map(|(component, stripe)| (component, stripe, Some(stat)));
    let found = found.collect();
    test.run_background(
        "recover write lease",
        BackgroundOp::RecoverWriteLease {
            ino,
            session,
            found,
        },
    );
    let found = stripes().map(|(component, stripe)| (component, stripe, true));
    let found = found.collect();
    test.run_background(
        "confirm objects",
        BackgroundOp::ConfirmObjects { ino, found },
    );
    test.server.truncates_at_once = false;
    test.server.truncate(ino, 1).unwrap();
    let id = test.server.pending_truncates.pop().unwrap();
    test.run_background(
        "truncate done",
        BackgroundOp::TruncateDone { id, blocks: 1 },
    );
    test.attributes(ino, 250);
    test.server.unlink(&root, ROOT, &text).unwrap();
    let other = gupfs_proto::SessionId(8);
    test.run_background(
        "record orphan",
        BackgroundOp::RecordOrphan {
            ino,
            session: other,
        },
    );
    test.run_background(
        "forget orphan",
        BackgroundOp::ForgetOrphan {
            ino,
            session: other,
        },
    );
    test.run_background("forget orphan", BackgroundOp::ForgetOrphan { ino, session });
    let number = test.server.purges().iter().map(|(id, _)| id.number).max();
    let number = number.expect("a record of the removal of its objects");
    test.run_background(
        "purge done",
        BackgroundOp::PurgeDone {
            id: PurgeId { ino, number },
        },
    );
    test.run_background("drop session", BackgroundOp::DropSession { session, shard });
    // A file that lost its entries and still has the back links of more than a thousand of them.
    let (ino, text) = test.laid_out(ROOT);
    for n in 0..1_200 {
        let link_name = name(&format!("{n:0>255}"));
        let key = RecordKey::back_link(ino, ROOT, n, &link_name);
        test.server.records.insert(key, BackLink.encode());
    }
    let is_its_name = |key: &RecordKey| matches!(key.parse(), Some(crate::ParsedKey::Entry { ref name, .. }) if name.to_string() == text);
    let entry = test
        .server
        .records
        .keys()
        .find(|key| is_its_name(key))
        .cloned();
    test.server.records.remove(&entry.expect("its name"));
    test.run_background(
        "repair",
        BackgroundOp::Repair(Problem::InodeWithoutEntry { ino }),
    );
    assert_eq!(test.server.batches, 3);
    assert_eq!(test.server.count(RecordKind::BackLink), 1); // of the hard link above
}

/// Whether the test runs the operation: those that make no batch of their own are left out; a new one must be added above.
fn is_tried(op: &MetaOp) -> bool {
    match op {
        MetaOp::Lookup { .. }
        | MetaOp::LookupParent { .. }
        | MetaOp::GetAttr { .. }
        | MetaOp::Access { .. }
        | MetaOp::Readlink { .. }
        | MetaOp::Readdir { .. }
        | MetaOp::GetXattr { .. }
        | MetaOp::ListXattr { .. }
        | MetaOp::StatFs
        | MetaOp::GetDefaultLayout { .. }
        | MetaOp::Sync { .. }
        | MetaOp::Renew
        | MetaOp::Replay { .. }
        | MetaOp::IssueCapability { .. }
        | MetaOp::Lock(_)
        // They make the batches of the operation that they contain, and of `TmpFile`.
        | MetaOp::WithOpenCapability { .. }
        | MetaOp::OpenTmpFile { .. } => false,
        MetaOp::Create { .. }
        | MetaOp::Mkdir { .. }
        | MetaOp::Mknod { .. }
        | MetaOp::Symlink { .. }
        | MetaOp::TmpFile { .. }
        | MetaOp::Link { .. }
        | MetaOp::Unlink { .. }
        | MetaOp::Rmdir { .. }
        | MetaOp::Rename { .. }
        | MetaOp::SetAttr { .. }
        | MetaOp::SetXattr { .. }
        | MetaOp::RemoveXattr { .. }
        | MetaOp::SetDefaultLayout { .. }
        | MetaOp::Open { .. }
        | MetaOp::Truncate { .. }
        | MetaOp::WriteInline { .. }
        | MetaOp::BeginWrite { .. }
        | MetaOp::SpillInline { .. }
        | MetaOp::EndWrite { .. }
        | MetaOp::KillPrivileges { .. }
        | MetaOp::SetFlags { .. }
        | MetaOp::OpenSession { .. }
        | MetaOp::CloseSession
        | MetaOp::Forget { .. } => true,
    }
}

#[test]
fn the_largest_batch_of_every_operation_fits_the_log() {
    let mut test = LargestRecords::new();
    names(&mut test);
    files(&mut test);
    sessions(&mut test);
    background(&mut test);
    // 24 requests (`is_tried`) and 9 background operations (`BackgroundOp`).
    assert!(!is_tried(&MetaOp::StatFs) && is_tried(&MetaOp::CloseSession));
    assert_eq!(test.sizes.len(), 24 + 9, "{:#?}", test.sizes);
    for (op_name, bytes) in &test.sizes {
        let bytes = *bytes as u64;
        let most = match *op_name {
            // The last file may be added to an almost full batch.
            "forgotten" => BATCH_BYTES_MAX.get(),
            _ => BATCH_BYTES_MAX.get() - BATCH_BYTES.get(),
        };
        assert!(
            bytes <= most,
            "{op_name}: {bytes}, at most {most}: {:#?}",
            test.sizes
        );
    }
    assert!(
        test.sizes["forgotten"] as u64 >= BATCH_BYTES.get(),
        "a batch was full"
    );
}
