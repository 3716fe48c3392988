//! Who is connected: one connection for each process, and one more for what must be fenced.

use super::admit::{Load, Loads};
use super::{Caller, Capacity};
use crate::handshake::{Guest, Role};
use crate::strangers::Origin;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

pub(crate) struct Doors {
    inside: Mutex<Inside>,
    capacity: Capacity,
    all: Arc<Load>,
    /// One more for each connection that holds its descriptor, also where another took its place.
    alive: Arc<()>,
}

#[derive(Default)]
struct Inside {
    callers: BTreeMap<Door, Arc<Caller>>,
    /// What connections from one address hold together.
    hosts: BTreeMap<Origin, Weak<Load>>,
}

/// Who, and whether fenced.
type Door = (u128, bool);

fn door(caller: &Caller) -> Door {
    (caller.met().who, caller.met().fenced)
}

/// Why somebody cannot come in now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoEntry {
    #[error("connection {number} comes after {newest}")]
    Older { number: u64, newest: u64 },
    #[error(
        "it has {0} connections of clients, as many as it takes; there is room again when somebody leaves"
    )]
    Full(usize),
    #[error(
        "it has {0} connections of servers, as many as it takes; there is room again when one leaves"
    )]
    FullOfServers(usize),
    #[error(
        "it has {0} connections, with those that were ended while something that they asked is under way; there is room again in a moment"
    )]
    Leaving(usize),
}

impl Doors {
    pub fn new(capacity: Capacity, all: Arc<Load>) -> Doors {
        Doors {
            inside: Mutex::default(),
            capacity,
            all,
            alive: Arc::default(),
        }
    }

    /// Takes the place of a former connection of the same process, which is ended. What former ones have under way counts as
    /// the new one's, however many there were.
    ///
    /// # Errors
    /// When the connection that there is is not older, or there are too many of others.
    pub fn enter(
        &self,
        guest: &Guest,
        origin: &Origin,
        caller: impl FnOnce(Loads) -> Arc<Caller>,
    ) -> Result<Arc<Caller>, NoEntry> {
        let door = (guest.met.who, guest.met.fenced);
        let mut inside = self.inside.lock();
        let former = inside.callers.get(&door).cloned();
        if let Some(former) = &former
            && former.number() >= guest.number
        {
            return Err(NoEntry::Older {
                number: guest.number,
                newest: former.number(),
            });
        }
        let alive = Arc::strong_count(&self.alive) - 1;
        if alive >= self.capacity.inside() {
            return Err(NoEntry::Leaving(alive));
        }
        let leaves = match &former {
            Some(former) => Some(former.clone()),
            None => self.make_room(&inside, guest.met.role)?,
        };
        let caller = caller(Loads {
            all: self.all.clone(),
            host: inside.host(origin),
            one: former.map(|it| it.loads.one.clone()).unwrap_or_default(),
            _alive: self.alive.clone(),
        });
        inside.callers.insert(door, caller.clone());
        drop(inside);
        if let Some(leaves) = leaves {
            leaves.end();
        }
        Ok(caller)
    }

    /// Who has to leave for somebody of this role, if anybody: of commands that look, the one that came first.
    fn make_room(&self, inside: &Inside, role: Role) -> Result<Option<Arc<Caller>>, NoEntry> {
        let Capacity {
            clients, others, ..
        } = self.capacity;
        let most = match role {
            Role::Client => clients,
            _ => others,
        };
        if inside.callers.len() < most {
            return Ok(None);
        }
        let callers = inside.callers.values();
        let is_client = |caller: &&Arc<Caller>| caller.met().role == Role::Client;
        let clients_are = callers.clone().filter(is_client).count();
        if role == Role::Client {
            return match clients_are >= clients {
                true => Err(NoEntry::Full(clients)),
                false => Ok(None),
            };
        }
        let others_are = callers.len() - clients_are;
        if others_are < others {
            return Ok(None);
        }
        // Those that were ended are here until their work is over, and hold their descriptors: as many more at most.
        let visitors =
            callers.filter(|caller| caller.met().role == Role::Visitor && !caller.is_gone());
        let first = visitors.min_by_key(|caller| caller.since());
        match first {
            Some(first) if others_are < 2 * others => Ok(Some(first.clone())),
            _ => Err(NoEntry::FullOfServers(others)),
        }
    }

    /// Whoever took its place stays.
    pub fn leave(&self, caller: &Arc<Caller>) {
        let callers = &mut self.inside.lock().callers;
        let stands = callers.get(&door(caller));
        if stands.is_some_and(|now| Arc::ptr_eq(now, caller)) {
            callers.remove(&door(caller));
        }
    }

    pub fn all(&self) -> Vec<Arc<Caller>> {
        self.inside.lock().callers.values().cloned().collect()
    }
}

impl Inside {
    fn host(&mut self, origin: &Origin) -> Arc<Load> {
        if let Some(host) = self.hosts.get(origin).and_then(Weak::upgrade) {
            return host;
        }
        // Those of hosts that have left are forgotten when they are as many as those that are here.
        if self.hosts.len() > 2 * self.callers.len() {
            self.hosts.retain(|_, host| host.strong_count() > 0);
        }
        let host = Arc::<Load>::default();
        self.hosts.insert(origin.clone(), Arc::downgrade(&host));
        host
    }
}
