//! A rate that was measured several times.

use serde::Serialize;

use crate::results::spread::{Ratio, Spread, Verdict};

/// MB/s of each time. As JSON: `rate`, the median, and `rates`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(into = "RateJson")]
pub struct Repeated(Vec<f64>);

#[derive(Serialize)]
struct RateJson {
    rate: f64,
    rates: Vec<f64>,
}

impl From<Repeated> for RateJson {
    fn from(repeated: Repeated) -> RateJson {
        RateJson {
            rate: repeated.rate(),
            rates: repeated.0,
        }
    }
}

impl Repeated {
    pub fn add(&mut self, rate: f64) {
        self.0.push(rate);
    }

    /// The sums of all that were measured equally often, by repetition.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Repeated>) -> Repeated {
        let mut sums: Vec<f64> = Vec::new();
        for repeated in all {
            sums.resize(sums.len().max(repeated.0.len()), 0.0);
            for (sum, rate) in sums.iter_mut().zip(&repeated.0) {
                *sum += rate;
            }
        }
        Repeated(sums)
    }

    /// The one with the greatest median.
    pub fn best<'a>(all: impl IntoIterator<Item = &'a Repeated>) -> Option<&'a Repeated> {
        let all = all.into_iter();
        all.max_by(|a, b| a.rate().total_cmp(&b.rate()))
    }

    /// The load under which all together moved most, with what they moved; the first one, if they moved nothing.
    pub fn best_load<L: Copy>(
        all: impl IntoIterator<Item = (L, Repeated)>,
    ) -> Option<(L, Repeated)> {
        let all = all.into_iter();
        all.reduce(|best, new| match new.1.rate() > best.1.rate() {
            true => new,
            false => best,
        })
    }

    /// The median.
    pub fn rate(&self) -> f64 {
        self.spread().median
    }

    pub fn spread(&self) -> Spread {
        Spread::of(&self.0).unwrap_or(Spread {
            runs: 0,
            median: 0.0,
            min: 0.0,
            max: 0.0,
        })
    }

    /// Which time was nearest to the median.
    pub fn middle(&self) -> Option<usize> {
        let median = self.rate();
        let away = |rate: &f64| (rate - median).abs();
        let times = self.0.iter().enumerate();
        let nearest = times.min_by(|a, b| away(a.1).total_cmp(&away(b.1)));
        nearest.map(|(time, _)| time)
    }

    /// Whether chance may have made the difference: by the interval of the ratio, or if there are too few times for that, since
    /// both have a rate that lies between two of the other. Nothing is said of what was measured once.
    pub fn may_be(&self, other: &Repeated) -> bool {
        let (a, b) = (self.spread(), other.spread());
        if a.runs.min(b.runs) < 2 {
            return false;
        }
        match Ratio::of(&self.0, &other.0).map(|ratio| ratio.verdict()) {
            Some(Verdict::Noise) => true,
            Some(Verdict::More | Verdict::Less) => false,
            Some(Verdict::TooFewRuns) | None => a.min <= b.max && b.min <= a.max,
        }
    }

    /// Not the best, but perhaps no worse.
    pub fn is_near(&self, best: Option<&Repeated>) -> bool {
        best.is_some_and(|best| self != best && self.may_be(best))
    }
}

impl FromIterator<f64> for Repeated {
    fn from_iter<I: IntoIterator<Item = f64>>(rates: I) -> Repeated {
        Repeated(rates.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(rates: &[f64]) -> Repeated {
        rates.iter().copied().collect()
    }

    #[test]
    fn the_median_counts_and_sums_are_of_the_same_time() {
        let one = repeated(&[5.0, 1.0, 3.0]);
        assert_eq!((one.rate(), one.middle()), (3.0, Some(2)));
        let sum = Repeated::sum([&one, &repeated(&[1.0, 1.0, 2.0])]);
        assert_eq!(sum, repeated(&[6.0, 2.0, 5.0]));
        assert_eq!((repeated(&[]).rate(), repeated(&[]).middle()), (0.0, None));
    }

    #[test]
    fn a_difference_that_chance_may_have_made_is_told_from_one_that_it_did_not() {
        let may_be = |a: &[f64], b: &[f64]| repeated(a).may_be(&repeated(b));
        assert!(may_be(&[100.0, 110.0, 105.0], &[104.0, 120.0, 118.0]));
        assert!(!may_be(&[100.0, 110.0, 105.0], &[111.0, 120.0, 118.0]));
        assert!(!may_be(&[100.0], &[100.0]));
        let low = [
            100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0, 107.0, 115.0,
        ];
        let high = low.map(|rate| rate + 10.0);
        assert!(!may_be(&low, &high), "one of nine does not make it noise");
        assert!(may_be(&low, &low));
    }
}
