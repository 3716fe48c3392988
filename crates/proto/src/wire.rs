//! Encoding of messages: their kinds, the versions of each kind, and the split of a message into body and payload.
//!
//! A body is postcard, which does not describe itself: a new field is a new version of the kind. The bytes of a file travel
//! beside the body as the frame's payload, so that no code copies them into the body.

use crate::error::FsError;
use crate::limits::{BODY_MAX, CHECKSUM_BLOCK, PAYLOAD_MAX};
use crate::{bounds, callback, cluster, copy, data, meta};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The kind field of a frame. A number keeps its meaning in all versions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageKind(pub u16);

impl MessageKind {
    /// Handshake, keepalive, "busy": the messages of the crate `rpc` itself.
    pub const LINK: MessageKind = MessageKind(0);
    pub const META: MessageKind = MessageKind(1);
    pub const DATA: MessageKind = MessageKind(2);
    pub const CALLBACK: MessageKind = MessageKind(3);
    pub const CLUSTER: MessageKind = MessageKind(4);
    pub const COPY: MessageKind = MessageKind(5);

    /// The oldest version of a kind that this program accepts.
    pub fn oldest(self) -> u8 {
        let supported = SUPPORTED_VERSIONS.iter().find(|(kind, ..)| *kind == self);
        supported.map_or(0, |(_, oldest, _)| *oldest)
    }

    /// The newest version of a kind that this program supports: the one that it offers when it connects.
    pub fn newest(self) -> u8 {
        let supported = SUPPORTED_VERSIONS.iter().find(|(kind, ..)| *kind == self);
        supported.map_or(0, |(.., newest)| *newest)
    }

    /// The oldest version of a kind that this program offers when it connects. A server of that version gets no newer request: the
    /// connection fails it, and the requester has another way.
    pub fn oldest_offered(self) -> u8 {
        match self {
            // A client sends plain writes instead of numbered ones, and keeps no bytes for which it has no space reserved.
            MessageKind::DATA => 3,
            // An owner takes a copy that does not say it for one without room.
            MessageKind::COPY => 1,
            // A server that does not know jobs counts none.
            MessageKind::META => 14,
            MessageKind::CLUSTER => 11,
            other => other.newest(),
        }
    }
}

const _: () = {
    let mut i = 0;
    while i < SUPPORTED_VERSIONS.len() {
        assert!(SUPPORTED_VERSIONS[i].1 <= SUPPORTED_VERSIONS[i].2);
        i += 1;
    }
};

/// The message kinds that this program supports, each with the oldest and the newest version that it accepts from a connecting
/// process. A connecting process offers only the newest, and for DATA also the former ones that `oldest_offered` names.
///
/// A range is allowed only where each version contains the former one unchanged: a newer version adds variants at the end of an
/// enum and bits of flags, and the replies to a peer of the former version do not contain them. A change of a message that
/// cannot be made so is a version that the kind accepts alone.
pub const SUPPORTED_VERSIONS: [(MessageKind, u8, u8); 6] = [
    // 2: the key to prove; roles are checked; frames carry a MAC. Peers of version 1 are clients and visitors with the cluster's
    // key. 3: the MAC omits payloads whose blocks all have checksums (a flag).
    (MessageKind::LINK, 1, 3),
    // 2: replay of changes. 3: capabilities (`capability`). 4: the instance of the server. 5: locks. 6: inline bytes moved to
    // objects that are not synced. 7: immutable and append-only files (an operation, and a bit of `AccessMode`).
    // 8: open capabilities (two operations). 9: leases (an operation and two replies). 10: reading for a cache (an operation).
    // 11: concurrent write leases (three operations). 12: mirrored files (an operation; a kind of component in layouts, which no session
    // of a former version gets). 13: new files with a write lease (two operations).
    // 14: the conversion of layouts. 15: names of jobs (an operation).
    (MessageKind::META, 6, 15),
    // 2: capabilities. 3: write verifiers. 4: numbered writes (an operation). 5: space reservations (two operations and their
    // replies). 6: fences of objects (an operation). 7: digests and repairs (three operations and their replies). 8: relayed writes (three
    // operations and a reply).
    (MessageKind::DATA, 3, 8),
    // 2: callbacks for granted locks. 3: revocation of leases, of sessions that have accepted them. 4: downgrade of a write lease.
    // 5: stale members (a request). 6: targets that are about to be stopped (a request).
    (MessageKind::CALLBACK, 2, 6),
    // 2: capability keys in `LegacyReported`. 3: retired write verifiers (a request and its reply). 4: lost targets (two requests and
    // their replies). 5: drains (two requests and their replies). 6: scrubs (a request and its reply).
    // 7: names of failure domains (two requests and a reply); acceptance of a target's loss (a request and its reply);
    // rate, pauses and room of drains (two requests and their replies). 8: rebalances (a request and its reply). 9: targets that are
    // about to be stopped, and the pace of resyncs (two requests and their replies). 10: what a drain needs (a request and its reply).
    // 11: the copies of the metadata (two requests and their reply). 12: what servers do for jobs (two requests and their replies).
    (MessageKind::CLUSTER, 2, 12),
    // 2: whether a copy's disk has room (a request and its reply).
    (MessageKind::COPY, 1, 2),
];

