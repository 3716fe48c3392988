//! A file system that does nothing, to measure the cost of the FUSE protocol and the kernel alone.
//!
//! `nullfs MOUNTPOINT [WORKERS [SPIN_MICROSECONDS]]` mounts it until it is unmounted; `nullfs ring MOUNTPOINT` and `nullfs
//! ring-unpinned MOUNTPOINT` do so over io_uring; `nullfs measure DIRECTORY` runs the workload. See `gupfs_fuse::nullfs`.

mod measure;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gupfs_fuse::nullfs::{self, NullFs};
use gupfs_fuse::{FuseTransport, Spawner, mount};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["measure", directory] => Ok(measure::all(Path::new(directory))?),
        ["ring", path] => serve(path, None, None, FuseTransport::IoUring, true),
        ["ring-unpinned", path] => serve(path, None, None, FuseTransport::IoUring, false),
        [path] => serve(path, None, None, FuseTransport::Device, false),
        [path, workers] => serve(
            path,
            Some(workers.parse()?),
            None,
            FuseTransport::Device,
            false,
        ),
        [path, workers, spin] => serve(
            path,
            Some(workers.parse()?),
            Some(spin.parse()?),
            FuseTransport::Device,
            false,
        ),
        _ => Err(
            "usage: nullfs MOUNTPOINT [WORKERS [SPIN_MICROSECONDS]] | nullfs measure DIRECTORY"
                .into(),
        ),
    }
}

fn serve(
    path: &str,
    workers: Option<usize>,
    spin: Option<u64>,
    transport: FuseTransport,
    pin: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut config = nullfs::config();
    config.device_workers = workers.unwrap_or(config.device_workers);
    (config.transport, config.pin_rings) = (transport, pin);
    config.idle_spin = spin.map(Duration::from_micros);
    // Every handler is ready at its first poll.
    let spawner: Spawner = Arc::new(|_| unreachable!("every handler is ready at its first poll"));
    let session = mount(Path::new(path), &config, Arc::new(NullFs::new(0)), spawner)?;
    session.wait();
    eprintln!("{:?}", session.counts());
    Ok(())
}
