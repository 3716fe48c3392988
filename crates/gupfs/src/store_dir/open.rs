//! Opening a store directory, and initialising an empty one.
//!
//! Order of an initialisation: write `gupfs.init` · create directories and key · create the stores (the caller) · write `gupfs.toml` ·
//! remove `gupfs.init`. No process serves the directory before `gupfs.toml` exists; therefore a directory with `gupfs.init` and without
//! `gupfs.toml` holds no data, and the next start may clear it.

use super::files::{is_empty, make_dir, names, remove_file, remove_tree};
use super::lock::LOCK;
use super::marker::{self, Marker, UNFINISHED};
use super::{Lock, MARKER, StoreDir, parse_ost_name, path_error};
use crate::amount::show_size;
use crate::exit::{CliError, CliResult, Exit};
use gupfs_platform::Random;
use gupfs_proto::{ClusterId, CopyId, Incarnation, OstId, VirtualShards};
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Free space that a new store needs: three segments of the log (3 × 64 MiB), and space above the 512 MiB that every OST reserves.
pub const SPACE_MIN: u64 = 1 << 30;

/// OSTs of a new store without --osts: as many as the default layout stripes over.
pub const OSTS_DEFAULT: u16 = gupfs_proto::limits::STRIPE_COUNT_DEFAULT as u16;

/// As many as one layout can name.
pub const OSTS_MAX: u16 = gupfs_proto::limits::STRIPE_COUNT_MAX as u16;

/// The parameters of a store.
pub struct StoreOptions {
    /// None: as many as the store has; in a new store as many as are prepared, or the default. 0: none, object servers have them.
    pub osts: Option<u16>,
    pub virtual_shards: VirtualShards,
}

/// A store directory with its lock. The caller creates the new stores; `finish` then completes the initialisation.
pub struct LockedStore {
    pub dir: StoreDir,
    pub marker: Marker,
    /// The whole store is new.
    pub fresh: bool,
    /// OSTs that the caller has to create.
    pub new_osts: Vec<OstId>,
    _lock: Lock,
}

/// The store that a new directory is to have a copy of.
pub struct CopiedStore {
    pub cluster: ClusterId,
    pub metadata: Incarnation,
    pub virtual_shards: VirtualShards,
    /// The cluster key.
    pub key: [u8; 32],
}

impl LockedStore {
    /// Gives this directory an identity among the copies of the metadata, if it has none yet, and returns it.
    ///
    /// # Errors
    /// If the marker cannot be written.
    pub fn copy_id(&mut self, random: &Random) -> CliResult<CopyId> {
        if let Some(id) = self.marker.copy() {
            return Ok(id);
        }
        let id = CopyId(random.u64().max(1));
        self.marker.set_copy(id, false);
        // A new store's marker is written at the end of its initialisation.
        if !self.fresh {
            marker::write(&self.dir, &self.marker)?;
        }
        Ok(id)
    }

    /// Records that the register of the copies has this directory.
    ///
    /// # Errors
    /// If the marker cannot be written.
    pub fn mark_joined(&mut self) -> CliResult<()> {
        let Some(id) = self.marker.copy().filter(|_| !self.marker.has_joined()) else {
            return Ok(());
        };
        self.marker.set_copy(id, true);
        match self.fresh {
            true => Ok(()),
            false => marker::write(&self.dir, &self.marker),
        }
    }
}

impl StoreDir {
    /// Whether the directory holds a complete store.
    ///
    /// # Errors
    /// If its marker cannot be read.
    pub fn is_initialised(&self) -> CliResult<bool> {
        Ok(marker::read(self)?.is_some())
    }

    /// Initialises an empty directory, or one whose initialisation was interrupted, as a copy of the metadata of another host. It is complete
    /// when this returns: the owner gives it the metadata.
    ///
    /// # Errors
    /// If the directory holds anything else.
    pub fn initialise_copy(
        self,
        lock: Lock,
        copied: &CopiedStore,
        random: &Random,
    ) -> CliResult<LockedStore> {
        self.check_empty_or_unfinished()?;
        let mut marker = Marker::new(
            copied.cluster,
            copied.metadata,
            copied.virtual_shards,
            Vec::new(),
        );
        marker.set_copy(CopyId(random.u64().max(1)), true);
        marker::write_unfinished(&self, &marker)?;
        self.write_this_key(&copied.key)?;
        for dir in [self.mds(), self.mds_log(), self.mds_index(), self.run()] {
            make_dir(&dir)?;
        }
        marker::sync_dir(&self.mds())?;
        marker::write(&self, &marker)?;
        marker::remove_unfinished(&self)?;
        self.write_pid();
        Ok(LockedStore {
            dir: self,
            marker,
            fresh: false,
            new_osts: Vec::new(),
            _lock: lock.keep_file(),
        })
    }

