//! The attempts to connect to the addresses of a server, at all of them at the same time: the first one that the server welcomes wins.

use super::establish::{EstablishedConnection, establish};
use super::{AddressFailures, ConnectError, Shared};
use crate::limits::{COPIES_RETRY_MAX, RETRY_MAX, RETRY_MIN};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

type Attempt = Pin<Box<dyn Future<Output = Result<EstablishedConnection, ConnectError>> + Send>>;

/// The known addresses, in their order, with the attempts to connect to each.
pub(super) struct ConnectRace {
    shared: Arc<Shared>,
    attempts: Vec<AddressAttempts>,
}

/// The attempts to connect to one address, one after the other.
struct AddressAttempts {
    address: String,
    /// The attempt under way, with the pause before it.
    running: Option<Attempt>,
    /// The pause before the next attempt; None for the first.
    pause: Option<Duration>,
    /// Why the last attempt failed; None if none has failed since the last connection.
    failure: Option<Arc<ConnectError>>,
}

impl ConnectRace {
    pub fn new(shared: &Arc<Shared>) -> ConnectRace {
        ConnectRace {
            shared: shared.clone(),
            attempts: Vec::new(),
        }
    }

    /// Connects to all addresses until a server welcomes this process; then ends the other attempts. Tries each address for ever.
    pub async fn win(&mut self) -> EstablishedConnection {
        loop {
            self.update_addresses();
            self.start_attempts();
            match self.first_result().await {
                (_, Ok(established)) => {
                    for attempts in &mut self.attempts {
                        attempts.running = None;
                        attempts.failure = None;
                    }
                    return established;
                }
                (index, Err(failure)) => self.record_failure(index, failure),
            }
        }
    }

    /// Records that an established connection to this address has ended. The pauses begin again at the shortest if it has lasted: a
    /// connection that breaks at once is not retried fifty times a second.
    pub fn record_lost(&mut self, address: &str, reason: String, has_lasted: bool) {
        if has_lasted {
            for attempts in &mut self.attempts {
                attempts.pause = None;
            }
        }
        let lost = ConnectError::Lost(reason);
        let index = (self.attempts.iter()).position(|attempts| attempts.address == address);
        match index {
            Some(index) => self.record_failure(index, lost),
            None => self.shared.record_failure(Arc::new(lost)),
        }
    }

    /// The server may have named addresses: adds attempts for new ones, and ends those for addresses that are no longer known.
    fn update_addresses(&mut self) {
        let known = self.shared.options.addresses.all();
        let attempted = self.attempts.iter().map(|attempts| &attempts.address);
        if attempted.eq(&known) {
            return;
        }
        let mut state = self.shared.state.lock();
        (state.failed_addresses).retain(|address, _| known.contains(address));
        drop(state);
        let mut former = std::mem::take(&mut self.attempts);
        let attempts = known.into_iter().map(|address| {
            let had = former.iter().position(|had| had.address == address);
            match had {
                Some(index) => former.swap_remove(index),
                None => AddressAttempts::new(address),
            }
        });
        self.attempts = attempts.collect();
    }

    fn start_attempts(&mut self) {
        for attempts in &mut self.attempts {
            if attempts.running.is_none() {
                let (shared, address) = (self.shared.clone(), attempts.address.clone());
                let pause = attempts.pause;
                attempts.running = Some(Box::pin(async move {
                    if let Some(pause) = pause {
                        shared.options.platform.clock.sleep(pause).await;
                    }
                    establish(&shared, &address).await
                }));
            }
        }
    }

    /// The result of the attempt that ends first, with its index; of two at the same time, that of the earlier address.
    async fn first_result(&mut self) -> (usize, Result<EstablishedConnection, ConnectError>) {
        std::future::poll_fn(|cx| {
            for (index, attempts) in self.attempts.iter_mut().enumerate() {
                if let Some(attempt) = &mut attempts.running
                    && let Poll::Ready(result) = attempt.as_mut().poll(cx)
                {
                    attempts.running = None;
                    return Poll::Ready((index, result));
                }
            }
            Poll::Pending
        })
        .await
    }

    fn record_failure(&mut self, index: usize, failure: ConnectError) {
        let attempts = &mut self.attempts[index];
        let (server, address) = (&self.shared.options.peer_name, &attempts.address);
        tracing::debug!(server, address, %failure, "no connection");
        let failure = Arc::new(failure);
        attempts.failure = Some(failure.clone());
        attempts.running = None;
        let longest = match self.shared.options.addresses.are_several() {
            true => COPIES_RETRY_MAX,
            false => RETRY_MAX,
        };
        attempts.pause = match attempts.pause {
            None => Some(RETRY_MIN),
            Some(pause) => Some((pause * 2).min(longest)),
        };
        self.update_addresses();
        self.shared
            .record_failure(self.all_failures().unwrap_or(failure));
    }

    /// Why there is no connection: the error of the only address, or those of several. None if no attempt at a known address has failed.
    fn all_failures(&self) -> Option<Arc<ConnectError>> {
        let failure_of = |attempts: &AddressAttempts| {
            let failure = attempts.failure.clone();
            failure.map(|failure| (attempts.address.clone(), failure))
        };
        let failures: Vec<_> = self.attempts.iter().filter_map(failure_of).collect();
        match (&self.attempts[..], &failures[..]) {
            (_, []) => None,
            ([_], [(_, failure)]) => Some(failure.clone()),
            _ => Some(Arc::new(ConnectError::AtAddresses(AddressFailures {
                are_permanent: failures.len() == self.attempts.len()
                    && failures.iter().all(|(_, failure)| failure.is_permanent()),
                failures,
            }))),
        }
    }
}

impl AddressAttempts {
    fn new(address: String) -> AddressAttempts {
        AddressAttempts {
            address,
            running: None,
            pause: None,
            failure: None,
        }
    }
}
