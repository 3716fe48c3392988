//! mmap(2) of files: private, shared, at the end, together with read and write.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = loading();
    checks.extend(storing());
    checks
}

pub(super) const PAGE: usize = 4096;

pub(super) const RW: i32 = PROT_READ | PROT_WRITE;

const NO_SHARED: &str = "shared writable mappings are refused here";

/// A shared writable mapping; skips where the file system has none (direct I/O without mmap).
#[track_caller]
pub(super) fn shared(name: &str, length: usize) -> Outcome<Mapping> {
    mmap(reopen(name, O_RDWR)?, 0, length, RW, MAP_SHARED).or_skip(&[ENODEV], NO_SHARED)
}

fn loading() -> Vec<Check> {
    let mut checks: Vec<Check> = [("private", MAP_PRIVATE), ("shared", MAP_SHARED)]
        .into_iter()
        .map(|(word, flags)| {
            check(
                format!("mmap/{word}-reading-shows-the-files-bytes"),
                "A mapping is the file's content.",
                move |_| {
                    file("f", pattern(1, 300_000))?;
                    let map = mmap(reopen("f", O_RDONLY)?, 0, 300_000, PROT_READ, flags)?;
                    same_bytes("bytes", &map.load(0, 300_000), &pattern(1, 300_000))
                },
            )
        })
        .collect();
    checks.extend([
        check(
            "mmap/pages-that-were-given-back-are-read-again",
            "MADV_DONTNEED forgets no byte of the file.",
            |_| {
                file("f", pattern(1, 10 * PAGE))?;
                let map = shared("f", 10 * PAGE)?;
                map.store(PAGE, pattern(2, PAGE));
                map.advise(libc::MADV_DONTNEED)?;
                let mut expected = pattern(1, 10 * PAGE);
                expected[PAGE..2 * PAGE].copy_from_slice(&pattern(2, PAGE));
                same_bytes("bytes", &map.load(0, 10 * PAGE), &expected)
            },
        ),
        check(
            "mmap/at-an-offset",
            "An offset of whole pages chooses the part of the file.",
            |_| {
                file("f", pattern(1, 10 * PAGE))?;
                let map = mmap(
                    reopen("f", O_RDONLY)?,
                    3 * PAGE as i64,
                    2 * PAGE,
                    PROT_READ,
                    MAP_SHARED,
                )?;
                same_bytes(
                    "bytes",
                    &map.load(0, 2 * PAGE),
                    &pattern(1, 10 * PAGE)[3 * PAGE..5 * PAGE],
                )
            },
        ),
        check(
            "mmap/stays-after-close",
            "The mapping holds the file.",
            |_| {
                file("f", pattern(1, PAGE))?;
                let fd = reopen("f", O_RDONLY)?;
                let map = mmap(&fd, 0, PAGE, PROT_READ, MAP_SHARED)?;
                fd.close()?;
                same_bytes("bytes", &map.load(0, PAGE), &pattern(1, PAGE))
            },
        ),
        check(
            "mmap/a-hole-reads-zeros",
            "And reading it takes no space.",
            |_| {
                file("f", b"")?;
                truncate("f", 64 << 20)?;
                let map = mmap(reopen("f", O_RDONLY)?, 0, 64 << 20, PROT_READ, MAP_SHARED)?;
                same_bytes("bytes", &map.load((32 << 20) - 100, 5000), &[0; 5000])?;
                truth(
                    "a hole that was read is still one",
                    stat("f")?.blocks < 2048,
                )
            },
        ),
        check(
            "mmap/shows-a-write-to-the-file-at-once",
            "By this process and by another.",
            |_| {
                file("f", pattern(1, 4 * PAGE))?;
                let map = mmap(reopen("f", O_RDONLY)?, 0, 4 * PAGE, PROT_READ, MAP_SHARED)?;
                same_bytes("before", &map.load(5000, 5), &pattern(1, 5005)[5000..])?;
                pwrite(reopen("f", O_WRONLY)?, b"HELLO", 5000)?;
                same_bytes("own write", &map.load(5000, 5), b"HELLO")?;
                in_child(|| works(pwrite(reopen("f", O_WRONLY)?, b"WORLD", 5000)))?;
                same_bytes("another's write", &map.load(5000, 5), b"WORLD")
            },
        ),
        check(
            "mmap/a-private-store-stays-private",
            "Neither the file nor others see it.",
            |_| {
                file("f", pattern(1, PAGE))?;
                let map = mmap(reopen("f", O_RDONLY)?, 0, PAGE, RW, MAP_PRIVATE)?;
                map.store(0, b"private");
                same_bytes("mapping", &map.load(0, 7), b"private")?;
                holds("f", pattern(1, PAGE))
            },
        ),
    ]);
    checks
}

