//! link(2): one more name for the same file.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = [
        Kind::File,
        Kind::Symlink,
        Kind::Fifo,
        Kind::Socket,
        Kind::Char,
        Kind::Block,
    ]
    .into_iter()
    .map(|kind| {
        check(
            format!("link/gives-a-{}-a-second-name", kind.word()),
            "Both names refer to one file, whose link count is 2.",
            move |_| {
                kind.make("a")?;
                link("a", "b")?;
                same("identity", lstat("b")?.identity(), lstat("a")?.identity())?;
                same("links", lstat("a")?.nlink, 2)?;
                unlink("a")?;
                kind.is_at("b")?;
                same("links", lstat("b")?.nlink, 1)
            },
        )
    })
    .collect();
    checks.extend(Kind::ALL.into_iter().map(|kind| {
        check(
            format!("link/onto-{}-says-EEXIST", kind.word()),
            "An existing name is never replaced; a symbolic link is not followed.",
            move |_| {
                file("f", b"")?;
                kind.make("x")?;
                link("f", "x").says(EEXIST)?;
                kind.is_at("x")?;
                same("links", stat("f")?.nlink, 1)
            },
        )
    }));
    checks.extend(plain());
    checks.extend(flags());
    checks.extend(permissions());
    checks
}

fn plain() -> Vec<Check> {
    vec![
        check(
            "link/writes-through-one-name-show-through-the-other",
            "It is one file.",
            |_| {
                file("a", b"1")?;
                link("a", "b")?;
                pwrite(reopen("a", O_WRONLY)?, b"222", 0)?;
                holds("b", b"222")?;
                truncate("b", 1)?;
                holds("a", b"2")?;
                chmod("b", 0o600)?;
                same_mode(stat("a")?.permissions(), 0o600)
            },
        ),
        check(
            "link/into-another-directory",
            "Names of one file may lie anywhere in the file system.",
            |_| {
                dir("d")?;
                dir("d/e")?;
                file("f", b"x")?;
                link("f", "d/e/g")?;
                holds("d/e/g", b"x")?;
                same("links", stat("f")?.nlink, 2)
            },
        ),
        check(
            "link/a-directory-says-EPERM",
            "Directories have one name, even for the superuser.",
            |_| {
                dir("d")?;
                link("d", "e").says(EPERM)?;
                gone("e")
            },
        ),
        check(
            "link/a-missing-file-says-ENOENT",
            "There must be a file to name.",
            |_| {
                link("nothing", "b").says(ENOENT)?;
                gone("b")
            },
        ),
        check(
            "link/onto-itself-says-EEXIST",
            "The new name exists: it is the old one.",
            |_| {
                file("f", b"")?;
                link("f", "f").says(EEXIST)
            },
        ),
        check(
            "link/a-file-with-a-trailing-slash-is-refused",
            "A slash asks for a directory.",
            |_| {
                file("f", b"")?;
                link("f/", "g").says(ENOTDIR)?;
                link("f", "g/").says_one_of(&[ENOENT, ENOTDIR])
            },
        ),
        check(
            "link/across-file-systems-says-EXDEV",
            "A name and its file lie in one file system.",
            |_| link("/proc/self/stat", "f").says(EXDEV),
        ),
        check(
            "link/1000-names-for-one-file",
            "Link counts are exact; removing them all frees it.",
            |_| {
                file("f", b"x")?;
                dir("d")?;
                for number in 0..1000 {
                    match link("f", format!("d/{number}")) {
                        Err(refused) if refused.errno == EMLINK => {
                            return skipped(format!("this file system takes {number} links"));
                        }
                        answer => answer?,
                    }
                }
                same("links", stat("f")?.nlink, 1001)?;
                for number in 0..1000 {
                    unlink(format!("d/{number}"))?;
                }
                same("links", stat("f")?.nlink, 1)
            },
        ),
        check(
            "link/a-long-name",
            "255 bytes are a name, 256 are not.",
            |_| {
                file("f", b"x")?;
                link("f", "n".repeat(255))?;
                holds("n".repeat(255), b"x")?;
                link("f", "n".repeat(256)).says(ENAMETOOLONG)
            },
        ),
    ]
}

