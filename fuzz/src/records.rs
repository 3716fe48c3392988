//! Decoding of metadata records: a decoded record, encoded again, decodes to the same record.

use bytes::Bytes;
use gupfs_namespace as namespace;
use gupfs_namespace::{Record, RecordKey};

/// The first byte selects the kind of record.
pub fn record(input: &[u8]) {
    let Some((kind, body)) = input.split_first() else {
        return;
    };
    let body = Bytes::copy_from_slice(body);
    match kind % 15 {
        0 => decode::<namespace::Inode>(&body),
        1 => decode::<namespace::EntryRecord>(&body),
        2 => decode::<namespace::BackLink>(&body),
        3 => decode::<namespace::Orphan>(&body),
        4 => decode::<namespace::Purge>(&body),
        5 => decode::<namespace::SessionRecord>(&body),
        6 => decode::<namespace::StoredReply>(&body),
        7 => decode::<namespace::Usage>(&body),
        8 => decode::<namespace::WriteLease>(&body),
        9 => decode::<namespace::XattrRecord>(&body),
        10 => decode::<namespace::StoreFormat>(&body),
        11 => decode::<namespace::InodeCounter>(&body),
        12 => decode::<namespace::KnownTarget>(&body),
        13 => decode::<namespace::Unconfirmed>(&body),
        _ => {
            let _ = RecordKey::from_bytes(&body).parse();
        }
    }
}

fn decode<R: Record + PartialEq + std::fmt::Debug>(body: &Bytes) {
    if let Ok(record) = R::decode(body) {
        assert_eq!(R::decode(&record.encode()).as_ref(), Ok(&record));
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let session = namespace::SessionRecord {
        client: "host:/mnt".into(),
        created: gupfs_proto::Timestamp::new(1, 2),
        connection: 0,
        slots: 64,
        holds_leases: false,
    };
    let numbered = (0..15).map(|kind| vec![kind, 1, 0, 0, 0, 0, 0, 0, 0]);
    let session = [&[5][..], &session.encode()].concat();
    numbered.chain([session]).collect()
}
