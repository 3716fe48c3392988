//! utimensat(2) and futimens(2): times set by hand.

use super::times::near_now;
use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = setting();
    checks.extend(permissions());
    checks
}

fn setting() -> Vec<Check> {
    let mut checks: Vec<Check> = [
        (
            "a-moment-with-nanoseconds",
            Time::new(1_234_567_890, 123_456_789),
        ),
        ("the-epoch", Time::new(0, 0)),
        ("one-nanosecond", Time::new(0, 1)),
        (
            "the-last-nanosecond-of-a-second",
            Time::new(1_600_000_000, 999_999_999),
        ),
        ("the-end-of-32-bits", Time::new(i32::MAX as i64, 0)),
        ("after-2038", Time::new(i32::MAX as i64 + 1, 5)),
        ("the-year-2200", Time::new(7_258_118_400, 7)),
        ("the-year-2446", Time::new(15_000_000_000, 7)),
        ("before-1970", Time::new(-1, 999_999_999)),
        ("the-year-1902", Time::new(-2_145_000_000, 1)),
    ]
    .into_iter()
    .map(|(word, moment)| {
        check(
            format!("utimensat/sets-{word}"),
            "The very seconds and nanoseconds come back.",
            move |_| {
                file("f", b"")?;
                utimens("f", moment, EARLY)?;
                let facts = stat("f")?;
                same("atime, mtime", (facts.atime, facts.mtime), (moment, EARLY))?;
                utimens("f", LATER, moment)?;
                let facts = stat("f")?;
                same("atime, mtime", (facts.atime, facts.mtime), (LATER, moment))
            },
        )
    })
    .collect();
    checks.extend(Kind::ALL.into_iter().map(|kind| {
        check(
            format!("utimensat/of-a-{}", kind.word()),
            "With AT_SYMLINK_NOFOLLOW every kind of file has times of its own.",
            move |_| {
                kind.make("x")?;
                utimensat(CWD, "x", EARLY, LATER, AT_SYMLINK_NOFOLLOW)?;
                let facts = lstat("x")?;
                same("atime, mtime", (facts.atime, facts.mtime), (EARLY, LATER))
            },
        )
    }));
    checks.extend([
        check(
            "utimensat/UTIME_NOW-sets-now",
            "For either time or both.",
            |_| {
                file("f", b"")?;
                utimens("f", EARLY, EARLY)?;
                utimens("f", Time::NOW, LATER)?;
                let facts = stat("f")?;
                near_now("atime", facts.atime)?;
                same("mtime", facts.mtime, LATER)?;
                utimens("f", EARLY, Time::NOW)?;
                near_now("mtime", stat("f")?.mtime)?;
                same("atime", stat("f")?.atime, EARLY)
            },
        ),
        check(
            "utimensat/UTIME_OMIT-leaves",
            "For either time or both.",
            |_| {
                file("f", b"")?;
                utimens("f", EARLY, LATER)?;
                let before = stat("f")?;
                utimens("f", Time::OMIT, Time::OMIT)?;
                same("all", stat("f")?, before)?;
                utimens("f", Time::OMIT, EARLY)?;
                utimens("f", LATER, Time::OMIT)?;
                let facts = stat("f")?;
                same("atime, mtime", (facts.atime, facts.mtime), (LATER, EARLY))
            },
        ),
        check(
            "utimensat/without-times-sets-now",
            "A null pointer means now.",
            |_| {
                file("f", b"")?;
                utimens("f", EARLY, EARLY)?;
                touch("f")?;
                let facts = stat("f")?;
                near_now("atime", facts.atime)?;
                near_now("mtime", facts.mtime)
            },
        ),
        check(
            "utimensat/follows-a-symlink",
            "Without the flag the target is set.",
            |_| {
                file("f", b"")?;
                symlink("f", "l")?;
                let link = lstat("l")?;
                utimens("l", EARLY, LATER)?;
                same(
                    "target",
                    (stat("f")?.atime, stat("f")?.mtime),
                    (EARLY, LATER),
                )?;
                same("link", lstat("l")?.mtime, link.mtime)
            },
        ),
        check(
            "futimens/by-descriptor",
            "Also a read-only one of one's own file.",
            |_| {
                file("f", b"")?;
                futimens(reopen("f", O_RDONLY)?, EARLY, LATER)?;
                let facts = stat("f")?;
                same("atime, mtime", (facts.atime, facts.mtime), (EARLY, LATER))
            },
        ),
        check(
            "utimensat/too-many-nanoseconds-say-EINVAL",
            "A second has 10^9.",
            |_| {
                file("f", b"")?;
                utimens("f", Time::new(0, 1_000_000_000), EARLY).says(EINVAL)?;
                utimens("f", EARLY, Time::new(0, -1)).says(EINVAL)
            },
        ),
        check(
            "utimensat/times-survive-a-later-read-of-attributes",
            "A write's lazy time does not come after.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                write_all(&fd, b"abc")?;
                futimens(&fd, EARLY, LATER)?;
                fsync(&fd)?;
                fd.close()?;
                let facts = stat("f")?;
                same("mtime", facts.mtime, LATER)
            },
        ),
        check(
            "utimensat/a-write-after-it-marks-mtime-again",
            "Also through the same descriptor.",
            |_| {
                let fd = open("f", O_CREAT | O_RDWR, 0o644)?;
                futimens(&fd, EARLY, EARLY)?;
                write(&fd, b"abc")?;
                near_now("mtime", fstat(&fd)?.mtime)
            },
        ),
        check(
            "times/of-a-new-file-are-now",
            "All three, for every way to make one.",
            |_| {
                for kind in Kind::ALL {
                    kind.make("x")?;
                    let facts = lstat("x")?;
                    near_now("atime", facts.atime)?;
                    near_now("mtime", facts.mtime)?;
                    near_now("ctime", facts.ctime)?;
                    unlinkat(CWD, "x", if kind == Kind::Dir { AT_REMOVEDIR } else { 0 })?;
                }
                Ok(())
            },
        ),
        check(
            "times/ctime-never-runs-back",
            "Over 200 changes in a row.",
            |_| {
                file("f", b"")?;
                let mut last = stat("f")?.ctime;
                for step in 0..200u32 {
                    chmod("f", 0o600 | (step % 64))?;
                    let ctime = stat("f")?.ctime;
                    truth(
                        format!("ctime {ctime:?} is not before {last:?}"),
                        ctime >= last,
                    )?;
                    last = ctime;
                }
                Ok(())
            },
        ),
    ]);
    checks
}

