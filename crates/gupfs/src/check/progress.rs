//! The progress display of a check: on a terminal, and only after two seconds.

use gupfs_platform::{BootTime, Clock};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// No display before this time has passed.
const QUIET: Duration = Duration::from_secs(2);

/// Steps between two reads of the clock.
const STEP: u64 = 1_024;

pub struct Progress {
    clock: Clock,
    began: BootTime,
    bar: ProgressBar,
    count: u64,
}

impl Progress {
    pub fn new(clock: &Clock) -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}: {human_pos}  ({elapsed})")
        {
            bar.set_style(style);
        }
        Progress {
            clock: clock.clone(),
            began: clock.boot(),
            bar,
            count: 0,
        }
    }

    /// Begins a part; `what` names the things that `step` counts.
    pub fn part(&mut self, what: String) {
        self.bar.set_message(what);
        self.bar.set_position(0);
    }

    pub fn step(&mut self) {
        self.count += 1;
        self.bar.inc(1);
        let due = self.count.is_multiple_of(STEP) && self.bar.is_hidden();
        if due && self.clock.boot().since(self.began) > QUIET {
            // Nothing is drawn if standard error is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
