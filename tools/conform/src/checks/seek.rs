//! lseek(2), holes, and the largest offsets.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = plain();
    checks.extend(holes());
    checks.extend(far());
    checks
}

fn plain() -> Vec<Check> {
    vec![
        check(
            "lseek/SEEK_SET-CUR-END",
            "From the beginning, the offset, the end.",
            |_| {
                file("f", b"abcdefgh")?;
                let fd = reopen("f", O_RDONLY)?;
                same("set", lseek(&fd, 3, SEEK_SET)?, 3)?;
                same("cur", lseek(&fd, 2, SEEK_CUR)?, 5)?;
                same("cur back", lseek(&fd, -4, SEEK_CUR)?, 1)?;
                same("end", lseek(&fd, 0, SEEK_END)?, 8)?;
                same("before the end", lseek(&fd, -2, SEEK_END)?, 6)?;
                same_bytes("bytes", &read(&fd, 10)?, b"gh")
            },
        ),
        check(
            "lseek/beyond-the-end-is-allowed-and-grows-nothing",
            "Only a write there grows the file.",
            |_| {
                file("f", b"abc")?;
                let fd = reopen("f", O_RDWR)?;
                same("offset", lseek(&fd, 1000, SEEK_END)?, 1003)?;
                same("size", fstat(&fd)?.size, 3)?;
                same_bytes("read", &read(&fd, 10)?, b"")?;
                write(&fd, b"x")?;
                same("size", fstat(&fd)?.size, 1004)
            },
        ),
        check(
            "lseek/before-the-beginning-says-EINVAL",
            "The offset stays.",
            |_| {
                file("f", b"abc")?;
                let fd = reopen("f", O_RDONLY)?;
                lseek(&fd, 2, SEEK_SET)?;
                lseek(&fd, -1, SEEK_SET).says(EINVAL)?;
                lseek(&fd, -3, SEEK_CUR).says(EINVAL)?;
                lseek(&fd, -4, SEEK_END).says(EINVAL)?;
                same("offset", lseek(&fd, 0, SEEK_CUR)?, 2)
            },
        ),
        check(
            "lseek/an-unknown-whence-says-EINVAL",
            "SEEK_SET, CUR, END, DATA and HOLE are all there are.",
            |_| {
                file("f", b"abc")?;
                lseek(reopen("f", O_RDONLY)?, 0, 99).says(EINVAL)
            },
        ),
        check(
            "lseek/overflow-says-EOVERFLOW-or-EINVAL",
            "The sum does not fit an offset.",
            |_| {
                file("f", b"abc")?;
                let fd = reopen("f", O_RDONLY)?;
                lseek(&fd, 3, SEEK_SET)?;
                lseek(&fd, i64::MAX, SEEK_CUR).says_one_of(&[EOVERFLOW, EINVAL])?;
                lseek(&fd, i64::MAX, SEEK_END).says_one_of(&[EOVERFLOW, EINVAL])
            },
        ),
        check(
            "lseek/SEEK_END-follows-others-growth",
            "The end is where it is now.",
            |_| {
                file("f", b"abc")?;
                let fd = reopen("f", O_RDONLY)?;
                same("end", lseek(&fd, 0, SEEK_END)?, 3)?;
                in_child(|| Ok(truncate("f", 1000)?))?;
                same("end", lseek(&fd, 0, SEEK_END)?, 1000)
            },
        ),
        check(
            "lseek/a-fifo-says-ESPIPE",
            "A stream has no offset.",
            |_| {
                mkfifo("p", 0o644)?;
                let fd = open("p", O_RDWR | O_NONBLOCK, 0)?;
                lseek(&fd, 0, SEEK_CUR).says(ESPIPE)?;
                pread(&fd, 1, 0).says(ESPIPE)?;
                pwrite(&fd, b"x", 0).says(ESPIPE)
            },
        ),
    ]
}

/// The kernel lets a file system say that everything is data; then holes need not be told.
#[track_caller]
fn hole_at(fd: &Fd, from: i64, exact: i64, size: i64) -> Outcome {
    match lseek(fd, from, SEEK_HOLE)? {
        end if end == size && exact != size => {
            skipped("this file system tells no holes (all is data)")
        }
        found => same("hole", found, exact),
    }
}

