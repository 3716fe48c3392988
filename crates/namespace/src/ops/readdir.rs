use crate::hash::Cookie;
use crate::held;
use crate::key::{Key, KeyRange, Parsed};
use crate::record::Entry;
use crate::step::{Outcome, Stop};
use crate::view::{View, decode};
use gupfs_proto::limits::READDIR_ENTRIES_MAX;
use gupfs_proto::meta::{Answer, DirEntry};
use gupfs_proto::{InodeId, Refusal};

/// readdir(3): every entry that is there from opendir to the end comes exactly once; one that is made or removed meanwhile
/// comes or not. Cookies stay valid however the directory changes, because they are the names' hashes.
///
/// Answers at most `READDIR_ENTRIES_MAX` entries. An empty directory answers without a scan: where a million names have been
/// removed, a scan walks over what is left of them.
pub(crate) fn readdir(
    view: &mut View,
    dir: InodeId,
    after: u64,
    limit: u32,
    plus: bool,
) -> Outcome<Answer> {
    if view.inode(dir)?.directory()?.entries == 0 {
        return Ok(Answer::Entries {
            entries: Vec::new(),
            end: true,
        });
    }
    let limit = (limit as usize).clamp(1, READDIR_ENTRIES_MAX);
    let after = Cookie::decode(after);
    let (from, skip) = match after {
        None => (1, 0),
        // Entries with the same hash up to this rank were given before.
        Some(cookie) => (cookie.hash, usize::from(cookie.rank) + 1),
    };
    let records = view.scan(KeyRange::entries_from(dir, from), limit + skip)?;
    let end = records.len() < limit + skip;

    let mut entries = Vec::with_capacity(records.len());
    let mut last = Cookie { hash: 0, rank: 0 };
    for (key, value) in records {
        let Some(Parsed::Entry { hash, name, .. }) = key.parse() else {
            return Err(Refusal::StoreFailed(format!(
                "directory {:x} has the entry {key:?}",
                dir.0
            ))
            .into());
        };
        let rank = if hash == last.hash {
            last.rank.saturating_add(1)
        } else {
            0
        };
        last = Cookie { hash, rank };
        if after.is_some_and(|after| last <= after) {
            continue;
        }
        let Entry { ino, kind, .. } = decode(&key, &value)?;
        entries.push(DirEntry {
            name,
            ino,
            kind,
            cookie: last.encode(),
            attr: None,
        });
    }
    entries.truncate(limit);
    let end = end
        && entries
            .last()
            .is_none_or(|entry| entry.cookie == last.encode());
    if plus {
        add_attributes(view, &mut entries)?;
    }
    Ok(Answer::Entries { entries, end })
}

/// One trip for all inodes that are not in memory. A file that another session holds is listed without: nobody is asked to tell
/// of files that somebody perhaps only lists the names of.
fn add_attributes(view: &mut View, entries: &mut [DirEntry]) -> Result<(), Stop> {
    view.want(entries.iter().map(|entry| Key::inode(entry.ino)))?;
    for entry in entries {
        entry.attr = match view.find_inode(entry.ino)? {
            Some(inode) if !held::by_another(view, &inode)? => Some(inode.attr()),
            _ => None,
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{Entry, Key, Kind, Record};
    use gupfs_proto::meta::{Answer, Op};
    use gupfs_proto::{Caller, FileKind};
    use std::collections::BTreeSet;

    #[test]
    fn every_entry_comes_once_whatever_the_limit() {
        let mut server = Server::new(2);
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
    fn entries_with_equal_hashes_come_once_too() {
        let mut server = Server::new(1);
        // No two real names collide, so they are put there.
        for hash in [5, 6, 7] {
            for i in 0..4 {
                let entry = Entry {
                    ino: ROOT,
                    kind: FileKind::Directory,
                    born: 0,
                };
                server.records.insert(
                    Key::entry(ROOT, hash, &name(&format!("n{i}"))),
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
    fn a_cookie_stays_good_when_its_entry_and_others_go() {
        let mut server = Server::new(1);
        let root = Caller::root();
        for i in 0..20 {
            server.create(&root, ROOT, &format!("f{i}"), 0o644).unwrap();
        }
        let all = server.list(ROOT, 100);
        for entry in &all[5..10] {
            let text = entry.name.to_string();
            server.unlink(&root, ROOT, &text).unwrap();
        }
        let op = Op::Readdir {
            dir: ROOT,
            after: all[7].cookie,
            limit: 100,
            plus: false,
        };
        let Ok(Answer::Entries { entries, end }) = server.ask(&root, &op) else {
            panic!()
        };
        assert_eq!((entries, end), (all[10..].to_vec(), true));
    }

    #[test]
    fn an_empty_directory_needs_no_scan() {
        let mut server = Server::new(1);
        server.forgetful = true;
        assert_eq!(server.list(ROOT, 100), vec![]);
        // The directory's inode and the answer.
        assert_eq!(server.attempts, 2);
    }

    #[test]
    fn attributes_come_in_one_trip_more() {
        let mut server = Server::new(2);
        let root = Caller::root();
        for i in 0..30 {
            server.create(&root, ROOT, &format!("f{i}"), 0o644).unwrap();
        }
        server.forgetful = true;
        let op = Op::Readdir {
            dir: ROOT,
            after: 0,
            limit: 100,
            plus: true,
        };
        let Ok(Answer::Entries { entries, end }) = server.ask(&root, &op) else {
            panic!()
        };
        assert!(
            end && entries
                .iter()
                .all(|entry| entry.attr.is_some_and(|attr| attr.ino == entry.ino))
        );
        assert_eq!(
            (entries.len(), server.attempts, server.count(Kind::Entry)),
            (30, 4, 30)
        );
    }
}
