//! How messages are written down: which kinds there are, in which versions, and what of each is body and what payload.
//!
//! A body is postcard, which does not describe itself: a new field is a new version of the kind. The bytes of a file travel
//! beside the body as the frame's payload, so that they are never copied into it.

use crate::limits::{BODY_MAX, PAYLOAD_MAX};
use crate::refusal::Refusal;
use crate::{bounds, cluster, data, meta, recall};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a frame's kind field says. Numbers are for ever.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Kind(pub u16);

impl Kind {
    /// Handshake, signs of life, "busy": what `rpc` says by itself.
    pub const LINK: Kind = Kind(0);
    pub const META: Kind = Kind(1);
    pub const DATA: Kind = Kind(2);
    pub const RECALL: Kind = Kind(3);
    pub const CLUSTER: Kind = Kind(4);

    /// The oldest version of a kind that this program accepts.
    pub fn oldest(self) -> u8 {
        let spoken = SPOKEN.iter().find(|(kind, ..)| *kind == self);
        spoken.map_or(0, |(_, oldest, _)| *oldest)
    }

    /// The newest version of a kind that this program speaks: the one that it offers when it connects.
    pub fn newest(self) -> u8 {
        let spoken = SPOKEN.iter().find(|(kind, ..)| *kind == self);
        spoken.map_or(0, |(.., newest)| *newest)
    }
}

const _: () = {
    let mut i = 0;
    while i < SPOKEN.len() {
        assert!(SPOKEN[i].1 <= SPOKEN[i].2);
        i += 1;
    }
};

/// The kinds that this program speaks, each with the oldest and the newest version that it accepts from a process that
/// connects. A process that connects offers the newest alone.
///
/// A range is allowed only where each version holds the former one unchanged: what is new are variants at the end of an enum
/// and bits of flags, which the answers to a peer of the former version do not contain. A message that cannot be extended so
/// gets a version that its kind accepts alone.
pub const SPOKEN: [(Kind, u8, u8); 5] = [
    // 2: which key is proved; roles count; frames carry a code. Peers of 1 are clients and visitors with the cluster's key.
    (Kind::LINK, 1, 2),
    // 2: changes said again. 3: capabilities (`capability`). 4: of which life they are. 5: locks. 6: bytes that leave the
    // inode for objects that are not synced. 7: immutable and append-only files (an operation, and a bit of `Access`).
    // 8: proofs of what a session has open (two operations).
    (Kind::META, 6, 8),
    // 2: capabilities. 3: lives of targets.
    (Kind::DATA, 3, 3),
    // 2: grants of locks.
    (Kind::RECALL, 2, 2),
    // 2: seals in `Heard`. 3: lives of targets that are over (a question and its answer).
    (Kind::CLUSTER, 2, 3),
];

/// A message as it travels.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// The version of its kind since which this message is known, as its frame's head says.
    pub since: u8,
    pub body: Vec<u8>,
    pub payload: Bytes,
}

/// Why bytes are no message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} cannot be read: {why}")]
pub struct Unreadable {
    what: &'static str,
    why: String,
}

/// Something that can be said over a connection.
pub trait Message: Sized + Send + 'static {
    const KIND: Kind;

    /// Whether, given up on a fenced line, it must not take effect later than what is asked next.
    fn must_be_fenced(&self) -> bool {
        true
    }

    /// The version of its kind since which this message is known.
    fn since(&self) -> u8 {
        Self::KIND.oldest()
    }

    fn write(self) -> Written;

    /// # Errors
    /// When these are not the bytes of such a message: whoever sent them does not speak as agreed.
    fn read(body: &[u8], payload: Bytes) -> Result<Self, Unreadable>;
}

/// An answer that the caller's side makes up itself when none comes.
pub trait Reply: Message {
    fn refused(why: Refusal) -> Self;
}

fn written<T: Serialize + Message>(message: &T, payload: Bytes) -> Written {
    Written {
        since: message.since(),
        // Messages are plain data; nothing in them can fail to be written.
        body: postcard::to_stdvec(message).expect("a message is plain data"),
        payload,
    }
}

