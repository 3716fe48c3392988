//! When setuid and setgid bits fall, what new files inherit, what the sticky bit forbids, what the umask takes.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = clearing();
    checks.extend(inheriting());
    checks
}

/// A change by a user without privileges, of a file that all users may write to.
type Change = (&'static str, fn() -> Outcome);

const CHANGES: &[Change] = &[
    ("write", || works(write(reopen("f", O_WRONLY)?, b"x"))),
    ("append", || {
        works(write(reopen("f", O_WRONLY | O_APPEND)?, b"x"))
    }),
    ("truncate", || Ok(truncate("f", 1)?)),
    ("ftruncate", || Ok(ftruncate(reopen("f", O_WRONLY)?, 1)?)),
    ("open-with-O_TRUNC", || {
        works(reopen("f", O_WRONLY | O_TRUNC))
    }),
    ("fallocate", || {
        fallocate(reopen("f", O_WRONLY)?, 0, 0, 9_000).or_skip(&[EOPNOTSUPP], "optional")
    }),
    ("copy_file_range", || {
        works(copy_file_range(
            reopen("source", O_RDONLY)?,
            None,
            reopen("f", O_WRONLY)?,
            None,
            3,
            0,
        ))
    }),
];

fn clearing() -> Vec<Check> {
    let mut checks = Vec::new();
    for (word, change) in CHANGES {
        checks.push(check(
            format!("setuid/{word}-by-a-stranger-clears-setuid-and-setgid"),
            "Who changes a program without privileges does not inherit its owner's.",
            move |_| {
                file("source", b"abc")?;
                file_of(BOB, "f", b"program", 0o6777)?;
                // The kernel must forget this look, too.
                same_mode(stat("f")?.permissions(), 0o6777)?;
                as_alice(change)?;
                same_mode(stat("f")?.permissions(), 0o777)
            },
        ));
        checks.push(check(
            format!("setuid/{word}-by-the-owner-clears-setuid-and-setgid"),
            "Also the owner, when not privileged.",
            move |_| {
                file("source", b"abc")?;
                file_of(ALICE, "f", b"program", 0o6755)?;
                same_mode(stat("f")?.permissions(), 0o6755)?;
                as_alice(change)?;
                same_mode(stat("f")?.permissions(), 0o755)
            },
        ));
        checks.push(check(
            format!("setuid/{word}-by-root-keeps-them"),
            "The superuser knows what they do.",
            move |t| {
                t.needs_root()?;
                file("source", b"abc")?;
                file_of(ALICE, "f", b"program", 0o6755)?;
                change()?;
                same_mode(stat("f")?.permissions(), 0o6755)
            },
        ));
        checks.push(check(
            format!("setuid/{word}-keeps-setgid-without-group-execute"),
            "Setgid without the group's x bit was a mark for mandatory locking and is no privilege.",
            move |_| {
                file("source", b"abc")?;
                file_of(ALICE, "f", b"program", 0o2744)?;
                as_alice(change)?;
                same_mode( stat("f")?.permissions(), 0o2744)
            },
        ));
    }
    checks.extend([
        check(
            "setuid/fallocate-by-who-is-not-of-the-group-clears-setgid-without-group-execute",
            "As any change by somebody who could not have set the bit.",
            |_| {
                file_of(BOB, "f", b"program", 0o6666)?;
                same_mode(stat("f")?.permissions(), 0o6666)?;
                as_alice(|| {
                    fallocate(reopen("f", O_WRONLY)?, 0, 0, 9_000)
                        .or_skip(&[EOPNOTSUPP], "optional")
                })?;
                same_mode(stat("f")?.permissions(), 0o666)
            },
        ),
        check(
            "setuid/fallocate-by-the-owner-clears-capabilities",
            "Bytes that somebody without privileges changed do not run with any.",
            |t| {
                t.needs_root()?;
                const NAME: &str = "security.capability";
                // Revision 2: cap_net_raw, effective.
                let mut capability = [0; 20];
                capability[..8].copy_from_slice(&[1, 0, 0, 2, 0, 32, 0, 0]);
                file_of(ALICE, "f", b"program", 0o755)?;
                setxattr("f", NAME, capability, 0).or_skip(&[EOPNOTSUPP, EPERM], "optional")?;
                works(getxattr("f", NAME))?;
                as_alice(|| {
                    fallocate(reopen("f", O_WRONLY)?, 0, 0, 9_000)
                        .or_skip(&[EOPNOTSUPP], "optional")
                })?;
                getxattr("f", NAME).says(ENODATA)
            },
        ),
        check(
            "setuid/chown-clears-both-of-an-executable",
            "For root too, on Linux.",
            |t| {
                t.needs_root()?;
                file_of(ALICE, "f", b"", 0o6755)?;
                chown("f", BOB, BOB)?;
                same_mode(stat("f")?.permissions(), 0o755)
            },
        ),
        check(
            "setuid/chown-to-an-own-group-by-the-owner-clears-both",
            "Not only user changes.",
            |t| {
                t.needs_root()?;
                file_of(ALICE, "f", b"", 0o6755)?;
                User::new(ALICE)
                    .with_group(OTHER_GROUP)
                    .does(|| Ok(chown("f", KEEP, OTHER_GROUP)?))?;
                same_mode(stat("f")?.permissions(), 0o755)
            },
        ),
        check(
            "setuid/chown-keeps-setgid-without-group-execute",
            "It is no privilege there.",
            |t| {
                t.needs_root()?;
                file_of(ALICE, "f", b"", 0o2744)?;
                chown("f", BOB, BOB)?;
                same_mode(stat("f")?.permissions(), 0o2744)
            },
        ),
        check(
            "setuid/chown-keeps-a-directorys-setgid",
            "There it means inheritance.",
            |t| {
                t.needs_root()?;
                dir_of(ALICE, "d", 0o2755)?;
                chown("d", BOB, BOB)?;
                same_mode(stat("d")?.permissions(), 0o2755)
            },
        ),
        check(
            "setuid/a-refused-write-clears-nothing",
            "What was not written clears no bits.",
            |_| {
                file_of(BOB, "f", b"program", 0o6755)?;
                alice_gets(|| open("f", O_WRONLY, 0))?.says(EACCES)?;
                alice_gets(|| truncate("f", 0))?.says(EACCES)?;
                same_mode(stat("f")?.permissions(), 0o6755)
            },
        ),
        check(
            "setuid/a-shared-mappings-first-store-may-clear-them",
            "Bytes change; the bits are never gained.",
            |_| {
                file_of(BOB, "f", pattern(1, 4096), 0o6777)?;
                as_alice(|| {
                    let map = mmap(
                        reopen("f", O_RDWR)?,
                        0,
                        4096,
                        PROT_READ | PROT_WRITE,
                        MAP_SHARED,
                    )?;
                    map.store(0, b"x");
                    Ok(map.sync(MS_SYNC)?)
                })?;
                let mode = stat("f")?.permissions();
                truth(
                    format!("mode {mode:o} is 6777 or 777"),
                    [0o6777, 0o777].contains(&mode),
                )
            },
        ),
    ]);
    checks
}

fn inheriting() -> Vec<Check> {
    let mut checks: Vec<Check> = Kind::ALL
        .into_iter()
        .filter(|kind| !matches!(kind, Kind::Char | Kind::Block))
        .map(|kind| {
            check(
                format!("setgid-directory/a-new-{}-gets-its-group", kind.word()),
                "Files made in a setgid directory belong to its group; directories inherit the bit.",
                move |t| {
                    t.needs_root()?;
                    dir_of(BOB, "d", 0o777)?;
                    chown("d", BOB, OTHER_GROUP)?;
                    chmod("d", 0o2777)?;
                    as_alice(|| match kind {
                        // Not by chmod, which would clear the bit for a user who is no member of the group.
                        Kind::Dir => Ok(mkdir("d/x", 0o755)?),
                        _ => kind.make("d/x"),
                    })?;
                    let facts = lstat("d/x")?;
                    same("owner and group", (facts.uid, facts.gid), (ALICE, OTHER_GROUP))?;
                    same("setgid", facts.mode & S_ISGID != 0, kind == Kind::Dir)
                },
            )
        })
        .collect();
    checks.extend([
        check(
            "setgid-directory/a-plain-directory-gives-the-makers-group",
            "Without the bit.",
            |t| {
                t.needs_root()?;
                dir_of(BOB, "d", 0o777)?;
                as_alice(|| file("d/f", b""))?;
                same("group", stat("d/f")?.gid, ALICE)
            },
        ),
        check(
            "setgid-directory/drops-setgid-of-a-foreign-groups-program",
            "Made by who is no member.",
            |t| {
                t.needs_root()?;
                dir_of(BOB, "d", 0o777)?;
                chown("d", BOB, OTHER_GROUP)?;
                chmod("d", 0o2777)?;
                as_alice(|| works(open("d/f", O_CREAT | O_WRONLY, 0o2755)))?;
                same(
                    "mode, group",
                    (stat("d/f")?.permissions(), stat("d/f")?.gid),
                    (0o755, OTHER_GROUP),
                )
            },
        ),
        check(
            "setgid-directory/inheritance-goes-down-the-tree",
            "Directory in directory in directory.",
            |t| {
                t.needs_root()?;
                dir_of(BOB, "d", 0o777)?;
                chown("d", BOB, OTHER_GROUP)?;
                chmod("d", 0o2777)?;
                as_alice(|| {
                    mkdir("d/a", 0o755)?;
                    mkdir("d/a/b", 0o755)?;
                    file("d/a/b/f", b"")
                })?;
                same("group", stat("d/a/b/f")?.gid, OTHER_GROUP)?;
                same_mode(stat("d/a/b")?.permissions(), 0o2755)
            },
        ),
    ]);
    checks
}
