//! POSIX access control lists: whom they let in, and what new files inherit.

use super::acl::{has_none, is, set};
use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = deciding();
    checks.extend(inheriting());
    checks
}

/// The caller, the list of a file of Bob's and group BOB, and what Alice (with the group in the last column, if any) may.
const DECISIONS: &[(&str, &str, &str, Option<u32>)] = &[
    (
        "a-named-user-gets-their-entry",
        "u::rw- u:65533:r-- g::--- m::rw- o::---",
        "r",
        None,
    ),
    (
        "a-named-users-entry-beats-other",
        "u::rw- u:65533:--- g::rw- m::rw- o::rw-",
        "",
        None,
    ),
    (
        "a-named-user-is-bound-by-the-mask",
        "u::rw- u:65533:rw- g::rw- m::r-- o::rw-",
        "r",
        None,
    ),
    (
        "a-named-user-is-bound-by-an-empty-mask",
        "u::rw- u:65533:rw- g::rw- m::--- o::---",
        "",
        None,
    ),
    (
        "another-named-user-is-other",
        "u::rw- u:65530:rw- g::--- m::rw- o::r--",
        "r",
        None,
    ),
    (
        "a-named-group-gets-its-entry",
        "u::rw- g::--- g:65531:rw- m::rw- o::---",
        "rw",
        Some(OTHER_GROUP),
    ),
    (
        "a-named-group-is-bound-by-the-mask",
        "u::rw- g::--- g:65531:rw- m::-w- o::---",
        "w",
        Some(OTHER_GROUP),
    ),
    (
        "a-member-whose-groups-refuse-is-not-other",
        "u::rw- g::--- g:65531:--- m::rw- o::rw-",
        "",
        Some(OTHER_GROUP),
    ),
    (
        "the-owning-group-is-bound-by-the-mask",
        "u::rw- g::rw- g:65530:rw- m::r-- o::---",
        "r",
        Some(BOB),
    ),
    (
        "the-owning-group-gets-its-entry",
        "u::rw- u:65530:rw- g::r-- m::rw- o::---",
        "r",
        Some(BOB),
    ),
    (
        "a-named-users-entry-beats-their-groups",
        "u::rw- u:65533:r-- g::--- g:65531:rw- m::rw- o::---",
        "r",
        Some(OTHER_GROUP),
    ),
    (
        "who-is-in-no-entry-is-other",
        "u::rw- u:65530:--- g::--- g:65531:--- m::--- o::rw-",
        "rw",
        None,
    ),
    (
        "other-is-not-bound-by-the-mask",
        "u::rw- u:65530:rw- g::rw- m::--- o::r--",
        "r",
        None,
    ),
];

fn deciding() -> Vec<Check> {
    let mut checks: Vec<Check> = DECISIONS
        .iter()
        .map(|(word, list, may, group)| {
            check(
                format!("acl/{word}"),
                "The first entry that fits decides: owner, named user, groups (any that grants), other.",
                move |t| {
                    t.needs_root()?;
                    file_of(BOB, "f", b"x", 0o600)?;
                    set("f", ACCESS, list)?;
                    let mut alice = User::new(ALICE);
                    alice.groups.extend(*group);
                    alice.does(|| {
                        permitted(open("f", O_RDONLY, 0), may.contains('r'))?;
                        permitted(open("f", O_WRONLY, 0), may.contains('w'))?;
                        permitted(open("f", O_RDWR, 0), *may == "rw")?;
                        permitted(access("f", R_OK), may.contains('r'))?;
                        permitted(access("f", W_OK), may.contains('w'))
                    })
                },
            )
        })
        .collect();
    checks.extend([
        check(
            "acl/two-groups-that-grant-half-each-do-not-add-up",
            "One entry must grant all that is asked.",
            |t| {
                t.needs_root()?;
                file_of(BOB, "f", b"x", 0o600)?;
                set(
                    "f",
                    ACCESS,
                    "u::rw- g::--- g:65530:r-- g:65531:-w- m::rw- o::---",
                )?;
                User::new(ALICE)
                    .with_group(65_530)
                    .with_group(OTHER_GROUP)
                    .does(|| {
                        open("f", O_RDONLY, 0)?;
                        open("f", O_WRONLY, 0)?;
                        open("f", O_RDWR, 0).says(EACCES)
                    })
            },
        ),
        check(
            "acl/the-owner-is-not-bound-by-the-mask",
            "Nor by named entries.",
            |_| {
                file_of(ALICE, "f", b"x", 0o600)?;
                set("f", ACCESS, "u::rw- u:65533:--- g::--- m::--- o::---")?;
                as_alice(|| works(open("f", O_RDWR, 0)))
            },
        ),
        check(
            "acl/chmod-takes-a-named-users-access-at-once",
            "chmod sets the mask, which binds named entries.",
            |_| {
                file_of(BOB, "f", b"x", 0o600)?;
                set("f", ACCESS, "u::rw- u:65533:rw- g::rw- m::rw- o::---")?;
                as_alice(|| holds("f", b"x"))?;
                chmod("f", 0o600)?;
                alice_gets(|| open("f", O_RDONLY, 0))?.says(EACCES)?;
                chmod("f", 0o640)?;
                as_alice(|| holds("f", b"x"))
            },
        ),
        check(
            "acl/a-list-on-a-directory-opens-the-way",
            "Search permission by a named entry.",
            |_| {
                dir_with_mode("d", 0o700)?;
                file_with_mode("d/f", b"x", 0o644)?;
                alice_gets(|| open("d/f", O_RDONLY, 0))?.says(EACCES)?;
                set("d", ACCESS, "u::rwx u:65533:--x g::--- m::--x o::---")?;
                as_alice(|| {
                    holds("d/f", b"x")?;
                    open("d", O_RDONLY | O_DIRECTORY, 0).says(EACCES)
                })
            },
        ),
        check(
            "acl/a-list-on-a-directory-grants-making-and-removing",
            "Write permission by a named entry.",
            |_| {
                dir_with_mode("d", 0o700)?;
                set("d", ACCESS, "u::rwx u:65533:rwx g::--- m::rwx o::---")?;
                as_alice(|| {
                    file("d/f", b"x")?;
                    Ok(unlink("d/f")?)
                })
            },
        ),
    ]);
    checks
}

