//! A file system that does nothing, to measure what the door and the kernel cost by themselves.
//!
//! `nullfs MOUNTPOINT [REACTORS [SPIN_MICROSECONDS]]` mounts it until it is unmounted, `nullfs ring MOUNTPOINT` and `nullfs
//! ring-unpinned MOUNTPOINT` do so over io_uring; `nullfs measure DIRECTORY` runs the work. See `gupfs_fuse::nullfs`.

mod measure;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gupfs_fuse::nullfs::{self, NullFs};
use gupfs_fuse::{Spawner, Transport, mount};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["measure", directory] => Ok(measure::all(Path::new(directory))?),
        ["ring", path] => serve(path, None, None, Transport::IoUring, true),
        ["ring-unpinned", path] => serve(path, None, None, Transport::IoUring, false),
        [path] => serve(path, None, None, Transport::Device, false),
        [path, reactors] => serve(
            path,
            Some(reactors.parse()?),
            None,
            Transport::Device,
            false,
        ),
        [path, reactors, spin] => serve(
            path,
            Some(reactors.parse()?),
            Some(spin.parse()?),
            Transport::Device,
            false,
        ),
        _ => Err(
            "usage: nullfs MOUNTPOINT [REACTORS [SPIN_MICROSECONDS]] | nullfs measure DIRECTORY"
                .into(),
        ),
    }
}

fn serve(
    path: &str,
    reactors: Option<usize>,
    spin: Option<u64>,
    transport: Transport,
    pin: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut config = nullfs::config();
    config.reactors = reactors.unwrap_or(config.reactors);
    (config.transport, config.pin_rings) = (transport, pin);
    config.on_idle_spin = spin.map(Duration::from_micros);
    // Everything is answered at once.
    let spawner: Spawner = Arc::new(|_| unreachable!("nothing here waits"));
    let session = mount(Path::new(path), &config, Arc::new(NullFs::new(0)), spawner)?;
    session.wait();
    eprintln!("{:?}", session.counts());
    Ok(())
}