fn holes() -> Vec<Check> {
    const UNIT: i64 = 1 << 20;
    vec![
        check(
            "SEEK_DATA/an-empty-file-says-ENXIO",
            "There is neither data nor hole.",
            |_| {
                file("f", b"")?;
                let fd = reopen("f", O_RDONLY)?;
                lseek(&fd, 0, SEEK_DATA).says(ENXIO)?;
                lseek(&fd, 0, SEEK_HOLE).says(ENXIO)
            },
        ),
        check(
            "SEEK_DATA/at-and-behind-the-end-says-ENXIO",
            "Nothing lies there.",
            |_| {
                file("f", b"abc")?;
                let fd = reopen("f", O_RDONLY)?;
                lseek(&fd, 3, SEEK_DATA).says(ENXIO)?;
                lseek(&fd, 3, SEEK_HOLE).says(ENXIO)?;
                lseek(&fd, 4, SEEK_HOLE).says(ENXIO)?;
                lseek(&fd, -1, SEEK_DATA).says(ENXIO)?;
                lseek(&fd, -1, SEEK_HOLE).says(ENXIO)
            },
        ),
        check(
            "SEEK_HOLE/the-end-is-a-hole",
            "A file without holes has one at its end.",
            |_| {
                file("f", pattern(1, 10_000))?;
                let fd = reopen("f", O_RDONLY)?;
                same("hole", lseek(&fd, 0, SEEK_HOLE)?, 10_000)?;
                same("hole", lseek(&fd, 9_999, SEEK_HOLE)?, 10_000)?;
                same("data", lseek(&fd, 0, SEEK_DATA)?, 0)?;
                same("data", lseek(&fd, 5_000, SEEK_DATA)?, 5_000)
            },
        ),
        check(
            "SEEK_HOLE/sets-the-offset",
            "It moves the descriptor like every seek.",
            |_| {
                file("f", b"abc")?;
                let fd = reopen("f", O_RDONLY)?;
                lseek(&fd, 0, SEEK_HOLE)?;
                same("offset", lseek(&fd, 0, SEEK_CUR)?, 3)
            },
        ),
        check(
            "SEEK_DATA/finds-islands-between-holes",
            "Data, hole, data, hole, in blocks of 1 MiB.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                pwrite(&fd, pattern(1, UNIT as usize), UNIT)?;
                pwrite(&fd, pattern(2, UNIT as usize), 3 * UNIT)?;
                ftruncate(&fd, 5 * UNIT)?;
                hole_at(&fd, 0, 0, 5 * UNIT)?;
                hole_at(&fd, UNIT, 2 * UNIT, 5 * UNIT)?;
                hole_at(&fd, 3 * UNIT + 5, 4 * UNIT, 5 * UNIT)?;
                same("data from 0", lseek(&fd, 0, SEEK_DATA)?, UNIT)?;
                same(
                    "data from inside",
                    lseek(&fd, UNIT + 77, SEEK_DATA)?,
                    UNIT + 77,
                )?;
                same("data from 2", lseek(&fd, 2 * UNIT, SEEK_DATA)?, 3 * UNIT)?;
                lseek(&fd, 4 * UNIT, SEEK_DATA).says(ENXIO)?;
                same(
                    "hole from 4",
                    lseek(&fd, 4 * UNIT + 9, SEEK_HOLE)?,
                    4 * UNIT + 9,
                )
            },
        ),
        check(
            "SEEK_HOLE/from-inside-a-block-sees-the-block-as-it-is-from-its-start",
            "A block with a byte of data is data to its end; one without is a hole from wherever one asks.",
            |_| {
                const BLOCK: i64 = 4096;
                let end = 30 * BLOCK;
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                ftruncate(&fd, end)?;
                for at in [0, 10 * BLOCK, 20 * BLOCK, end - 128] {
                    pwrite(&fd, b"twelve bytes", at)?;
                }
                works(fsync(&fd))?;
                // Where blocks are larger, or all is data, there is nothing to see.
                hole_at(&fd, 0, BLOCK, end)?;
                hole_at(&fd, 4, BLOCK, end)?;
                hole_at(&fd, BLOCK + 128, BLOCK + 128, end)?;
                hole_at(&fd, 10 * BLOCK + 4, 11 * BLOCK, end)?;
                hole_at(&fd, 20 * BLOCK + 100, 21 * BLOCK, end)?;
                same("data", lseek(&fd, 11 * BLOCK + 128, SEEK_DATA)?, 20 * BLOCK)?;
                same("data in a block of data", lseek(&fd, 100, SEEK_DATA)?, 100)?;
                same(
                    "data at the end",
                    lseek(&fd, end - 50, SEEK_DATA)?,
                    end - 50,
                )?;
                same(
                    "no hole before the end",
                    lseek(&fd, end - 128, SEEK_HOLE)?,
                    end,
                )?;
                same(
                    "nor behind the last byte",
                    lseek(&fd, end - 60, SEEK_HOLE)?,
                    end,
                )
            },
        ),
        check(
            "SEEK_DATA/a-file-of-one-hole-says-ENXIO",
            "There is no data behind the offset.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                ftruncate(&fd, 10 * UNIT)?;
                hole_at(&fd, 0, 0, 10 * UNIT)?;
                lseek(&fd, 0, SEEK_DATA).says(ENXIO)
            },
        ),
        check(
            "SEEK_DATA/a-punched-hole-is-found",
            "After FALLOC_FL_PUNCH_HOLE.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                write_all(&fd, &pattern(1, 3 * UNIT as usize))?;
                fallocate(&fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, UNIT, UNIT)
                    .or_skip(&[EOPNOTSUPP], "punching is optional")?;
                hole_at(&fd, 0, UNIT, 3 * UNIT)?;
                same("data", lseek(&fd, UNIT, SEEK_DATA)?, 2 * UNIT)
            },
        ),
        check(
            "SEEK_DATA/never-skips-a-byte-that-was-written",
            "Walking data and holes covers all bytes.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                let spots = [0i64, 5_000, 70_000, UNIT + 3, 3 * UNIT - 1, 9 * UNIT];
                for spot in spots {
                    pwrite(&fd, b"#", spot)?;
                }
                let end = 9 * UNIT + 1;
                let mut at = 0;
                let mut covered = Vec::new();
                while at < end {
                    let Ok(data) = lseek(&fd, at, SEEK_DATA) else {
                        break;
                    };
                    let hole = lseek(&fd, data, SEEK_HOLE)?;
                    truth(
                        format!("data at {data} is followed by a hole behind it, not at {hole}"),
                        hole > data,
                    )?;
                    covered.push(data..hole);
                    at = hole;
                }
                for spot in spots {
                    truth(
                        format!("byte {spot} lies in data"),
                        covered.iter().any(|piece| piece.contains(&spot)),
                    )?;
                }
                Ok(())
            },
        ),
    ]
}

