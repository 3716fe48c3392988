//! How the bytes of an input are meant. The first says how to twist the message that follows.

use gupfs_fuse::fuzzing;

/// SETXATTR has its longer form.
pub const LONG: u8 = 1;
/// The header's length is as it is in the input, not as long as the message is.
pub const LENGTH_LIES: u8 = 2;
/// For a ring: the queue has few places left.
pub const CROWDED: u8 = 4;
/// For a ring: four bytes before the message say how long the payload is.
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

    /// What is left, of at most so many bytes.
    pub fn message(&self, most: usize) -> Vec<u8> {
        let message = self.rest[..self.rest.len().min(most)].to_vec();
        match self.is(LENGTH_LIES) {
            true => message,
            false => fuzzing::with_length(message),
        }
    }
}
