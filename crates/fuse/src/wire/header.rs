//! The headers of requests and replies, and the extensions at the end of a request.

use super::{Cursor, Malformed};
use crate::limits::{IN_HEADER, OUT_HEADER};
use crate::{Errno, NodeId, Unique};

/// Supplementary groups of the caller that the kernel sends; empty unless CREATE_SUPP_GROUP was negotiated and the request
/// creates an object. The kernel sends only the group of the directory, if the caller is a member.
pub type Groups = Vec<u32>;

/// Lower types are security contexts; higher types are unknown.
const SUPPLEMENTARY_GROUPS: u32 = 32;

/// The first 40 bytes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// Length of the entire message.
    pub length: usize,
    pub opcode: u32,
    pub unique: Unique,
    pub node: NodeId,
    pub uid: u32,
    pub gid: u32,
    pub pid: u32,
    /// Length of the extensions at the end of the message, in bytes.
    pub extensions: usize,
}

impl RequestHeader {
    /// Parses the header alone, so that a request whose rest cannot be parsed still gets a reply.
    ///
    /// # Errors
    /// `Short` if the message is shorter than a header.
    pub fn from_wire(message: &[u8]) -> Result<RequestHeader, Malformed> {
        let mut head = Cursor::new(message);
        let header = RequestHeader {
            length: head.u32("length")? as usize,
            opcode: head.u32("opcode")?,
            unique: Unique(head.u64("unique")?),
            node: NodeId(head.u64("node")?),
            uid: head.u32("uid")?,
            gid: head.u32("gid")?,
            pid: head.u32("pid")?,
            extensions: usize::from(head.u16("extensions")?) * 8,
        };
        head.skip(2)?;
        Ok(header)
    }
}

/// The first 16 bytes of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplyHeader {
    /// Length of the entire message, below 4 GiB.
    pub length: usize,
    pub errno: Option<Errno>,
    pub unique: Unique,
}

impl ReplyHeader {
    /// An error has no body.
    pub fn error(unique: Unique, errno: Errno) -> ReplyHeader {
        ReplyHeader {
            length: OUT_HEADER,
            errno: Some(errno),
            unique,
        }
    }

    pub fn to_bytes(self) -> [u8; OUT_HEADER] {
        let error = self.errno.map_or(0, |errno| -errno.raw());
        let mut bytes = [0; OUT_HEADER];
        bytes[..4].copy_from_slice(&(self.length as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&error.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.unique.0.to_ne_bytes());
        bytes
    }
}

/// Body and groups of the message that begins with `header`.
///
/// # Errors
/// `Length` if the message does not have the length in its header, `Short` or `Count` if its extensions do not fit into it.
pub fn split<'a>(
    header: &RequestHeader,
    message: &'a [u8],
) -> Result<(Cursor<'a>, Groups), Malformed> {
    if header.length != message.len() {
        return Err(Malformed::Length {
            stated: header.length,
            received: message.len(),
        });
    }
    let mut rest = Cursor::new(message);
    rest.skip(IN_HEADER)?;
    let body = rest
        .left()
        .checked_sub(header.extensions)
        .ok_or(Malformed::Short {
            field: "extensions",
            need: header.extensions,
            have: rest.left(),
        })?;
    let body = rest.bytes(body, "body")?;
    let groups = if header.extensions == 0 {
        Groups::new()
    } else {
        groups(rest)?
    };
    Ok((Cursor::new(body), groups))
}

fn groups(mut extensions: Cursor<'_>) -> Result<Groups, Malformed> {
    const HEAD: usize = 8;
    let mut groups = Groups::new();
    while extensions.left() > 0 {
        let size = extensions.u32("extension size")? as usize;
        let kind = extensions.u32("extension type")?;
        let inner = size.checked_sub(HEAD).ok_or(Malformed::Count {
            field: "extension size",
            stated: size,
            limit: HEAD,
        })?;
        let mut inner = Cursor::new(extensions.bytes(inner, "extension")?);
        let padding = size.next_multiple_of(8) - size;
        extensions.skip(padding.min(extensions.left()))?;
        if kind != SUPPLEMENTARY_GROUPS {
            continue;
        }
        let count = inner.u32("group count")? as usize;
        let limit = inner.left() / 4;
        if count > limit {
            return Err(Malformed::Count {
                field: "group count",
                stated: count,
                limit,
            });
        }
        for _ in 0..count {
            groups.push(inner.u32("group")?);
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Put;

    fn message(body: &[u8], extensions: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put_u32((IN_HEADER + body.len() + extensions.len()) as u32);
        bytes.put_u32(1);
        bytes.put_u64(12);
        bytes.put_u64(1);
        bytes.put_u32(1000);
        bytes.put_u32(100);
        bytes.put_u32(4242);
        bytes.put_u16((extensions.len() / 8) as u16);
        bytes.put_u16(0);
        bytes.put(body);
        bytes.put(extensions);
        bytes
    }

    #[test]
    fn a_header_contains_caller_and_opcode() {
        let bytes = message(b"name\0", &[]);
        let header = RequestHeader::from_wire(&bytes).unwrap();
        assert_eq!(header.length, 45);
        assert_eq!(header.unique, Unique(12));
        assert_eq!((header.uid, header.gid, header.pid), (1000, 100, 4242));
        let (mut body, groups) = split(&header, &bytes).unwrap();
        assert_eq!(body.name("name").unwrap(), b"name");
        assert!(groups.is_empty());
    }

    #[test]
    fn groups_are_found_after_a_security_context() {
        let mut extensions = Vec::new();
        extensions.put_u32(12);
        extensions.put_u32(1);
        extensions.put_u32(0xdead);
        extensions.put_zeros(4);
        extensions.put_u32(16);
        extensions.put_u32(32);
        extensions.put_u32(1);
        extensions.put_u32(777);
        let bytes = message(b"name\0", &extensions);
        let header = RequestHeader::from_wire(&bytes).unwrap();
        let (body, groups) = split(&header, &bytes).unwrap();
        assert_eq!(groups, [777]);
        assert_eq!(body.left(), 5);
    }

    #[test]
    fn extensions_with_a_wrong_size_are_rejected() {
        for (size, count) in [(4, 1), (0, 0), (64, 1), (16, 2), (16, u32::MAX)] {
            let mut extensions = Vec::new();
            extensions.put_u32(size);
            extensions.put_u32(32);
            extensions.put_u32(count);
            extensions.put_u32(777);
            let bytes = message(b"name\0", &extensions);
            let header = RequestHeader::from_wire(&bytes).unwrap();
            assert!(
                split(&header, &bytes).is_err(),
                "size {size}, count {count}"
            );
        }
    }

    #[test]
    fn a_message_shorter_than_its_header_states_is_rejected() {
        let bytes = message(b"name\0", &[]);
        let header = RequestHeader::from_wire(&bytes).unwrap();
        let cut = split(&header, &bytes[..bytes.len() - 1]).err();
        assert_eq!(
            cut,
            Some(Malformed::Length {
                stated: 45,
                received: 44
            })
        );
    }
}
