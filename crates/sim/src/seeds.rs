//! Chooses the seeds of a run: `GUPFS_SEEDS` of them (or `GUPFS_TIMES` as many as usual), or the one seed that
//! `GUPFS_SEED` names, with its events printed.

use crate::event_log::EventLog;
use crate::rare_events::RareEvents;
use gupfs_platform::{BootTime, Clock};
use std::env;
use std::time::Duration;

/// The result of one run of a seed.
pub struct SeedRun {
    pub events: EventLog,
    pub rare_events: RareEvents,
}

/// The sums over all seeds of a run.
#[derive(Default)]
pub struct SeedTotals {
    pub seeds: u64,
    pub events: u64,
    pub rare_events: RareEvents,
    pub took: Duration,
    /// The run had fewer seeds than usual: no minimum applies to the sums.
    pub short: bool,
}

impl SeedTotals {
    /// # Panics
    /// When an event happened less often than its minimum over all seeds.
    pub fn require_minimums(&self, least: &[(&'static str, u64)]) {
        let millis = self.took.as_millis().max(1) as u64;
        let rate = self.events * 1000 / millis;
        println!(
            "{} seeds, {} events, {rate} events/s",
            self.seeds, self.events
        );
        self.rare_events
            .require_minimums(if self.short { &[] } else { least });
    }
}

/// Runs every seed twice.
///
/// # Panics
/// When the two runs of a seed differ: then time, random numbers or an order came from outside the seed.
pub fn run_each_twice(default: u64, run: impl Fn(u64, bool) -> SeedRun) -> SeedTotals {
    let one = number("GUPFS_SEED");
    let many = default * number("GUPFS_TIMES").unwrap_or(1);
    let seeds = match one {
        Some(seed) => seed..seed + 1,
        None => 0..number("GUPFS_SEEDS").unwrap_or(many),
    };
    let mut total = SeedTotals {
        short: seeds.end - seeds.start < default,
        ..SeedTotals::default()
    };
    let begun: BootTime = Clock::real().boot();
    for seed in seeds {
        // The test harness prints this if the test fails: the last seed printed is the failing one.
        println!("seed {seed}");
        let first = run(seed, one.is_some());
        let again = run(seed, false);
        assert_eq!(
            (first.events.hash(), &first.rare_events),
            (again.events.hash(), &again.rare_events),
            "the two runs of seed {seed} differ"
        );
        total.seeds += 1;
        total.events += 2 * first.events.len();
        total.rare_events.merge(&first.rare_events);
    }
    total.took = Clock::real().boot().since(begun);
    total
}

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}