fn far() -> Vec<Check> {
    let mut checks: Vec<Check> = [31u32, 32, 40, 43, 50, 60]
        .into_iter()
        .map(|power| {
            check(
                format!("sparse/a-byte-at-2-to-the-{power}"),
                "A file may be sparse: size counts holes, blocks do not.",
                move |_| {
                    let at = 1i64 << power;
                    let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                    pwrite(&fd, b"far", at)
                        .or_skip(&[EFBIG, EINVAL], "this file system's files end before")?;
                    same("size", fstat(&fd)?.size, at + 3)?;
                    same_bytes("bytes", &pread(&fd, 10, at - 2)?, b"\0\0far")?;
                    same_bytes("beginning", &pread(&fd, 10, 0)?, &[0; 10])?;
                    truth(
                        "it occupies less than 64 MiB",
                        fstat(&fd)?.blocks < (64 << 20) / 512,
                    )?;
                    ftruncate(&fd, at)?;
                    pwrite(&fd, b"near", 0)?;
                    same("size", fstat(&fd)?.size, at)
                },
            )
        })
        .collect();
    checks.extend([
        check(
            "sparse/the-last-byte-of-all",
            "The largest file has 8 EiB − 1 bytes.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                pwrite(&fd, b"Z", OFFSET_MAX - 1)
                    .or_skip(&[EFBIG, EINVAL], "this file system's files end before")?;
                same("size", fstat(&fd)?.size, OFFSET_MAX)?;
                same_bytes("byte", &pread(&fd, 1, OFFSET_MAX - 1)?, b"Z")?;
                same("end", lseek(&fd, 0, SEEK_END)?, OFFSET_MAX)
            },
        ),
        check(
            "sparse/truncated-to-the-largest-size",
            "ftruncate to 8 EiB − 1 and back.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                write(&fd, b"abc")?;
                ftruncate(&fd, OFFSET_MAX)
                    .or_skip(&[EFBIG, EINVAL], "this file system's files end before")?;
                same("size", fstat(&fd)?.size, OFFSET_MAX)?;
                same_bytes("bytes", &pread(&fd, 5, 0)?, b"abc\0\0")?;
                ftruncate(&fd, 2)?;
                holds("f", b"ab")
            },
        ),
        check(
            "sparse/a-write-across-the-largest-offset-is-refused-or-short",
            "EFBIG, EINVAL, or what fits.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                match pwrite(&fd, b"ABCD", OFFSET_MAX - 2) {
                    Ok(taken) => same("taken", taken, 2),
                    answer => answer.says_one_of(&[EFBIG, EINVAL, EOVERFLOW]),
                }
            },
        ),
    ]);
    checks
}
