//! Verifies the files that fjall reads without a checksum of its own, before fjall opens an index.
//!
//! Owns   the check of an index's manifests, of the ends of its tables, and of the order in its journals.
//! Never  changes a file.
//! Enter  at `verify`; at `verify_tables` to read the tables as a whole.
//!
//! fjall verifies the blocks of a table when it reads them, and the entries of a journal's batch. It does not verify a
//! manifest (`vN`, although `current` has its checksum): where one is damaged it panics or allocates an arbitrary
//! amount of memory. It takes a batch's sequence number as the journal states it. Formats: fjall 3.1, lsm-tree 3.1, sfa
//! 1.0; their versions are pinned in Cargo.toml.

use super::error::IndexError;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// The trailer of an archive of sections: magic, version, kind of checksum, checksum and offset of its table of
/// contents, length.
const TRAILER: usize = 4 + 1 + 1 + 16 + 8 + 8;

/// `current`: number of the manifest, its checksum, the kind of checksum.
const CURRENT: usize = 8 + 16 + 1;

/// An archive has few sections with short names: a longer table of contents is damage.
const TOC_MAX: u64 = 64 << 10;

/// Bytes of a table read in one step.
const READ: usize = 1 << 20;

/// # Errors
/// `Damaged` names the file that does not verify. A missing index is no error.
pub fn verify(dir: &Path) -> Result<(), IndexError> {
    if !dir
        .join("version")
        .try_exists()
        .map_err(|error| unreadable(dir, &error))?
    {
        return Ok(());
    }
    for keyspace in list(&dir.join("keyspaces"))? {
        if keyspace.join("current").exists() {
            verify_keyspace(&keyspace)?;
        }
    }
    let mut journals: Vec<(u64, std::path::PathBuf)> = list(dir)?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "jnl"))
        .filter_map(|path| Some((path.file_stem()?.to_str()?.parse().ok()?, path)))
        .collect();
    journals.sort();
    let newest = journals.last().map(|(number, _)| *number);
    let mut before = None;
    for (number, path) in &journals {
        let bytes = fs::read(path).map_err(|error| unreadable(path, &error))?;
        verify_journal(&bytes, newest == Some(*number), &mut before)
            .map_err(|what| damaged(path, &what))?;
    }
    Ok(())
}

/// Reads every byte of every table. fjall reads some parts of a table only when it looks up a single key, so a scan of
/// all records does not meet their damage.
///
/// # Errors
/// `Damaged` names the first file that does not verify.
pub fn verify_tables(dir: &Path) -> Result<(), IndexError> {
    for keyspace in list(&dir.join("keyspaces"))? {
        if !keyspace.join("current").exists() {
            continue;
        }
        for (table, sum) in tables(&keyspace)? {
            let path = path_of(&keyspace, table);
            let found = checksum_of_file(&path).map_err(|error| unreadable(&path, &error))?;
            if found != sum {
                return Err(damaged(&path, "the table does not match its checksum"));
            }
        }
    }
    Ok(())
}

fn checksum_of_file(path: &Path) -> std::io::Result<u128> {
    let mut file = fs::File::open(path)?;
    let (mut hash, mut bytes) = (Xxh3::new(), vec![0; READ]);
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(hash.digest128()),
            read => hash.update(&bytes[..read]),
        }
    }
}

fn verify_keyspace(dir: &Path) -> Result<(), IndexError> {
    for table in tables(dir)?.into_keys() {
        let path = path_of(dir, table);
        let mut file = fs::File::open(&path).map_err(|error| unreadable(&path, &error))?;
        let found = read_toc(&mut file).map_err(|error| unreadable(&path, &error))?;
        let sections = found.ok_or_else(|| {
            damaged(
                &path,
                "the table of contents at the table's end does not verify",
            )
        })?;
        if !sections.iter().any(|section| section.name == b"meta") {
            return Err(damaged(&path, "the table has no 'meta' section"));
        }
    }
    Ok(())
}

fn path_of(keyspace: &Path, table: u64) -> std::path::PathBuf {
    keyspace.join("tables").join(table.to_string())
}

/// The tables of a keyspace, with their checksums, as its newest manifest lists them.
fn tables(dir: &Path) -> Result<BTreeMap<u64, u128>, IndexError> {
    let current = dir.join("current");
    let bytes = fs::read(&current).map_err(|error| unreadable(&current, &error))?;
    if bytes.len() != CURRENT || bytes[24] != 0 {
        return Err(damaged(&current, "the file does not name a manifest"));
    }
    let number = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let sum = u128::from_le_bytes(bytes[8..24].try_into().expect("sixteen bytes"));
    let manifest = dir.join(format!("v{number}"));
    let bytes = fs::read(&manifest).map_err(|error| unreadable(&manifest, &error))?;
    if xxh3_128(&bytes) != sum {
        return Err(damaged(
            &manifest,
            "the manifest does not match its checksum",
        ));
    }
    tables_of(&bytes).map_err(|what| damaged(&manifest, &what))
}

struct Section {
    name: Vec<u8>,
    at: u64,
    len: u64,
}

