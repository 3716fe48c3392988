//! Reads back after the load: is every acknowledged record there?

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::watch::Call;
use super::writer::{Ledger, Pass, origin};
use crate::page_cache;
use crate::pattern::PatternGenerator;

/// A record that was acknowledged and is not there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LostRecord {
    pub file: String,
    pub offset: u64,
    /// The pass that was acknowledged.
    pub kept: Pass,
    pub found: Loss,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    /// The bytes of an earlier pass.
    Older(Pass),
    Zeros,
    /// The file ends before.
    Nothing,
    /// Bytes that no pass wrote there.
    Wrong,
    /// It cannot be read.
    Error(String),
}

/// Whole blocks are written or not: a record that was not acknowledged may be a mixture of them.
const BLOCK: usize = 4096;

/// Pause before what cannot be read is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// One file's records, read back.
pub struct Audit {
    pub run: u64,
    pub worker: u64,
    pub path: PathBuf,
    pub record: u64,
    pub ledger: Ledger,
    /// Until when what cannot be read is tried again.
    pub until: Instant,
}

impl Audit {
    pub fn findings(&self, call: &Call) -> Vec<LostRecord> {
        let mut findings = Vec::new();
        let mut file = None;
        for record in 0..self.ledger.kept.len() {
            let (kept, tried) = (self.ledger.kept[record], self.ledger.tried[record]);
            if kept == 0 {
                continue;
            }
            let offset = record as u64 * self.record;
            let found = match self.read(&mut file, offset, call) {
                Ok(bytes) => self.judge(&bytes, offset, kept, tried),
                Err(error) => Some((0, Loss::Error(error.to_string()))),
            };
            findings.extend(found.map(|(at, found)| LostRecord {
                file: self.path.display().to_string(),
                offset: offset + at as u64,
                kept,
                found,
            }));
        }
        findings
    }

    /// As much of the record as the file has.
    fn read(&self, file: &mut Option<File>, offset: u64, call: &Call) -> io::Result<Vec<u8>> {
        loop {
            let error = match self.read_once(file, offset, call) {
                Ok(bytes) => return Ok(bytes),
                Err(error) => error,
            };
            if Instant::now() >= self.until {
                return Err(error);
            }
            *file = None;
            std::thread::sleep(PAUSE);
        }
    }

    fn read_once(&self, file: &mut Option<File>, offset: u64, call: &Call) -> io::Result<Vec<u8>> {
        let file = match file {
            Some(file) => file,
            none => {
                let opened = call.make("open of", || File::open(&self.path))?;
                // Pages in this host's cache are no proof.
                page_cache::forget(&opened)?;
                none.insert(opened)
            }
        };
        let mut bytes = vec![0; self.record as usize];
        let mut read = 0;
        while read < bytes.len() {
            let rest = &mut bytes[read..];
            match call.make("read of", || file.read_at(rest, offset + read as u64))? {
                0 => break,
                more => read += more,
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Where in the record it is wrong first, and how.
    fn judge(&self, bytes: &[u8], offset: u64, kept: Pass, tried: Pass) -> Option<(usize, Loss)> {
        let mut of_pass = |pass: Pass| {
            let length = self.record as usize;
            PatternGenerator::new(self.run, origin(self.worker, pass), length, true)
                .record(offset, length)
                .to_vec()
        };
        let allowed: Vec<Vec<u8>> = (kept..=tried.max(kept)).map(&mut of_pass).collect();
        for (index, block) in allowed[0].chunks(BLOCK).enumerate() {
            let start = index * BLOCK;
            let end = start + block.len();
            let Some(found) = bytes.get(start..end) else {
                return Some((start, Loss::Nothing));
            };
            if allowed.iter().any(|right| right[start..end] == *found) {
                continue;
            }
            if found.iter().all(|byte| *byte == 0) {
                return Some((start, Loss::Zeros));
            }
            let older = (1..kept)
                .rev()
                .find(|pass| of_pass(*pass)[start..end] == *found);
            return Some((start, older.map_or(Loss::Wrong, Loss::Older)));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: usize = 2 * BLOCK;

    fn pass(pass: Pass) -> Vec<u8> {
        PatternGenerator::new(5, origin(1, pass), RECORD, true)
            .record(0, RECORD)
            .to_vec()
    }

    /// The finding if the file has these bytes, pass 3 was acknowledged and pass 4 tried.
    fn found(bytes: &[u8]) -> Option<(u64, Loss)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        let ledger = Ledger {
            kept: vec![3],
            tried: vec![4],
            ..Ledger::default()
        };
        let audit = Audit {
            run: 5,
            worker: 1,
            path,
            record: RECORD as u64,
            ledger,
            until: Instant::now(),
        };
        let findings = audit.findings(&Call::default());
        assert!(findings.len() < 2);
        findings
            .into_iter()
            .next()
            .map(|finding| (finding.offset, finding.found))
    }

    #[test]
    fn what_was_acknowledged_is_there_or_said_to_be_lost() {
        let mixed = |first: &[u8], second: &[u8]| [&first[..BLOCK], &second[BLOCK..]].concat();
        assert_eq!(found(&pass(3)), None);
        assert_eq!(found(&pass(4)), None);
        assert_eq!(found(&mixed(&pass(4), &pass(3))), None);
        let block = BLOCK as u64;
        assert_eq!(
            found(&mixed(&pass(3), &pass(2))),
            Some((block, Loss::Older(2)))
        );
        assert_eq!(
            found(&mixed(&pass(3), &[0; RECORD])),
            Some((block, Loss::Zeros))
        );
        assert_eq!(found(&pass(4)[..BLOCK]), Some((block, Loss::Nothing)));
        assert_eq!(found(&pass(5)), Some((0, Loss::Wrong)));
        let mut flipped = pass(3);
        flipped[RECORD - 1] ^= 1;
        assert_eq!(found(&flipped), Some((block, Loss::Wrong)));
    }

    #[test]
    fn a_file_that_is_gone_cannot_be_read() {
        let ledger = Ledger {
            kept: vec![1, 0],
            tried: vec![1, 1],
            ..Ledger::default()
        };
        let audit = Audit {
            run: 5,
            worker: 1,
            path: "/nowhere/file".into(),
            record: 8,
            ledger,
            until: Instant::now(),
        };
        let findings = audit.findings(&Call::default());
        // The other record was never acknowledged.
        assert_eq!(findings.len(), 1);
        assert!(matches!(&findings[0].found, Loss::Error(text) if text.contains("No such file")));
    }
}
