//! Finding the process that serves a path: a store, a mount point, a file on the mount, or the only mount of the host.

use super::{ControlReply, ControlRequest, address, run_of_mount};
use crate::exit::{CliError, CliResult, Exit, OrCliError};
use crate::mountpoint::{self, FSTYPE};
use crate::store_dir::{MARKER, StoreDir};
use gupfs_fuse::mountinfo;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a reply may take. A status request asks all parts of the process, and each of them has a shorter timeout.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// The store or mount that a process serves, and the mount point through which it was found.
pub struct ControlTarget {
    pub kind: ControlTargetKind,
    pub mount: Option<PathBuf>,
}

#[derive(Debug)]
pub enum ControlTargetKind {
    Store(StoreDir),
    /// A mount whose servers are on other hosts.
    Mount {
        point: PathBuf,
        source: String,
    },
}

impl ControlTarget {
    /// `path` is a store's directory, a mount point or any file below one; None is the only mount of this host.
    ///
    /// # Errors
    /// If the path is neither, or there is not exactly one mount.
    pub fn find(path: Option<&Path>) -> CliResult<ControlTarget> {
        let Some(path) = path else {
            return find_only_mount();
        };
        // Not `canonicalize`: it would wait for a mount whose process hangs.
        let whole = std::path::absolute(path)
            .or_cli_error(|| format!("cannot find '{}'", path.display()))?;
        if let Some(mount) = mountpoint::mount_containing(&whole)?
            && mount.kind == FSTYPE
        {
            return ControlTarget::of_mount(mount.path, &mount.source);
        }
        // A file belongs to its directory, also if the path leads through a symbolic link.
        let real = path.canonicalize().ok().filter(|real| !real.is_dir());
        let dir = real.as_deref().and_then(Path::parent).unwrap_or(path);
        let store_dir = StoreDir::at(dir).map_err(|error| error.exit(Exit::Unusable))?;
        if store_dir.marker().exists() {
            return Ok(ControlTarget {
                kind: ControlTargetKind::Store(store_dir),
                mount: None,
            });
        }
        // A path through a symbolic link into a mount: `canonicalize` has resolved the link.
        match mountpoint::mount_containing(store_dir.root())? {
            Some(mount) if mount.kind == FSTYPE => {
                ControlTarget::of_mount(mount.path, &mount.source)
            }
            _ => Err(CliError::new(format!(
                "'{}' is neither a gupfs store (no {MARKER} in it) nor on a gupfs mount",
                path.display()
            ))
            .exit(Exit::Unusable)),
        }
    }

    fn of_mount(mount: PathBuf, source: &str) -> CliResult<ControlTarget> {
        let what = match source.starts_with('/') {
            true => ControlTargetKind::Store(StoreDir::at(Path::new(source))?),
            false => ControlTargetKind::Mount {
                point: mount.clone(),
                source: source.to_string(),
            },
        };
        Ok(ControlTarget {
            kind: what,
            mount: Some(mount),
        })
    }

    /// The store's directory or the mount point, for messages.
    pub fn name(&self) -> String {
        match &self.kind {
            ControlTargetKind::Store(store_dir) => store_dir.root().display().to_string(),
            ControlTargetKind::Mount { point, .. } => point.display().to_string(),
        }
    }

    /// The store's directory, if it is on this host.
    pub fn store_dir(&self) -> Option<&StoreDir> {
        match &self.kind {
            ControlTargetKind::Store(store_dir) => Some(store_dir),
            ControlTargetKind::Mount { .. } => None,
        }
    }

    fn run(&self) -> CliResult<PathBuf> {
        match &self.kind {
            ControlTargetKind::Store(store_dir) => Ok(store_dir.run()),
            ControlTargetKind::Mount { point, .. } => run_of_mount(point),
        }
    }

    fn start_advice(&self) -> String {
        match &self.kind {
            ControlTargetKind::Store(store_dir) => {
                format!(
                    "start it: gupfs up '{}' --mount MNT",
                    store_dir.root().display()
                )
            }
            ControlTargetKind::Mount { point, source } => {
                format!("mount it: gupfs mount {source} '{}'", point.display())
            }
        }
    }

    /// # Errors
    /// If no process serves the store or mount, the process does not reply, or it refuses the request.
    pub fn request<T: DeserializeOwned>(&self, request: &ControlRequest) -> CliResult<T> {
        let dir = self.name();
        match exchange(&self.run()?, request) {
            Ok(ControlReply::Good(value)) => serde_json::from_value(value)
                .or_cli_error(|| format!("the process that serves '{dir}' sent a reply that this program does not understand; they may be of different versions")),
            Ok(ControlReply::Bad(why)) => Err(CliError::new(why)),
            Err(error) if is_not_running(&error) => Err(CliError::new(format!("no process serves '{dir}'"))
                .todo(self.start_advice())
                .exit(Exit::NotRunning)),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(CliError::new(
                format!("this user may not send requests to the process that serves '{dir}'"),
            )
            .todo("run as its owner, or as root")),
            Err(error) => Err(CliError::new(format!(
                "the process that serves '{dir}' does not reply"
            ))
            .because(&error)),
        }
    }
}

fn exchange(run: &Path, request: &ControlRequest) -> std::io::Result<ControlReply> {
    let (_dir, path) = address(run)?;
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply)?;
    if reply.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&reply)?)
}

/// Whether there is no socket, or only one of a process that has died.
fn is_not_running(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused
    )
}

fn find_only_mount() -> CliResult<ControlTarget> {
    let mounts = mountinfo::mounts().or_cli_error(|| "cannot read the list of mounts".into())?;
    let ours: Vec<_> = mounts
        .into_iter()
        .filter(|mount| mount.kind == FSTYPE)
        .collect();
    match ours.as_slice() {
        [one] => ControlTarget::of_mount(one.path.clone(), &one.source),
        [] => Err(
            CliError::new("no gupfs file system is mounted on this host")
                .todo("name the store's directory, or start it: gupfs up DIR --mount MNT")
                .exit(Exit::NotRunning),
        ),
        several => {
            let list: Vec<String> = several
                .iter()
                .map(|mount| mount.path.display().to_string())
                .collect();
            Err(
                CliError::new("several gupfs file systems are mounted on this host")
                    .todo(format!("name one of them: {}", list.join(", ")))
                    .exit(Exit::Unusable),
            )
        }
    }
}
