use super::*;

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

#[test]
fn every_key_parses_back() {
    for (key, parsed) in keys_of_the_store().into_iter().chain(keys_of_inodes()) {
        assert_eq!(key.parse(), Some(parsed));
        assert_eq!(
            RecordKey::from_bytes(&key.as_bytes()[..key.as_bytes().len() - 1]).parse(),
            None.or(without_last_byte(&key))
        );
    }
}

fn keys_of_the_store() -> Vec<(RecordKey, ParsedKey)> {
    let (session, slot, shard) = (SessionId(7), Slot(3), VirtualShard(0x0102));
    vec![
        (RecordKey::format(), ParsedKey::Format),
        (RecordKey::accepted_loss(), ParsedKey::AcceptedLoss),
        (
            RecordKey::known_target(OstId(3)),
            ParsedKey::KnownTarget(OstId(3)),
        ),
        (
            RecordKey::retired_verifier(OstId(3)),
            ParsedKey::RetiredVerifier(OstId(3)),
        ),
        (
            RecordKey::inode_counter(shard),
            ParsedKey::InodeCounter(shard),
        ),
        (
            RecordKey::usage(shard, VolumeId(9)),
            ParsedKey::Usage {
                shard,
                volume: VolumeId(9),
            },
        ),
        (RecordKey::session(session), ParsedKey::Session(session)),
        (
            RecordKey::reply(shard, session, slot),
            ParsedKey::Reply {
                shard,
                session,
                slot,
            },
        ),
    ]
}

fn keys_of_inodes() -> Vec<(RecordKey, ParsedKey)> {
    let ino = InodeId::new(VirtualShard(0x0102), 0x0304);
    let session = SessionId(7);
    vec![
        (RecordKey::inode(ino), ParsedKey::Inode(ino)),
        (
            RecordKey::entry(ino, 5, &name("a")),
            ParsedKey::Entry {
                dir: ino,
                hash: 5,
                name: name("a"),
            },
        ),
        (
            RecordKey::xattr(ino, b"user.a"),
            ParsedKey::Xattr {
                ino,
                name: b"user.a".to_vec(),
            },
        ),
        (
            RecordKey::back_link(ino, InodeId(8), 5, &name("b")),
            ParsedKey::BackLink {
                ino,
                dir: InodeId(8),
                hash: 5,
                name: name("b"),
            },
        ),
        (
            RecordKey::orphan(ino, session),
            ParsedKey::Orphan { ino, session },
        ),
        (
            RecordKey::write_lease(ino, session),
            ParsedKey::WriteLease { ino, session },
        ),
        (RecordKey::unconfirmed(ino), ParsedKey::Unconfirmed(ino)),
        (RecordKey::rebalance(), ParsedKey::Rebalance),
        (
            RecordKey::interests_recorded(),
            ParsedKey::InterestsRecorded,
        ),
        (
            RecordKey::interest(session, Interest::Directory(ino)),
            ParsedKey::Interest {
                session,
                interest: Interest::Directory(ino),
            },
        ),
        (
            RecordKey::purge(PurgeId { ino, number: 4 }),
            ParsedKey::Purge(PurgeId { ino, number: 4 }),
        ),
    ]
}

/// The result of parsing a key without its last byte: only an extended attribute's key stays valid, with a shorter name.
fn without_last_byte(key: &RecordKey) -> Option<ParsedKey> {
    match key.parse()? {
        ParsedKey::Xattr { ino, mut name } => {
            name.pop();
            Some(ParsedKey::Xattr { ino, name })
        }
        _ => None,
    }
}

#[test]
fn an_inodes_key_range_has_its_records_and_no_others() {
    let ino = InodeId(0xff);
    let range = KeyRange::of_inode(ino, RecordKind::Entry);
    let inside = RecordKey::entry(ino, u64::MAX, &name("z"));
    let behind = RecordKey::entry(InodeId(0x100), 0, &name("a"));
    assert!(range.from <= inside && inside < range.to && range.to <= behind);
}

#[test]
fn an_inode_key_with_the_wrong_shard_does_not_parse() {
    let mut bytes = RecordKey::inode(InodeId::new(VirtualShard(1), 5))
        .as_bytes()
        .to_vec();
    bytes[1] = 2;
    assert_eq!(RecordKey::from_bytes(&bytes).parse(), None);
}
