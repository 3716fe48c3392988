//! Golden bytes of every record version. Stores contain these bytes: they never change; a new version gets new tests.

use super::*;
use crate::acl::Acl;
use expect_test::{Expect, expect};
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::layout::{Component, ComponentKind, ComponentState, DefaultLayout};
use gupfs_proto::meta::XattrName;
use gupfs_proto::rebalance::RebalanceOutcome;
use gupfs_proto::{
    ByteCount, ClusterId, DomainName, FileKind, FileMode, FileOffset, Generation, Incarnation,
    InodeId, Layout, OstId, OwnerEpoch, Presence, PresenceMap, ProjectId, Seq, Timestamp,
    VirtualShards, VolumeId,
};

fn check_image<R: Record + PartialEq + std::fmt::Debug>(record: R, expected: Expect) {
    let bytes = record.encode();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    expected.assert_eq(&hex);
    assert_eq!(R::decode(&bytes), Ok(record));
    let longer = [&bytes[..], &[0]].concat();
    if std::any::type_name::<R>() != std::any::type_name::<XattrRecord>() {
        assert_eq!(
            R::decode(&Bytes::from(longer)),
            Err(RecordDecodeError::Trailing(1))
        );
    }
    assert_eq!(
        R::decode(&Bytes::from_static(&[200, 1])),
        Err(RecordDecodeError::Version(200))
    );
    assert_eq!(R::decode(&Bytes::new()), Err(RecordDecodeError::Empty));
}

fn layout() -> Layout {
    let mut presence = PresenceMap::new(2);
    presence.set(0, Presence::Present);
    presence.set(1, Presence::Maybe);
    Layout {
        components: vec![Component {
            from: FileOffset(0),
            to: FileOffset(u64::MAX),
            kind: ComponentKind::Plain,
            unit: ByteCount::mib(1),
            targets: vec![OstId(3), OstId(0)],
            generation: Generation(5),
            state: ComponentState::Live,
            presence,
        }],
    }
}

fn inode(kind: FileKind, body: InodeBody) -> Inode {
    let time = |secs| Timestamp::new(secs, 999_999_999);
    Inode {
        ino: InodeId(0),
        kind,
        mode: FileMode(0o2755),
        uid: 1000,
        gid: 50,
        project: ProjectId(7),
        volume: VolumeId(1),
        names: 2,
        rdev: 0x0801,
        size: 123_456,
        blocks: 248,
        atime: time(-1),
        mtime: time(1_700_000_000),
        ctime: time(1_700_000_001),
        btime: time(1_700_000_002),
        flags: InodeFlags::IMMUTABLE,
        parent: Some(DentryPosition {
            dir: InodeId(0x0003_0000_0000_0101),
            hash: 0x55_1234_5678_9abc,
        }),
        birth_snapshot: 3,
        change: 4,
        data_version: 5,
        orphan_records: 1,
        xattrs: 2,
        xattr_names: 20,
        acl: Some(Acl {
            owner: 7,
            users: vec![(1001, 6)],
            group: 5,
            groups: vec![(60, 4)],
            mask: Some(7),
            other: 1,
        }),
        security: vec![(
            XattrName::new(b"security.x").unwrap(),
            Bytes::from_static(b"label"),
        )],
        body,
    }
}

