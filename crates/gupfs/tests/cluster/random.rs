//! Random numbers of a test. They decide when a fault happens and what a program does next; real processes do not repeat a run exactly.

use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

/// Xorshift: every state but zero leads to all others.
pub struct Random(u64);

impl Random {
    /// Other numbers in each run. Prints the seed.
    pub fn of_this_run() -> Random {
        let now = UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        eprintln!("random numbers of seed {now}");
        Random::with_seed(now)
    }

    pub fn with_seed(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Sleeps for so many milliseconds.
    pub fn pause(&mut self, millis: Range<u64>) {
        let pause = millis.start + self.next() % (millis.end - millis.start);
        std::thread::sleep(Duration::from_millis(pause));
    }
}
