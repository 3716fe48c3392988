//! Random numbers that are the same for the same seed on every machine.

use gupfs_kit::random::{GOLDEN_GAMMA, mix};

/// Mixes several numbers into one, in their order.
pub fn mix_all(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |state, number| mix(state ^ number))
}

/// A sequence of numbers.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(mix(seed))
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        mix(self.0)
    }

    /// The next number below `bound`, which is not 0. (The product's upper half: no division, and a bias below 2⁻³² for
    /// bounds below 2³².)
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing lies below 0");
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// The next number in 0..1.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            piece.copy_from_slice(&word[..piece.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let rolls = |seed| {
            let mut rng = Rng::new(seed);
            [rng.next(), rng.next(), rng.below(10)]
        };
        assert_eq!(rolls(7), rolls(7));
        assert_ne!(rolls(7), rolls(8));
    }

    #[test]
    fn numbers_below_a_bound_reach_all_of_it() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[rng.below(5) as usize] = true;
            assert!((0.0..1.0).contains(&rng.fraction()));
        }
        assert_eq!(seen, [true; 5]);
    }
}
