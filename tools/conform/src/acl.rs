//! POSIX ACLs as the attributes system.posix_acl_access and system.posix_acl_default carry them, and as text.
//!
//! The bytes: version 2 as u32, then entries of tag u16, permissions u16, id u32, all little-endian, ordered by tag
//! and id. The text: `u::rw- u:65533:r-- g::r-- m::r-- o::---`.

use std::fmt::Write;

pub const ACCESS: &str = "system.posix_acl_access";
pub const DEFAULT: &str = "system.posix_acl_default";

const VERSION: u32 = 2;
/// The id of entries without a user or group.
const NO_ID: u32 = u32::MAX;

/// The attribute's bytes for an ACL written as text. The text stands in a check, so a mistake in it is ours.
pub fn acl(text: &str) -> Vec<u8> {
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for entry in text.split_whitespace() {
        let [who, id, permissions] = entry
            .split(':')
            .collect::<Vec<_>>()
            .try_into()
            .expect("an ACL entry reads who:id:rwx");
        let tag: u16 = match (who, id) {
            ("u", "") => 0x01,
            ("u", _) => 0x02,
            ("g", "") => 0x04,
            ("g", _) => 0x08,
            ("m", "") => 0x10,
            ("o", "") => 0x20,
            _ => panic!("{entry} is no ACL entry"),
        };
        let bit = |letter, value| {
            if permissions.contains(letter) {
                value
            } else {
                0u16
            }
        };
        let permissions = bit('r', 4) | bit('w', 2) | bit('x', 1);
        let id = if id.is_empty() {
            NO_ID
        } else {
            id.parse().expect("an ACL entry's id is a number")
        };
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// The ACL that an attribute's bytes carry; a malformed one is told as such.
pub fn acl_text(bytes: &[u8]) -> String {
    let Some((version, entries)) = bytes.split_at_checked(4) else {
        return "no header".into();
    };
    if version != VERSION.to_le_bytes() || entries.len() % 8 != 0 {
        return format!("malformed: {}", bytes.escape_ascii());
    }
    let mut text = String::new();
    for entry in entries.chunks(8) {
        let tag = u16::from_le_bytes([entry[0], entry[1]]);
        let permissions = u16::from_le_bytes([entry[2], entry[3]]);
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let who = match tag {
            0x01 | 0x02 => "u",
            0x04 | 0x08 => "g",
            0x10 => "m",
            0x20 => "o",
            _ => "?",
        };
        let id = if id == NO_ID {
            String::new()
        } else {
            id.to_string()
        };
        let bit = |value, letter| {
            if permissions & value != 0 {
                letter
            } else {
                '-'
            }
        };
        let blank = if text.is_empty() { "" } else { " " };
        write!(
            text,
            "{blank}{who}:{id}:{}{}{}",
            bit(4, 'r'),
            bit(2, 'w'),
            bit(1, 'x')
        )
        .expect("a string takes text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_are_each_others_inverse() {
        let text = "u::rw- u:65533:r-- g::r-- g:7:-wx m::rwx o::---";
        assert_eq!(acl_text(&acl(text)), text);
        assert_eq!(acl("u::rwx").len(), 12);
        assert_eq!(acl("u::rwx")[..8], [2, 0, 0, 0, 1, 0, 7, 0]);
        assert!(acl_text(b"abc").contains("no header"));
    }
}
