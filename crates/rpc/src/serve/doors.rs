//! Who is connected: one connection for each process, and one more for what must be fenced.

use super::Caller;
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
    /// Lets a caller in in place of a former connection of the same process, which is ended and returned.
    ///
    /// # Errors
    /// The number of the connection that there is, if it is not older.
    pub fn enter(&self, caller: &Arc<Caller>) -> Result<Option<Arc<Caller>>, u64> {
        let mut doors = self.0.lock();
        if let Some(former) = doors.get(&door(caller))
            && former.number() >= caller.number()
        {
            return Err(former.number());
        }
        let former = doors.insert(door(caller), caller.clone());
        drop(doors);
        if let Some(former) = &former {
            former.end();
        }
        Ok(former)
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

    /// A newcomer could not be let in: the former connection is in its place again, unless somebody newer has come.
    pub fn put_back(&self, newcomer: &Arc<Caller>, former: Arc<Caller>) {
        let mut doors = self.0.lock();
        if doors
            .get(&door(newcomer))
            .is_some_and(|now| Arc::ptr_eq(now, newcomer))
        {
            doors.insert(door(&former), former);
        }
    }

    pub fn all(&self) -> Vec<Arc<Caller>> {
        self.0.lock().values().cloned().collect()
    }
}
