//! The MAC of a frame: the receiver detects each frame that a process without the connection's key forges, changes, repeats,
//! reorders or drops (docs/decisions/2026-11-24-frame-macs.md).
//!
//! The MAC is keyed BLAKE3 over the head, the body and the frame's number in its direction; the number is not transmitted. A key
//! serves one direction of one connection: both sides derive it from both nonces and the key that both proved.
//!
//! Of the payload the MAC covers the first and the last 4 KiB, and its length. A payload carries bytes of files; a block of 4 KiB
//! that lies whole in it has its checksum in the body, and the blocks at its edges, of which it has a part, have none. Of a payload
//! longer than both edges whose blocks all have checksums it covers nothing (`Flags::CHECKSUMMED`).

use bytes::BytesMut;
use std::fmt;

/// Length of a frame MAC, which is the end of the body.
pub const FRAME_MAC_LEN: usize = 16;

/// How much of the payload's start and of its end the MAC covers: a block of `checksum`, so that every byte lies in
/// one of the two or in a block that the payload has whole.
pub const PAYLOAD_EDGE: usize = 4096;
const _: () = assert!(PAYLOAD_EDGE as u64 == gupfs_proto::limits::CHECKSUM_BLOCK);

/// Payloads up to this length are covered whole.
pub const COVERED_PAYLOAD: usize = 2 * PAYLOAD_EDGE;

/// From this length of a payload on, what the MAC covers is copied to one buffer before it is hashed: BLAKE3 hashes eight chunks
/// of 1 KiB at once only if they arrive together and begin at the start of the input.
const GATHERED_PAYLOAD_MIN: usize = 1024;

/// The MAC key of one direction of one connection. `Debug` never prints it.
#[derive(Clone)]
pub struct FrameMacKey([u8; 32]);

impl fmt::Debug for FrameMacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FrameMacKey")
    }
}

impl FrameMacKey {
    pub fn new(key: &[u8; 32]) -> FrameMacKey {
        FrameMacKey(*key)
    }

    /// Appends the MAC of frame `number`, which `payload` follows, to its head and body.
    pub fn append_mac(&self, number: u64, frame: &mut BytesMut, payload: &[u8]) {
        let mac = self.mac(number, frame, payload);
        frame.extend_from_slice(&mac);
    }

    /// Whether head and body, which `payload` follows, end with the MAC of frame `number`.
    pub fn verifies(&self, number: u64, frame: &[u8], payload: &[u8]) -> bool {
        let Some(length) = frame.len().checked_sub(FRAME_MAC_LEN) else {
            return false;
        };
        let (front, shown) = frame.split_at(length);
        constant_time_eq::constant_time_eq(&self.mac(number, front, payload), shown)
    }

    fn mac(&self, number: u64, front: &[u8], payload: &[u8]) -> [u8; FRAME_MAC_LEN] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        let number = number.to_le_bytes();
        if payload.len() < GATHERED_PAYLOAD_MIN {
            hasher.update(front).update(&number).update(payload);
        } else {
            let (first, last) = edges(payload);
            let length = front.len() + number.len() + first.len() + last.len();
            let mut gathered = Vec::with_capacity(length);
            for part in [front, &number, first, last] {
                gathered.extend_from_slice(part);
            }
            hasher.update(&gathered);
        }
        let mut mac = [0; FRAME_MAC_LEN];
        mac.copy_from_slice(&hasher.finalize().as_bytes()[..FRAME_MAC_LEN]);
        mac
    }
}

/// The parts of a payload that the MAC covers, in their order.
fn edges(payload: &[u8]) -> (&[u8], &[u8]) {
    match payload.len() > COVERED_PAYLOAD {
        true => (
            &payload[..PAYLOAD_EDGE],
            &payload[payload.len() - PAYLOAD_EDGE..],
        ),
        false => (payload, &[]),
    }
}

/// The MAC keys of both directions, as one side uses them.
#[derive(Clone, Debug)]
pub struct FrameMacKeys {
    pub send: FrameMacKey,
    pub receive: FrameMacKey,
    /// The peer knows `Flags::CHECKSUMMED`.
    pub omits_checksummed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_mac_verifies_only_with_its_key_its_number_and_unchanged_bits(
            bytes in proptest::collection::vec(any::<u8>(), 1..200),
            number: u64,
            bit: usize,
        ) {
            let key = FrameMacKey::new(&[7; 32]);
            let mut frame = BytesMut::from(&bytes[..]);
            key.append_mac(number, &mut frame, b"payload");
            prop_assert_eq!(frame.len(), bytes.len() + FRAME_MAC_LEN);
            prop_assert!(key.verifies(number, &frame, b"payload"));
            prop_assert!(!key.verifies(number.wrapping_add(1), &frame, b"payload"));
            prop_assert!(!FrameMacKey::new(&[8; 32]).verifies(number, &frame, b"payload"));
            let bit = bit % (frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!key.verifies(number, &frame, b"payload"));
        }

        /// Every byte of a payload is covered, or lies in a block that the payload has whole, wherever its blocks begin.
        #[test]
        fn a_changed_payload_verifies_only_where_whole_blocks_have_checksums(
            length in 1..5 * PAYLOAD_EDGE,
            begins in 0..PAYLOAD_EDGE,
            changed: prop::sample::Index,
        ) {
            let key = FrameMacKey::new(&[7; 32]);
            let mut payload: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut frame = BytesMut::from(&b"head and body"[..]);
            key.append_mac(3, &mut frame, &payload);
            prop_assert!(key.verifies(3, &frame, &payload));
            let at = changed.index(length);
            payload[at] ^= 1;
            let block = (begins + at) / PAYLOAD_EDGE * PAYLOAD_EDGE;
            let is_whole = block >= begins && block + PAYLOAD_EDGE <= begins + length;
            prop_assert!(is_whole || !key.verifies(3, &frame, &payload));
        }

        #[test]
        fn a_frame_shorter_than_a_mac_does_not_verify(bytes in proptest::collection::vec(any::<u8>(), 0..FRAME_MAC_LEN)) {
            prop_assert!(!FrameMacKey::new(&[7; 32]).verifies(0, &bytes, &[]));
        }
    }
}