fn read<T: DeserializeOwned>(what: &'static str, body: &[u8]) -> Result<T, Unreadable> {
    let unreadable = |why: String| Unreadable { what, why };
    if body.len() > BODY_MAX.0 as usize {
        return Err(unreadable(format!("its body has {} bytes", body.len())));
    }
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(unreadable(format!("{} bytes too many", rest.len()))),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

fn no_payload(what: &'static str, payload: &Bytes) -> Result<(), Unreadable> {
    match payload.len() {
        0 => Ok(()),
        some => Err(Unreadable {
            what,
            why: format!("{some} bytes of payload where none belongs"),
        }),
    }
}

/// An operation as it lies in `meta::Kept`.
pub fn op_bytes(op: &meta::Op) -> Bytes {
    let bytes = postcard::to_stdvec(op);
    Bytes::from(bytes.expect("an operation is plain data"))
}

/// # Errors
/// When these are not the bytes of an operation.
pub fn op_of(bytes: &[u8]) -> Result<meta::Op, Unreadable> {
    const WHAT: &str = "an operation that is said again";
    let op = read(WHAT, bytes)?;
    bounded(WHAT, bounds::of_op(&op))?;
    Ok(op)
}

fn bounded(what: &'static str, is: Result<(), String>) -> Result<(), Unreadable> {
    is.map_err(|why| Unreadable { what, why })
}

/// Messages whose whole is their body.
macro_rules! plain {
    ($($message:ty: $kind:expr, $what:literal $(, $bounds:path)? $(=> $since:ident)?;)*) => {$(
        impl Message for $message {
            const KIND: Kind = $kind;

            $(fn since(&self) -> u8 {
                $since(self)
            })?

            fn write(self) -> Written {
                written(&self, Bytes::new())
            }

            fn read(body: &[u8], payload: Bytes) -> Result<Self, Unreadable> {
                no_payload($what, &payload)?;
                let message = read($what, body)?;
                $(bounded($what, $bounds(&message))?;)?
                Ok(message)
            }
        }
    )*};
}

plain! {
    meta::Request: Kind::META, "a metadata request", bounds::of_meta => since_of_meta;
    meta::Reply: Kind::META, "a metadata reply";
    recall::Request: Kind::RECALL, "a recall";
    recall::Reply: Kind::RECALL, "a recall's answer";
    cluster::Request: Kind::CLUSTER, "a request about the cluster", bounds::of_cluster => since_of_cluster;
    cluster::Reply: Kind::CLUSTER, "a reply about the cluster";
}

/// What versions 7 and 8 added.
fn since_of_meta(request: &meta::Request) -> u8 {
    let appends = |open: &meta::OpenHow| open.access.contains(meta::Access::APPEND);
    match &request.op {
        meta::Op::Proven { .. } | meta::Op::OpenTmpFile { .. } => 8,
        meta::Op::SetFlags { .. } => 7,
        meta::Op::Open { open, .. } | meta::Op::Create { open, .. } if appends(open) => 7,
        _ => 6,
    }
}

/// What version 3 added.
fn since_of_cluster(request: &cluster::Request) -> u8 {
    match request {
        cluster::Request::Report(_) | cluster::Request::Lives { .. } => 3,
        _ => 2,
    }
}

impl Message for data::Request {
    const KIND: Kind = Kind::DATA;

    fn must_be_fenced(&self) -> bool {
        self.op.changes()
    }

    fn write(mut self) -> Written {
        let payload = match &mut self.op {
            data::Op::Write { data, .. } => std::mem::take(data),
            _ => Bytes::new(),
        };
        written(&self, payload)
    }

    fn read(body: &[u8], payload: Bytes) -> Result<Self, Unreadable> {
        const WHAT: &str = "a data request";
        let mut request: data::Request = read(WHAT, body)?;
        match &mut request.op {
            data::Op::Write { data, .. } => put(WHAT, data, payload)?,
            _ => no_payload(WHAT, &payload)?,
        }
        Ok(request)
    }
}

impl Message for data::Reply {
    const KIND: Kind = Kind::DATA;

    fn write(mut self) -> Written {
        let payload = match &mut self {
            Ok(data::Answer::Data { data, .. }) => std::mem::take(data),
            _ => Bytes::new(),
        };
        written(&self, payload)
    }

    fn read(body: &[u8], payload: Bytes) -> Result<Self, Unreadable> {
        const WHAT: &str = "a data reply";
        let mut reply: data::Reply = read(WHAT, body)?;
        match &mut reply {
            Ok(data::Answer::Data { data, .. }) => put(WHAT, data, payload)?,
            _ => no_payload(WHAT, &payload)?,
        }
        Ok(reply)
    }
}

fn put(what: &'static str, place: &mut Bytes, payload: Bytes) -> Result<(), Unreadable> {
    let why = match (place.len(), payload.len() as u64 <= PAYLOAD_MAX.0) {
        (0, true) => {
            *place = payload;
            return Ok(());
        }
        (0, false) => format!("its payload has {} bytes", payload.len()),
        _ => "its bytes lie in the body".to_string(),
    };
    Err(Unreadable { what, why })
}

impl Reply for meta::Reply {
    fn refused(why: Refusal) -> meta::Reply {
        meta::Reply {
            seq: Default::default(),
            durable: Default::default(),
            map_epoch: Default::default(),
            change: None,
            result: Err(why),
        }
    }
}

macro_rules! results {
    ($($reply:ty;)*) => {$(
        impl Reply for $reply {
            fn refused(why: Refusal) -> Self {
                Err(why)
            }
        }
    )*};
}

results! {
    data::Reply;
    recall::Reply;
    cluster::Reply;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Warrant;
    use crate::data::{BlockSums, Existing, Op, Owner};
    use crate::{Generation, InodeId, MapEpoch, ObjectId, ObjectOffset, OstId, SessionId};
    use proptest::prelude::*;

    fn write(data: &'static [u8]) -> data::Request {
        data::Request {
            session: SessionId(7),
            map_epoch: MapEpoch(1),
            job: 0,
            ost: OstId(3),
            warrant: Warrant::None,
            op: Op::Write {
                object: ObjectId {
                    ino: InodeId(9),
                    generation: Generation(1),
                    stripe: 0,
                },
                at: ObjectOffset(4096),
                data: Bytes::from_static(data),
                sums: BlockSums::default(),
                existing: Existing::Perhaps,
                owner: Owner::default(),
            },
        }
    }

    #[test]
    fn the_bytes_of_a_write_travel_beside_its_body() {
        let said = write(b"some bytes");
        let sent = said.clone().write();
        assert_eq!(&sent.payload[..], b"some bytes");
        assert!(sent.body.len() < 40, "{}", sent.body.len());
        assert_eq!(data::Request::read(&sent.body, sent.payload), Ok(said));
    }

    #[test]
    fn what_is_too_long_or_too_short_is_no_message() {
        let sent = write(b"x").write();
        let mut longer = sent.body.clone();
        longer.push(0);
        assert!(data::Request::read(&longer, sent.payload.clone()).is_err());
        let shorter = &sent.body[..sent.body.len() - 1];
        assert!(data::Request::read(shorter, sent.payload.clone()).is_err());
        let request = meta::Request {
            session: SessionId(1),
            lane: None,
            caller: crate::Caller::root(),
            job: 0,
            life: crate::OwnerEpoch(0),
            seen: crate::Seq(0),
            op: meta::Op::StatFs,
        };
        let sent = request.write();
        let stray = Bytes::from_static(b"stray");
        assert!(meta::Request::read(&sent.body, stray).is_err());
    }

    #[test]
    fn operations_keep_the_numbers_that_former_versions_gave_them() {
        let number = |op: &meta::Op| op_bytes(op)[0];
        let ino = InodeId(1);
        assert_eq!(number(&meta::Op::KillPrivileges { ino }), 29);
        let opened = meta::Op::OpenSession {
            client: String::new(),
        };
        assert_eq!(number(&opened), 30);
        let rights = crate::capability::Rights::READ;
        assert_eq!(number(&meta::Op::Permit { ino, rights }), 36);
        let flags = crate::attr::InodeFlags::empty();
        assert_eq!(number(&meta::Op::SetFlags { ino, flags }), 38);
        let (proofs, op) = (Vec::new(), Bytes::new());
        assert_eq!(number(&meta::Op::Proven { proofs, op }), 39);
    }

    #[test]
    fn a_message_says_since_when_it_is_known() {
        let since = |op| {
            let request = meta::Request {
                session: SessionId(1),
                lane: None,
                caller: crate::Caller::root(),
                job: 0,
                life: crate::OwnerEpoch(0),
                seen: crate::Seq(0),
                op,
            };
            request.write().since
        };
        let ino = InodeId(1);
        let open = |access| meta::Op::Open {
            ino,
            open: meta::OpenHow {
                access,
                truncate: false,
                kill_privileges: false,
            },
        };
        assert_eq!(since(meta::Op::GetAttr { ino }), 6);
        assert_eq!(since(open(meta::Access::WRITE)), 6);
        assert_eq!(since(open(meta::Access::WRITE | meta::Access::APPEND)), 7);
        let flags = crate::attr::InodeFlags::empty();
        assert_eq!(since(meta::Op::SetFlags { ino, flags }), 7);
    }

    proptest! {
        #[test]
        fn random_bytes_are_refused_without_a_panic(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = meta::Request::read(&body, Bytes::new());
            let _ = meta::Reply::read(&body, Bytes::new());
            let _ = data::Request::read(&body, Bytes::new());
            let _ = data::Reply::read(&body, Bytes::new());
            let _ = recall::Request::read(&body, Bytes::new());
            let _ = cluster::Request::read(&body, Bytes::new());
            let _ = cluster::Reply::read(&body, Bytes::new());
        }
    }
}
