//! Background operations on the longest records.

use super::records::*;
use crate::check::Problem;
use crate::record::{BackLink, Record};
use crate::testing::*;
use crate::{BackgroundOp, ParsedKey, PurgeId, RecordKey, RecordKind};
use gupfs_proto::data::ObjectStat;
use gupfs_proto::layout::Redundancy;
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{Caller, Generation, InodeId, SessionId, VirtualShard};

pub fn run_background_ops(test: &mut LargestRecords) {
    let session = test.server.session;
    let shard = VirtualShard(0);
    test.run_background(
        "reserve inode numbers",
        BackgroundOp::ReserveInodeNumbers { shard },
    );
    let (ino, text) = test.new_laid_out_file(ROOT);
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
    let ost = test.server.file(ino).layout.components[0].targets[0];
    test.run_background("expect objects", BackgroundOp::ExpectObjects { ino, ost });
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
    run_removal(test, ino, &text);
    run_replacement(test);
    test.run_background("drop session", BackgroundOp::DropSession { session, shard });
}

/// Replaces the members of a mirrored file on one OST.
fn run_replacement(test: &mut LargestRecords) {
    let (ino, _) = test.new_file(ROOT);
    let mut layout = longest_layout();
    for component in &mut layout.components {
        component.redundancy = Redundancy::Mirror(2);
    }
    let layout = Some(layout);
    let op = MetaOp::SetDefaultLayout { ino, layout };
    test.server.request(&Caller::root(), &op).unwrap();
    test.server.begin_write(ino).unwrap();
    test.server.end_write(ino, written(), false).unwrap();
    let ost = test.server.file(ino).layout.components[0].targets[0];
    test.run_background(
        "replace members",
        BackgroundOp::ReplaceMembers {
            ino,
            ost,
            only_stale: false,
        },
    );
    assert_ne!(test.server.file(ino).layout.components[0].targets[0], ost);
    let objects: Vec<_> = (test.server.file(ino).layout.objects(ino))
        .map(|(component, index, ..)| (component as u32, index as u32, ost))
        .collect();
    test.run_background("move objects", BackgroundOp::MoveObjects { ino, objects });
    let mut layout = test.server.file(ino).layout;
    let from = test.server.file(ino).next_generation;
    let generations = from..from + layout.components.len() as u32;
    for (component, generation) in layout.components.iter_mut().zip(generations.clone()) {
        component.generation = Generation(generation);
    }
    test.run_background(
        "reserve generations",
        BackgroundOp::ReserveGenerations { ino, generations },
    );
    let blocks = 1 << 40;
    test.run_background(
        "replace layout",
        BackgroundOp::ReplaceLayout {
            ino,
            layout,
            blocks,
        },
    );
}

/// Removes the file's only name, and the file with its last session.
fn run_removal(test: &mut LargestRecords, ino: InodeId, text: &str) {
    let session = test.server.session;
    test.add_xattrs(ino, 250);
    test.server.unlink(&Caller::root(), ROOT, text).unwrap();
    let other = SessionId(8);
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
}

/// Repairs a file that lost its entries and still has the back links of more than a thousand of them.
pub fn run_repair(test: &mut LargestRecords) {
    let (ino, text) = test.new_laid_out_file(ROOT);
    for n in 0..1_200 {
        let link_name = name(&format!("{n:0>255}"));
        let key = RecordKey::back_link(ino, ROOT, n, &link_name);
        test.server.records.insert(key, BackLink.encode());
    }
    let is_its_name = |key: &RecordKey| matches!(key.parse(), Some(ParsedKey::Entry { ref name, .. }) if name.to_string() == text);
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
