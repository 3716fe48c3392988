//! The processes that serve an empty file system.

use super::kind::FILES;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use gupfs_fuse::nullfs::{self, NullFs};
use gupfs_fuse::over_io_uring::{self, UringSupport};
use gupfs_fuse::{FuseTransport, Spawner, mount, mountinfo};
use rustix::process::{Pid, Signal, kill_process};
use std::ops::Sub;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Serves an empty file system until it is unmounted
#[derive(Args)]
pub struct ServerCommand {
    mount: PathBuf,
    /// Over io_uring
    #[arg(long)]
    ring: bool,
    /// Its threads may run anywhere
    #[arg(long)]
    unpinned: bool,
}

impl ServerCommand {
    /// Serves until the file system is unmounted.
    ///
    /// # Errors
    ///
    /// The directory cannot be mounted.
    pub fn run(&self) -> Result<()> {
        let mut config = nullfs::config();
        config.transport = match self.ring {
            true => FuseTransport::IoUring,
            false => FuseTransport::Device,
        };
        config.pin_rings = !self.unpinned;
        let spawner: Spawner = Arc::new(|_| unreachable!("nothing here waits"));
        let session = mount(&self.mount, &config, Arc::new(NullFs::new(FILES)), spawner)?;
        session.wait();
        Ok(())
    }
}

/// One of those that take turns.
pub struct Candidate {
    pub name: String,
    command: Vec<String>,
    /// None is this program.
    program: Option<PathBuf>,
}

impl Candidate {
    /// Ours, by transport; rings only where they are permitted.
    pub fn ours() -> Vec<Candidate> {
        let ours = |name: &str, flags: &[&str]| Candidate {
            name: name.into(),
            command: ["bench", "door-server"]
                .iter()
                .chain(flags)
                .map(ToString::to_string)
                .collect(),
            program: None,
        };
        let mut candidates = vec![ours("/dev/fuse", &[])];
        match over_io_uring::support() {
            UringSupport::Ready => {
                candidates.push(ours("io_uring", &["--ring"]));
                candidates.push(ours("io_uring, not pinned", &["--ring", "--unpinned"]));
            }
            other => eprintln!(
                "not over io_uring: {other:?} ({})",
                over_io_uring::PARAMETER
            ),
        }
        candidates
    }

    pub fn beside(name: &str, program: PathBuf) -> Candidate {
        Candidate {
            name: name.into(),
            command: Vec::new(),
            program: Some(program),
        }
    }
}

/// A side that is mounted.
pub struct RunningServer {
    child: Child,
    mount: PathBuf,
}

/// How long a server may take to mount or to end.
const PATIENCE: Duration = Duration::from_secs(20);

impl RunningServer {
    pub fn start(side: &Candidate, mount: &Path) -> Result<RunningServer> {
        let program = match &side.program {
            Some(program) => program.clone(),
            None => std::env::current_exe()?,
        };
        let mut command = Command::new(program);
        command.args(&side.command).arg(mount).stdin(Stdio::null());
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let mut serving = RunningServer {
            child,
            mount: mount.to_owned(),
        };
        let start = Instant::now();
        while mountinfo::mount_at(mount)?.is_none() {
            if let Some(status) = serving.child.try_wait()? {
                bail!("{} ended with {status} before it served", side.name);
            }
            ensure!(start.elapsed() < PATIENCE, "{} does not mount", side.name);
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(serving)
    }

    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// The CPU time that the server has used so far.
    pub fn cpu_usage(&self) -> Result<CpuUsage> {
        let mut all = CpuUsage::default();
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let task = task?.path();
            let read = |file: &str| std::fs::read_to_string(task.join(file)).unwrap_or_default();
            let nanos = read("schedstat");
            all.nanos += nanos
                .split(' ')
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap_or(0);
            let status = read("status");
            let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
            let counts =
                switches.filter_map(|line| line.split('\t').next_back()?.parse::<u64>().ok());
            all.switches += counts.sum::<u64>();
        }
        Ok(all)
    }

    pub fn stop(mut self) -> Result<()> {
        self.unmount()?;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > PATIENCE / 4 {
                kill_process(Pid::from_child(&self.child), Signal::TERM)?;
            }
            ensure!(start.elapsed() < PATIENCE, "a server does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn unmount(&self) -> Result<()> {
        if mountinfo::mount_at(&self.mount)?.is_some() {
            gupfs_fuse::mountpoint::detach(&self.mount)?;
        }
        Ok(())
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // After an error nothing may stay behind; what has ended is not killed again.
        let _ = self.unmount();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Time on processors, and how often a thread was switched to or from.
#[derive(Clone, Copy, Default)]
pub struct CpuUsage {
    pub nanos: u64,
    pub switches: u64,
}

impl Sub for CpuUsage {
    type Output = CpuUsage;

    fn sub(self, before: CpuUsage) -> CpuUsage {
        CpuUsage {
            nanos: self.nanos.saturating_sub(before.nanos),
            switches: self.switches.saturating_sub(before.switches),
        }
    }
}
