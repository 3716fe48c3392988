//! getdents64(2): directories as streams.

use std::collections::BTreeMap;

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = listing();
    checks.extend(seeking());
    checks
}

/// Makes `count` empty files in the new directory `d`; returns their names.
pub(super) fn crowd(count: usize) -> Outcome<Vec<String>> {
    dir("d")?;
    let d = reopen("d", O_DIRECTORY)?;
    let mut all = Vec::new();
    for number in 0..count {
        // Long and short names, so that entries differ in length.
        let name = format!("{number}{}", "x".repeat(number % 40));
        openat(&d, &name, O_CREAT | O_WRONLY, 0o644)?;
        all.push(name);
    }
    all.sort();
    Ok(all)
}

fn listing() -> Vec<Check> {
    let mut checks: Vec<Check> = [0usize, 1, 2, 100, 5_000, 20_000]
        .into_iter()
        .map(|count| {
            check(
                format!("readdir/{count}-names-each-exactly-once"),
                "Every name appears once, with dot and dot-dot, whatever the buffer.",
                move |_| {
                    let expected = crowd(count)?;
                    for room in [512, 4096, 1 << 20] {
                        let d = reopen("d", O_DIRECTORY)?;
                        let mut found = Vec::new();
                        loop {
                            let some = getdents(&d, room)?;
                            if some.is_empty() {
                                break;
                            }
                            found.extend(some.into_iter().map(|entry| entry.name));
                        }
                        let mut found: Vec<_> = found
                            .into_iter()
                            .map(|name| String::from_utf8_lossy(&name).into_owned())
                            .collect();
                        found.sort();
                        let mut all: Vec<String> = expected.clone();
                        all.extend([".".into(), "..".into()]);
                        all.sort();
                        same(
                            &format!("entries with {room} bytes"),
                            found.len(),
                            all.len(),
                        )?;
                        truth("they are the names that were made", found == all)?;
                        // A small buffer over a large directory costs much and shows nothing new.
                        if count > 5_000 {
                            break;
                        }
                    }
                    Ok(())
                },
            )
        })
        .collect();
    checks.extend([
        check(
            "readdir/tells-the-type-of-every-kind",
            "d_type is the type, or unknown.",
            |_| {
                dir("d")?;
                for kind in Kind::ALL {
                    kind.make(&format!("d/{}", kind.word()))?;
                }
                let found: BTreeMap<Vec<u8>, u8> = entries("d")?
                    .into_iter()
                    .map(|entry| (entry.name, entry.kind))
                    .collect();
                for kind in Kind::ALL {
                    let told = found.get(kind.word().as_bytes()).copied();
                    truth(
                        format!("type of {} is right or unknown, not {told:?}", kind.word()),
                        told == Some(kind.entry_type()) || told == Some(DT_UNKNOWN),
                    )?;
                }
                Ok(())
            },
        ),
        check(
            "readdir/tells-the-number-that-stat-tells",
            "d_ino is st_ino, also for dot and dot-dot.",
            |_| {
                dir("d")?;
                for kind in Kind::ALL {
                    kind.make(&format!("d/{}", kind.word()))?;
                }
                for entry in entries("d")? {
                    let name = [b"d/", &entry.name[..]].concat();
                    same(
                        &String::from_utf8_lossy(&entry.name),
                        entry.ino,
                        lstat(name)?.ino,
                    )?;
                }
                Ok(())
            },
        ),
        check(
            "readdir/dot-and-dot-dot-lead-to-itself-and-its-parent",
            "Their numbers are those of the directory and its parent.",
            |_| {
                dir("d")?;
                let found: BTreeMap<Vec<u8>, u64> = entries("d")?
                    .into_iter()
                    .map(|entry| (entry.name, entry.ino))
                    .collect();
                same("dot", found.get(&b"."[..]).copied(), Some(stat("d")?.ino))?;
                same(
                    "dot-dot",
                    found.get(&b".."[..]).copied(),
                    Some(stat(".")?.ino),
                )
            },
        ),
        check(
            "readdir/long-and-strange-names-come-back",
            "255 bytes, blanks, newlines, no UTF-8.",
            |_| {
                dir("d")?;
                let mut expected: Vec<Vec<u8>> = vec![
                    vec![b'n'; 255],
                    b" ".to_vec(),
                    b"a\nb".to_vec(),
                    vec![0xff, 0xfe, 0x80],
                    b"...".to_vec(),
                ];
                for name in &expected {
                    file([b"d/", &name[..]].concat(), b"")?;
                }
                let mut found: Vec<Vec<u8>> = entries("d")?
                    .into_iter()
                    .map(|entry| entry.name)
                    .filter(|name| name != b"." && name != b"..")
                    .collect();
                found.sort();
                expected.sort();
                same("names", found, expected)
            },
        ),
        check(
            "readdir/two-streams-are-independent",
            "Each descriptor has its own place.",
            |_| {
                let names = crowd(300)?;
                let (one, two) = (reopen("d", O_DIRECTORY)?, reopen("d", O_DIRECTORY)?);
                let first = getdents(&one, 1024)?.len();
                let all = rest_of(&two)?.len();
                let rest = rest_of(&one)?.len();
                same(
                    "entries",
                    (first + rest, all),
                    (names.len() + 2, names.len() + 2),
                )
            },
        ),
        check(
            "readdir/a-duplicate-shares-the-place",
            "It is the same open file description.",
            |_| {
                let names = crowd(300)?;
                let one = reopen("d", O_DIRECTORY)?;
                let first = getdents(&one, 1024)?.len();
                let rest = rest_of(&dup(&one)?)?.len();
                same("entries", first + rest, names.len() + 2)?;
                same("left", rest_of(&one)?.len(), 0)
            },
        ),
    ]);
    checks
}

