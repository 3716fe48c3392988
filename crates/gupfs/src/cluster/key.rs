//! The cluster's key, as a file.

use crate::exit::{Exit, Outcome, Trouble};
use gupfs_rpc::ClusterKey;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Looked for when no file is named.
const DEFAULT_KEY: &str = "/etc/gupfs/cluster.key";

/// None if no file is named and there is none in the usual place.
///
/// # Errors
/// When the file cannot be read, is not a key, or others could read it.
pub fn read_key(path: Option<&Path>) -> Outcome<Option<ClusterKey>> {
    let usual = Path::new(DEFAULT_KEY);
    match path {
        Some(path) => read(path).map(Some),
        None if usual.exists() => read(usual).map(Some),
        None => Ok(None),
    }
}

fn read(path: &Path) -> Outcome<ClusterKey> {
    let failed = |error: &std::io::Error| {
        Trouble::new(format!(
            "cannot read the cluster's key '{}'",
            path.display()
        ))
        .because(error)
        .todo("copy cluster.key from the metadata server's directory, and let root alone read it")
        .exit(Exit::Unusable)
    };
    let found = std::fs::metadata(path).map_err(|error| failed(&error))?;
    if found.mode() & 0o077 != 0 {
        return Err(Trouble::new(format!(
            "others than its owner may read the cluster's key '{}'",
            path.display()
        ))
        .todo(format!("chmod 600 '{}'", path.display()))
        .exit(Exit::Unusable));
    }
    let bytes = std::fs::read(path).map_err(|error| failed(&error))?;
    let length = bytes.len();
    let key: [u8; 32] = bytes.try_into().map_err(|_| {
        Trouble::new(format!(
            "'{}' is not a cluster's key: it has {length} bytes, and a key has 32",
            path.display()
        ))
        .exit(Exit::Unusable)
    })?;
    Ok(ClusterKey::new(key))
}
