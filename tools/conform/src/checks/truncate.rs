//! truncate(2) and ftruncate(2).

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = sizes();
    checks.extend(plain());
    checks.extend(refusals());
    checks.extend(limits());
    checks
}

/// From each length to each other one: what is kept is kept, what is new is zero.
fn sizes() -> Vec<Check> {
    const LENGTHS: [usize; 7] = [0, 1, 4095, 4096, 4097, (1 << 20) - 1, (4 << 20) + 5];
    let mut checks = Vec::new();
    for from in LENGTHS {
        for to in LENGTHS {
            checks.push(check(
                format!("truncate/from-{from}-to-{to}-bytes"),
                "Bytes below the new size stay, bytes between old and new size read as zeros.",
                move |_| {
                    file("f", pattern(1, from))?;
                    truncate("f", to as i64)?;
                    same("size", size_of_file("f")?, to as i64)?;
                    let mut expected = pattern(1, from);
                    expected.resize(to, 0);
                    holds("f", &expected)?;
                    // Whatever was cut off must not come back.
                    truncate("f", 5 << 20)?;
                    expected.resize(5 << 20, 0);
                    holds("f", expected)
                },
            ));
        }
    }
    checks
}

fn plain() -> Vec<Check> {
    vec![
        check(
            "ftruncate/cuts-and-leaves-the-offset",
            "The next write is where it was.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                write(&fd, b"abcdef")?;
                ftruncate(&fd, 2)?;
                same("offset", lseek(&fd, 0, SEEK_CUR)?, 6)?;
                write(&fd, b"X")?;
                holds("f", b"ab\0\0\0\0X")
            },
        ),
        check(
            "ftruncate/within-a-block-then-write-behind-leaves-zeros",
            "No cut byte reappears.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                write_all(&fd, &pattern(1, 10_000))?;
                ftruncate(&fd, 5_000)?;
                pwrite(&fd, b"end", 9_000)?;
                let expected = [&pattern(1, 10_000)[..5_000], &[0; 4_000], b"end"].concat();
                holds("f", expected)
            },
        ),
        check(
            "truncate/frees-blocks",
            "Space of what is cut off comes back to the file's account.",
            |_| {
                file("f", pattern(1, 8 << 20))?;
                fsync(reopen("f", O_RDONLY)?)?;
                let before = stat("f")?.blocks;
                truncate("f", 4096)?;
                let after = stat("f")?.blocks;
                truth(
                    format!("from {before} blocks it falls to few, not {after}"),
                    after <= 256 && before >= 16_000,
                )
            },
        ),
        check(
            "truncate/growing-takes-no-blocks",
            "The new part is a hole.",
            |_| {
                file("f", b"")?;
                truncate("f", 1 << 30)?;
                truth(
                    "a file of 1 GiB of nothing has less than 1 MiB of blocks",
                    stat("f")?.blocks < 2048,
                )
            },
        ),
        check(
            "truncate/follows-a-symlink",
            "The target of the link is cut.",
            |_| {
                file("f", b"abc")?;
                symlink("f", "l")?;
                truncate("l", 1)?;
                holds("f", b"a")
            },
        ),
        check(
            "truncate/to-the-same-size-is-a-change-of-times-or-none",
            "It succeeds and keeps the bytes.",
            |_| {
                file("f", b"abc")?;
                truncate("f", 3)?;
                holds("f", b"abc")
            },
        ),
        check(
            "truncate/is-seen-by-other-descriptors",
            "They share one file.",
            |_| {
                file("f", pattern(1, 100_000))?;
                let fd = reopen("f", O_RDONLY)?;
                contents_of(&fd)?;
                truncate("f", 10)?;
                same("size", fstat(&fd)?.size, 10)?;
                same_bytes("bytes", &contents_of(&fd)?, &pattern(1, 10))?;
                truncate("f", 20)?;
                same_bytes(
                    "bytes",
                    &contents_of(&fd)?,
                    &[pattern(1, 10), vec![0; 10]].concat(),
                )
            },
        ),
        check(
            "ftruncate/works-on-a-descriptor-after-permission-is-gone",
            "Access was decided at open.",
            |_| {
                as_alice(|| {
                    file("f", b"abc")?;
                    let fd = reopen("f", O_RDWR)?;
                    chmod("f", 0o400)?;
                    ftruncate(&fd, 1)?;
                    holds("f", b"a")?;
                    truncate("f", 0).says(EACCES)
                })
            },
        ),
        check(
            "truncate/many-times-up-and-down",
            "Sizes follow exactly; zeros are zeros.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                let mut expected = Vec::new();
                for step in 0..60usize {
                    let size = (step * 7919) % 50_000;
                    let fill = pattern(step as u8 | 1, 100);
                    ftruncate(&fd, size as i64)?;
                    expected.resize(size, 0);
                    pwrite(&fd, &fill, size as i64 / 2)?;
                    let at = size / 2;
                    if expected.len() < at + 100 {
                        expected.resize(at + 100, 0);
                    }
                    expected[at..at + 100].copy_from_slice(&fill);
                    same_bytes("bytes", &contents_of(&fd)?, &expected)?;
                }
                Ok(())
            },
        ),
    ]
}

