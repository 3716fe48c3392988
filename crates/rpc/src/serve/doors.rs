//! Who is connected: one connection for each process, and one more for what must be fenced.

use super::Caller;
use super::admit::Load;
use crate::handshake::Guest;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Doors(Mutex<BTreeMap<Door, Arc<Caller>>>);

/// Who, and whether fenced.
type Door = (u128, bool);

fn door(caller: &Caller) -> Door {
    (caller.met().who, caller.met().fenced)
}

impl Doors {
    /// Takes the place of a former connection of the same process, which is ended. What former ones have under way counts as
    /// the new one's, however many there were.
    ///
    /// # Errors
    /// The number of the connection that there is, if it is not older.
    pub fn enter(
        &self,
        guest: &Guest,
        caller: impl FnOnce(Arc<Load>) -> Arc<Caller>,
    ) -> Result<Arc<Caller>, u64> {
        let door = (guest.met.who, guest.met.fenced);
        let mut doors = self.0.lock();
        let former = doors.get(&door).cloned();
        if let Some(former) = &former
            && former.number() >= guest.number
        {
            return Err(former.number());
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
        let mut doors = self.0.lock();
        if doors
            .get(&door(caller))
            .is_some_and(|now| Arc::ptr_eq(now, caller))
        {
            doors.remove(&door(caller));
        }
    }

    pub fn all(&self) -> Vec<Arc<Caller>> {
        self.0.lock().values().cloned().collect()
    }
}
