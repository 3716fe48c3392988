//! The bytes of one file: what it should hold, and what a power loss may have left of it.

use std::sync::Arc;

/// Compared at once where it is as in one version.
const STEP: usize = 512;

/// Every state since the last sync, the oldest first; the last is what a reader sees.
#[derive(Clone, Debug)]
pub struct Content {
    versions: Vec<Arc<Vec<u8>>>,
    /// The last change was not answered: of it anything may be there.
    torn: bool,
}

impl Default for Content {
    /// A file that was made just now.
    fn default() -> Content {
        Content {
            versions: vec![Arc::default()],
            torn: false,
        }
    }
}

impl Content {
    pub fn bytes(&self) -> &[u8] {
        self.versions.last().expect("there is a version")
    }

    pub fn len(&self) -> u64 {
        self.bytes().len() as u64
    }

    pub fn push(&mut self, bytes: Vec<u8>) {
        self.versions.push(Arc::new(bytes));
        self.torn = false;
    }

    /// The last push was not answered.
    pub fn tear(&mut self) {
        self.torn = true;
    }

    /// fsync was answered.
    pub fn synced(&mut self) {
        self.versions.drain(..self.versions.len() - 1);
    }

    /// A reader of the same life, or of the next after a kill: everything answered is there.
    pub fn found_after_kill(&mut self, found: Vec<u8>) -> Result<(), String> {
        let certain = self.versions.len() - 1 - usize::from(self.torn);
        may_be(&self.versions[certain..], &found)?;
        if self.torn {
            self.push(found);
        }
        Ok(())
    }

    /// After a power loss: what was synced is there, and all that is there is durable.
    pub fn found_after_power_cut(&mut self, found: Vec<u8>) -> Result<(), String> {
        may_be(&self.versions, &found)?;
        *self = Content {
            versions: vec![Arc::new(found)],
            torn: false,
        };
        Ok(())
    }

    /// After the power loss of some disk: what was not synced on the others may be lost yet.
    pub fn found_after_partial_cut(&mut self, found: Vec<u8>) -> Result<(), String> {
        may_be(&self.versions, &found)?;
        self.push(found);
        Ok(())
    }

    /// fsync was answered; what was under way with it may be durable or not.
    pub fn synced_if_answered(&mut self) {
        if !self.torn {
            self.synced();
        }
    }

    /// The last push was not answered, and the content was not read since.
    pub fn is_torn(&self) -> bool {
        self.torn
    }

    /// Whether a power loss would have something to choose.
    pub fn is_unsynced(&self) -> bool {
        self.versions.len() > 1
    }
}

/// Each byte is as in one of the versions (zero behind its end), and the length within theirs.
fn may_be(versions: &[Arc<Vec<u8>>], found: &[u8]) -> Result<(), String> {
    let lens = || versions.iter().map(|version| version.len());
    let (least, most) = (lens().min().unwrap_or(0), lens().max().unwrap_or(0));
    if !(least..=most).contains(&found.len()) {
        return Err(format!("{} bytes, not {least}..={most}", found.len()));
    }
    for start in (0..found.len()).step_by(STEP) {
        let part = &found[start..found.len().min(start + STEP)];
        let whole = |version: &Arc<Vec<u8>>| version.get(start..start + part.len()) == Some(part);
        if versions.iter().any(whole) {
            continue;
        }
        for (at, byte) in (start..).zip(part) {
            let as_in = |version: &Arc<Vec<u8>>| version.get(at).copied().unwrap_or(0) == *byte;
            if !versions.iter().any(as_in) {
                return Err(format!("byte {at} is {byte}, as never before"));
            }
        }
    }
    Ok(())
}
