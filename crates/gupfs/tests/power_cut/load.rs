//! Writers on a running mount: create, overwrite, append, rename over, truncate, remove, each followed by fsync.

use crate::journal::{BLOCK, FileState, Files, Journals, pattern};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// What a writer waits for before it acknowledges a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Acknowledge {
    /// fsync of file or directory: survives a power loss.
    Synced,
    /// The return of the last call: survives the end of the process.
    Answered,
}

pub struct Load {
    end: Arc<AtomicBool>,
    writers: Vec<JoinHandle<io::Result<()>>>,
}

impl Load {
    /// Writers under `dir`, one for each journal.
    pub fn start(dir: &Path, journals: &Journals, acknowledge: Acknowledge) -> Load {
        let end = Arc::new(AtomicBool::new(false));
        let writers = (0..journals.acknowledged().len())
            .map(|number| {
                let writer = Writer {
                    number,
                    dir: dir.join(format!("writer-{number}")),
                    acknowledge,
                    journals: journals.clone(),
                    files: Files::new(),
                    step: 0,
                    dice: 0x5eed_0000 + number as u64,
                };
                let end = end.clone();
                std::thread::spawn(move || writer.work(&end))
            })
            .collect();
        Load { end, writers }
    }

    pub fn stop(self) {
        self.end.store(true, Ordering::SeqCst);
        for writer in self.writers {
            let ended = writer.join().expect("a writer does not panic");
            assert!(ended.is_ok(), "a writer failed: {ended:?}");
        }
    }

    /// After the file system died under them: every writer has met an error, which is all that may happen.
    pub fn died(self) {
        for writer in self.writers {
            let ended = writer.join().expect("a writer does not panic");
            assert!(ended.is_err(), "a writer went on without a file system");
        }
    }
}

struct Writer {
    number: usize,
    dir: PathBuf,
    acknowledge: Acknowledge,
    journals: Journals,
    files: Files,
    step: u32,
    dice: u64,
}

const NAMES: u64 = 12;

impl Writer {
    fn work(mut self, end: &AtomicBool) -> io::Result<()> {
        std::fs::create_dir(&self.dir)?;
        let parent = self.dir.parent().expect("a mount point above").to_owned();
        self.sync(&File::open(&parent)?)?;
        while !end.load(Ordering::SeqCst) {
            self.step += 1;
            let name = format!("file-{}", self.roll(NAMES));
            match (self.files.contains_key(&name), self.roll(10)) {
                (false, _) => self.create(&name)?,
                (true, 0..4) => self.overwrite(&name)?,
                (true, 4..6) => self.append(&name)?,
                (true, 6) => self.remove(&name)?,
                (true, 7) => self.truncate(&name)?,
                (true, _) => self.rename(&name)?,
            }
        }
        Ok(())
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % sides
    }

    fn begin(&self, after: &Files) {
        self.journals.begin(self.number, after.clone());
    }

    fn done(&mut self, after: Files) -> io::Result<()> {
        self.journals.acknowledge(self.number);
        self.files = after;
        Ok(())
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        if self.acknowledge == Acknowledge::Synced {
            file.sync_all()
        } else {
            Ok(())
        }
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.sync(&File::open(&self.dir)?)
    }

    fn write_blocks(
        &self,
        file: &File,
        name: &str,
        blocks: std::ops::Range<usize>,
    ) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(blocks.len() * BLOCK);
        for number in blocks.clone() {
            bytes.extend_from_slice(&pattern(name, number, self.step));
        }
        file.write_all_at(&bytes, (blocks.start * BLOCK) as u64)
    }

    /// A new file, small enough for its inode or large enough for several objects; holes now and then.
    fn create(&mut self, name: &str) -> io::Result<()> {
        let length = [1, 1, 3, 40, 300, 1100, 1300][self.roll(7) as usize];
        let start = if self.roll(4) == 0 {
            self.roll(20) as usize
        } else {
            0
        };
        let mut blocks = vec![0; start];
        blocks.resize(start + length, self.step);
        let mut after = self.files.clone();
        after.insert(
            name.into(),
            FileState {
                size: blocks.len() * BLOCK,
                blocks,
            },
        );
        self.begin(&after);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(self.dir.join(name))?;
        self.write_blocks(&file, name, start..start + length)?;
        self.sync(&file)?;
        self.sync_dir()?;
        self.done(after)
    }

    fn overwrite(&mut self, name: &str) -> io::Result<()> {
        let length = self.files[name].blocks.len();
        let from = self.roll(length as u64) as usize;
        let to = (from + 1 + self.roll(64) as usize).min(length);
        let mut after = self.files.clone();
        let state = after.get_mut(name).expect("it exists");
        state.blocks[from..to].fill(self.step);
        self.begin(&after);
        let file = OpenOptions::new().write(true).open(self.dir.join(name))?;
        self.write_blocks(&file, name, from..to)?;
        self.sync(&file)?;
        self.done(after)
    }

    fn append(&mut self, name: &str) -> io::Result<()> {
        let mut after = self.files.clone();
        let state = after.get_mut(name).expect("it exists");
        let from = state.blocks.len();
        let to = from + 1 + self.roll(30) as usize;
        state.blocks.resize(to, self.step);
        state.size = to * BLOCK;
        self.begin(&after);
        let file = OpenOptions::new().write(true).open(self.dir.join(name))?;
        self.write_blocks(&file, name, from..to)?;
        self.sync(&file)?;
        self.done(after)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut after = self.files.clone();
        after.remove(name);
        self.begin(&after);
        std::fs::remove_file(self.dir.join(name))?;
        self.sync_dir()?;
        self.done(after)
    }

    fn truncate(&mut self, name: &str) -> io::Result<()> {
        let mut after = self.files.clone();
        let state = after.get_mut(name).expect("it exists");
        let keep = 1 + self.roll(state.blocks.len() as u64) as usize;
        state.blocks.truncate(keep);
        state.size = keep * BLOCK;
        self.begin(&after);
        let file = OpenOptions::new().write(true).open(self.dir.join(name))?;
        file.set_len((keep * BLOCK) as u64)?;
        self.sync(&file)?;
        self.done(after)
    }

    /// Writes the new content under another name and renames it over: the usual way to replace a file.
    fn rename(&mut self, name: &str) -> io::Result<()> {
        let length = 1 + self.roll(60) as usize;
        let state = FileState {
            blocks: vec![self.step; length],
            size: length * BLOCK,
        };
        let mut after = self.files.clone();
        after.insert(name.into(), state);
        self.begin(&after);
        let temporary = self.dir.join("temporary");
        let file = File::create(&temporary)?;
        self.write_blocks(&file, name, 0..length)?;
        self.sync(&file)?;
        std::fs::rename(&temporary, self.dir.join(name))?;
        self.sync_dir()?;
        self.done(after)
    }
}
