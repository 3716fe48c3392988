//! The table of connected peers: one connection per process, and one more if the process uses a fenced connection.

use super::Capacity;
use crate::connected_peer::ConnectedPeer;
use crate::handshake::{AcceptedPeer, Role};
use crate::load::{ConnectionLoads, Load};
use crate::unauthenticated::Origin;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

pub(crate) struct ConnectionTable {
    connections: Mutex<Connections>,
    capacity: Capacity,
    load: ServerLoad,
    /// Its reference count is one more than the number of connections that hold a descriptor, replaced ones included.
    open: Arc<()>,
}

#[derive(Default)]
struct Connections {
    peers: BTreeMap<ConnectionKey, Arc<ConnectedPeer>>,
    /// The load of all connections from one origin; that of its object servers apart.
    hosts: BTreeMap<(Origin, bool), Weak<Load>>,
}

/// The load of the server. Requests of object servers count apart: such a request waits for no other one, so requests of clients that wait for a
/// server which waits for this one never keep it out.
#[derive(Clone, Default)]
pub(crate) struct ServerLoad {
    pub object_servers: Arc<Load>,
    pub others: Arc<Load>,
}

impl ServerLoad {
    fn of(&self, role: Role) -> &Arc<Load> {
        match role {
            Role::Oss => &self.object_servers,
            Role::Client | Role::Mds | Role::Visitor => &self.others,
        }
    }

    pub fn requests(&self) -> usize {
        self.object_servers.requests() + self.others.requests()
    }

    pub fn bytes(&self) -> usize {
        self.object_servers.bytes() + self.others.bytes()
    }

    pub fn busy(&self) -> u64 {
        self.object_servers.busy() + self.others.busy()
    }
}

/// The process id, and whether the connection is fenced.
type ConnectionKey = (u128, bool);

fn key_of(peer: &ConnectedPeer) -> ConnectionKey {
    (peer.identity().process_id, peer.identity().fenced)
}

/// Why the server does not accept an authenticated connection now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdmissionError {
    #[error("connection {number} of this process is older than its connection {newest}")]
    NotNewest { number: u64, newest: u64 },
    #[error(
        "the server has {0} client connections, its maximum; it accepts another one when a client disconnects"
    )]
    Full(usize),
    #[error(
        "the server has {0} connections of servers, its maximum; it accepts another one when a server disconnects"
    )]
    FullOfServers(usize),
    #[error(
        "the server has {0} connections, counting closed ones with running requests; it accepts another one when such requests end"
    )]
    TooManyClosing(usize),
}

impl ConnectionTable {
    pub fn new(capacity: Capacity, load: ServerLoad) -> ConnectionTable {
        ConnectionTable {
            connections: Mutex::default(),
            capacity,
            load,
            open: Arc::default(),
        }
    }

    /// Adds a connection, and closes the previous connection of the same process. The running requests of all previous
    /// connections of this process count as requests of the new one.
    ///
    /// # Errors
    /// The existing connection of this process is not older, or the server has too many connections.
    pub fn insert(
        &self,
        accepted: &AcceptedPeer,
        origin: &Origin,
        peer: impl FnOnce(ConnectionLoads) -> Arc<ConnectedPeer>,
    ) -> Result<Arc<ConnectedPeer>, AdmissionError> {
        let key = (accepted.identity.process_id, accepted.identity.fenced);
        let mut connections = self.connections.lock();
        let former = connections.peers.get(&key).cloned();
        if let Some(former) = &former
            && former.number() >= accepted.number
        {
            return Err(AdmissionError::NotNewest {
                number: accepted.number,
                newest: former.number(),
            });
        }
        let open = Arc::strong_count(&self.open) - 1;
        if open >= self.capacity.authenticated() {
            return Err(AdmissionError::TooManyClosing(open));
        }
        let evicted = match &former {
            Some(former) => Some(former.clone()),
            None => self.peer_to_evict(&connections, accepted.identity.role)?,
        };
        let peer = peer(ConnectionLoads {
            server: self.load.of(accepted.identity.role).clone(),
            host: connections.host_load(origin, accepted.identity.role),
            connection: former
                .map(|former| former.loads.connection.clone())
                .unwrap_or_default(),
            _open: self.open.clone(),
        });
        connections.peers.insert(key, peer.clone());
        drop(connections);
        if let Some(evicted) = evicted {
            evicted.close();
        }
        Ok(peer)
    }

    /// The peer that the server disconnects for a new connection of this role, if any: the oldest monitoring command.
    fn peer_to_evict(
        &self,
        connections: &Connections,
        role: Role,
    ) -> Result<Option<Arc<ConnectedPeer>>, AdmissionError> {
        let Capacity {
            clients, others, ..
        } = self.capacity;
        let limit = match role {
            Role::Client => clients,
            _ => others,
        };
        if connections.peers.len() < limit {
            return Ok(None);
        }
        let peers = connections.peers.values();
        let is_client = |peer: &&Arc<ConnectedPeer>| peer.identity().role == Role::Client;
        let client_count = peers.clone().filter(is_client).count();
        if role == Role::Client {
            return match client_count >= clients {
                true => Err(AdmissionError::Full(clients)),
                false => Ok(None),
            };
        }
        let other_count = peers.len() - client_count;
        if other_count < others {
            return Ok(None);
        }
        // Closed connections stay in the table with their descriptors until their requests end: at most `others` more.
        let visitors =
            peers.filter(|peer| peer.identity().role == Role::Visitor && !peer.is_closed());
        let oldest = visitors.min_by_key(|peer| peer.since());
        match oldest {
            Some(oldest) if other_count < 2 * others => Ok(Some(oldest.clone())),
            _ => Err(AdmissionError::FullOfServers(others)),
        }
    }

    /// Removes this connection, unless a newer one has replaced it.
    pub fn remove(&self, peer: &Arc<ConnectedPeer>) {
        let peers = &mut self.connections.lock().peers;
        let current = peers.get(&key_of(peer));
        if current.is_some_and(|now| Arc::ptr_eq(now, peer)) {
            peers.remove(&key_of(peer));
        }
    }

    pub fn all(&self) -> Vec<Arc<ConnectedPeer>> {
        self.connections.lock().peers.values().cloned().collect()
    }
}

impl Connections {
    fn host_load(&mut self, origin: &Origin, role: Role) -> Arc<Load> {
        let key = (origin.clone(), role == Role::Oss);
        if let Some(host) = self.hosts.get(&key).and_then(Weak::upgrade) {
            return host;
        }
        // Entries of hosts without connections are removed when they outnumber the connected peers.
        if self.hosts.len() > 2 * self.peers.len() {
            self.hosts.retain(|_, host| host.strong_count() > 0);
        }
        let host = Arc::<Load>::default();
        self.hosts.insert(key, Arc::downgrade(&host));
        host
    }
}
