//! read(2), write(2) and their relatives.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = lengths();
    checks.extend(reading());
    checks.extend(writing());
    checks
}

/// Lengths around pages, stripe units and kernel request sizes, at even and odd offsets.
fn lengths() -> Vec<Check> {
    let mut checks = Vec::new();
    for length in [
        1,
        4095,
        4096,
        4097,
        65_536,
        131_073,
        1 << 20,
        (1 << 20) + 1,
        3_000_000,
        8 << 20,
    ] {
        for offset in [0i64, 1, 4096, (1 << 20) - 1] {
            checks.push(check(
                format!("write/{length}-bytes-at-{offset}-come-back"),
                "What write took, read gives; what lies before is a hole of zeros.",
                move |_| {
                    let bytes = pattern(3, length);
                    let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                    let mut done = 0;
                    while done < length {
                        let taken = pwrite(&fd, &bytes[done..], offset + done as i64)?;
                        truth("pwrite takes bytes", taken > 0)?;
                        done += taken;
                    }
                    same("size", fstat(&fd)?.size, offset + length as i64)?;
                    let expected = [vec![0; offset as usize], bytes].concat();
                    same_bytes("by the writer", &contents_of(&fd)?, &expected)?;
                    drop(fd);
                    holds("f", expected)
                },
            ));
        }
    }
    checks
}

fn reading() -> Vec<Check> {
    vec![
        check(
            "read/at-the-end-gives-nothing",
            "End of file is a read of 0 bytes.",
            |_| {
                file("f", b"abc")?;
                let fd = reopen("f", O_RDONLY)?;
                same_bytes("first", &read(&fd, 10)?, b"abc")?;
                same_bytes("second", &read(&fd, 10)?, b"")?;
                same_bytes("far behind", &pread(&fd, 10, 1 << 40)?, b"")
            },
        ),
        check(
            "read/moves-the-offset-by-what-it-gave",
            "Reads go on where the last one ended.",
            |_| {
                file("f", b"abcdefgh")?;
                let fd = reopen("f", O_RDONLY)?;
                read(&fd, 3)?;
                same("offset", lseek(&fd, 0, SEEK_CUR)?, 3)?;
                read(&fd, 100)?;
                same("offset", lseek(&fd, 0, SEEK_CUR)?, 8)
            },
        ),
        check(
            "pread/leaves-the-offset",
            "It reads at its own offset.",
            |_| {
                file("f", b"abcdefgh")?;
                let fd = reopen("f", O_RDONLY)?;
                read(&fd, 2)?;
                same_bytes("bytes", &pread(&fd, 3, 5)?, b"fgh")?;
                same("offset", lseek(&fd, 0, SEEK_CUR)?, 2)
            },
        ),
        check("read/of-0-bytes-gives-0", "And touches nothing.", |_| {
            file("f", b"abc")?;
            let fd = reopen("f", O_RDONLY)?;
            same_bytes("bytes", &read(&fd, 0)?, b"")?;
            same("offset", lseek(&fd, 0, SEEK_CUR)?, 0)
        }),
        check(
            "read/sees-a-write-by-another-descriptor-at-once",
            "A read after a write returns its bytes.",
            |_| {
                let one = open("f", O_CREAT | O_RDWR, 0o644)?;
                let two = reopen("f", O_RDONLY)?;
                for number in 0..50u8 {
                    pwrite(&one, [number; 100], i64::from(number) * 100)?;
                    same_bytes(
                        "bytes",
                        &pread(&two, 100, i64::from(number) * 100)?,
                        &[number; 100],
                    )?;
                    same("size", fstat(&two)?.size, (i64::from(number) + 1) * 100)?;
                }
                Ok(())
            },
        ),
        check(
            "read/at-the-end-sees-what-is-appended-later",
            "A reader that waits at the end, as tail does, finds every byte.",
            |_| {
                file("f", b"")?;
                let reader = reopen("f", O_RDONLY)?;
                let mut found = Vec::new();
                for number in 0..40u8 {
                    same_bytes("nothing yet", &read(&reader, 100)?, b"")?;
                    in_child(|| works(write(reopen("f", O_WRONLY | O_APPEND)?, [number; 333])))?;
                    found.extend(read(&reader, 1000)?);
                }
                let expected: Vec<u8> = (0..40u8).flat_map(|number| [number; 333]).collect();
                same_bytes("bytes", &found, &expected)
            },
        ),
        check(
            "read/33-MiB-in-one-call-each-way",
            "Calls larger than any request are carried out whole or in part, never wrongly.",
            |_| {
                // A period that no stripe, page or request shares.
                let bytes = pattern(9, (1 << 20) + 777).repeat(33);
                let length = bytes.len();
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                let mut done = 0;
                while done < length {
                    let taken = write(&fd, &bytes[done..])?;
                    truth("write takes bytes", taken > 0)?;
                    done += taken;
                }
                let mut found = Vec::new();
                while found.len() < length {
                    let some = pread(&fd, length, found.len() as i64)?;
                    truth("pread gives bytes", !some.is_empty())?;
                    found.extend(some);
                }
                same_bytes("bytes", &found, &bytes)
            },
        ),
        check(
            "read/sees-a-write-by-another-process-at-once",
            "Not only within one process.",
            |_| {
                file("f", b"before")?;
                let fd = reopen("f", O_RDONLY)?;
                same_bytes("before", &contents_of(&fd)?, b"before")?;
                in_child(|| {
                    pwrite(reopen("f", O_WRONLY)?, b"after, and longer", 0)?;
                    Ok(())
                })?;
                same_bytes("after", &contents_of(&fd)?, b"after, and longer")
            },
        ),
    ]
}

