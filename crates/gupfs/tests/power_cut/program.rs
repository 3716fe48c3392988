//! The real gupfs.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Program {
    child: Child,
    mount: PathBuf,
}

impl Program {
    pub fn start(store: &Path, mount: &Path, preload: Option<&Path>) -> Program {
        match Program::try_start(store, mount, preload) {
            Ok(program) => program,
            Err(error) => panic!("gupfs does not start: {error}"),
        }
    }

    pub fn try_start(
        store: &Path,
        mount: &Path,
        preload: Option<&Path>,
    ) -> Result<Program, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gupfs"));
        command
            .arg("up")
            .arg(store)
            .arg("--mount")
            .arg(mount)
            .args(["--osts", "2", "--transport", &transport()]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(library) = preload {
            command.env("LD_PRELOAD", library);
        }
        let child = command.spawn().map_err(|error| error.to_string())?;
        let mut program = Program {
            child,
            mount: mount.to_owned(),
        };
        let start = Instant::now();
        while !program.is_mounted() {
            if let Ok(Some(status)) = program.child.try_wait() {
                let mut printed = String::new();
                if let Some(errors) = program.child.stderr.as_mut() {
                    let _ = errors.read_to_string(&mut printed);
                }
                return Err(format!("{status}: {printed}"));
            }
            if start.elapsed() > Duration::from_secs(60) {
                return Err("not mounted after 60 s".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // Nothing reads its log from now on; a full pipe must not block it.
        if let Some(mut errors) = program.child.stderr.take() {
            std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        }
        Ok(program)
    }

    pub fn mount(&self) -> &Path {
        &self.mount
    }

    fn is_mounted(&self) -> bool {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        mounts
            .lines()
            .any(|line| line.split(' ').nth(4) == self.mount.to_str())
    }

    /// As Ctrl-C does; waits for the end.
    pub fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        let start = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(_)) => return,
                _ if start.elapsed() > Duration::from_secs(60) => panic!("gupfs does not stop"),
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl Program {
    /// kill -9; the dead mount is taken away.
    pub fn kill(self) {}
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.is_mounted() {
            let _ = rustix::mount::unmount(&self.mount, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

/// The transport of the mounts of this run; `make test` runs these tests with each.
fn transport() -> String {
    std::env::var("GUPFS_TEST_TRANSPORT").unwrap_or("device".into())
}
