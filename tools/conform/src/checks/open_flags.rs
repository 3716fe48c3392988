//! open(2): what the flags change that are not about making a file.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    flags()
}

fn flags() -> Vec<Check> {
    vec![
        check(
            "open/O_TRUNC-empties-the-file",
            "Size 0, no blocks, times marked.",
            |_| {
                file("f", pattern(1, 100_000))?;
                let before = stat("f")?;
                let_the_clock_tick();
                open("f", O_WRONLY | O_TRUNC, 0)?;
                let after = stat("f")?;
                same("size and blocks", (after.size, after.blocks), (0, 0))?;
                truth(
                    "mtime and ctime advance",
                    after.mtime > before.mtime && after.ctime > before.ctime,
                )
            },
        ),
        check(
            "open/O_TRUNC-with-O_CREAT-of-a-new-file",
            "There is nothing to cut.",
            |_| {
                open("f", O_CREAT | O_TRUNC | O_RDWR, 0o644)?;
                same("size", size_of_file("f")?, 0)
            },
        ),
        check(
            "open/O_TRUNC-keeps-mode-and-owner",
            "Only the bytes go.",
            |t| {
                t.needs_root()?;
                file_of(ALICE, "f", b"x", 0o640)?;
                open("f", O_CREAT | O_WRONLY | O_TRUNC, 0o777)?;
                let facts = stat("f")?;
                same(
                    "mode, owner",
                    (facts.permissions(), facts.uid),
                    (0o640, ALICE),
                )
            },
        ),
        check(
            "open/O_TRUNC-without-write-permission-says-EACCES",
            "Truncation is a write.",
            |_| {
                file_with_mode("f", b"abc", 0o644)?;
                alice_gets(|| open("f", O_RDONLY | O_TRUNC, 0))?.says(EACCES)?;
                holds("f", b"abc")
            },
        ),
        check(
            "open/O_TRUNC-is-seen-by-other-descriptors",
            "They share one file.",
            |_| {
                file("f", b"abc")?;
                let other = reopen("f", O_RDWR)?;
                same_bytes("before", &contents_of(&other)?, b"abc")?;
                open("f", O_WRONLY | O_TRUNC, 0)?;
                same("size", fstat(&other)?.size, 0)?;
                same_bytes("after", &contents_of(&other)?, b"")
            },
        ),
        check(
            "open/O_NOFOLLOW-of-a-link-says-ELOOP",
            "The last component must be no link.",
            |_| {
                file("f", b"")?;
                symlink("f", "l")?;
                open("l", O_RDONLY | O_NOFOLLOW, 0).says(ELOOP)?;
                open("f", O_RDONLY | O_NOFOLLOW, 0)?;
                Ok(())
            },
        ),
        check(
            "open/O_NOFOLLOW-follows-links-in-the-prefix",
            "Only the last component counts.",
            |_| {
                dir("d")?;
                file("d/f", b"")?;
                symlink("d", "l")?;
                open("l/f", O_RDONLY | O_NOFOLLOW, 0)?;
                Ok(())
            },
        ),
        check(
            "open/O_NOFOLLOW-with-O_DIRECTORY-of-a-link-says-ENOTDIR",
            "A link is no directory.",
            |_| {
                dir("d")?;
                symlink("d", "l")?;
                open("l", O_RDONLY | O_NOFOLLOW | O_DIRECTORY, 0).says_one_of(&[ENOTDIR, ELOOP])
            },
        ),
        check(
            "open/O_CLOEXEC-marks-the-descriptor",
            "It is closed on exec.",
            |_| {
                file("f", b"")?;
                same(
                    "with",
                    closes_on_exec(openat_inherited(CWD, "f", O_RDONLY | O_CLOEXEC, 0)?)?,
                    true,
                )?;
                same(
                    "without",
                    closes_on_exec(openat_inherited(CWD, "f", O_RDONLY, 0)?)?,
                    false,
                )
            },
        ),
        check(
            "open/status-flags-come-back",
            "F_GETFL tells access mode and status flags.",
            |_| {
                file("f", b"")?;
                let fd = open("f", O_RDWR | O_APPEND | O_NONBLOCK, 0)?;
                let found = status_flags(&fd)? & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_DSYNC);
                same("flags", found, O_RDWR | O_APPEND | O_NONBLOCK)
            },
        ),
        check(
            "open/O_APPEND-can-be-set-and-cleared-later",
            "F_SETFL changes where writes go.",
            |_| {
                file("f", b"abc")?;
                let fd = open("f", O_RDWR, 0)?;
                set_status_flags(&fd, O_APPEND)?;
                write(&fd, b"d")?;
                set_status_flags(&fd, 0)?;
                lseek(&fd, 0, SEEK_SET)?;
                write(&fd, b"A")?;
                holds("f", b"Abcd")
            },
        ),
        check(
            "open/the-lowest-free-descriptor-is-given",
            "As POSIX says of all calls that make one.",
            |_| {
                in_child(|| {
                    file("f", b"")?;
                    let (one, two) = (reopen("f", O_RDONLY)?, reopen("f", O_RDONLY)?);
                    let number = std::os::fd::AsRawFd::as_raw_fd(&one);
                    drop(one);
                    let again = reopen("f", O_RDONLY)?;
                    same("number", std::os::fd::AsRawFd::as_raw_fd(&again), number)?;
                    drop(two);
                    Ok(())
                })
            },
        ),
        check(
            "open/too-many-descriptors-say-EMFILE",
            "The limit of the process.",
            |_| {
                in_child(|| {
                    file("f", b"")?;
                    limit_descriptors(64)?;
                    let mut open = Vec::new();
                    for _ in 0..64 {
                        match reopen("f", O_RDONLY) {
                            Ok(fd) => open.push(fd),
                            answer => return answer.says(EMFILE),
                        }
                    }
                    truth(
                        "a process with a limit of 64 descriptors cannot open 64 more",
                        false,
                    )
                })
            },
        ),
        check(
            "open/O_NOATIME-by-a-stranger-says-EPERM",
            "Only the owner may read unseen.",
            |_| {
                file_with_mode("f", b"x", 0o644)?;
                alice_gets(|| open("f", O_RDONLY | O_NOATIME, 0))?.says(EPERM)
            },
        ),
        check(
            "open/O_NOATIME-leaves-atime",
            "Reading does not change it.",
            |_| {
                file("f", b"x")?;
                utimens("f", EARLY, LATER)?;
                let fd = open("f", O_RDONLY | O_NOATIME, 0)?;
                read(&fd, 1)?;
                drop(fd);
                same("atime", stat("f")?.atime, EARLY)
            },
        ),
        check(
            "open/two-opens-have-two-offsets",
            "An offset belongs to an open file description.",
            |_| {
                file("f", b"abcdef")?;
                let (one, two) = (reopen("f", O_RDONLY)?, reopen("f", O_RDONLY)?);
                same_bytes("one", &read(&one, 3)?, b"abc")?;
                same_bytes("two", &read(&two, 2)?, b"ab")?;
                same_bytes("one", &read(&one, 3)?, b"def")
            },
        ),
        check(
            "open/dup-shares-the-offset",
            "A duplicate is the same open file description.",
            |_| {
                file("f", b"abcdef")?;
                let one = reopen("f", O_RDONLY)?;
                let two = dup(&one)?;
                same_bytes("one", &read(&one, 3)?, b"abc")?;
                same_bytes("two", &read(&two, 3)?, b"def")
            },
        ),
        check(
            "open/a-forked-child-shares-the-offset",
            "A child inherits the open file description.",
            |_| {
                file("f", b"abcdef")?;
                let fd = reopen("f", O_RDONLY)?;
                in_child(|| same_bytes("child", &read(&fd, 3)?, b"abc"))?;
                same_bytes("parent", &read(&fd, 3)?, b"def")
            },
        ),
    ]
}
