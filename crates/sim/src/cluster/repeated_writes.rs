//! Checks that an object server executes a numbered write once: the replies to all its repetitions are equal, since a second execution
//! would give the object another mtime.

use gupfs_proto::data::{DataOp, DataReply, DataReplyBody, DataRequest, ObjectStat, WriteNumber};
use gupfs_proto::{OstId, SessionId, WriteVerifier};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct RepeatedWrites {
    /// The last answered number of each slot, and its reply.
    replies: BTreeMap<(OstId, SessionId, u16), (u64, ObjectStat, WriteVerifier)>,
}

/// A numbered write that has arrived.
#[derive(Clone, Copy)]
pub struct ArrivedWrite {
    ost: OstId,
    session: SessionId,
    number: WriteNumber,
}

impl ArrivedWrite {
    /// None if the request is not a numbered write.
    pub fn of(request: &DataRequest) -> Option<ArrivedWrite> {
        match request.op {
            DataOp::NumberedWrite { number, .. } => Some(ArrivedWrite {
                ost: request.ost,
                session: request.session,
                number,
            }),
            _ => None,
        }
    }
}

impl RepeatedWrites {
    /// Returns the rare event that this reply was, if any.
    ///
    /// # Errors
    /// The write that the object server has executed again.
    pub fn check_reply(
        &mut self,
        write: &ArrivedWrite,
        reply: &DataReply,
    ) -> Result<Option<&'static str>, String> {
        let Ok(DataReplyBody::Written(stat, verifier)) = *reply else {
            return Ok(None);
        };
        let WriteNumber { slot, number } = write.number;
        let key = (write.ost, write.session, slot);
        let (last, first_stat, first_verifier) =
            *(self.replies.entry(key)).or_insert((0, stat, verifier));
        if last < number {
            self.replies.insert(key, (number, stat, verifier));
            return Ok(None);
        }
        // A power loss may undo what was not synced, and the target has another verifier then.
        if last > number || verifier > first_verifier {
            return Ok(None);
        }
        match (stat, verifier) == (first_stat, first_verifier) {
            true => Ok(Some("repeated write answered from its slot")),
            false => Err(format!(
                "ost{} executed write {number} of slot {slot} of session {} again: {stat:?}, before {first_stat:?}",
                write.ost, write.session
            )),
        }
    }
}
