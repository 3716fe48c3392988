//! Copies inside the kernel: copy_file_range(2), sendfile(2), splice(2), clones.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = ranges();
    checks.extend(plain());
    checks.extend(refusals());
    checks.extend(streams());
    checks
}

/// Copy everything asked for, however short the single answers are.
#[track_caller]
fn copy(from: &Fd, mut at: i64, to: &Fd, mut to_at: i64, length: usize) -> Outcome<usize> {
    let mut done = 0;
    while done < length {
        match copy_file_range(from, Some(&mut at), to, Some(&mut to_at), length - done, 0)? {
            0 => break,
            some => done += some,
        }
    }
    Ok(done)
}

fn ranges() -> Vec<Check> {
    [
        (0i64, 0i64, 10usize),
        (0, 0, 100_000),
        (4096, 8192, 65_536),
        (1, 0, 50_000),
        (7, 100_003, 77_777),
    ]
    .into_iter()
    .map(|(from, to, length)| {
        check(
            format!("copy_file_range/{length}-bytes-from-{from}-to-{to}"),
            "The bytes arrive; what lies around them in the destination stays.",
            move |_| {
                file("a", pattern(1, 200_000))?;
                file("b", pattern(2, 150_000))?;
                let (a, b) = (reopen("a", O_RDONLY)?, reopen("b", O_RDWR)?);
                same("copied", copy(&a, from, &b, to, length)?, length)?;
                let mut expected = pattern(2, 150_000);
                let end = to as usize + length;
                if expected.len() < end {
                    expected.resize(end, 0);
                }
                expected[to as usize..end]
                    .copy_from_slice(&pattern(1, 200_000)[from as usize..from as usize + length]);
                holds("b", expected)?;
                holds("a", pattern(1, 200_000))
            },
        )
    })
    .collect()
}

