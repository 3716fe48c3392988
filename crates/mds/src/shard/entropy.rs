//! One fresh random number per operation, read from the kernel many at a time.

use crate::limits::ENTROPY_BYTES;
use gupfs_platform::Random;

pub struct Entropy {
    dice: Random,
    pool: Vec<u8>,
    used: usize,
}

impl Entropy {
    pub fn new(dice: Random) -> Entropy {
        Entropy {
            dice,
            pool: vec![0; ENTROPY_BYTES],
            used: ENTROPY_BYTES,
        }
    }

    /// The next number. The pool erases it: directory salts are secrets.
    pub fn next(&mut self) -> u64 {
        if self.used == self.pool.len() {
            self.dice.fill(&mut self.pool);
            self.used = 0;
        }
        let mut eight = [0; 8];
        let taken = &mut self.pool[self.used..self.used + 8];
        eight.copy_from_slice(taken);
        taken.fill(0);
        self.used += 8;
        u64::from_le_bytes(eight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_platform::fake::FakePlatform;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_differ_beyond_one_pool_and_leave_nothing_behind() {
        let mut entropy = Entropy::new(FakePlatform::new(1).platform().random);
        let numbers: BTreeSet<u64> = (0..ENTROPY_BYTES / 4).map(|_| entropy.next()).collect();
        assert_eq!(numbers.len(), ENTROPY_BYTES / 4);
        assert!(entropy.pool.iter().all(|byte| *byte == 0));
    }
}
