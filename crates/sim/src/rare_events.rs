//! Counters of rare events. A simulation in which an event never happens tests nothing about it, so each event has a minimum
//! over all seeds of a run.

use std::collections::BTreeMap;

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct RareEvents(BTreeMap<&'static str, u64>);

impl RareEvents {
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub fn add(&mut self, what: &'static str, times: u64) {
        *self.0.entry(what).or_default() += times;
    }

    pub fn count_if(&mut self, seen: bool, what: &'static str) {
        self.add(what, seen.into());
    }

    pub fn merge(&mut self, other: &RareEvents) {
        for (what, times) in &other.0 {
            self.add(what, *times);
        }
    }

    pub fn times(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// Prints all counters.
    ///
    /// # Panics
    /// When an event happened less often than its minimum.
    pub fn require_minimums(&self, least: &[(&'static str, u64)]) {
        for (what, times) in &self.0 {
            println!("{times:8}  {what}");
        }
        let short: Vec<String> = least
            .iter()
            .filter(|(what, least)| self.times(what) < *least)
            .map(|(what, least)| {
                format!(
                    "'{what}' happened {} times, the minimum is {least}",
                    self.times(what)
                )
            })
            .collect();
        assert!(
            short.is_empty(),
            "events below their minimum: {}",
            short.join("; ")
        );
    }
}
