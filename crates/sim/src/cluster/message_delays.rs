//! # message_delays: delays that let messages overtake each other
//!
//! Owns   the time between the arrival of a message and its processing, and which messages were overtaken in it.
//! Never  changes the order of the bytes of a connection: the network keeps that order, as TCP does.
//! Enter  at `MessageDelays::begin` when a message arrives, then `MessageDelays::wait`.
//!
//! The protocol orders nothing but the changes of one slot: a server handles the requests of a connection in parallel tasks, it may
//! refuse a request as busy, so that its client sends it again behind later ones, and a client handles replies and callbacks in
//! tasks of their own.

use gupfs_platform::BootTime;
use gupfs_platform::fake::{FakeClock, FakeRandom};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest usual delay, and the longest rare one, in microseconds.
const DELAY_MAX: u64 = 20_000;
const RARE_DELAY_MAX: u64 = 1_500_000;

/// One in so many messages is delayed, and one in so many of these for long.
const ONE_DELAYED_IN: u64 = 6;
const ONE_LONG_IN: u64 = 12;

pub struct MessageDelays {
    /// None: no message is delayed.
    random: Option<FakeRandom>,
    clock: FakeClock,
    lanes: Mutex<BTreeMap<String, Lane>>,
    /// Until when no message of a lane is processed.
    stalls: Mutex<BTreeMap<String, BootTime>>,
}

/// The messages that a client's process and a server exchange in one direction.
#[derive(Default)]
struct Lane {
    arrived: u64,
    /// The newest message that was processed.
    processed: u64,
}

/// A message that has arrived.
pub struct ArrivedMessage {
    lane: String,
    number: u64,
}

impl MessageDelays {
    pub fn new(random: Option<FakeRandom>, clock: &FakeClock) -> MessageDelays {
        MessageDelays {
            random,
            clock: clock.clone(),
            lanes: Mutex::default(),
            stalls: Mutex::default(),
        }
    }

    /// Messages of this lane that have arrived wait for so long, as requests wait whose server has no time for them.
    pub fn stall(&self, lane: String, time: Duration) {
        let until = self.clock.boot() + time;
        self.stalls.lock().insert(lane, until);
    }

    async fn wait_until_not_stalled(&self, lane: &str) {
        let until = self.stalls.lock().get(lane).copied();
        if let Some(until) = until.filter(|until| *until > self.clock.boot()) {
            self.clock.sleep_until(until).await;
        }
    }

    pub fn begin(&self, lane: String) -> ArrivedMessage {
        let mut lanes = self.lanes.lock();
        let known = lanes.entry(lane.clone()).or_default();
        known.arrived += 1;
        let number = known.arrived;
        ArrivedMessage { lane, number }
    }

    /// Returns when the message is processed; true if a later one was before.
    pub async fn wait(&self, message: ArrivedMessage) -> bool {
        self.wait_until_not_stalled(&message.lane).await;
        let delay = self.random.as_ref().and_then(random_delay);
        if let Some(delay) = delay {
            self.clock.sleep_until(self.clock.boot() + delay).await;
        }
        let mut lanes = self.lanes.lock();
        let lane = lanes.entry(message.lane).or_default();
        let is_overtaken = lane.processed > message.number;
        lane.processed = lane.processed.max(message.number);
        is_overtaken
    }
}

fn random_delay(random: &FakeRandom) -> Option<Duration> {
    if !random.one_in(ONE_DELAYED_IN) {
        return None;
    }
    let most = match random.one_in(ONE_LONG_IN) {
        true => RARE_DELAY_MAX,
        false => DELAY_MAX,
    };
    Some(Duration::from_micros(1 + random.below(most)))
}
