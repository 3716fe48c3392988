//! Timers of a client connection: deadlines, resent requests, pings.

use super::Shared;
use super::connect::fail_expired;
use crate::framed_stream::FramedStream;
use crate::limits::{COPIES_PING_INTERVAL, COPIES_SILENCE_TIMEOUT, PING_INTERVAL, TIMER_TICK};
use gupfs_platform::BootTime;
use std::sync::Arc;
use std::time::Duration;

pub(super) async fn check_deadlines(shared: Arc<Shared>) {
    let clock = shared.options.platform.clock.clone();
    let mut pinged = clock.boot();
    let mut silence = Silence::default();
    loop {
        clock.sleep(TIMER_TICK).await;
        let now = clock.boot();
        let framed = shared.state.lock().framed.clone();
        if let Some((framed, number)) = &framed {
            let (ping_interval, timeout_reason) = match shared.options.addresses.are_several() {
                false => (PING_INTERVAL, framed.timeout_reason()),
                true => {
                    let is_silent = silence.tick(framed, *number) >= COPIES_SILENCE_TIMEOUT;
                    let silent = is_silent.then_some("no data received for too long");
                    (COPIES_PING_INTERVAL, silent.or(framed.timeout_reason()))
                }
            };
            if let Some(why) = timeout_reason {
                tracing::warn!(
                    server = shared.options.peer_name,
                    address = shared.current_address(),
                    why,
                    "the connection timed out; reconnecting"
                );
                framed.close();
            } else if now.since(pinged) >= ping_interval {
                pinged = now;
                framed.send_ping();
            }
            for packed in shared.pending.take_due(now) {
                framed.send(packed);
            }
        }
        let (late, must_close) = shared.pending.expired(now);
        if !late.is_empty() {
            fail_expired(&shared, late);
            if must_close {
                shared.close_if_fenced();
            }
        }
    }
}

/// How long a server has been silent while this process was running. It counts ticks of the timer: a process that was stopped and goes on
/// has one tick for that time, and reads what has arrived before it judges.
#[derive(Default)]
struct Silence {
    connection: u64,
    last_received: BootTime,
    ticks: u32,
}

impl Silence {
    /// Counts one tick; returns how long the server has been silent.
    fn tick(&mut self, framed: &FramedStream, connection: u64) -> Duration {
        let seen = (connection, framed.last_received());
        self.ticks = match seen == (self.connection, self.last_received) {
            true => self.ticks + 1,
            false => 0,
        };
        (self.connection, self.last_received) = seen;
        TIMER_TICK * self.ticks
    }
}
