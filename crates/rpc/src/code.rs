//! The code of a frame: whoever has not the key of this connection neither makes, changes, repeats, reorders nor leaves out a frame
//! unnoticed (docs/decisions/2026-11-24-frame-codes.md).
//!
//! It is BLAKE3 with a key over the head, the body and the number of the frame in its direction, which does not travel. A key
//! serves one direction of one connection: it is made of both sides' random bytes and the key that both proved. The payload is
//! not covered, but for its length: its checksums lie in the body.

use bytes::BytesMut;
use std::fmt;

/// Bytes of a code: the last ones of a body.
pub const CODE: usize = 16;

/// Bytes of a frame's number.
const NUMBER: usize = 8;
const _: () = assert!(NUMBER <= CODE);

/// Of one direction of one connection. Never shown.
#[derive(Clone)]
pub struct CodeKey([u8; 32]);

impl fmt::Debug for CodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CodeKey")
    }
}

impl CodeKey {
    pub fn new(key: &[u8; 32]) -> CodeKey {
        CodeKey(*key)
    }

    /// Appends the code of frame `number` to its head and body.
    pub fn seal(&self, number: u64, frame: &mut BytesMut) {
        let length = frame.len();
        // The number stands where the code will: one piece of memory is hashed at once.
        frame.extend_from_slice(&number.to_le_bytes());
        let code = blake3::keyed_hash(&self.0, frame);
        frame.truncate(length);
        frame.extend_from_slice(&code.as_bytes()[..CODE]);
    }

    /// Whether head and body end with the code of frame `number`. What stood there is lost.
    pub fn verifies(&self, number: u64, frame: &mut [u8]) -> bool {
        let Some(length) = frame.len().checked_sub(CODE) else {
            return false;
        };
        let mut shown = [0; CODE];
        shown.copy_from_slice(&frame[length..]);
        frame[length..length + NUMBER].copy_from_slice(&number.to_le_bytes());
        let code = blake3::keyed_hash(&self.0, &frame[..length + NUMBER]);
        constant_time_eq::constant_time_eq(&code.as_bytes()[..CODE], &shown)
    }
}

/// Of both directions, as one side uses them.
#[derive(Clone, Debug)]
pub struct Codes {
    pub send: CodeKey,
    pub receive: CodeKey,
}

impl Codes {
    pub fn new(send: CodeKey, receive: CodeKey) -> Codes {
        Codes { send, receive }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_code_holds_for_its_key_its_number_and_every_bit(
            bytes in proptest::collection::vec(any::<u8>(), 1..200),
            number: u64,
            bit: usize,
        ) {
            let key = CodeKey::new(&[7; 32]);
            let mut frame = BytesMut::from(&bytes[..]);
            key.seal(number, &mut frame);
            prop_assert_eq!(frame.len(), bytes.len() + CODE);
            prop_assert!(key.verifies(number, &mut frame.clone()));
            prop_assert!(!key.verifies(number.wrapping_add(1), &mut frame.clone()));
            prop_assert!(!CodeKey::new(&[8; 32]).verifies(number, &mut frame.clone()));
            let bit = bit % (frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!key.verifies(number, &mut frame));
        }

        #[test]
        fn what_is_shorter_than_a_code_has_none(mut bytes in proptest::collection::vec(any::<u8>(), 0..CODE)) {
            prop_assert!(!CodeKey::new(&[7; 32]).verifies(0, &mut bytes));
        }
    }
}
