//! open(2) with the flags that change what a descriptor is: O_TMPFILE, O_PATH, O_DIRECT, O_SYNC.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = tmpfile();
    checks.extend(path_only());
    checks.extend(direct());
    checks.extend(synchronous());
    checks
}

const NO_TMPFILE: &str = "O_TMPFILE is optional";

#[track_caller]
fn unnamed(flags: i32, mode: u32) -> Outcome<Fd> {
    open(".", O_TMPFILE | flags, mode).or_skip(&[EOPNOTSUPP, EISDIR], NO_TMPFILE)
}

fn tmpfile() -> Vec<Check> {
    vec![
        check(
            "O_TMPFILE/makes-a-file-without-a-name",
            "No name, no links, no entry.",
            |_| {
                let fd = unnamed(O_RDWR, 0o640)?;
                let facts = fstat(&fd)?;
                same(
                    "kind, mode, links",
                    (facts.mode, facts.nlink),
                    (S_IFREG | 0o640, 0),
                )?;
                same("names", names(".")?, vec![])
            },
        ),
        check(
            "O_TMPFILE/holds-bytes",
            "It is read and written like any file.",
            |_| {
                let fd = unnamed(O_RDWR, 0o600)?;
                write_all(&fd, &pattern(1, 100_000))?;
                same_bytes("bytes", &contents_of(&fd)?, &pattern(1, 100_000))
            },
        ),
        check(
            "O_TMPFILE/gets-a-name-by-linkat",
            "Through /proc/self/fd; then it is an ordinary file.",
            |t| {
                t.needs_root()?;
                let fd = unnamed(O_RDWR, 0o600)?;
                write_all(&fd, b"hello")?;
                linkat(CWD, proc_name(&fd), CWD, "f", AT_SYMLINK_FOLLOW)?;
                drop(fd);
                holds("f", b"hello")?;
                same("links", stat("f")?.nlink, 1)
            },
        ),
        check(
            "O_TMPFILE/gets-a-name-by-AT_EMPTY_PATH",
            "With the right to do so.",
            |t| {
                t.needs_root()?;
                let fd = unnamed(O_WRONLY, 0o600)?;
                linkat(&fd, "", CWD, "f", AT_EMPTY_PATH)?;
                same("identity", stat("f")?.identity(), fstat(&fd)?.identity())
            },
        ),
        check(
            "O_TMPFILE/an-existing-name-says-EEXIST",
            "A name is given, not replaced; another try may succeed.",
            |t| {
                t.needs_root()?;
                file("f", b"old")?;
                let fd = unnamed(O_WRONLY, 0o600)?;
                linkat(CWD, proc_name(&fd), CWD, "f", AT_SYMLINK_FOLLOW).says(EEXIST)?;
                linkat(CWD, proc_name(&fd), CWD, "g", AT_SYMLINK_FOLLOW)?;
                holds("f", b"old")
            },
        ),
        check(
            "O_TMPFILE/with-O_EXCL-never-gets-a-name",
            "linkat says ENOENT.",
            |t| {
                t.needs_root()?;
                let fd = unnamed(O_WRONLY | O_EXCL, 0o600)?;
                linkat(CWD, proc_name(&fd), CWD, "f", AT_SYMLINK_FOLLOW).says(ENOENT)
            },
        ),
        check(
            "O_TMPFILE/for-reading-says-EINVAL",
            "A file that nobody could write to.",
            |_| {
                unnamed(O_RDWR, 0o600)?;
                open(".", O_TMPFILE | O_RDONLY, 0o600).says(EINVAL)
            },
        ),
        check(
            "O_TMPFILE/in-a-file-says-ENOTDIR",
            "It needs a directory to belong to.",
            |_| {
                unnamed(O_RDWR, 0o600)?;
                file("f", b"")?;
                open("f", O_TMPFILE | O_RDWR, 0o600).says(ENOTDIR)?;
                open("nothing", O_TMPFILE | O_RDWR, 0o600).says(ENOENT)
            },
        ),
        check(
            "O_TMPFILE/without-write-permission-says-EACCES",
            "As if a name were made.",
            |_| {
                unnamed(O_RDWR, 0o600)?;
                dir_with_mode("d", 0o755)?;
                alice_gets(|| open("d", O_TMPFILE | O_RDWR, 0o600))?.says(EACCES)
            },
        ),
        check(
            "O_TMPFILE/umask-takes-bits-away",
            "Like any creation.",
            |_| {
                umask(0o077);
                same_mode(fstat(unnamed(O_RDWR, 0o666)?)?.permissions(), 0o600)
            },
        ),
        check(
            "O_TMPFILE/belongs-to-the-maker",
            "Owner and group are the effective ids.",
            |_| {
                as_alice(|| {
                    let facts = fstat(unnamed(O_RDWR, 0o600)?)?;
                    same("owner and group", (facts.uid, facts.gid), (ALICE, ALICE))
                })
            },
        ),
    ]
}

