//! One frame: a head of 32 bytes, a body, a payload (docs/formats/frames.md).

use crate::code::{CODE, CodeKey};
use crate::limits::HANDSHAKE_BODY;
use bytes::{BufMut, Bytes, BytesMut};
use gupfs_proto::limits::{BODY_MAX, PAYLOAD_MAX};
use gupfs_proto::wire::{Kind, Written};

pub const HEAD: usize = 32;
const MAGIC: u32 = u32::from_le_bytes(*b"gpf1");

bitflags::bitflags! {
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Flags: u8 {
        /// It answers the frame of this number that went the other way.
        const ANSWER = 1;
        /// With ANSWER: the question was not taken; ask again after the milliseconds in the body.
        const BUSY = 2;
    }
}

/// What a frame begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Of the message kind: since which this message is known. At most what the handshake agreed.
    pub version: u8,
    pub flags: Flags,
    pub kind: Kind,
    /// Chosen by who asks; each direction has its own.
    pub id: u64,
    pub body: u32,
    pub payload: u32,
    body_sum: u32,
}

/// A whole frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    pub head: Head,
    pub body: Bytes,
    pub payload: Bytes,
}

/// A message ready to be sent over any connection. The head is made when it is sent: each connection has codes of its own.
#[derive(Clone, Debug)]
pub struct Packed {
    kind: Kind,
    version: u8,
    flags: Flags,
    id: u64,
    body: Bytes,
    body_sum: u32,
    pub payload: Bytes,
}

/// How long a frame may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub body: u32,
    pub payload: u32,
}

impl Limits {
    /// Bodies with a code at their end.
    pub fn with_code(self) -> Limits {
        Limits {
            body: self.body + CODE as u32,
            ..self
        }
    }

    /// Between two that know each other.
    pub const AMONG_US: Limits = Limits {
        body: BODY_MAX.0 as u32,
        payload: PAYLOAD_MAX.0 as u32,
    };
    /// As long as the other side is a stranger.
    pub const OF_STRANGERS: Limits = Limits {
        body: HANDSHAKE_BODY,
        payload: 0,
    };
}

/// Why what came is no frame of ours. The connection is closed: where the next frame begins is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    #[error("it does not begin like a frame of gupfs")]
    Magic,
    #[error("it speaks TLS, and this side does not")]
    Tls,
    #[error("the checksum of its head does not match")]
    HeadSum,
    #[error("the checksum of its body does not match")]
    BodySum,
    #[error("its body has {0} bytes, more than allowed")]
    Body(u32),
    #[error("its payload has {0} bytes, more than allowed")]
    Payload(u32),
    #[error("its code is wrong: it was made or changed on its way, or another was left out")]
    Code,
    #[error("it has flags that are not known: {0:#x}")]
    Flags(u8),
}

/// # Errors
/// The lengths, when the message is longer than a frame may be.
pub fn pack(kind: Kind, flags: Flags, id: u64, message: Written) -> Result<Packed, FrameError> {
    let Written {
        since,
        body,
        payload,
    } = message;
    let packed = Packed {
        kind,
        version: since,
        flags,
        id,
        body_sum: crc32c::crc32c(&body),
        body: body.into(),
        payload,
    };
    packed.head().check_lengths(Limits::AMONG_US)?;
    Ok(packed)
}

impl Packed {
    fn head(&self) -> Head {
        let length = |bytes: &Bytes| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Head {
            version: self.version,
            flags: self.flags,
            kind: self.kind,
            id: self.id,
            body: length(&self.body),
            payload: length(&self.payload),
            body_sum: self.body_sum,
        }
    }

    /// Head and body as they travel; the payload follows them.
    pub fn front(&self) -> BytesMut {
        self.start(0)
    }

    /// The same with a code at the body's end.
    pub fn front_sealed(&self, number: u64, key: &CodeKey) -> BytesMut {
        let mut front = self.start(CODE);
        key.seal(number, &mut front);
        front
    }

