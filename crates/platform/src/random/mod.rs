//! Random numbers: from the kernel for secrets and incarnations, from a seed in simulations.

#[cfg(feature = "fake")]
pub(crate) mod fake;

#[derive(Clone)]
pub struct Random(Source);

#[derive(Clone)]
enum Source {
    Real,
    #[cfg(feature = "fake")]
    Fake(fake::FakeRandom),
}

impl Random {
    pub fn real() -> Random {
        Random(Source::Real)
    }

    #[cfg(feature = "fake")]
    pub fn fake(fake: fake::FakeRandom) -> Random {
        Random(Source::Fake(fake))
    }

    /// Fills `bytes` with random bytes that are good enough for secrets.
    ///
    /// # Panics
    /// When the kernel has none: gupfs does not start before the kernel's random pool is ready.
    pub fn fill(&self, bytes: &mut [u8]) {
        match &self.0 {
            Source::Real => getrandom::fill(bytes).expect("the kernel's random numbers are ready"),
            #[cfg(feature = "fake")]
            Source::Fake(fake) => fake.fill(bytes),
        }
    }

    pub fn u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A uniformly distributed number below `bound`, to within 2⁻⁶⁴ × bound.
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "the bound must be above 0");
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_number_is_below_its_bound() {
        let random = Random::real();
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn two_random_numbers_differ() {
        assert_ne!(Random::real().u64(), Random::real().u64());
    }
}