    /// Opens a locked store directory and adds OSTs if `options` asks for more. Initialises an empty directory, and one whose
    /// initialisation was interrupted.
    ///
    /// # Errors
    /// If the directory holds anything else, or the options are not possible for it.
    pub fn open_or_initialise(
        self,
        lock: Lock,
        options: &StoreOptions,
        random: &Random,
    ) -> CliResult<LockedStore> {
        if let Some(osts) = options.osts
            && osts > OSTS_MAX
        {
            return Err(CliError::new(format!(
                "{osts} OSTs are not possible: a store has at most {OSTS_MAX}"
            ))
            .exit(Exit::Unusable));
        }
        match marker::read(&self)? {
            Some(marker) => self.open_existing(lock, marker, options),
            None => self.initialise(lock, options, random),
        }
    }

    fn open_existing(
        self,
        lock: Lock,
        mut marker: Marker,
        options: &StoreOptions,
    ) -> CliResult<LockedStore> {
        marker::remove_unfinished(&self)?;
        let have = marker.osts().len();
        let want = match options.osts {
            None | Some(0) => have,
            Some(osts) => usize::from(osts),
        };
        if want < have {
            return Err(CliError::new(format!(
                "'{}' has {have} OSTs, and --osts asks for {want}: gupfs cannot remove an OST, because files may lie on it",
                self.root().display()
            ))
            .todo(format!("start with --osts {have}, or without --osts"))
            .exit(Exit::Unusable));
        }
        let mut new_osts = Vec::new();
        for id in (0..OSTS_MAX).map(OstId) {
            if have + new_osts.len() == want {
                break;
            }
            if marker.osts().any(|known| known == id) {
                continue;
            }
            self.clear_ost(id)?;
            make_dir(&self.ost(id))?;
            marker.add(id);
            new_osts.push(id);
        }
        make_dir(&self.run())?;
        self.write_pid();
        Ok(LockedStore {
            dir: self,
            marker,
            fresh: false,
            new_osts,
            _lock: lock.keep_file(),
        })
    }

    fn initialise(
        self,
        lock: Lock,
        options: &StoreOptions,
        random: &Random,
    ) -> CliResult<LockedStore> {
        let prepared = self.check_empty_or_unfinished()?;
        let space = rustix::fs::statvfs(self.root())
            .map_err(|errno| path_error("get the free space of", self.root(), &errno.into()))?;
        let free = space.f_bavail * space.f_frsize;
        if free < SPACE_MIN {
            return Err(CliError::new(format!(
                "'{}' has {} free, and a new store needs {}",
                self.root().display(),
                show_size(free),
                show_size(SPACE_MIN)
            ))
            .todo("free some space there, or give a directory on a larger file system"));
        }
        let count = options.osts.unwrap_or(if prepared.is_empty() {
            OSTS_DEFAULT
        } else {
            prepared.len() as u16
        });
        let osts: Vec<OstId> = (0..count).map(OstId).collect();
        if let Some(extra) = prepared.iter().find(|id| !osts.contains(id)) {
            return Err(CliError::new(format!(
                "'{}' is prepared, but with {count} OSTs the last is 'ost{}'",
                self.ost(*extra).display(),
                count - 1
            ))
            .todo("give --osts as many as there are prepared directories, numbered from 0")
            .exit(Exit::Unusable));
        }
        let mut cluster = [0; 16];
        random.fill(&mut cluster);
        let marker = Marker::new(
            ClusterId(u128::from_be_bytes(cluster)),
            Incarnation(random.u64()),
            options.virtual_shards,
            osts.clone(),
        );
        marker::write_unfinished(&self, &marker)?;
        self.write_key(random)?;
        for dir in [self.mds(), self.mds_log(), self.mds_index(), self.run()] {
            make_dir(&dir)?;
        }
        for ost in &osts {
            make_dir(&self.ost(*ost))?;
        }
        marker::sync_dir(&self.mds())?;
        marker::sync_dir(self.root())?;
        self.write_pid();
        Ok(LockedStore {
            dir: self,
            marker,
            fresh: true,
            new_osts: osts,
            _lock: lock.keep_file(),
        })
    }

