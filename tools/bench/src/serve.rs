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
    /// Daemons behind the mount; they end with it, the last first.
    servers: Vec<Child>,
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

    /// The same store and mount served by daemons over TCP on this host: a metadata server, two object servers with two
    /// targets each, a mount.
    pub fn cluster(
        program: &Path,
        store: &Path,
        mount: &Path,
        transport: Transport,
    ) -> Result<Serving> {
        const MDS: &str = "127.0.0.1:17700";
        let gupfs = |command: &str| {
            let mut gupfs = Command::new(program);
            gupfs.arg(command);
            gupfs
        };
        let meta = store.join("mds");
        let key = meta.join("cluster.key");
        let mut mds = gupfs("mds");
        mds.arg(&meta).args(["--listen", MDS]);
        let mut servers = vec![daemon(mds)?];
        for number in 1..=2 {
            let targets = store.join(format!("osts{number}"));
            std::fs::create_dir_all(&targets)?;
            let mut oss = gupfs("oss");
            oss.arg(&targets).args(["--mds", MDS, "--key"]).arg(&key);
            oss.args(["--listen", &format!("127.0.0.1:1770{number}")]);
            servers.push(daemon(oss)?);
            for disk in 0..2 {
                let mut add = gupfs("ost");
                add.arg("add").arg(targets.join(format!("disk{disk}")));
                add.args(["--mds", MDS, "--key"]).arg(&key);
                ensure!(
                    add.stdout(Stdio::null()).status()?.success(),
                    "{add:?} failed"
                );
            }
        }
        // They are looked for, and told of, every second.
        std::thread::sleep(Duration::from_secs(3));
        let mut command = gupfs("mount");
        command.arg(MDS).arg(mount).arg("--key").arg(&key);
        command.args(["--transport", transport.flag()]);
        let mut serving = Serving::start(command, mount)?;
        serving.servers = servers;
        Ok(serving)
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
                    servers: Vec::new(),
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

    /// Asks the process to end. Not as Ctrl-C does: a shell that starts us in the background has us ignore that, and our children
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
        self.unmounted()?;
        for mut server in std::mem::take(&mut self.servers) {
            rustix::process::kill_process(
                rustix::process::Pid::from_child(&server),
                rustix::process::Signal::TERM,
            )?;
            server.wait()?;
        }
        Ok(())
    }

    /// kill -9, and the dead mount taken away.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.unmounted()
    }

    fn unmounted(&self) -> Result<()> {
        if !is_mount(&self.mount) {
            return Ok(());
        }
        match rustix::mount::unmount(&self.mount, rustix::mount::UnmountFlags::DETACH) {
            // The server's watchdog was faster.
            Err(rustix::io::Errno::INVAL) if !is_mount(&self.mount) => Ok(()),
            unmounted => Ok(unmounted?),
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // After an error in a workload: nothing may stay behind. A child that has ended is not killed again.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.unmounted();
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// A daemon that says "ready".
fn daemon(mut command: Command) -> Result<Child> {
    let mut child = command
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let output = child.stdout.take().context("no output")?;
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let ready = lines.any(|line| line.contains("ready in"));
    // Reads on for the process's life, so that it never waits for us.
    std::thread::spawn(move || lines.for_each(drop));
    if ready {
        return Ok(child);
    }
    let status = child.wait()?;
    bail!("{command:?} ended with {status} before it served")
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
