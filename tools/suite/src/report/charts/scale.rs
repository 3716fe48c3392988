//! An axis: its ends, and its lines.

/// Values so many times as large as others cannot be seen beside them on a linear scale.
const LINEAR_MOST: f64 = 40.0;

#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    from: f64,
    to: f64,
    pub log: bool,
    pub steps: Vec<f64>,
}

impl Scale {
    /// From 0; logarithmic if the values differ by so much that small ones could not be told from 0.
    pub fn over(values: impl Iterator<Item = f64>) -> Scale {
        let (least, most) = ends(values);
        match least > 0.0 && most / least > LINEAR_MOST {
            true => Scale::log(least, most),
            false => Scale::linear(most),
        }
    }

    /// For what starts at 0, whatever its values are.
    pub fn linear(most: f64) -> Scale {
        let steps = steps(most);
        Scale {
            from: 0.0,
            to: *steps.last().expect("at least two steps"),
            log: false,
            steps,
        }
    }

    pub fn log(least: f64, most: f64) -> Scale {
        let fine: Vec<f64> = round_numbers(least, most).collect();
        let at = |find: Option<usize>, or: usize| find.unwrap_or(or);
        let low = at(fine.iter().rposition(|step| *step <= least * 1.0001), 0);
        let high = at(
            fine.iter().position(|step| *step >= most * 0.9999),
            fine.len() - 1,
        );
        let inside = &fine[low..=high.max(low)];
        let decades: Vec<f64> = inside
            .iter()
            .copied()
            .filter(|step| (step.log10() - step.log10().round()).abs() < 1e-9)
            .collect();
        let steps = match decades.len() {
            // With few powers of ten inside, 2 and 5 are lines too.
            0..=2 => inside.to_vec(),
            many => decades.into_iter().step_by(many.div_ceil(6)).collect(),
        };
        Scale {
            from: inside[0],
            to: *inside.last().expect("not empty"),
            log: true,
            steps,
        }
    }

    /// The share of the axis below a value.
    pub fn at(&self, value: f64) -> f64 {
        let share = match self.log {
            false => (value - self.from) / (self.to - self.from),
            true => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        }
    }
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(least, most), value| {
        (least.min(value), most.max(value))
    })
}

/// 1, 2 or 5 times a power of ten, from below the least to above the most.
fn round_numbers(least: f64, most: f64) -> impl Iterator<Item = f64> {
    let power = |value: f64| value.log10().floor() as i32;
    (power(least)..=power(most) + 1)
        .flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * 10f64.powi(power)))
}

/// From 0 to the first that is not less: 1, 2 or 5 times a power of ten apart.
fn steps(most: f64) -> Vec<f64> {
    if !(most > 0.0 && most.is_finite()) {
        return vec![0.0, 1.0];
    }
    let rough = most / 4.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = step.into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(power * 10.0);
    let count = (most / step * 0.9999).ceil().max(1.0);
    (0..=count as usize).map(|at| at as f64 * step).collect()
}

/// Few characters: `12.3k`, `3.5M`.
pub fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 999_500.0 => (value / 1e6, "M"),
        size if size >= 9_999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match value.abs() {
        size if size >= 99.95 || value.fract() == 0.0 => 0,
        size if size >= 0.995 => 1,
        size if size >= 0.0995 => 2,
        _ => 3,
    };
    format!("{value:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_on_a_round_step() {
        assert_eq!(Scale::linear(93.0).steps, [0.0, 50.0, 100.0]);
        assert_eq!(Scale::linear(8.0).to, 8.0);
        assert_eq!(Scale::linear(0.0).to, 1.0);
    }

    #[test]
    fn what_differs_by_much_is_on_a_logarithmic_scale() {
        let scale = Scale::over([76.0, 200_000.0].into_iter());
        assert!(scale.log);
        assert_eq!((scale.from, scale.to), (50.0, 200_000.0));
        assert_eq!(scale.steps, [100.0, 1_000.0, 10_000.0, 100_000.0]);
        assert!(scale.at(76.0) > 0.0 && scale.at(76.0) < scale.at(200.0));
        assert!(!Scale::over([10.0, 300.0].into_iter()).log);
        assert!(!Scale::over([0.0, 300.0].into_iter()).log);
        assert_eq!(Scale::log(0.6, 3.0).steps, [0.5, 1.0, 2.0, 5.0]);
        assert_eq!(Scale::log(1.0, 1.0).at(1.0), 0.0);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 0.25, 7.0, 7.5, 1234.0, 12_345.0, 999_900.0, 3.5e6].map(short),
            ["0", "0.25", "7", "7.5", "1234", "12.3k", "1.0M", "3.5M"]
        );
    }
}
