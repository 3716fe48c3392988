//! The tests of `mounted` over io_uring. Where that is not permitted every test says so and does nothing.

// Tests stand outside the simulated world and wait by the real clock.
#![allow(clippy::disallowed_methods)]

/// The way requests come in this run of the tests.
const TRANSPORT: gupfs_fuse::Transport = gupfs_fuse::Transport::IoUring;

/// Who takes them: not an event loop of the test's.
const LOOPED: bool = false;

#[path = "../../examples/memfs/fs/mod.rs"]
mod memfs;

mod places;
mod reads;

#[path = "../mounted/files.rs"]
mod files;
#[path = "../mounted/gated.rs"]
mod gated;
#[path = "../mounted/in_time.rs"]
mod in_time;
#[path = "../mounted/life.rs"]
mod life;
#[path = "../mounted/map.rs"]
mod map;
#[path = "../mounted/notices.rs"]
mod notices;
#[path = "../mounted/odd.rs"]
mod odd;
#[path = "../mounted/one_file.rs"]
mod one_file;
#[path = "../mounted/requests.rs"]
mod requests;
#[path = "../mounted/rig.rs"]
mod rig;
#[path = "../mounted/waits.rs"]
mod waits;
