//! Starting and ending the programs that are measured.

use crate::transport::Transport;
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A mounted file system and the process behind it.
pub struct Serving {
    child: Child,
    pub mount: PathBuf,
    /// From start to the line that says it serves.
    pub ready_after: Duration,
}

impl Serving {
    pub fn gupfs(
        program: &Path,
        store: &Path,
        mount: &Path,
        transport: Transport,
    ) -> Result<Serving> {
        let mut command = Command::new(program);
        command
            .arg("up")
            .arg(store)
            .arg("--mount")
            .arg(mount)
            .args(["--osts", "4", "--transport", transport.flag()]);
        Serving::start(command, mount)
    }

    pub fn nullfs(program: &Path, mount: &Path, transport: Transport) -> Result<Serving> {
        let mut command = Command::new(program);
        if transport == Transport::IoUring {
            command.arg("ring");
        }
        command.arg(mount);
        Serving::start(command, mount)
    }

    fn start(mut command: Command, mount: &Path) -> Result<Serving> {
        let start = Instant::now();
        let mut child = command
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let output = child.stdout.take().context("no output")?;
        let (tell, told) = std::sync::mpsc::channel();
        // Reads on for the process's life, so that it never waits for us.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        loop {
            if is_mount(mount) {
                return Ok(Serving {
                    child,
                    mount: mount.to_owned(),
                    ready_after: start.elapsed(),
                });
            }
            if let Some(status) = child.try_wait()? {
                bail!(
                    "{command:?} ended with {status} before it served: {}",
                    told.try_iter().collect::<Vec<_>>().join("\n")
                );
            }
            if start.elapsed() > Duration::from_secs(60) {
                bail!("{command:?} did not serve within 60 s");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Resident memory of the process.
    pub fn resident_mib(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kib: f64 = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
            .context("no VmRSS")?;
        Ok(kib / 1024.0)
    }

    /// Asks the process to end. Not as Ctrl-C does: whoever starts us in the background has us ignore that, and our children
    /// with us.
    pub fn stop(mut self) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let asked = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(
                asked.elapsed() < Duration::from_secs(120),
                "the server of {} does not end",
                self.mount.display()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        self.unmounted()
    }

    /// kill -9, and the dead mount taken away.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.unmounted()
    }

    fn unmounted(&self) -> Result<()> {
        if is_mount(&self.mount) {
            rustix::mount::unmount(&self.mount, rustix::mount::UnmountFlags::DETACH)?;
        }
        Ok(())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // After an error in a workload: nothing may stay behind. A child that has ended is not killed again.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.unmounted();
    }
}

fn is_mount(dir: &Path) -> bool {
    let Ok(dir) = std::path::absolute(dir) else {
        return false;
    };
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(4) == dir.to_str())
}
