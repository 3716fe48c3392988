//! What ends a mount: a signal, `gupfs stop`, somebody's umount. A mount in use is not torn away unless asked twice.

use super::ActiveMount;
use super::stop_events::StopRequest;
use crate::events::print_event;
use crate::mountpoint::holders;
use gupfs_mount::Mount;
use gupfs_platform::Platform;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often a mount that is in use is tried again after a signal.
const AGAIN: Duration = Duration::from_millis(500);

/// How long an end by force waits for what the kernel still has to write.
const WRITE_BACK: Duration = Duration::from_secs(5);

/// How long an end waits for the mount to be out of the tree.
const TAKE_AWAY: Duration = Duration::from_secs(8);
const _: () = assert!(TAKE_AWAY.as_secs() > WRITE_BACK.as_secs());

/// How long an unmount may take: as long as one call of a program may wait for a server, by default.
const UNMOUNTING: Duration = Duration::from_secs(60);

/// Somebody who just looks (a desktop, a monitor) keeps a mount busy for a moment: a stop is tried so often before it is
/// refused.
const TRIES: u32 = 4;

impl ActiveMount {
    /// Returns when the mount is out of the tree, with what led to it.
    pub async fn wait_for_unmount(&mut self) -> String {
        let ended = self.ended();
        tokio::pin!(ended);
        let mut told = 0;
        let mut busy = false;
        loop {
            tokio::select! {
                _ = &mut ended => return "unmounted from outside; stopping".into(),
                signal = self.told.signals.next() => {
                    told += 1;
                    let force = told > 1;
                    if self.unmount_or_abort(force).await.is_ok() {
                        return format!("{signal}: unmounted; stopping");
                    }
                    busy = true;
                    let users = in_use(self.mount.at());
                    print_event(self.json, "busy", &format!("{signal}: {users}; it stops when they are done, or at once after a second signal"));
                }
                Some(request) = self.told.stops.recv() => {
                    let StopRequest { force, answer } = request;
                    let outcome = self.unmount_with_retries(force).await;
                    let done = outcome.is_ok();
                    // Who asked may have gone away.
                    let _ = answer.send(outcome);
                    if done {
                        return "asked to stop: unmounted; stopping".into();
                    }
                }
                () = self.platform.clock.sleep(AGAIN), if busy => {
                    if self.unmount_or_abort(false).await.is_ok() {
                        return "the mount is free now: unmounted; stopping".into();
                    }
                }
            }
        }
    }

    /// Takes the mount out of the tree, whoever uses it, and whether or not that works: the process ends.
    pub async fn detach_mount(&mut self) {
        let taken = async {
            // Without the guardian's farewell: it takes away what is still there when we are not.
            let _ = self.unmount_attempt().unmount(true).await;
        };
        tokio::select! {
            () = taken => {}
            () = self.platform.clock.sleep(TAKE_AWAY) => {}
        }
    }

    /// A signal meanwhile asks for force. The kernel returns from an unmount when it has written what programs changed through mappings, which
    /// waits for servers that are away.
    async fn unmount_or_abort(&mut self, force: bool) -> Result<(), String> {
        let unmounting = self.unmount_attempt().unmount(force);
        tokio::pin!(unmounting);
        let why = tokio::select! {
            biased;
            unmounted = &mut unmounting => return unmounted,
            signal = self.told.signals.next() => signal.to_owned(),
            () = self.platform.clock.sleep(UNMOUNTING) => format!("{} s have passed", UNMOUNTING.as_secs()),
        };
        // Who is told twice within a moment has nothing to lose by that.
        tokio::select! {
            unmounted = &mut unmounting => return unmounted,
            () = self.platform.clock.sleep(WRITE_BACK) => {}
        }
        tracing::warn!(
            why,
            "the kernel waits for answers while it unmounts: its connection is cut, and what was written through mappings may be lost"
        );
        self.abort().await;
        tokio::select! {
            unmounted = &mut unmounting => unmounted,
            // `finish` waits for the rest.
            () = self.platform.clock.sleep(WRITE_BACK) => Ok(()),
        }
    }

    async fn unmount_with_retries(&self, force: bool) -> Result<(), String> {
        for _ in 1..TRIES {
            if self.unmount_attempt().unmount(force).await.is_ok() {
                return Ok(());
            }
            self.platform.clock.sleep(AGAIN).await;
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

/// One try to take the mount out of the tree, while signals are listened for.
struct UnmountAttempt {
    mount: Arc<Mount>,
    platform: Platform,
}

impl UnmountAttempt {
    /// Err says who uses it.
    async fn unmount(self, force: bool) -> Result<(), String> {
        if force {
            self.write_back().await;
        }
        let mount: Arc<Mount> = self.mount.clone();
        let unmounted = move || {
            let session = mount.session();
            if !force {
                return session.try_unmount();
            }
            let outcome = session.unmount();
            // Out of the tree, but who uses it would keep it, and us, alive: their calls fail from here on.
            if let Ok(gupfs_fuse::UnmountOutcome::Detached) = outcome {
                session.abort()?;
            }
            outcome
        };
        match self.platform.tasks.blocking(unmounted).await {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => {
                Err(in_use(self.mount.at()))
            }
            Err(error) => {
                let at = self.mount.at().display();
                tracing::error!(%error, point = %at, "cannot unmount");
                Err(format!("cannot unmount '{at}': {error}"))
            }
        }
    }

    /// What programs wrote through mappings lies in the kernel's page cache only; an abort would drop it. Servers that are away
    /// do not hold up the end: what waits for them ends with the abort.
    async fn write_back(&self) {
        let at = self.mount.at().to_owned();
        let sync = move || {
            let root = std::fs::File::open(at)?;
            Ok::<(), std::io::Error>(rustix::fs::syncfs(root)?)
        };
        let why = tokio::select! {
            synced = self.platform.tasks.blocking(sync) => synced.err().map(|error| error.to_string()),
            () = self.platform.clock.sleep(WRITE_BACK) => Some("servers do not answer".into()),
        };
        if let Some(why) = why {
            tracing::warn!(why, "what was written through mappings may be lost");
        }
    }
}

fn in_use(point: &Path) -> String {
    let holders = holders(point);
    let at = point.display();
    if holders.is_empty() {
        return format!(
            "'{at}' is in use, by whom /proc does not tell (a mount below it, or another user's program)"
        );
    }
    let list: Vec<String> = holders.iter().map(ToString::to_string).collect();
    format!("'{at}' is in use: {}", list.join("; "))
}
