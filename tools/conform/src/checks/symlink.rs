//! symlink(2) and readlink(2).

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = Kind::ALL
        .into_iter()
        .map(|kind| {
            check(
                format!("symlink/onto-{}-says-EEXIST", kind.word()),
                "An existing name is never replaced.",
                move |_| {
                    kind.make("x")?;
                    symlink("t", "x").says(EEXIST)?;
                    kind.is_at("x")
                },
            )
        })
        .collect();
    checks.extend(
        [1, 59, 60, 61, 127, 255, 256, 1023, 1024, 4000, 4095]
            .into_iter()
            .map(target_of),
    );
    checks.extend(making());
    checks.extend(reading());
    checks.extend(following());
    checks
}

fn target_of(length: usize) -> Check {
    check(
        format!("symlink/target-of-{length}-bytes-comes-back"),
        "readlink returns the bytes that symlink was given; st_size is their number.",
        move |_| {
            let target: Vec<u8> = (0..length)
                .map(|at| b"abcdefghijklmnopqrstuvwxyz/"[at % 27])
                .collect();
            // XFS has room for 1,023 bytes, btrfs for less than a block.
            match symlink(&target, "l") {
                Err(refused) if refused.errno == ENAMETOOLONG && length >= 1024 => {
                    return skipped("this file system takes only shorter targets");
                }
                answer => answer?,
            }
            same_bytes("target", &readlink("l")?, &target)?;
            same("size", lstat("l")?.size, length as i64)
        },
    )
}

fn making() -> Vec<Check> {
    vec![
        check(
            "symlink/target-of-4096-bytes-says-ENAMETOOLONG",
            "PATH_MAX counts the NUL.",
            |_| {
                symlink("t".repeat(4096), "l").says(ENAMETOOLONG)?;
                gone("l")
            },
        ),
        check(
            "symlink/empty-target-says-ENOENT",
            "Linux refuses a link to nothing.",
            |_| symlink("", "l").says(ENOENT),
        ),
        check(
            "symlink/target-need-not-exist",
            "Any text is a target.",
            |_| {
                symlink("no/such/thing", "l")?;
                same("target", readlink("l")?, b"no/such/thing".to_vec())?;
                stat("l").says(ENOENT)
            },
        ),
        check(
            "symlink/target-may-be-any-bytes",
            "Also bytes that are no text.",
            |_| {
                let target: Vec<u8> = (1..=255).collect();
                symlink(&target, "l")?;
                same_bytes("target", &readlink("l")?, &target)
            },
        ),
        check(
            "symlink/mode-is-0777-whatever-the-umask",
            "Permission bits of a link are all set and unused.",
            |_| {
                umask(0o077);
                symlink("t", "l")?;
                same_mode(lstat("l")?.mode, S_IFLNK | 0o777)
            },
        ),
        check(
            "symlink/belongs-to-the-maker",
            "Owner and group are the process's effective ids.",
            |_| {
                as_alice(|| {
                    symlink("t", "l")?;
                    let facts = lstat("l")?;
                    same("owner and group", (facts.uid, facts.gid), (ALICE, ALICE))
                })
            },
        ),
        check("symlink/has-one-link", "A new file has one name.", |_| {
            symlink("t", "l")?;
            same("links", lstat("l")?.nlink, 1)
        }),
        check(
            "symlink/without-write-permission-says-EACCES",
            "The directory must be writable.",
            |_| {
                dir_with_mode("d", 0o755)?;
                alice_gets(|| symlink("t", "d/l"))?.says(EACCES)
            },
        ),
        check(
            "symlink/a-trailing-slash-in-the-name-is-refused",
            "A slash asks for a directory.",
            |_| symlink("t", "l/").says(ENOENT),
        ),
        check(
            "symlink/relative-to-a-descriptor",
            "symlinkat starts from the descriptor's directory.",
            |_| {
                dir("d")?;
                symlinkat("t", reopen("d", O_DIRECTORY)?, "l")?;
                same("target", readlink("d/l")?, b"t".to_vec())?;
                symlinkat("t", -1, "l").says(EBADF)
            },
        ),
    ]
}

