//! # store_dir: the directory that a metadata server, or `gupfs up`, serves
//!
//! Owns   the names of its files, its marker (format, version, features), its lock, its initialisation.
//! Never  opens the stores inside it.
//! Enter  at `StoreDir::open_or_initialise`.
//!
//! ```text
//! DIR/gupfs.toml      marker: cluster, format version, features; the initialisation writes it last
//! DIR/gupfs.lock      0600: the serving process holds its lock
//! DIR/gupfs.init      exists during the initialisation, and after a crash in it
//! DIR/cluster.key     32 random bytes, 0600
//! DIR/client-keys.toml the client keys (crate::cluster::client_keys); `gupfs key client` makes it
//! DIR/mds/            metadata: log and index; salvaged-DATE/: the damaged ones that a salvage replaced
//! DIR/ost0/ …         one target each; may be mount points of separate disks
//! DIR/run/            control socket and pid of the serving process
//! ```

mod files;
mod lock;
mod marker;
mod open;

pub use files::make_dir;
pub use lock::Lock;
pub use marker::{MARKER, Marker, VERSION};
pub use open::{CopiedStore, LockedStore, OSTS_DEFAULT, SPACE_MIN, StoreOptions};

use crate::exit::{CliError, CliResult};
use gupfs_proto::OstId;
use std::path::{Path, PathBuf};

/// The paths in one store directory.
#[derive(Clone, Debug)]
pub struct StoreDir {
    root: PathBuf,
}

impl StoreDir {
    /// An existing directory. Its path becomes absolute and free of symbolic links, so that it names the same directory in every
    /// process.
    ///
    /// # Errors
    /// If the directory does not exist, or is none.
    pub fn at(dir: &Path) -> CliResult<StoreDir> {
        let root = dir
            .canonicalize()
            .map_err(|error| path_error("find the directory", dir, &error))?;
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

    /// Exists while a salvage exchanges log and index. Until the exchange is complete, the two do not belong together.
    pub fn mds_swap(&self) -> PathBuf {
        self.mds().join("salvage.swap")
    }

    /// # Errors
    /// If a salvage was interrupted during the exchange; names the command that completes it.
    pub fn refuse_half_exchanged(&self) -> CliResult<()> {
        if !self.mds_swap().exists() {
            return Ok(());
        }
        let at = self.root.display();
        Err(CliError::new(format!(
            "the last salvage of '{at}' was interrupted while it put the new metadata in place"
        ))
        .todo(format!("complete it with `gupfs check {at} --salvage`")))
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

    /// # Errors
    /// If the directory is no initialised gupfs store, or of an unknown format.
    pub fn read_marker(&self) -> CliResult<Marker> {
        marker::read(self)?.ok_or_else(|| {
            CliError::new(format!("'{}' holds no gupfs store", self.root.display())).todo(format!(
                "a store is a directory with the file {MARKER}; `gupfs up DIR --mount MNT` makes one"
            ))
        })
    }
}

/// Makes the files that this process and its libraries create from now on inaccessible to other users. It does not affect files on
/// a mount: their modes come from the programs that create them.
pub fn close_to_others() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

fn ost_name(id: OstId) -> String {
    format!("ost{id}")
}

fn parse_ost_name(name: &str) -> Option<OstId> {
    let number: u16 = name.strip_prefix("ost")?.parse().ok()?;
    (ost_name(OstId(number)) == name).then_some(OstId(number))
}

fn path_error(op: &str, path: &Path, error: &std::io::Error) -> CliError {
    let failed = CliError::new(format!("cannot {op} '{}'", path.display())).because(error);
    match error
        .raw_os_error()
        .map(rustix::io::Errno::from_raw_os_error)
    {
        Some(rustix::io::Errno::ROFS) => failed.todo(
            "its file system is mounted read-only: mount it writable, or give another directory",
        ),
        Some(rustix::io::Errno::NOSPC) => {
            failed.todo("its file system is full: free some space, or give another directory")
        }
        Some(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => {
            failed.todo("run as the user that owns it, or as root")
        }
        _ => failed,
    }
}