fn plain() -> Vec<Check> {
    vec![
        check(
            "copy_file_range/without-offsets-moves-both-descriptors",
            "Like read and write.",
            |_| {
                file("a", pattern(1, 1000))?;
                file("b", b"")?;
                let (a, b) = (reopen("a", O_RDONLY)?, reopen("b", O_WRONLY)?);
                same("copied", copy_file_range(&a, None, &b, None, 300, 0)?, 300)?;
                same("copied", copy_file_range(&a, None, &b, None, 300, 0)?, 300)?;
                same(
                    "offsets",
                    (lseek(&a, 0, SEEK_CUR)?, lseek(&b, 0, SEEK_CUR)?),
                    (600, 600),
                )?;
                holds("b", &pattern(1, 1000)[..600])
            },
        ),
        check(
            "copy_file_range/with-offsets-moves-those-and-not-the-descriptors",
            "Like pread and pwrite.",
            |_| {
                file("a", pattern(1, 1000))?;
                file("b", b"")?;
                let (a, b) = (reopen("a", O_RDONLY)?, reopen("b", O_WRONLY)?);
                let (mut from, mut to) = (100, 50);
                same(
                    "copied",
                    copy_file_range(&a, Some(&mut from), &b, Some(&mut to), 200, 0)?,
                    200,
                )?;
                same("offsets", (from, to), (300, 250))?;
                same(
                    "descriptors",
                    (lseek(&a, 0, SEEK_CUR)?, lseek(&b, 0, SEEK_CUR)?),
                    (0, 0),
                )
            },
        ),
        check(
            "copy_file_range/stops-at-the-end-of-the-source",
            "0 says end of file.",
            |_| {
                file("a", pattern(1, 1000))?;
                file("b", b"")?;
                let (a, b) = (reopen("a", O_RDONLY)?, reopen("b", O_WRONLY)?);
                same("copied", copy(&a, 900, &b, 0, 500)?, 100)?;
                let (mut from, mut to) = (1000, 100);
                same(
                    "at the end",
                    copy_file_range(&a, Some(&mut from), &b, Some(&mut to), 10, 0)?,
                    0,
                )?;
                holds("b", &pattern(1, 1000)[900..])
            },
        ),
        check(
            "copy_file_range/within-one-file",
            "Ranges that do not overlap.",
            |_| {
                file("f", pattern(1, 100_000))?;
                let fd = reopen("f", O_RDWR)?;
                same("copied", copy(&fd, 0, &fd, 50_000, 30_000)?, 30_000)?;
                let mut expected = pattern(1, 100_000);
                expected.copy_within(0..30_000, 50_000);
                holds("f", expected)
            },
        ),
        check(
            "copy_file_range/a-hole-copies-as-zeros",
            "Whether or not it stays a hole.",
            |_| {
                file("a", b"")?;
                truncate("a", 1 << 20)?;
                pwrite(reopen("a", O_WRONLY)?, b"island", 500_000)?;
                file("b", pattern(1, 1 << 20))?;
                let (a, b) = (reopen("a", O_RDONLY)?, reopen("b", O_RDWR)?);
                same("copied", copy(&a, 0, &b, 0, 1 << 20)?, 1 << 20)?;
                same_bytes("bytes", &contents_of(&b)?, &contents_of(&a)?)
            },
        ),
        check(
            "copy_file_range/sees-bytes-just-written",
            "No cache stands between.",
            |_| {
                let a = open("a", O_CREAT | O_RDWR, 0o644)?;
                let b = open("b", O_CREAT | O_RDWR, 0o644)?;
                for round in 1..20u8 {
                    pwrite(&a, pattern(round, 5000), 0)?;
                    same("copied", copy(&a, 0, &b, 0, 5000)?, 5000)?;
                    same_bytes("bytes", &contents_of(&b)?, &pattern(round, 5000))?;
                }
                Ok(())
            },
        ),
        check(
            "copy_file_range/leaves-a-snapshot",
            "Later changes of the source do not show.",
            |_| {
                file("a", pattern(1, 100_000))?;
                file("b", b"")?;
                let (a, b) = (reopen("a", O_RDWR)?, reopen("b", O_RDWR)?);
                copy(&a, 0, &b, 0, 100_000)?;
                pwrite(&a, pattern(2, 100_000), 0)?;
                holds("b", pattern(1, 100_000))
            },
        ),
        check(
            "clone/a-whole-file-if-there-are-clones",
            "FICLONE shares bytes, not later changes.",
            |_| {
                file("a", pattern(1, 65_536))?;
                let (a, b) = (reopen("a", O_RDWR)?, open("b", O_CREAT | O_RDWR, 0o644)?);
                clone_file(&b, &a).or_skip(
                    &[EOPNOTSUPP, ENOTTY, EXDEV, EINVAL, ENOSYS],
                    "clones are optional",
                )?;
                pwrite(&a, b"changed", 0)?;
                holds("b", pattern(1, 65_536))
            },
        ),
    ]
}

fn refusals() -> Vec<Check> {
    vec![
        check(
            "copy_file_range/overlapping-ranges-of-one-file-say-EINVAL",
            "In either direction.",
            |_| {
                file("f", pattern(1, 10_000))?;
                let fd = reopen("f", O_RDWR)?;
                for (mut from, mut to) in [(0, 100), (100, 0)] {
                    copy_file_range(&fd, Some(&mut from), &fd, Some(&mut to), 1000, 0)
                        .says(EINVAL)?;
                }
                holds("f", pattern(1, 10_000))
            },
        ),
        check(
            "copy_file_range/needs-read-and-write",
            "EBADF for the wrong access mode or O_APPEND.",
            |_| {
                file("a", b"abc")?;
                file("b", b"")?;
                let go = |from: &Fd, to: &Fd| copy_file_range(from, None, to, None, 3, 0);
                go(&reopen("a", O_WRONLY)?, &reopen("b", O_WRONLY)?).says(EBADF)?;
                go(&reopen("a", O_RDONLY)?, &reopen("b", O_RDONLY)?).says(EBADF)?;
                go(&reopen("a", O_RDONLY)?, &reopen("b", O_WRONLY | O_APPEND)?).says(EBADF)
            },
        ),
        check(
            "copy_file_range/a-directory-says-EISDIR-a-fifo-EINVAL",
            "Only regular files.",
            |_| {
                file("a", b"abc")?;
                dir("d")?;
                mkfifo("p", 0o644)?;
                let (a, d) = (reopen("a", O_RDWR)?, reopen("d", O_DIRECTORY)?);
                copy_file_range(&d, None, &a, None, 3, 0).says(EISDIR)?;
                copy_file_range(open("p", O_RDWR | O_NONBLOCK, 0)?, None, &a, None, 3, 0)
                    .says(EINVAL)
            },
        ),
        check(
            "copy_file_range/flags-say-EINVAL",
            "No flag is defined.",
            |_| {
                file("a", b"abc")?;
                file("b", b"")?;
                copy_file_range(
                    reopen("a", O_RDONLY)?,
                    None,
                    reopen("b", O_WRONLY)?,
                    None,
                    3,
                    1,
                )
                .says(EINVAL)
            },
        ),
    ]
}

