//! Running requests and the bytes they hold: of the server, of each host, of each connection.
//!
//! The bytes of a frame count from the arrival of its head, so that frames that never become complete cannot hold more memory
//! than others. A request counts when its frame is complete.

use crate::limits::{
    BYTES_MAX, BYTES_PER_CONNECTION_MAX, BYTES_PER_HOST_MAX, REQUESTS_MAX,
    REQUESTS_PER_CONNECTION_MAX, SMALL_FRAME_MAX,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use tokio::sync::Notify;

/// Counters of running requests and of the bytes they hold.
#[derive(Default)]
pub(crate) struct Load {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    busy: AtomicU64,
    less: Notify,
}

/// The counters that apply to one connection.
pub(crate) struct ConnectionLoads {
    pub server: Arc<Load>,
    /// Counts all connections from one origin.
    pub host: Arc<Load>,
    pub connection: Arc<Load>,
    /// Counts the connection itself (`ConnectionTable`).
    pub _open: Arc<()>,
}

/// Reserved bytes of one frame. They count until this is dropped.
pub(crate) struct AnnouncedBytes {
    loads: Option<[Arc<Load>; 3]>,
    bytes: usize,
}

/// A running request. It counts until this is dropped.
pub(crate) struct RequestGuard {
    loads: [Arc<Load>; 2],
    /// The bytes of the request count as long as the request runs.
    _announced: AnnouncedBytes,
}

impl Load {
    pub fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(SeqCst)
    }

    pub fn busy(&self) -> u64 {
        self.busy.load(Relaxed)
    }

    /// Returns when fewer requests than this are running.
    pub async fn wait_requests_below(&self, requests: usize) {
        loop {
            let mut less = std::pin::pin!(self.less.notified());
            less.as_mut().enable();
            if self.requests() < requests {
                return;
            }
            less.await;
        }
    }

    /// Adds bytes, unless the sum would exceed `most`.
    fn add_bytes(&self, bytes: usize, most: usize) -> bool {
        let taken = self.bytes.fetch_update(SeqCst, SeqCst, |had| {
            had.checked_add(bytes).filter(|has| *has <= most)
        });
        taken.is_ok()
    }
}

impl ConnectionLoads {
    /// Reserves the bytes of a frame whose head has arrived. None if they exceed the limit of this connection, of its host, or of
    /// the server. Small frames need no reservation: each connection has one unfinished frame at a time, and `begin_request`
    /// limits the rest.
    pub fn reserve_bytes(&self, bytes: usize) -> Option<AnnouncedBytes> {
        if bytes <= SMALL_FRAME_MAX {
            return Some(AnnouncedBytes {
                loads: None,
                bytes: 0,
            });
        }
        let bounds = [
            (&self.connection, BYTES_PER_CONNECTION_MAX),
            (&self.host, BYTES_PER_HOST_MAX),
            (&self.server, BYTES_MAX),
        ];
        for (number, (load, most)) in bounds.iter().enumerate() {
            if !load.add_bytes(bytes, *most) {
                for (load, _) in &bounds[..number] {
                    load.bytes.fetch_sub(bytes, SeqCst);
                }
                return None;
            }
        }
        Some(AnnouncedBytes {
            loads: Some(bounds.map(|(load, _)| load.clone())),
            bytes,
        })
    }

    /// Counts a request whose bytes are reserved; None if the connection or the server has too many running requests.
    pub fn begin_request(&self, announced: AnnouncedBytes) -> Option<RequestGuard> {
        if self.server.requests() >= REQUESTS_MAX
            || self.connection.requests() >= REQUESTS_PER_CONNECTION_MAX
        {
            return None;
        }
        let loads = [self.server.clone(), self.connection.clone()];
        for load in &loads {
            load.requests.fetch_add(1, SeqCst);
        }
        Some(RequestGuard {
            loads,
            _announced: announced,
        })
    }

    /// Counts a request with the reply "busy".
    pub fn count_busy(&self) {
        self.server.busy.fetch_add(1, Relaxed);
    }
}

impl Drop for AnnouncedBytes {
    fn drop(&mut self) {
        for load in self.loads.iter().flatten() {
            load.bytes.fetch_sub(self.bytes, SeqCst);
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        for load in &self.loads {
            load.requests.fetch_sub(1, SeqCst);
            load.less.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 5 << 20;

    fn announced(loads: &ConnectionLoads) -> Vec<AnnouncedBytes> {
        std::iter::from_fn(|| loads.reserve_bytes(LARGE)).collect()
    }

    #[test]
    fn reserved_bytes_count_per_connection_per_host_and_per_server() {
        let all = Arc::new(Load::default());
        let host = || Arc::new(Load::default());
        let connection = |host: &Arc<Load>| ConnectionLoads {
            server: all.clone(),
            host: host.clone(),
            connection: Arc::default(),
            _open: Arc::default(),
        };
        let (a, b, c) = (host(), host(), host());
        let first = connection(&a);
        let of_one = announced(&first);
        assert_eq!(of_one.len(), BYTES_PER_CONNECTION_MAX / LARGE);
        let of_host: Vec<AnnouncedBytes> =
            (0..100).flat_map(|_| announced(&connection(&a))).collect();
        let host_has = of_one.len() + of_host.len();
        assert_eq!(host_has, BYTES_PER_HOST_MAX / LARGE);
        // One host leaves half of the limit to others, and the server has a limit.
        let others: Vec<AnnouncedBytes> = [&b, &c]
            .into_iter()
            .flat_map(|host| (0..100).flat_map(|_| announced(&connection(host))))
            .collect();
        assert!(others.len() > 50);
        assert!(all.bytes() <= BYTES_MAX && all.bytes() + LARGE > BYTES_MAX);
        // A small frame is accepted at the limit too.
        assert!(first.reserve_bytes(SMALL_FRAME_MAX).is_some());
        drop((of_one, of_host, others));
        assert_eq!(
            (all.bytes(), a.bytes(), first.connection.bytes()),
            (0, 0, 0)
        );
    }

    #[test]
    fn a_request_and_its_bytes_count_until_its_reply() {
        let loads = ConnectionLoads {
            server: Arc::default(),
            host: Arc::default(),
            connection: Arc::default(),
            _open: Arc::default(),
        };
        let work: Vec<RequestGuard> = (0..REQUESTS_PER_CONNECTION_MAX + 1)
            .filter_map(|_| loads.begin_request(loads.reserve_bytes(SMALL_FRAME_MAX + 1)?))
            .collect();
        assert_eq!(work.len(), REQUESTS_PER_CONNECTION_MAX);
        assert_eq!(
            loads.host.bytes(),
            REQUESTS_PER_CONNECTION_MAX * (SMALL_FRAME_MAX + 1)
        );
        drop(work);
        assert_eq!((loads.connection.requests(), loads.server.bytes()), (0, 0));
    }
}