fn flags() -> Vec<Check> {
    vec![
        check(
            "link/does-not-follow-a-symlink",
            "Without AT_SYMLINK_FOLLOW the link itself gets a name.",
            |_| {
                file("f", b"")?;
                symlink("f", "l")?;
                linkat(CWD, "l", CWD, "m", 0)?;
                same("kind", lstat("m")?.kind(), S_IFLNK)?;
                same("identity", lstat("m")?.identity(), lstat("l")?.identity())
            },
        ),
        check(
            "link/follows-a-symlink-with-the-flag",
            "With AT_SYMLINK_FOLLOW the target gets a name.",
            |_| {
                file("f", b"")?;
                symlink("f", "l")?;
                linkat(CWD, "l", CWD, "m", AT_SYMLINK_FOLLOW)?;
                same("identity", lstat("m")?.identity(), stat("f")?.identity())
            },
        ),
        check(
            "link/following-a-dangling-symlink-says-ENOENT",
            "There is no target to name.",
            |_| {
                symlink("nowhere", "l")?;
                linkat(CWD, "l", CWD, "m", AT_SYMLINK_FOLLOW).says(ENOENT)
            },
        ),
        check(
            "link/following-a-loop-says-ELOOP",
            "The links never end.",
            |_| {
                symlink("l", "l")?;
                linkat(CWD, "l", CWD, "m", AT_SYMLINK_FOLLOW).says(ELOOP)
            },
        ),
        check(
            "link/an-open-file-by-its-descriptor",
            "AT_EMPTY_PATH names the descriptor's file.",
            |t| {
                t.needs_root()?;
                file("f", b"x")?;
                linkat(reopen("f", O_RDONLY)?, "", CWD, "g", AT_EMPTY_PATH)?;
                same("identity", stat("g")?.identity(), stat("f")?.identity())?;
                linkat(reopen("f", O_PATH)?, "", CWD, "h", AT_EMPTY_PATH)?;
                same("links", stat("f")?.nlink, 3)
            },
        ),
        check(
            "link/an-empty-path-without-the-flag-says-ENOENT",
            "The flag makes the difference.",
            |_| {
                file("f", b"x")?;
                linkat(reopen("f", O_RDONLY)?, "", CWD, "g", 0).says(ENOENT)
            },
        ),
        check(
            "link/unknown-flags-say-EINVAL",
            "A flag nobody knows is refused.",
            |_| {
                file("f", b"")?;
                linkat(CWD, "f", CWD, "g", 0x4000_0000).says(EINVAL)
            },
        ),
        check(
            "link/relative-to-two-descriptors",
            "Each name starts from its own directory.",
            |_| {
                dir("a")?;
                dir("b")?;
                file("a/f", b"x")?;
                linkat(
                    reopen("a", O_DIRECTORY)?,
                    "f",
                    reopen("b", O_DIRECTORY)?,
                    "g",
                    0,
                )?;
                holds("b/g", b"x")?;
                linkat(-1, "f", CWD, "g", 0).says(EBADF)?;
                linkat(CWD, "a/f", -1, "g", 0).says(EBADF)
            },
        ),
    ]
}

fn permissions() -> Vec<Check> {
    vec![
        check(
            "link/into-an-unwritable-directory-says-EACCES",
            "The new name needs write permission.",
            |_| {
                dir_with_mode("d", 0o755)?;
                as_alice(|| {
                    file("f", b"")?;
                    link("f", "d/g").says(EACCES)
                })
            },
        ),
        check(
            "link/out-of-an-unwritable-directory-works",
            "The old name needs search permission only.",
            |_| {
                dir_with_mode("d", 0o755)?;
                file_of(ALICE, "d/f", b"x", 0o644)?;
                as_alice(|| {
                    link("d/f", "g")?;
                    holds("g", b"x")
                })
            },
        ),
        check(
            "link/in-a-removed-directory-says-ENOENT",
            "A removed directory takes no names.",
            |_| {
                file("f", b"")?;
                dir("d")?;
                let d = reopen("d", O_DIRECTORY)?;
                rmdir("d")?;
                linkat(CWD, "f", &d, "g", 0).says(ENOENT)
            },
        ),
    ]
}