/// A count of bytes that must have moved: none would be the end, and there is none yet.
#[track_caller]
fn some(moved: Answer<usize>) -> Outcome<usize> {
    match moved? {
        0 => Err(failed("bytes move", "none did")),
        count => Ok(count),
    }
}

fn streams() -> Vec<Check> {
    vec![
        check(
            "sendfile/from-a-file-to-a-file",
            "With and without an offset.",
            |_| {
                file("a", pattern(1, 100_000))?;
                let (a, b) = (reopen("a", O_RDONLY)?, open("b", O_CREAT | O_RDWR, 0o644)?);
                let mut at = 50_000;
                let mut done = 0;
                while done < 50_000 {
                    done += some(sendfile(&b, &a, Some(&mut at), 50_000 - done))?;
                }
                same("offset given", at, 100_000)?;
                same("descriptor's offset", lseek(&a, 0, SEEK_CUR)?, 0)?;
                same("sent", sendfile(&b, &a, None, 1000)?, 1000)?;
                same("descriptor's offset", lseek(&a, 0, SEEK_CUR)?, 1000)?;
                let all = pattern(1, 100_000);
                holds("b", [&all[50_000..], &all[..1000]].concat())
            },
        ),
        check("sendfile/to-a-pipe", "As a web server does.", |_| {
            file("a", pattern(1, 30_000))?;
            let (from, to) = pipe()?;
            let sent = sendfile(&to, reopen("a", O_RDONLY)?, None, 30_000)?;
            same_bytes("bytes", &read(&from, 30_000)?, &pattern(1, 30_000)[..sent])
        }),
        check(
            "splice/from-a-file-into-a-pipe-and-back",
            "Without a detour through memory.",
            |_| {
                file("a", pattern(1, 50_000))?;
                let (from, to) = pipe()?;
                let (a, b) = (reopen("a", O_RDONLY)?, open("b", O_CREAT | O_RDWR, 0o644)?);
                let (mut at, mut to_at) = (0, 0);
                while at < 50_000 {
                    let mut left = some(splice(&a, Some(&mut at), &to, None, 20_000))?;
                    while left > 0 {
                        left -= some(splice(&from, None, &b, Some(&mut to_at), left))?;
                    }
                }
                same("offsets", (at, to_at), (50_000, 50_000))?;
                holds("b", pattern(1, 50_000))
            },
        ),
        check(
            "splice/pages-in-a-pipe-may-follow-the-file-but-are-whole",
            "What is read is old or new.",
            |_| {
                file("a", pattern(1, 4096))?;
                let (from, to) = pipe()?;
                let a = reopen("a", O_RDWR)?;
                let some = splice(&a, Some(&mut 0), &to, None, 4096)?;
                pwrite(&a, pattern(2, 4096), 0)?;
                let found = read(&from, some)?;
                truth(
                    "the page is the old or the new one",
                    found == pattern(1, 4096)[..some] || found == pattern(2, 4096)[..some],
                )
            },
        ),
        check(
            "splice/two-files-say-EINVAL",
            "One side must be a pipe.",
            |_| {
                file("a", b"abc")?;
                file("b", b"")?;
                splice(
                    reopen("a", O_RDONLY)?,
                    None,
                    reopen("b", O_WRONLY)?,
                    None,
                    3,
                )
                .says(EINVAL)
            },
        ),
    ]
}
