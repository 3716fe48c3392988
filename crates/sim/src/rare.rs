//! Counters of rare events. A simulation that never meets an event tests nothing about it, so each has a minimum over
//! a run.

use std::collections::BTreeMap;

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Rare(BTreeMap<&'static str, u64>);

impl Rare {
    pub fn saw(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub fn add(&mut self, what: &'static str, times: u64) {
        *self.0.entry(what).or_default() += times;
    }

    pub fn saw_if(&mut self, seen: bool, what: &'static str) {
        self.add(what, seen.into());
    }

    pub fn merge(&mut self, other: &Rare) {
        for (what, times) in &other.0 {
            self.add(what, *times);
        }
    }

    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// Prints all counters.
    ///
    /// # Panics
    /// When an event happened less often than its minimum: the run did not test what it is for.
    pub fn expect(&self, least: &[(&'static str, u64)]) {
        for (what, times) in &self.0 {
            println!("{times:8}  {what}");
        }
        let short: Vec<String> = least
            .iter()
            .filter(|(what, least)| self.of(what) < *least)
            .map(|(what, least)| {
                format!(
                    "'{what}' happened {} times, the minimum is {least}",
                    self.of(what)
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
