//! A message: if it can be decoded, encoding and decoding it again gives the same message.

use bytes::Bytes;
use gupfs_proto::meta::{self, MetaOp};
use gupfs_proto::wire::Message;
use gupfs_proto::{Caller, InodeId, Name, OwnerEpoch, Seq, SessionId, callback, cluster, data};

/// The first byte selects the message type, the second is the number of payload bytes at the end, divided by 16.
pub fn message(input: &[u8]) {
    let [kind, payload, rest @ ..] = input else {
        return;
    };
    let payload = (usize::from(*payload) * 16).min(rest.len());
    let (body, payload) = rest.split_at(rest.len() - payload);
    let payload = Bytes::copy_from_slice(payload);
    match kind % 8 {
        0 => read::<meta::MetaRequest>(body, payload),
        1 => read::<meta::MetaReply>(body, payload),
        2 => read::<data::DataRequest>(body, payload),
        3 => read::<data::DataReply>(body, payload),
        4 => read::<callback::CallbackRequest>(body, payload),
        5 => read::<callback::CallbackReply>(body, payload),
        6 => read::<cluster::ClusterRequest>(body, payload),
        _ => read::<cluster::ClusterReply>(body, payload),
    }
}

fn read<M: Message + PartialEq + Clone + std::fmt::Debug>(body: &[u8], payload: Bytes) {
    let Ok(message) = M::decode(body, payload) else {
        return;
    };
    let encoded = message.clone().encode();
    let decoded = M::decode(&encoded.body, encoded.payload);
    assert_eq!(decoded.as_ref(), Ok(&message));
}

pub fn seeds() -> Vec<Vec<u8>> {
    let request = |op| meta::MetaRequest {
        session: SessionId(1),
        slot_seq: None,
        caller: Caller::new(7, 8, vec![9]),
        job: gupfs_proto::JobId(3),
        instance: OwnerEpoch(1),
        last_seen: Seq(5),
        op,
    };
    let name = Name::new(b"name").expect("a name");
    let ops = [
        MetaOp::StatFs,
        MetaOp::Lookup {
            dir: InodeId(1),
            name,
        },
        MetaOp::OpenSession {
            client: "host:/mnt".into(),
        },
        MetaOp::Symlink {
            dir: InodeId(1),
            name: Name::new(b"link").expect("a name"),
            target: b"/to".to_vec(),
        },
    ];
    let meta = ops.map(|op| [&[0, 0][..], &request(op).encode().body].concat());
    let report = cluster::ClusterRequest::LegacyReport {
        address: "host:7701".into(),
        targets: Vec::new(),
    };
    let error_reply: meta::MetaReply =
        gupfs_proto::wire::ReplyMessage::from_error(gupfs_proto::FsError::NotFound);
    meta.into_iter()
        .chain([
            [&[1, 0][..], &error_reply.encode().body].concat(),
            [&[6, 0][..], &report.encode().body].concat(),
        ])
        .collect()
}
