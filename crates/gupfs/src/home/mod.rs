//! # home: the directory that `gupfs up` serves
//!
//! Owns   what lies where in it, its marker (format, version, features), its lock, initialisation from empty to served.
//! Never  opens the stores inside it.
//! Enter  at `StoreDir::open_or_initialise`.
//!
//! ```text
//! DIR/gupfs.toml      marker: whose directory this is, format version, features; written last
//! DIR/gupfs.lock      0600: locked by the process that serves
//! DIR/gupfs.init      only while being initialised, and after a crash in that time
//! DIR/cluster.key     32 random bytes, 0600
//! DIR/client-keys.toml which hosts that only mount are let in (crate::cluster::client_keys); not there before the first
//! DIR/mds/            metadata: log and index; salvaged-DATE/: damaged ones, as a salvage found them
//! DIR/ost0/ …         one target each; may be mount points of disks of their own
//! DIR/run/            control socket and pid of the process that serves
//! ```

mod files;
mod lock;
mod marker;
mod open;

pub use files::make_dir;
pub use lock::Lock;
pub use marker::{MARKER, Marker, VERSION};
pub use open::{LockedStore, OSTS_DEFAULT, SPACE_MIN, StoreOptions};

use crate::exit::{CliError, CliResult};
use gupfs_proto::OstId;
use std::path::{Path, PathBuf};

/// The paths of one directory.
#[derive(Clone, Debug)]
pub struct StoreDir {
    root: PathBuf,
}

impl StoreDir {
    /// A directory that exists; its path is made absolute and free of symbolic links, so that it means the same to
    /// every process.
    pub fn at(dir: &Path) -> CliResult<StoreDir> {
        let root = dir
            .canonicalize()
            .map_err(|error| cannot("find the directory", dir, &error))?;
        if !root.is_dir() {
            return Err(CliError::new(format!(
                "'{}' is not a directory",
                dir.display()
            )));
        }
        Ok(StoreDir { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn marker(&self) -> PathBuf {
        self.root.join(MARKER)
    }

    pub fn key(&self) -> PathBuf {
        self.root.join("cluster.key")
    }

    pub fn client_keys(&self) -> PathBuf {
        self.root.join("client-keys.toml")
    }

    pub fn mds(&self) -> PathBuf {
        self.root.join("mds")
    }

    pub fn mds_log(&self) -> PathBuf {
        self.mds().join("log")
    }

    pub fn mds_index(&self) -> PathBuf {
        self.mds().join("index")
    }

    /// There while a salvage exchanges log and index: until it is finished they do not belong together.
    pub fn mds_swap(&self) -> PathBuf {
        self.mds().join("salvage.swap")
    }

    /// # Errors
    /// When a salvage was interrupted at its end, with the command that finishes it.
    pub fn refuse_half_exchanged(&self) -> CliResult<()> {
        if !self.mds_swap().exists() {
            return Ok(());
        }
        let at = self.root.display();
        Err(
            CliError::new(format!("a salvage of '{at}' was interrupted at its end"))
                .todo(format!("finish it with `gupfs check {at} --salvage`")),
        )
    }

    pub fn ost(&self, id: OstId) -> PathBuf {
        self.root.join(ost_name(id))
    }

    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    pub fn pid(&self) -> PathBuf {
        self.run().join("pid")
    }

    /// The marker, checked; trouble if the directory is not a finished store of ours.
    pub fn read_marker(&self) -> CliResult<Marker> {
        marker::read(self)?.ok_or_else(|| {
            CliError::new(format!("'{}' holds no gupfs store", self.root.display())).todo(format!(
                "a store is a directory with the file {MARKER}; `gupfs up DIR --mount MNT` makes one"
            ))
        })
    }
}

/// What this process makes from here on is for its owner alone: also what libraries make, which leave that to the umask. Modes of
/// files on a mount come from the programs that make them.
pub fn close_to_others() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

fn ost_name(id: OstId) -> String {
    format!("ost{id}")
}

fn ost_of_name(name: &str) -> Option<OstId> {
    let number: u16 = name.strip_prefix("ost")?.parse().ok()?;
    (ost_name(OstId(number)) == name).then_some(OstId(number))
}

fn cannot(op: &str, path: &Path, error: &std::io::Error) -> CliError {
    let trouble = CliError::new(format!("cannot {op} '{}'", path.display())).because(error);
    match error
        .raw_os_error()
        .map(rustix::io::Errno::from_raw_os_error)
    {
        Some(rustix::io::Errno::ROFS) => trouble.todo(
            "its file system is mounted read-only: mount it writable, or give another directory",
        ),
        Some(rustix::io::Errno::NOSPC) => {
            trouble.todo("its file system is full: free some space, or give another directory")
        }
        Some(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => {
            trouble.todo("run as the user that owns it, or as root")
        }
        _ => trouble,
    }
}
