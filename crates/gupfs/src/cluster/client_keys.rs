//! The list of client keys of a metadata store: which hosts may mount. It does not contain the keys: the server derives each from the
//! cluster key.

use crate::exit::{CliError, CliResult};
use crate::store_dir::StoreDir;
use gupfs_proto::Timestamp;
use gupfs_rpc::{ClientKeyId, ClientKeyList, ClientKeyOptions};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const FORMAT: &str = "gupfs client keys";
const VERSION: u32 = 1;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyList {
    format: String,
    version: u32,
    #[serde(default, rename = "key")]
    pub keys: Vec<KeyListEntry>,
}

/// One key. A revoked key stays in the list, so that `gupfs key list` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyListEntry {
    pub name: String,
    number: String,
    /// Seconds since 1970.
    pub made: i64,
    /// Whether root of this host is root of the file system.
    pub root: bool,
    pub revoked: Option<i64>,
}

impl KeyListEntry {
    fn matches(&self, key: &ClientKeyId) -> bool {
        self.name == key.name && u64::from_str_radix(&self.number, 16) == Ok(key.number)
    }
}

impl KeyList {
    fn empty() -> KeyList {
        KeyList {
            format: FORMAT.into(),
            version: VERSION,
            keys: Vec::new(),
        }
    }

    fn parse(text: &str) -> Result<KeyList, String> {
        let list: KeyList = toml::from_str(text).map_err(|error| error.message().to_string())?;
        if list.format != FORMAT {
            return Err(format!("its format is '{}'", list.format));
        }
        match list.version {
            VERSION => Ok(list),
            other => Err(format!(
                "it has version {other}, and this program reads version {VERSION}"
            )),
        }
    }

    /// # Errors
    /// If the file exists and cannot be read: then the server refuses all client keys.
    pub fn read(path: &Path) -> Result<KeyList, String> {
        match std::fs::read_to_string(path) {
            Ok(text) => KeyList::parse(&text),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(KeyList::empty()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn find(&self, key: &ClientKeyId) -> Result<ClientKeyOptions, String> {
        match self.keys.iter().find(|listed| listed.matches(key)) {
            None => Err("it is not in the list of this cluster's client keys (`gupfs key list`); make another with `gupfs key client`".into()),
            Some(listed) if listed.revoked.is_some() => Err("it was revoked".into()),
            Some(listed) => Ok(ClientKeyOptions { root: listed.root }),
        }
    }

    /// The key of this name that is not revoked; there is at most one.
    pub fn active(&mut self, name: &str) -> Option<&mut KeyListEntry> {
        let mut active = self.keys.iter_mut().filter(|key| key.revoked.is_none());
        active.find(|key| key.name == name)
    }

    pub fn add(&mut self, of: &ClientKeyId, options: ClientKeyOptions, now: Timestamp) {
        self.keys.push(KeyListEntry {
            name: of.name.clone(),
            number: format!("{:016x}", of.number),
            made: now.secs,
            root: options.root,
            revoked: None,
        });
    }
}

/// Changes the list with `change`, one process at a time. A running server sees the change within a second.
///
/// # Errors
/// If the list cannot be read or written, or `change` refuses.
pub fn change_list<T>(
    store_dir: &StoreDir,
    change: impl FnOnce(&mut KeyList) -> CliResult<T>,
) -> CliResult<T> {
    let path = store_dir.client_keys();
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        CliError::new(format!("cannot {what} the list of client keys '{}': {error}", path.display()))
            .todo("run as the user that owns the store, or as root; restore a damaged list from a backup of the store")
    };
    // Only its owner can open the lock file, so no other user can make this command wait.
    let lock = open_secret(&path.with_extension("lock")).map_err(|error| failed("lock", &error))?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed("lock", &error))?;
    let mut list = KeyList::read(&path).map_err(|why| failed("read", &why))?;
    let changed = change(&mut list)?;
    let list = toml::to_string(&list).expect("a list has only values that TOML has");
    let text = format!(
        "# The hosts that may mount, by their client keys. `gupfs key` writes this file: do not edit.\n\n{list}"
    );
    replace_key_list(&path, text.as_bytes()).map_err(|error| failed("write", &error))?;
    Ok(changed)
}

/// Replaces the list, as a whole: after a power loss it is the former or the new one.
///
/// # Errors
/// Those of its file and directory.
pub fn replace_key_list(path: &Path, list: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = open_secret(&temporary)?;
    file.set_len(0)?;
    file.write_all(list)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    File::open(path.parent().unwrap_or(path))?.sync_all()
}

/// A file that only its owner can read; made if it does not exist.
fn open_secret(path: &Path) -> std::io::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.open(path)
}

/// The list in a running server, which reads the file again whenever it has changed.
pub struct KeyListFile {
    path: PathBuf,
    known: Mutex<CachedKeyList>,
}

struct CachedKeyList {
    /// (inode, size, ctime in seconds and nanoseconds); None if there is no file.
    version: Option<(u64, u64, i64, i64)>,
    list: Result<KeyList, String>,
}

impl KeyListFile {
    pub fn of(store_dir: &StoreDir) -> KeyListFile {
        let path = store_dir.client_keys();
        // The version first: if the file changes between the two calls, the next lookup notices.
        let version = version(&path);
        let list = KeyList::read(&path);
        KeyListFile {
            path,
            known: Mutex::new(CachedKeyList { version, list }),
        }
    }
}

fn version(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.ino(), found.size(), found.ctime(), found.ctime_nsec()))
}

impl ClientKeyList for KeyListFile {
    fn find(&self, key: &ClientKeyId) -> Result<ClientKeyOptions, String> {
        let mut known = self.known.lock();
        let now = version(&self.path);
        if now != known.version {
            *known = CachedKeyList {
                version: now,
                list: KeyList::read(&self.path),
            };
            if let Err(why) = &known.list {
                tracing::error!(path = %self.path.display(), why, "the list of client keys cannot be read; the server refuses all client keys");
            }
        }
        match &known.list {
            Ok(list) => list.find(key),
            Err(_) => Err("the server cannot read its list of client keys".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_list_is_read_again_and_a_damaged_one_refuses_all_keys() {
        let dir = tempfile::tempdir().unwrap();
        let store_dir = StoreDir::at(dir.path()).unwrap();
        let file = KeyListFile::of(&store_dir);
        let of = ClientKeyId {
            name: "node7".into(),
            number: 5,
        };
        assert!(file.find(&of).unwrap_err().contains("not in the list"));
        let now = Timestamp::new(7, 0);
        let root = ClientKeyOptions { root: true };
        change_list(&store_dir, |list| {
            list.add(&of, root, now);
            Ok(())
        })
        .unwrap();
        assert_eq!(file.find(&of), Ok(root));
        change_list(&store_dir, |list| {
            list.active("node7").unwrap().revoked = Some(8);
            Ok(())
        })
        .unwrap();
        assert_eq!(file.find(&of).unwrap_err(), "it was revoked");
        // A new key with the same name is another key.
        let again = ClientKeyId {
            number: 6,
            ..of.clone()
        };
        change_list(&store_dir, |list| {
            list.add(&again, root, now);
            Ok(())
        })
        .unwrap();
        assert_eq!(file.find(&again), Ok(root));
        assert!(file.find(&of).is_err());
        std::fs::write(
            store_dir.client_keys(),
            "format = \"gupfs client keys\"\nversion = 9\n",
        )
        .unwrap();
        assert!(file.find(&again).unwrap_err().contains("cannot read"));
    }
}
