//! # busy_poll: waiting awake for the next message, for a moment
//!
//! Owns   the one task of a process that keeps its runtime from going to sleep while messages come and go.
//! Never  looks at a message.
//! Enter  at `keep_awake` once; `heard` whenever something came.
//!
//! A processor that sleeps takes 25 µs and more to be woken where an answer takes 10 (docs/performance.md, "Over daemons"). While
//! messages come one after the other the runtime therefore asks its sockets again and again, and gives the processor away between:
//! whoever else wants it has it. If somebody did for long and nothing came, the processor has other work and does not sleep: then
//! polling would only be in the way. It works for a runtime with one worker: among several the one that waits in the kernel hears
//! first.

use crate::clock::{BootTime, Clock};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// Nobody polls for a message that comes alone: only after two that came so close to each other.
const CLOSE: Duration = Duration::from_millis(1);

/// Who had the processor for so long did not just look whether there is something to do.
const LONG: Duration = Duration::from_micros(30);

/// What takes longer to be moved than somebody to be woken is not worth it.
const SMALL: usize = 16 << 10;

static PACE: Pace = Pace::new();
static RESUMED: LazyLock<Notify> = LazyLock::new(Notify::new);

/// When messages came. All of it is a hint: what is lost between two threads costs a wake-up.
struct Pace {
    polling: AtomicBool,
    asleep: AtomicBool,
    last: AtomicU64,
    close: AtomicBool,
}

impl Pace {
    const fn new() -> Pace {
        Pace {
            polling: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            last: AtomicU64::new(0),
            close: AtomicBool::new(false),
        }
    }

    /// Whether the poller is to be resumed.
    fn heard(&self, now: BootTime) -> bool {
        let last = BootTime(self.last.swap(now.0, Ordering::Relaxed));
        let close = now.since(last) <= CLOSE;
        self.close.store(close, Ordering::Relaxed);
        close && self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed)
    }

    /// Whether to poll on; else the poller has gone to sleep. `lent` is when the processor was given to somebody who kept it.
    fn goes_on(&self, now: BootTime, window: Duration, lent: Option<BootTime>) -> bool {
        let last = BootTime(self.last.load(Ordering::Relaxed));
        let in_time = now.since(last) <= window && lent.is_none_or(|lent| last >= lent);
        let on = in_time && self.close.load(Ordering::Relaxed);
        if !on {
            self.asleep.store(true, Ordering::Relaxed);
        }
        on
    }
}

/// A message came, or a part of one, of so many bytes.
pub fn heard(bytes: usize) {
    if bytes <= SMALL && PACE.polling.load(Ordering::Relaxed) && PACE.heard(Clock::real().boot()) {
        RESUMED.notify_one();
    }
}

/// Polls for `window` after each message; runs beside everything else for the life of the process.
pub async fn keep_awake(window: Duration) {
    let clock = Clock::real();
    PACE.polling.store(true, Ordering::Relaxed);
    let (mut now, mut lent) = (clock.boot(), None);
    loop {
        if PACE.goes_on(now, window, lent) {
            let before = clock.boot();
            std::thread::yield_now();
            now = clock.boot();
            lent = (now.since(before) > LONG).then_some(before);
            // What came meanwhile is worked on first.
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
    fn it_polls_after_two_messages_that_came_close_and_for_the_window() {
        let pace = Pace::new();
        assert!(!pace.goes_on(at(0), WINDOW, None), "nothing came");
        assert!(!pace.heard(at(0)), "one alone");
        assert!(!pace.goes_on(at(0), WINDOW, None));
        assert!(pace.heard(at(900)), "two within a millisecond");
        assert!(pace.goes_on(at(1_000), WINDOW, None));
        assert!(!pace.goes_on(at(1_001), WINDOW, None), "the window is over");
        assert!(pace.heard(at(1_500)), "one more resumes it");
        assert!(!pace.heard(at(1_510)), "it is awake");
        assert!(pace.goes_on(at(1_610), WINDOW, None));
    }

    #[test]
    fn it_sleeps_where_others_use_the_processor_and_nothing_comes() {
        let pace = Pace::new();
        pace.heard(at(0));
        pace.heard(at(10));
        assert!(pace.goes_on(at(60), WINDOW, Some(at(10))), "it came then");
        assert!(!pace.goes_on(at(60), WINDOW, Some(at(20))));
    }

    #[test]
    fn a_message_each_two_milliseconds_keeps_nobody_awake() {
        let pace = Pace::new();
        for tick in 0..50 {
            assert!(!pace.heard(at(tick * 2_000)));
            assert!(!pace.goes_on(at(tick * 2_000 + 1), WINDOW, None));
        }
    }
}
