//! The events of a run, in order: a hash that proves that two runs are equal, and the last lines for the reader of a
//! failure.

use std::collections::VecDeque;
use std::fmt;

/// Number of lines that a failure prints.
const TAIL: usize = 60;

pub struct Events {
    hash: u64,
    count: u64,
    tail: VecDeque<String>,
    /// Prints every line: the run is of one seed that an engineer inspects.
    aloud: bool,
}

impl Events {
    pub fn new(aloud: bool) -> Events {
        Events {
            hash: 0xcbf2_9ce4_8422_2325,
            count: 0,
            tail: VecDeque::new(),
            aloud,
        }
    }

    /// Records one event by its numbers: for events that happen a million times.
    pub fn count(&mut self, numbers: &[u64]) {
        self.count += 1;
        for number in numbers {
            self.mix(*number);
        }
    }

    pub fn say(&mut self, what: impl fmt::Display) {
        let line = what.to_string();
        self.count += 1;
        line.bytes().for_each(|byte| self.mix(byte.into()));
        if self.aloud {
            println!("{line}");
        }
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// Prints a line that is not an event of its own.
    pub fn remark(&mut self, what: impl FnOnce() -> String) {
        if self.aloud {
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
impl Drop for Events {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.aloud {
            println!("the last events:");
            self.tail.iter().for_each(|line| println!("{line}"));
        }
    }
}
