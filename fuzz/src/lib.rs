//! # fuzz: bytes of others into whatever reads bytes from the net or from a disk
//!
//! Owns   one function for each program in `fuzz_targets`, and the inputs they begin with.
//! Never  a part of a build that is not made by cargo-fuzz.
//! Enter  at the functions here; each panics if something is wrong.
//!
//! What reads the kernel's messages has programs of its own in crates/fuse/fuzz.

mod frames;
mod images;
mod log;
mod messages;
mod patches;
mod records;
mod superblocks;

pub use frames::frames;
pub use images::image;
pub use log::log;
pub use messages::message;
pub use records::record;
pub use superblocks::superblock;

use std::future::Future;
use std::time::Duration;

/// Inputs that cargo-fuzz begins with: (program, name, bytes).
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut add = |program, inputs: Vec<Vec<u8>>| {
        for (number, bytes) in inputs.into_iter().enumerate() {
            all.push((program, format!("seed-{number}"), bytes));
        }
    };
    add("messages", messages::seeds());
    add("frames", frames::seeds());
    add("records", records::seeds());
    add("superblocks", superblocks::seeds());
    add("log", patches::seeds());
    add("images", patches::seeds());
    all
}

/// On one thread, in time that passes only when everybody sleeps. Nothing may wait for ever.
fn simulate<T>(run: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime needs nothing that can be missing")
        .block_on(async { tokio::time::timeout(Duration::from_secs(3600), run).await })
        .expect("nothing waits for ever")
}
