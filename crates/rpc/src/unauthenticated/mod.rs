//! # unauthenticated: connections whose handshake is not over
//!
//! Owns   their number, which one is evicted for a new one, which rejections go to the log.
//! Never  reads from these connections, or waits for one of them.
//! Enter  at `UnauthenticatedConnections::admit`, for each accepted connection.

mod origin;
mod rejection_log;
mod table;

pub use origin::Origin;
pub(crate) use rejection_log::RejectionLog;
pub use table::UnauthenticatedLimits;

use gupfs_platform::Clock;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use table::{AdmissionDecision, UnauthenticatedId, UnauthenticatedTable};
use tokio::sync::Notify;

/// All unauthenticated connections of one listener.
pub struct UnauthenticatedConnections {
    clock: Clock,
    table: Mutex<Table>,
    /// Notified when a connection was removed.
    removed: Notify,
}

struct Table {
    connections: UnauthenticatedTable,
    /// Closes the connection that is evicted.
    close_callbacks: BTreeMap<UnauthenticatedId, Box<dyn FnOnce() + Send>>,
}

/// One unauthenticated connection in the table. Dropping it frees the entry; the owner drops it together with the connection, so
/// that the entries bound the open descriptors.
pub struct UnauthenticatedGuard {
    connections: Arc<UnauthenticatedConnections>,
    origin: Origin,
    id: UnauthenticatedId,
}

impl UnauthenticatedConnections {
    /// An empty table with these limits.
    pub fn new(clock: Clock, limits: UnauthenticatedLimits) -> Arc<UnauthenticatedConnections> {
        Arc::new(UnauthenticatedConnections {
            clock,
            table: Mutex::new(Table {
                connections: UnauthenticatedTable::new(limits),
                close_callbacks: BTreeMap::new(),
            }),
            removed: Notify::new(),
        })
    }

    /// Adds a connection and evicts another one if the table is full. `close` closes this connection when it is evicted. Waits
    /// at most until the newest connections have had `UNAUTHENTICATED_MIN`, however many there are.
    pub async fn admit(
        self: &Arc<Self>,
        origin: Origin,
        close: impl FnOnce() + Send + 'static,
    ) -> UnauthenticatedGuard {
        loop {
            let mut removed = std::pin::pin!(self.removed.notified());
            removed.as_mut().enable();
            let until = {
                let mut table = self.table.lock();
                match table.connections.admit(&origin, self.clock.boot()) {
                    AdmissionDecision::Admitted { id, evicted } => {
                        table.close_callbacks.insert(id, Box::new(close));
                        let other = evicted.and_then(|other| table.close_callbacks.remove(&other));
                        drop(table);
                        if let Some(close) = other {
                            close();
                        }
                        return UnauthenticatedGuard {
                            connections: self.clone(),
                            origin,
                            id,
                        };
                    }
                    AdmissionDecision::WaitUntil(until) => until,
                }
            };
            tokio::select! {
                biased;
                () = removed => {}
                () = self.clock.sleep_until(until) => {}
            }
        }
    }

    /// The number of open unauthenticated connections.
    pub fn count(&self) -> usize {
        self.table.lock().connections.open_count()
    }
}

impl UnauthenticatedGuard {
    /// The origin of this connection.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether this connection was evicted for another one.
    pub fn is_evicted(&self) -> bool {
        !self
            .connections
            .table
            .lock()
            .close_callbacks
            .contains_key(&self.id)
    }

    /// The handshake is over: the table remembers the origin as known and no longer counts this connection.
    pub fn mark_authenticated(self) {
        let mut table = self.connections.table.lock();
        table.connections.mark_known(&self.origin);
    }
}

impl Drop for UnauthenticatedGuard {
    fn drop(&mut self) {
        let mut table = self.connections.table.lock();
        table.connections.remove(self.id);
        let close = table.close_callbacks.remove(&self.id);
        drop(table);
        drop(close);
        self.connections.removed.notify_waiters();
    }
}