    /// Checks that the directory is empty, apart from empty OST directories that the administrator prepared, and returns these.
    /// Clears what an interrupted initialisation left.
    fn check_empty_or_unfinished(&self) -> CliResult<BTreeSet<OstId>> {
        let unfinished = marker::read_unfinished(self)?;
        let mut prepared = BTreeSet::new();
        let mut foreign = Vec::new();
        for name in names(self.root())? {
            let path = self.root().join(&name);
            // A power loss before the first rename leaves `gupfs.init.new`, and nothing else.
            if name == "lost+found" || name == LOCK || name == format!("{UNFINISHED}.new") {
                continue;
            }
            if let Some(id) =
                parse_ost_name(&name).filter(|_| unfinished.is_some() || is_empty(&path))
            {
                prepared.insert(id);
            } else if unfinished.is_none() || !is_from_initialisation(&name) {
                foreign.push(name);
            }
        }
        if !foreign.is_empty() {
            return Err(self.explain_foreign(unfinished.is_some(), &foreign));
        }
        if unfinished.is_none() {
            return Ok(prepared);
        }
        tracing::info!(dir = %self.root().display(), "an initialisation of this directory was interrupted; starting it again");
        for id in std::mem::take(&mut prepared) {
            self.clear_ost(id)?;
        }
        remove_tree(&self.mds())?;
        remove_tree(&self.run())?;
        remove_file(&self.key())?;
        remove_file(&self.root().join(format!("{MARKER}.new")))?;
        Ok(prepared)
    }

    fn explain_foreign(&self, unfinished: bool, foreign: &[String]) -> CliError {
        let dir = self.root().display();
        let some: Vec<String> = foreign
            .iter()
            .take(3)
            .map(|name| format!("'{name}'"))
            .collect();
        let more = if foreign.len() > 3 { ", …" } else { "" };
        let some = some.join(", ") + more;
        if unfinished {
            return CliError::new(format!(
                "an initialisation of '{dir}' was interrupted, and something else is in it now: {some}"
            ))
            .todo("move these files to another directory and start again");
        }
        if foreign.iter().any(|name| name == "cluster.key")
            && foreign.iter().any(|name| name == "mds")
        {
            return CliError::new(format!(
                "'{dir}' looks like a gupfs store whose marker {MARKER} is missing"
            ))
            .todo(format!(
                "restore {MARKER} from a backup; gupfs has changed nothing in the directory"
            ));
        }
        CliError::new(format!(
            "'{dir}' holds no gupfs store, and is not empty: {some}"
        ))
        .todo("give an empty or new directory for the store; the mount point is what --mount names")
    }

    /// Empties the directory of an OST that the marker does not list: an interrupted initialisation left it.
    ///
    /// # Errors
    /// If objects are in it: then it served once.
    fn clear_ost(&self, id: OstId) -> CliResult<()> {
        let dir = self.ost(id);
        if !dir.exists() {
            return Ok(());
        }
        if holds_objects(&dir)? {
            return Err(CliError::new(format!(
                "'{}' holds objects, but {MARKER} does not list ost{id}",
                dir.display()
            ))
            .todo("if it belongs to another store, move it there; if not, restore gupfs.toml from a backup"));
        }
        // The directory may be a mount point, so it stays.
        for name in names(&dir)? {
            if name != "lost+found" {
                remove_tree(&dir.join(name))?;
            }
        }
        Ok(())
    }

    /// Writes the pid that a process names when it finds the store locked. A hint only: it is not synced, and an error is no reason to
    /// stop.
    fn write_pid(&self) {
        if let Err(error) = std::fs::write(self.pid(), format!("{}\n", std::process::id())) {
            tracing::warn!(%error, path = %self.pid().display(), "cannot write the file with the pid");
        }
    }

    fn write_key(&self, random: &Random) -> CliResult<()> {
        let mut key = [0; 32];
        random.fill(&mut key);
        self.write_this_key(&key)
    }

    fn write_this_key(&self, key: &[u8; 32]) -> CliResult<()> {
        let path = self.key();
        let write = || -> std::io::Result<()> {
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)?;
            file.write_all(key)?;
            file.sync_all()
        };
        write().map_err(|error| path_error("write", &path, &error))
    }
}

impl LockedStore {
    /// Completes the initialisation: all stores exist, and the marker declares the directory a store.
    pub fn finish(&self) -> CliResult<()> {
        if self.fresh || !self.new_osts.is_empty() {
            marker::write(&self.dir, &self.marker)?;
        }
        marker::remove_unfinished(&self.dir)
    }
}

/// Whether an initialisation creates this entry; OST directories are not among them.
fn is_from_initialisation(name: &str) -> bool {
    [
        "cluster.key",
        "mds",
        "run",
        UNFINISHED,
        &format!("{MARKER}.new"),
    ]
    .contains(&name)
}

/// Whether a file at any depth has the name of an object: an OST's store names each data file after its object.
fn holds_objects(dir: &Path) -> CliResult<bool> {
    for name in names(dir)? {
        let path = dir.join(&name);
        let found = if path.is_dir() && !path.is_symlink() {
            holds_objects(&path)?
        } else {
            name.parse::<gupfs_proto::ObjectId>().is_ok()
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}
