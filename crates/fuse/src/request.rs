//! From the bytes of a message to what it asks for.

use crate::limits::BEFORE_PAYLOAD;
use crate::op;
use crate::wire::{Cursor, FromWire, Groups, Header, Malformed, Opcode, split};
use crate::{NodeId, Unique};

/// What kernel and server agreed on that changes how messages are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub setxattr_ext: bool,
}

/// A request, read.
#[derive(Debug)]
pub(crate) struct Request {
    pub groups: Groups,
    pub operation: Operation,
}

/// What is asked for. Payloads are still part of the message.
#[derive(Debug)]
pub(crate) enum Operation {
    Lookup(op::Lookup),
    Forget(Vec<op::Forget>),
    Getattr(op::Getattr),
    Setattr(op::Setattr),
    Readlink,
    Symlink(op::Symlink),
    Mknod(op::Mknod),
    Mkdir(op::Mkdir),
    Unlink(op::Unlink),
    Rmdir(op::Rmdir),
    Rename(op::Rename),
    Link(op::Link),
    Open(op::Open),
    Read(op::Read),
    Write(op::WriteHead),
    Statfs,
    Release(op::Release),
    Fsync(op::Fsync),
    Setxattr(op::Setxattr),
    Getxattr(op::Getxattr),
    Listxattr(op::Listxattr),
    Removexattr(op::Removexattr),
    Flush(op::Flush),
    Opendir(op::Open),
    Readdir(op::Readdir),
    Readdirplus(op::Readdir),
    Releasedir(op::Release),
    Fsyncdir(op::Fsync),
    Getlk(op::Lock),
    Setlk(op::Lock),
    Setlkw(op::Lock),
    Access(op::Access),
    Create(op::Create),
    Interrupt(Unique),
    Bmap(op::Bmap),
    Destroy,
    Ioctl(op::Ioctl),
    Poll(op::Poll),
    Retrieved(op::RetrievedHead),
    Fallocate(op::Fallocate),
    Lseek(op::Lseek),
    /// The older form, whose answer has 32 bits.
    CopyFileRange(op::CopyFileRange),
    CopyFileRange64(op::CopyFileRange),
    Syncfs,
    Tmpfile(op::Tmpfile),
    Statx(op::Statx),
    /// INIT again, memory mappings of a device, and numbers that this crate does not know.
    Unsupported(u32),
}

impl Request {
    /// Reads the message that `header` heads.
    pub fn from_wire(
        header: &Header,
        message: &[u8],
        dialect: &Dialect,
    ) -> Result<Request, Malformed> {
        let (mut body, groups) = split(header, message)?;
        let operation = Operation::from_wire(header, &mut body, dialect)?;
        Ok(Request { groups, operation })
    }
}

impl Operation {
    /// Bytes that the body of the answer may have, where the request says it.
    pub fn answer_room(&self) -> usize {
        /// A length (and nothing else) for who asks how much room is needed.
        const SIZE: u32 = 8;
        const PATH_MAX: u32 = 4096;
        const IOCTL_HEAD: usize = 16;
        let room = match self {
            Operation::Read(op) => op.size,
            Operation::Readdir(op) | Operation::Readdirplus(op) => op.size,
            Operation::Getxattr(op::Getxattr { size, .. })
            | Operation::Listxattr(op::Listxattr { size }) => match size {
                0 => SIZE,
                size => *size,
            },
            Operation::Readlink => PATH_MAX - 1,
            Operation::Ioctl(op) => return IOCTL_HEAD + op.out_size as usize,
            _ => return usize::MAX,
        };
        room as usize
    }

    /// Where the bytes that are handed over as they lie begin in a payload that is preceded by so much of the message. None if
    /// they do not lie in it, or those of a WRITE not on its first page: then it is not what a kernel sends.
    pub fn begins(&self, before_payload: usize) -> Option<usize> {
        match self {
            Operation::Write(_) => (before_payload == BEFORE_PAYLOAD).then_some(0),
            // Linux has a head for it in the payload, too.
            Operation::Retrieved(_) => BEFORE_PAYLOAD.checked_sub(before_payload),
            _ => Some(0),
        }
    }

