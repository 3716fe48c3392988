//! Medians, the spread of runs, and whether two medians differ by more than that.

use crate::rng::Rng;

/// Fewer runs say nothing about noise: of two times three, one order in ten is complete by chance alone.
pub const RUNS_MIN: usize = 4;

/// So many times runs are drawn again; more would move an interval's end by less than a run's own spread.
const DRAWS: usize = 2_000;

/// Runs of the same thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub runs: usize,
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// None of no runs.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Spread {
            runs: sorted.len(),
            median: middle(&sorted)?,
            min: *sorted.first()?,
            max: *sorted.last()?,
        })
    }
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let at = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[at]),
        _ => Some((sorted[at - 1] + sorted[at]) / 2.0),
    }
}

pub fn median(values: &[f64]) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

/// One median over another, with the interval in which 95 % of such ratios lie when runs are drawn again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    runs: usize,
}

/// The meaning of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    More,
    Less,
    Noise,
    TooFewRuns,
}

impl Ratio {
    /// None if there are no runs on one side, or the median below is not more than 0.
    pub fn of(above: &[f64], below: &[f64]) -> Option<Ratio> {
        let value = median(above)? / median(below)?;
        let mut rng = Rng::new(above.len() as u64 * 1_000 + below.len() as u64);
        let mut ratios: Vec<f64> = (0..DRAWS)
            .filter_map(|_| Some(median(&draw(above, &mut rng))? / median(&draw(below, &mut rng))?))
            .collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let ratio = Ratio {
            value,
            low: ratios[DRAWS * 25 / 1_000],
            high: ratios[DRAWS * 975 / 1_000 - 1],
            runs: above.len().min(below.len()),
        };
        (ratio.value.is_finite() && ratio.low.is_finite() && ratio.high.is_finite())
            .then_some(ratio)
    }

    pub fn verdict(&self) -> Verdict {
        match () {
            _ if self.runs < RUNS_MIN => Verdict::TooFewRuns,
            _ if self.low > 1.0 => Verdict::More,
            _ if self.high < 1.0 => Verdict::Less,
            _ => Verdict::Noise,
        }
    }
}

/// As many runs, each drawn from all of them.
fn draw(from: &[f64], rng: &mut Rng) -> Vec<f64> {
    from.iter()
        .map(|_| from[rng.below(from.len() as u64) as usize])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(above: &[f64], below: &[f64]) -> Verdict {
        Ratio::of(above, below).unwrap().verdict()
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_difference_within_the_noise_is_called_that() {
        let steady = [100.0, 101.0, 99.0, 100.5, 99.5];
        let faster = steady.map(|value| value * 1.1);
        let noisy = [60.0, 140.0, 103.0, 120.0, 85.0];
        assert_eq!(verdict(&faster, &steady), Verdict::More);
        assert_eq!(verdict(&steady, &faster), Verdict::Less);
        assert_eq!(verdict(&noisy, &steady), Verdict::Noise);
        assert_eq!(verdict(&steady, &steady), Verdict::Noise);
        assert_eq!(verdict(&faster[..3], &steady), Verdict::TooFewRuns);
    }

    #[test]
    fn the_interval_holds_the_ratio_and_is_the_same_each_time() {
        let ratio = || Ratio::of(&[2.0, 2.2, 1.9, 2.1], &[1.0, 1.1, 0.9, 1.0]).unwrap();
        assert!(ratio().low <= ratio().value && ratio().value <= ratio().high);
        assert_eq!(ratio(), ratio());
        assert_eq!(Ratio::of(&[1.0], &[0.0]), None);
        assert_eq!(Ratio::of(&[], &[1.0]), None);
    }

    #[test]
    fn noise_alone_is_rarely_called_a_difference() {
        let mut rng = Rng::new(7);
        let mut called = 0;
        for _ in 0..200 {
            let mut five = || [0; 5].map(|_| 100.0 + 20.0 * rng.fraction());
            called += usize::from(verdict(&five(), &five()) != Verdict::Noise);
        }
        assert!(called < 30, "{called} of 200");
    }
}
