//! Parses numbers and names of a message in order, never beyond its end.

use thiserror::Error;

/// Why a message could not be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Malformed {
    #[error("{field} needs {need} bytes, {have} are left")]
    Short {
        field: &'static str,
        need: usize,
        have: usize,
    },
    #[error("{0} does not end with a zero byte")]
    Unterminated(&'static str),
    #[error("{0} is empty")]
    Empty(&'static str),
    #[error("the header states {stated} bytes, but {received} were received")]
    Length { stated: usize, received: usize },
    #[error("{field} is {stated}, but at most {limit} are possible")]
    Count {
        field: &'static str,
        stated: usize,
        limit: usize,
    },
}

/// The part of a message that has not been parsed yet.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(message: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: message }
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(Malformed::Short {
                field,
                need: N,
                have: self.rest.len(),
            });
        };
        self.rest = rest;
        Ok(*head)
    }

    /// The protocol uses the byte order of the host: both ends run on it.
    ///
    /// # Errors
    /// `Short` if fewer bytes are left.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, Malformed> {
        self.array(field).map(u16::from_ne_bytes)
    }

    /// # Errors
    /// `Short` if fewer bytes are left.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        self.array(field).map(u32::from_ne_bytes)
    }

    /// # Errors
    /// `Short` if fewer bytes are left.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, Malformed> {
        self.array(field).map(u64::from_ne_bytes)
    }

    /// Skips padding, and fields that a server does not use.
    ///
    /// # Errors
    /// `Short` if fewer bytes are left.
    pub fn skip(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.bytes(bytes, "padding").map(drop)
    }

    /// # Errors
    /// `Short` if fewer bytes are left.
    pub fn bytes(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
        let Some((head, rest)) = self.rest.split_at_checked(count) else {
            return Err(Malformed::Short {
                field,
                need: count,
                have: self.rest.len(),
            });
        };
        self.rest = rest;
        Ok(head)
    }

    /// Returns the bytes before a zero byte, which is consumed. An empty name is rejected: the kernel never sends one.
    ///
    /// # Errors
    /// `Unterminated` without a zero byte, `Empty` for an empty name.
    pub fn name(&mut self, field: &'static str) -> Result<&'a [u8], Malformed> {
        let end = self
            .rest
            .iter()
            .position(|byte| *byte == 0)
            .ok_or(Malformed::Unterminated(field))?;
        if end == 0 {
            return Err(Malformed::Empty(field));
        }
        let name = self.bytes(end, field)?;
        self.skip(1)?;
        Ok(name)
    }

    pub fn left(&self) -> usize {
        self.rest.len()
    }
}

/// A value that can be parsed from the body of a request.
pub trait FromWire: Sized {
    /// # Errors
    /// `Malformed` if the body is too short, or if one of its fields has an impossible value.
    fn from_wire(body: &mut Cursor<'_>) -> Result<Self, Malformed>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_at_their_zero_byte() {
        let mut cursor = Cursor::new(b"old\0new\0rest");
        assert_eq!(cursor.name("old name"), Ok(&b"old"[..]));
        assert_eq!(cursor.name("new name"), Ok(&b"new"[..]));
        assert_eq!(cursor.name("third"), Err(Malformed::Unterminated("third")));
        assert_eq!(
            Cursor::new(b"\0").name("name"),
            Err(Malformed::Empty("name"))
        );
    }

    #[test]
    fn nothing_is_read_beyond_the_end() {
        let mut cursor = Cursor::new(&[1, 0, 0]);
        assert_eq!(
            cursor.u32("size"),
            Err(Malformed::Short {
                field: "size",
                need: 4,
                have: 3
            })
        );
        assert_eq!(cursor.left(), 3);
        assert_eq!(
            cursor.bytes(4, "data"),
            Err(Malformed::Short {
                field: "data",
                need: 4,
                have: 3
            })
        );
        assert_eq!(cursor.bytes(3, "data"), Ok(&[1, 0, 0][..]));
    }
}
