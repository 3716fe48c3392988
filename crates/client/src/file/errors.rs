//! Errors that nobody has been told yet: each open file of an inode hears of each once, at fsync or close.

use gupfs_proto::Refusal;

#[derive(Default)]
pub struct Errors {
    /// How many there were; an open file remembers up to which it has heard.
    count: u64,
    last: Option<Refusal>,
    /// Somebody has heard of the last one: who opens the file later need not.
    heard: bool,
}

impl Errors {
    pub fn keep(&mut self, refusal: Refusal) {
        self.count += 1;
        self.last = Some(refusal);
        self.heard = false;
    }

    /// What a newly opened file has heard: everything but an error that nobody has heard yet.
    pub fn heard_at_open(&self) -> u64 {
        if self.heard {
            self.count
        } else {
            self.count.saturating_sub(1)
        }
    }

    /// The last error, unless this open file has heard of it.
    pub fn tell(&mut self, heard: &mut u64) -> Option<Refusal> {
        if *heard == self.count {
            return None;
        }
        *heard = self.count;
        self.heard = true;
        self.last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_open_file_hears_of_an_error_once() {
        let mut errors = Errors::default();
        let (mut one, mut two) = (errors.heard_at_open(), errors.heard_at_open());
        errors.keep(Refusal::NoSpace);
        assert_eq!(errors.tell(&mut one), Some(Refusal::NoSpace));
        assert_eq!(errors.tell(&mut one), None);
        assert_eq!(errors.tell(&mut two), Some(Refusal::NoSpace));
    }

    #[test]
    fn an_error_that_nobody_heard_waits_for_the_next_who_opens() {
        let mut errors = Errors::default();
        errors.keep(Refusal::NoSpace);
        let mut late = errors.heard_at_open();
        assert_eq!(errors.tell(&mut late), Some(Refusal::NoSpace));
        let mut later = errors.heard_at_open();
        assert_eq!(errors.tell(&mut later), None);
    }
}
