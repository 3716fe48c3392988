//! The memory that contains a request's bytes.

use crate::buffer::{Buffer, Payload};
use crate::call::CallContext;
use crate::transport::ring::EntryRef;

/// The buffer or the ring entry of a request that is about to begin.
pub(super) enum RequestMemory {
    /// A buffer that the device was read into; None once a payload has it.
    Device(Option<Buffer>),
    Ring {
        entry: EntryRef,
        /// Offset of the data bytes in the ring entry's payload.
        payload_start: usize,
        /// Few ring entries are left: this request should not wait long.
        crowded: bool,
    },
}

impl RequestMemory {
    pub fn is_crowded(&self) -> bool {
        matches!(self, RequestMemory::Ring { crowded: true, .. })
    }

    /// A reference to the ring entry for the handler. None if there is no entry, or if a reply may be sent before the handler is
    /// done: that reply needs the entry's payload for itself.
    pub fn lend_entry(&self, context: &CallContext) -> Option<EntryRef> {
        match self {
            RequestMemory::Ring { entry, .. } if !context.pending.may_reply_early() => {
                Some(entry.clone())
            }
            _ => None,
        }
    }

    /// The `size` data bytes of the request, without a copy unless a reply may be sent before the handler is done.
    pub fn take_payload(&mut self, size: usize, context: &CallContext) -> Payload {
        match self {
            RequestMemory::Device(buffer) => {
                let buffer = buffer.take();
                let buffer = buffer.expect("the payload of a new request is not taken");
                Payload::new(buffer, size, context.pool.clone())
            }
            RequestMemory::Ring {
                entry,
                payload_start,
                ..
            } => {
                let ring_payload = entry.take_payload();
                let ring_payload = ring_payload.expect("the payload of a new request is not taken");
                let payload = Payload::in_entry(ring_payload, *payload_start, size);
                match context.pending.may_reply_early() {
                    true => payload.copied(context.pool.clone()),
                    false => payload,
                }
            }
        }
    }

    /// The buffer, unless a payload has it, and the ring entry, for the reply.
    pub fn into_parts(self) -> (Option<Buffer>, Option<EntryRef>) {
        match self {
            RequestMemory::Device(buffer) => (buffer, None),
            RequestMemory::Ring { entry, .. } => (None, Some(entry)),
        }
    }
}
