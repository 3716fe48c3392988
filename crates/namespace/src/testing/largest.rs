//! Every operation at its largest: the longest names, values, lists and layouts, on the longest records that are legal. Each makes a batch
//! within the limits that the log has room for.

use super::*;
use crate::acl::Acl;
use crate::check::Problem;
use crate::record::{BackLink, Record, Xattr};
use crate::{ChoreOp, Key, Kind, PurgeId};
use bytes::Bytes;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::layout::{ComponentRule, LayoutRule};
use gupfs_proto::limits::{
    BATCH_BYTES, BATCH_BYTES_MAX, COMPONENTS_MAX, FORGOTTEN_MAX, STRIPE_COUNT_MAX, STRIPE_UNIT_MIN,
    SYMLINK_MAX, XATTR_VALUE_MAX,
};
use gupfs_proto::meta::{Access, Op, OpenHow, RenameHow, SetAttr, WriteAt, XattrHow};
use gupfs_proto::units::{ByteCount, FileOffset};
use gupfs_proto::{Caller, FileKind, InodeId, OstId, VirtualShard};
use std::collections::BTreeMap;

/// A server whose every record is as long as it can be, and how large each operation's largest batch was.
struct Scene {
    server: Server,
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

fn longest_rule() -> LayoutRule {
    let last = COMPONENTS_MAX - 1;
    let component = |n: usize| ComponentRule {
        to: FileOffset(if n == last {
            u64::MAX
        } else {
            (n as u64 + 1) << 60 >> 4
        }),
        unit: ByteCount(STRIPE_UNIT_MIN.0),
        count: STRIPE_COUNT_MAX,
        first: Some(OstId(u16::MAX)),
    };
    LayoutRule {
        components: (0..COMPONENTS_MAX).map(component).collect(),
    }
}

/// Every (component, stripe) of the longest layout.
fn stripes() -> impl Iterator<Item = (u32, u32)> {
    (0..COMPONENTS_MAX as u32)
        .flat_map(|component| (0..STRIPE_COUNT_MAX).map(move |stripe| (component, stripe)))
}

impl Scene {
    fn new() -> Scene {
        let mut server = Server::new(1);
        let first = server.targets[0].clone();
        let target = |n: u32| gupfs_proto::meta::TargetState {
            ost: OstId(u16::MAX - n as u16),
            ..first.clone()
        };
        server.targets = (0..STRIPE_COUNT_MAX).map(target).collect();
        server.repeats = false;
        let mut scene = Scene {
            server,
            sizes: BTreeMap::new(),
            number: 0,
        };
        scene.fatten(ROOT);
        scene
    }

