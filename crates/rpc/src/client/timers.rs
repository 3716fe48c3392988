//! Timers of a client connection: deadlines, resent requests, pings.

use super::Shared;
use super::connect::fail_expired;
use crate::limits::{PING_INTERVAL, TIMER_TICK};
use std::sync::Arc;

pub(super) async fn check_deadlines(shared: Arc<Shared>) {
    let clock = shared.options.platform.clock.clone();
    let mut pinged = clock.boot();
    loop {
        clock.sleep(TIMER_TICK).await;
        let now = clock.boot();
        let framed = shared.state.lock().framed.clone();
        if let Some((framed, _)) = &framed {
            if let Some(why) = framed.timeout_reason() {
                tracing::warn!(
                    server = shared.options.peer_name,
                    address = shared.options.address,
                    why,
                    "the connection timed out; reconnecting"
                );
                framed.close();
            } else if now.since(pinged) >= PING_INTERVAL {
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
