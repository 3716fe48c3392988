//! What to revoke when there are too many leases.

use super::limits::LeaseLimits;
use super::session::SessionLeases;
use super::table::LeaseTable;
use gupfs_proto::SessionId;
use gupfs_proto::lease::LeaseRevocation;

impl LeaseTable {
    /// Leases that the server revokes in the background after a grant to `session`, because the session's part of the table or the table itself
    /// is nearly full: the least recently granted ones of this session, or of the one that has most. A session that was asked is not asked
    /// again before it has answered (`excess_answered`), whatever else it answers: one such revocation of each session is under way at most.
    pub fn excess(&mut self, session: SessionId) -> Option<(SessionId, LeaseRevocation)> {
        let LeaseLimits {
            of_session,
            of_all,
            excess_step,
        } = self.limits;
        let session = match self.leases_of(session) + excess_step > of_session {
            true => session,
            false if self.len() + excess_step > of_all => self.largest()?,
            false => return None,
        };
        let leases = self.sessions.get_mut(&session)?;
        match std::mem::replace(&mut leases.excess_asked, true) {
            true => None,
            false => Some((session, oldest(leases, excess_step))),
        }
    }

    /// The session has answered the revocation that `excess` returned, or has ended.
    pub fn excess_answered(&mut self, session: SessionId) {
        if let Some(leases) = self.sessions.get_mut(&session) {
            leases.excess_asked = false;
        }
    }

    /// The least recently granted leases of a session, as many as one message revokes; None if it has none.
    pub fn oldest(&self, session: SessionId) -> Option<LeaseRevocation> {
        let leases = self.sessions.get(&session)?;
        (!leases.by_number.is_empty()).then(|| oldest(leases, self.limits.excess_step))
    }

    fn largest(&self) -> Option<SessionId> {
        let by_size = |(_, leases): &(&SessionId, &SessionLeases)| leases.by_number.len();
        let largest = self.sessions.iter().max_by_key(by_size);
        largest.map(|(session, _)| *session)
    }
}

fn oldest(leases: &SessionLeases, count: usize) -> LeaseRevocation {
    let oldest = leases.by_number.iter().take(count);
    let upto = oldest.clone().next_back().map(|(number, _)| *number);
    LeaseRevocation {
        upto: upto.unwrap_or_default(),
        keys: oldest.map(|(_, key)| key.unpack()).collect(),
    }
}