fn path_only() -> Vec<Check> {
    let mut checks: Vec<Check> = Kind::ALL
        .into_iter()
        .map(|kind| {
            check(
                format!("O_PATH/opens-a-{}-without-touching-it", kind.word()),
                "Any file can be held by O_PATH|O_NOFOLLOW; fstat tells what it is.",
                move |_| {
                    kind.make("x")?;
                    let fd = open("x", O_PATH | O_NOFOLLOW, 0)?;
                    same("facts", fstat(&fd)?.mode, lstat("x")?.mode)?;
                    same("identity", fstat(&fd)?.identity(), lstat("x")?.identity())
                },
            )
        })
        .collect();
    checks.extend([
        check(
            "O_PATH/reads-and-writes-say-EBADF",
            "The descriptor is a place, not an open file.",
            |_| {
                file("f", b"x")?;
                let fd = open("f", O_PATH, 0)?;
                read(&fd, 1).says(EBADF)?;
                write(&fd, b"y").says(EBADF)?;
                lseek(&fd, 0, SEEK_SET).says(EBADF)?;
                ftruncate(&fd, 0).says(EBADF)?;
                fsync(&fd).says(EBADF)?;
                fchmod(&fd, 0o600).says(EBADF)?;
                fchown(&fd, KEEP, KEEP).says(EBADF)?;
                fgetxattr(&fd, "user.x").says(EBADF)?;
                mmap(&fd, 0, 4096, PROT_READ, MAP_SHARED).says(EBADF)
            },
        ),
        check(
            "O_PATH/needs-no-permission-on-the-file",
            "Only on the way to it.",
            |_| {
                file_with_mode("f", b"x", 0o000)?;
                as_alice(|| same("size", fstat(open("f", O_PATH, 0)?)?.size, 1))
            },
        ),
        check(
            "O_PATH/of-a-directory-serves-as-a-start",
            "For all calls relative to a descriptor.",
            |_| {
                dir("d")?;
                file("d/f", b"x")?;
                let d = open("d", O_PATH | O_DIRECTORY, 0)?;
                same_bytes("bytes", &contents_of(&openat(&d, "f", O_RDONLY, 0)?)?, b"x")?;
                mkdirat(&d, "e", 0o755)?;
                unlinkat(&d, "f", 0)?;
                getdents(&d, 1024).says(EBADF)?;
                fchdir(&d)?;
                same("names", names(".")?, vec!["e".into()])?;
                chdir("..")?;
                Ok(())
            },
        ),
        check(
            "O_PATH/can-be-opened-in-earnest-later",
            "Through /proc/self/fd, with permission checks.",
            |_| {
                file("f", b"x")?;
                let fd = open("f", O_PATH, 0)?;
                rename("f", "g")?;
                same_bytes(
                    "bytes",
                    &contents_of(&open(proc_name(&fd), O_RDONLY, 0)?)?,
                    b"x",
                )
            },
        ),
    ]);
    checks
}

const NO_DIRECT: &str = "O_DIRECT is optional";

