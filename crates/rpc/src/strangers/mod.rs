//! # strangers: connections that have proved nothing yet
//!
//! Owns   how many of them there are, which of them goes when another comes, which of them the log speaks of.
//! Never  reads what they say, or waits for one of them.
//! Enter  at `Strangers::enter`, for each connection that was accepted.

mod complaints;
mod origin;
mod places;

pub(crate) use complaints::Complaints;
pub use origin::Origin;
pub use places::Bounds;

use gupfs_platform::Clock;
use parking_lot::Mutex;
use places::{Arrival, StrangerId, StrangerTable};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// All strangers of one listener.
pub struct Strangers {
    clock: Clock,
    table: Mutex<Table>,
    /// Somebody has left.
    left: Notify,
}

struct Table {
    places: StrangerTable,
    /// How each is made to leave.
    ends: BTreeMap<StrangerId, Box<dyn FnOnce() + Send>>,
}

/// A stranger's place. It is another's when this is dropped; with the connection, so that no two hold a descriptor for it.
pub struct StrangerGuard {
    strangers: Arc<Strangers>,
    origin: Origin,
    number: StrangerId,
}

impl Strangers {
    pub fn new(clock: Clock, bounds: Bounds) -> Arc<Strangers> {
        Arc::new(Strangers {
            clock,
            table: Mutex::new(Table {
                places: StrangerTable::new(bounds),
                ends: BTreeMap::new(),
            }),
            left: Notify::new(),
        })
    }

    /// Takes a place, another's if need be. `end` is called when this one is to leave for somebody else. Waits only until
    /// those who came last have had a moment, however many there are.
    pub async fn enter(
        self: &Arc<Self>,
        origin: Origin,
        end: impl FnOnce() + Send + 'static,
    ) -> StrangerGuard {
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            left.as_mut().enable();
            let until = {
                let mut table = self.table.lock();
                match table.places.arrive(&origin, self.clock.boot()) {
                    Arrival::Enters { number, instead_of } => {
                        table.ends.insert(number, Box::new(end));
                        let other = instead_of.and_then(|other| table.ends.remove(&other));
                        drop(table);
                        if let Some(end) = other {
                            end();
                        }
                        return StrangerGuard {
                            strangers: self.clone(),
                            origin,
                            number,
                        };
                    }
                    Arrival::Waits(until) => until,
                }
            };
            tokio::select! {
                biased;
                () = left => {}
                () = self.clock.sleep_until(until) => {}
            }
        }
    }

    pub fn count(&self) -> usize {
        self.table.lock().places.taken()
    }
}

impl StrangerGuard {
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// It was given to another.
    pub fn is_lost(&self) -> bool {
        !self.strangers.table.lock().ends.contains_key(&self.number)
    }

    /// This one has proved what it had to: its origin is known, and it is no stranger any more.
    pub fn proved(self) {
        let mut table = self.strangers.table.lock();
        table.places.proved(&self.origin);
    }
}

impl Drop for StrangerGuard {
    fn drop(&mut self) {
        let mut table = self.strangers.table.lock();
        table.places.leave(self.number);
        let end = table.ends.remove(&self.number);
        drop(table);
        drop(end);
        self.strangers.left.notify_waiters();
    }
}
