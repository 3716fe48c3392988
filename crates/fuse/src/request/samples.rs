//! One complete request of each opcode, every field with a distinct value: input for tests and fuzzing.

use crate::limits::{IN_HEADER, MAJOR, MINOR};
use crate::transport::ring::{COMMIT_ID, HEADERS, OP_HEADER, OP_HEADER_MAX, PAYLOAD_BYTES};
use crate::wire::{InitFlags, Opcode, Put};

/// A complete message for each opcode.
pub fn messages() -> Vec<Vec<u8>> {
    let all = Opcode::ALL.iter();
    all.map(|opcode| message(*opcode as u32, &sample_body(*opcode)))
        .collect()
}

/// The first message of a mount.
pub fn init() -> Vec<u8> {
    let offered = InitFlags::all();
    let mut fields = vec![Word(MAJOR), Word(MINOR), Word(1 << 17)];
    fields.extend([Word(offered.low()), Word(offered.high())]);
    fields.extend((0..11).map(|_| Word(0)));
    message(Opcode::Init as u32, &body(&fields))
}

/// Sets the header's length field to the actual length of the message.
pub fn with_length(mut message: Vec<u8>) -> Vec<u8> {
    let length = (message.len() as u32).to_ne_bytes();
    if let Some(length_field) = message.first_chunk_mut() {
        *length_field = length;
    }
    message
}

/// Splits the message into headers and payload as the kernel does for a ring entry: `fixed` bytes after the header go into the
/// operation header, the rest into the payload. The message must contain a complete request header.
pub fn split_for_ring(message: &[u8], fixed: usize) -> ([u8; HEADERS], Vec<u8>) {
    let (head, rest) = message.split_at(IN_HEADER);
    let (fixed, payload) = rest.split_at(fixed.min(rest.len()));
    let mut headers = [0; HEADERS];
    headers[..IN_HEADER].copy_from_slice(head);
    // A longer fixed part does not fit; the message's length field still includes it, which a parser must not trust.
    let room = fixed.len().min(OP_HEADER_MAX);
    headers[OP_HEADER..][..room].copy_from_slice(&fixed[..room]);
    headers[COMMIT_ID..][..8].copy_from_slice(&message[8..16]);
    set_payload_length(&mut headers, payload.len() as u32);
    (headers, payload.to_vec())
}

/// Sets the payload length in the headers.
pub fn set_payload_length(headers: &mut [u8; HEADERS], bytes: u32) {
    headers[PAYLOAD_BYTES..][..4].copy_from_slice(&bytes.to_ne_bytes());
}

/// A message with this body, uid 1000, gid 100, node 9.
pub fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u32((IN_HEADER + body.len()) as u32);
    bytes.put_u32(opcode);
    bytes.put_u64(0x20);
    bytes.put_u64(9);
    for word in [1000, 100, 4242, 0] {
        bytes.put_u32(word);
    }
    bytes.put(body);
    bytes
}