#[test]
fn inodes_of_version_1() {
    check_image(
        inode(
            FileKind::Regular,
            InodeBody::File(FileBody {
                layout: layout(),
                inline: Bytes::from_static(b"inline"),
                next_generation: 6,
                truncating: Some(UnfinishedTruncate { to: 10, number: 5 }),
                write_leases: 1,
                default_layout: Some(DefaultLayout::default()),
                linkable: true,
            }),
        ),
        expect![
            "0100ed0be807320701028110c0c407f80101ff93ebdc0380c49fd50cff93ebdc0382c49fd50cff93ebdc0384c49fd50cff93ebdc030101818280808080c001bcb5e2b3c5c6c42a030405010214010701e9070605013c04010701010a73656375726974792e78056c6162656c000100ffffffffffffffffff01008080400203000500010606696e6c696e6506010a05010102808080028080400100ffffffffffffffffff01808040040001"
        ],
    );
    check_image(
        inode(
            FileKind::Directory,
            InodeBody::Directory(DirectoryBody {
                entries: 300,
                subdirs: 2,
                salt: 0x0123_4567_89ab_cdef,
                default_layout: Some(DirectoryDefaultLayout {
                    layout: DefaultLayout::default(),
                    is_own: true,
                }),
                default_acl: Some(Acl {
                    owner: 7,
                    users: vec![],
                    group: 5,
                    groups: vec![],
                    mask: None,
                    other: 0,
                }),
                parts: 0,
                subtree: Some(inode::SubtreeUsage {
                    bytes: 1,
                    files: 2,
                    directories: 3,
                }),
            }),
        ),
        expect![
            "0101ed0be807320701028110c0c407f80101ff93ebdc0380c49fd50cff93ebdc0382c49fd50cff93ebdc0384c49fd50cff93ebdc030101818280808080c001bcb5e2b3c5c6c42a030405010214010701e9070605013c04010701010a73656375726974792e78056c6162656c01ac0202ef9bafcdf8acd191010102808080028080400100ffffffffffffffffff01808040040001010700050000000001010203"
        ],
    );
    check_image(
        inode(FileKind::Symlink, InodeBody::Symlink(b"../x".to_vec())),
        expect![
            "0102ed0be807320701028110c0c407f80101ff93ebdc0380c49fd50cff93ebdc0382c49fd50cff93ebdc0384c49fd50cff93ebdc030101818280808080c001bcb5e2b3c5c6c42a030405010214010701e9070605013c04010701010a73656375726974792e78056c6162656c02042e2e2f78"
        ],
    );
    check_image(
        inode(FileKind::Fifo, InodeBody::Special),
        expect![
            "0103ed0be807320701028110c0c407f80101ff93ebdc0380c49fd50cff93ebdc0382c49fd50cff93ebdc0384c49fd50cff93ebdc030101818280808080c001bcb5e2b3c5c6c42a030405010214010701e9070605013c04010701010a73656375726974792e78056c6162656c03"
        ],
    );
}

#[test]
fn small_records_of_version_1() {
    check_image(
        EntryRecord {
            ino: InodeId(0x0003_0000_0000_0101),
            kind: FileKind::Regular,
            birth_snapshot: 2,
        },
        expect!["01818280808080c0010002"],
    );
    check_image(BackLink, expect!["01"]);
    check_image(
        XattrRecord(Bytes::from_static(b"value")),
        expect!["0176616c7565"],
    );
    let since = Timestamp::new(1_700_000_000, 5);
    check_image(Orphan { since }, expect!["0180c49fd50c05"]);
    check_image(Unconfirmed { since }, expect!["0180c49fd50c05"]);
    check_image(StaleMembers { since }, expect!["0180c49fd50c05"]);
    let session = SessionRecord {
        client: "host".into(),
        created: since,
        connection: 2,
        slots: 64,
        holds_leases: true,
    };
    check_image(session, expect!["0104686f737480c49fd50c05024001"]);
    check_image(InodeCounter { next: 65_792 }, expect!["01808204"]);
    check_image(
        Usage {
            inodes: 5,
            purging: 1,
        },
        expect!["010501"],
    );
    let format = StoreFormat {
        reader: 1,
        writer: 1,
        features: 0,
        cluster: ClusterId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
        incarnation: Incarnation(7),
        shards: VirtualShards(64),
    };
    check_image(
        format,
        expect!["01010100ef9bafcdf8acd19181deb7de9af1d9a2a3020740"],
    );
    check_image(RecordedInterest, expect!["01"]);
    check_image(
        AcceptedLoss {
            from: OwnerEpoch(300),
            epochs_skipped: 5,
            sessions_skipped: 1 << 40,
            when: Timestamp::new(1_700_000_000, 0),
        },
        expect!["01ac020580808080802080c49fd50c00"],
    );
}

