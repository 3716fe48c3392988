//! From a directory as it was found to one that can be served.
//!
//! Order of an initialisation: `gupfs.init` · directories and key · stores (by the caller) · `gupfs.toml` · `gupfs.init`
//! away. Nothing is served before `gupfs.toml` is there, so whatever lies beside a lone `gupfs.init` holds no data.

use super::files::{is_empty, make_dir, names, remove_file, remove_tree};
use super::lock::LOCK;
use super::marker::{self, BEGUN, Marker};
use super::{Lock, MARKER, StoreDir, cannot, ost_of_name};
use crate::amount::show_size;
use crate::exit::{CliError, CliResult, Exit};
use gupfs_platform::Random;
use gupfs_proto::{ClusterId, Incarnation, OstId, VirtualShards};
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Free space a new store needs: two segments of the log and the one being written (3 × 64 MiB), and room above the
/// 512 MiB that every OST keeps for removal.
pub const SPACE_MIN: u64 = 1 << 30;

/// OSTs of a new store when nobody says: what the default layout stripes over.
pub const OSTS_DEFAULT: u16 = gupfs_proto::limits::STRIPE_COUNT_DEFAULT as u16;

/// As many as the inode's layout can name at once.
pub const OSTS_MAX: u16 = gupfs_proto::limits::STRIPE_COUNT_MAX as u16;

/// What the caller asks of a directory.
pub struct StoreOptions {
    /// None: as many as there are, or the default. 0: none, they are served elsewhere.
    pub osts: Option<u16>,
    pub virtual_shards: VirtualShards,
}

/// A directory that is ours and locked. Its stores may still have to be made; then `finish` ends the initialisation.
pub struct LockedStore {
    pub home: StoreDir,
    pub marker: Marker,
    /// The whole store is new.
    pub fresh: bool,
    /// Targets that are new, in a new store or an old one.
    pub new_osts: Vec<OstId>,
    _lock: Lock,
}

impl StoreDir {
    /// Takes a locked directory into use: initialises it if it is empty, goes on with an initialisation that broke
    /// off, adds OSTs; refuses what is not ours.
    pub fn open_or_initialise(
        self,
        lock: Lock,
        wish: &StoreOptions,
        dice: &Random,
    ) -> CliResult<LockedStore> {
        if let Some(osts) = wish.osts
            && osts > OSTS_MAX
        {
            return Err(CliError::new(format!(
                "{osts} OSTs are not possible: up to {OSTS_MAX} are"
            ))
            .exit(Exit::Unusable));
        }
        match marker::read(&self)? {
            Some(marker) => self.open_existing(lock, marker, wish),
            None => self.initialise(lock, wish, dice),
        }
    }

