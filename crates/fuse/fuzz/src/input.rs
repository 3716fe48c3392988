//! The format of an input: the first byte selects how to modify the message that follows.

use gupfs_fuse::fuzzing;

/// SETXATTR has its long form.
pub const LONG: u8 = 1;
/// The header's length field stays as in the input instead of being set to the message's length.
pub const LENGTH_LIES: u8 = 2;
/// For a ring: the queue has few free entries.
pub const CROWDED: u8 = 4;
/// For a ring: four bytes before the message set the payload length.
pub const PAYLOAD_LIES: u8 = 8;

pub struct Input<'a> {
    pub twist: u8,
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Option<Input<'a>> {
        let (twist, rest) = bytes.split_first()?;
        Some(Input {
            twist: *twist,
            rest,
        })
    }

    pub fn is(&self, twist: u8) -> bool {
        self.twist & twist != 0
    }

    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*head)
    }

    /// The remaining input as a message of at most `most` bytes.
    pub fn message(&self, most: usize) -> Vec<u8> {
        let message = self.rest[..self.rest.len().min(most)].to_vec();
        match self.is(LENGTH_LIES) {
            true => message,
            false => fuzzing::with_length(message),
        }
    }
}
