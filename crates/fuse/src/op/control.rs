//! FORGET, INTERRUPT, and rarely used operations.

use crate::buffer::Payload;
use crate::wire::{Cursor, FromWire, IoctlFlags, Malformed, PollFlags};
use crate::{FileHandle, NodeId, Unique};

/// The kernel drops `lookups` references to `node`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forget {
    pub node: NodeId,
    pub lookups: u64,
}

pub(crate) struct BatchForget(pub Vec<Forget>);

impl FromWire for BatchForget {
    fn from_wire(body: &mut Cursor<'_>) -> Result<BatchForget, Malformed> {
        let count = body.u32("count")? as usize;
        body.skip(4)?;
        let limit = body.left() / 16;
        if count > limit {
            return Err(Malformed::Count {
                field: "count",
                stated: count,
                limit,
            });
        }
        let mut batch = Vec::with_capacity(count);
        for _ in 0..count {
            batch.push(Forget {
                node: NodeId(body.u64("node")?),
                lookups: body.u64("lookups")?,
            });
        }
        Ok(BatchForget(batch))
    }
}

pub(crate) struct Interrupt(pub Unique);

impl FromWire for Interrupt {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Interrupt, Malformed> {
        Ok(Interrupt(Unique(body.u64("unique")?)))
    }
}

/// ioctl(2), in its restricted form: the kernel has copied the argument, with the length that `cmd` encodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ioctl {
    pub fh: FileHandle,
    pub flags: IoctlFlags,
    pub cmd: u32,
    /// The program's argument: a number or an address.
    pub arg: u64,
    /// The data that the program passed.
    pub data: Vec<u8>,
    /// Largest reply in bytes.
    pub out_size: u32,
}

impl FromWire for Ioctl {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Ioctl, Malformed> {
        let fh = FileHandle(body.u64("fh")?);
        let flags = IoctlFlags::from_bits_retain(body.u32("flags")?);
        let cmd = body.u32("cmd")?;
        let arg = body.u64("arg")?;
        let in_size = body.u32("in size")? as usize;
        let out_size = body.u32("out size")?;
        let data = body.bytes(in_size, "data")?.to_vec();
        Ok(Ioctl {
            fh,
            flags,
            cmd,
            arg,
            data,
            out_size,
        })
    }
}

/// poll(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poll {
    pub fh: FileHandle,
    /// For `Notifier::poll`.
    pub kh: u64,
    pub flags: PollFlags,
    /// Requested POLL… events.
    pub events: u32,
}

impl FromWire for Poll {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Poll, Malformed> {
        let fh = FileHandle(body.u64("fh")?);
        let kh = body.u64("kh")?;
        let flags = PollFlags::from_bits_retain(body.u32("flags")?);
        Ok(Poll {
            fh,
            kh,
            flags,
            events: body.u32("events")?,
        })
    }
}

/// Cached pages that `Notifier::retrieve` requested; fewer bytes than requested if not all are cached.
#[derive(Debug)]
pub struct Retrieved {
    pub offset: u64,
    pub data: Payload,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RetrievedHead {
    pub offset: u64,
    pub size: usize,
}

impl FromWire for RetrievedHead {
    fn from_wire(body: &mut Cursor<'_>) -> Result<RetrievedHead, Malformed> {
        body.skip(8)?;
        let offset = body.u64("offset")?;
        let size = body.u32("size")? as usize;
        body.skip(20)?;
        // The kernel sends less than the size field states if a page was evicted meanwhile.
        let size = size.min(body.left());
        Ok(RetrievedHead { offset, size })
    }
}