/// A message as a frame carries it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EncodedMessage {
    /// The first version of its kind that has this message; the head of its frame carries it.
    pub min_version: u8,
    pub body: Vec<u8>,
    pub payload: Bytes,
    /// The payload consists of whole blocks, and the body has a checksum of each.
    pub is_payload_checksummed: bool,
}

/// The reason why bytes could not be decoded as a message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot decode {message}: {reason}")]
pub struct DecodeError {
    message: &'static str,
    reason: String,
}

/// A message that a connection carries.
pub trait Message: Sized + Send + 'static {
    const KIND: MessageKind;

    /// Whether the server must not execute this request after a later one of the same client: when the client gives it up on a
    /// fenced connection, it must never take effect.
    fn must_be_fenced(&self) -> bool {
        true
    }

    /// Whether the client sends the request again when its connection has ended before the reply. If not, the request fails then.
    fn may_be_repeated(&self) -> bool {
        true
    }

    /// The first version of its kind that has this message.
    fn min_version(&self) -> u8 {
        Self::KIND.oldest()
    }

    fn encode(self) -> EncodedMessage;

    /// # Errors
    /// When these bytes do not encode such a message: the sender violates the protocol.
    fn decode(body: &[u8], payload: Bytes) -> Result<Self, DecodeError>;
}

/// A reply. The requester's side makes an error reply itself when the server sends none.
pub trait ReplyMessage: Message {
    fn from_error(error: FsError) -> Self;
}

fn encode_body<T: Serialize + Message>(message: &T, payload: Bytes) -> EncodedMessage {
    EncodedMessage {
        min_version: message.min_version(),
        // Messages are plain data: their encoding cannot fail.
        body: postcard::to_stdvec(message).expect("a message is plain data"),
        payload,
        is_payload_checksummed: false,
    }
}

fn decode_body<T: DeserializeOwned>(name: &'static str, body: &[u8]) -> Result<T, DecodeError> {
    let error = |reason: String| DecodeError {
        message: name,
        reason,
    };
    if body.len() > BODY_MAX.0 as usize {
        return Err(error(format!(
            "its body has {} bytes, more than {BODY_MAX}",
            body.len()
        )));
    }
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(error(format!("{} surplus bytes at its end", rest.len()))),
        Err(cause) => Err(error(cause.to_string())),
    }
}

fn check_no_payload(message: &'static str, payload: &Bytes) -> Result<(), DecodeError> {
    match payload.len() {
        0 => Ok(()),
        some => Err(DecodeError {
            message,
            reason: format!("it has no payload, but {some} bytes came"),
        }),
    }
}

/// Encodes an operation for `ReplayRecord::op` and `MetaOp::WithOpenCapability`.
pub fn encode_op(op: &meta::MetaOp) -> Bytes {
    let bytes = postcard::to_stdvec(op);
    Bytes::from(bytes.expect("an operation is plain data"))
}

/// Encodes the outcome of an operation for `LeaseReply::outcome`.
pub fn encode_outcome(outcome: &Result<meta::MetaReplyBody, FsError>) -> Bytes {
    let bytes = postcard::to_stdvec(outcome);
    Bytes::from(bytes.expect("an outcome is plain data"))
}

