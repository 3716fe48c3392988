//! # busy_poll: polling for the next message for a short time instead of sleeping
//!
//! Owns   the one task of a process that keeps its runtime from sleeping while messages arrive in quick succession.
//! Never  reads a message.
//! Enter  at `run` once; `record_arrival` for each arrival.
//!
//! Waking a sleeping processor takes 25 µs and more, where a reply takes 10 (docs/performance.md, "Over daemons"). While messages
//! arrive one after the other, the runtime therefore polls its sockets again and again, and yields the processor in between, so
//! that other processes can use it. If another process used it for long and no message arrived, the processor has other work and
//! does not sleep: polling would only take time from that work. This helps a runtime with one worker: among several workers, the
//! one that waits in the kernel gets the message first.

use crate::clock::{BootTime, Clock};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The task polls only after two messages that arrived within this time, not after a single one.
const BURST_GAP: Duration = Duration::from_millis(1);

/// If a yield takes longer, another process has used the processor for real work.
const YIELDED_TO_OTHERS: Duration = Duration::from_micros(30);

/// Largest part of a message that counts: for a larger one the copy takes longer than a wake-up, and polling saves little.
const SMALL_MESSAGE: usize = 16 << 10;

static ARRIVALS: Arrivals = Arrivals::new();
static RESUMED: LazyLock<Notify> = LazyLock::new(Notify::new);

/// Arrival times of messages. They are hints: an update that is lost between two threads costs one wake-up.
struct Arrivals {
    polling: AtomicBool,
    asleep: AtomicBool,
    last: AtomicU64,
    in_burst: AtomicBool,
}

impl Arrivals {
    const fn new() -> Arrivals {
        Arrivals {
            polling: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            last: AtomicU64::new(0),
            in_burst: AtomicBool::new(false),
        }
    }

    /// Records an arrival; returns whether the caller must resume the polling task.
    fn record(&self, now: BootTime) -> bool {
        let last = BootTime(self.last.swap(now.0, Ordering::Relaxed));
        let close = now.since(last) <= BURST_GAP;
        self.in_burst.store(close, Ordering::Relaxed);
        close && self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed)
    }

    /// Whether to continue to poll; if not, the task is marked asleep. `lent` is the time of a yield after which another process
    /// kept the processor.
    fn keeps_polling(&self, now: BootTime, window: Duration, lent: Option<BootTime>) -> bool {
        let last = BootTime(self.last.load(Ordering::Relaxed));
        let in_time = now.since(last) <= window && lent.is_none_or(|lent| last >= lent);
        let on = in_time && self.in_burst.load(Ordering::Relaxed);
        if !on {
            self.asleep.store(true, Ordering::Relaxed);
        }
        on
    }
}

/// Records that a message, or a part of one, of `bytes` bytes arrived.
pub fn record_arrival(bytes: usize) {
    if bytes <= SMALL_MESSAGE
        && ARRIVALS.polling.load(Ordering::Relaxed)
        && ARRIVALS.record(Clock::real().boot())
    {
        RESUMED.notify_one();
    }
}

/// Polls for `window` after each message; runs until the process ends.
pub async fn run(window: Duration) {
    let clock = Clock::real();
    ARRIVALS.polling.store(true, Ordering::Relaxed);
    let (mut now, mut lent) = (clock.boot(), None);
    loop {
        if ARRIVALS.keeps_polling(now, window, lent) {
            let before = clock.boot();
            std::thread::yield_now();
            now = clock.boot();
            lent = (now.since(before) > YIELDED_TO_OTHERS).then_some(before);
            // Tasks that have become ready run first.
            tokio::task::yield_now().await;
        } else {
            RESUMED.notified().await;
            (now, lent) = (clock.boot(), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_micros(100);

    fn at(micros: u64) -> BootTime {
        BootTime(1_000_000_000 + micros * 1_000)
    }

    #[test]
    fn it_polls_for_the_window_after_two_messages_in_a_burst() {
        let pace = Arrivals::new();
        assert!(
            !pace.keeps_polling(at(0), WINDOW, None),
            "no message arrived"
        );
        assert!(!pace.record(at(0)), "a single message");
        assert!(!pace.keeps_polling(at(0), WINDOW, None));
        assert!(pace.record(at(900)), "two within a millisecond");
        assert!(pace.keeps_polling(at(1_000), WINDOW, None));
        assert!(
            !pace.keeps_polling(at(1_001), WINDOW, None),
            "the window is over"
        );
        assert!(pace.record(at(1_500)), "one more resumes it");
        assert!(!pace.record(at(1_510)), "it is awake");
        assert!(pace.keeps_polling(at(1_610), WINDOW, None));
    }

    #[test]
    fn it_sleeps_while_another_process_uses_the_processor_and_no_message_arrives() {
        let pace = Arrivals::new();
        pace.record(at(0));
        pace.record(at(10));
        assert!(
            pace.keeps_polling(at(60), WINDOW, Some(at(10))),
            "a message arrived in between"
        );
        assert!(!pace.keeps_polling(at(60), WINDOW, Some(at(20))));
    }

    #[test]
    fn a_message_every_two_milliseconds_does_not_start_polling() {
        let pace = Arrivals::new();
        for tick in 0..50 {
            assert!(!pace.record(at(tick * 2_000)));
            assert!(!pace.keeps_polling(at(tick * 2_000 + 1), WINDOW, None));
        }
    }
}
