//! One frame: a head of 32 bytes, a body and a payload (docs/formats/frames.md).

use crate::frame_mac::{COVERED_PAYLOAD, FRAME_MAC_LEN, FrameMacKeys};
use crate::limits::HANDSHAKE_BODY_MAX;
use bytes::{BufMut, Bytes, BytesMut};
use gupfs_proto::limits::{BODY_MAX, PAYLOAD_MAX};
use gupfs_proto::wire::{EncodedMessage, MessageKind};

pub const HEAD_LEN: usize = 32;
const MAGIC: u32 = u32::from_le_bytes(*b"gpf1");

bitflags::bitflags! {
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Flags: u8 {
        /// This frame is the reply to the request with the same id in the other direction.
        const REPLY = 1;
        /// With REPLY: the server did not accept the request; resend it after the milliseconds in the body.
        const BUSY = 2;
        /// The payload consists of whole blocks that all have checksums in the body: the MAC does not cover it. Since LINK
        /// version 3, in frames with a MAC.
        const CHECKSUMMED = 4;
    }
}

/// The head of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The version of the message kind that introduced this message. At most the version that the handshake negotiated.
    pub version: u8,
    pub flags: Flags,
    pub kind: MessageKind,
    /// The requester chooses it; each direction has its own sequence.
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

/// An encoded message that can be sent over any connection. `head_and_body` encodes the head when the message is sent: each
/// connection has MAC keys of its own.
#[derive(Clone, Debug)]
pub struct PackedFrame {
    kind: MessageKind,
    version: u8,
    flags: Flags,
    id: u64,
    body: Bytes,
    body_sum: u32,
    pub payload: Bytes,
    /// The MAC need not cover the payload.
    is_checksummed: bool,
}

/// Largest lengths of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameLimits {
    pub body: u32,
    pub payload: u32,
}

impl FrameLimits {
    /// The same limits for bodies that end with a MAC.
    pub fn with_mac(self) -> FrameLimits {
        FrameLimits {
            body: self.body + FRAME_MAC_LEN as u32,
            ..self
        }
    }

    /// After the handshake.
    pub const AUTHENTICATED: FrameLimits = FrameLimits {
        body: BODY_MAX.0 as u32,
        payload: PAYLOAD_MAX.0 as u32,
    };
    /// Before the other side has proved its key.
    pub const UNAUTHENTICATED: FrameLimits = FrameLimits {
        body: HANDSHAKE_BODY_MAX,
        payload: 0,
    };
}

/// Why the received bytes are not a valid frame. The receiver closes the connection: it does not know where the next frame
/// begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    #[error("the bytes do not begin with the magic number of a gupfs frame")]
    Magic,
    #[error("the peer uses TLS, and this side does not")]
    Tls,
    #[error("the checksum of the frame's head does not match")]
    HeadSum,
    #[error("the checksum of the frame's body does not match")]
    BodySum,
    #[error("the frame's body has {0} bytes, more than allowed")]
    BodyTooLong(u32),
    #[error("the frame's payload has {0} bytes, more than allowed")]
    PayloadTooLong(u32),
    #[error(
        "the frame's MAC is wrong: a frame was forged, changed, repeated or dropped on the network"
    )]
    Mac,
    #[error("the frame has unknown flags: {0:#x}")]
    Flags(u8),
}

/// Makes the frame of a message.
///
/// # Errors
/// The message is longer than a frame may be.
pub fn pack(
    kind: MessageKind,
    flags: Flags,
    id: u64,
    message: EncodedMessage,
) -> Result<PackedFrame, FrameError> {
    let EncodedMessage {
        min_version: version,
        body,
        payload,
        is_payload_checksummed,
    } = message;
    let packed = PackedFrame {
        kind,
        version,
        flags,
        id,
        body_sum: crc32c::crc32c(&body),
        body: body.into(),
        is_checksummed: is_payload_checksummed && payload.len() > COVERED_PAYLOAD,
        payload,
    };
    packed
        .head(packed.flags)
        .check_lengths(FrameLimits::AUTHENTICATED)?;
    Ok(packed)
}

impl PackedFrame {
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The kind of the message, and the version that introduced it.
    pub fn kind_and_version(&self) -> (MessageKind, u8) {
        (self.kind, self.version)
    }

    fn head(&self, flags: Flags) -> Head {
        let length = |bytes: &Bytes| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Head {
            version: self.version,
            flags,
            kind: self.kind,
            id: self.id,
            body: length(&self.body),
            payload: length(&self.payload),
            body_sum: self.body_sum,
        }
    }

    /// Head and body as they are sent; the payload follows them.
    pub fn head_and_body(&self) -> BytesMut {
        self.write_head_and_body(self.flags, 0)
    }

    /// The same with a MAC at the body's end.
    pub fn head_and_body_with_mac(&self, number: u64, keys: &FrameMacKeys) -> BytesMut {
        let omits_payload = self.is_checksummed && keys.omits_checksummed;
        let (flags, covered) = match omits_payload {
            true => (self.flags | Flags::CHECKSUMMED, &[][..]),
            false => (self.flags, &self.payload[..]),
        };
        let mut front = self.write_head_and_body(flags, FRAME_MAC_LEN);
        keys.send.append_mac(number, &mut front, covered);
        front
    }

    /// Writes head and body. The head counts `extra` more bytes in the body, which the caller appends.
    pub(crate) fn write_head_and_body(&self, flags: Flags, extra: usize) -> BytesMut {
        let mut front = BytesMut::with_capacity(HEAD_LEN + self.body.len() + extra);
        let mut head = self.head(flags);
        head.body += extra as u32;
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
        debug_assert_eq!(into.len() - start, HEAD_LEN);
    }

