//! stat(2), statx(2), statfs(2): what is told about a file and its file system.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = facts();
    checks.extend(blocks());
    checks.extend(extended());
    checks.extend(file_system());
    checks
}

fn facts() -> Vec<Check> {
    let mut checks: Vec<Check> = Kind::ALL
        .into_iter()
        .map(|kind| {
            check(
                format!("stat/of-a-new-{}", kind.word()),
                "Type, links, owner, size and device are those of a file just made.",
                move |_| {
                    kind.make("x")?;
                    let facts = lstat("x")?;
                    same("type", facts.kind(), kind.mode())?;
                    same("owner", (facts.uid, facts.gid), (geteuid(), getegid()))?;
                    same("device", facts.dev, stat(".")?.dev)?;
                    let size = match kind {
                        Kind::File => 5,
                        Kind::Symlink => "no-such-target".len() as i64,
                        Kind::Dir => facts.size,
                        _ => 0,
                    };
                    same("size", facts.size, size)?;
                    truth(
                        "links are 1, or 2 for a directory",
                        facts.nlink == 1 || kind == Kind::Dir,
                    )?;
                    let device = match kind {
                        Kind::Char => makedev(1, 3),
                        Kind::Block => makedev(0, 77),
                        _ => 0,
                    };
                    same("device number", facts.rdev, device)
                },
            )
        })
        .collect();
    checks.extend([
        check(
            "stat/fstat-stat-and-statx-agree",
            "They tell of one file.",
            |_| {
                file("f", pattern(1, 12_345))?;
                let fd = reopen("f", O_RDONLY)?;
                let one = stat("f")?;
                same("fstat", fstat(&fd)?, one)?;
                let two = statx(CWD, "f", 0, libc::STATX_BASIC_STATS)?;
                same("inode", two.stx_ino, one.ino)?;
                same("size", two.stx_size as i64, one.size)?;
                same_mode(u32::from(two.stx_mode), one.mode)?;
                same("links", u64::from(two.stx_nlink), one.nlink)?;
                same("blocks", two.stx_blocks as i64, one.blocks)?;
                same(
                    "mtime",
                    Time::new(two.stx_mtime.tv_sec, two.stx_mtime.tv_nsec.into()),
                    one.mtime,
                )?;
                same(
                    "ctime",
                    Time::new(two.stx_ctime.tv_sec, two.stx_ctime.tv_nsec.into()),
                    one.ctime,
                )
            },
        ),
        check(
            "stat/every-file-has-a-number-of-its-own",
            "1,000 files at once.",
            |_| {
                let mut numbers = std::collections::BTreeSet::new();
                for number in 0..1000 {
                    file(format!("{number}"), b"")?;
                    numbers.insert(stat(format!("{number}"))?.ino);
                }
                same("different numbers", numbers.len(), 1000)
            },
        ),
        check(
            "stat/the-number-survives-rename-chmod-and-writes",
            "A file stays itself.",
            |_| {
                file("f", b"")?;
                let number = stat("f")?.ino;
                chmod("f", 0o600)?;
                pwrite(reopen("f", O_WRONLY)?, b"abc", 0)?;
                rename("f", "g")?;
                same("number", stat("g")?.ino, number)
            },
        ),
        check(
            "stat/relative-to-a-descriptor",
            "The name starts there.",
            |_| {
                dir("d")?;
                file("d/f", b"abc")?;
                let d = reopen("d", O_DIRECTORY)?;
                same("size", statat(&d, "f", 0)?.size, 3)?;
                statat(-1, "f", 0).says(EBADF)?;
                statat(reopen("d/f", O_RDONLY)?, "g", 0).says(ENOTDIR)?;
                statat(CWD, "d", 1 << 30).says(EINVAL)
            },
        ),
        check(
            "stat/needs-no-permission-on-the-file",
            "Search permission on the way suffices.",
            |_| {
                file_with_mode("f", b"abc", 0o000)?;
                as_alice(|| same("size", stat("f")?.size, 3))
            },
        ),
        check(
            "stat/sees-a-size-that-another-process-changed",
            "A size is never stale.",
            |_| {
                file("f", b"abc")?;
                same("before", stat("f")?.size, 3)?;
                in_child(|| works(pwrite(reopen("f", O_WRONLY)?, b"x", 99)))?;
                same("after", stat("f")?.size, 100)
            },
        ),
        check(
            "stat/a-directorys-links-count-its-subdirectories",
            "Its name, its dot, and the dot-dot of each subdirectory.",
            |_| {
                dir("d")?;
                if stat("d")?.nlink == 1 {
                    return skipped("this file system does not count directories' links");
                }
                for number in 1..=20 {
                    dir(format!("d/{number}"))?;
                    file(format!("d/f{number}"), b"")?;
                    same("links", stat("d")?.nlink, 2 + number)?;
                }
                rmdir("d/7")?;
                same("links", stat("d")?.nlink, 21)
            },
        ),
    ]);
    checks
}