/// One field of a message body.
pub enum Field {
    Word(u32),
    Quad(u64),
    Text(&'static [u8]),
}
pub use Field::{Quad, Text, Word};

pub fn body(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in fields {
        match field {
            Word(value) => bytes.put_u32(*value),
            Quad(value) => bytes.put_u64(*value),
            Text(text) => bytes.put(text),
        }
    }
    bytes
}

/// A complete body for each opcode.
pub fn sample_body(opcode: Opcode) -> Vec<u8> {
    let create = [Word(1), Word(2), Word(3), Word(1), Text(b"name\0")];
    let read = [
        Quad(1),
        Quad(2),
        Word(3),
        Word(2),
        Quad(4),
        Word(5),
        Word(0),
    ];
    let copy = [
        Quad(1),
        Quad(2),
        Quad(3),
        Quad(4),
        Quad(5),
        Quad(1 << 40),
        Quad(7),
    ];
    let lock = [
        Quad(1),
        Quad(2),
        Quad(3),
        Quad(4),
        Word(1),
        Word(6),
        Word(1),
        Word(0),
    ];
    match opcode {
        Opcode::Lookup | Opcode::Unlink | Opcode::Rmdir | Opcode::Removexattr => {
            body(&[Text(b"name\0")])
        }
        Opcode::Forget | Opcode::Interrupt => body(&[Quad(3)]),
        Opcode::BatchForget => body(&[Word(2), Word(0), Quad(5), Quad(6), Quad(7), Quad(8)]),
        Opcode::Getattr => body(&[Word(1), Word(0), Quad(7)]),
        Opcode::Setattr => body(&[
            Word(0xfff),
            Word(0),
            Quad(1),
            Quad(2),
            Quad(3),
            Quad(4),
            Quad(5),
            Quad(-6i64 as u64),
            Word(7),
            Word(8),
            Word(9),
            Word(10),
            Word(0),
            Word(11),
            Word(12),
            Word(0),
        ]),
        Opcode::Readlink | Opcode::Statfs | Opcode::Destroy | Opcode::Init => Vec::new(),
        Opcode::Setupmapping | Opcode::Removemapping => Vec::new(),
        Opcode::Symlink => body(&[Text(b"name\0to/where\0")]),
        Opcode::Mknod => body(&[Word(1), Word(2), Word(3), Word(0), Text(b"name\0")]),
        Opcode::Mkdir => body(&[Word(1), Word(2), Text(b"name\0")]),
        Opcode::Rename => body(&[Quad(5), Text(b"old\0new\0")]),
        Opcode::Rename2 => body(&[Quad(5), Word(1), Word(0), Text(b"old\0new\0")]),
        Opcode::Link => body(&[Quad(5), Text(b"name\0")]),
        Opcode::Open | Opcode::Opendir => body(&[Word(2), Word(1)]),
        Opcode::Read | Opcode::Readdir | Opcode::Readdirplus => body(&read),
        Opcode::Write => body(&[
            Quad(1),
            Quad(2),
            Word(4),
            Word(7),
            Quad(5),
            Word(6),
            Word(0),
            Text(b"data"),
        ]),
        Opcode::Release | Opcode::Releasedir => body(&[Quad(1), Word(2), Word(3), Quad(4)]),
        Opcode::Fsync | Opcode::Fsyncdir => body(&[Quad(1), Word(1), Word(0)]),
        Opcode::Setxattr => body(&[
            Word(5),
            Word(1),
            Word(1),
            Word(0),
            Text(b"user.x\0"),
            Text(b"value"),
        ]),
        Opcode::Getxattr => body(&[Word(5), Word(0), Text(b"user.x\0")]),
        Opcode::Listxattr => body(&[Word(5), Word(0)]),
        Opcode::Flush => body(&[Quad(1), Quad(0), Quad(2)]),
        Opcode::Getlk | Opcode::Setlk | Opcode::Setlkw => body(&lock),
        Opcode::Access => body(&[Word(4), Word(0)]),
        Opcode::Create | Opcode::Tmpfile => body(&create),
        Opcode::Bmap => body(&[Quad(1), Word(2), Word(0)]),
        Opcode::Ioctl => body(&[
            Quad(1),
            Word(16),
            Word(2),
            Quad(3),
            Word(4),
            Word(5),
            Text(b"data"),
        ]),
        Opcode::Poll => body(&[Quad(1), Quad(2), Word(1), Word(4)]),
        Opcode::NotifyReply => body(&[
            Quad(0),
            Quad(1),
            Word(4),
            Word(0),
            Quad(0),
            Quad(0),
            Text(b"data"),
        ]),
        Opcode::Fallocate => body(&[Quad(1), Quad(2), Quad(3), Word(4), Word(0)]),
        Opcode::Lseek => body(&[Quad(1), Quad(2), Word(3), Word(0)]),
        Opcode::CopyFileRange | Opcode::CopyFileRange64 => body(&copy),
        Opcode::Syncfs => body(&[Quad(0)]),
        Opcode::Statx => body(&[Word(1), Word(0), Quad(2), Word(3), Word(4)]),
    }
}
