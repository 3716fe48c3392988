//! Calls to a fake disk: their kinds, how many there were, and at which one the process died.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallKind {
    Any,
    Read,
    Write,
    /// Sync of a file's data or of a directory.
    Sync,
    /// Creating, renaming, removing, listing, stat, locks.
    Name,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    pub reads: u64,
    pub writes: u64,
    pub syncs: u64,
    pub names: u64,
    /// Number of syncs that failed because of `fail_sync`.
    pub failed_syncs: u64,
}

impl Counters {
    pub fn of(&self, kind: CallKind) -> u64 {
        match kind {
            CallKind::Any => self.reads + self.writes + self.syncs + self.names,
            CallKind::Read => self.reads,
            CallKind::Write => self.writes,
            CallKind::Sync => self.syncs,
            CallKind::Name => self.names,
        }
    }

    pub(super) fn count(&mut self, kind: CallKind) {
        *match kind {
            CallKind::Read => &mut self.reads,
            CallKind::Write => &mut self.writes,
            CallKind::Sync => &mut self.syncs,
            CallKind::Name | CallKind::Any => &mut self.names,
        } += 1;
    }
}

/// The call at which the process died because of `die_at`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Death {
    pub kind: CallKind,
    pub path: String,
}
