//! Messages between the processes of one host and the one that started them.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | kind |
//! | 8 | length of the rest, little-endian |
//! | … | the rest |

use std::io::{self, Read, Write};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Barrier,
    Broadcast,
    Gather,
    Finish,
    Remember,
    Forget,
    /// The answer to each of the first four.
    Go,
    /// One process has failed: to the hub, and from it to all others.
    Alarm,
}

const KINDS: [Kind; 8] = [
    Kind::Barrier,
    Kind::Broadcast,
    Kind::Gather,
    Kind::Finish,
    Kind::Remember,
    Kind::Forget,
    Kind::Go,
    Kind::Alarm,
];

/// No message of ours comes near; a length above it is no message of ours.
const LENGTH_MAX: u64 = 1 << 32;

pub fn send(to: &mut impl Write, kind: Kind, bytes: &[u8]) -> io::Result<()> {
    let mut frame = Vec::with_capacity(9 + bytes.len());
    frame.push(kind as u8);
    frame.extend((bytes.len() as u64).to_le_bytes());
    frame.extend(bytes);
    to.write_all(&frame)
}

pub fn receive(from: &mut impl Read) -> io::Result<(Kind, Vec<u8>)> {
    let mut head = [0; 9];
    from.read_exact(&mut head)?;
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "no message of this program");
    let kind = *KINDS.get(usize::from(head[0])).ok_or_else(bad)?;
    let length = u64::from_le_bytes(head[1..].try_into().expect("eight bytes"));
    if length > LENGTH_MAX {
        return Err(bad());
    }
    let mut bytes = vec![0; length as usize];
    from.read_exact(&mut bytes)?;
    Ok((kind, bytes))
}

/// Several pieces as one.
pub fn join(pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in pieces {
        bytes.extend((piece.len() as u64).to_le_bytes());
        bytes.extend(piece);
    }
    bytes
}

pub fn split(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let (piece, rest) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
        pieces.push(piece.to_vec());
        bytes = rest;
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_pieces_come_back_as_they_went() {
        for (index, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            let mut wire = Vec::new();
            send(&mut wire, kind, b"abc").unwrap();
            assert_eq!(
                receive(&mut wire.as_slice()).unwrap(),
                (kind, b"abc".to_vec())
            );
        }
        let pieces = vec![b"".to_vec(), b"12".to_vec(), b"".to_vec()];
        assert_eq!(split(&join(&pieces)), Some(pieces));
        assert_eq!(split(b"short"), None);
        assert!(receive(&mut [9u8; 20].as_slice()).is_err());
    }
}