/// # Errors
/// When these are not the bytes of an outcome, or when it contains another `LeaseReply`.
pub fn decode_outcome(bytes: &[u8]) -> Result<Result<meta::MetaReplyBody, FsError>, DecodeError> {
    const NAME: &str = "the outcome in a reply with leases";
    let outcome = decode_body(NAME, bytes)?;
    match &outcome {
        Ok(meta::MetaReplyBody::LeaseReply(_)) => Err(DecodeError {
            message: NAME,
            reason: "it contains another one".to_string(),
        }),
        _ => Ok(outcome),
    }
}

/// # Errors
/// When these are not the bytes of an operation.
pub fn decode_op(bytes: &[u8]) -> Result<meta::MetaOp, DecodeError> {
    const NAME: &str = "a replayed operation";
    let op = decode_body(NAME, bytes)?;
    check_bounds(NAME, bounds::check_op(&op))?;
    Ok(op)
}

fn check_bounds(message: &'static str, checked: Result<(), String>) -> Result<(), DecodeError> {
    checked.map_err(|reason| DecodeError { message, reason })
}

/// Messages without a payload.
macro_rules! messages_without_payload {
    ($($message:ty: $kind:expr, $name:literal $(, $bounds:path)? $(=> $min_version:ident)?;)*) => {$(
        impl Message for $message {
            const KIND: MessageKind = $kind;

            $(fn min_version(&self) -> u8 {
                $min_version(self)
            })?

            fn encode(self) -> EncodedMessage {
                encode_body(&self, Bytes::new())
            }

            fn decode(body: &[u8], payload: Bytes) -> Result<Self, DecodeError> {
                check_no_payload($name, &payload)?;
                let message = decode_body($name, body)?;
                $(check_bounds($name, $bounds(&message))?;)?
                Ok(message)
            }
        }
    )*};
}

messages_without_payload! {
    meta::MetaRequest: MessageKind::META, "a metadata request", bounds::check_meta_request => min_version_of_meta;
    meta::MetaReply: MessageKind::META, "a metadata reply", bounds::check_meta_reply;
    callback::CallbackRequest: MessageKind::CALLBACK, "a callback", bounds::check_callback => min_version_of_callback;
    callback::CallbackReply: MessageKind::CALLBACK, "a callback reply";
    cluster::ClusterRequest: MessageKind::CLUSTER, "a cluster request", bounds::check_cluster_request => min_version_of_cluster;
    cluster::ClusterReply: MessageKind::CLUSTER, "a cluster reply";
    copy::CopyReply: MessageKind::COPY, "a reply of a copy";
}

fn min_version_of_meta(request: &meta::MetaRequest) -> u8 {
    request.op.operation().since
}

fn min_version_of_callback(request: &callback::CallbackRequest) -> u8 {
    match request {
        callback::CallbackRequest::RevokeLeases { .. } => {
            callback::CallbackRequest::REVOKE_LEASES_SINCE
        }
        callback::CallbackRequest::Downgrade { .. } => callback::CallbackRequest::DOWNGRADE_SINCE,
        callback::CallbackRequest::LeaveOut { .. } => callback::CallbackRequest::LEAVE_OUT_SINCE,
        callback::CallbackRequest::TargetsStop { .. } => {
            callback::CallbackRequest::TARGETS_STOP_SINCE
        }
        _ => 2,
    }
}

/// Versions 3 to 5 added two requests each, version 6 one, versions 7 and 9 several, versions 8 and 10 one.
fn min_version_of_cluster(request: &cluster::ClusterRequest) -> u8 {
    match request {
        cluster::ClusterRequest::Report(_) | cluster::ClusterRequest::Verifiers { .. } => 3,
        cluster::ClusterRequest::DeclareLost { .. } | cluster::ClusterRequest::LostFiles { .. } => {
            4
        }
        cluster::ClusterRequest::Drain { .. } | cluster::ClusterRequest::RemoveTarget { .. } => 5,
        cluster::ClusterRequest::Scrub { .. } => 6,
        cluster::ClusterRequest::ReportOfDomain { .. }
        | cluster::ClusterRequest::Domains
        | cluster::ClusterRequest::AcceptTargetLoss { .. }
        | cluster::ClusterRequest::ManageDrain { .. }
        | cluster::ClusterRequest::DrainRoom { .. } => 7,
        cluster::ClusterRequest::Rebalance { .. } => 8,
        cluster::ClusterRequest::TargetsStop { .. } | cluster::ClusterRequest::Resync { .. } => 9,
        cluster::ClusterRequest::DrainNeeds { .. } => 10,
        cluster::ClusterRequest::Copies | cluster::ClusterRequest::ChangeCopies { .. } => 11,
        cluster::ClusterRequest::ReportJobs(_) | cluster::ClusterRequest::JobUse { .. } => 12,
        _ => 2,
    }
}

