//! mmap(2): the end of the file, and what cannot be mapped.

use super::map::{PAGE, RW, shared};
use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = edges();
    checks.extend(refusals());
    checks
}

/// In a child: what kills it.
#[track_caller]
fn dies_of(signal: i32, work: impl FnOnce() -> Outcome) -> Outcome {
    let child = Child::start(|_| {
        default_signal(signal);
        work()
    })?;
    same("end", child.end()?, End::Killed(signal))
}

fn edges() -> Vec<Check> {
    vec![
        check(
            "mmap/the-rest-of-the-last-page-is-zero",
            "Bytes behind the end, within the page.",
            |_| {
                file("f", pattern(1, 5000))?;
                let map = mmap(reopen("f", O_RDONLY)?, 0, 2 * PAGE, PROT_READ, MAP_SHARED)?;
                same_bytes(
                    "bytes",
                    &map.load(5000, 2 * PAGE - 5000),
                    &vec![0; 2 * PAGE - 5000],
                )
            },
        ),
        check(
            "mmap/a-store-behind-the-end-does-not-grow-the-file",
            "Bytes of the last page behind the end are not part of the file and not kept.",
            |_| {
                file("f", pattern(1, 5000))?;
                let map = shared("f", 2 * PAGE)?;
                map.store(6000, b"lost");
                map.sync(MS_SYNC)?;
                same("size", stat("f")?.size, 5000)?;
                drop(map);
                truncate("f", 8192)?;
                let expected = [pattern(1, 5000), vec![0; 3192]].concat();
                holds("f", expected)
            },
        ),
        check(
            "mmap/a-page-behind-the-end-raises-SIGBUS",
            "A load or store in a whole page behind the end.",
            |_| {
                file("f", pattern(1, PAGE))?;
                dies_of(libc::SIGBUS, || {
                    let map = mmap(reopen("f", O_RDONLY)?, 0, 2 * PAGE, PROT_READ, MAP_SHARED)?;
                    map.load(PAGE, 1);
                    Ok(())
                })?;
                dies_of(libc::SIGBUS, || {
                    shared("f", 2 * PAGE)?.store(PAGE, b"x");
                    Ok(())
                })
            },
        ),
        check(
            "mmap/a-page-that-truncate-cut-off-raises-SIGBUS",
            "Also one that was touched before.",
            |_| {
                file("f", pattern(1, 4 * PAGE))?;
                dies_of(libc::SIGBUS, || {
                    let map = mmap(reopen("f", O_RDONLY)?, 0, 4 * PAGE, PROT_READ, MAP_SHARED)?;
                    same_bytes(
                        "before",
                        &map.load(3 * PAGE, 8),
                        &pattern(1, 4 * PAGE)[3 * PAGE..][..8],
                    )?;
                    truncate("f", PAGE as i64)?;
                    map.load(3 * PAGE, 1);
                    Ok(())
                })
            },
        ),
        check(
            "mmap/a-cut-and-grown-page-reads-zeros",
            "Old bytes do not come back.",
            |_| {
                file("f", pattern(1, 4 * PAGE))?;
                let map = mmap(reopen("f", O_RDONLY)?, 0, 4 * PAGE, PROT_READ, MAP_SHARED)?;
                map.load(0, 4 * PAGE);
                truncate("f", 100)?;
                truncate("f", 4 * PAGE as i64)?;
                let expected = [pattern(1, 100), vec![0; 4 * PAGE - 100]].concat();
                same_bytes("bytes", &map.load(0, 4 * PAGE), &expected)
            },
        ),
        check(
            "mmap/a-page-appears-when-the-file-grows",
            "Under an existing mapping.",
            |_| {
                file("f", pattern(1, 100))?;
                let map = mmap(reopen("f", O_RDONLY)?, 0, 2 * PAGE, PROT_READ, MAP_SHARED)?;
                same_bytes("before", &map.load(0, 100), &pattern(1, 100))?;
                pwrite(reopen("f", O_WRONLY)?, b"grown", PAGE as i64 + 7)?;
                same_bytes("after", &map.load(PAGE + 7, 5), b"grown")
            },
        ),
        check(
            "mmap/a-punched-page-reads-zeros",
            "Under an existing mapping.",
            |_| {
                file("f", pattern(1, 4 * PAGE))?;
                let map = mmap(reopen("f", O_RDONLY)?, 0, 4 * PAGE, PROT_READ, MAP_SHARED)?;
                map.load(0, 4 * PAGE);
                let flags = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
                fallocate(reopen("f", O_RDWR)?, flags, PAGE as i64, PAGE as i64)
                    .or_skip(&[EOPNOTSUPP], "punching is optional")?;
                same_bytes("bytes", &map.load(PAGE, PAGE), &[0; PAGE])?;
                same_bytes("neighbour", &map.load(0, PAGE), &pattern(1, PAGE))
            },
        ),
        check(
            "mmap/the-largest-offset",
            "A mapping far inside a sparse file.",
            |_| {
                file("f", b"")?;
                let at = 1i64 << 40;
                pwrite(reopen("f", O_WRONLY)?, b"far", at)
                    .or_skip(&[EFBIG], "this file system's files end before")?;
                let map = mmap(reopen("f", O_RDONLY)?, at, PAGE, PROT_READ, MAP_SHARED)?;
                same_bytes("bytes", &map.load(0, 3), b"far")
            },
        ),
    ]
}