fn blocks() -> Vec<Check> {
    vec![
        check(
            "stat/blocks-follow-the-bytes",
            "After a sync they cover what was written, and little more.",
            |_| {
                const SIZE: usize = 4 << 20;
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                same("empty", fstat(&fd)?.blocks, 0)?;
                write_all(&fd, &pattern(1, SIZE))?;
                fsync(&fd)?;
                let blocks = fstat(&fd)?.blocks;
                let exact = (SIZE / 512) as i64;
                truth(
                    format!("{blocks} blocks of 512 are {exact} or up to a quarter more"),
                    (exact..=exact + exact / 4).contains(&blocks),
                )?;
                ftruncate(&fd, 0)?;
                same("cut", fstat(&fd)?.blocks, 0)
            },
        ),
        check(
            "stat/a-hole-has-no-blocks",
            "Only written parts count.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                pwrite(&fd, b"x", 100 << 20)?;
                fsync(&fd)?;
                let blocks = fstat(&fd)?.blocks;
                truth(
                    format!("{blocks} blocks are fewer than 4 MiB's"),
                    blocks < (4 << 20) / 512,
                )
            },
        ),
        check(
            "stat/the-preferred-block-size-is-a-power-of-two",
            "st_blksize is at least 512.",
            |_| {
                file("f", b"")?;
                let size = stat("f")?.blksize;
                truth(
                    format!("{size} is a power of two, at least 512"),
                    size >= 512 && size.count_ones() == 1,
                )
            },
        ),
    ]
}

fn extended() -> Vec<Check> {
    vec![
        check(
            "statx/tells-all-basic-facts",
            "The mask of the answer covers the basic ones.",
            |_| {
                file("f", b"abc")?;
                let facts = statx(CWD, "f", 0, libc::STATX_BASIC_STATS)?;
                same(
                    "mask",
                    facts.stx_mask & libc::STATX_BASIC_STATS,
                    libc::STATX_BASIC_STATS,
                )
            },
        ),
        check(
            "statx/birth-time-is-when-it-was-made",
            "And does not change.",
            |_| {
                let made = clock();
                file("f", b"abc")?;
                let facts = statx(CWD, "f", 0, libc::STATX_BTIME)?;
                if facts.stx_mask & libc::STATX_BTIME == 0 {
                    return skipped("this file system tells no birth time");
                }
                let birth = facts.stx_btime.tv_sec;
                truth(
                    format!("born at {birth}, near {}", made.sec),
                    (made.sec - 10..=made.sec + 10).contains(&birth),
                )?;
                utimens("f", EARLY, EARLY)?;
                let_the_clock_tick();
                pwrite(reopen("f", O_WRONLY)?, b"x", 0)?;
                let again = statx(CWD, "f", 0, libc::STATX_BTIME)?.stx_btime;
                same(
                    "later",
                    (again.tv_sec, again.tv_nsec),
                    (birth, facts.stx_btime.tv_nsec),
                )
            },
        ),
        check(
            "statx/of-a-symlink-follows-or-not",
            "AT_SYMLINK_NOFOLLOW tells of the link.",
            |_| {
                file("f", b"abc")?;
                symlink("f", "l")?;
                same("target", statx(CWD, "l", 0, libc::STATX_SIZE)?.stx_size, 3)?;
                let link = statx(
                    CWD,
                    "l",
                    AT_SYMLINK_NOFOLLOW,
                    libc::STATX_TYPE | libc::STATX_SIZE,
                )?;
                same("link", u32::from(link.stx_mode) & S_IFMT, S_IFLNK)
            },
        ),
        check(
            "statx/of-a-descriptor",
            "AT_EMPTY_PATH and an empty name.",
            |_| {
                file("f", b"abc")?;
                same(
                    "size",
                    statx(reopen("f", O_RDONLY)?, "", AT_EMPTY_PATH, libc::STATX_SIZE)?.stx_size,
                    3,
                )
            },
        ),
        check(
            "statx/synchronisation-flags",
            "Either may be asked for; both say EINVAL.",
            |_| {
                file("f", b"abc")?;
                for flag in [
                    libc::AT_STATX_FORCE_SYNC,
                    libc::AT_STATX_DONT_SYNC,
                    libc::AT_STATX_SYNC_AS_STAT,
                ] {
                    same(
                        "size",
                        statx(CWD, "f", flag, libc::STATX_BASIC_STATS)?.stx_size,
                        3,
                    )?;
                }
                let both = libc::AT_STATX_FORCE_SYNC | libc::AT_STATX_DONT_SYNC;
                statx(CWD, "f", both, libc::STATX_BASIC_STATS).says(EINVAL)
            },
        ),
        check(
            "statx/the-reserved-mask-bit-says-EINVAL",
            "So do unknown flags.",
            |_| {
                file("f", b"")?;
                statx(CWD, "f", 0, 0x8000_0000).says(EINVAL)?;
                statx(CWD, "f", 1 << 30, libc::STATX_SIZE).says(EINVAL)
            },
        ),
        check(
            "statx/device-numbers-are-told-apart",
            "rdev of a device node, dev of the file system.",
            |t| {
                t.needs_root()?;
                mknod("c", S_IFCHR | 0o600, makedev(1, 3))?;
                let facts = statx(CWD, "c", 0, libc::STATX_BASIC_STATS)?;
                same("rdev", (facts.stx_rdev_major, facts.stx_rdev_minor), (1, 3))
            },
        ),
        check(
            "statx/the-mount-root-is-marked",
            "STATX_ATTR_MOUNT_ROOT on a mount's root, not on other files.",
            |_| {
                file("f", b"")?;
                let flag = libc::STATX_ATTR_MOUNT_ROOT as u64;
                let facts = statx(CWD, "f", 0, libc::STATX_BASIC_STATS)?;
                if facts.stx_attributes_mask & flag == 0 {
                    return skipped("this kernel does not tell");
                }
                same("a file", facts.stx_attributes & flag, 0)?;
                same(
                    "/proc",
                    statx(CWD, "/proc", 0, libc::STATX_BASIC_STATS)?.stx_attributes & flag,
                    flag,
                )
            },
        ),
    ]
}