impl Message for data::DataRequest {
    const KIND: MessageKind = MessageKind::DATA;

    fn must_be_fenced(&self) -> bool {
        // A former `Reserve` that takes effect after a later one would take space away that the client relies on. A former `AcceptRelays` must
        // have ended before a repetition is answered.
        let is_ordered = matches!(
            self.op,
            data::DataOp::Reserve { .. } | data::DataOp::AcceptRelays { .. }
        );
        self.op.changes() || is_ordered
    }

    fn may_be_repeated(&self) -> bool {
        // What the server has relayed may arrive after a repetition.
        !matches!(self.op, data::DataOp::MirroredWrite { .. })
    }

    fn min_version(&self) -> u8 {
        match self.op {
            data::DataOp::NumberedWrite { .. } => data::DataOp::NUMBERED_WRITE_SINCE,
            data::DataOp::Reserve { .. } | data::DataOp::ReservedWrite { .. } => {
                data::DataOp::RESERVE_SINCE
            }
            data::DataOp::FenceObject { .. } => data::DataOp::FENCE_OBJECT_SINCE,
            data::DataOp::Digest { .. }
            | data::DataOp::Repair { .. }
            | data::DataOp::Damaged { .. } => data::DataOp::DIGEST_SINCE,
            data::DataOp::MirroredWrite { .. }
            | data::DataOp::RelayedWrite { .. }
            | data::DataOp::AcceptRelays { .. } => data::DataOp::RELAY_SINCE,
            _ => 3,
        }
    }

    fn encode(mut self) -> EncodedMessage {
        let (payload, is_payload_checksummed) = match &mut self.op {
            data::DataOp::Write {
                data, checksums, ..
            }
            | data::DataOp::NumberedWrite {
                data, checksums, ..
            }
            | data::DataOp::ReservedWrite {
                data, checksums, ..
            }
            | data::DataOp::MirroredWrite {
                data, checksums, ..
            }
            | data::DataOp::RelayedWrite {
                data, checksums, ..
            }
            | data::DataOp::Repair {
                data, checksums, ..
            } => take_payload(data, checksums),
            _ => (Bytes::new(), false),
        };
        EncodedMessage {
            is_payload_checksummed,
            ..encode_body(&self, payload)
        }
    }

    fn decode(body: &[u8], payload: Bytes) -> Result<Self, DecodeError> {
        const NAME: &str = "a data request";
        let mut request: data::DataRequest = decode_body(NAME, body)?;
        match &mut request.op {
            data::DataOp::Write { data, .. }
            | data::DataOp::NumberedWrite { data, .. }
            | data::DataOp::ReservedWrite { data, .. }
            | data::DataOp::MirroredWrite { data, .. }
            | data::DataOp::RelayedWrite { data, .. }
            | data::DataOp::Repair { data, .. } => {
                attach_payload(NAME, data, payload)?;
            }
            _ => check_no_payload(NAME, &payload)?,
        }
        Ok(request)
    }
}

impl Message for data::DataReply {
    const KIND: MessageKind = MessageKind::DATA;

    fn encode(mut self) -> EncodedMessage {
        let (payload, is_payload_checksummed) = match &mut self {
            Ok(data::DataReplyBody::Data { data, checksums }) => take_payload(data, checksums),
            _ => (Bytes::new(), false),
        };
        EncodedMessage {
            is_payload_checksummed,
            ..encode_body(&self, payload)
        }
    }

    fn decode(body: &[u8], payload: Bytes) -> Result<Self, DecodeError> {
        const NAME: &str = "a data reply";
        let mut reply: data::DataReply = decode_body(NAME, body)?;
        match &mut reply {
            Ok(data::DataReplyBody::Data { data, .. }) => attach_payload(NAME, data, payload)?,
            _ => check_no_payload(NAME, &payload)?,
        }
        Ok(reply)
    }
}

