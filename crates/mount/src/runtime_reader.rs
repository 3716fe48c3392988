//! Reads FUSE requests on the client's async runtime: the thread that receives a server's reply also sends it to the program.
#![allow(unsafe_code)] // registering a descriptor, below

use gupfs_fuse::{ReadProgress, RequestReader};
use gupfs_platform::busy_poll;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Requests read in one round. Between rounds the runtime sends replies and handles messages from servers.
const REQUESTS_PER_ROUND: usize = 16;

/// Serves a mount until it is unmounted.
pub async fn serve(mut reader: RequestReader) {
    let watched = match reader.poll_descriptor().and_then(register) {
        Ok(watched) => watched,
        // Dropping the reader ends the mount: programs get errors.
        Err(error) => {
            tracing::error!(%error, "the runtime cannot poll the FUSE device; the mount ends");
            return;
        }
    };
    // The end of a connection is an error of its device.
    let something = Interest::READABLE | Interest::ERROR;
    while let Ok(mut ready) = watched.ready(something).await {
        match reader.read_requests(REQUESTS_PER_ROUND) {
            ReadProgress::Idle => ready.clear_ready(),
            ReadProgress::Drained => {
                busy_poll::record_arrival(0);
                ready.clear_ready();
            }
            ReadProgress::More => {
                busy_poll::record_arrival(0);
                tokio::task::yield_now().await;
            }
            ReadProgress::Disconnected => return,
        }
    }
    tracing::debug!("the runtime ends before the mount is unmounted");
}

fn register(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` stays open and names the same file while it exists; the `AsyncFd` owns it, and no code takes it
    // out. It is a duplicate: closing the device that it was made from does not close it.
    let registered =
        unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE | Interest::ERROR) };
    registered.map_err(io::Error::from)
}