fn reading() -> Vec<Check> {
    let mut checks: Vec<Check> = [Kind::File, Kind::Dir, Kind::Fifo, Kind::Socket, Kind::Char]
        .into_iter()
        .map(|kind| {
            check(
                format!("readlink/{}-says-EINVAL", kind.word()),
                "Only a symbolic link can be read.",
                move |_| {
                    kind.make("x")?;
                    readlink("x").says(EINVAL)
                },
            )
        })
        .collect();
    checks.extend([
        check(
            "readlink/a-small-buffer-cuts-the-target",
            "The bytes that fit are returned, without NUL.",
            |_| {
                symlink("abcdef", "l")?;
                same("target", readlinkat(CWD, "l", 3)?, b"abc".to_vec())
            },
        ),
        check(
            "readlink/a-buffer-of-no-bytes-says-EINVAL",
            "The size must be positive.",
            |_| {
                symlink("abcdef", "l")?;
                readlinkat(CWD, "l", 0).says(EINVAL)
            },
        ),
        check(
            "readlink/by-descriptor",
            "An O_PATH|O_NOFOLLOW descriptor and an empty name.",
            |_| {
                symlink("abcdef", "l")?;
                let l = reopen("l", O_PATH | O_NOFOLLOW)?;
                same("target", readlinkat(&l, "", 100)?, b"abcdef".to_vec())
            },
        ),
        check(
            "readlink/needs-no-permission-on-the-link",
            "Only search permission in the prefix.",
            |_| {
                symlink("abcdef", "l")?;
                as_alice(|| same("target", readlink("l")?, b"abcdef".to_vec()))
            },
        ),
    ]);
    checks
}

fn following() -> Vec<Check> {
    vec![
        check(
            "symlink/to-itself-says-ELOOP",
            "Following never ends.",
            |_| {
                symlink("l", "l")?;
                stat("l").says(ELOOP)?;
                open("l", O_RDONLY, 0).says(ELOOP)?;
                chmod("l", 0o600).says(ELOOP)?;
                truncate("l", 0).says(ELOOP)?;
                same("kind", lstat("l")?.kind(), S_IFLNK)
            },
        ),
        check(
            "symlink/creating-through-a-dangling-link-makes-the-target",
            "open(O_CREAT) follows.",
            |_| {
                dir("d")?;
                symlink("d/target", "l")?;
                open("l", O_CREAT | O_WRONLY, 0o644)?;
                Kind::File.is_at("d/target")?;
                Kind::Symlink.is_at("l")
            },
        ),
        check(
            "symlink/is-resolved-from-its-own-directory",
            "A relative target starts where the link lies.",
            |_| {
                dir("d")?;
                file("d/f", b"inside")?;
                file("f", b"outside")?;
                symlink("f", "d/l")?;
                holds("d/l", b"inside")
            },
        ),
        check(
            "symlink/moves-its-meaning-when-it-is-moved",
            "The text stays, the start changes.",
            |_| {
                dir("d")?;
                file("d/f", b"inside")?;
                file("f", b"outside")?;
                symlink("f", "l")?;
                holds("l", b"outside")?;
                rename("l", "d/l")?;
                holds("d/l", b"inside")
            },
        ),
        check(
            "symlink/follows-a-replaced-target",
            "A link names a name, not a file.",
            |_| {
                file("f", b"1")?;
                symlink("f", "l")?;
                holds("l", b"1")?;
                unlink("f")?;
                stat("l").says(ENOENT)?;
                file("f", b"2")?;
                holds("l", b"2")
            },
        ),
        check(
            "symlink/reading-it-may-change-its-atime-only",
            "Following is no change.",
            |_| {
                file("f", b"")?;
                symlink("f", "l")?;
                let before = lstat("l")?;
                let_the_clock_tick();
                readlink("l")?;
                stat("l")?;
                let after = lstat("l")?;
                same(
                    "mtime and ctime",
                    (after.mtime, after.ctime),
                    (before.mtime, before.ctime),
                )
            },
        ),
    ]
}