    /// With room for what follows the message in its body.
    pub(crate) fn start(&self, room: usize) -> BytesMut {
        let mut front = BytesMut::with_capacity(HEAD + self.body.len() + room);
        let mut head = self.head();
        head.body += room as u32;
        head.write(&mut front);
        front.put_slice(&self.body);
        front
    }
}

impl Head {
    fn write(&self, into: &mut BytesMut) {
        let start = into.len();
        into.put_u32_le(MAGIC);
        into.put_u8(self.version);
        into.put_u8(self.flags.bits());
        into.put_u16_le(self.kind.0);
        into.put_u64_le(self.id);
        into.put_u32_le(self.body);
        into.put_u32_le(self.payload);
        into.put_u32_le(self.body_sum);
        let sum = crc32c::crc32c(&into[start..]);
        into.put_u32_le(sum);
        debug_assert_eq!(into.len() - start, HEAD);
    }

    pub fn read(bytes: &[u8; HEAD], limits: Limits) -> Result<Head, FrameError> {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if u32_at(0) != MAGIC {
            // A TLS record of a handshake.
            if bytes[..2] == [22, 3] {
                return Err(FrameError::Tls);
            }
            return Err(FrameError::Magic);
        }
        if crc32c::crc32c(&bytes[..28]) != u32_at(28) {
            return Err(FrameError::HeadSum);
        }
        let head = Head {
            version: bytes[4],
            flags: Flags::from_bits(bytes[5]).ok_or(FrameError::Flags(bytes[5]))?,
            kind: Kind(u16::from_le_bytes([bytes[6], bytes[7]])),
            id: u64::from(u32_at(8)) | u64::from(u32_at(12)) << 32,
            body: u32_at(16),
            payload: u32_at(20),
            body_sum: u32_at(24),
        };
        head.check_lengths(limits)?;
        Ok(head)
    }

    fn check_lengths(&self, limits: Limits) -> Result<(), FrameError> {
        if self.body > limits.body {
            return Err(FrameError::Body(self.body));
        }
        if self.payload > limits.payload {
            return Err(FrameError::Payload(self.payload));
        }
        Ok(())
    }

    pub fn check_body(&self, body: &[u8]) -> Result<(), FrameError> {
        match crc32c::crc32c(body) == self.body_sum {
            true => Ok(()),
            false => Err(FrameError::BodySum),
        }
    }

    pub fn is_answer(&self) -> bool {
        self.flags.contains(Flags::ANSWER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed() -> Packed {
        let message = Written {
            since: 3,
            body: b"a body".to_vec(),
            payload: Bytes::from_static(b"a payload"),
        };
        pack(Kind::DATA, Flags::ANSWER, 0x1_0000_0002, message).unwrap()
    }

    fn head(bytes: &[u8]) -> Result<Head, FrameError> {
        Head::read(bytes[..HEAD].try_into().unwrap(), Limits::AMONG_US)
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let front = packed().front();
        let head = head(&front).unwrap();
        assert_eq!(
            (head.kind, head.version, head.id),
            (Kind::DATA, 3, 0x1_0000_0002)
        );
        assert_eq!((head.body, head.payload, head.is_answer()), (6, 9, true));
        assert_eq!(head.check_body(&front[HEAD..]), Ok(()));
        assert_eq!(head.check_body(b"a bodY"), Err(FrameError::BodySum));
    }

    #[test]
    fn what_is_too_long_is_neither_sent_nor_taken() {
        let long = Written {
            since: 6,
            body: vec![0; BODY_MAX.0 as usize + 1],
            payload: Bytes::new(),
        };
        let refused = pack(Kind::META, Flags::empty(), 1, long);
        assert_eq!(
            refused.unwrap_err(),
            FrameError::Body(BODY_MAX.0 as u32 + 1)
        );
        let front = packed().front();
        let stranger = Head::read(front[..HEAD].try_into().unwrap(), Limits::OF_STRANGERS);
        assert_eq!(stranger, Err(FrameError::Payload(9)));
    }

    proptest! {
        #[test]
        fn every_changed_bit_of_a_head_is_noticed(bit in 0usize..HEAD * 8) {
            let mut front = packed().front().to_vec();
            front[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(head(&front).is_err());
        }
    }
}