    /// As long a record as this inode can have.
    fn fatten(&mut self, ino: InodeId) {
        self.server.edit(ino, |inode| {
            inode.acl = Some(longest_acl());
            if let Ok(dir) = inode.directory_mut() {
                dir.default_acl = Some(longest_acl());
                dir.rule = Some(crate::record::Ruled {
                    rule: longest_rule(),
                    own: true,
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
        let what = self.new_name();
        let root = Caller::root();
        let ino = self.server.mkdir(&root, ROOT, &what, 0o777).unwrap().ino;
        self.fatten(ino);
        (ino, what)
    }

    /// An empty file.
    fn file(&mut self, dir: InodeId) -> (InodeId, String) {
        let what = self.new_name();
        let root = Caller::root();
        let ino = self.server.create(&root, dir, &what, 0o666).unwrap().ino;
        self.fatten(ino);
        (ino, what)
    }

    /// A file with the longest layout, all objects of which may exist, that this session writes.
    fn laid_out(&mut self, dir: InodeId) -> (InodeId, String) {
        let (ino, what) = self.file(dir);
        let opened = self.server.begin_write(ino).unwrap();
        let stripes: usize = opened
            .layout
            .components
            .iter()
            .map(|component| component.targets.len())
            .sum();
        assert_eq!(stripes, COMPONENTS_MAX * STRIPE_COUNT_MAX as usize);
        (ino, what)
    }

    fn attributes(&mut self, ino: InodeId, count: usize) {
        let names: Vec<String> = (0..count).map(|n| format!("user.{n:0>250}")).collect();
        for name in &names {
            let value = Xattr(Bytes::from_static(b"v")).encode();
            let key = Key::xattr(ino, name.as_bytes());
            self.server.records.insert(key, value);
        }
        self.server.edit(ino, |inode| {
            inode.xattrs = count as u32;
            inode.xattr_names = names.iter().map(|name| name.len() as u32 + 1).sum();
        });
    }

    fn noted(&mut self, what: &'static str) {
        let bytes = batch_bytes(&self.server.batch);
        let size = self.sizes.entry(what).or_default();
        *size = bytes.max(*size);
    }

    fn does(&mut self, op: Op) {
        let answer = self.server.ask(&Caller::root(), &op);
        assert!(answer.is_ok(), "{}: {answer:?}", op.name());
        self.noted(op.name());
    }

    fn chore(&mut self, what: &'static str, chore: ChoreOp) {
        let answer = self.server.chore(&chore);
        assert!(answer.is_ok(), "{what}: {answer:?}");
        self.noted(what);
    }
}

fn open_how(truncate: bool) -> OpenHow {
    OpenHow {
        access: Access::READ | Access::WRITE,
        truncate,
        kill_privileges: true,
    }
}

fn written() -> gupfs_proto::meta::Written {
    gupfs_proto::meta::Written {
        size: 1 << 50,
        mtime: None,
        atime: None,
        blocks: 1 << 41,
        present: stripes().collect(),
        unsynced: stripes().collect(),
    }
}

fn names(scene: &mut Scene) {
    let root = Caller::root();
    let (dir, dir_name) = scene.dir();
    let (name_of, mode) = (|text: String| name(&text), make(0o777));
    let text = scene.new_name();
    scene.does(Op::Create {
        dir,
        name: name_of(text),
        make: mode,
        exclusive: true,
        open: open_how(false),
    });
    let text = scene.new_name();
    let to = name_of(text);
    scene.does(Op::Mkdir {
        dir,
        name: to.clone(),
        make: mode,
    });
    scene.does(Op::Rmdir { dir, name: to });
    let text = scene.new_name();
    scene.does(Op::Mknod {
        dir,
        name: name_of(text),
        kind: FileKind::Fifo,
        rdev: u32::MAX,
        make: mode,
    });
    let text = scene.new_name();
    scene.does(Op::Symlink {
        dir,
        name: name_of(text),
        target: vec![b'x'; SYMLINK_MAX],
    });
    scene.does(Op::TmpFile { dir, make: mode });
    let (file, text) = scene.laid_out(dir);
    let other = scene.new_name();
    scene.does(Op::Link {
        ino: file,
        dir: ROOT,
        name: name_of(other),
    });
    scene.does(Op::Unlink {
        dir,
        name: name_of(text),
    });
    // Four inodes change: two directories, what is moved, what it replaces. Another session may have the latter open.
    scene.server.alone = false;
    for how in [RenameHow::Replace, RenameHow::Exchange] {
        let ((_, from), (_, to)) = (scene.laid_out(dir), scene.laid_out(ROOT));
        scene.does(Op::Rename {
            from: dir,
            name: name_of(from),
            to: ROOT,
            new_name: name_of(to),
            how,
        });
    }
    scene.server.alone = true;
    assert!(scene.server.lookup(&root, ROOT, &dir_name).is_ok());
}

fn files(scene: &mut Scene) {
    let (dir, _) = scene.dir();
    let (empty, _) = scene.file(dir);
    let (laid_out, _) = scene.laid_out(dir);
    scene.attributes(laid_out, 200);
    scene.does(Op::SetAttr {
        ino: laid_out,
        set: SetAttr {
            mode: Some(0o4777),
            uid: Some(u32::MAX - 1),
            ..SetAttr::default()
        },
    });
    scene.does(Op::KillPrivileges { ino: laid_out });
    scene.does(Op::SetXattr {
        ino: laid_out,
        name: xattr(&format!("user.{:x>250}", 1)),
        value: Bytes::from(vec![7; XATTR_VALUE_MAX]),
        how: XattrHow::Either,
    });
    scene.does(Op::RemoveXattr {
        ino: laid_out,
        name: xattr(&format!("user.{:x>250}", 1)),
    });
    for list in ["system.posix_acl_access", "system.posix_acl_default"] {
        scene.does(Op::SetXattr {
            ino: dir,
            name: xattr(list),
            value: Bytes::from(longest_acl().to_bytes()),
            how: XattrHow::Either,
        });
    }
    let rule = Some(longest_rule());
    scene.does(Op::SetLayoutRule {
        ino: dir,
        rule: rule.clone(),
    });
    scene.does(Op::SetLayoutRule { ino: empty, rule });
    scene.does(Op::WriteInline {
        ino: empty,
        at: WriteAt::Offset(0),
        data: Bytes::from(vec![7; 4096]),
        kill_privileges: true,
    });
    // Inline bytes and the longest layout, until the former are moved.
    scene.does(Op::BeginWrite {
        ino: empty,
        kill_privileges: true,
    });
    scene.does(Op::Spilled {
        ino: empty,
        written: written(),
    });
    scene.does(Op::EndWrite {
        ino: empty,
        written: written(),
        keep: true,
    });
    scene.does(Op::EndWrite {
        ino: laid_out,
        written: written(),
        keep: false,
    });
    scene.does(Op::Truncate {
        ino: laid_out,
        to: 1,
        by_handle: true,
        kill_privileges: true,
    });
    scene.does(Op::Open {
        ino: laid_out,
        open: open_how(true),
    });
    scene.does(Op::SetFlags {
        ino: empty,
        flags: InodeFlags::SETTABLE,
    });
}

fn sessions(scene: &mut Scene) {
    let root = Caller::root();
    scene.does(Op::OpenSession {
        client: "c".repeat(256),
    });
    let mut inodes = Vec::new();
    for n in 0..FORGOTTEN_MAX {
        // The longest layouts are slow to make: enough of them to fill a batch.
        let (ino, text) = match n < 40 {
            true => scene.laid_out(ROOT),
            false => scene.file(ROOT),
        };
        if n >= 40 && n % 8 == 0 {
            scene.attributes(ino, 250);
        }
        if n < 40 {
            scene.server.end_write(ino, written(), false).unwrap();
        }
        scene.server.unlink(&root, ROOT, &text).unwrap();
        // Some are held by another session too, so that their inodes stay.
        if n % 3 == 0 {
            let other = Key::orphan(ino, gupfs_proto::SessionId(8));
            let orphan = scene.server.records[&Key::orphan(ino, scene.server.session)].clone();
            scene.server.records.insert(other, orphan);
            scene.server.edit(ino, |inode| inode.holders += 1);
        }
        inodes.push(ino);
    }
    let lane = Some(gupfs_proto::meta::Lane {
        slot: gupfs_proto::Slot(9),
        sequence: 1,
    });
    let op = Op::Forgotten { inodes };
    for batch in 0.. {
        let effects = scene.server.apply(&root, lane, crate::Op::Client(&op));
        scene.server.batch = effects.batch.clone();
        scene.noted("forgotten");
        scene.server.commit(effects.batch);
        if !effects.unfinished {
            assert!(batch > 3, "it was more than one batch");
            break;
        }
    }
    scene.server.batch = Vec::new();
    scene.does(Op::CloseSession);
}

fn chores(scene: &mut Scene) {
    let root = Caller::root();
    let session = scene.server.session;
    let shard = VirtualShard(0);
    scene.chore("reserve numbers", ChoreOp::ReserveNumbers { shard });
    let (ino, text) = scene.laid_out(ROOT);
    let stat = ObjectStat {
        size: 1 << 40,
        ..ObjectStat::default()
    };
    let found = stripes().map(|(component, stripe)| (component, stripe, Some(stat)));
    let found = found.collect();
    scene.chore(
        "recover writer",
        ChoreOp::RecoverWriter {
            ino,
            session,
            found,
        },
    );
    let found = stripes().map(|(component, stripe)| (component, stripe, true));
    let found = found.collect();
    scene.chore("confirmed", ChoreOp::Confirmed { ino, found });
    scene.server.cuts_at_once = false;
    scene.server.truncate(ino, 1).unwrap();
    let id = scene.server.cuts.pop().unwrap();
    scene.chore("cut done", ChoreOp::CutDone { id, blocks: 1 });
    scene.attributes(ino, 250);
    scene.server.unlink(&root, ROOT, &text).unwrap();
    let other = gupfs_proto::SessionId(8);
    scene.chore(
        "hold orphan",
        ChoreOp::HoldOrphan {
            ino,
            session: other,
        },
    );
    scene.chore(
        "forget orphan",
        ChoreOp::ForgetOrphan {
            ino,
            session: other,
        },
    );
    scene.chore("forget orphan", ChoreOp::ForgetOrphan { ino, session });
    let number = scene.server.purges().iter().map(|(id, _)| id.number).max();
    let number = number.expect("its objects are to be removed");
    scene.chore(
        "purge done",
        ChoreOp::PurgeDone {
            id: PurgeId { ino, number },
        },
    );
    scene.chore("drop session", ChoreOp::DropSession { session, shard });
    // A file that lost its names, and has what pointed back from a thousand of them.
    let (ino, text) = scene.laid_out(ROOT);
    for n in 0..1_200 {
        let what = name(&format!("{n:0>255}"));
        let key = Key::back_link(ino, ROOT, n, &what);
        scene.server.records.insert(key, BackLink.encode());
    }
    let is_its_name = |key: &Key| matches!(key.parse(), Some(crate::Parsed::Entry { ref name, .. }) if name.to_string() == text);
    let entry = scene
        .server
        .records
        .keys()
        .find(|key| is_its_name(key))
        .cloned();
    scene.server.records.remove(&entry.expect("its name"));
    scene.chore(
        "repair",
        ChoreOp::Repair(Problem::InodeWithoutEntry { ino }),
    );
    assert_eq!(scene.server.batches, 3);
    assert_eq!(scene.server.count(Kind::BackLink), 1); // of the hard link above
}

/// Operations that change nothing, or nothing by themselves, are left out; a new one is to be tried above.
fn is_tried(op: &Op) -> bool {
    match op {
        Op::Lookup { .. }
        | Op::LookupParent { .. }
        | Op::GetAttr { .. }
        | Op::Access { .. }
        | Op::Readlink { .. }
        | Op::Readdir { .. }
        | Op::GetXattr { .. }
        | Op::ListXattr { .. }
        | Op::StatFs
        | Op::GetLayoutRule { .. }
        | Op::Sync { .. }
        | Op::Renew
        | Op::Return { .. }
        | Op::Permit { .. }
        | Op::Lock(_)
        // Done as the operation that is in it, and as `TmpFile`.
        | Op::Proven { .. }
        | Op::OpenTmpFile { .. } => false,
        Op::Create { .. }
        | Op::Mkdir { .. }
        | Op::Mknod { .. }
        | Op::Symlink { .. }
        | Op::TmpFile { .. }
        | Op::Link { .. }
        | Op::Unlink { .. }
        | Op::Rmdir { .. }
        | Op::Rename { .. }
        | Op::SetAttr { .. }
        | Op::SetXattr { .. }
        | Op::RemoveXattr { .. }
        | Op::SetLayoutRule { .. }
        | Op::Open { .. }
        | Op::Truncate { .. }
        | Op::WriteInline { .. }
        | Op::BeginWrite { .. }
        | Op::Spilled { .. }
        | Op::EndWrite { .. }
        | Op::KillPrivileges { .. }
        | Op::SetFlags { .. }
        | Op::OpenSession { .. }
        | Op::CloseSession
        | Op::Forgotten { .. } => true,
    }
}

#[test]
fn every_operation_at_its_largest_makes_a_batch_that_the_log_takes() {
    let mut scene = Scene::new();
    names(&mut scene);
    files(&mut scene);
    sessions(&mut scene);
    chores(&mut scene);
    // 24 requests and 9 chores: those that `is_tried` names, and `ChoreOp`.
    assert!(!is_tried(&Op::StatFs) && is_tried(&Op::CloseSession));
    assert_eq!(scene.sizes.len(), 24 + 9, "{:#?}", scene.sizes);
    for (what, bytes) in &scene.sizes {
        let bytes = *bytes as u64;
        let most = match *what {
            // One more file after what filled the batch.
            "forgotten" => BATCH_BYTES_MAX.get(),
            _ => BATCH_BYTES_MAX.get() - BATCH_BYTES.get(),
        };
        assert!(
            bytes <= most,
            "{what}: {bytes}, at most {most}: {:#?}",
            scene.sizes
        );
    }
    assert!(
        scene.sizes["forgotten"] as u64 >= BATCH_BYTES.get(),
        "a batch was full"
    );
}
