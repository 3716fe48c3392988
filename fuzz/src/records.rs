//! A record of the metadata: what is decoded is what would be encoded.

use bytes::Bytes;
use gupfs_namespace as names;
use gupfs_namespace::{Key, Record};

/// The first byte says of which kind.
pub fn record(input: &[u8]) {
    let Some((kind, body)) = input.split_first() else {
        return;
    };
    let body = Bytes::copy_from_slice(body);
    match kind % 15 {
        0 => decode::<names::Inode>(&body),
        1 => decode::<names::Entry>(&body),
        2 => decode::<names::BackLink>(&body),
        3 => decode::<names::Orphan>(&body),
        4 => decode::<names::Purge>(&body),
        5 => decode::<names::Session>(&body),
        6 => decode::<names::Reply>(&body),
        7 => decode::<names::Usage>(&body),
        8 => decode::<names::Writer>(&body),
        9 => decode::<names::Xattr>(&body),
        10 => decode::<names::Format>(&body),
        11 => decode::<names::Numbers>(&body),
        12 => decode::<names::KnownTarget>(&body),
        13 => decode::<names::Unconfirmed>(&body),
        _ => {
            let _ = Key::from_bytes(&body).parse();
        }
    }
}

fn decode<R: Record + PartialEq + std::fmt::Debug>(body: &Bytes) {
    if let Ok(record) = R::decode(body) {
        assert_eq!(R::decode(&record.encode()).as_ref(), Ok(&record));
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let session = names::Session {
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
