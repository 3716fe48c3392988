//! unlink(2): a name goes; the file goes with its last name and its last user.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = Kind::LEAVES
        .into_iter()
        .map(|kind| {
            check(
                format!("unlink/removes-a-{}", kind.word()),
                "The name is gone; a symbolic link is not followed.",
                move |_| {
                    kind.make("x")?;
                    unlink("x")?;
                    gone("x")?;
                    same("names", names(".")?, vec![])
                },
            )
        })
        .collect();
    checks.extend(open_files());
    checks.extend(refusals());
    checks
}

fn open_files() -> Vec<Check> {
    vec![
        check(
            "unlink/an-open-file-lives-on",
            "Reads, writes and truncation work until the last close.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                write_all(&fd, b"before")?;
                unlink("f")?;
                same_bytes("bytes", &contents_of(&fd)?, b"before")?;
                pwrite(&fd, b"after!", 0)?;
                pwrite(&fd, b"more", 100_000)?;
                same("size", fstat(&fd)?.size, 100_004)?;
                same_bytes("bytes", &pread(&fd, 6, 0)?, b"after!")?;
                ftruncate(&fd, 3)?;
                same_bytes("bytes", &contents_of(&fd)?, b"aft")
            },
        ),
        check(
            "unlink/an-open-file-has-0-links",
            "fstat tells st_nlink 0.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                unlink("f")?;
                same("links", fstat(&fd)?.nlink, 0)
            },
        ),
        check(
            "unlink/an-open-file-keeps-its-attributes-and-takes-new-ones",
            "fchmod, fchown, futimens work.",
            |t| {
                t.needs_root()?;
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                unlink("f")?;
                fchmod(&fd, 0o600)?;
                fchown(&fd, ALICE, BOB)?;
                futimens(&fd, EARLY, LATER)?;
                let facts = fstat(&fd)?;
                same(
                    "owner",
                    (facts.permissions(), facts.uid, facts.gid),
                    (0o600, ALICE, BOB),
                )?;
                same("times", (facts.atime, facts.mtime), (EARLY, LATER))
            },
        ),
        check(
            "unlink/an-open-file-can-be-synced",
            "fsync of a file without a name.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                write_all(&fd, b"x")?;
                unlink("f")?;
                fsync(&fd)?;
                fdatasync(&fd)?;
                Ok(())
            },
        ),
        check(
            "unlink/the-name-can-be-used-again-at-once",
            "The new file is another one.",
            |_| {
                let old = open("f", O_CREAT | O_RDWR, 0o644)?;
                write_all(&old, b"old")?;
                unlink("f")?;
                file("f", b"new")?;
                differs("identity", stat("f")?.identity(), fstat(&old)?.identity())?;
                same_bytes("old bytes", &contents_of(&old)?, b"old")?;
                holds("f", b"new")
            },
        ),
        check(
            "unlink/an-open-file-is-shared-by-two-descriptors",
            "Both see each other's writes.",
            |_| {
                let one = open("f", O_CREAT | O_RDWR, 0o644)?;
                let two = reopen("f", O_RDWR)?;
                unlink("f")?;
                pwrite(&one, b"hello", 0)?;
                drop(one);
                same_bytes("bytes", &contents_of(&two)?, b"hello")
            },
        ),
        check(
            "unlink/a-file-without-a-name-cannot-get-one-by-link",
            "Link count 0 is final: ENOENT.",
            |t| {
                t.needs_root()?;
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                unlink("f")?;
                linkat(CWD, proc_name(&fd), CWD, "again", AT_SYMLINK_FOLLOW).says(ENOENT)
            },
        ),
        check(
            "unlink/a-mapped-file-keeps-its-bytes",
            "A mapping holds the file like a descriptor.",
            |_| {
                file("f", pattern(1, 8192))?;
                let map = mmap(&reopen("f", O_RDONLY)?, 0, 8192, PROT_READ, MAP_SHARED)?;
                unlink("f")?;
                same_bytes("bytes", &map.load(0, 8192), &pattern(1, 8192))
            },
        ),
        check(
            "unlink/gives-a-large-files-space-back",
            "After the last close the blocks are free again, at once or soon.",
            |_| {
                const SIZE: usize = 32 << 20;
                // Others may take space meanwhile: try three times, ask for half of it once.
                for _ in 0..3 {
                    let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                    write_all(&fd, &vec![7; SIZE])?;
                    fsync(&fd)?;
                    let full = statvfs(".")?;
                    unlink("f")?;
                    fd.close()?;
                    for _ in 0..20 {
                        let now = statvfs(".")?;
                        if now.f_bfree.saturating_sub(full.f_bfree) * now.f_frsize
                            >= SIZE as u64 / 2
                        {
                            return Ok(());
                        }
                        syncfs(open(".", O_RDONLY | O_DIRECTORY, 0)?)?;
                        sleep(Duration::from_millis(100));
                    }
                }
                truth(
                    "free space grows by half of the file's size within 2 seconds",
                    false,
                )
            },
        ),
        check(
            "unlink/500-open-files-live-on-side-by-side",
            "Each keeps its own bytes until it is closed.",
            |_| {
                let mut open_files = Vec::new();
                for number in 0..500usize {
                    let fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0o644)?;
                    write_all(&fd, &pattern(number as u8, 100 + number))?;
                    unlink("f")?;
                    open_files.push(fd);
                }
                for (number, fd) in open_files.iter().enumerate() {
                    same_bytes(
                        "bytes",
                        &contents_of(fd)?,
                        &pattern(number as u8, 100 + number),
                    )?;
                }
                Ok(())
            },
        ),
        check(
            "unlink/one-of-two-names-leaves-the-other",
            "The link count goes down by one.",
            |_| {
                file("a", b"x")?;
                link("a", "b")?;
                unlink("a")?;
                same("links", stat("b")?.nlink, 1)?;
                holds("b", b"x")
            },
        ),
    ]
}

