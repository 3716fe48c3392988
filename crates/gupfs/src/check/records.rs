//! Reads all records once: `gupfs_namespace::check` checks them, and the expected objects are collected.

use super::objects::Expected;
use super::progress::Progress;
use super::{CheckFault, CheckFindings};
use crate::exit::{CliError, CliResult, OrCliError};
use bytes::Bytes;
use gupfs_namespace::check::NamespaceCheck;
use gupfs_namespace::{
    Inode, KeyRange, KnownTarget, ParsedKey, Purge, Record, RecordKey, StoreFormat,
};
use gupfs_proto::VirtualShards;
use gupfs_store::kv::Kv;

/// Records that are read at a time.
const STEP: usize = 1_024;

/// The result of reading all records.
pub struct Records {
    pub findings: CheckFindings,
    pub expected: Expected,
}

impl Records {
    pub fn read(kv: &Kv, progress: &mut Progress) -> CliResult<Records> {
        let shards = shards(kv)?;
        let (mut check, mut expected) = (NamespaceCheck::new(), Expected::default());
        progress.part("records".into());
        for range in NamespaceCheck::ranges(shards) {
            each(kv, &range, |key, value| {
                progress.step();
                check.add(key, value);
                add_expected(&mut expected, key, value);
            })?;
        }
        let report = check.finish();
        let findings = CheckFindings {
            inodes: report.inodes,
            directories: report.directories,
            entries: report.entries,
            orphans: report.orphans,
            purges: report.purges,
            faults: report
                .problems
                .into_iter()
                .map(CheckFault::Record)
                .collect(),
            ..CheckFindings::default()
        };
        Ok(Records { findings, expected })
    }
}

/// The number of virtual shards of the store, from the format record.
///
/// # Errors
/// If the store has no format record.
pub fn shards(kv: &Kv) -> CliResult<VirtualShards> {
    let unreadable =
        || CliError::new("the metadata store has no format record, so it contains no names");
    let value = kv
        .get(RecordKey::format().as_bytes())
        .or_cli_error(|| "cannot read the metadata store".into())?
        .ok_or_else(unreadable)?;
    let format =
        StoreFormat::decode(&value).or_cli_error(|| "cannot read the format record".into())?;
    Ok(format.shards)
}

fn add_expected(expected: &mut Expected, key: &RecordKey, value: &Bytes) {
    match key.parse() {
        Some(ParsedKey::Inode(ino)) => expected.add_inode(ino, Inode::decode(value).ok().as_ref()),
        Some(ParsedKey::Purge(id)) => {
            if let Ok(purge) = Purge::decode(value) {
                expected.add_purge(id, &purge);
            }
        }
        Some(ParsedKey::KnownTarget(ost)) => {
            if let Ok(target) = KnownTarget::decode(value) {
                expected.add_target(ost, target);
            }
        }
        _ => {}
    }
}

/// Calls `take` for each record of a range.
///
/// # Errors
/// If the store cannot be read.
pub fn each(kv: &Kv, range: &KeyRange, mut take: impl FnMut(&RecordKey, &Bytes)) -> CliResult<()> {
    let mut from = range.from.clone();
    loop {
        let records = kv
            .scan(bytes(&from), bytes(&range.to), STEP)
            .or_cli_error(|| "cannot read the metadata store".into())?;
        let more = records.len() == STEP;
        for (key, value) in records {
            let key = RecordKey::from_bytes(&key);
            take(&key, &value);
            from = key.successor();
        }
        if !more {
            return Ok(());
        }
    }
}

pub fn bytes(key: &RecordKey) -> Bytes {
    Bytes::copy_from_slice(key.as_bytes())
}
