//! Requests of the kernel among the events of the client's runtime: the thread that hears a server's answer gives it to the
//! program.
#![allow(unsafe_code)] // registering a descriptor, below

use gupfs_fuse::{Reader, Turn};
use gupfs_platform::busy_poll;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Requests of one turn. Between turns answers go out, and what came from servers comes in.
const TURN: usize = 16;

/// Serves a mount to its end.
pub async fn serve(mut reader: Reader) {
    let watched = match reader.to_watch().and_then(watch) {
        Ok(watched) => watched,
        // Dropping the reader ends the mount: programs get errors.
        Err(error) => {
            tracing::error!(%error, "the kernel's requests cannot be waited for");
            return;
        }
    };
    // The end of a connection is an error of its device.
    let something = Interest::READABLE | Interest::ERROR;
    while let Ok(mut ready) = watched.ready(something).await {
        match reader.turn(TURN) {
            Turn::Idle => ready.clear_ready(),
            Turn::Dry => {
                busy_poll::heard(0);
                ready.clear_ready();
            }
            Turn::More => {
                busy_poll::heard(0);
                tokio::task::yield_now().await;
            }
            Turn::Over => return,
        }
    }
    tracing::debug!("the runtime ends before the mount");
}

fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open, and names the same file as long as it lives; the `AsyncFd` owns it, and nobody takes it
    // out. It is a duplicate: whoever closes the device it was made of does not close this one.
    let registered =
        unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE | Interest::ERROR) };
    registered.map_err(io::Error::from)
}
