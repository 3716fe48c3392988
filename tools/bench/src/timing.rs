//! Repeated figures: medians and spread.

use serde::Serialize;
use std::time::{Duration, Instant};

/// How long `work` takes.
pub fn seconds<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().max(Duration::from_nanos(1)).as_secs_f64())
}

/// Figures of several runs.
#[derive(Serialize, Clone, Default)]
pub struct Figures(pub Vec<f64>);

impl Figures {
    pub fn push(&mut self, figure: f64) {
        self.0.push(figure);
    }

    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    pub fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub fn max(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}
