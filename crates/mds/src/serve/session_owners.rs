//! Which process owns each session, and over which connection it last used it.

use crate::mds::Mds;
use gupfs_proto::limits::{SESSIONS_MAX, SESSIONS_PER_CLIENT_MAX};
use gupfs_proto::{FsError, SessionId};
use gupfs_rpc::{ClientKeyId, ConnectedPeer, ProvenKey};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The owners of the sessions that other processes opened or used since this server's start.
#[derive(Default)]
pub(super) struct SessionOwners {
    sessions: Mutex<Sessions>,
    /// The number of `OpenSession` requests that are running, by process id.
    opening: Mutex<BTreeMap<u128, usize>>,
}

type Sessions = BTreeMap<SessionId, SessionOwner>;

/// The process that owns a session, and the connection over which it last used it.
#[derive(Clone, PartialEq, Eq)]
struct SessionOwner {
    process_id: u128,
    connection: u64,
    /// The client key of its host; None for a host with the cluster key.
    client_key: Option<ClientKeyId>,
}

impl SessionOwner {
    fn of(peer: &ConnectedPeer) -> SessionOwner {
        SessionOwner {
            process_id: peer.identity().process_id,
            connection: peer.number(),
            client_key: client_key(peer).cloned(),
        }
    }
}

impl SessionOwners {
    /// Checks that a request comes from the session's owner. A session belongs to the process that opened it; a session from
    /// before this server's start belongs to the first process that uses it. A request of an unknown session passes: the metadata
    /// server refuses it.
    ///
    /// # Errors
    /// `Denied` if the session belongs to another process, or was opened with another client key.
    pub fn check(
        &self,
        mds: &Mds,
        from: &Arc<ConnectedPeer>,
        session: SessionId,
    ) -> Result<(), FsError> {
        let now = SessionOwner::of(from);
        let mut sessions = self.sessions.lock();
        match sessions.get(&session) {
            Some(owner) if *owner == now => return Ok(()),
            Some(owner) if owner.process_id != now.process_id => {
                tracing::warn!(%session, from = from.address(), "request from a process that does not own the session; refused");
                return Err(FsError::Denied);
            }
            // A late request of an older connection.
            Some(owner) if owner.connection > now.connection => return Ok(()),
            Some(_) => {}
            None => match mds.client_of(session) {
                None => return Ok(()),
                // A session from before this server's start, opened with a client key: a host with another key must not reclaim
                // it.
                Some(client)
                    if recorded_client_key(&client)
                        != now.client_key.as_ref().map(client_key_suffix).as_deref() =>
                {
                    tracing::warn!(%session, from = from.address(), "a host tries to reclaim a session of a host with another key; refused");
                    return Err(FsError::Denied);
                }
                Some(_) => {}
            },
        }
        attach(&mut sessions, mds, from, session);
        Ok(())
    }

    /// Reserves one more session for this process, within the limits per process and per server.
    ///
    /// # Errors
    /// `Overloaded`. The client tries again later.
    pub fn reserve(&self, mds: &Mds, from: &ConnectedPeer) -> Result<OpeningSession<'_>, FsError> {
        let process_id = from.identity().process_id;
        let mut opening = self.opening.lock();
        let mut sessions = self.sessions.lock();
        // Removes sessions that ended without a `CloseSession`.
        sessions.retain(|session, _| mds.has_session(*session));
        let own = sessions
            .values()
            .filter(|owner| owner.process_id == process_id)
            .count();
        let own = own + opening.get(&process_id).copied().unwrap_or(0);
        let all = sessions.len() + opening.values().sum::<usize>();
        if own >= SESSIONS_PER_CLIENT_MAX || all >= SESSIONS_MAX {
            tracing::warn!(
                from = from.address(),
                own,
                all,
                "OpenSession refused: too many sessions of this process or in all"
            );
            return Err(FsError::Overloaded);
        }
        *opening.entry(process_id).or_default() += 1;
        Ok(OpeningSession {
            owners: self,
            process_id,
        })
    }

    /// The process behind this connection owns the session, and the server sends the session's callbacks over the connection.
    pub fn attach(&self, mds: &Mds, from: &Arc<ConnectedPeer>, session: SessionId) {
        attach(&mut self.sessions.lock(), mds, from, session);
    }

    /// The session has ended.
    pub fn forget(&self, session: SessionId) {
        self.sessions.lock().remove(&session);
    }

    /// A connection has closed: the server sends no callbacks over it any more.
    pub fn detach_all(&self, mds: &Mds, peer: &ConnectedPeer) {
        let gone = SessionOwner::of(peer);
        let sessions = self.sessions.lock();
        for (session, _) in sessions.iter().filter(|(_, owner)| **owner == gone) {
            mds.detach(*session);
        }
    }

    /// Removes and returns the sessions of hosts with revoked keys.
    pub fn take_revoked(
        &self,
        is_revoked: &(dyn Fn(&ClientKeyId) -> bool + Sync),
    ) -> Vec<SessionId> {
        let mut sessions = self.sessions.lock();
        let revoked = |owner: &SessionOwner| owner.client_key.as_ref().is_some_and(is_revoked);
        let ended = sessions.iter().filter(|(_, owner)| revoked(owner));
        let ended = ended.map(|(session, _)| *session).collect();
        sessions.retain(|_, owner| !revoked(owner));
        ended
    }
}

/// Runs under the table's lock, so that callbacks always use the connection that the table has.
fn attach(sessions: &mut Sessions, mds: &Mds, from: &Arc<ConnectedPeer>, session: SessionId) {
    if from.is_closed() {
        return;
    }
    sessions.insert(session, SessionOwner::of(from));
    mds.attach(session, from.peer());
}

/// Counts a running `OpenSession` until it is dropped: until then the session is in no table.
pub(super) struct OpeningSession<'a> {
    owners: &'a SessionOwners,
    process_id: u128,
}

impl Drop for OpeningSession<'_> {
    fn drop(&mut self) {
        let mut opening = self.owners.opening.lock();
        if let Some(count) = opening.get_mut(&self.process_id) {
            *count -= 1;
            if *count == 0 {
                opening.remove(&self.process_id);
            }
        }
    }
}

/// The client key that the peer proved; None for a host with the cluster key.
fn client_key(peer: &ConnectedPeer) -> Option<&ClientKeyId> {
    match &peer.identity().key {
        ProvenKey::Client { id, .. } => Some(id),
        _ => None,
    }
}

/// Begins the suffix of a session's recorded client name if the session was opened with a client key.
const CLIENT_KEY_PREFIX: &str = " [key ";

fn client_key_suffix(key: &ClientKeyId) -> String {
    format!("{key}]")
}

/// Appends the client key that the peer proved to the client name that a new session is recorded with: after a restart of this
/// server only a host with that key may reclaim the session.
pub(super) fn add_client_key(client: &mut String, from: &ConnectedPeer) {
    if let Some(key) = client_key(from) {
        client.push_str(CLIENT_KEY_PREFIX);
        client.push_str(&client_key_suffix(key));
    }
}

/// The client key with which a session was opened, from its recorded client name. Only the last suffix counts: the host chose the
/// text before it.
fn recorded_client_key(client: &str) -> Option<&str> {
    let (_, tag) = client.rsplit_once(CLIENT_KEY_PREFIX)?;
    tag.ends_with(']').then_some(tag)
}
