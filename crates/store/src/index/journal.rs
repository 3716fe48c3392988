//! The engine's journal, which is never read back: each start empties it.

use super::error::IndexError;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// A file beside the engine's files. It says that nothing in the journal of this index is needed; its text is for an
/// administrator.
const NOTE: &str = "journal-unused";
const TEXT: &str = "gupfs empties the journal here at each start and applies its own log again.\n";

/// Whether the tables of this index suffice without the journal; false for a new index and for one of a former version.
pub fn is_unused(dir: &Path) -> Result<bool, IndexError> {
    dir.join(NOTE).try_exists().map_err(failed("look for", dir))
}

/// Writes the note; it is durable when this returns.
pub fn note_unused(dir: &Path) -> Result<(), IndexError> {
    let note = dir.join(NOTE);
    if note.try_exists().map_err(failed("look for", &note))? {
        return Ok(());
    }
    fs::write(&note, TEXT).map_err(failed("write", &note))?;
    let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all());
    sync(&note).map_err(failed("sync", &note))?;
    sync(dir).map_err(failed("sync", dir))
}

/// Removes all journal files but the last, which stays empty: without any journal file the engine would not learn the
/// number of its newest record. Nothing is synced: if a power loss brings files back, the next start empties them.
pub fn empty(dir: &Path) -> Result<(), IndexError> {
    let mut parts: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed("list", dir))? {
        let entry = entry.map_err(failed("list", dir))?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".jnl"));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            parts.push((number, entry.path()));
        }
    }
    parts.sort_unstable();
    let Some((_, last)) = parts.pop() else {
        let first = dir.join("0.jnl");
        return match File::create_new(&first) {
            Ok(_) => Ok(()),
            Err(error) => Err(failed("create", &first)(error)),
        };
    };
    for (_, part) in parts {
        fs::remove_file(&part).map_err(failed("remove", &part))?;
    }
    let file = OpenOptions::new().write(true).open(&last);
    file.and_then(|file| file.set_len(0))
        .map_err(failed("empty", &last))
}

fn failed<'a>(what: &'a str, path: &'a Path) -> impl Fn(io::Error) -> IndexError + 'a {
    move |error| IndexError::Engine(format!("cannot {what} '{}': {error}", path.display()))
}
