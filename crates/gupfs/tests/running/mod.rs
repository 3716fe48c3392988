//! Starts and stops the real binary.
#![allow(dead_code)] // each test program uses the part it needs
#![allow(clippy::disallowed_methods)] // a real process is waited for, in real time

use gupfs_fuse::over_io_uring::UringSupport;
use gupfs_skips::{Need, skip};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long any step may take; a debug build on a host under load is slow. The longest, the end of the session of a dead mount, takes 23 s.
pub const TIMEOUT: Duration = Duration::from_secs(180);

/// How long a process may take to end after a signal. A process whose servers are unreachable takes up to 35 s, others less than a
/// second. An unmount that the kernel does not complete is aborted after 60 s: a process that waits for that takes longer.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// False if GUPFS_TEST_NO_MOUNT is set, or the transport of this run is not available. Fails if this process cannot mount.
pub fn can_mount() -> bool {
    if std::env::var_os("GUPFS_TEST_NO_MOUNT").is_some_and(|value| value == "1") {
        skip(Need::Fuse, "GUPFS_TEST_NO_MOUNT=1");
        return false;
    }
    assert!(
        rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists(),
        "this test mounts: run it as root on a machine with /dev/fuse, or set GUPFS_TEST_NO_MOUNT=1 to leave it out"
    );
    let support = gupfs_fuse::over_io_uring::support();
    if transport() == "io-uring"
        && matches!(
            support,
            UringSupport::NotInKernel | UringSupport::RingsRefused(_)
        )
    {
        skip(
            Need::FuseOverIoUring,
            format!("no FUSE over io_uring on this host: {support:?}"),
        );
        return false;
    }
    true
}

/// The transport of the mounts of this run; `make test` runs these tests with each.
fn transport() -> String {
    std::env::var("GUPFS_TEST_TRANSPORT").unwrap_or("device".into())
}

/// Runs `gupfs` with these arguments.
pub fn gupfs<I: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = I>) -> Output {
    command().args(args).output().unwrap()
}

pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gupfs"));
    command
        .env_remove("GUPFS_LOG")
        .env("COLUMNS", "100")
        .stdin(Stdio::null());
    command
}

/// `gupfs` with a limit of open files.
pub fn command_with_files(files: u64) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_gupfs"))
        .env_remove("GUPFS_LOG")
        .env("COLUMNS", "100")
        .stdin(Stdio::null());
    command
}

/// Exit code and standard error, with `dir` replaced by DIR.
pub fn refused(output: &Output, dir: &Path) -> String {
    let printed = String::from_utf8_lossy(&output.stderr);
    let printed = without_times(&printed.replace(&*dir.to_string_lossy(), "DIR"));
    format!("{}\n{printed}", output.status.code().unwrap_or(-1))
}

/// Replaces the time at the beginning of log lines, so that tests can compare them.
fn without_times(printed: &str) -> String {
    let is_time = |word: &str| word.len() == 27 && word.ends_with('Z') && word.contains('T');
    let line = |line: &str| match line.split_once(' ') {
        Some((first, rest)) if is_time(first) => format!("TIME {}\n", rest.trim_start()),
        _ => format!("{line}\n"),
    };
    printed.lines().map(line).collect()
}

/// A running `gupfs up`.
pub struct UpProcess {
    pub child: Child,
    pub mount: PathBuf,
    pub store: PathBuf,
    pub ready: String,
    lines: BufReader<ChildStdout>,
    errors: Option<JoinHandle<String>>,
}

impl UpProcess {
    pub fn start(store: &Path, mount: &Path, more: &[&str]) -> UpProcess {
        UpProcess::try_start(store, mount, more)
            .unwrap_or_else(|printed| panic!("gupfs up: {printed}"))
    }

    /// Err is its output before it ended.
    pub fn try_start(store: &Path, mount: &Path, more: &[&str]) -> Result<UpProcess, String> {
        UpProcess::try_start_by(command(), store, mount, more)
    }

