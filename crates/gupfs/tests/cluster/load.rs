//! A load of programs that check their results: each operation must succeed exactly once, whichever daemon dies in the meantime.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The files that one program created: contents by name in its directory.
#[derive(Default)]
pub struct Journal {
    pub name: String,
    pub files: BTreeMap<String, Vec<u8>>,
    pub operations: u64,
}

/// Running programs, on all mounts.
const PROGRAMS: usize = 4;

/// Ends the programs, also when the test fails.
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs programs during `work`; returns their files, after checking them through every mount.
pub fn while_working(mounts: &[PathBuf], happens: impl FnOnce()) -> Vec<Journal> {
    let ends = AtomicBool::new(false);
    let journals: Vec<Journal> = std::thread::scope(|scope| {
        let programs: Vec<_> = (0..PROGRAMS)
            .map(|number| {
                let (mount, ends) = (&mounts[number % mounts.len()], &ends);
                scope.spawn(move || work(mount, &format!("program{number}"), ends))
            })
            .collect();
        let ending = Ends(&ends);
        happens();
        drop(ending);
        let journals = programs.into_iter().map(|program| program.join().unwrap());
        journals.collect()
    });
    for journal in &journals {
        for mount in mounts {
            journal.compare(mount);
        }
    }
    journals
}

/// Works until it is stopped. No operation may fail, because no other program uses these names.
pub fn work(mount: &Path, name: &str, ends: &AtomicBool) -> Journal {
    let mut journal = Journal {
        name: name.to_string(),
        ..Journal::default()
    };
    let top = mount.join(name);
    journal.does("mkdir", &top, || fs::create_dir(&top));
    let mut round = 0;
    while !ends.load(Relaxed) {
        round += 1;
        journal.round(&top, round);
    }
    journal
}

impl Journal {
    fn does<T>(&mut self, what: &str, path: &Path, run: impl FnOnce() -> std::io::Result<T>) -> T {
        self.operations += 1;
        run().unwrap_or_else(|error| panic!("{what} {}: {error}", path.display()))
    }

    fn round(&mut self, top: &Path, round: u64) {
        let dir = top.join(format!("d{round}"));
        self.does("mkdir", &dir, || fs::create_dir(&dir));
        for file in ["small", "middle", "large"] {
            let len = match file {
                "small" => 100,
                "middle" => 9_000,
                _ => 300_000 + (round as usize % 5) * 1_000_000,
            };
            let bytes: Vec<u8> = (0..len)
                .map(|at| (at as u64 * 31 + round * 7) as u8)
                .collect();
            let path = dir.join(file);
            let mut open = OpenOptions::new();
            open.write(true).create_new(true);
            let mut made = self.does("create", &path, || open.open(&path));
            self.does("write", &path, || made.write_all(&bytes));
            if round.is_multiple_of(3) {
                self.does("fsync", &path, || made.sync_all());
            }
            self.files.insert(format!("d{round}/{file}"), bytes);
        }
        self.rename(top, &format!("d{round}/middle"), &format!("d{round}/moved"));
        let (from, to) = (dir.join("small"), dir.join("linked"));
        self.does("link", &to, || fs::hard_link(&from, &to));
        let bytes = self.files[&format!("d{round}/small")].clone();
        self.files.insert(format!("d{round}/linked"), bytes);
        self.does("unlink", &from, || fs::remove_file(&from));
        self.files.remove(&format!("d{round}/small"));
        let listed = self.does("readdir", &dir, || listing(&dir));
        assert_eq!(listed, ["large", "linked", "moved"], "{}", dir.display());
        if round > 4 && round.is_multiple_of(2) {
            let old = top.join(format!("d{}", round - 4));
            self.does("rm -r", &old, || fs::remove_dir_all(&old));
            let prefix = format!("d{}/", round - 4);
            self.files.retain(|name, _| !name.starts_with(&prefix));
        }
    }

    fn rename(&mut self, top: &Path, from: &str, to: &str) {
        let (old, new) = (top.join(from), top.join(to));
        self.does("rename", &new, || fs::rename(&old, &new));
        let bytes = self.files.remove(from).unwrap();
        self.files.insert(to.to_string(), bytes);
    }

    /// Checks through a mount that the directory has exactly the files of this program.
    pub fn compare(&self, mount: &Path) {
        let top = mount.join(&self.name);
        let mut found = Vec::new();
        for dir in listing(&top).unwrap() {
            for file in listing(&top.join(&dir)).unwrap() {
                found.push(format!("{dir}/{file}"));
            }
        }
        let mut expected: Vec<&String> = self.files.keys().collect();
        expected.sort();
        found.sort();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        for (name, bytes) in &self.files {
            let path: PathBuf = top.join(name);
            assert_eq!(
                fs::metadata(&path).unwrap().size(),
                bytes.len() as u64,
                "{name}"
            );
            assert!(
                fs::read(&path).unwrap() == *bytes,
                "{} differs",
                path.display()
            );
        }
    }
}

fn listing(dir: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.push(entry?.file_name().into_string().unwrap());
    }
    names.sort();
    Ok(names)
}