fn refusals() -> Vec<Check> {
    vec![
        check(
            "unlink/a-directory-says-EISDIR",
            "Linux says EISDIR where POSIX says EPERM.",
            |_| {
                dir("d")?;
                unlink("d").says_one_of(&[EISDIR, EPERM])?;
                Kind::Dir.is_at("d")
            },
        ),
        check(
            "unlink/a-directory-as-another-user-is-refused",
            "Nobody unlinks directories.",
            |_| {
                dir_of(ALICE, "p", 0o755)?;
                dir_of(ALICE, "p/d", 0o755)?;
                alice_gets(|| unlink("p/d"))?.says_one_of(&[EISDIR, EPERM])
            },
        ),
        check(
            "unlink/a-missing-name-says-ENOENT",
            "There is no name to remove.",
            |_| unlink("nothing").says(ENOENT),
        ),
        check(
            "unlink/twice-says-ENOENT",
            "The second time there is nothing.",
            |_| {
                file("f", b"")?;
                unlink("f")?;
                unlink("f").says(ENOENT)
            },
        ),
        check(
            "unlink/a-file-with-a-trailing-slash-says-ENOTDIR",
            "A slash asks for a directory.",
            |_| {
                file("f", b"")?;
                unlink("f/").says(ENOTDIR)?;
                Kind::File.is_at("f")
            },
        ),
        check(
            "unlink/a-link-to-a-directory-removes-the-link",
            "The directory stays.",
            |_| {
                dir("d")?;
                file("d/f", b"x")?;
                symlink("d", "l")?;
                unlink("l")?;
                gone("l")?;
                holds("d/f", b"x")
            },
        ),
        check(
            "unlink/dot-and-dot-dot-are-refused",
            "They name directories.",
            |_| {
                dir("d")?;
                unlink("d/.").says_one_of(&[EISDIR, EPERM, EINVAL, EBUSY])?;
                unlink("d/..").says_one_of(&[EISDIR, EPERM, EINVAL, EBUSY])
            },
        ),
        check(
            "unlink/without-write-permission-says-EACCES",
            "The directory must be writable.",
            |_| {
                dir_with_mode("d", 0o755)?;
                file_of(ALICE, "d/f", b"", 0o666)?;
                alice_gets(|| unlink("d/f"))?.says(EACCES)?;
                Kind::File.is_at("d/f")
            },
        ),
        check(
            "unlink/needs-no-permission-on-the-file",
            "Only the directory's bits count.",
            |_| {
                dir_of(ALICE, "d", 0o755)?;
                file_with_mode("d/f", b"", 0o000)?;
                alice_gets(|| unlink("d/f"))??;
                gone("d/f")
            },
        ),
        check(
            "unlink/relative-to-a-descriptor",
            "unlinkat starts from the descriptor's directory.",
            |_| {
                dir("d")?;
                file("d/f", b"")?;
                unlinkat(reopen("d", O_DIRECTORY)?, "f", 0)?;
                gone("d/f")?;
                unlinkat(-1, "f", 0).says(EBADF)
            },
        ),
        check(
            "unlink/unknown-flags-say-EINVAL",
            "Only AT_REMOVEDIR is known.",
            |_| {
                file("f", b"")?;
                unlinkat(CWD, "f", 0x4000_0000).says(EINVAL)
            },
        ),
        check(
            "unlink/an-absolute-name-ignores-the-descriptor",
            "Even a descriptor that is not open.",
            |_| {
                let mut path = getcwd()?;
                file("f", b"")?;
                path.extend(b"/f");
                unlinkat(-1, path, 0)?;
                gone("f")
            },
        ),
    ]
}