fn storing() -> Vec<Check> {
    vec![
        check(
            "mmap/a-shared-store-is-seen-by-read-at-once",
            "Mapping and read show one file, without msync.",
            |_| {
                file("f", pattern(1, 4 * PAGE))?;
                let map = shared("f", 4 * PAGE)?;
                map.store(6000, b"stored");
                same_bytes(
                    "by pread",
                    &pread(reopen("f", O_RDONLY)?, 6, 6000)?,
                    b"stored",
                )?;
                in_child(|| {
                    same_bytes(
                        "by another process",
                        &pread(reopen("f", O_RDONLY)?, 6, 6000)?,
                        b"stored",
                    )
                })
            },
        ),
        check(
            "mmap/a-shared-store-is-seen-by-another-mapping",
            "Of another process too.",
            |_| {
                file("f", pattern(1, PAGE))?;
                let (one, two) = (shared("f", PAGE)?, shared("f", PAGE)?);
                one.store(100, b"hello");
                same_bytes("in this process", &two.load(100, 5), b"hello")?;
                in_child(|| {
                    same_bytes("in a child", &two.load(100, 5), b"hello")?;
                    one.store(100, b"child");
                    Ok(())
                })?;
                same_bytes("back here", &two.load(100, 5), b"child")
            },
        ),
        check(
            "mmap/msync-and-unmap-keep-the-bytes",
            "They are in the file afterwards.",
            |_| {
                file("f", vec![0; 100 * PAGE])?;
                {
                    let map = shared("f", 100 * PAGE)?;
                    map.store(0, pattern(3, 100 * PAGE));
                    map.sync(MS_SYNC)?;
                }
                holds("f", pattern(3, 100 * PAGE))
            },
        ),
        check(
            "mmap/unmap-without-msync-keeps-the-bytes",
            "Also after the last descriptor is gone.",
            |_| {
                file("f", vec![0; 10 * PAGE])?;
                shared("f", 10 * PAGE)?.store(0, pattern(4, 10 * PAGE));
                in_child(|| holds("f", pattern(4, 10 * PAGE)))
            },
        ),
        check(
            "mmap/fsync-keeps-what-was-stored",
            "It syncs mapped pages too.",
            |_| {
                file("f", vec![0; PAGE])?;
                let fd = reopen("f", O_RDWR)?;
                let map = shared("f", PAGE)?;
                map.store(0, b"stored");
                fsync(&fd)?;
                same_bytes("bytes", &pread(&fd, 6, 0)?, b"stored")
            },
        ),
        check(
            "mmap/MS_ASYNC-and-MS_INVALIDATE-work",
            "Nothing is lost.",
            |_| {
                file("f", vec![0; PAGE])?;
                let map = shared("f", PAGE)?;
                map.store(0, b"one");
                map.sync(MS_ASYNC)?;
                map.store(3, b"two");
                map.sync(MS_SYNC | MS_INVALIDATE)?;
                holds("f", [b"onetwo".to_vec(), vec![0; PAGE - 6]].concat())
            },
        ),
        check(
            "mmap/stores-and-writes-to-different-pages-keep-both",
            "Neighbours are left alone.",
            |_| {
                file("f", pattern(1, 8 * PAGE))?;
                let fd = reopen("f", O_RDWR)?;
                let map = shared("f", 8 * PAGE)?;
                map.store(PAGE, pattern(2, PAGE));
                pwrite(&fd, pattern(3, PAGE), 2 * PAGE as i64)?;
                map.store(3 * PAGE + 10, b"mapped");
                pwrite(&fd, b"written", 3 * PAGE as i64 + 100)?;
                let mut expected = pattern(1, 8 * PAGE);
                expected[PAGE..2 * PAGE].copy_from_slice(&pattern(2, PAGE));
                expected[2 * PAGE..3 * PAGE].copy_from_slice(&pattern(3, PAGE));
                expected[3 * PAGE + 10..][..6].copy_from_slice(b"mapped");
                expected[3 * PAGE + 100..][..7].copy_from_slice(b"written");
                same_bytes("through the mapping", &map.load(0, 8 * PAGE), &expected)?;
                map.sync(MS_SYNC)?;
                holds("f", expected)
            },
        ),
        check(
            "mmap/a-store-into-a-hole-allocates-it",
            "The rest of the file still reads zeros.",
            |_| {
                file("f", b"")?;
                truncate("f", 1 << 20)?;
                let map = shared("f", 1 << 20)?;
                map.store(500_000, b"island");
                map.sync(MS_SYNC)?;
                let mut expected = vec![0; 1 << 20];
                expected[500_000..500_006].copy_from_slice(b"island");
                holds("f", expected)
            },
        ),
        check(
            "mmap/a-write-from-a-mapping-of-the-same-file",
            "The kernel reads the page it writes beside.",
            |_| {
                file("f", pattern(1, 2 * PAGE))?;
                let fd = reopen("f", O_RDWR)?;
                let map = shared("f", 2 * PAGE)?;
                same("taken", pwrite_mapped(&fd, &map, PAGE, PAGE as i64)?, PAGE)?;
                holds("f", [pattern(1, PAGE), pattern(1, PAGE)].concat())
            },
        ),
        check(
            "mmap/a-read-into-a-mapping-of-the-same-file",
            "The page that is filled is the file's.",
            |_| {
                file("f", pattern(1, 2 * PAGE))?;
                let fd = reopen("f", O_RDWR)?;
                let map = shared("f", 2 * PAGE)?;
                same("given", pread_mapped(&fd, &map, PAGE, PAGE as i64)?, PAGE)?;
                let second = &pattern(1, 2 * PAGE)[PAGE..];
                map.sync(MS_SYNC)?;
                holds("f", [second, second].concat())
            },
        ),
        check(
            "mmap/private-pages-keep-their-copy-when-the-file-changes",
            "A touched page is the process's own.",
            |_| {
                file("f", pattern(1, PAGE))?;
                let map = mmap(reopen("f", O_RDWR)?, 0, PAGE, RW, MAP_PRIVATE)?;
                map.store(0, b"mine");
                pwrite(reopen("f", O_WRONLY)?, b"theirs", 0)?;
                same_bytes("mapping", &map.load(0, 4), b"mine")?;
                holds(
                    "f",
                    [b"theirs".to_vec(), pattern(1, PAGE)[6..].to_vec()].concat(),
                )
            },
        ),
    ]
}