    fn open_existing(
        self,
        lock: Lock,
        mut marker: Marker,
        wish: &StoreOptions,
    ) -> CliResult<LockedStore> {
        marker::remove_begun(&self)?;
        let have = marker.osts().len();
        let want = match wish.osts {
            None | Some(0) => have,
            Some(osts) => usize::from(osts),
        };
        if want < have {
            return Err(CliError::new(format!(
                "'{}' has {have} OSTs, and --osts asks for {want}: an OST cannot be taken away while files lie on it",
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
            home: self,
            marker,
            fresh: false,
            new_osts,
            _lock: lock.kept(),
        })
    }

    fn initialise(self, lock: Lock, wish: &StoreOptions, dice: &Random) -> CliResult<LockedStore> {
        let prepared = self.check_empty_or_unfinished()?;
        let space = rustix::fs::statvfs(self.root())
            .map_err(|errno| cannot("ask for the free space of", self.root(), &errno.into()))?;
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
        let count = wish.osts.unwrap_or(if prepared.is_empty() {
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
        dice.fill(&mut cluster);
        let marker = Marker::new(
            ClusterId(u128::from_be_bytes(cluster)),
            Incarnation(dice.u64()),
            wish.virtual_shards,
            osts.clone(),
        );
        marker::write_begun(&self, &marker)?;
        self.write_key(dice)?;
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
            home: self,
            marker,
            fresh: true,
            new_osts: osts,
            _lock: lock.kept(),
        })
    }

    /// Which OST directories the user has prepared. An initialisation that broke off is cleared away.
    fn check_empty_or_unfinished(&self) -> CliResult<BTreeSet<OstId>> {
        let begun = marker::read_begun(self)?;
        let mut prepared = BTreeSet::new();
        let mut foreign = Vec::new();
        for name in names(self.root())? {
            let path = self.root().join(&name);
            // The second is from a power cut before the first rename: nothing else was made by then.
            if name == "lost+found" || name == LOCK || name == format!("{BEGUN}.new") {
                continue;
            }
            if let Some(id) = ost_of_name(&name).filter(|_| begun.is_some() || is_empty(&path)) {
                prepared.insert(id);
            } else if begun.is_none() || !is_from_initialisation(&name) {
                foreign.push(name);
            }
        }
        if !foreign.is_empty() {
            return Err(self.explain_foreign(begun.is_some(), &foreign));
        }
        if begun.is_none() {
            return Ok(prepared);
        }
        tracing::info!(dir = %self.root().display(), "an initialisation broke off here; starting it anew");
        for id in std::mem::take(&mut prepared) {
            self.clear_ost(id)?;
        }
        remove_tree(&self.mds())?;
        remove_tree(&self.run())?;
        remove_file(&self.key())?;
        remove_file(&self.root().join(format!("{MARKER}.new")))?;
        Ok(prepared)
    }

    fn explain_foreign(&self, begun: bool, foreign: &[String]) -> CliError {
        let dir = self.root().display();
        let some: Vec<String> = foreign
            .iter()
            .take(3)
            .map(|name| format!("'{name}'"))
            .collect();
        let more = if foreign.len() > 3 { ", …" } else { "" };
        let some = some.join(", ") + more;
        if begun {
            return CliError::new(format!(
                "an initialisation of '{dir}' broke off, and since then something else came there: {some}"
            ))
            .todo("move that away and start again");
        }
        if foreign.iter().any(|name| name == "cluster.key")
            && foreign.iter().any(|name| name == "mds")
        {
            return CliError::new(format!(
                "'{dir}' looks like a gupfs store whose marker {MARKER} is missing"
            ))
            .todo(format!(
                "restore {MARKER} from a backup; nothing in the directory was changed"
            ));
        }
        CliError::new(format!(
            "'{dir}' holds no gupfs store, and is not empty: {some}"
        ))
        .todo("give an empty or new directory for the store; the mount point is what --mount names")
    }

    /// Empties what a broken initialisation left of a target that no marker lists. If objects are in it, it served once.
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
            .todo("if it belongs to another store, move it away; if not, restore gupfs.toml from a backup"));
        }
        // The directory itself may be a mount point: only what is in it goes.
        for name in names(&dir)? {
            if name != "lost+found" {
                remove_tree(&dir.join(name))?;
            }
        }
        Ok(())
    }

    /// For whoever finds the store locked. Only a hint for people: not synced, and no reason to stop.
    fn write_pid(&self) {
        if let Err(error) = std::fs::write(self.pid(), format!("{}\n", std::process::id())) {
            tracing::warn!(%error, path = %self.pid().display(), "cannot leave the pid");
        }
    }

    fn write_key(&self, dice: &Random) -> CliResult<()> {
        let mut key = [0; 32];
        dice.fill(&mut key);
        let path = self.key();
        let write = || -> std::io::Result<()> {
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)?;
            file.write_all(&key)?;
            file.sync_all()
        };
        write().map_err(|error| cannot("write", &path, &error))
    }
}

impl LockedStore {
    /// All stores are in place: from here on the directory is a store.
    pub fn finish(&self) -> CliResult<()> {
        if self.fresh || !self.new_osts.is_empty() {
            marker::write(&self.home, &self.marker)?;
        }
        marker::remove_begun(&self.home)
    }
}

/// What an initialisation makes beside the OSTs' directories.
fn is_from_initialisation(name: &str) -> bool {
    ["cluster.key", "mds", "run", BEGUN, &format!("{MARKER}.new")].contains(&name)
}

/// Any file of an object's name, at any depth: the store of an OST names data files by their object.
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