fn inheriting() -> Vec<Check> {
    const LIST: &str = "u::rwx u:65533:rwx g::r-x m::rwx o::r--";
    vec![
        check(
            "acl/a-new-file-inherits-the-default-cut-by-its-mode",
            "Owner, mask and other are and-ed with it.",
            |_| {
                dir("d")?;
                set("d", DEFAULT, LIST)?;
                open("d/f", O_CREAT | O_WRONLY, 0o640)?;
                is("d/f", ACCESS, "u::rw- u:65533:rwx g::r-x m::r-- o::---")?;
                same_mode(stat("d/f")?.permissions(), 0o640)
            },
        ),
        check(
            "acl/the-umask-is-ignored-where-a-default-exists",
            "The default takes its place.",
            |_| {
                dir("d")?;
                set("d", DEFAULT, LIST)?;
                umask(0o077);
                open("d/f", O_CREAT | O_WRONLY, 0o666)?;
                is("d/f", ACCESS, "u::rw- u:65533:rwx g::r-x m::rw- o::r--")?;
                mkfifo("d/p", 0o666)?;
                same("mode of a fifo", stat("d/p")?.permissions(), 0o664)?;
                mkdir("d/e", 0o777)?;
                same("mode of a directory", stat("d/e")?.permissions(), 0o774)
            },
        ),
        check(
            "acl/a-new-directory-inherits-both",
            "The default as its own default, and as its access list.",
            |_| {
                dir("d")?;
                set("d", DEFAULT, LIST)?;
                mkdir("d/e", 0o750)?;
                is("d/e", DEFAULT, LIST)?;
                is("d/e", ACCESS, "u::rwx u:65533:rwx g::r-x m::r-x o::---")?;
                mkdir("d/e/g", 0o777)?;
                is("d/e/g", DEFAULT, LIST)
            },
        ),
        check(
            "acl/a-plain-default-gives-a-plain-mode",
            "No list is made of three entries.",
            |_| {
                dir("d")?;
                set("d", DEFAULT, "u::rwx g::r-- o::---")?;
                open("d/f", O_CREAT | O_WRONLY, 0o666)?;
                same_mode(stat("d/f")?.permissions(), 0o640)?;
                has_none("d/f", ACCESS)
            },
        ),
        check(
            "acl/a-symlink-inherits-nothing",
            "Links have no permissions.",
            |_| {
                dir("d")?;
                set("d", DEFAULT, LIST)?;
                symlink("t", "d/l")?;
                lgetxattr("d/l", ACCESS).says_one_of(&[ENODATA, EOPNOTSUPP])
            },
        ),
        check(
            "acl/an-unnamed-file-inherits-too",
            "O_TMPFILE in a directory with a default.",
            |_| {
                dir("d")?;
                set("d", DEFAULT, LIST)?;
                let fd = open("d", O_TMPFILE | O_RDWR, 0o640)
                    .or_skip(&[EOPNOTSUPP, EISDIR], "O_TMPFILE is optional")?;
                same(
                    "list",
                    acl_text(&fgetxattr(&fd, ACCESS)?),
                    "u::rw- u:65533:rwx g::r-x m::r-- o::---".into(),
                )
            },
        ),
        check(
            "acl/a-moved-or-linked-file-inherits-nothing",
            "Inheritance happens at creation.",
            |_| {
                dir("d")?;
                set("d", DEFAULT, LIST)?;
                file("f", b"")?;
                file("g", b"")?;
                rename("f", "d/f")?;
                link("g", "d/g")?;
                has_none("d/f", ACCESS)?;
                has_none("d/g", ACCESS)
            },
        ),
        check(
            "acl/an-inherited-entry-grants",
            "What is inherited is used.",
            |_| {
                dir_with_mode("d", 0o755)?;
                set("d", DEFAULT, LIST)?;
                open("d/f", O_CREAT | O_WRONLY, 0o660)?;
                as_alice(|| works(open("d/f", O_RDWR, 0)))?;
                alice_gets(|| chmod("d/f", 0o666))?.says(EPERM)
            },
        ),
    ]
}
