//! How much is worked on at once: over all connections, for each host, for each connection.
//!
//! Bytes count from the moment at which a frame announces them, so that frames which never come to their end hold no more
//! memory than others; questions count when they are whole.

use crate::limits::{
    PAYLOAD_OF_ALL, PAYLOAD_OF_HOST, PAYLOAD_OF_ONE, QUESTIONS_OF_ALL, QUESTIONS_OF_ONE, SMALL,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use tokio::sync::Notify;

/// Questions under way and the bytes they hold.
#[derive(Default)]
pub(crate) struct Load {
    questions: AtomicUsize,
    bytes: AtomicUsize,
    refused: AtomicU64,
    less: Notify,
}

/// What counts what comes over one connection.
pub(crate) struct Loads {
    pub all: Arc<Load>,
    /// Of all connections from one address.
    pub host: Arc<Load>,
    pub one: Arc<Load>,
    /// Counts the connection itself (`Doors`).
    pub _alive: Arc<()>,
}

/// Bytes that a frame announced. They count until this is dropped.
pub(crate) struct Announced {
    loads: Option<[Arc<Load>; 3]>,
    bytes: usize,
}

/// A question that is worked on until this is dropped.
pub(crate) struct Work {
    loads: [Arc<Load>; 2],
    /// Counted for its question too.
    _announced: Announced,
}

impl Load {
    pub fn questions(&self) -> usize {
        self.questions.load(SeqCst)
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(SeqCst)
    }

    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Returns when there are fewer questions than this.
    pub async fn below(&self, questions: usize) {
        loop {
            let mut less = std::pin::pin!(self.less.notified());
            less.as_mut().enable();
            if self.questions() < questions {
                return;
            }
            less.await;
        }
    }

    /// Counts bytes, unless they would be more than `most`.
    fn take_bytes(&self, bytes: usize, most: usize) -> bool {
        let taken = self.bytes.fetch_update(SeqCst, SeqCst, |had| {
            had.checked_add(bytes).filter(|has| *has <= most)
        });
        taken.is_ok()
    }
}

impl Loads {
    /// Counts the bytes of a frame that are still to come. None if these are too many: of this connection, of its host, or
    /// of all. Small frames always have room: there is one of each connection at a time, and `take` bounds the rest.
    pub fn announce(&self, bytes: usize) -> Option<Announced> {
        if bytes <= SMALL {
            return Some(Announced {
                loads: None,
                bytes: 0,
            });
        }
        let bounds = [
            (&self.one, PAYLOAD_OF_ONE),
            (&self.host, PAYLOAD_OF_HOST),
            (&self.all, PAYLOAD_OF_ALL),
        ];
        for (number, (load, most)) in bounds.iter().enumerate() {
            if !load.take_bytes(bytes, *most) {
                for (load, _) in &bounds[..number] {
                    load.bytes.fetch_sub(bytes, SeqCst);
                }
                return None;
            }
        }
        Some(Announced {
            loads: Some(bounds.map(|(load, _)| load.clone())),
            bytes,
        })
    }

    /// Counts a question whose bytes are counted; None if the connection has too many, or all together have.
    pub fn take(&self, announced: Announced) -> Option<Work> {
        if self.all.questions() >= QUESTIONS_OF_ALL || self.one.questions() >= QUESTIONS_OF_ONE {
            return None;
        }
        let loads = [self.all.clone(), self.one.clone()];
        for load in &loads {
            load.questions.fetch_add(1, SeqCst);
        }
        Some(Work {
            loads,
            _announced: announced,
        })
    }

    /// A question was answered "busy".
    pub fn was_refused(&self) {
        self.all.refused.fetch_add(1, Relaxed);
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        for load in self.loads.iter().flatten() {
            load.bytes.fetch_sub(self.bytes, SeqCst);
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        for load in &self.loads {
            load.questions.fetch_sub(1, SeqCst);
            load.less.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 5 << 20;

    fn announced(loads: &Loads) -> Vec<Announced> {
        std::iter::from_fn(|| loads.announce(LARGE)).collect()
    }

    #[test]
    fn bytes_count_when_they_are_announced_by_connection_by_host_and_in_all() {
        let all = Arc::new(Load::default());
        let host = || Arc::new(Load::default());
        let connection = |host: &Arc<Load>| Loads {
            all: all.clone(),
            host: host.clone(),
            one: Arc::default(),
            _alive: Arc::default(),
        };
        let (a, b, c) = (host(), host(), host());
        let first = connection(&a);
        let of_one = announced(&first);
        assert_eq!(of_one.len(), PAYLOAD_OF_ONE / LARGE);
        let of_host: Vec<Announced> = (0..100).flat_map(|_| announced(&connection(&a))).collect();
        let host_has = of_one.len() + of_host.len();
        assert_eq!(host_has, PAYLOAD_OF_HOST / LARGE);
        // One host leaves room for others, and all together have a bound.
        let others: Vec<Announced> = [&b, &c]
            .into_iter()
            .flat_map(|host| (0..100).flat_map(|_| announced(&connection(host))))
            .collect();
        assert!(others.len() > 50);
        assert!(all.bytes() <= PAYLOAD_OF_ALL && all.bytes() + LARGE > PAYLOAD_OF_ALL);
        // What is small passes all the same.
        assert!(first.announce(SMALL).is_some());
        drop((of_one, of_host, others));
        assert_eq!((all.bytes(), a.bytes(), first.one.bytes()), (0, 0, 0));
    }

    #[test]
    fn a_question_and_its_bytes_count_until_it_is_answered() {
        let loads = Loads {
            all: Arc::default(),
            host: Arc::default(),
            one: Arc::default(),
            _alive: Arc::default(),
        };
        let work: Vec<Work> = (0..QUESTIONS_OF_ONE + 1)
            .filter_map(|_| loads.take(loads.announce(SMALL + 1)?))
            .collect();
        assert_eq!(work.len(), QUESTIONS_OF_ONE);
        assert_eq!(loads.host.bytes(), QUESTIONS_OF_ONE * (SMALL + 1));
        drop(work);
        assert_eq!((loads.one.questions(), loads.all.bytes()), (0, 0));
    }
}
