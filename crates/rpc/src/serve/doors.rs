//! Who is connected: one connection for each process, and one more for what must be fenced.

use super::Caller;
use super::admit::Load;
use crate::handshake::{Guest, Role};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) struct Doors {
    inside: Mutex<BTreeMap<Door, Arc<Caller>>>,
    most_clients: usize,
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
}

impl Doors {
    pub fn new(most_clients: usize) -> Doors {
        Doors {
            inside: Mutex::default(),
            most_clients,
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
        caller: impl FnOnce(Arc<Load>) -> Arc<Caller>,
    ) -> Result<Arc<Caller>, NoEntry> {
        let door = (guest.met.who, guest.met.fenced);
        let mut doors = self.inside.lock();
        let former = doors.get(&door).cloned();
        if let Some(former) = &former
            && former.number() >= guest.number
        {
            return Err(NoEntry::Older {
                number: guest.number,
                newest: former.number(),
            });
        }
        let is_client = |caller: &&Arc<Caller>| caller.met().role == Role::Client;
        if former.is_none()
            && guest.met.role == Role::Client
            && doors.len() >= self.most_clients
            && doors.values().filter(is_client).count() >= self.most_clients
        {
            return Err(NoEntry::Full(self.most_clients));
        }
        let load = former.as_ref().map(|former| former.load.clone());
        let caller = caller(load.unwrap_or_default());
        doors.insert(door, caller.clone());
        drop(doors);
        if let Some(former) = &former {
            former.end();
        }
        Ok(caller)
    }

    /// Whoever took its place stays.
    pub fn leave(&self, caller: &Arc<Caller>) {
        let mut doors = self.inside.lock();
        if doors
            .get(&door(caller))
            .is_some_and(|now| Arc::ptr_eq(now, caller))
        {
            doors.remove(&door(caller));
        }
    }

    pub fn all(&self) -> Vec<Arc<Caller>> {
        self.inside.lock().values().cloned().collect()
    }
}