fn file_system() -> Vec<Check> {
    vec![
        check(
            "statfs/numbers-make-sense",
            "Free ≤ total, available ≤ free, block sizes positive.",
            |_| {
                let facts = statvfs(".")?;
                truth(
                    "block sizes are positive",
                    facts.f_bsize > 0 && facts.f_frsize > 0,
                )?;
                truth(
                    "free blocks ≤ all blocks",
                    facts.f_bfree <= facts.f_blocks && facts.f_blocks > 0,
                )?;
                truth(
                    "available blocks ≤ free blocks",
                    facts.f_bavail <= facts.f_bfree,
                )?;
                truth("free inodes ≤ all inodes", facts.f_ffree <= facts.f_files)
            },
        ),
        check(
            "statfs/names-may-have-255-bytes",
            "NAME_MAX as this suite uses it.",
            |_| same("f_namemax", statvfs(".")?.f_namemax, 255),
        ),
        check(
            "statfs/of-a-file-is-of-its-file-system",
            "By name and by descriptor.",
            |_| {
                file("f", b"")?;
                let (here, of_file) = (statfs(".")?, statfs("f")?);
                same("type", of_file.f_type, here.f_type)?;
                same("blocks", of_file.f_blocks, here.f_blocks)?;
                let of_descriptor = fstatfs(reopen("f", O_RDONLY)?)?;
                same("type", of_descriptor.f_type, here.f_type)?;
                same("blocks", of_descriptor.f_blocks, here.f_blocks)
            },
        ),
        check(
            "statfs/by-anybody",
            "No permission is needed on the file.",
            |_| {
                file_with_mode("f", b"", 0o000)?;
                as_alice(|| works(statfs("f")))
            },
        ),
        check(
            "statfs/free-space-shrinks-by-what-is-written",
            "After a sync of 32 MiB, give or take what others do.",
            |_| {
                const SIZE: u64 = 32 << 20;
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                // Others may free space meanwhile: write up to five times, ask for half of it once.
                for _ in 0..5 {
                    let before = statvfs(".")?;
                    write_all(&fd, &vec![7; SIZE as usize])?;
                    fsync(&fd)?;
                    let now = statvfs(".")?;
                    if before.f_bfree.saturating_sub(now.f_bfree) * now.f_frsize >= SIZE / 2 {
                        return Ok(());
                    }
                }
                truth(
                    "free space shrinks by at least half of what is written",
                    false,
                )
            },
        ),
    ]
}
