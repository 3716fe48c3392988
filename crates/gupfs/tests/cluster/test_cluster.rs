//! A cluster of daemons that a test starts, kills and restarts; they end with the test.

use crate::running::{STOP_TIMEOUT, TIMEOUT, command, gupfs, wait_until_unmounted};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A daemon process, which can be restarted with the same arguments.
pub struct Daemon {
    before: Vec<String>,
    args: Vec<String>,
    child: Child,
    pub ready: String,
}

impl Daemon {
    /// Err is its output before it ended.
    pub fn try_start(args: &[&str]) -> Result<Daemon, String> {
        Daemon::try_start_after(Vec::new(), args)
    }

    fn start_after(before: Vec<String>, args: &[&str]) -> Daemon {
        let started = Daemon::try_start_after(before, args);
        started.unwrap_or_else(|printed| panic!("gupfs {}: {printed}", args[0]))
    }

    /// Starts it through a command prefix, which executes its arguments.
    pub fn try_start_after(before: Vec<String>, args: &[&str]) -> Result<Daemon, String> {
        let (child, ready) = spawn(&before, args)?;
        Ok(Daemon {
            before,
            args: args.iter().map(ToString::to_string).collect(),
            child,
            ready,
        })
    }

    /// Sends SIGKILL, and waits until the process has ended.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn start_again(&mut self) {
        self.start_again_with(&[]);
    }

    /// With more arguments, this time.
    pub fn start_again_with(&mut self, more: &[&str]) {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let args = [&args[..], more].concat();
        let started = spawn(&self.before, &args);
        let (child, ready) = started.unwrap_or_else(|printed| panic!("again {args:?}: {printed}"));
        (self.child, self.ready) = (child, ready);
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where a server listens.
    pub fn served_at(&self) -> String {
        word_after(&self.ready, "served at ")
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGTERM; the exit code.
    pub fn stop(&mut self) -> i32 {
        self.signal(Signal::TERM);
        self.ends()
    }

    /// The exit code.
    pub fn ends(&mut self) -> i32 {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(
                begun.elapsed() < STOP_TIMEOUT,
                "it does not end: {:?}",
                self.args
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(before: &[String], args: &[&str]) -> Result<(Child, String), String> {
    let mut child = command_after(before)
        .args(args)
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
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut before = String::new();
    for line in lines.by_ref() {
        let line = line.unwrap();
        if line.contains("ready in") {
            // Read on: a write to a pipe without a reader would end the process.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok((child, line));
        }
        before += &format!("{line}\n");
    }
    let status = child.wait().unwrap();
    Err(format!("{status}\n{before}{}", printed.join().unwrap()))
}

/// The hosts of daemons that do not run on this one. The daemons have the names "mds", "oss0", "mnt0" and so on.
#[derive(Clone, Default)]
pub struct DaemonHosts {
    /// The command prefix of a daemon.
    pub before: BTreeMap<String, Vec<String>>,
    /// Where a daemon listens.
    pub addresses: BTreeMap<String, String>,
}

impl DaemonHosts {
    pub fn before(&self, daemon: &str) -> Vec<String> {
        self.before.get(daemon).cloned().unwrap_or_default()
    }

    pub fn address(&self, daemon: &str) -> String {
        let address = self.addresses.get(daemon);
        address.map_or("127.0.0.1", String::as_str).to_string()
    }

    /// An address with a free port.
    fn listens(&self, daemon: &str) -> String {
        format!("{}:0", self.address(daemon))
    }
}

/// One metadata server, object servers with two targets each, and mounts. A drop ends the mounts first, then the servers.
pub struct TestCluster {
    pub mounts: Vec<Mounted>,
    pub osses: Vec<Daemon>,
    pub mds: Daemon,
    /// "127.0.0.1:port"
    pub at: String,
    store: PathBuf,
    /// Where the object servers' directories lie.
    objects: PathBuf,
    dir: tempfile::TempDir,
    secured: Option<TlsFiles>,
    daemon_hosts: DaemonHosts,
}

/// The directory of the certificates, and the name in them.
#[derive(Clone)]
pub struct TlsFiles {
    pub dir: String,
    pub name: String,
}

pub struct Mounted {
    pub at: PathBuf,
    pub daemon: Daemon,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.daemon.child.kill();
        let _ = self.daemon.child.wait();
        wait_until_unmounted(&self.at);
    }
}

impl TestCluster {
    pub fn new(osses: usize, mounts: usize) -> TestCluster {
        TestCluster::secured(osses, mounts, None)
    }

    pub fn secured(osses: usize, mounts: usize, secured: Option<TlsFiles>) -> TestCluster {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let cluster = (osses, mounts, secured, DaemonHosts::default());
        TestCluster::with((dir, root.join("mds"), root), cluster)
    }

    pub fn on(daemon_hosts: DaemonHosts, osses: usize, mounts: usize) -> TestCluster {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let cluster = (osses, mounts, None, daemon_hosts);
        TestCluster::with((dir, root.join("mds"), root), cluster)
    }

    /// The metadata lie in `store`.
    pub fn with_store(store: PathBuf, osses: usize, mounts: usize) -> TestCluster {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        TestCluster::with(
            (dir, store, root),
            (osses, mounts, None, DaemonHosts::default()),
        )
    }

    /// The objects lie below `objects`, a directory that exists.
    pub fn with_objects(objects: PathBuf, osses: usize, mounts: usize) -> TestCluster {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().canonicalize().unwrap().join("mds");
        let cluster = (osses, mounts, None, DaemonHosts::default());
        TestCluster::with((dir, store, objects), cluster)
    }

    fn with(
        (dir, at_store, objects): (tempfile::TempDir, PathBuf, PathBuf),
        (osses, mounts, secured, daemon_hosts): (usize, usize, Option<TlsFiles>, DaemonHosts),
    ) -> TestCluster {
        let (store, tls) = (text(&at_store), flags(&secured));
        let mds = |at: &str| {
            let args = ["mds", &store, "--listen", at];
            Daemon::start_after(daemon_hosts.before("mds"), &[&args[..], &tls].concat())
        };
        let first = mds(&daemon_hosts.listens("mds"));
        let at = word_after(&first.ready, "served at ");
        // The same port again after a kill.
        drop(first);
        let mds = mds(&at);
        let mut cluster = TestCluster {
            mounts: Vec::new(),
            osses: Vec::new(),
            mds,
            at,
            store: at_store,
            objects,
            dir,
            secured: secured.clone(),
            daemon_hosts,
        };
        for oss in 0..osses {
            std::fs::create_dir(cluster.osts(oss)).unwrap();
            cluster.add_oss();
        }
        for _ in 0..mounts {
            cluster.mount();
        }
        cluster
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub fn store(&self) -> PathBuf {
        self.store.clone()
    }

    pub fn key(&self) -> String {
        text(&self.store().join("cluster.key"))
    }

    /// The directory of one object server's targets.
    pub fn osts(&self, oss: usize) -> PathBuf {
        self.objects.join(format!("osts{oss}"))
    }

    /// Adds an object server with two targets. The directory for them exists.
    pub fn add_oss(&mut self) {
        let oss = self.osses.len();
        for disk in 0..2 {
            let added = self.add_at(oss, &self.osts(oss).join(format!("disk{disk}")));
            assert!(added.status.success(), "{added:?}");
        }
        let daemon = self.start_oss(oss);
        self.osses.push(daemon);
    }

    pub fn add(&self, dir: &Path) -> Output {
        self.add_at(0, dir)
    }

    /// On the host of an object server.
    fn add_at(&self, oss: usize, dir: &Path) -> Output {
        let (dir, key) = (text(dir), self.key());
        let args = ["ost", "add", &dir, "--mds", &self.at, "--key", &key];
        let mut command = command_after(&self.daemon_hosts.before(&format!("oss{oss}")));
        command.args(args).args(flags(&self.secured));
        command.output().unwrap()
    }

    fn start_oss(&self, oss: usize) -> Daemon {
        let (dir, key) = (text(&self.osts(oss)), self.key());
        let args = ["oss", &dir, "--mds", &self.at, "--key", &key];
        let args = [&args[..], &flags(&self.secured)].concat();
        let name = format!("oss{oss}");
        let listens = |at: &str| {
            let args = [&args[..], &["--listen", at]].concat();
            Daemon::start_after(self.daemon_hosts.before(&name), &args)
        };
        let first = listens(&self.daemon_hosts.listens(&name));
        let at = word_after(&first.ready, "served at ");
        drop(first);
        listens(at.trim_end_matches(','))
    }

    pub fn mount(&mut self) -> PathBuf {
        self.mount_with(&[])
    }

    /// With more arguments.
    pub fn mount_with(&mut self, more: &[&str]) -> PathBuf {
        let name = format!("mnt{}", self.mounts.len());
        let point = self.root().join(&name);
        std::fs::create_dir(&point).unwrap();
        let (at, key) = (text(&point), self.key());
        let transport = std::env::var("GUPFS_TEST_TRANSPORT").unwrap_or("device".into());
        let args = [
            "mount",
            &self.at,
            &at,
            "--key",
            &key,
            "--transport",
            &transport,
        ];
        let args = [&args[..], more, &flags(&self.secured)].concat();
        let daemon = Daemon::start_after(self.daemon_hosts.before(&name), &args);
        self.mounts.push(Mounted {
            at: point.clone(),
            daemon,
        });
        point
    }

    pub fn mount_points(&self) -> Vec<PathBuf> {
        self.mounts.iter().map(|mount| mount.at.clone()).collect()
    }

    /// The metadata server's sessions, by number.
    pub fn sessions(&self) -> Vec<String> {
        let status = self.status();
        let sessions = status["mds"]["sessions"].as_object().unwrap();
        sessions.keys().cloned().collect()
    }

    /// What `gupfs status` of a mount says.
    pub fn status_of(mount: &Path) -> serde_json::Value {
        let output = gupfs(["status", "--json", &text(mount)]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// What `gupfs status` of the metadata server says.
    pub fn status(&self) -> serde_json::Value {
        let output = gupfs(["status", "--json", &text(&self.store())]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    pub fn wait_until(&self, what: &str, is_so: impl Fn(&serde_json::Value) -> bool) {
        let begun = Instant::now();
        loop {
            let status = self.status();
            if is_so(&status) {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "never {what}: {status:#}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Stops everything, checks that it ends cleanly, and removes its files.
    pub fn stop(mut self) {
        self.end_all();
    }

    /// The same, but keeps its files.
    pub fn end_all(&mut self) {
        for mut mount in self.mounts.drain(..) {
            assert_eq!(mount.daemon.stop(), 0);
        }
        assert_eq!(self.mds.stop(), 0);
        for oss in &mut self.osses {
            assert_eq!(oss.stop(), 0);
        }
    }
}

/// `gupfs` with a command prefix.
pub fn command_after(before: &[String]) -> Command {
    let gupfs = command();
    let [program, words @ ..] = before else {
        return gupfs;
    };
    let mut command = Command::new(program);
    command.args(words).arg(gupfs.get_program());
    command.env_remove("GUPFS_LOG").env("COLUMNS", "100");
    command.stdin(Stdio::null());
    command
}

fn flags(secured: &Option<TlsFiles>) -> Vec<&str> {
    match secured {
        Some(tls) => vec!["--tls", &tls.dir, "--tls-name", &tls.name],
        None => Vec::new(),
    }
}

pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_string()
}

pub fn word_after(line: &str, before: &str) -> String {
    let rest = line
        .split_once(before)
        .unwrap_or_else(|| panic!("{line}"))
        .1;
    rest.split([',', ' ']).next().unwrap().to_string()
}