impl Message for copy::CopyRequest {
    const KIND: MessageKind = MessageKind::COPY;

    fn min_version(&self) -> u8 {
        match self.op {
            copy::CopyOp::HasRoom => 2,
            _ => 1,
        }
    }

    fn may_be_repeated(&self) -> bool {
        // A copy that has the records already, or has synced them, answers as it did before. For everything else the sender counts on each reply,
        // and asks again itself.
        matches!(
            self.op,
            copy::CopyOp::Append { .. } | copy::CopyOp::Sync { .. }
        )
    }

    fn encode(mut self) -> EncodedMessage {
        let payload = match &mut self.op {
            copy::CopyOp::Append { records, .. }
            | copy::CopyOp::SnapshotPart { records, .. }
            | copy::CopyOp::KeyList { list: records, .. } => std::mem::take(records),
            _ => Bytes::new(),
        };
        encode_body(&self, payload)
    }

    fn decode(body: &[u8], payload: Bytes) -> Result<Self, DecodeError> {
        const NAME: &str = "a request to a copy";
        let mut request: copy::CopyRequest = decode_body(NAME, body)?;
        match &mut request.op {
            copy::CopyOp::Append { records, .. }
            | copy::CopyOp::SnapshotPart { records, .. }
            | copy::CopyOp::KeyList { list: records, .. } => {
                attach_payload(NAME, records, payload)?;
            }
            _ => check_no_payload(NAME, &payload)?,
        }
        Ok(request)
    }
}

/// Takes the bytes out of a message; whether they are whole blocks that all have a checksum. They begin at a block boundary
/// exactly if there is a checksum for every block's length of them: a block that they cover in part has none.
fn take_payload(data: &mut Bytes, checksums: &data::BlockChecksums) -> (Bytes, bool) {
    let payload = std::mem::take(data);
    let covered = checksums.checksums.len() as u64 * CHECKSUM_BLOCK;
    let is_checksummed =
        covered == payload.len() as u64 && checksums.checksums.iter().all(Option::is_some);
    (payload, is_checksummed)
}

fn attach_payload(
    message: &'static str,
    field: &mut Bytes,
    payload: Bytes,
) -> Result<(), DecodeError> {
    let reason = match (field.len(), payload.len() as u64 <= PAYLOAD_MAX.0) {
        (0, true) => {
            *field = payload;
            return Ok(());
        }
        (0, false) => format!(
            "its payload has {} bytes, more than {PAYLOAD_MAX}",
            payload.len()
        ),
        _ => "its data is in the body instead of the payload".to_string(),
    };
    Err(DecodeError { message, reason })
}

impl ReplyMessage for meta::MetaReply {
    fn from_error(error: FsError) -> meta::MetaReply {
        meta::MetaReply {
            seq: Default::default(),
            durable: Default::default(),
            map_epoch: Default::default(),
            change: None,
            result: Err(error),
        }
    }
}

macro_rules! result_replies {
    ($($reply:ty;)*) => {$(
        impl ReplyMessage for $reply {
            fn from_error(error: FsError) -> Self {
                Err(error)
            }
        }
    )*};
}