fn refusals() -> Vec<Check> {
    vec![
        check(
            "mmap/a-write-only-descriptor-says-EACCES",
            "Every mapping needs a readable descriptor.",
            |_| {
                file("f", pattern(1, PAGE))?;
                mmap(reopen("f", O_WRONLY)?, 0, PAGE, PROT_READ, MAP_SHARED).says(EACCES)?;
                mmap(reopen("f", O_WRONLY)?, 0, PAGE, PROT_READ, MAP_PRIVATE).says(EACCES)
            },
        ),
        check(
            "mmap/shared-writable-of-a-read-only-descriptor-says-EACCES",
            "Private is allowed.",
            |_| {
                file("f", pattern(1, PAGE))?;
                mmap(reopen("f", O_RDONLY)?, 0, PAGE, RW, MAP_SHARED).says(EACCES)?;
                mmap(reopen("f", O_RDONLY)?, 0, PAGE, RW, MAP_PRIVATE)?;
                Ok(())
            },
        ),
        check(
            "mmap/an-odd-offset-says-EINVAL",
            "Whole pages only; and no empty mapping.",
            |_| {
                file("f", pattern(1, PAGE))?;
                let fd = reopen("f", O_RDONLY)?;
                mmap(&fd, 100, PAGE, PROT_READ, MAP_SHARED).says(EINVAL)?;
                mmap(&fd, 0, 0, PROT_READ, MAP_SHARED).says(EINVAL)
            },
        ),
        check("mmap/a-directory-says-ENODEV", "It has no bytes.", |_| {
            dir("d")?;
            mmap(reopen("d", O_DIRECTORY)?, 0, PAGE, PROT_READ, MAP_PRIVATE).says(ENODEV)
        }),
        check(
            "mmap/a-closed-descriptor-says-EBADF",
            "There is nothing to map.",
            |_| mmap(1_000_000, 0, PAGE, PROT_READ, MAP_PRIVATE).says(EBADF),
        ),
        check(
            "mmap/a-read-only-mapping-cannot-be-made-writable",
            "When the descriptor was read-only: EACCES.",
            |_| {
                file("f", pattern(1, PAGE))?;
                let map = mmap(reopen("f", O_RDONLY)?, 0, PAGE, PROT_READ, MAP_SHARED)?;
                map.protect(RW).says(EACCES)
            },
        ),
    ]
}
