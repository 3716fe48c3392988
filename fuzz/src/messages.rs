//! A message: what is read is what would be written, and nothing else is read.

use bytes::Bytes;
use gupfs_proto::meta::{self, Op};
use gupfs_proto::wire::Message;
use gupfs_proto::{Caller, InodeId, Name, OwnerEpoch, Seq, SessionId, cluster, data, recall};

/// The first byte says of which kind, the second how many of the last bytes are payload (by 16).
pub fn message(input: &[u8]) {
    let [kind, payload, rest @ ..] = input else {
        return;
    };
    let payload = (usize::from(*payload) * 16).min(rest.len());
    let (body, payload) = rest.split_at(rest.len() - payload);
    let payload = Bytes::copy_from_slice(payload);
    match kind % 8 {
        0 => read::<meta::Request>(body, payload),
        1 => read::<meta::Reply>(body, payload),
        2 => read::<data::Request>(body, payload),
        3 => read::<data::Reply>(body, payload),
        4 => read::<recall::Request>(body, payload),
        5 => read::<recall::Reply>(body, payload),
        6 => read::<cluster::Request>(body, payload),
        _ => read::<cluster::Reply>(body, payload),
    }
}

fn read<M: Message + PartialEq + Clone + std::fmt::Debug>(body: &[u8], payload: Bytes) {
    let Ok(message) = M::read(body, payload) else {
        return;
    };
    let written = message.clone().write();
    let again = M::read(&written.body, written.payload);
    assert_eq!(again.as_ref(), Ok(&message));
}

pub fn seeds() -> Vec<Vec<u8>> {
    let request = |op| meta::Request {
        session: SessionId(1),
        lane: None,
        caller: Caller::new(7, 8, vec![9]),
        job: 3,
        life: OwnerEpoch(1),
        seen: Seq(5),
        op,
    };
    let name = Name::new(b"name").expect("a name");
    let ops = [
        Op::StatFs,
        Op::Lookup {
            dir: InodeId(1),
            name,
        },
        Op::OpenSession {
            client: "host:/mnt".into(),
        },
        Op::Symlink {
            dir: InodeId(1),
            name: Name::new(b"link").expect("a name"),
            target: b"/to".to_vec(),
        },
    ];
    let meta = ops.map(|op| [&[0, 0][..], &request(op).write().body].concat());
    let here = cluster::Request::Here {
        address: "host:7701".into(),
        targets: Vec::new(),
    };
    let refused: meta::Reply = gupfs_proto::wire::Reply::refused(gupfs_proto::Refusal::NotFound);
    meta.into_iter()
        .chain([
            [&[1, 0][..], &refused.write().body].concat(),
            [&[6, 0][..], &here.write().body].concat(),
        ])
        .collect()
}