fn permissions() -> Vec<Check> {
    vec![
        check(
            "utimensat/now-needs-write-permission-or-ownership",
            "Without either EACCES.",
            |_| {
                file_with_mode("f", b"", 0o644)?;
                as_alice(|| {
                    touch("f").says(EACCES)?;
                    utimens("f", Time::NOW, Time::NOW).says(EACCES)
                })?;
                chmod("f", 0o666)?;
                as_alice(|| {
                    touch("f")?;
                    Ok(utimens("f", Time::NOW, Time::NOW)?)
                })
            },
        ),
        check(
            "utimensat/a-moment-needs-ownership",
            "Else EPERM, even with write permission.",
            |_| {
                file_with_mode("f", b"", 0o666)?;
                as_alice(|| {
                    utimens("f", EARLY, LATER).says(EPERM)?;
                    utimens("f", Time::NOW, Time::OMIT).says(EPERM)?;
                    utimens("f", Time::OMIT, Time::NOW).says(EPERM)?;
                    futimens(reopen("f", O_RDWR)?, EARLY, LATER).says(EPERM)
                })
            },
        ),
        check(
            "utimensat/the-owner-needs-no-permission-bits",
            "Ownership suffices.",
            |_| {
                file_of(ALICE, "f", b"", 0o000)?;
                as_alice(|| {
                    utimens("f", EARLY, LATER)?;
                    touch("f")?;
                    Ok(())
                })
            },
        ),
        check(
            "utimensat/omitting-both-needs-nothing",
            "Nothing changes.",
            |_| {
                file_with_mode("f", b"", 0o600)?;
                as_alice(|| Ok(utimens("f", Time::OMIT, Time::OMIT)?))
            },
        ),
    ]
}
