//! Writeback errors of an inode (Linux errseq_t): fsync or close returns each error once to each open file.

use gupfs_proto::FsError;

#[derive(Default)]
pub struct WritebackErrors {
    /// Number of errors so far; an open file remembers up to which it has seen them.
    count: u64,
    last: Option<FsError>,
    /// An open file has seen the last error: files opened later do not get it.
    last_was_seen: bool,
}

impl WritebackErrors {
    pub fn record(&mut self, error: FsError) {
        self.count += 1;
        self.last = Some(error);
        self.last_was_seen = false;
    }

    /// The position of a newly opened file: it has seen everything but an error that no open file has seen yet.
    pub fn seen_at_open(&self) -> u64 {
        if self.last_was_seen {
            self.count
        } else {
            self.count.saturating_sub(1)
        }
    }

    /// The last error, unless this open file has seen it.
    pub fn check_and_advance(&mut self, seen: &mut u64) -> Option<FsError> {
        if *seen == self.count {
            return None;
        }
        *seen = self.count;
        self.last_was_seen = true;
        self.last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_open_file_gets_an_error_once() {
        let mut errors = WritebackErrors::default();
        let (mut one, mut two) = (errors.seen_at_open(), errors.seen_at_open());
        errors.record(FsError::NoSpace);
        assert_eq!(errors.check_and_advance(&mut one), Some(FsError::NoSpace));
        assert_eq!(errors.check_and_advance(&mut one), None);
        assert_eq!(errors.check_and_advance(&mut two), Some(FsError::NoSpace));
    }

    #[test]
    fn an_error_that_no_open_file_got_is_kept_for_the_next_open() {
        let mut errors = WritebackErrors::default();
        errors.record(FsError::NoSpace);
        let mut late = errors.seen_at_open();
        assert_eq!(errors.check_and_advance(&mut late), Some(FsError::NoSpace));
        let mut later = errors.seen_at_open();
        assert_eq!(errors.check_and_advance(&mut later), None);
    }
}
