//! A disk that fails: ext4 on a loop device on a sparse file in a tmpfs.
//!
//! When the tmpfs is full, a block that was never written cannot be written: the kernel's write-back of it fails, and its
//! page stays in memory as if it were clean. Blocks that were written before can be written again. The file system's own
//! blocks are all written at the beginning, so it lives on and only data is lost.

use crate::images::run;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

const BLOCK: u64 = 4096;

/// A server creates segments of its log in advance within this time.
const QUIET: Duration = Duration::from_millis(300);

pub struct FragileDisk {
    /// Where the file system is mounted.
    pub at: PathBuf,
    below: PathBuf,
    dir: tempfile::TempDir,
}

impl FragileDisk {
    /// Capacity in MiB before the disk fails; the file system itself uses some of it.
    pub fn make(mib: u64) -> FragileDisk {
        let dir = tempfile::Builder::new().prefix("gupfs-fragile-").tempdir();
        let dir = dir.expect("a temporary directory");
        let (at, below) = (dir.path().join("at"), dir.path().join("below"));
        fs::create_dir(&at).unwrap();
        fs::create_dir(&below).unwrap();
        must(
            "mount",
            &[
                "-t",
                "tmpfs",
                "-o",
                &format!("size={mib}M"),
                "none",
                text(&below),
            ],
        );
        let disk = FragileDisk { at, below, dir };
        let image = disk.image();
        File::create(&image).unwrap().set_len(3 << 30).unwrap();
        let features = "^uninit_bg,^metadata_csum,^flex_bg";
        let extended = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
        must(
            "mkfs.ext4",
            &[
                "-q",
                "-F",
                "-b",
                "4096",
                "-N",
                "16384",
                "-J",
                "size=16",
                "-O",
                features,
                "-E",
                extended,
                text(&image),
            ],
        );
        disk.write_own_blocks();
        disk.mount();
        disk
    }

    /// Writes all blocks of the file system itself again, so that they are allocated.
    fn write_own_blocks(&self) {
        let image = self.image();
        let mut blocks = BTreeSet::new();
        let layout = output("dumpe2fs", &[text(&image)]);
        for line in layout.lines().map(str::trim) {
            for part in line.split(", ") {
                let Some((what, test_store)) = part.split_once(" at ") else {
                    continue;
                };
                let test_store = test_store.split([' ', ',']).next().unwrap_or_default();
                match (what, test_store.split_once('-')) {
                    ("Inode table", Some((first, last))) => {
                        blocks.extend(number(first)..=number(last))
                    }
                    (
                        "Block bitmap" | "Inode bitmap" | "Primary superblock"
                        | "Backup superblock",
                        None,
                    ) => {
                        blocks.insert(number(test_store));
                    }
                    _ => {}
                }
            }
        }
        let journal = output("debugfs", &["-R", "blocks <8>", text(&image)]);
        blocks.extend(journal.split_whitespace().map(number));
        assert!(blocks.len() > 1000, "what dumpe2fs says is not understood");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&image)
            .unwrap();
        for block in blocks {
            let mut bytes = [0; BLOCK as usize];
            file.read_exact_at(&mut bytes, block * BLOCK).unwrap();
            file.write_all_at(&bytes, block * BLOCK).unwrap();
        }
    }

    fn image(&self) -> PathBuf {
        self.below.join("image")
    }

    pub fn mount(&self) {
        let how = "loop,nodiscard,errors=continue";
        must("mount", &["-o", how, text(&self.image()), text(&self.at)]);
    }

    /// Drops everything that is not on the disk, as a power loss does. Its users have ended.
    pub fn mount_anew(&self) {
        for _ in 0..100 {
            // A process that has just ended may still use it.
            if run("umount", &[text(&self.at)]).is_ok() {
                return self.mount();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("'{}' is in use", self.at.display());
    }

    /// Waits until no process writes to it, and discards the blocks of removed files: they are allocated, and writes to them would
    /// succeed after the failure.
    pub fn settle(&self) {
        let blocks = || fs::metadata(self.image()).unwrap().blocks();
        let mut before = 0;
        while blocks() != before {
            before = blocks();
            std::thread::sleep(QUIET);
            must("sync", &["-f", text(&self.at)]);
        }
        must("fstrim", &[text(&self.at)]);
    }

    /// From now on it accepts no new blocks.
    pub fn fail(&self) {
        let filler = File::create(self.below.join("filler")).unwrap();
        let zeros = vec![0; 1 << 20];
        let mut at = 0;
        while let Ok(wrote) = filler.write_at(&zeros, at) {
            at += wrote as u64;
        }
    }

    pub fn heal(&self) {
        fs::remove_file(self.below.join("filler")).unwrap();
    }
}

impl Drop for FragileDisk {
    fn drop(&mut self) {
        let _ = run("umount", &["-l", text(&self.at)]);
        let _ = run("umount", &["-l", text(&self.below)]);
        let _ = &self.dir;
    }
}

/// Another program's syncfs(2) of a file system, again and again.
pub struct Syncer {
    going: Arc<AtomicBool>,
    errors: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    pub fn start(dir: &Path) -> Syncer {
        let (going, errors) = (Arc::new(AtomicBool::new(true)), Arc::<AtomicU64>::default());
        let dir = File::open(dir).unwrap();
        let thread = std::thread::spawn({
            let (going, errors) = (going.clone(), errors.clone());
            move || {
                while going.load(Relaxed) {
                    if rustix::fs::syncfs(dir.as_fd()).is_err() {
                        errors.fetch_add(1, Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        });
        Syncer {
            going,
            errors,
            thread: Some(thread),
        }
    }

    /// The number of errors that it got.
    pub fn leave(mut self) -> u64 {
        self.going.store(false, Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.errors.load(Relaxed)
    }
}

/// Drops the clean pages of the files in a directory, so that reads return what is on the disk.
pub fn forget_pages(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            forget_pages(&entry.path());
        } else if entry.file_type().unwrap().is_file()
            && let Ok(file) = File::open(entry.path())
        {
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| panic!("'{text}' is no number"))
}

fn must(program: &str, args: &[&str]) {
    run(program, args).unwrap_or_else(|error| panic!("{error}"));
}

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary path is text")
}
