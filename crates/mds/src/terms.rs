//! Which sessions live: each says so now and then, and is ended when it has not for its term.
//!
//! Only where sessions outlive the server (`Options::keep_sessions`). After a start they all count as heard of just now: so long
//! the `grace` lasts in which they come back.

use crate::core::Core;
use crate::limits::{FROZEN, OST_CALLS, TERMS_EVERY};
use crate::records::damaged;
use crate::shard::{SessionInfo, Shard};
use crate::waits::Who;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use gupfs_namespace::{Key, KeyRange, Kind, Parsed, Record, Session};
use gupfs_proto::capability::Pass;
use gupfs_proto::limits::SERVER_TERM;
use gupfs_proto::{Refusal, SessionId, VirtualShard};
use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

impl Core {
    /// Sessions of the time before this start stay registered.
    pub async fn register_recorded(&self) -> Result<BTreeSet<SessionId>, Refusal> {
        let now = self.platform.clock.boot();
        let mut found = Vec::new();
        let range = KeyRange::of_kind(VirtualShard(0), Kind::Session);
        self.each_record(range, |key, value| {
            if let Some(Parsed::Session(session)) = key.parse() {
                let record = Session::decode(value).map_err(|error| damaged(key, error))?;
                found.push((session, record));
            }
            Ok(())
        })
        .await?;
        let mut shard = self.shard.lock();
        for (session, record) in found {
            let info = SessionInfo {
                client: record.client,
                since: record.created,
            };
            shard.register(session, info, now);
        }
        Ok(shard.sessions.keys().copied().collect())
    }

    /// The session lives; what it shows to OSTs.
    ///
    /// # Errors
    /// `SessionEnded`.
    pub fn renew(&self, session: SessionId) -> Result<Option<Pass>, Refusal> {
        let now = self.platform.clock.boot();
        let mut shard = self.shard.lock();
        let heard = shard.heard.get_mut(&session);
        *heard.ok_or(Refusal::SessionEnded)? = now;
        // Under the lock: who ends it knows of this pass.
        Ok((self.targets.permits()).map(|permits| permits.pass(session)))
    }

    /// The session is registered no more; whoever calls this clears up after it.
    pub fn ends(&self, shard: &mut Shard, session: SessionId) {
        shard.sessions.remove(&session);
        shard.heard.remove(&session);
        self.holders.ends(session);
        self.locks.ends(session);
        self.grace.ends(session);
        if let Some(permits) = self.targets.permits() {
            permits.ends(session);
        }
    }

    /// OSTs may be told that the session has ended: its client has closed it, or no later owner takes it for alive.
    pub fn may_tell_end(&self, session: SessionId) {
        if let Some(permits) = self.targets.permits() {
            permits.may_tell_end(session);
        }
    }

    /// Ends a session that did not end itself.
    pub async fn end_from_here(&self, session: SessionId) {
        {
            let mut shard = self.shard.lock();
            if !shard.sessions.contains_key(&session) {
                return;
            }
            self.ends(&mut shard, session);
        }
        self.evict(session).await;
    }

    /// Clears up after a session whose client may be alive and not know that it was ended. Its registration goes first, and
    /// durably: a start must not take for alive whom its client has given up. What else it left is found without it.
    pub async fn evict(&self, session: SessionId) {
        let recorded = match self.stage_own(vec![(Key::session(session), None)]) {
            Ok(seq) => self.durable(Who::own("end a session"), seq).await,
            Err(refusal) => Err(refusal),
        };
        match recorded {
            Ok(_) => self.may_tell_end(session),
            // The next start may find the session alive, so this server gives what the session holds to no other before a
            // later try records its end.
            Err(refusal) => {
                tracing::warn!(%session, %refusal, "the end of a session could not be recorded; it is tried again");
                self.unfinished.add(session, &refusal);
                return;
            }
        }
        self.fence(session).await;
        self.end_session(session).await;
    }

    /// Ends the sessions whose term is over, again and again. Clearing up after one may wait for an OST that is away; the
    /// others end in time all the same.
    pub async fn watch_terms_for_ever(self: Arc<Self>) {
        let mut ended = VecDeque::new();
        let mut clearing = FuturesUnordered::new();
        while self.failure().is_none() {
            let due = self.platform.clock.boot() + TERMS_EVERY;
            let mut pause = pin!(self.platform.clock.sleep_until(due));
            loop {
                while clearing.len() < OST_CALLS
                    && let Some(session) = ended.pop_front()
                {
                    clearing.push(self.evict(session));
                }
                tokio::select! {
                    biased;
                    () = &mut pause => break,
                    Some(()) = clearing.next() => {}
                }
            }
            let late = self.platform.clock.boot().since(due);
            if late > FROZEN {
                tracing::warn!(
                    ?late,
                    "this server did not run; all sessions have that much more time to be heard of"
                );
                self.give_time(late);
            }
            for session in self.take_overdue() {
                tracing::warn!(%session, "a session was not heard of for its term; it is ended");
                ended.push_back(session);
            }
        }
    }

    /// Who spoke while nobody heard is not silent: what the sessions said in such a time is read next.
    fn give_time(&self, time: Duration) {
        let mut shard = self.shard.lock();
        for heard in shard.heard.values_mut() {
            *heard = *heard + time;
        }
    }

    fn take_overdue(&self) -> Vec<SessionId> {
        let now = self.platform.clock.boot();
        let mut shard = self.shard.lock();
        let overdue = |heard| now.since(heard) > SERVER_TERM;
        let sessions: Vec<SessionId> = (shard.heard.iter())
            .filter(|(_, heard)| overdue(**heard))
            .map(|(session, _)| *session)
            .collect();
        for session in &sessions {
            self.ends(&mut shard, *session);
        }
        sessions
    }
}