    /// The same with a given command, which runs `gupfs` in another environment.
    pub fn try_start_by(
        mut command: Command,
        store: &Path,
        mount: &Path,
        more: &[&str],
    ) -> Result<UpProcess, String> {
        let mut child = command
            .arg("up")
            .arg(store)
            .arg("--mount")
            .arg(mount)
            .args(["--transport", &transport()])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = child.stderr.take().unwrap();
        let printed = std::thread::spawn(move || {
            let mut printed = String::new();
            let _ = errors.read_to_string(&mut printed);
            eprint!("{printed}");
            printed
        });
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        // A start that accepts a loss prints the losses first; one that ends early says why.
        let (mut ready, mut before) = (String::new(), String::new());
        while lines.read_line(&mut ready).unwrap() > 0 && !ready.contains("ready in") {
            before += &std::mem::take(&mut ready);
        }
        if ready.is_empty() {
            let status = child.wait().unwrap();
            return Err(format!("{status}\n{before}{}", printed.join().unwrap()));
        }
        Ok(UpProcess {
            child,
            mount: mount.canonicalize().unwrap(),
            store: store.canonicalize().unwrap(),
            ready,
            lines,
            errors: Some(printed),
        })
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    /// The next line on its standard output.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }

    /// Waits until the objects of all removed files are removed.
    pub fn wait_until_purged(&self) {
        let start = Instant::now();
        loop {
            let output = gupfs([Path::new("status"), Path::new("--json"), &self.store]);
            let status: serde_json::Value =
                serde_json::from_slice(&output.stdout).unwrap_or_default();
            if status["mds"]["purging"] == 0 {
                return;
            }
            assert!(
                start.elapsed() < TIMEOUT,
                "objects of removed files are not removed: {status:#}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its standard error, once it has ended.
    pub fn errors(&mut self) -> String {
        self.errors.take().unwrap().join().unwrap()
    }

    /// Ctrl-C; the exit code.
    pub fn stop(mut self) -> i32 {
        self.signal(rustix::process::Signal::INT);
        self.exit_code()
    }

    pub fn exit_code(&mut self) -> i32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(start.elapsed() < STOP_TIMEOUT, "gupfs up does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends SIGKILL, and waits until the process has ended. The mount stays.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for UpProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        wait_until_unmounted(&self.mount);
    }
}

/// Detaches the mount of a killed process if its mount watchdog does not.
pub fn wait_until_unmounted(mount: &Path) {
    let start = Instant::now();
    while is_mounted(mount) {
        if start.elapsed() > Duration::from_secs(5) {
            let _ = rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn is_mounted(point: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    table
        .lines()
        .any(|line| line.split(' ').nth(4) == point.to_str())
}

/// A directory with a store (`store`) and a mount point (`mnt`).
pub struct TestStore {
    dir: tempfile::TempDir,
}

impl TestStore {
    pub fn new() -> TestStore {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("mnt")).unwrap();
        TestStore { dir }
    }

    pub fn dir(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub fn store(&self) -> PathBuf {
        self.dir().join("store")
    }

    pub fn mnt(&self) -> PathBuf {
        self.dir().join("mnt")
    }

    pub fn up(&self) -> UpProcess {
        UpProcess::start(&self.store(), &self.mnt(), &["--osts", "2"])
    }

    /// Runs `gupfs up`, which must refuse; returns exit code and message.
    pub fn refusal(&self, more: &[&str]) -> String {
        match UpProcess::try_start(&self.store(), &self.mnt(), more) {
            Ok(running) => {
                running.kill();
                panic!("it was not refused")
            }
            Err(printed) => without_times(&printed.replace(&*self.dir().to_string_lossy(), "DIR")),
        }
    }

    /// Every path in the store with its length, to check that nothing has changed.
    pub fn listing(&self) -> Vec<(PathBuf, u64)> {
        let mut found = Vec::new();
        let mut dirs = vec![self.store()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                let data = entry.metadata().unwrap();
                found.push((entry.path(), if data.is_dir() { 0 } else { data.len() }));
                if data.is_dir() {
                    dirs.push(entry.path());
                }
            }
        }
        found.sort();
        found
    }
}

/// Memory of a process, in bytes.
pub fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() << 10
}
