//! Of one file: whether the kernel may have pages, and who may fill some while they are dropped. Pure: no lock, no clock.

use gupfs_platform::BootTime;
use std::ops::Range;

/// Bytes of a file.
pub type PageRange = Range<u64>;

/// All pages of a file.
pub const ALL_PAGES: PageRange = 0..u64::MAX;

pub struct FilePages {
    /// When the first READ for the page cache was answered since the pages were dropped.
    given: Option<BootTime>,
    /// READs that are being answered. They wait for nothing that waits for the pages to be dropped.
    reads: u32,
    gate: Option<Gate>,
    /// When the file was last closed.
    closed_at: BootTime,
    /// What was answered while the gate is there, since the last pass began.
    answered: Vec<PageRange>,
}

/// What happens to new READs while the file's pages are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// They are answered: the kernel, which drops pages, may be waiting for them.
    Answering,
    /// They wait. The kernel drops no pages, or others than those that are read.
    Holding,
}

/// What follows when the kernel has dropped pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NextPass {
    /// These were answered meanwhile: the kernel may have them again.
    Drop(Vec<PageRange>),
    /// Some are being answered.
    WaitForReads,
    /// The kernel has none, and gets none until the gate is opened.
    Closed,
}

impl Default for FilePages {
    fn default() -> FilePages {
        FilePages {
            given: None,
            reads: 0,
            gate: None,
            closed_at: BootTime(0),
            answered: Vec::new(),
        }
    }
}

impl FilePages {
    /// Whether nothing is known of the file that must be kept.
    pub fn is_idle(&self) -> bool {
        self.given.is_none() && self.reads == 0 && self.gate.is_none()
    }

    /// Whether the kernel has pages, or is about to get some.
    pub fn may_have_pages(&self) -> bool {
        self.given.is_some() || self.reads > 0
    }

    pub fn gate(&self) -> Option<Gate> {
        self.gate
    }

    /// When the file was last closed.
    pub fn closed_at(&self) -> BootTime {
        self.closed_at
    }

    /// A READ is to be answered. False: it must wait.
    pub fn start_read(&mut self) -> bool {
        if self.gate == Some(Gate::Holding) {
            return false;
        }
        self.reads += 1;
        true
    }

    /// The same for a READ for which the lease was just acquired that is about to end: it is used once.
    pub fn start_granted_read(&mut self) {
        self.reads += 1;
    }

    /// Since when the kernel has pages.
    pub fn given_since(&self) -> Option<BootTime> {
        self.given
    }

    /// The READ is not answered now.
    pub fn withdraw_read(&mut self) {
        self.reads -= 1;
    }

    /// The READ's reply is about to be sent.
    pub fn finish_read(&mut self, range: PageRange, now: BootTime) {
        self.reads -= 1;
        self.given.get_or_insert(now);
        if self.gate.is_some() {
            self.answered.push(range);
        }
    }

    /// The kernel has forgotten the file, unless a READ is being answered.
    pub fn forget(&mut self) {
        if self.reads == 0 && self.gate.is_none() {
            self.given = None;
        }
    }

    /// The pages are to be dropped, and no more to be given: new READs wait. False if the kernel has none.
    pub fn start_closing(&mut self, now: BootTime) -> bool {
        debug_assert_eq!(self.gate, None, "one closes a file at a time");
        self.closed_at = now;
        self.gate = Some(Gate::Holding);
        self.answered.clear();
        self.may_have_pages()
    }

    /// Whether READs are being answered.
    pub fn has_reads(&self) -> bool {
        self.reads > 0
    }

    /// The kernel has dropped the pages of the former pass. New READs wait from here on.
    pub fn end_pass(&mut self) -> NextPass {
        self.gate = Some(Gate::Holding);
        if !self.answered.is_empty() {
            return NextPass::Drop(merged(std::mem::take(&mut self.answered)));
        }
        if self.reads > 0 {
            return NextPass::WaitForReads;
        }
        self.given = None;
        NextPass::Closed
    }

    /// The kernel is about to drop all pages, or does not get on: it waits for pages that READs are to fill which wait here.
    pub fn answer_held(&mut self) {
        self.gate = Some(Gate::Answering);
    }

    pub fn open_gate(&mut self) {
        self.gate = None;
        self.answered.clear();
    }
}

fn merged(mut ranges: Vec<PageRange>) -> Vec<PageRange> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<PageRange> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: BootTime = BootTime(7);

    #[test]
    fn a_file_of_which_nothing_was_read_is_closed_without_a_pass() {
        let mut file = FilePages::default();
        assert!(!file.start_closing(NOW) && !file.start_read());
        file.open_gate();
        assert!(file.is_idle() && file.start_read());
        file.withdraw_read();
        assert!(file.is_idle());
    }

    #[test]
    fn what_was_answered_during_a_pass_is_dropped_in_the_next_and_new_reads_wait() {
        let mut file = FilePages::default();
        assert!(file.start_read());
        file.finish_read(0..4096, NOW);
        assert!(file.start_closing(NOW) && !file.start_read());
        file.answer_held();
        for range in [8192..12288, 4096..8192, 20480..24576] {
            assert!(file.start_read(), "the kernel may wait for it");
            file.finish_read(range, NOW);
        }
        assert_eq!(
            file.end_pass(),
            NextPass::Drop(vec![4096..12288, 20480..24576])
        );
        assert!(!file.start_read());
        file.answer_held();
        assert!(file.start_read());
        assert_eq!(file.end_pass(), NextPass::WaitForReads);
        assert!(!file.start_read());
        file.finish_read(0..4096, NOW);
        assert_eq!(file.end_pass(), NextPass::Drop(vec![0..4096]));
        assert_eq!(file.end_pass(), NextPass::Closed);
        assert!(!file.may_have_pages());
        file.open_gate();
        assert!(file.is_idle());
    }

    #[test]
    fn a_read_that_is_being_answered_counts_as_pages() {
        let mut file = FilePages::default();
        file.start_read();
        assert!(file.start_closing(NOW) && file.has_reads());
        assert_eq!(file.end_pass(), NextPass::WaitForReads);
        file.withdraw_read();
        assert_eq!(file.end_pass(), NextPass::Closed);
    }

    #[test]
    fn a_forgotten_file_has_no_pages_unless_a_read_is_being_answered() {
        let mut file = FilePages::default();
        file.start_read();
        file.finish_read(0..4096, NOW);
        file.start_read();
        file.forget();
        assert!(file.may_have_pages());
        file.withdraw_read();
        file.forget();
        assert!(file.is_idle());
    }

    #[test]
    fn a_read_with_a_new_lease_is_answered_although_the_lease_is_about_to_end() {
        let mut file = FilePages::default();
        assert!(!file.start_closing(NOW) && !file.start_read());
        file.start_granted_read();
        assert!(file.may_have_pages());
        assert_eq!(file.end_pass(), NextPass::WaitForReads);
        file.finish_read(0..4096, NOW);
        assert_eq!(file.given_since(), Some(NOW));
        assert_eq!(file.end_pass(), NextPass::Drop(vec![0..4096]));
        assert_eq!(file.end_pass(), NextPass::Closed);
        assert_eq!(file.given_since(), None);
    }
}
