//! Appending, gathering and scattering: O_APPEND, writev(2), readv(2), pwritev2(2); and what data calls refuse.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = appending();
    checks.extend(vectors());
    checks.extend(refusals());
    checks
}

fn appending() -> Vec<Check> {
    vec![
        check(
            "O_APPEND/writes-go-to-the-end",
            "Whatever the offset; it is then at the end.",
            |_| {
                file("f", b"abc")?;
                let fd = reopen("f", O_WRONLY | O_APPEND)?;
                lseek(&fd, 0, SEEK_SET)?;
                write(&fd, b"de")?;
                same("offset", lseek(&fd, 0, SEEK_CUR)?, 5)?;
                holds("f", b"abcde")
            },
        ),
        check(
            "O_APPEND/follows-others-growth",
            "The end is where it is at that moment.",
            |_| {
                file("f", b"")?;
                let one = reopen("f", O_WRONLY | O_APPEND)?;
                let two = reopen("f", O_WRONLY | O_APPEND)?;
                write(&one, b"1")?;
                write(&two, b"22")?;
                write(&one, b"333")?;
                truncate("f", 2)?;
                write(&two, b"4444")?;
                holds("f", b"124444")
            },
        ),
        check(
            "O_APPEND/pwrite-appends-too",
            "Linux ignores the offset; POSIX honours it.",
            |_| {
                file("f", b"abc")?;
                pwrite(reopen("f", O_WRONLY | O_APPEND)?, b"X", 0)?;
                let found = contents("f")?;
                truth(
                    "the file holds abcX (Linux) or Xbc (POSIX)",
                    found == b"abcX" || found == b"Xbc",
                )
            },
        ),
        check(
            "O_APPEND/reads-start-at-the-beginning",
            "The flag concerns writes.",
            |_| {
                file("f", b"abc")?;
                same_bytes("bytes", &read(reopen("f", O_RDWR | O_APPEND)?, 10)?, b"abc")
            },
        ),
    ]
}

fn vectors() -> Vec<Check> {
    vec![
        check(
            "writev/gathers-its-pieces-in-order",
            "Also empty ones; the offset moves by their sum.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                same("taken", writev(&fd, &[b"ab", b"", b"cde", b"f"])?, 6)?;
                same("offset", lseek(&fd, 0, SEEK_CUR)?, 6)?;
                holds("f", b"abcdef")
            },
        ),
        check(
            "readv/scatters-into-its-pieces-in-order",
            "Each is filled before the next.",
            |_| {
                file("f", b"abcdefg")?;
                let (got, pieces) = readv(reopen("f", O_RDONLY)?, &[2, 0, 3, 10])?;
                same("given", got, 7)?;
                same(
                    "pieces",
                    (&pieces[0][..], &pieces[2][..], &pieces[3][..2]),
                    (&b"ab"[..], &b"cde"[..], &b"fg"[..]),
                )
            },
        ),
        check(
            "writev/1024-large-and-odd-pieces",
            "IOV_MAX pieces become one run of bytes.",
            |_| {
                let bytes = pattern(2, 1024 * 1001);
                let pieces: Vec<&[u8]> = bytes.chunks(1001).collect();
                let fd = open("f", O_CREAT | O_WRONLY, 0o644)?;
                same("taken", writev(&fd, &pieces)?, bytes.len())?;
                holds("f", bytes)
            },
        ),
        check(
            "writev/more-than-1024-pieces-say-EINVAL",
            "IOV_MAX is the limit.",
            |_| {
                let pieces = vec![&b"x"[..]; 1025];
                let fd = open("f", O_CREAT | O_WRONLY, 0o644)?;
                writev(&fd, &pieces).says(EINVAL)?;
                same("size", fstat(&fd)?.size, 0)
            },
        ),
        check(
            "pwritev2/at-an-offset-leaves-the-descriptors-own",
            "Like pwrite, in pieces.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                same("taken", pwritev2(&fd, &[b"abc", b"def"], 4, 0)?, 6)?;
                same("offset", lseek(&fd, 0, SEEK_CUR)?, 0)?;
                let (got, pieces) = preadv2(&fd, &[4, 3, 9], 0, 0)?;
                same("given", got, 10)?;
                same(
                    "pieces",
                    (&pieces[1][..], &pieces[2][..3]),
                    (&b"abc"[..], &b"def"[..]),
                )
            },
        ),
        check(
            "pwritev2/offset-minus-1-uses-the-descriptors-own",
            "And moves it, like writev.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                pwritev2(&fd, &[b"ab"], -1, 0)?;
                pwritev2(&fd, &[b"cd"], -1, 0)?;
                same("offset", lseek(&fd, 0, SEEK_CUR)?, 4)?;
                holds("f", b"abcd")
            },
        ),
        check(
            "pwritev2/RWF_APPEND-goes-to-the-end",
            "For this write only.",
            |_| {
                file("f", b"abc")?;
                let fd = reopen("f", O_WRONLY)?;
                pwritev2(&fd, &[b"de"], 0, RWF_APPEND)?;
                pwritev2(&fd, &[b"X"], 0, 0)?;
                holds("f", b"Xbcde")
            },
        ),
        check(
            "pwritev2/RWF_SYNC-and-RWF_DSYNC",
            "The write is durable when it returns.",
            |_| {
                let fd = open("f", O_CREAT | O_WRONLY, 0o644)?;
                pwritev2(&fd, &[b"ab"], 0, RWF_SYNC)
                    .or_skip(&[EOPNOTSUPP], "RWF_SYNC is optional")?;
                pwritev2(&fd, &[b"cd"], 2, RWF_DSYNC)?;
                holds("f", b"abcd")
            },
        ),
        check(
            "pwritev2/unknown-flags-say-EOPNOTSUPP",
            "They are not ignored.",
            |_| {
                let fd = open("f", O_CREAT | O_WRONLY, 0o644)?;
                pwritev2(&fd, &[b"ab"], 0, 1 << 30).says_one_of(&[EOPNOTSUPP, EINVAL])
            },
        ),
    ]
}

