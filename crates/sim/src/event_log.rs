//! The log of a run's events. Equal hashes prove that two runs are equal; a failure prints the last lines.

use std::collections::VecDeque;
use std::fmt;

/// Number of lines that a failure prints.
const TAIL: usize = 60;

pub struct EventLog {
    hash: u64,
    count: u64,
    tail: VecDeque<String>,
    /// Prints every line: for a run of one seed that an engineer inspects.
    verbose: bool,
}

impl EventLog {
    pub fn new(verbose: bool) -> EventLog {
        EventLog {
            hash: 0xcbf2_9ce4_8422_2325,
            count: 0,
            tail: VecDeque::new(),
            verbose,
        }
    }

    /// Records one event by its numbers: for events that happen a million times.
    pub fn record_numbers(&mut self, numbers: &[u64]) {
        self.count += 1;
        for number in numbers {
            self.mix(*number);
        }
    }

    pub fn record(&mut self, what: impl fmt::Display) {
        let line = what.to_string();
        self.count += 1;
        line.bytes().for_each(|byte| self.mix(byte.into()));
        if self.verbose {
            println!("{line}");
        }
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// Prints a line that does not count as an event.
    pub fn print_line(&mut self, what: impl FnOnce() -> String) {
        if self.verbose {
            println!("{}", what());
        }
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn len(&self) -> u64 {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x0100_0000_01b3);
        self.hash ^= self.hash >> 29;
    }
}

/// A failed simulation prints the events before the failure.
impl Drop for EventLog {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.verbose {
            println!("the last events:");
            self.tail.iter().for_each(|line| println!("{line}"));
        }
    }
}
