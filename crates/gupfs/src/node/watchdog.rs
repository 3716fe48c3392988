//! Starts the mount watchdog, sends it heartbeats, and tells it the clean end of the mount.

use crate::exit::{CliResult, Exit, OrCliError};
use gupfs_fuse::connection::ConnectionControl;
use gupfs_fuse::watchdog::{CLEAN_END, HEARTBEAT};
use gupfs_platform::{Clock, Task, Tasks};
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The first argument of a mount watchdog's process.
pub const WATCHDOG_COMMAND: &str = "guardian";

/// How often a task of the runtime sends a heartbeat: if the runtime executes no tasks, the heartbeats stop.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);

/// After so long without a heartbeat the process counts as frozen. It is longer than the kernel's attribute lifetimes, so that no
/// program is aborted that could still work from the kernel's caches, and longer than a host under load pauses a process.
pub(super) const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(25);
const _: () = assert!(HEARTBEAT_TIMEOUT.as_secs() > 10 * HEARTBEAT_INTERVAL.as_secs());

/// How often, and with which pause, the end of the watchdog is checked: 5 s in all; it usually takes a millisecond.
const END_CHECKS: u32 = 500;
const END_CHECK_PAUSE: Duration = Duration::from_millis(10);

/// The watchdog process of one mount.
pub struct WatchdogProcess {
    child: Child,
    pipe: Arc<Mutex<ChildStdin>>,
    heartbeats: Task<()>,
}

impl WatchdogProcess {
    /// # Errors
    /// If the process cannot be started.
    pub fn start(
        control: &ConnectionControl,
        point: &Path,
        clock: &Clock,
        tasks: &Tasks,
    ) -> CliResult<WatchdogProcess> {
        let failed = || "cannot start the mount watchdog, a second process of this program".into();
        let program = std::env::current_exe().or_cli_error(failed)?;
        let abort = control.clone_abort_file().or_cli_error(failed)?;
        let mut child = Command::new(program)
            .arg(WATCHDOG_COMMAND)
            .arg("--connection")
            .arg(control.id().to_string())
            .arg("--detach")
            .arg(point)
            .arg("--silence")
            .arg(HEARTBEAT_TIMEOUT.as_secs().to_string())
            .stdin(Stdio::piped())
            .stdout(abort)
            .spawn()
            .or_cli_error(failed)?;
        let pipe = child.stdin.take().expect("its standard input is a pipe");
        let pipe = Arc::new(Mutex::new(pipe));
        let heartbeats = tasks.spawn("heartbeats", {
            let (pipe, clock) = (pipe.clone(), clock.clone());
            async move {
                while send(&pipe, HEARTBEAT) {
                    clock.sleep(HEARTBEAT_INTERVAL).await;
                }
                tracing::warn!("the mount watchdog has ended; if this process dies now, the mount needs `umount -l`");
            }
        });
        Ok(WatchdogProcess {
            child,
            pipe,
            heartbeats,
        })
    }

    /// Tells the watchdog that the mount has ended, and waits for its end; kills it after a timeout. Returns whether it had aborted the
    /// mount, since this process had sent no heartbeat for `HEARTBEAT_TIMEOUT`.
    pub async fn finish(mut self, clock: &Clock) -> bool {
        self.heartbeats.stop();
        send(&self.pipe, CLEAN_END);
        for _ in 0..END_CHECKS {
            match self.child.try_wait() {
                Ok(None) => clock.sleep(END_CHECK_PAUSE).await,
                Ok(Some(status)) => return status.code() == Some(Exit::NotRunning as i32),
                Err(_) => return false,
            }
        }
        tracing::warn!("the mount watchdog did not end; killing it");
        let _ = self.child.kill();
        let _ = self.child.wait();
        false
    }
}

/// Returns whether the watchdog still reads.
fn send(pipe: &Mutex<ChildStdin>, byte: u8) -> bool {
    // A panic with the lock held leaves the pipe usable.
    let mut pipe = pipe.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    pipe.write_all(&[byte]).is_ok()
}
