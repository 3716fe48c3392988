//! The end of a mount: unmounted after a signal, after `gupfs stop`, or by another program; or aborted. A mount in use is unmounted only
//! by force or by a second signal.

use super::ActiveMount;
use super::stop_events::StopRequest;
use super::watchdog::HEARTBEAT_TIMEOUT;
use crate::events::print_event;
use crate::exit::{CliError, CliResult};
use crate::mountpoint::mount_users;
use gupfs_mount::Mount;
use gupfs_platform::Platform;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Pause between attempts to unmount a mount in use.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// How long a forced unmount waits until the kernel has written its dirty pages.
const WRITE_BACK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a failing process waits until its mount is detached.
const DETACH_TIMEOUT: Duration = Duration::from_secs(8);
const _: () = assert!(DETACH_TIMEOUT.as_secs() > WRITE_BACK_TIMEOUT.as_secs());

/// How long an unmount may take: as long as a call may wait for a server by default.
const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(60);

/// Attempts before `gupfs stop` fails with "in use": a program such as a monitor may use the mount only for a moment.
const ATTEMPTS: u32 = 4;

impl ActiveMount {
    /// Serves until the file system is unmounted; returns the reason.
    ///
    /// # Errors
    /// If the kernel's connection was aborted: calls of programs failed, and neither a signal nor `gupfs stop` had asked for the end of the mount.
    pub async fn wait_for_unmount(&mut self) -> CliResult<String> {
        let ended = self.ended();
        tokio::pin!(ended);
        let mut signals = 0;
        let mut busy = false;
        loop {
            tokio::select! {
                _ = &mut ended => return self.end_without_request().await,
                signal = self.stop_events.signals.next() => {
                    signals += 1;
                    let force = signals > 1;
                    if self.unmount_or_abort(force).await.is_ok() {
                        return Ok(format!("{signal}: unmounted; stopping"));
                    }
                    busy = true;
                    let users = describe_users(self.mount.at());
                    print_event(self.json, "busy", &format!("{signal}: {users}; this process stops when they end, or at once after a second signal"));
                }
                Some(request) = self.stop_events.requests.recv() => {
                    let StopRequest { force, reply } = request;
                    let outcome = self.unmount_with_retries(force).await;
                    let done = outcome.is_ok();
                    // The command may have ended.
                    let _ = reply.send(outcome);
                    if done {
                        return Ok("gupfs stop: unmounted; stopping".into());
                    }
                }
                () = self.platform.clock.sleep(RETRY_PAUSE), if busy => {
                    if self.unmount_or_abort(false).await.is_ok() {
                        return Ok("the mount is no longer in use: unmounted; stopping".into());
                    }
                }
            }
        }
    }

    /// Finds out why the connection has ended: another program has unmounted the file system, or the connection was aborted.
    async fn end_without_request(&mut self) -> CliResult<String> {
        let aborted_by_watchdog = self.finish_watchdog().await;
        let mount = self.mount.clone();
        let is_in_tree = move || mount.session().is_in_tree();
        let in_tree = self.platform.tasks.blocking(is_in_tree).await;
        if matches!(in_tree, Ok(true)) {
            self.detach_mount().await;
        }
        let why = match in_tree {
            _ if self.mount.session().has_failed() => {
                "a thread that serves it failed (the log has the error)".into()
            }
            _ if aborted_by_watchdog => format!(
                "this process did not run for {} s, so the mount watchdog aborted it",
                HEARTBEAT_TIMEOUT.as_secs()
            ),
            Ok(true) => "another program aborted its connection".into(),
            Ok(false) | Err(_) => return Ok("unmounted by another program; stopping".into()),
        };
        let at = self.mount.at().display();
        Err(CliError::new(format!("the mount '{at}' has ended: {why}"))
            .todo("start it again: data that fsync acknowledged is kept, data written through mappings may be lost"))
    }

    /// Detaches the mount although programs use it. The process ends even if that fails.
    pub async fn detach_mount(&mut self) {
        let detached = async {
            // The watchdog keeps running: if this fails, it detaches the mount when this process has ended.
            let _ = self.unmount_attempt().unmount(true).await;
        };
        tokio::select! {
            () = detached => {}
            () = self.platform.clock.sleep(DETACH_TIMEOUT) => {}
        }
    }

