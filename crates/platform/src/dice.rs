//! Chance: the kernel's for secrets and incarnations, a seed's in simulations.

#[derive(Clone)]
pub struct Dice(Source);

#[derive(Clone)]
enum Source {
    Real,
    #[cfg(feature = "fake")]
    Fake(crate::fake::FakeDice),
}

impl Dice {
    pub fn real() -> Dice {
        Dice(Source::Real)
    }

    #[cfg(feature = "fake")]
    pub fn fake(fake: crate::fake::FakeDice) -> Dice {
        Dice(Source::Fake(fake))
    }

    /// Fills `bytes` with chance good enough for secrets.
    ///
    /// # Panics
    /// When the kernel has none to give: before its pool is ready no daemon of ours runs.
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

    /// A number below `bound`; each as likely as any other, to within 2⁻⁶⁴ × bound.
    ///
    /// # Panics
    /// When `bound` is 0: there is no such number.
    pub fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "a choice among nothing");
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throw_stays_below_its_bound() {
        let dice = Dice::real();
        assert!((0..1000).all(|_| dice.below(3) < 3));
        assert_eq!(dice.below(1), 0);
    }

    #[test]
    fn two_throws_differ() {
        assert_ne!(Dice::real().u64(), Dice::real().u64());
    }
}
