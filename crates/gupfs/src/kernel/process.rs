//! `gupfs kernel-facts`: probes the kernel's behaviours and prints the findings as JSON. Users run `gupfs doctor` instead.

use crate::exit::{CliResult, Exit, OrCliError};
use clap::Parser;
use gupfs_contract::{KernelCache, RequirementLevel, RunningKernel, probe_all};
use gupfs_fuse::FuseTransport;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

/// The first argument of such a process.
pub const NAME: &str = "kernel-facts";

/// Tries what the kernel does with a FUSE server's answers; started by `gupfs up` and `gupfs doctor`
#[derive(Parser)]
pub struct KernelProbesProcess {
    /// Where to mount
    dir: PathBuf,
    /// Also those that change nothing for a mount
    #[arg(long)]
    all: bool,
    /// Also those that decide what the kernel may cache where mounts share files
    #[arg(long)]
    sharing: bool,
    /// Over /dev/fuse, also where io_uring is switched on
    #[arg(long)]
    device: bool,
}

impl KernelProbesProcess {
    /// Some if this process was started as one.
    pub fn from_args() -> Option<KernelProbesProcess> {
        let mut args = std::env::args_os().skip(1).peekable();
        let is_probe = args.peek().is_some_and(|first| first == NAME);
        is_probe.then(|| KernelProbesProcess::parse_from(args))
    }

    pub fn run(self) -> CliResult<Exit> {
        // A separate session, as the mount watchdog has: Ctrl-C ends the parent, and this process removes its mounts.
        let _ = rustix::process::setsid();
        if rustix::process::geteuid().is_root()
            && let Err(error) = gupfs_fuse::mountpoint::enter_private_mount_namespace(&self.dir)
        {
            // A container may forbid it; then other processes see the mounts for a moment.
            tracing::debug!(%error, "cannot make the mounts of the kernel probes private");
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .or_cli_error(|| "cannot start the runtime".into())?;
        let transport = match self.device {
            true => FuseTransport::Device,
            false => FuseTransport::Auto,
        };
        let running = RunningKernel::new(transport, self.dir);
        exit_with_parent(running.clone())?;
        let findings = runtime.block_on(probe_all(&running, |fact| {
            self.all
                || match fact.requirement {
                    RequirementLevel::Required | RequirementLevel::ForPageCache => true,
                    RequirementLevel::ForSharing => {
                        self.sharing && fact.caches.contains(&KernelCache::Attributes)
                    }
                    RequirementLevel::Tolerated => false,
                }
        }));
        runtime.shutdown_timeout(Duration::from_secs(5));
        let text =
            serde_json::to_string(&findings).or_cli_error(|| "cannot write the findings".into())?;
        println!("{text}");
        Ok(Exit::Fine)
    }
}

/// Exits when standard input ends: the parent process needs no result any more, or has ended.
fn exit_with_parent(running: RunningKernel) -> CliResult<()> {
    let watching = std::thread::Builder::new().name("parent".into());
    let watched = watching.spawn(move || {
        let read = std::io::stdin().read(&mut [0]);
        tracing::debug!(?read, "the parent process needs no result any more");
        running.abort_all();
        std::process::exit(i32::from(Exit::Failed as u8));
    });
    watched
        .map(drop)
        .or_cli_error(|| "cannot start a thread".into())
}
