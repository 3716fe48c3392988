//! Random numbers from a seed, the same on every machine.

use gupfs_kit::random::{GOLDEN_GAMMA, mix};

/// A stream of numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A stream that depends on all of these numbers.
    pub fn of(numbers: &[u64]) -> Rng {
        let mut rng = Rng(0x6775_7066_7300);
        for number in numbers {
            rng.0 ^= number.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
            rng.next();
        }
        rng
    }

    pub fn next(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        number
    }

    /// 0 ≤ … < `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// In `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// One of these, as often as its weight says.
    pub fn weighted<T: Copy>(&mut self, all: &[(u32, T)]) -> T {
        let sum: u32 = all.iter().map(|(weight, _)| weight).sum();
        let mut left = self.below(u64::from(sum)) as u32;
        for (weight, one) in all {
            if left < *weight {
                return *one;
            }
            left -= weight;
        }
        unreachable!("the rest of a division is below the sum")
    }
}
