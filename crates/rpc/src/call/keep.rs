//! What a line does now and then: deadlines, questions asked again, signs of life.

use super::Shared;
use super::connect::{give_up, ping};
use crate::limits::{PING, TICK};
use std::sync::Arc;

pub(super) async fn look_at_the_clock(shared: Arc<Shared>) {
    let clock = shared.options.platform.clock.clone();
    let mut pinged = clock.boot();
    loop {
        clock.sleep(TICK).await;
        let now = clock.boot();
        let link = shared.state.lock().link.clone();
        if let Some((link, _)) = &link {
            if let Some(why) = link.overdue() {
                tracing::warn!(
                    whom = shared.options.whom,
                    to = shared.options.to,
                    why,
                    "connecting again"
                );
                link.close();
            } else if now.since(pinged) >= PING {
                pinged = now;
                ping(link);
            }
            for packed in shared.table.due(now) {
                link.send(packed);
            }
        }
        let (late, heard) = shared.table.overdue(now);
        if !late.is_empty() {
            give_up(&shared, late);
            if heard {
                shared.fence();
            }
        }
    }
}
