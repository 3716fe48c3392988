//! # skips: the tests that did not run, and why
//!
//! Owns   the record of the tests that end early because their host lacks something, and the names of what a host can lack.
//! Never  finds out what a host has: each test does. Is never part of the binary.
//! Enter  at `skip`.
//!
//! A test runner that captures output hides a skipped test among the passed ones. Therefore every skip also adds a line to the file
//! that GUPFS_SKIPPED names; `scripts/test.sh` counts these lines, and fails if GUPFS_REQUIRE names what was missing.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// The environment variable with the path of the record.
const RECORD: &str = "GUPFS_SKIPPED";

/// What a host can lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// The rights of root.
    Root,
    /// /dev/fuse and the right to mount.
    Fuse,
    /// The right to create io_uring rings.
    IoUring,
    /// A kernel that sends FUSE requests over io_uring, with the parameter set.
    FuseOverIoUring,
    /// Network namespaces.
    Namespaces,
    LoopDevices,
    /// A kernel that has the tested feature and permits its use.
    Kernel,
    /// A file system with the tested property at the place of the test.
    FileSystem,
    /// A processor architecture that the test has code for.
    Architecture,
    /// A web browser.
    Browser,
    /// A build with the feature `mpi`.
    Mpi,
    /// A program that a test runs, such as a database.
    Program,
}

impl Need {
    pub const ALL: [Need; 12] = [
        Need::Root,
        Need::Fuse,
        Need::IoUring,
        Need::FuseOverIoUring,
        Need::Namespaces,
        Need::LoopDevices,
        Need::Kernel,
        Need::FileSystem,
        Need::Architecture,
        Need::Browser,
        Need::Mpi,
        Need::Program,
    ];

    /// The name in the record and in GUPFS_REQUIRE.
    pub fn name(self) -> &'static str {
        match self {
            Need::Root => "root",
            Need::Fuse => "fuse",
            Need::IoUring => "io_uring",
            Need::FuseOverIoUring => "fuse_io_uring",
            Need::Namespaces => "namespaces",
            Need::LoopDevices => "loop_devices",
            Need::Kernel => "kernel",
            Need::FileSystem => "file_system",
            Need::Architecture => "architecture",
            Need::Browser => "browser",
            Need::Mpi => "mpi",
            Need::Program => "program",
        }
    }
}

/// Records that the test of this thread, or a part of it, does not run; the test returns afterwards.
///
/// # Panics
/// If the record cannot be written: a skip that is not counted would look like a passed test.
#[track_caller]
pub fn skip(missing: Need, why: impl Display) {
    let why = why.to_string().replace(['\n', '\t'], " ");
    eprintln!("SKIPPED: {why}");
    let Some(path) = std::env::var_os(RECORD) else {
        return;
    };
    let caller = std::panic::Location::caller();
    let thread = std::thread::current();
    // libtest names the thread after the test, except with --test-threads=1.
    let test = match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => format!("{}:{}", caller.file(), caller.line()),
    };
    let line = format!("{}\t{}\t{test}\t{why}\n", missing.name(), program());
    // One write each, so that the lines of concurrent tests do not mix.
    let written = OpenOptions::new().append(true).create(true).open(&path);
    let written = written.and_then(|mut record| record.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!(
            "cannot write {RECORD} '{}': {error}",
            Path::new(&path).display()
        );
    }
}

/// The test program: its file's name without the hash that cargo appends.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = stem.rsplit_once('-').map_or(&*stem, |(name, _)| name);
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Set in the child process that skips.
    const CHILD: &str = "GUPFS_TEST_SKIPS";

    #[test]
    fn a_skip_adds_one_line_with_need_program_test_and_reason() {
        if std::env::var_os(CHILD).is_some() {
            skip(Need::LoopDevices, "no\nloop devices");
            return;
        }
        let name = "tests::a_skip_adds_one_line_with_need_program_test_and_reason";
        let record = std::env::temp_dir().join(format!("gupfs-skips-{}", std::process::id()));
        for _ in 0..2 {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child
                .args([name, "--exact"])
                .env(CHILD, "1")
                .env(RECORD, &record);
            assert!(child.output().unwrap().status.success());
        }
        let lines = std::fs::read_to_string(&record).unwrap();
        std::fs::remove_file(&record).unwrap();
        let line = lines.lines().next().unwrap();
        let fields: Vec<&str> = line.split('\t').collect();
        // With one processor libtest runs the test in the main thread.
        assert!(
            [name, &format!("{}:", file!())]
                .iter()
                .any(|known| fields[2].starts_with(known))
        );
        assert_eq!(
            [fields[0], fields[1], fields[3]],
            ["loop_devices", "gupfs_skips", "no loop devices"]
        );
        assert_eq!(lines, format!("{line}\n{line}\n"));
    }

    #[test]
    fn the_script_knows_every_need() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/test.sh");
        let script = std::fs::read_to_string(script).unwrap();
        let known = script
            .lines()
            .find_map(|line| line.strip_prefix("needs=\""))
            .unwrap();
        let names = Need::ALL.map(Need::name).join(" ");
        assert_eq!(known, format!("{names}\""));
    }
}
