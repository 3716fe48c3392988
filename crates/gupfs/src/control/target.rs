//! From what a user points at (a store, a mount point, a file on the mount, nothing) to the process that serves it.

use super::{ControlReply, ControlRequest, address, run_of_mount};
use crate::exit::{CliError, CliResult, Exit, OrCliError};
use crate::home::{MARKER, StoreDir};
use crate::mountpoint::{self, FSTYPE};
use gupfs_fuse::mountinfo;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an answer may take. `status` collects from all parts; a part that hangs is given up after less.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// What a process serves, and the mount through which it was found.
pub struct ControlTarget {
    pub kind: ControlTargetKind,
    pub mount: Option<PathBuf>,
}

#[derive(Debug)]
pub enum ControlTargetKind {
    Store(StoreDir),
    /// A mount of servers elsewhere, at this mount point.
    Mount {
        point: PathBuf,
        source: String,
    },
}

impl ControlTarget {
    /// `path` is a store's directory, a mount point or anything below it; None is the only mount of this machine.
    pub fn find(path: Option<&Path>) -> CliResult<ControlTarget> {
        let Some(path) = path else {
            return the_only_mount();
        };
        // Not canonicalize: a mount whose process hangs would hang us too, and its path needs no look inside.
        let whole =
            std::path::absolute(path).or_trouble(|| format!("cannot find '{}'", path.display()))?;
        if let Some(mount) = mountpoint::mount_containing(&whole)?
            && mount.kind == FSTYPE
        {
            return ControlTarget::behind(mount.path, &mount.source);
        }
        // A file says by its directory where it is, also through a link.
        let real = path.canonicalize().ok().filter(|real| !real.is_dir());
        let dir = real.as_deref().and_then(Path::parent).unwrap_or(path);
        let home = StoreDir::at(dir).map_err(|trouble| trouble.exit(Exit::Unusable))?;
        if home.marker().exists() {
            return Ok(ControlTarget {
                kind: ControlTargetKind::Store(home),
                mount: None,
            });
        }
        // A relative path through a symbolic link into a mount shows only now.
        match mountpoint::mount_containing(home.root())? {
            Some(mount) if mount.kind == FSTYPE => ControlTarget::behind(mount.path, &mount.source),
            _ => Err(CliError::new(format!(
                "'{}' is neither a gupfs store (no {MARKER} in it) nor on a gupfs mount",
                path.display()
            ))
            .exit(Exit::Unusable)),
        }
    }

    fn behind(mount: PathBuf, source: &str) -> CliResult<ControlTarget> {
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

    /// What people know it by.
    pub fn name(&self) -> String {
        match &self.kind {
            ControlTargetKind::Store(home) => home.root().display().to_string(),
            ControlTargetKind::Mount { point, .. } => point.display().to_string(),
        }
    }

    /// The store, if it is on this machine.
    pub fn home(&self) -> Option<&StoreDir> {
        match &self.kind {
            ControlTargetKind::Store(home) => Some(home),
            ControlTargetKind::Mount { .. } => None,
        }
    }

    fn run(&self) -> CliResult<PathBuf> {
        match &self.kind {
            ControlTargetKind::Store(home) => Ok(home.run()),
            ControlTargetKind::Mount { point, .. } => run_of_mount(point),
        }
    }

    fn how_to_start(&self) -> String {
        match &self.kind {
            ControlTargetKind::Store(home) => {
                format!("start it: gupfs up '{}' --mount MNT", home.root().display())
            }
            ControlTargetKind::Mount { point, source } => {
                format!("mount it: gupfs mount {source} '{}'", point.display())
            }
        }
    }

    pub fn request<T: DeserializeOwned>(&self, ask: &ControlRequest) -> CliResult<T> {
        let dir = self.name();
        match exchange(&self.run()?, ask) {
            Ok(ControlReply::Good(value)) => serde_json::from_value(value)
                .or_trouble(|| format!("the process that serves '{dir}' answered what this program does not understand; are they of different versions?")),
            Ok(ControlReply::Bad(why)) => Err(CliError::new(why)),
            Err(error) if means_not_running(&error) => Err(CliError::new(format!("nothing serves '{dir}'"))
                .todo(self.how_to_start())
                .exit(Exit::NotRunning)),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(CliError::new(
                format!("'{dir}' may not be asked by this user"),
            )
            .todo("run as its owner, or as root")),
            Err(error) => Err(CliError::new(format!(
                "the process that serves '{dir}' does not answer"
            ))
            .because(&error)),
        }
    }
}

fn exchange(run: &Path, ask: &ControlRequest) -> std::io::Result<ControlReply> {
    let (_dir, path) = address(run)?;
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
    let mut line = serde_json::to_string(ask)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    if answer.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&answer)?)
}

/// No socket, or one that a dead process left.
fn means_not_running(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused
    )
}

fn the_only_mount() -> CliResult<ControlTarget> {
    let mounts = mountinfo::mounts().or_trouble(|| "cannot read the table of mounts".into())?;
    let ours: Vec<_> = mounts
        .into_iter()
        .filter(|mount| mount.kind == FSTYPE)
        .collect();
    match ours.as_slice() {
        [one] => ControlTarget::behind(one.path.clone(), &one.source),
        [] => Err(CliError::new("no gupfs is mounted on this machine")
            .todo("name the store's directory, or start it: gupfs up DIR --mount MNT")
            .exit(Exit::NotRunning)),
        several => {
            let list: Vec<String> = several
                .iter()
                .map(|mount| mount.path.display().to_string())
                .collect();
            Err(CliError::new("several gupfs are mounted on this machine")
                .todo(format!("name one of them: {}", list.join(", ")))
                .exit(Exit::Unusable))
        }
    }
}