/// The table of contents at the end of an archive; None if it does not verify.
fn read_toc(file: &mut (impl Read + Seek)) -> std::io::Result<Option<Vec<Section>>> {
    let len = file.seek(SeekFrom::End(0))?;
    if len < TRAILER as u64 {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(len - TRAILER as u64))?;
    let mut trailer = [0; TRAILER];
    file.read_exact(&mut trailer)?;
    let mut rest = Reader(&trailer);
    let known = rest.take(6) == Some(b"SFA!\x01\0");
    let (sum, at) = (rest.u128().unwrap_or(0), rest.u64().unwrap_or(0));
    let end = len - TRAILER as u64;
    if !known || at >= end || end - at > TOC_MAX {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(at))?;
    let mut toc = vec![0; (end - at) as usize];
    file.read_exact(&mut toc)?;
    let sections = (xxh3_128(&toc) == sum)
        .then(|| sections(&toc, at))
        .flatten();
    Ok(sections)
}

/// `end`: where the sections end.
fn sections(toc: &[u8], end: u64) -> Option<Vec<Section>> {
    let mut rest = Reader(toc);
    rest.take(4)?;
    let count = rest.u32()?;
    let mut sections = Vec::new();
    for _ in 0..count {
        let (at, len, name) = (rest.u64()?, rest.u64()?, rest.u16()?);
        let name = rest.take(usize::from(name))?.to_vec();
        (at.checked_add(len)? <= end).then_some(())?;
        sections.push(Section { name, at, len });
    }
    Some(sections)
}

/// The tables that a manifest names, with their checksums.
fn tables_of(manifest: &[u8]) -> Result<BTreeMap<u64, u128>, String> {
    let broken = || "the manifest lists no tables".to_string();
    let mut file = std::io::Cursor::new(manifest);
    let sections = read_toc(&mut file).ok().flatten().ok_or_else(broken)?;
    let section = sections.iter().find(|section| section.name == b"tables");
    let section = section.ok_or_else(broken)?;
    let bytes = &manifest[section.at as usize..(section.at + section.len) as usize];
    table_sums(&mut Reader(bytes)).ok_or_else(broken)
}

fn table_sums(rest: &mut Reader) -> Option<BTreeMap<u64, u128>> {
    let mut found = BTreeMap::new();
    for _level in 0..rest.u8()? {
        for _run in 0..rest.u8()? {
            for _table in 0..rest.u32()? {
                let (table, _kind_of_sum) = (rest.u64()?, rest.u8()?);
                found.insert(table, rest.u128()?);
                rest.take(8)?; // sequence number
            }
        }
    }
    Some(found)
}

/// Verifies that batches have rising sequence numbers. `before` is the last number in the journals before this one.
///
/// After a crash the newest journal may end within a batch: fjall drops that batch and all after it, and the log
/// replays them.
fn verify_journal(bytes: &[u8], newest: bool, before: &mut Option<u64>) -> Result<(), String> {
    let mut rest = Reader(bytes);
    while !rest.0.is_empty() {
        let Some(seqno) = batch(&mut rest) else {
            let blank = rest.0.iter().all(|byte| *byte == 0);
            let at = bytes.len() - rest.0.len();
            return match newest || blank {
                true => Ok(()),
                false => Err(format!("the batch before offset {at} does not verify")),
            };
        };
        if before.is_some_and(|before| seqno <= before) {
            return Err(format!("batch {seqno} is out of order"));
        }
        *before = Some(seqno);
    }
    Ok(())
}

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;

/// Reads one batch and returns its sequence number, if the batch verifies. Otherwise the reader stays at the start of
/// the batch.
fn batch(rest: &mut Reader) -> Option<u64> {
    let mut ahead = Reader(rest.0);
    if ahead.u8()? != START {
        return None;
    }
    let (count, seqno) = (ahead.u32()?, ahead.u64()?);
    let mut hash = Xxh3::new();
    let mut found = 0u32;
    loop {
        let begin = ahead.0;
        match ahead.u8()? {
            ITEM => {
                ahead.take(1 + 1 + 8)?; // kind of value, compression, keyspace
                let (key, _, stored) = (ahead.u16()?, ahead.u32()?, ahead.u32()?);
                ahead.take(usize::from(key))?;
                ahead.take(stored as usize)?;
            }
            CLEAR => {
                ahead.take(8)?;
            }
            END => {
                let sum = ahead.u64()?;
                let whole = ahead.take(4)? == b"FJL\x03" && sum == hash.digest();
                (whole && found == count).then_some(())?;
                *rest = ahead;
                return Some(seqno);
            }
            _ => return None,
        }
        hash.update(&begin[..begin.len() - ahead.0.len()]);
        found += 1;
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }
}

fn list(dir: &Path) -> Result<Vec<std::path::PathBuf>, IndexError> {
    let entries = fs::read_dir(dir).map_err(|error| unreadable(dir, &error))?;
    let paths: std::io::Result<Vec<_>> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    paths.map_err(|error| unreadable(dir, &error))
}

fn damaged(path: &Path, what: &str) -> IndexError {
    IndexError::Damaged(format!("'{}': {what}", path.display()))
}

fn unreadable(path: &Path, error: &std::io::Error) -> IndexError {
    damaged(path, &format!("the file cannot be read: {error}"))
}
