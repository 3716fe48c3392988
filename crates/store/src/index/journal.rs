//! The engine's journal, which is never read back: emptied before each start.

use super::error::IndexError;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Beside the engine's own files: from this index's journal nothing is needed. Its text is for whoever looks.
const NOTE: &str = "journal-unused";
const TEXT: &str = "gupfs empties the journal here at each start and applies its own log again.\n";

/// Whether the tables of this index are all that is needed of it; false for a new one, and for one that a former version
/// made.
pub fn is_unused(dir: &Path) -> Result<bool, IndexError> {
    dir.join(NOTE).try_exists().map_err(failed("look for", dir))
}

/// Durable when it returns.
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

/// Removes all of the journal but its last file, which stays empty: from an index without any the engine would not learn
/// the number of its newest record. Nothing is synced: what a power cut brings back is emptied by the next start.
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
            Err(error) => Err(failed("make", &first)(error)),
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