fn refusals() -> Vec<Check> {
    vec![
        check(
            "write/a-read-only-descriptor-says-EBADF",
            "It was not opened for writing.",
            |_| {
                file("f", b"abc")?;
                let fd = reopen("f", O_RDONLY)?;
                write(&fd, b"x").says(EBADF)?;
                pwrite(&fd, b"x", 0).says(EBADF)?;
                writev(&fd, &[b"x"]).says(EBADF)?;
                holds("f", b"abc")
            },
        ),
        check(
            "read/a-write-only-descriptor-says-EBADF",
            "It was not opened for reading.",
            |_| {
                file("f", b"abc")?;
                let fd = reopen("f", O_WRONLY)?;
                read(&fd, 1).says(EBADF)?;
                pread(&fd, 1, 0).says(EBADF)?;
                readv(&fd, &[1]).says(EBADF)
            },
        ),
        check(
            "read/a-directory-says-EISDIR",
            "Directories are read by their own call.",
            |_| {
                dir("d")?;
                let fd = reopen("d", O_DIRECTORY)?;
                read(&fd, 1).says(EISDIR)?;
                pread(&fd, 1, 0).says(EISDIR)?;
                write(&fd, b"x").says(EBADF)
            },
        ),
        check(
            "pread/a-negative-offset-says-EINVAL",
            "No byte lies before the first.",
            |_| {
                file("f", b"abc")?;
                let fd = reopen("f", O_RDWR)?;
                pread(&fd, 1, -1).says(EINVAL)?;
                pwrite(&fd, b"x", -1).says(EINVAL)?;
                pread(&fd, 1, i64::MIN).says(EINVAL)?;
                preadv2(&fd, &[1], -2, 0).says(EINVAL)
            },
        ),
        check(
            "write/keeps-working-after-permission-is-taken-away",
            "Access was decided at open.",
            |_| {
                as_alice(|| {
                    file("f", b"abc")?;
                    let fd = reopen("f", O_RDWR)?;
                    chmod("f", 0o000)?;
                    write_all(&fd, b"XYZ")?;
                    same_bytes("bytes", &contents_of(&fd)?, b"XYZ")?;
                    open("f", O_RDWR, 0).says(EACCES)
                })
            },
        ),
        check(
            "write/an-unknown-ioctl-says-ENOTTY",
            "The file system knows no such control.",
            |_| {
                file("f", b"")?;
                unknown_ioctl(reopen("f", O_RDWR)?).says_one_of(&[ENOTTY, ENOSYS])
            },
        ),
        check(
            "read/bytes-waiting-are-told-by-FIONREAD",
            "From the offset to the end.",
            |_| {
                file("f", b"abcdef")?;
                let fd = reopen("f", O_RDONLY)?;
                read(&fd, 2)?;
                same("waiting", bytes_waiting(&fd)?, 4)
            },
        ),
    ]
}