    fn from_wire(
        header: &Header,
        body: &mut Cursor<'_>,
        dialect: &Dialect,
    ) -> Result<Operation, Malformed> {
        let Some(opcode) = Opcode::from_raw(header.opcode) else {
            return Ok(Operation::Unsupported(header.opcode));
        };
        Ok(match opcode {
            Opcode::Lookup => Operation::Lookup(FromWire::from_wire(body)?),
            Opcode::Forget => Operation::Forget(vec![forget(header.node, body)?]),
            Opcode::BatchForget => Operation::Forget(op::BatchForget::from_wire(body)?.0),
            Opcode::Getattr => Operation::Getattr(FromWire::from_wire(body)?),
            Opcode::Setattr => Operation::Setattr(FromWire::from_wire(body)?),
            Opcode::Readlink => Operation::Readlink,
            Opcode::Symlink => Operation::Symlink(FromWire::from_wire(body)?),
            Opcode::Mknod => Operation::Mknod(FromWire::from_wire(body)?),
            Opcode::Mkdir => Operation::Mkdir(FromWire::from_wire(body)?),
            Opcode::Unlink => Operation::Unlink(FromWire::from_wire(body)?),
            Opcode::Rmdir => Operation::Rmdir(FromWire::from_wire(body)?),
            Opcode::Rename => Operation::Rename(op::RenamePlain::from_wire(body)?.0),
            Opcode::Rename2 => Operation::Rename(FromWire::from_wire(body)?),
            Opcode::Link => Operation::Link(FromWire::from_wire(body)?),
            Opcode::Open => Operation::Open(FromWire::from_wire(body)?),
            Opcode::Read => Operation::Read(FromWire::from_wire(body)?),
            Opcode::Write => Operation::Write(FromWire::from_wire(body)?),
            Opcode::Statfs => Operation::Statfs,
            Opcode::Release => Operation::Release(FromWire::from_wire(body)?),
            Opcode::Fsync => Operation::Fsync(FromWire::from_wire(body)?),
            Opcode::Setxattr if dialect.setxattr_ext => {
                Operation::Setxattr(FromWire::from_wire(body)?)
            }
            Opcode::Setxattr => Operation::Setxattr(op::SetxattrShort::from_wire(body)?.0),
            Opcode::Getxattr => Operation::Getxattr(FromWire::from_wire(body)?),
            Opcode::Listxattr => Operation::Listxattr(FromWire::from_wire(body)?),
            Opcode::Removexattr => Operation::Removexattr(FromWire::from_wire(body)?),
            Opcode::Flush => Operation::Flush(FromWire::from_wire(body)?),
            Opcode::Opendir => Operation::Opendir(FromWire::from_wire(body)?),
            Opcode::Readdir => Operation::Readdir(FromWire::from_wire(body)?),
            Opcode::Readdirplus => Operation::Readdirplus(FromWire::from_wire(body)?),
            Opcode::Releasedir => Operation::Releasedir(FromWire::from_wire(body)?),
            Opcode::Fsyncdir => Operation::Fsyncdir(FromWire::from_wire(body)?),
            Opcode::Getlk => Operation::Getlk(FromWire::from_wire(body)?),
            Opcode::Setlk => Operation::Setlk(FromWire::from_wire(body)?),
            Opcode::Setlkw => Operation::Setlkw(FromWire::from_wire(body)?),
            Opcode::Access => Operation::Access(FromWire::from_wire(body)?),
            Opcode::Create => Operation::Create(FromWire::from_wire(body)?),
            Opcode::Tmpfile => Operation::Tmpfile(FromWire::from_wire(body)?),
            Opcode::Interrupt => Operation::Interrupt(op::Interrupt::from_wire(body)?.0),
            Opcode::Bmap => Operation::Bmap(FromWire::from_wire(body)?),
            Opcode::Destroy => Operation::Destroy,
            Opcode::Ioctl => Operation::Ioctl(FromWire::from_wire(body)?),
            Opcode::Poll => Operation::Poll(FromWire::from_wire(body)?),
            Opcode::NotifyReply => Operation::Retrieved(FromWire::from_wire(body)?),
            Opcode::Fallocate => Operation::Fallocate(FromWire::from_wire(body)?),
            Opcode::Lseek => Operation::Lseek(FromWire::from_wire(body)?),
            Opcode::CopyFileRange => Operation::CopyFileRange(short_copy(body)?),
            Opcode::CopyFileRange64 => Operation::CopyFileRange64(FromWire::from_wire(body)?),
            Opcode::Syncfs => Operation::Syncfs,
            Opcode::Statx => Operation::Statx(FromWire::from_wire(body)?),
            Opcode::Init | Opcode::Setupmapping | Opcode::Removemapping => {
                Operation::Unsupported(header.opcode)
            }
        })
    }
}

/// The single form of FORGET names its node in the header.
fn forget(node: NodeId, body: &mut Cursor<'_>) -> Result<op::Forget, Malformed> {
    Ok(op::Forget {
        node,
        lookups: body.u64("lookups")?,
    })
}

/// The answer to the older form cannot say more than 32 bits.
fn short_copy(body: &mut Cursor<'_>) -> Result<op::CopyFileRange, Malformed> {
    let mut copy = op::CopyFileRange::from_wire(body)?;
    copy.length = copy.length.min(u64::from(u32::MAX));
    Ok(copy)
}

#[cfg(any(test, fuzzing))]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
