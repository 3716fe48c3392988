//! fallocate(2): reserve, keep the size, punch, zero.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = reserving();
    checks.extend(emptying());
    checks.extend(refusals());
    checks
}

const UNIT: usize = 1 << 20;
const NONE: &str = "this mode of fallocate is optional";
const PUNCH: i32 = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

#[track_caller]
fn allocate(fd: &Fd, mode: i32, offset: usize, length: usize) -> Outcome {
    fallocate(fd, mode, offset as i64, length as i64).or_skip(&[EOPNOTSUPP], NONE)
}

#[track_caller]
fn full(size: usize) -> Outcome<Fd> {
    let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
    write_all(&fd, &pattern(1, size))?;
    Ok(fd)
}

fn reserving() -> Vec<Check> {
    vec![
        check(
            "fallocate/grows-the-file-with-zeros",
            "Size is offset + length; new bytes are 0.",
            |_| {
                let fd = full(5000)?;
                allocate(&fd, 0, 0, UNIT)?;
                same("size", fstat(&fd)?.size, UNIT as i64)?;
                holds("f", [pattern(1, 5000), vec![0; UNIT - 5000]].concat())
            },
        ),
        check(
            "fallocate/within-the-file-keeps-bytes-and-size",
            "Nothing visible changes.",
            |_| {
                let fd = full(UNIT)?;
                allocate(&fd, 0, 1000, 5000)?;
                holds("f", pattern(1, UNIT))
            },
        ),
        check(
            "fallocate/reserves-blocks",
            "They are counted in st_blocks.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                allocate(&fd, 0, 0, 4 * UNIT)?;
                fsync(&fd)?;
                let blocks = fstat(&fd)?.blocks;
                truth(
                    format!("{blocks} blocks are at least 4 MiB's"),
                    blocks >= (4 * UNIT / 512) as i64,
                )
            },
        ),
        check(
            "fallocate/KEEP_SIZE-keeps-the-size",
            "Blocks beyond the end may be reserved.",
            |_| {
                let fd = full(100)?;
                allocate(&fd, FALLOC_FL_KEEP_SIZE, 0, UNIT)?;
                same("size", fstat(&fd)?.size, 100)?;
                holds("f", pattern(1, 100))?;
                pwrite(&fd, b"later", 200_000)?;
                same_bytes("between", &pread(&fd, 10, 199_990)?, &[0; 10])
            },
        ),
        check(
            "fallocate/fills-a-hole-with-zeros",
            "The bytes around stay.",
            |_| {
                let fd = full(1000)?;
                pwrite(&fd, b"end", 2 * UNIT as i64)?;
                allocate(&fd, 0, UNIT / 2, UNIT)?;
                let mut expected = pattern(1, 1000);
                expected.resize(2 * UNIT, 0);
                expected.extend(b"end");
                holds("f", expected)
            },
        ),
    ]
}