#[test]
fn a_rebalance_of_version_1() {
    let going_on = Rebalance {
        since: Timestamp::new(1_700_000_000, 5),
        rate: Some(300),
        within: 3,
        is_paused: true,
        outcome: None,
    };
    check_image(going_on.clone(), expect!["0180c49fd50c0501ac02030100"]);
    let outcome = RebalanceOutcome {
        at: Timestamp::new(1_700_000_000, 5),
        is_even: false,
        why: Some("why".into()),
    };
    check_image(
        Rebalance {
            rate: None,
            outcome: Some(outcome),
            ..going_on
        },
        expect!["0180c49fd50c050003010180c49fd50c05000103776879"],
    );
}

#[test]
fn write_leases_of_version_2() {
    let since = Timestamp::new(1_700_000_000, 5);
    let exclusive = WriteLease {
        since,
        mode: WriteLeaseMode::Exclusive,
    };
    check_image(exclusive, expect!["0280c49fd50c0500"]);
    check_image(
        WriteLease {
            mode: WriteLeaseMode::Concurrent,
            ..exclusive
        },
        expect!["0280c49fd50c0501"],
    );
    // Of version 1, when every lease was exclusive.
    let old = Bytes::from_static(b"\x01\x80\xc4\x9f\xd5\x0c\x05");
    assert_eq!(WriteLease::decode(&old), Ok(exclusive));
}

#[test]
fn known_targets_of_version_2() {
    check_image(
        KnownTarget {
            incarnation: Incarnation(7),
            stamp: 300,
            run: 1,
            adopting: 2,
            owner: OwnerEpoch(300),
            owner_run: 3,
            lost_since: None,
            draining_since: None,
            is_removed: false,
            domain: None,
            accepted: None,
            drain: DrainSettings::default(),
        },
        expect!["0207ac020102ac0203"],
    );
    check_image(
        RetiredVerifier {
            incarnation: Incarnation(7),
            upto: gupfs_proto::WriteVerifier(300),
        },
        expect!["0107ac02"],
    );
}

#[test]
fn a_known_target_of_version_1_has_no_owner() {
    let first = [0x01, 0x07, 0xac, 0x02, 0x01];
    let read = KnownTarget::decode(&Bytes::copy_from_slice(&first));
    let expected = KnownTarget {
        incarnation: Incarnation(7),
        stamp: 300,
        run: 1,
        adopting: 0,
        owner: OwnerEpoch(0),
        owner_run: 0,
        lost_since: None,
        draining_since: None,
        is_removed: false,
        domain: None,
        accepted: None,
        drain: DrainSettings::default(),
    };
    assert_eq!(read, Ok(expected));
}

#[test]
fn known_targets_that_are_lost_have_version_3() {
    check_image(
        KnownTarget {
            incarnation: Incarnation(7),
            stamp: 300,
            run: 1,
            adopting: 2,
            owner: OwnerEpoch(300),
            owner_run: 3,
            lost_since: Some(Timestamp::new(1_700_000_000, 5)),
            draining_since: None,
            is_removed: false,
            domain: None,
            accepted: None,
            drain: DrainSettings::default(),
        },
        expect!["0307ac020102ac02030180c49fd50c05"],
    );
}

#[test]
fn known_targets_that_are_drained_have_version_4() {
    let draining = KnownTarget {
        incarnation: Incarnation(7),
        stamp: 300,
        run: 1,
        adopting: 2,
        owner: OwnerEpoch(300),
        owner_run: 3,
        lost_since: None,
        draining_since: Some(Timestamp::new(1_700_000_000, 5)),
        is_removed: false,
        domain: None,
        accepted: None,
        drain: DrainSettings::default(),
    };
    check_image(draining, expect!["0407ac020102ac0203000180c49fd50c0500"]);
    check_image(
        KnownTarget {
            lost_since: Some(Timestamp::new(1_700_000_000, 6)),
            is_removed: true,
            ..draining
        },
        expect!["0407ac020102ac02030180c49fd50c060180c49fd50c0501"],
    );
}

