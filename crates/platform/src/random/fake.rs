//! Random numbers from a seed: splitmix64. Its state is a counter, so that a fork is an independent stream.

use parking_lot::Mutex;
use std::sync::Arc;

#[derive(Clone)]
pub struct FakeRandom(Arc<Mutex<u64>>);

impl FakeRandom {
    pub fn new(seed: u64) -> FakeRandom {
        FakeRandom(Arc::new(Mutex::new(seed)))
    }

    /// An independent stream: numbers drawn from it do not change the numbers of this one.
    pub fn fork(&self) -> FakeRandom {
        FakeRandom::new(self.u64())
    }

    pub fn u64(&self) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// # Panics
    /// When `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "the bound must be above 0");
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with probability 1/`n`.
    pub fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn fill(&self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let word = self.u64().to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let numbers = |seed| {
            let random = FakeRandom::new(seed);
            (0..10).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }

    #[test]
    fn a_fork_does_not_change_the_numbers_of_its_parent() {
        let one = FakeRandom::new(1);
        let fork = one.fork();
        let next = one.u64();
        let two = FakeRandom::new(1);
        let other_fork = two.fork();
        other_fork.u64();
        other_fork.u64();
        assert_eq!(two.u64(), next);
        assert_ne!(fork.u64(), next);
    }
}