fn refusals() -> Vec<Check> {
    vec![
        check(
            "truncate/a-directory-says-EISDIR",
            "Directories have no bytes.",
            |_| {
                dir("d")?;
                truncate("d", 0).says(EISDIR)
            },
        ),
        check(
            "truncate/a-fifo-or-device-says-EINVAL",
            "Only regular files have a size.",
            |t| {
                t.needs_root()?;
                mkfifo("p", 0o644)?;
                truncate("p", 0).says(EINVAL)?;
                Kind::Char.make("c")?;
                truncate("c", 0).says(EINVAL)
            },
        ),
        check(
            "truncate/a-negative-size-says-EINVAL",
            "And the file stays as it is.",
            |_| {
                file("f", b"abc")?;
                truncate("f", -1).says(EINVAL)?;
                truncate("f", i64::MIN).says(EINVAL)?;
                ftruncate(reopen("f", O_RDWR)?, -1).says(EINVAL)?;
                holds("f", b"abc")
            },
        ),
        check(
            "ftruncate/a-read-only-descriptor-says-EINVAL",
            "It was not opened for writing (or EBADF).",
            |_| {
                file("f", b"abc")?;
                ftruncate(reopen("f", O_RDONLY)?, 0).says_one_of(&[EINVAL, EBADF])?;
                holds("f", b"abc")
            },
        ),
        check(
            "ftruncate/a-directory-says-EINVAL",
            "It cannot be open for writing.",
            |_| {
                dir("d")?;
                ftruncate(reopen("d", O_DIRECTORY)?, 0).says_one_of(&[EINVAL, EBADF, EISDIR])
            },
        ),
        check(
            "truncate/without-write-permission-says-EACCES",
            "And the file stays as it is.",
            |_| {
                file_with_mode("f", b"abc", 0o644)?;
                alice_gets(|| truncate("f", 0))?.says(EACCES)?;
                holds("f", b"abc")
            },
        ),
        check(
            "truncate/with-write-permission-only",
            "Reading is not needed.",
            |_| {
                file_with_mode("f", b"abc", 0o622)?;
                alice_gets(|| truncate("f", 1))??;
                holds("f", b"a")
            },
        ),
    ]
}

fn limits() -> Vec<Check> {
    vec![
        check(
            "limit/RLIMIT_FSIZE-write-says-EFBIG-and-sends-SIGXFSZ",
            "With the signal ignored: EFBIG.",
            |_| {
                in_child(|| {
                    limit_file_size(10_000)?;
                    ignore_signal(libc::SIGXFSZ);
                    let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                    same("taken", pwrite(&fd, [1; 10_000], 0)?, 10_000)?;
                    pwrite(&fd, b"x", 10_000).says(EFBIG)?;
                    pwrite(&fd, b"x", 20_000).says(EFBIG)?;
                    same("size", fstat(&fd)?.size, 10_000)
                })
            },
        ),
        check(
            "limit/RLIMIT_FSIZE-a-write-across-it-is-short",
            "What fits is written.",
            |_| {
                in_child(|| {
                    limit_file_size(10_000)?;
                    ignore_signal(libc::SIGXFSZ);
                    let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                    same("taken", pwrite(&fd, [1; 8_000], 5_000)?, 5_000)?;
                    same("size", fstat(&fd)?.size, 10_000)
                })
            },
        ),
        check(
            "limit/RLIMIT_FSIZE-kills-without-a-handler",
            "SIGXFSZ ends the process.",
            |_| {
                let child = Child::start(|_| {
                    limit_file_size(1000)?;
                    default_signal(libc::SIGXFSZ);
                    pwrite(open("f", O_CREAT | O_RDWR, 0o644)?, b"x", 1000)?;
                    Ok(())
                })?;
                same("end", child.end()?, End::Killed(libc::SIGXFSZ))
            },
        ),
        check(
            "limit/RLIMIT_FSIZE-truncate-and-fallocate-say-EFBIG",
            "Growing counts like writing.",
            |_| {
                in_child(|| {
                    limit_file_size(10_000)?;
                    ignore_signal(libc::SIGXFSZ);
                    let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                    ftruncate(&fd, 10_001).says(EFBIG)?;
                    ftruncate(&fd, 10_000)?;
                    fallocate(&fd, 0, 0, 10_001).says_one_of(&[EFBIG, EOPNOTSUPP])?;
                    same("size", fstat(&fd)?.size, 10_000)
                })
            },
        ),
        check(
            "limit/RLIMIT_FSIZE-does-not-bind-rewrites",
            "Bytes below the limit may be written again.",
            |_| {
                file("f", pattern(1, 50_000))?;
                in_child(|| {
                    limit_file_size(10_000)?;
                    ignore_signal(libc::SIGXFSZ);
                    let fd = reopen("f", O_RDWR)?;
                    same("taken", pwrite(&fd, b"abc", 0)?, 3)?;
                    pwrite(&fd, b"abc", 20_000).says(EFBIG)?;
                    same("size", fstat(&fd)?.size, 50_000)
                })
            },
        ),
    ]
}