    /// Decodes a head.
    ///
    /// # Errors
    /// The bytes are not the head of a frame, its checksum does not match, or the frame is longer than the limits allow.
    pub fn read(bytes: &[u8; HEAD_LEN], limits: FrameLimits) -> Result<Head, FrameError> {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if u32_at(0) != MAGIC {
            // A TLS record that carries a TLS handshake.
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
            kind: MessageKind(u16::from_le_bytes([bytes[6], bytes[7]])),
            id: u64::from(u32_at(8)) | u64::from(u32_at(12)) << 32,
            body: u32_at(16),
            payload: u32_at(20),
            body_sum: u32_at(24),
        };
        head.check_lengths(limits)?;
        Ok(head)
    }

    fn check_lengths(&self, limits: FrameLimits) -> Result<(), FrameError> {
        if self.body > limits.body {
            return Err(FrameError::BodyTooLong(self.body));
        }
        if self.payload > limits.payload {
            return Err(FrameError::PayloadTooLong(self.payload));
        }
        Ok(())
    }

    /// Checks the body of the frame against the checksum in its head.
    ///
    /// # Errors
    /// `BodySum`.
    pub fn check_body(&self, body: &[u8]) -> Result<(), FrameError> {
        match crc32c::crc32c(body) == self.body_sum {
            true => Ok(()),
            false => Err(FrameError::BodySum),
        }
    }

    /// The part of the payload that the MAC covers at most.
    pub fn covered_payload<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        match self.flags.contains(Flags::CHECKSUMMED) {
            true => &[],
            false => payload,
        }
    }

    pub fn is_reply(&self) -> bool {
        self.flags.contains(Flags::REPLY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame_mac::FrameMacKey;
    use proptest::prelude::*;

    fn packed() -> PackedFrame {
        let message = EncodedMessage {
            min_version: 3,
            body: b"a body".to_vec(),
            payload: Bytes::from_static(b"a payload"),
            is_payload_checksummed: false,
        };
        pack(MessageKind::DATA, Flags::REPLY, 0x1_0000_0002, message).unwrap()
    }

    fn head(bytes: &[u8]) -> Result<Head, FrameError> {
        Head::read(
            bytes[..HEAD_LEN].try_into().unwrap(),
            FrameLimits::AUTHENTICATED,
        )
    }

    #[test]
    fn a_decoded_head_equals_the_encoded_head() {
        let front = packed().head_and_body();
        let head = head(&front).unwrap();
        assert_eq!(
            (head.kind, head.version, head.id),
            (MessageKind::DATA, 3, 0x1_0000_0002)
        );
        assert_eq!((head.body, head.payload, head.is_reply()), (6, 9, true));
        assert_eq!(head.check_body(&front[HEAD_LEN..]), Ok(()));
        assert_eq!(head.check_body(b"a bodY"), Err(FrameError::BodySum));
    }

    #[test]
    fn a_message_longer_than_the_limit_is_neither_sent_nor_accepted() {
        let long = EncodedMessage {
            min_version: 6,
            body: vec![0; BODY_MAX.0 as usize + 1],
            ..EncodedMessage::default()
        };
        let refused = pack(MessageKind::META, Flags::empty(), 1, long);
        assert_eq!(
            refused.unwrap_err(),
            FrameError::BodyTooLong(BODY_MAX.0 as u32 + 1)
        );
        let front = packed().head_and_body();
        let unauthenticated = Head::read(
            front[..HEAD_LEN].try_into().unwrap(),
            FrameLimits::UNAUTHENTICATED,
        );
        assert_eq!(unauthenticated, Err(FrameError::PayloadTooLong(9)));
    }

    /// Whether the MAC of a frame with a payload of this length still verifies after the payload's first byte has changed.
    fn verifies_changed(
        length: usize,
        is_payload_checksummed: bool,
        omits_checksummed: bool,
    ) -> bool {
        let key = FrameMacKey::new(&[7; 32]);
        let keys = FrameMacKeys {
            send: key.clone(),
            receive: key.clone(),
            omits_checksummed,
        };
        let message = EncodedMessage {
            min_version: 3,
            body: b"a body".to_vec(),
            payload: vec![1; length].into(),
            is_payload_checksummed,
        };
        let packed = pack(MessageKind::DATA, Flags::REPLY, 1, message).unwrap();
        let front = packed.head_and_body_with_mac(5, &keys);
        let decoded = Head::read(
            front[..HEAD_LEN].try_into().unwrap(),
            FrameLimits::AUTHENTICATED.with_mac(),
        );
        let decoded = decoded.unwrap();
        assert!(key.verifies(5, &front, decoded.covered_payload(&packed.payload)));
        let mut without_flag = front.to_vec();
        without_flag[5] ^= Flags::CHECKSUMMED.bits();
        assert!(!key.verifies(5, &without_flag, &packed.payload));
        let mut changed = packed.payload.to_vec();
        changed[0] ^= 1;
        key.verifies(5, &front, decoded.covered_payload(&changed))
    }

    #[test]
    fn the_mac_omits_only_long_payloads_with_checksums_and_only_for_peers_that_know_the_flag() {
        assert!(verifies_changed(12_288, true, true));
        assert!(!verifies_changed(12_288, false, true));
        assert!(!verifies_changed(12_288, true, false));
        assert!(!verifies_changed(8_192, true, true));
    }

    proptest! {
        #[test]
        fn every_changed_bit_of_a_head_is_detected(bit in 0usize..HEAD_LEN * 8) {
            let mut front = packed().head_and_body().to_vec();
            front[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(head(&front).is_err());
        }
    }
}
