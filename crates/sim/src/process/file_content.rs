//! The bytes of one file: the expected ones, and those that a power loss may have left.

use std::sync::Arc;

/// Number of bytes compared at once with one version.
const STEP: usize = 512;

/// Every state since the last sync, the oldest first. A reader sees the last.
#[derive(Clone, Debug)]
pub struct FileContent {
    versions: Vec<Arc<Vec<u8>>>,
    /// The last change has no reply: it may be there in part.
    is_unanswered: bool,
}

impl Default for FileContent {
    /// The content of a new file.
    fn default() -> FileContent {
        FileContent {
            versions: vec![Arc::default()],
            is_unanswered: false,
        }
    }
}

impl FileContent {
    pub fn bytes(&self) -> &[u8] {
        self.versions.last().expect("there is a version")
    }

    pub fn len(&self) -> u64 {
        self.bytes().len() as u64
    }

    pub fn push(&mut self, bytes: Vec<u8>) {
        self.versions.push(Arc::new(bytes));
        self.is_unanswered = false;
    }

    /// The last change got no reply.
    pub fn mark_unanswered(&mut self) {
        self.is_unanswered = true;
    }

    /// An fsync succeeded.
    pub fn synced(&mut self) {
        self.versions.drain(..self.versions.len() - 1);
    }

    /// Checks a read in the same instance, or in the next after a kill: every answered change must be there.
    pub fn check_after_kill(&mut self, found: Vec<u8>) -> Result<(), String> {
        let oldest_possible = self.versions.len() - 1 - usize::from(self.is_unanswered);
        check_possible(&self.versions[oldest_possible..], &found)?;
        if self.is_unanswered {
            self.push(found);
        }
        Ok(())
    }

    /// Checks a read after a power loss: synced bytes must be there, and the bytes found are durable.
    pub fn check_after_power_loss(&mut self, found: Vec<u8>) -> Result<(), String> {
        check_possible(&self.versions, &found)?;
        *self = FileContent {
            versions: vec![Arc::new(found)],
            is_unanswered: false,
        };
        Ok(())
    }

    /// Checks a read after the power loss of one disk: a later power loss may still undo unsynced bytes on the other disks.
    pub fn check_after_partial_power_loss(&mut self, found: Vec<u8>) -> Result<(), String> {
        check_possible(&self.versions, &found)?;
        self.push(found);
        Ok(())
    }

    /// An fsync succeeded. A change without a reply may be durable or not.
    pub fn synced_if_answered(&mut self) {
        if !self.is_unanswered {
            self.synced();
        }
    }

    /// The last change has no reply, and the content was not read since.
    pub fn is_unanswered(&self) -> bool {
        self.is_unanswered
    }

    /// Whether a power loss may leave one of several states.
    pub fn is_unsynced(&self) -> bool {
        self.versions.len() > 1
    }
}

/// Each byte must be as in one of the versions (zero behind its end), and the length between theirs.
fn check_possible(versions: &[Arc<Vec<u8>>], found: &[u8]) -> Result<(), String> {
    let lens = || versions.iter().map(|version| version.len());
    let (least, most) = (lens().min().unwrap_or(0), lens().max().unwrap_or(0));
    if !(least..=most).contains(&found.len()) {
        return Err(format!(
            "the length is {}, not in {least}..={most}",
            found.len()
        ));
    }
    for start in (0..found.len()).step_by(STEP) {
        let part = &found[start..found.len().min(start + STEP)];
        let matches_part =
            |version: &Arc<Vec<u8>>| version.get(start..start + part.len()) == Some(part);
        if versions.iter().any(matches_part) {
            continue;
        }
        for (at, byte) in (start..).zip(part) {
            let as_in = |version: &Arc<Vec<u8>>| version.get(at).copied().unwrap_or(0) == *byte;
            if !versions.iter().any(as_in) {
                return Err(format!("byte {at} is {byte}, which no version has"));
            }
        }
    }
    Ok(())
}
