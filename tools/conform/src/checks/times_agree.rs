//! Access times, which a mount may not mark, and whether all looks at a time agree.

use super::times::near_now;
use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = access_time();
    checks.extend(agreeing());
    checks
}

fn agreeing() -> Vec<Check> {
    vec![check(
        "times/every-way-to-ask-tells-the-same-after-each-change",
        "By name, by link, by descriptor.",
        |_| {
            let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
            link("f", "g")?;
            for round in 0..50i64 {
                match round % 5 {
                    0 => drop(pwrite(&fd, pattern(1, 100), round * 100)?),
                    1 => ftruncate(&fd, round * 50)?,
                    2 => chmod("g", 0o600 | (round as u32 % 8))?,
                    3 => utimens("f", EARLY, Time::new(round, 1))?,
                    _ => drop(pwrite(reopen("g", O_WRONLY)?, b"x", 7)?),
                }
                let by_name = stat("f")?;
                same("by descriptor", fstat(&fd)?, by_name)?;
                same("by link", stat("g")?, by_name)?;
                same(
                    "by another process's eyes",
                    in_child(move || same("facts", stat("g")?, by_name)),
                    Ok(()),
                )?;
            }
            Ok(())
        },
    )]
}

/// Whether reads mark access times, as the mount says.
fn marks_reads() -> Outcome<bool> {
    Ok(statvfs(".")?.f_flag & libc::ST_NOATIME == 0)
}

fn access_time() -> Vec<Check> {
    let skip =
        "reads mark no access time here (noatime, or the file system leaves it to the mount)";
    vec![
        check(
            "times/a-read-may-mark-atime-and-marks-it-forward",
            "Relatime marks it when it is older than mtime.",
            move |_| {
                file("f", b"abc")?;
                utimens("f", EARLY, LATER)?;
                read(reopen("f", O_RDONLY)?, 1)?;
                match stat("f")?.atime {
                    EARLY if !marks_reads()? => skipped(skip),
                    EARLY => skipped(skip),
                    atime => near_now("atime", atime),
                }
            },
        ),
        check(
            "times/reading-a-directory-may-mark-atime",
            "As reading a file may.",
            move |_| {
                dir("d")?;
                file("d/f", b"")?;
                utimens("d", EARLY, LATER)?;
                names("d")?;
                match stat("d")?.atime {
                    EARLY => skipped(skip),
                    atime => near_now("atime", atime),
                }
            },
        ),
        check(
            "times/a-read-of-nothing-keeps-mtime-and-ctime",
            "At the end of the file.",
            |_| {
                file("f", b"")?;
                let before = stat("f")?;
                let_the_clock_tick();
                read(reopen("f", O_RDONLY)?, 10)?;
                let after = stat("f")?;
                same(
                    "mtime, ctime",
                    (after.mtime, after.ctime),
                    (before.mtime, before.ctime),
                )
            },
        ),
    ]
}
