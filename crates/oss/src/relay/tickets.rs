//! Which relayed writes of a target may still be executed.
//!
//! A client that gives up a write which an object server relays does not know whether the write is still on its way. Before it changes the
//! object again, it has the target accept another ticket: relayed writes with the former one are refused from then on. Tickets are in memory, so
//! a target that was started again refuses all relayed writes of a session until it has the session's next ticket.

use crate::change_batch::{ChangeBatch, CurrentBatch};
use gupfs_platform::hash::Map;
use gupfs_proto::data::RelayTicket;
use gupfs_proto::{FsError, SessionId};
use parking_lot::Mutex;
use std::sync::Arc;

/// Sessions of a target whose tickets are kept: about 80 bytes each. A session whose ticket is dropped sends the next one.
const SESSIONS_MAX: usize = 1 << 16;

/// Of one target.
#[derive(Default)]
pub struct RelayTickets(Mutex<Map<SessionId, AcceptedTicket>>);

#[derive(Default)]
struct AcceptedTicket {
    ticket: RelayTicket,
    /// The relayed writes with this ticket that are being executed.
    running: CurrentBatch,
}

impl RelayTickets {
    /// A relayed write begins; it counts as running while the result is held.
    ///
    /// # Errors
    /// `Stale` if the ticket is not the last one of the session.
    pub fn begin(
        &self,
        session: SessionId,
        ticket: RelayTicket,
    ) -> Result<Arc<ChangeBatch>, FsError> {
        let sessions = self.0.lock();
        let accepted = sessions.get(&session);
        let accepted = accepted.filter(|accepted| accepted.ticket == ticket);
        Ok(accepted.ok_or(FsError::Stale)?.running.begin())
    }

    /// When this returns, no relayed write of the session with a former ticket is being executed, or will be.
    ///
    /// # Errors
    /// `Invalid` for a ticket below the last one; `Busy` if there are too many sessions with relayed writes under way.
    pub async fn accept(&self, session: SessionId, ticket: RelayTicket) -> Result<(), FsError> {
        let former_ended = {
            let mut sessions = self.0.lock();
            if sessions.len() >= SESSIONS_MAX && !sessions.contains_key(&session) {
                sessions.retain(|_, accepted| !accepted.running.is_idle());
                if sessions.len() >= SESSIONS_MAX {
                    return Err(FsError::Busy);
                }
            }
            let accepted = sessions.entry(session).or_default();
            if ticket < accepted.ticket {
                return Err(FsError::Invalid);
            }
            accepted.ticket = ticket;
            accepted.running.end()
        };
        former_ended.await;
        Ok(())
    }

    /// The session has ended: its requests are refused before they reach the tickets.
    pub fn free(&self, session: SessionId) {
        self.0.lock().remove(&session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::time::Duration;

    const SESSION: SessionId = SessionId(3);

    #[tokio::test(start_paused = true)]
    async fn a_new_ticket_waits_for_relayed_writes_with_the_former_one_and_refuses_later_ones() {
        let tickets = RelayTickets::default();
        let begin = |ticket| tickets.begin(SESSION, RelayTicket(ticket));
        assert_eq!(begin(0).err(), Some(FsError::Stale), "none is accepted yet");
        tickets.accept(SESSION, RelayTicket(1)).await.unwrap();
        let running = begin(1).unwrap();
        let mut accept = pin!(tickets.accept(SESSION, RelayTicket(2)));
        let waited = tokio::time::timeout(Duration::from_secs(1), accept.as_mut()).await;
        assert!(waited.is_err(), "a write with ticket 1 is being executed");
        assert_eq!(begin(1).err(), Some(FsError::Stale));
        let later = begin(2).unwrap();
        drop(running);
        accept.await.unwrap();
        drop(later);
        let lower = tickets.accept(SESSION, RelayTicket(1)).await;
        assert_eq!(lower, Err(FsError::Invalid));
        assert!(begin(2).is_ok());
        let other = tickets.begin(SessionId(4), RelayTicket(2));
        assert_eq!(other.err(), Some(FsError::Stale));
        tickets.free(SESSION);
        assert_eq!(begin(2).err(), Some(FsError::Stale));
    }

    #[tokio::test]
    async fn tickets_of_idle_sessions_make_room() {
        let tickets = RelayTickets::default();
        for session in 0..SESSIONS_MAX as u64 {
            let accepted = tickets.accept(SessionId(session), RelayTicket(1));
            accepted.await.unwrap();
        }
        let running = tickets.begin(SessionId(7), RelayTicket(1)).unwrap();
        let next = tickets.accept(SessionId(1 << 40), RelayTicket(1));
        next.await.unwrap();
        assert_eq!(tickets.0.lock().len(), 2);
        drop(running);
    }
}