    /// Unmounts; after a signal or a timeout it aborts the connection. The kernel completes an unmount only after it has written the dirty
    /// pages of mappings, which waits for unreachable servers.
    async fn unmount_or_abort(&mut self, force: bool) -> Result<(), String> {
        let unmounting = self.unmount_attempt().unmount(force);
        tokio::pin!(unmounting);
        let why = tokio::select! {
            biased;
            unmounted = &mut unmounting => return unmounted,
            signal = self.stop_events.signals.next() => signal.to_owned(),
            () = self.platform.clock.sleep(UNMOUNT_TIMEOUT) => format!("{} s have passed", UNMOUNT_TIMEOUT.as_secs()),
        };
        // A second signal right after the first must not cost data: the kernel gets time for the write-back.
        tokio::select! {
            unmounted = &mut unmounting => return unmounted,
            () = self.platform.clock.sleep(WRITE_BACK_TIMEOUT) => {}
        }
        tracing::warn!(
            why,
            "the kernel waits for replies while it unmounts; aborting its connection: data written through mappings may be lost"
        );
        self.abort().await;
        tokio::select! {
            unmounted = &mut unmounting => unmounted,
            // `finish` waits for the end of the session.
            () = self.platform.clock.sleep(WRITE_BACK_TIMEOUT) => Ok(()),
        }
    }

    async fn unmount_with_retries(&self, force: bool) -> Result<(), String> {
        for _ in 1..ATTEMPTS {
            if self.unmount_attempt().unmount(force).await.is_ok() {
                return Ok(());
            }
            self.platform.clock.sleep(RETRY_PAUSE).await;
        }
        self.unmount_attempt().unmount(force).await
    }

    fn unmount_attempt(&self) -> UnmountAttempt {
        UnmountAttempt {
            mount: self.mount.clone(),
            platform: self.platform.clone(),
        }
    }
}

/// One attempt to unmount.
struct UnmountAttempt {
    mount: Arc<Mount>,
    platform: Platform,
}

impl UnmountAttempt {
    /// Err names the programs that use the mount.
    async fn unmount(self, force: bool) -> Result<(), String> {
        if force {
            self.write_back().await;
        }
        let mount: Arc<Mount> = self.mount.clone();
        let unmount = move || {
            let session = mount.session();
            if !force {
                return session.try_unmount();
            }
            let outcome = session.unmount();
            // Programs that use a detached mount would keep it and this process alive: now their calls fail.
            if let Ok(gupfs_fuse::UnmountOutcome::Detached) = outcome {
                session.abort()?;
            }
            outcome
        };
        match self.platform.tasks.blocking(unmount).await {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => {
                Err(describe_users(self.mount.at()))
            }
            Err(error) => {
                let at = self.mount.at().display();
                tracing::error!(%error, point = %at, "cannot unmount");
                Err(format!("cannot unmount '{at}': {error}"))
            }
        }
    }

    /// Lets the kernel write the dirty pages of mappings, which an abort would drop. Unreachable servers delay this only up to a timeout.
    async fn write_back(&self) {
        let at = self.mount.at().to_owned();
        let sync = move || {
            let root = std::fs::File::open(at)?;
            Ok::<(), std::io::Error>(rustix::fs::syncfs(root)?)
        };
        let why = tokio::select! {
            synced = self.platform.tasks.blocking(sync) => synced.err().map(|error| error.to_string()),
            () = self.platform.clock.sleep(WRITE_BACK_TIMEOUT) => Some("the servers did not reply in time".into()),
        };
        if let Some(why) = why {
            tracing::warn!(why, "data written through mappings may be lost");
        }
    }
}

fn describe_users(point: &Path) -> String {
    let users = mount_users(point);
    let at = point.display();
    if users.is_empty() {
        return format!(
            "'{at}' is in use, and /proc does not show by which program (a mount below it, or a program of another user)"
        );
    }
    let list: Vec<String> = users.iter().map(ToString::to_string).collect();
    format!("'{at}' is in use: {}", list.join("; "))
}