/// Zeros from `offset`, at odd and even places, by punching and by zeroing.
fn emptying() -> Vec<Check> {
    let mut checks = Vec::new();
    for (word, mode) in [
        ("PUNCH_HOLE", PUNCH),
        ("ZERO_RANGE", FALLOC_FL_ZERO_RANGE),
        ("ZERO_RANGE-KEEP_SIZE", ZERO_KEEP),
    ] {
        for (offset, length) in [
            (0usize, UNIT),
            (4096, 4096),
            (100, 50),
            (5000, 10_000),
            (UNIT - 1, UNIT + 2),
            (3 * UNIT - 10, 10),
        ] {
            checks.push(check(
                format!("fallocate/{word}-of-{length}-bytes-at-{offset}"),
                "The range reads as zeros, the rest and the size stay; nothing is lost in partial blocks.",
                move |_| {
                    let fd = full(3 * UNIT)?;
                    allocate(&fd, mode, offset, length)?;
                    let mut expected = pattern(1, 3 * UNIT);
                    expected[offset..offset + length].fill(0);
                    same_bytes("through the same descriptor", &contents_of(&fd)?, &expected)?;
                    drop(fd);
                    holds("f", expected)
                },
            ));
        }
    }
    checks.extend([
        check(
            "fallocate/PUNCH_HOLE-frees-blocks",
            "As st_blocks counts them.",
            |_| {
                let fd = full(8 * UNIT)?;
                fsync(&fd)?;
                let before = fstat(&fd)?.blocks;
                allocate(&fd, PUNCH, UNIT, 6 * UNIT)?;
                fsync(&fd)?;
                let after = fstat(&fd)?.blocks;
                truth(
                    format!("{before} blocks become fewer by 5 MiB at least, not {after}"),
                    before - after >= (5 * UNIT / 512) as i64,
                )
            },
        ),
        check(
            "fallocate/PUNCH_HOLE-beyond-the-end-changes-nothing",
            "Nor across it: the size stays.",
            |_| {
                let fd = full(10_000)?;
                allocate(&fd, PUNCH, UNIT, UNIT)?;
                holds("f", pattern(1, 10_000))?;
                allocate(&fd, PUNCH, 5_000, UNIT)?;
                holds("f", [pattern(1, 5_000), vec![0; 5_000]].concat())
            },
        ),
        check(
            "fallocate/ZERO_RANGE-grows-the-file",
            "KEEP_SIZE does not.",
            |_| {
                let fd = full(10_000)?;
                allocate(&fd, ZERO_KEEP, 5_000, UNIT)?;
                same("kept", fstat(&fd)?.size, 10_000)?;
                allocate(&fd, FALLOC_FL_ZERO_RANGE, 8_000, UNIT)?;
                same("grown", fstat(&fd)?.size, 8_000 + UNIT as i64)?;
                holds("f", [pattern(1, 5_000), vec![0; 3_000 + UNIT]].concat())
            },
        ),
        check(
            "fallocate/a-punched-range-can-be-written-again",
            "It is an ordinary hole.",
            |_| {
                let fd = full(UNIT)?;
                allocate(&fd, PUNCH, 0, UNIT)?;
                pwrite(&fd, pattern(2, 5000), 70_000)?;
                let mut expected = vec![0; UNIT];
                expected[70_000..75_000].copy_from_slice(&pattern(2, 5000));
                holds("f", expected)
            },
        ),
        check(
            "fallocate/COLLAPSE_RANGE-if-there-is-one",
            "Bytes move down; else EOPNOTSUPP.",
            |_| {
                let fd = full(4 * UNIT)?;
                allocate(&fd, FALLOC_FL_COLLAPSE_RANGE, UNIT, UNIT)?;
                let all = pattern(1, 4 * UNIT);
                holds("f", [&all[..UNIT], &all[2 * UNIT..]].concat())
            },
        ),
        check(
            "fallocate/INSERT_RANGE-if-there-is-one",
            "Bytes move up; else EOPNOTSUPP.",
            |_| {
                let fd = full(2 * UNIT)?;
                allocate(&fd, FALLOC_FL_INSERT_RANGE, UNIT, UNIT)?;
                let all = pattern(1, 2 * UNIT);
                holds("f", [&all[..UNIT], &vec![0; UNIT], &all[UNIT..]].concat())
            },
        ),
    ]);
    checks
}

const ZERO_KEEP: i32 = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;

fn refusals() -> Vec<Check> {
    vec![
        check(
            "fallocate/a-read-only-descriptor-says-EBADF",
            "It was not opened for writing.",
            |_| {
                file("f", b"abc")?;
                fallocate(reopen("f", O_RDONLY)?, 0, 0, 10).says(EBADF)
            },
        ),
        check(
            "fallocate/no-length-or-negative-numbers-say-EINVAL",
            "And the file stays as it is.",
            |_| {
                let fd = full(100)?;
                fallocate(&fd, 0, 0, 0).says(EINVAL)?;
                fallocate(&fd, 0, -1, 10).says(EINVAL)?;
                fallocate(&fd, 0, 0, -1).says(EINVAL)?;
                fallocate(&fd, PUNCH, 0, 0).says(EINVAL)?;
                holds("f", pattern(1, 100))
            },
        ),
        check(
            "fallocate/beyond-the-largest-size-says-EFBIG",
            "Offset + length overflows.",
            |_| {
                let fd = full(100)?;
                fallocate(&fd, 0, OFFSET_MAX, 10).says_one_of(&[EFBIG, EOPNOTSUPP])?;
                fallocate(&fd, FALLOC_FL_KEEP_SIZE, OFFSET_MAX - 5, 10)
                    .says_one_of(&[EFBIG, EOPNOTSUPP])
            },
        ),
        check(
            "fallocate/PUNCH_HOLE-without-KEEP_SIZE-says-EOPNOTSUPP",
            "The two go together.",
            |_| {
                let fd = full(100)?;
                fallocate(&fd, FALLOC_FL_PUNCH_HOLE, 0, 10).says_one_of(&[EOPNOTSUPP, EINVAL])?;
                holds("f", pattern(1, 100))
            },
        ),
        check(
            "fallocate/unknown-modes-say-EOPNOTSUPP",
            "They are not ignored.",
            |_| {
                let fd = full(100)?;
                fallocate(&fd, 1 << 20, 0, 10).says_one_of(&[EOPNOTSUPP, EINVAL])
            },
        ),
        check(
            "fallocate/a-directory-or-fifo-is-refused",
            "Only regular files have space.",
            |_| {
                dir("d")?;
                fallocate(reopen("d", O_DIRECTORY)?, 0, 0, 10)
                    .says_one_of(&[EBADF, EISDIR, ENODEV])?;
                mkfifo("p", 0o644)?;
                fallocate(open("p", O_RDWR | O_NONBLOCK, 0)?, 0, 0, 10).says(ESPIPE)
            },
        ),
    ]
}
