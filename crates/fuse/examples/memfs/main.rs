//! A file system in memory: `memfs MOUNTPOINT [FILES]` mounts it with FILES empty files. Ends when it is unmounted.

mod fs;

use std::path::PathBuf;
use std::sync::Arc;

use fs::MemFs;
use gupfs_fuse::{InitFlags, MountConfig, OpenReplyFlags, Spawner, mount};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .init();
    let mut arguments = std::env::args().skip(1);
    let path: PathBuf = arguments
        .next()
        .ok_or("usage: memfs MOUNTPOINT [FILES]")?
        .into();
    let files: u32 = arguments.next().map_or(Ok(0), |count| count.parse())?;
    let runtime = tokio::runtime::Runtime::new()?;
    let handle = runtime.handle().clone();
    let spawner: Spawner = Arc::new(move |task| drop(handle.spawn(task)));
    let mut config = MountConfig::new("memory", "memfs");
    config.wanted_flags |= InitFlags::POSIX_LOCKS | InitFlags::FLOCK_LOCKS;
    let handle = runtime.handle().clone();
    config.around_worker = Some(Arc::new(move |run| {
        let _in_runtime = handle.enter();
        run();
    }));
    let fs = Arc::new(MemFs::new(OpenReplyFlags::empty()));
    fs.fill(
        &(0..files)
            .map(|number| format!("file {number}"))
            .collect::<Vec<_>>(),
    );
    let session = mount(&path, &config, fs.clone(), spawner)?;
    session.wait();
    let counts = session.counts();
    eprintln!(
        "{} requests, {} of them pending at their first poll",
        counts.requests, counts.parked
    );
    Ok(())
}
