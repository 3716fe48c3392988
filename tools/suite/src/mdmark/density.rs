//! Densities: how often each number of files, directories or bytes occurs in a tree.

use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// Counts of 0, of 1, of 2 and 3, of 4 to 7, and so on.
#[derive(Clone, Default, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Density(Vec<u64>);

/// As many steps as numbers of 64 bits need.
const STEPS: usize = 65;

fn step_of(number: u64) -> usize {
    (64 - number.leading_zeros()) as usize
}

/// The smallest number of a step, and the largest.
pub fn bounds(step: usize) -> (u64, u64) {
    match step {
        0 => (0, 0),
        step => (1 << (step - 1), u64::MAX >> (64 - step)),
    }
}

impl Density {
    pub fn of(counts: &[u64]) -> Density {
        Density(counts.to_vec())
    }

    pub fn add(&mut self, number: u64) {
        let step = step_of(number);
        if self.0.len() <= step {
            self.0.resize(step + 1, 0);
        }
        self.0[step] += 1;
    }

    pub fn steps(&self) -> &[u64] {
        &self.0
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The sizes of a bucket.
    pub fn is_sound(&self) -> bool {
        let total = self
            .0
            .iter()
            .try_fold(0u64, |sum, count| sum.checked_add(*count));
        self.0.len() <= STEPS && total.is_some()
    }

    /// One of the numbers: of a step as often as it occurred, and within it any. 0 if none ever occurred.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let total = self.total();
        if total == 0 {
            return 0;
        }
        let mut left = rng.below(total);
        for (step, count) in self.0.iter().enumerate() {
            if left < *count {
                let (least, most) = bounds(step);
                return least + rng.below((most - least).saturating_add(1));
            }
            left -= count;
        }
        unreachable!("a number below the total lies in a step")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_is_distributed_as_what_was_added() {
        let mut density = Density::default();
        for number in [0, 1, 1, 5, 6, 7, 300, u64::MAX] {
            density.add(number);
        }
        assert_eq!(density.total(), 8);
        let mut rng = Rng::new(3);
        let mut again = Density::default();
        for _ in 0..80_000 {
            again.add(density.draw(&mut rng));
        }
        for (step, count) in density.steps().iter().enumerate() {
            let found = again.steps()[step] as f64 / 10_000.0;
            assert!(
                (found - *count as f64).abs() < 0.1,
                "{step}: {found} {count}"
            );
        }
    }

    #[test]
    fn nothing_drawn_of_nothing() {
        assert_eq!(Density::default().draw(&mut Rng::new(1)), 0);
        assert_eq!(Density::of(&[0, 0, 0, 5]).draw(&mut Rng::new(1)) / 4, 1);
    }
}
