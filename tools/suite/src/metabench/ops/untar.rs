//! Unpacking a tar file into the current directory, as tar does: every file with its mode and time.

use std::fs::{self, File, Permissions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tar::{Archive, Entry, EntryType};

use crate::error::{ErrorContext, SuiteResult};
use crate::latency::Laps;

/// The files, directories and bytes that unpacking made.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpacked {
    pub files: u64,
    pub directories: u64,
    pub bytes: u64,
}

pub fn untar(tar: &Path, laps: &mut Laps) -> SuiteResult<Unpacked> {
    let file = File::open(tar).doing("open the tar file", tar)?;
    let mut archive = Archive::new(BufReader::with_capacity(1 << 20, file));
    let mut made = Unpacked::default();
    let mut piece = vec![0; 128 << 10];
    for entry in archive.entries().doing("unpack", tar)? {
        let unpacked = entry.and_then(|entry| unpack(entry, &mut made, &mut piece));
        if unpacked.doing("unpack", tar)? {
            laps.lap()?;
        }
    }
    Ok(made)
}

/// Whether there is something now that was not there before.
fn unpack(mut entry: Entry<impl Read>, made: &mut Unpacked, piece: &mut [u8]) -> io::Result<bool> {
    let path = inside(&entry.path()?)?;
    match entry.header().entry_type() {
        // The top: it is where we are.
        EntryType::Directory if path.as_os_str().is_empty() => return Ok(false),
        EntryType::Directory => {
            fs::create_dir(&path)?;
            made.directories += 1;
        }
        EntryType::Symlink => {
            let target = entry.link_name()?.ok_or_else(|| bad("a link to nothing"))?;
            symlink(target, &path)?;
            made.files += 1;
        }
        EntryType::Link => {
            let target = entry.link_name()?.ok_or_else(|| bad("a link to nothing"))?;
            fs::hard_link(inside(&target)?, &path)?;
            made.files += 1;
        }
        EntryType::Regular | EntryType::Continuous => {
            made.bytes += file(&mut entry, &path, piece)?;
            made.files += 1;
        }
        // Devices, and remarks of archivers.
        _ => return Ok(false),
    }
    Ok(true)
}

fn file(entry: &mut Entry<impl Read>, path: &Path, piece: &mut [u8]) -> io::Result<u64> {
    let mode = entry.header().mode()? & 0o777;
    let mut options = File::options();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    let mut bytes = 0;
    loop {
        match entry.read(piece)? {
            0 => break,
            read => file.write_all(&piece[..read])?,
        }
        bytes = entry.header().size()?;
    }
    // The umask may have taken bits away.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.set_modified(UNIX_EPOCH + Duration::from_secs(entry.header().mtime()?))?;
    Ok(bytes)
}

/// A path that cannot lead out of the directory.
fn inside(path: &Path) -> io::Result<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            _ => return Err(bad("a path that leads out of the directory")),
        }
    }
    Ok(plain)
}

fn bad(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the tar file has {what}"),
    )
}

#[test]
fn paths_stay_inside() {
    assert_eq!(inside(Path::new("./a/b")).unwrap(), Path::new("a/b"));
    for path in ["/etc/x", "../x", "a/../../x"] {
        assert!(inside(Path::new(path)).is_err(), "{path}");
    }
}