result_replies! {
    data::DataReply;
    callback::CallbackReply;
    cluster::ClusterReply;
    copy::CopyReply;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::DataCredentials;
    use crate::data::{BlockChecksums, DataOp, ObjectExistence, ObjectOwner};
    use crate::{Generation, InodeId, MapEpoch, ObjectId, ObjectOffset, OstId, SessionId};
    use proptest::prelude::*;

    fn write_request(data: &'static [u8]) -> data::DataRequest {
        data::DataRequest {
            session: SessionId(7),
            map_epoch: MapEpoch(1),
            job: crate::JobId::UNKNOWN,
            ost: OstId(3),
            credentials: DataCredentials::None,
            op: DataOp::Write {
                object: ObjectId {
                    ino: InodeId(9),
                    generation: Generation(1),
                    stripe: 0,
                },
                at: ObjectOffset(4096),
                data: Bytes::from_static(data),
                checksums: BlockChecksums::default(),
                existence: ObjectExistence::MayExist,
                owner: ObjectOwner::default(),
            },
        }
    }

    #[test]
    fn a_payload_is_checksummed_if_it_has_whole_blocks_only_and_each_has_a_checksum() {
        static BLOCKS: [u8; 8192] = [7; 8192];
        let is_checksummed = |length: usize, sums: &[Option<u32>]| {
            let mut request = write_request(&BLOCKS[..length]);
            if let DataOp::Write { checksums, .. } = &mut request.op {
                checksums.checksums = sums.to_vec();
            }
            request.encode().is_payload_checksummed
        };
        assert!(is_checksummed(8192, &[Some(1), Some(2)]));
        // It begins or ends within a block.
        assert!(!is_checksummed(8192, &[Some(1)]));
        assert!(!is_checksummed(5000, &[Some(1), Some(2)]));
        assert!(!is_checksummed(8192, &[Some(1), None]));
        assert!(!is_checksummed(5000, &[]));
    }

    #[test]
    fn the_data_of_a_write_is_the_payload() {
        let request = write_request(b"some bytes");
        let sent = request.clone().encode();
        assert_eq!(&sent.payload[..], b"some bytes");
        assert!(sent.body.len() < 40, "{}", sent.body.len());
        assert_eq!(
            data::DataRequest::decode(&sent.body, sent.payload),
            Ok(request)
        );
    }

    #[test]
    fn a_message_that_is_too_long_or_too_short_is_not_decoded() {
        let sent = write_request(b"x").encode();
        let mut longer = sent.body.clone();
        longer.push(0);
        assert!(data::DataRequest::decode(&longer, sent.payload.clone()).is_err());
        let shorter = &sent.body[..sent.body.len() - 1];
        assert!(data::DataRequest::decode(shorter, sent.payload.clone()).is_err());
        let request = meta::MetaRequest {
            session: SessionId(1),
            slot_seq: None,
            caller: crate::Caller::root(),
            job: crate::JobId::UNKNOWN,
            instance: crate::OwnerEpoch(0),
            last_seen: crate::Seq(0),
            op: meta::MetaOp::StatFs,
        };
        let sent = request.encode();
        let stray = Bytes::from_static(b"stray");
        assert!(meta::MetaRequest::decode(&sent.body, stray).is_err());
    }

    #[test]
    fn operations_keep_their_variant_numbers_of_former_versions() {
        let number = |op: &meta::MetaOp| encode_op(op)[0];
        let ino = InodeId(1);
        assert_eq!(number(&meta::MetaOp::KillPrivileges { ino }), 29);
        let opened = meta::MetaOp::OpenSession {
            client: String::new(),
        };
        assert_eq!(number(&opened), 30);
        let rights = crate::capability::Rights::READ;
        assert_eq!(number(&meta::MetaOp::IssueCapability { ino, rights }), 36);
        let flags = crate::attr::InodeFlags::empty();
        assert_eq!(number(&meta::MetaOp::SetFlags { ino, flags }), 38);
        let (open_capabilities, op) = (Vec::new(), Bytes::new());
        assert_eq!(
            number(&meta::MetaOp::WithOpenCapability {
                open_capabilities,
                op
            }),
            39
        );
        assert_eq!(number(&meta::MetaOp::AcceptLeases), 41);
        assert_eq!(number(&meta::MetaOp::BeginRead { ino }), 42);
        assert_eq!(number(&meta::MetaOp::UpgradeWrite { ino }), 45);
        let objects = Vec::new();
        assert_eq!(number(&meta::MetaOp::MarkStale { ino, objects }), 46);
    }

    #[test]
    fn a_numbered_write_is_a_new_variant_and_a_plain_one_has_the_bytes_of_version_3() {
        let plain = write_request(b"some bytes");
        let number = data::WriteNumber {
            slot: 5,
            number: 300,
        };
        let numbered = data::DataRequest {
            op: plain.op.clone().with_number(number),
            ..plain.clone()
        };
        let [plain, sent] = [plain, numbered.clone()].map(Message::encode);
        assert_eq!((plain.min_version, sent.min_version), (3, 4));
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(hex(&plain.body), "07010003000009010080200000000000000000");
        assert_eq!(
            hex(&sent.body),
            "0701000300".to_owned() + "0e05ac02" + "09010080200000000000000000"
        );
        assert_eq!(&sent.payload[..], b"some bytes");
        assert_eq!(
            data::DataRequest::decode(&sent.body, sent.payload),
            Ok(numbered)
        );
        let space = DataOp::Space;
        assert_eq!(space.clone().with_number(number), space);
    }

    #[test]
    fn a_write_into_reserved_space_is_a_new_variant_with_the_same_fields() {
        let plain = write_request(b"some bytes");
        let reserved = data::DataRequest {
            op: plain.op.clone().into_reserved(),
            ..plain.clone()
        };
        let reserve = data::DataRequest {
            op: DataOp::Reserve { bytes: 300 },
            ..plain.clone()
        };
        let [plain, sent, asked] = [plain, reserved.clone(), reserve].map(Message::encode);
        assert_eq!((sent.min_version, asked.min_version), (5, 5));
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let (head, tail) = ("0701000300", "09010080200000000000000000");
        assert_eq!(hex(&plain.body), head.to_owned() + "00" + tail);
        assert_eq!(hex(&sent.body), head.to_owned() + "10" + tail);
        assert_eq!(hex(&asked.body), head.to_owned() + "0fac02");
        assert_eq!(&sent.payload[..], b"some bytes");
        let decoded = data::DataRequest::decode(&sent.body, sent.payload);
        assert_eq!(decoded, Ok(reserved));
        let space = DataOp::Space;
        assert_eq!(space.clone().into_reserved(), space);
    }

    #[test]
    fn an_encoded_message_has_its_first_version() {
        let since = |op| {
            let request = meta::MetaRequest {
                session: SessionId(1),
                slot_seq: None,
                caller: crate::Caller::root(),
                job: crate::JobId::UNKNOWN,
                instance: crate::OwnerEpoch(0),
                last_seen: crate::Seq(0),
                op,
            };
            request.encode().min_version
        };
        let ino = InodeId(1);
        let open = |access| meta::MetaOp::Open {
            ino,
            open: meta::OpenMode {
                access,
                truncate: false,
                kill_privileges: false,
            },
        };
        assert_eq!(since(meta::MetaOp::GetAttr { ino }), 6);
        assert_eq!(since(open(meta::AccessMode::WRITE)), 6);
        assert_eq!(
            since(open(meta::AccessMode::WRITE | meta::AccessMode::APPEND)),
            7
        );
        let flags = crate::attr::InodeFlags::empty();
        assert_eq!(since(meta::MetaOp::SetFlags { ino, flags }), 7);
        assert_eq!(since(meta::MetaOp::AcceptLeases), 9);
        assert_eq!(since(meta::MetaOp::BeginRead { ino }), 10);
        assert_eq!(since(meta::MetaOp::UpgradeWrite { ino }), 11);
        let glimpse = callback::CallbackRequest::Glimpse { ino };
        assert_eq!(glimpse.encode().min_version, 2);
        let revocation = crate::lease::LeaseRevocation {
            upto: crate::lease::GrantNumber(7),
            keys: vec![crate::lease::LeaseKey::Data(ino)],
        };
        let revoke = callback::CallbackRequest::RevokeLeases {
            session: SessionId(1),
            instance: crate::OwnerEpoch(1),
            revocation,
        };
        assert_eq!(revoke.encode().min_version, 3);
        let downgrade = callback::CallbackRequest::Downgrade { ino };
        assert_eq!(downgrade.encode().min_version, 4);
        let ost = crate::OstId(3);
        let leave_out = callback::CallbackRequest::LeaveOut { ino, ost };
        assert_eq!(leave_out.encode().min_version, 5);
        let targets_stop = callback::CallbackRequest::TargetsStop { osts: vec![ost] };
        assert_eq!(targets_stop.encode().min_version, 6);
    }

    proptest! {
        #[test]
        fn decoding_random_bytes_does_not_panic(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = meta::MetaRequest::decode(&body, Bytes::new());
            let _ = meta::MetaReply::decode(&body, Bytes::new());
            let _ = data::DataRequest::decode(&body, Bytes::new());
            let _ = data::DataReply::decode(&body, Bytes::new());
            let _ = callback::CallbackRequest::decode(&body, Bytes::new());
            let _ = cluster::ClusterRequest::decode(&body, Bytes::new());
            let _ = cluster::ClusterReply::decode(&body, Bytes::new());
        }
    }
}
