//! The guardian beside the mount: started, told that we live, told farewell.

use crate::exit::{CliResult, OrCliError};
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

/// How often a sign of life is given, by a task of the runtime: when no task gets its turn any more, none is given.
const EVERY: Duration = Duration::from_secs(2);

/// After so long without one the process counts as frozen. Longer than the kernel may believe what we answered, so that
/// nobody is cut off who could still have gone on; and longer than a machine under load pauses a process.
const SILENCE: Duration = Duration::from_secs(25);
const _: () = assert!(SILENCE.as_secs() > 10 * EVERY.as_secs());

/// How often, and at which distance, it is looked whether the guardian has ended: 5 s in all, for what takes it a millisecond.
const FAREWELL_LOOKS: u32 = 500;
const FAREWELL_LOOK: Duration = Duration::from_millis(10);

/// The guardian of one mount.
pub struct WatchdogProcess {
    child: Child,
    pipe: Arc<Mutex<ChildStdin>>,
    signs: Task<()>,
}

impl WatchdogProcess {
    /// # Errors
    /// When this program cannot be started a second time.
    pub fn start(
        control: &ConnectionControl,
        point: &Path,
        clock: &Clock,
        tasks: &Tasks,
    ) -> CliResult<WatchdogProcess> {
        let failed = || "cannot start the guardian, a second process of this program".into();
        let program = std::env::current_exe().or_cli_error(failed)?;
        let abort = control.clone_abort_file().or_cli_error(failed)?;
        let mut child = Command::new(program)
            .arg(WATCHDOG_COMMAND)
            .arg("--connection")
            .arg(control.id().to_string())
            .arg("--detach")
            .arg(point)
            .arg("--silence")
            .arg(SILENCE.as_secs().to_string())
            .stdin(Stdio::piped())
            .stdout(abort)
            .spawn()
            .or_cli_error(failed)?;
        let pipe = child.stdin.take().expect("it was asked for a pipe");
        let pipe = Arc::new(Mutex::new(pipe));
        let signs = tasks.spawn("signs of life", {
            let (pipe, clock) = (pipe.clone(), clock.clone());
            async move {
                while say(&pipe, HEARTBEAT) {
                    clock.sleep(EVERY).await;
                }
                tracing::warn!("the guardian has ended; should this process die, the mount may need `umount -l`");
            }
        });
        Ok(WatchdogProcess { child, pipe, signs })
    }

    /// The mount has ended well; waits for the guardian's end. One that does not end is killed: it has nothing to guard any more.
    pub async fn finish(mut self, clock: &Clock) {
        self.signs.stop();
        say(&self.pipe, CLEAN_END);
        for _ in 0..FAREWELL_LOOKS {
            match self.child.try_wait() {
                Ok(None) => clock.sleep(FAREWELL_LOOK).await,
                Ok(Some(_)) | Err(_) => return,
            }
        }
        tracing::warn!("the guardian did not end by itself and is killed");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// False if nobody reads any more.
fn say(pipe: &Mutex<ChildStdin>, byte: u8) -> bool {
    // A panic elsewhere does not spoil a pipe.
    let mut pipe = pipe.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    pipe.write_all(&[byte]).is_ok()
}
