//! Requests of clients on the longest records.

use super::records::*;
use crate::RecordKey;
use crate::testing::*;
use bytes::Bytes;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::layout::Redundancy;
use gupfs_proto::limits::{
    COMPONENTS_MAX, FORGET_MAX, STRIPE_COUNT_MAX, SYMLINK_MAX, XATTR_VALUE_MAX,
};
use gupfs_proto::meta::{MetaOp, RenameMode, SetAttr, WritePosition, XattrMode};
use gupfs_proto::{Caller, FileKind, InodeId, Timestamp};

pub fn run_on_names(test: &mut LargestRecords) {
    let root = Caller::root();
    let (dir, dir_name) = test.new_dir();
    let (name_of, mode) = (|text: String| name(&text), create_mode(0o777));
    let text = test.new_name();
    test.run(MetaOp::Create {
        dir,
        name: name_of(text),
        create_mode: mode,
        exclusive: true,
        open: open_read_write(false),
    });
    let text = test.new_name();
    test.run(MetaOp::CreateForWriting {
        dir,
        name: name_of(text),
        create_mode: mode,
        exclusive: true,
        open: open_read_write(false),
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
    let (file, text) = test.new_laid_out_file(dir);
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
    run_renames(test, dir);
    assert!(test.server.lookup(&root, ROOT, &dir_name).is_ok());
}

fn run_renames(test: &mut LargestRecords, dir: InodeId) {
    // Four inodes change: two directories, the moved file, the replaced file. Another session may have the latter open.
    test.server.is_only_session = false;
    for how in [RenameMode::Replace, RenameMode::Exchange] {
        let ((_, from), (_, to)) = (test.new_laid_out_file(dir), test.new_laid_out_file(ROOT));
        test.run(MetaOp::Rename {
            from: dir,
            name: name(&from),
            to: ROOT,
            new_name: name(&to),
            mode: how,
        });
    }
    test.server.is_only_session = true;
}

pub fn run_on_files(test: &mut LargestRecords) {
    let (dir, _) = test.new_dir();
    let (empty, _) = test.new_file(dir);
    let (laid_out, _) = test.new_laid_out_file(dir);
    test.add_xattrs(laid_out, 200);
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
    let rule = Some(longest_layout());
    test.run(MetaOp::SetDefaultLayout {
        ino: dir,
        layout: rule.clone(),
    });
    test.run(MetaOp::SetDefaultLayout {
        ino: empty,
        layout: rule,
    });
    run_on_contents(test, empty, laid_out);
    let (mirrored, _) = test.new_file(dir);
    run_on_mirrored(test, mirrored);
    test.run(MetaOp::SetFlags {
        ino: empty,
        flags: InodeFlags::SETTABLE,
    });
}

/// Half of all objects are stale at once.
fn run_on_mirrored(test: &mut LargestRecords, ino: InodeId) {
    let mut layout = longest_layout();
    for component in &mut layout.components {
        component.redundancy = Redundancy::Mirror(2);
    }
    let layout = Some(layout);
    test.run(MetaOp::SetDefaultLayout { ino, layout });
    test.run(MetaOp::BeginWrite {
        ino,
        kill_privileges: true,
    });
    let stripes = STRIPE_COUNT_MAX / 2;
    let components = 0..COMPONENTS_MAX as u32;
    let first_copies = components.flat_map(|component| (0..stripes).map(move |at| (component, at)));
    test.run(MetaOp::MarkStale {
        ino,
        objects: first_copies.collect(),
    });
}

/// `empty` has no bytes yet; `laid_out` has a write lease of this session.
fn run_on_contents(test: &mut LargestRecords, empty: InodeId, laid_out: InodeId) {
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
    test.run(MetaOp::DowngradeWrite {
        ino: empty,
        report: written(),
    });
    test.run(MetaOp::BeginWriteAt {
        ino: empty,
        kill_privileges: true,
        contended: true,
    });
    test.run(MetaOp::UpgradeWrite { ino: empty });
    test.run(MetaOp::ReportWrites {
        ino: empty,
        report: written(),
        keep_lease: true,
        ctime: Some(Timestamp::new(i64::MAX, 0)),
        inline: None,
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
        open: open_read_write(true),
    });
}

pub fn run_on_sessions(test: &mut LargestRecords) {
    let root = Caller::root();
    test.run(MetaOp::OpenSession {
        client: "c".repeat(256),
    });
    let mut inodes = Vec::new();
    for n in 0..FORGET_MAX {
        // Creating the longest layouts is slow: just enough of them to fill a batch.
        let (ino, text) = match n < 40 {
            true => test.new_laid_out_file(ROOT),
            false => test.new_file(ROOT),
        };
        if n >= 40 && n % 8 == 0 {
            test.add_xattrs(ino, 250);
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