fn direct() -> Vec<Check> {
    vec![
        check(
            "O_DIRECT/writes-and-reads-whole-blocks",
            "Bytes written past the cache come back.",
            |_| {
                let fd =
                    open("f", O_CREAT | O_RDWR | O_DIRECT, 0o644).or_skip(&[EINVAL], NO_DIRECT)?;
                let mut block = Aligned::filled(0, 64 * 1024);
                block.bytes_mut().copy_from_slice(&pattern(1, 64 * 1024));
                same("taken", pwrite(&fd, block.bytes(), 0)?, 64 * 1024)?;
                let mut back = Aligned::filled(0, 64 * 1024);
                same("given", pread_into(&fd, back.bytes_mut(), 0)?, 64 * 1024)?;
                same_bytes("bytes", back.bytes(), &pattern(1, 64 * 1024))
            },
        ),
        check(
            "O_DIRECT/sees-what-was-written-through-the-cache",
            "Both ways show one file.",
            |_| {
                file("f", pattern(1, 8192))?;
                let fd = open("f", O_RDONLY | O_DIRECT, 0).or_skip(&[EINVAL], NO_DIRECT)?;
                let mut back = Aligned::filled(0, 8192);
                same("given", pread_into(&fd, back.bytes_mut(), 0)?, 8192)?;
                same_bytes("bytes", back.bytes(), &pattern(1, 8192))
            },
        ),
        check(
            "O_DIRECT/is-seen-through-the-cache",
            "Cached pages do not hide a direct write.",
            |_| {
                file("f", pattern(1, 8192))?;
                let cached = reopen("f", O_RDONLY)?;
                same_bytes("before", &contents_of(&cached)?, &pattern(1, 8192))?;
                let fd = open("f", O_WRONLY | O_DIRECT, 0).or_skip(&[EINVAL], NO_DIRECT)?;
                let mut block = Aligned::filled(0, 4096);
                block.bytes_mut().copy_from_slice(&pattern(2, 4096));
                pwrite(&fd, block.bytes(), 4096)?;
                let expected = [pattern(1, 4096), pattern(2, 4096)].concat();
                same_bytes("after", &contents_of(&cached)?, &expected)
            },
        ),
        check(
            "O_DIRECT/reads-short-at-the-end",
            "The last block may be a part of one.",
            |_| {
                file("f", pattern(1, 5000))?;
                let fd = open("f", O_RDONLY | O_DIRECT, 0).or_skip(&[EINVAL], NO_DIRECT)?;
                let mut back = Aligned::filled(0, 8192);
                same("given", pread_into(&fd, back.bytes_mut(), 0)?, 5000)?;
                same_bytes("bytes", &back.bytes()[..5000], &pattern(1, 5000))
            },
        ),
        check(
            "O_DIRECT/appends-whole-blocks",
            "Together with O_APPEND.",
            |_| {
                let fd = open("f", O_CREAT | O_WRONLY | O_APPEND | O_DIRECT, 0o644)
                    .or_skip(&[EINVAL], NO_DIRECT)?;
                for byte in 1..=3 {
                    write(&fd, Aligned::filled(byte, 4096).bytes())?;
                }
                holds("f", [[1u8; 4096], [2; 4096], [3; 4096]].concat())
            },
        ),
        check(
            "O_DIRECT/a-hole-reads-zeros",
            "Like through the cache.",
            |_| {
                file("f", b"")?;
                truncate("f", 16384)?;
                let fd = open("f", O_RDWR | O_DIRECT, 0).or_skip(&[EINVAL], NO_DIRECT)?;
                pwrite(&fd, Aligned::filled(9, 4096).bytes(), 8192)?;
                let mut back = Aligned::filled(1, 16384);
                same("given", pread_into(&fd, back.bytes_mut(), 0)?, 16384)?;
                same_bytes(
                    "bytes",
                    back.bytes(),
                    &[vec![0; 8192], vec![9; 4096], vec![0; 4096]].concat(),
                )
            },
        ),
    ]
}

fn synchronous() -> Vec<Check> {
    [("O_SYNC", O_SYNC), ("O_DSYNC", O_DSYNC)]
        .into_iter()
        .map(|(word, flag)| {
            check(
                format!("{word}/writes-are-done-when-they-return"),
                "The flag is kept and every write succeeds; the bytes are there.",
                move |_| {
                    let fd = open("f", O_CREAT | O_RDWR | flag, 0o644)?;
                    same("flag", status_flags(&fd)? & flag, flag)?;
                    for number in 0..10u8 {
                        same("taken", write(&fd, [number; 1000])?, 1000)?;
                    }
                    same("size", fstat(&fd)?.size, 10_000)?;
                    same_bytes("bytes", &pread(&fd, 1000, 7000)?, &[7; 1000])
                },
            )
        })
        .collect()
}