fn writing() -> Vec<Check> {
    vec![
        check(
            "write/moves-the-offset-and-grows-the-file",
            "Size is the furthest byte written.",
            |_| {
                let fd = open("f", O_CREAT | O_WRONLY, 0o644)?;
                write(&fd, b"abc")?;
                write(&fd, b"de")?;
                same("offset", lseek(&fd, 0, SEEK_CUR)?, 5)?;
                holds("f", b"abcde")
            },
        ),
        check(
            "pwrite/leaves-the-offset",
            "It writes at its own offset.",
            |_| {
                let fd = open("f", O_CREAT | O_WRONLY, 0o644)?;
                write(&fd, b"abcdef")?;
                pwrite(&fd, b"XY", 1)?;
                same("offset", lseek(&fd, 0, SEEK_CUR)?, 6)?;
                holds("f", b"aXYdef")
            },
        ),
        check(
            "write/inside-replaces-only-its-bytes",
            "Neighbours stay, also within one block.",
            |_| {
                file("f", pattern(1, 300_000))?;
                let fd = reopen("f", O_WRONLY)?;
                let mut expected = pattern(1, 300_000);
                for (at, length) in [
                    (0usize, 1usize),
                    (4095, 2),
                    (8191, 4098),
                    (100_001, 65_537),
                    (299_999, 1),
                ] {
                    let bytes = pattern(at as u8 | 1, length);
                    pwrite(&fd, &bytes, at as i64)?;
                    expected[at..at + length].copy_from_slice(&bytes);
                }
                holds("f", expected)
            },
        ),
        check(
            "write/behind-the-end-leaves-zeros-between",
            "The gap reads as zeros.",
            |_| {
                file("f", b"abc")?;
                pwrite(reopen("f", O_WRONLY)?, b"xyz", 10_000)?;
                let expected = [b"abc".to_vec(), vec![0; 9_997], b"xyz".to_vec()].concat();
                holds("f", expected)
            },
        ),
        check(
            "write/of-0-bytes-changes-nothing",
            "Not even beyond the end.",
            |_| {
                file("f", b"abc")?;
                utimens("f", EARLY, EARLY)?;
                let fd = reopen("f", O_WRONLY)?;
                same("taken", pwrite(&fd, b"", 100)?, 0)?;
                let facts = stat("f")?;
                same("size and mtime", (facts.size, facts.mtime), (3, EARLY))
            },
        ),
        check(
            "write/in-many-small-pieces",
            "10,000 writes of 7 bytes are 70,000 bytes.",
            |_| {
                let fd = open("f", O_CREAT | O_WRONLY, 0o644)?;
                let bytes = pattern(5, 70_000);
                for piece in bytes.chunks(7) {
                    same("taken", write(&fd, piece)?, piece.len())?;
                }
                holds("f", bytes)
            },
        ),
        check(
            "write/backwards",
            "Blocks written from the end to the beginning.",
            |_| {
                let fd = open("f", O_CREAT | O_WRONLY, 0o644)?;
                let bytes = pattern(6, 1 << 20);
                for (number, piece) in bytes.chunks(10_007).enumerate().rev() {
                    pwrite(&fd, piece, number as i64 * 10_007)?;
                }
                holds("f", bytes)
            },
        ),
        check(
            "write/interleaved-with-reads-on-one-descriptor",
            "They share the offset.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                write(&fd, b"abcdef")?;
                lseek(&fd, 2, SEEK_SET)?;
                same_bytes("read", &read(&fd, 2)?, b"cd")?;
                write(&fd, b"XY")?;
                holds("f", b"abcdXY")
            },
        ),
        check(
            "write/an-unreadable-source-says-EFAULT",
            "Memory that does not exist; the file stays.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                write_nowhere(&fd, 4096).says(EFAULT)?;
                read_nowhere(&fd, 0)?;
                same("size", fstat(&fd)?.size, 0)?;
                write_all(&fd, &[1; 8192])?;
                lseek(&fd, 0, SEEK_SET)?;
                read_nowhere(&fd, 4096).says(EFAULT)
            },
        ),
        check(
            "write/a-source-that-ends-early-takes-what-is-there",
            "A short count, or EFAULT; never junk.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                let bytes = pattern(1, 4096);
                match write_half_nowhere(&fd, &bytes, 4096) {
                    Ok(taken) => same_bytes("bytes", &contents_of(&fd)?, &bytes[..taken]),
                    answer => {
                        answer.says(EFAULT)?;
                        same("size", fstat(&fd)?.size, 0)
                    }
                }
            },
        ),
    ]
}