fn seeking() -> Vec<Check> {
    vec![
        check(
            "readdir/rewinding-starts-again",
            "lseek to 0 lists all names once more.",
            |_| {
                let names = crowd(500)?;
                let d = reopen("d", O_DIRECTORY)?;
                let once = rest_of(&d)?.len();
                lseek(&d, 0, SEEK_SET)?;
                same(
                    "entries",
                    (once, rest_of(&d)?.len()),
                    (names.len() + 2, names.len() + 2),
                )
            },
        ),
        check(
            "readdir/rewinding-sees-new-names-and-not-removed-ones",
            "The stream is read afresh.",
            |_| {
                crowd(50)?;
                let d = reopen("d", O_DIRECTORY)?;
                rest_of(&d)?;
                file("d/new", b"")?;
                unlink("d/0")?;
                lseek(&d, 0, SEEK_SET)?;
                let found: Vec<_> = rest_of(&d)?.into_iter().map(|entry| entry.name).collect();
                truth("the new name appears", found.contains(&b"new".to_vec()))?;
                truth("the removed name does not", !found.contains(&b"0".to_vec()))
            },
        ),
        check(
            "readdir/every-cookie-leads-back-to-what-follows-it",
            "telldir and seekdir, for 500 entries.",
            |_| {
                crowd(498)?;
                let d = reopen("d", O_DIRECTORY)?;
                let all = rest_of(&d)?;
                for at in (0..all.len()).rev().step_by(7) {
                    lseek(&d, all[at].next, SEEK_SET)?;
                    let follows = getdents(&d, 4096)?;
                    let expected = all.get(at + 1).map(|entry| &entry.name);
                    same(
                        "next name",
                        follows.first().map(|entry| &entry.name),
                        expected,
                    )?;
                }
                Ok(())
            },
        ),
        check(
            "readdir/cookies-serve-another-descriptor",
            "As an NFS server or a rewound stream needs.",
            |_| {
                crowd(200)?;
                let all = rest_of(&reopen("d", O_DIRECTORY)?)?;
                let other = reopen("d", O_DIRECTORY)?;
                for at in [0, 1, 2, 50, 100, 198] {
                    lseek(&other, all[at].next, SEEK_SET)?;
                    same(
                        "next name",
                        getdents(&other, 4096)?.first().map(|e| &e.name),
                        Some(&all[at + 1].name),
                    )?;
                }
                Ok(())
            },
        ),
        check(
            "readdir/cookies-differ-and-stay-stable-under-changes",
            "Removing and adding others moves none.",
            |_| {
                crowd(300)?;
                let d = reopen("d", O_DIRECTORY)?;
                let all = rest_of(&d)?;
                let mut cookies: Vec<i64> = all.iter().map(|entry| entry.next).collect();
                cookies.sort();
                cookies.dedup();
                same("different cookies", cookies.len(), all.len())?;
                // Remove every third name of the first half, add others, then go back to a survivor's place.
                let survivor = &all[200];
                for entry in all[..150]
                    .iter()
                    .step_by(3)
                    .filter(|entry| entry.kind != DT_DIR)
                {
                    unlink([b"d/", &entry.name[..]].concat())?;
                }
                for number in 0..100 {
                    file(format!("d/new{number}"), b"")?;
                }
                lseek(&d, survivor.next, SEEK_SET)?;
                let rest: Vec<_> = rest_of(&d)?.into_iter().map(|entry| entry.name).collect();
                for entry in &all[201..] {
                    truth(
                        format!("{} follows", String::from_utf8_lossy(&entry.name)),
                        rest.contains(&entry.name),
                    )?;
                }
                for entry in &all[..200] {
                    truth(
                        format!(
                            "{} does not come again",
                            String::from_utf8_lossy(&entry.name)
                        ),
                        !rest.contains(&entry.name),
                    )?;
                }
                Ok(())
            },
        ),
        check(
            "readdir/a-stream-at-its-end-stays-there",
            "More reads find nothing.",
            |_| {
                crowd(10)?;
                let d = reopen("d", O_DIRECTORY)?;
                rest_of(&d)?;
                same("again", getdents(&d, 4096)?, vec![])?;
                same("again", getdents(&d, 4096)?, vec![])
            },
        ),
    ]
}
