use crate::driver::{OpError, OpResult};
use crate::hash::ReaddirCookie;
use crate::key::{KeyRange, ParsedKey, RecordKey};
use crate::record::EntryRecord;
use crate::requester::RequestingSession;
use crate::steps::write_lease;
use crate::view::{ReadView, decode};
use bytes::Bytes;
use gupfs_proto::limits::READDIR_ENTRIES_MAX;
use gupfs_proto::meta::{DirEntry, MetaReplyBody};
use gupfs_proto::{FsError, InodeId};

/// readdir(3): returns every entry that exists from opendir to the end exactly once; an entry that is created or removed
/// meanwhile may or may not be returned. Cookies stay valid however the directory changes, because they are the names' hashes.
///
/// Returns at most `READDIR_ENTRIES_MAX` entries. An empty directory needs no scan: where a million names have been removed, a
/// scan would walk over their tombstones.
pub(crate) fn readdir(
    view: &mut ReadView,
    session: &RequestingSession,
    dir: InodeId,
    after: u64,
    limit: u32,
    plus: bool,
) -> OpResult<MetaReplyBody> {
    if view.inode(dir)?.directory()?.entries == 0 {
        return Ok(MetaReplyBody::Entries {
            entries: Vec::new(),
            end: true,
        });
    }
    let limit = (limit as usize).clamp(1, READDIR_ENTRIES_MAX);
    let after = ReaddirCookie::decode(after);
    let (from, skip) = match after {
        None => (1, 0),
        // Entries with the same hash up to this rank were returned before.
        Some(cookie) => (cookie.hash, usize::from(cookie.rank) + 1),
    };
    let records = view.scan(KeyRange::entries_from_hash(dir, from), limit + skip)?;
    let end = records.len() < limit + skip;

    let (mut entries, last) = decode_entries(dir, after, records)?;
    entries.truncate(limit);
    let end = end
        && entries
            .last()
            .is_none_or(|entry| entry.cookie == last.encode());
    if plus {
        add_attributes(view, session, &mut entries)?;
    }
    Ok(MetaReplyBody::Entries { entries, end })
}

/// The entries after the cookie, and the cookie of the last record.
fn decode_entries(
    dir: InodeId,
    after: Option<ReaddirCookie>,
    records: Vec<(RecordKey, Bytes)>,
) -> OpResult<(Vec<DirEntry>, ReaddirCookie)> {
    let mut entries = Vec::with_capacity(records.len());
    let mut last = ReaddirCookie { hash: 0, rank: 0 };
    for (key, value) in records {
        let Some(ParsedKey::Entry { hash, name, .. }) = key.parse() else {
            return Err(FsError::StoreFailed(format!(
                "directory {:x} has an entry with an invalid key, {key:?}: run gupfs check",
                dir.0
            ))
            .into());
        };
        let rank = if hash == last.hash {
            last.rank.saturating_add(1)
        } else {
            0
        };
        last = ReaddirCookie { hash, rank };
        if after.is_some_and(|after| last <= after) {
            continue;
        }
        let EntryRecord { ino, kind, .. } = decode(&key, &value)?;
        entries.push(DirEntry {
            name,
            ino,
            kind,
            cookie: last.encode(),
            attr: None,
        });
    }
    Ok((entries, last))
}

/// One fetch for all inodes that are not in memory. A file with a write lease of another session is listed without attributes:
/// readdir sends no glimpse callbacks, since the program may only want the names.
fn add_attributes(
    view: &mut ReadView,
    session: &RequestingSession,
    entries: &mut [DirEntry],
) -> Result<(), OpError> {
    view.prefetch(entries.iter().map(|entry| RecordKey::inode(entry.ino)))?;
    for entry in entries {
        entry.attr = match view.find_inode(entry.ino)? {
            Some(inode) if !write_lease::is_leased_by_other(view, session, &inode)? => {
                Some(inode.attr())
            }
            _ => None,
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{EntryRecord, Record, RecordKey, RecordKind};
    use gupfs_proto::meta::{MetaOp, MetaReplyBody};
    use gupfs_proto::{Caller, FileKind};
    use std::collections::BTreeSet;

    #[test]
    fn every_entry_is_listed_once_for_any_limit() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        for i in 0..50 {
            server.create(&root, ROOT, &format!("f{i}"), 0o644).unwrap();
        }
        for limit in [1, 7, 49, 50, 51, 10_000] {
            let listed = server.list(ROOT, limit);
            let names: BTreeSet<_> = listed.iter().map(|entry| entry.name.clone()).collect();
            assert_eq!((listed.len(), names.len()), (50, 50));
            assert!(
                listed
                    .windows(2)
                    .all(|pair| pair[0].cookie < pair[1].cookie)
            );
        }
    }

    #[test]
    fn entries_with_equal_hashes_are_listed_once_too() {
        let mut server = TestServer::new(1);
        // No two real names collide, so the test inserts such entries itself.
        for hash in [5, 6, 7] {
            for i in 0..4 {
                let entry = EntryRecord {
                    ino: ROOT,
                    kind: FileKind::Directory,
                    birth_snapshot: 0,
                };
                server.records.insert(
                    RecordKey::entry(ROOT, hash, &name(&format!("n{i}"))),
                    entry.encode(),
                );
            }
        }
        server.edit(ROOT, |inode| inode.directory_mut().unwrap().entries = 12);
        for limit in 1..14 {
            let cookies: Vec<u64> = server
                .list(ROOT, limit)
                .iter()
                .map(|entry| entry.cookie)
                .collect();
            let expected: Vec<u64> = (5..8)
                .flat_map(|hash| (0..4).map(move |rank| hash << 8 | rank))
                .collect();
            assert_eq!(cookies, expected, "limit {limit}");
        }
    }

    #[test]
    fn a_cookie_stays_valid_when_its_entry_and_others_are_removed() {
        let mut server = TestServer::new(1);
        let root = Caller::root();
        for i in 0..20 {
            server.create(&root, ROOT, &format!("f{i}"), 0o644).unwrap();
        }
        let all = server.list(ROOT, 100);
        for entry in &all[5..10] {
            let text = entry.name.to_string();
            server.unlink(&root, ROOT, &text).unwrap();
        }
        let op = MetaOp::Readdir {
            dir: ROOT,
            after: all[7].cookie,
            limit: 100,
            plus: false,
        };
        let Ok(MetaReplyBody::Entries { entries, end }) = server.request(&root, &op) else {
            panic!()
        };
        assert_eq!((entries, end), (all[10..].to_vec(), true));
    }

    #[test]
    fn an_empty_directory_needs_no_scan() {
        let mut server = TestServer::new(1);
        server.cold_cache = true;
        assert_eq!(server.list(ROOT, 100), vec![]);
        // The directory's inode and the reply.
        assert_eq!(server.attempts, 2);
    }

    #[test]
    fn attributes_cost_one_more_fetch() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        for i in 0..30 {
            server.create(&root, ROOT, &format!("f{i}"), 0o644).unwrap();
        }
        server.cold_cache = true;
        let op = MetaOp::Readdir {
            dir: ROOT,
            after: 0,
            limit: 100,
            plus: true,
        };
        let Ok(MetaReplyBody::Entries { entries, end }) = server.request(&root, &op) else {
            panic!()
        };
        assert!(
            end && entries
                .iter()
                .all(|entry| entry.attr.is_some_and(|attr| attr.ino == entry.ino))
        );
        assert_eq!(
            (
                entries.len(),
                server.attempts,
                server.count(RecordKind::Entry)
            ),
            (30, 4, 30)
        );
    }
}
