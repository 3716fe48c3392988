//! fsync(2) and its relatives: what they answer. That bytes survive a power cut is for other tests to show.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = [
        ("read-only", O_RDONLY),
        ("write-only", O_WRONLY),
        ("read-write", O_RDWR),
    ]
    .into_iter()
    .map(|(word, flags)| {
        check(
            format!("fsync/a-{word}-descriptor"),
            "Any descriptor of a file syncs it.",
            move |_| {
                file("f", pattern(1, 100_000))?;
                let fd = reopen("f", flags)?;
                fsync(&fd)?;
                fdatasync(&fd)?;
                syncfs(&fd)?;
                holds("f", pattern(1, 100_000))
            },
        )
    })
    .collect();
    checks.extend([
        check("fsync/a-directory", "Its names are synced.", |_| {
            dir("d")?;
            let d = reopen("d", O_DIRECTORY)?;
            for number in 0..20 {
                file(format!("d/{number}"), b"x")?;
                fsync(&d)?;
            }
            fdatasync(&d)?;
            syncfs(&d)?;
            same("names", names("d")?.len(), 20)
        }),
        check(
            "fsync/an-empty-file-and-a-file-without-a-name",
            "There is nothing to wait for.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                fsync(&fd)?;
                unlink("f")?;
                fsync(&fd)?;
                Ok(())
            },
        ),
        check(
            "fsync/again-and-again-between-writes",
            "Each returns when what came before is safe.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR | O_APPEND, 0o644)?;
                for number in 0..20u8 {
                    write(&fd, [number; 1000])?;
                    fsync(&fd)?;
                    same("size", fstat(&fd)?.size, (i64::from(number) + 1) * 1000)?;
                }
                Ok(())
            },
        ),
        check(
            "fsync/while-another-writes",
            "It waits for what was written before, not for ever.",
            |_| {
                file("f", b"")?;
                let fd = reopen("f", O_RDWR)?;
                std::thread::scope(|scope| {
                    let writer = scope.spawn(|| -> Outcome {
                        for round in 0..200i64 {
                            pwrite(&fd, pattern(1, 4096), round * 4096)?;
                        }
                        Ok(())
                    });
                    while !writer.is_finished() {
                        fsync(&fd)?;
                    }
                    writer
                        .join()
                        .unwrap_or_else(|_| Err(failed("the writer ends", "it panicked")))
                })?;
                same("size", fstat(&fd)?.size, 200 * 4096)
            },
        ),
        check(
            "fsync/a-fifo-or-socket-says-EINVAL",
            "They have nothing to sync.",
            |_| {
                mkfifo("p", 0o644)?;
                fsync(open("p", O_RDWR | O_NONBLOCK, 0)?).says(EINVAL)?;
                fdatasync(open("p", O_RDWR | O_NONBLOCK, 0)?).says(EINVAL)?;
                fsync(unix_socket()?).says(EINVAL)
            },
        ),
        check(
            "fsync/a-closed-descriptor-says-EBADF",
            "There is no file to sync.",
            |_| {
                fsync(1_000_000).says(EBADF)?;
                fdatasync(1_000_000).says(EBADF)?;
                syncfs(1_000_000).says(EBADF)
            },
        ),
        check(
            "sync_file_range/of-a-part",
            "Any range, also behind the end.",
            |_| {
                file("f", pattern(1, 100_000))?;
                let fd = reopen("f", O_RDWR)?;
                let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
                    | libc::SYNC_FILE_RANGE_WRITE
                    | libc::SYNC_FILE_RANGE_WAIT_AFTER;
                sync_file_range(&fd, 0, 50_000, all)?;
                sync_file_range(&fd, 0, 0, all)?;
                sync_file_range(&fd, 1 << 30, 4096, all)?;
                sync_file_range(&fd, -1, 10, all).says(EINVAL)?;
                sync_file_range(&fd, 0, 10, 1 << 20).says(EINVAL)
            },
        ),
        check(
            "fadvise/advice-changes-no-byte",
            "Also dropping the cache.",
            |_| {
                file("f", pattern(1, 300_000))?;
                let fd = reopen("f", O_RDWR)?;
                fsync(&fd)?;
                for advice in [
                    libc::POSIX_FADV_SEQUENTIAL,
                    libc::POSIX_FADV_RANDOM,
                    libc::POSIX_FADV_WILLNEED,
                    libc::POSIX_FADV_DONTNEED,
                    libc::POSIX_FADV_NOREUSE,
                    libc::POSIX_FADV_NORMAL,
                ] {
                    same("advice", fadvise(&fd, 0, 0, advice), Ok(()))?;
                    same_bytes("bytes", &contents_of(&fd)?, &pattern(1, 300_000))?;
                }
                same("unknown advice", fadvise(&fd, 0, 0, 99), Err(libc::EINVAL))?;
                readahead(&fd, 0, 300_000)?;
                same_bytes("bytes", &contents_of(&fd)?, &pattern(1, 300_000))
            },
        ),
    ]);
    checks
}