#[test]
fn known_targets_with_a_failure_domain_an_accepted_copy_or_settings_of_a_drain_have_version_5() {
    let known = KnownTarget {
        incarnation: Incarnation(7),
        stamp: 300,
        run: 1,
        adopting: 2,
        owner: OwnerEpoch(300),
        owner_run: 3,
        lost_since: None,
        draining_since: None,
        is_removed: false,
        domain: DomainName::new("rack7"),
        accepted: None,
        drain: DrainSettings::default(),
    };
    check_image(
        known,
        expect!["0507ac020102ac020300000001057261636b37000000"],
    );
    let accepted = AcceptedCopy {
        incarnation: Incarnation(8),
        stamp: 299,
        run: 9,
    };
    check_image(
        KnownTarget {
            domain: None,
            accepted: Some(accepted),
            drain: DrainSettings {
                rate: Some(300),
                is_paused: true,
            },
            ..known
        },
        expect!["0507ac020102ac0203000000000108ab020901ac0201"],
    );
}

#[test]
fn stored_replies_of_version_2() {
    let ino = InodeId(0x0003_0000_0000_0101);
    let reply = |summary| StoredReply {
        sequence: 300,
        digest: u64::MAX,
        summary,
        seq: Seq(5),
    };
    check_image(
        reply(ReplySummary::Done),
        expect!["02ac02ffffffffffffffffff010005"],
    );
    check_image(
        reply(ReplySummary::Attr(ino)),
        expect!["02ac02ffffffffffffffffff0101818280808080c00105"],
    );
    check_image(
        reply(ReplySummary::Entry(ino)),
        expect!["02ac02ffffffffffffffffff0102818280808080c00105"],
    );
    check_image(
        reply(ReplySummary::Opened { ino, created: true }),
        expect!["02ac02ffffffffffffffffff0103818280808080c0010105"],
    );
    check_image(
        reply(ReplySummary::Removed {
            victim: Some(ino),
            orphan: true,
            moved: None,
        }),
        expect!["02ac02ffffffffffffffffff010401818280808080c001010005"],
    );
}

#[test]
fn a_stored_reply_of_version_1_has_seq_0() {
    let first = [
        0x01, 0xac, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00,
    ];
    let read = StoredReply::decode(&Bytes::copy_from_slice(&first));
    let expected = StoredReply {
        sequence: 300,
        digest: u64::MAX,
        summary: ReplySummary::Done,
        seq: Seq(0),
    };
    assert_eq!(read, Ok(expected));
}

#[test]
fn purges_of_version_1() {
    let purge = |action| Purge {
        action,
        layout: layout(),
        volume: VolumeId(1),
        size: 99,
    };
    check_image(
        purge(PurgeAction::Remove),
        expect!["01000100ffffffffffffffffff0100808040020300050001060163"],
    );
    check_image(
        purge(PurgeAction::Truncate { to: 4096 }),
        expect!["010180200100ffffffffffffffffff0100808040020300050001060163"],
    );
}

#[test]
fn the_inode_record_of_an_ordinary_file_is_small() {
    let usual = Inode {
        acl: None,
        security: vec![],
        ..inode(FileKind::Regular, InodeBody::File(FileBody::default()))
    };
    assert!(usual.encode().len() < 128, "{}", usual.encode().len());
    let file = FileBody {
        layout: layout(),
        ..FileBody::default()
    };
    let laid_out = Inode {
        acl: None,
        security: vec![],
        ..inode(FileKind::Regular, InodeBody::File(file))
    };
    assert!(laid_out.encode().len() < 160, "{}", laid_out.encode().len());
}
