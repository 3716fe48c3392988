//! Parses the bytes of a message into a request.

use crate::limits::BEFORE_PAYLOAD;
use crate::op;
use crate::wire::{Cursor, FromWire, Groups, Malformed, Opcode, RequestHeader, split};
use crate::{NodeId, Unique};

/// Negotiated options that change the layout of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestFormat {
    pub setxattr_ext: bool,
}

/// A parsed request.
#[derive(Debug)]
pub(crate) struct Request {
    pub groups: Groups,
    pub operation: Operation,
}

/// The operation with its arguments. A payload stays in the message's buffer.
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
    /// The older form, whose reply has 32 bits.
    CopyFileRange(op::CopyFileRange),
    CopyFileRange64(op::CopyFileRange),
    Syncfs,
    Tmpfile(op::Tmpfile),
    Statx(op::Statx),
    /// A second INIT, memory mappings of a device (DAX), and opcodes that this crate does not know.
    Unsupported(u32),
}

impl Request {
    /// Parses the message that begins with `header`.
    pub fn from_wire(
        header: &RequestHeader,
        message: &[u8],
        format: &RequestFormat,
    ) -> Result<Request, Malformed> {
        let (mut body, groups) = split(header, message)?;
        let operation = Operation::from_wire(header, &mut body, format)?;
        Ok(Request { groups, operation })
    }
}

impl Operation {
    /// Largest body of the reply in bytes, where the request limits it; `usize::MAX` where it does not.
    pub fn reply_body_max(&self) -> usize {
        /// The reply carries only a length if the program requests the needed buffer size.
        const SIZE: u32 = 8;
        const PATH_MAX: u32 = 4096;
        const IOCTL_HEAD: usize = 16;
        let size_max = match self {
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
        size_max as usize
    }

    /// Offset of the data bytes in a ring payload if `before_payload` bytes of the message precede that payload. None if the
    /// data does not lie in the payload, or if the data of a WRITE does not begin on its first page: no kernel sends that.
    pub fn payload_start(&self, before_payload: usize) -> Option<usize> {
        match self {
            Operation::Write(_) => (before_payload == BEFORE_PAYLOAD).then_some(0),
            // Linux puts the fixed part of this message into the payload as well.
            Operation::Retrieved(_) => BEFORE_PAYLOAD.checked_sub(before_payload),
            _ => Some(0),
        }
    }

    fn from_wire(
        header: &RequestHeader,
        body: &mut Cursor<'_>,
        format: &RequestFormat,
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
            Opcode::Setxattr if format.setxattr_ext => {
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
            Opcode::CopyFileRange => Operation::CopyFileRange(copy_with_32_bit_length(body)?),
            Opcode::CopyFileRange64 => Operation::CopyFileRange64(FromWire::from_wire(body)?),
            Opcode::Syncfs => Operation::Syncfs,
            Opcode::Statx => Operation::Statx(FromWire::from_wire(body)?),
            Opcode::Init | Opcode::Setupmapping | Opcode::Removemapping => {
                Operation::Unsupported(header.opcode)
            }
        })
    }
}

/// A single FORGET carries its node id in the header.
fn forget(node: NodeId, body: &mut Cursor<'_>) -> Result<op::Forget, Malformed> {
    Ok(op::Forget {
        node,
        lookups: body.u64("lookups")?,
    })
}

/// The reply to the older form has only 32 bits for the number of copied bytes.
fn copy_with_32_bit_length(body: &mut Cursor<'_>) -> Result<op::CopyFileRange, Malformed> {
    let mut copy = op::CopyFileRange::from_wire(body)?;
    copy.length = copy.length.min(u64::from(u32::MAX));
    Ok(copy)
}

#[cfg(any(test, fuzzing))]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
