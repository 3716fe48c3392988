//! Which call marks which of the three times, and how utimensat sets them.

use crate::prelude::*;

/// The effect of a call on a time.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Sets,
    Keeps,
    /// The standard leaves it open.
    May,
}
use Mark::{Keeps, May, Sets};

/// A call, the file whose times are looked at, and what it does to its (atime, mtime, ctime).
struct Row {
    name: &'static str,
    subject: &'static str,
    marks: [Mark; 3],
    call: fn() -> Outcome,
}

const fn row(
    name: &'static str,
    subject: &'static str,
    marks: [Mark; 3],
    call: fn() -> Outcome,
) -> Row {
    Row {
        name,
        subject,
        marks,
        call,
    }
}

/// Each row starts with a directory `d` that holds the file `d/f` of 5,000 bytes (also named `d/g`), the link `d/l`,
/// the directories `d/e` (empty) and `p`, all with atime, mtime long ago.
const ROWS: &[Row] = &[
    row("write/the-file", "d/f", [Keeps, Sets, Sets], || {
        works(write(reopen("d/f", O_WRONLY)?, b"x"))
    }),
    row("write/the-directory", "d", [Keeps, Keeps, Keeps], || {
        works(write(reopen("d/f", O_WRONLY)?, b"x"))
    }),
    row("pwrite/beyond-the-end", "d/f", [Keeps, Sets, Sets], || {
        works(pwrite(reopen("d/f", O_WRONLY)?, b"x", 99_999))
    }),
    row("append/the-file", "d/f", [Keeps, Sets, Sets], || {
        works(write(reopen("d/f", O_WRONLY | O_APPEND)?, b"x"))
    }),
    row("write/of-nothing", "d/f", [Keeps, Keeps, Keeps], || {
        works(write(reopen("d/f", O_WRONLY)?, b""))
    }),
    row("truncate/shorter", "d/f", [Keeps, Sets, Sets], || {
        Ok(truncate("d/f", 5)?)
    }),
    row("truncate/longer", "d/f", [Keeps, Sets, Sets], || {
        Ok(truncate("d/f", 9_000)?)
    }),
    row(
        "truncate/to-the-same-size",
        "d/f",
        [Keeps, May, May],
        || Ok(truncate("d/f", 5_000)?),
    ),
    row("ftruncate/shorter", "d/f", [Keeps, Sets, Sets], || {
        Ok(ftruncate(reopen("d/f", O_WRONLY)?, 5)?)
    }),
    row(
        "ftruncate/to-the-same-size",
        "d/f",
        [Keeps, Sets, Sets],
        || Ok(ftruncate(reopen("d/f", O_WRONLY)?, 5_000)?),
    ),
    row("open/O_TRUNC", "d/f", [Keeps, Sets, Sets], || {
        works(reopen("d/f", O_WRONLY | O_TRUNC))
    }),
    row("open/for-writing", "d/f", [Keeps, Keeps, Keeps], || {
        works(reopen("d/f", O_RDWR))
    }),
    row(
        "open/O_CREAT-of-an-existing-file",
        "d",
        [Keeps, Keeps, Keeps],
        || works(open("d/f", O_CREAT | O_WRONLY, 0o644)),
    ),
    row(
        "open/O_CREAT-the-directory",
        "d",
        [Keeps, Sets, Sets],
        || works(open("d/new", O_CREAT | O_WRONLY, 0o644)),
    ),
    row("chmod/the-file", "d/f", [Keeps, Keeps, Sets], || {
        Ok(chmod("d/f", 0o600)?)
    }),
    row(
        "chmod/the-directory-above",
        "d",
        [Keeps, Keeps, Keeps],
        || Ok(chmod("d/f", 0o600)?),
    ),
    row("fchmod/the-file", "d/f", [Keeps, Keeps, Sets], || {
        Ok(fchmod(reopen("d/f", O_RDONLY)?, 0o600)?)
    }),
    row("chown/the-file", "d/f", [Keeps, Keeps, Sets], || {
        give(ALICE, "d/f")
    }),
    row("chown/of-nothing", "d/f", [Keeps, Keeps, May], || {
        Ok(chown("d/f", KEEP, KEEP)?)
    }),
    row("setxattr/the-file", "d/f", [Keeps, Keeps, Sets], || {
        with_xattr(|| setxattr("d/f", "user.a", b"1", 0))
    }),
    row("removexattr/the-file", "d/h", [Keeps, Keeps, Sets], || {
        with_xattr(|| removexattr("d/h", "user.set"))
    }),
    row("link/the-file", "d/f", [Keeps, Keeps, Sets], || {
        Ok(link("d/f", "p/x")?)
    }),
    row(
        "link/the-directory-of-the-new-name",
        "p",
        [Keeps, Sets, Sets],
        || Ok(link("d/f", "p/x")?),
    ),
    row(
        "link/the-directory-of-the-old-name",
        "d",
        [Keeps, Keeps, Keeps],
        || Ok(link("d/f", "p/x")?),
    ),
    row("unlink/the-directory", "d", [Keeps, Sets, Sets], || {
        Ok(unlink("d/g")?)
    }),
    row(
        "unlink/the-file-with-another-name",
        "d/f",
        [Keeps, Keeps, Sets],
        || Ok(unlink("d/g")?),
    ),
    row("mkdir/the-parent", "d", [Keeps, Sets, Sets], || {
        Ok(mkdir("d/new", 0o755)?)
    }),
    row("rmdir/the-parent", "d", [Keeps, Sets, Sets], || {
        Ok(rmdir("d/e")?)
    }),
    row("symlink/the-directory", "d", [Keeps, Sets, Sets], || {
        Ok(symlink("t", "d/new")?)
    }),
    row("mknod/the-directory", "d", [Keeps, Sets, Sets], || {
        Ok(mkfifo("d/new", 0o644)?)
    }),
    row("rename/the-directory", "d", [Keeps, Sets, Sets], || {
        Ok(rename("d/f", "d/new")?)
    }),
    row("rename/the-old-directory", "d", [Keeps, Sets, Sets], || {
        Ok(rename("d/f", "p/new")?)
    }),
    row("rename/the-new-directory", "p", [Keeps, Sets, Sets], || {
        Ok(rename("d/f", "p/new")?)
    }),
    row(
        "rename/the-file-by-its-other-name",
        "d/g",
        [Keeps, Keeps, May],
        || Ok(rename("d/f", "p/new")?),
    ),
    row(
        "rename/the-replaced-file-by-its-other-name",
        "d/g",
        [Keeps, Keeps, Sets],
        || Ok(rename("d/h", "d/f")?),
    ),
    row("stat/the-file", "d/f", [Keeps, Keeps, Keeps], || {
        works(stat("d/f"))
    }),
    row("access/the-file", "d/f", [Keeps, Keeps, Keeps], || {
        Ok(access("d/f", R_OK)?)
    }),
    row("fsync/the-file", "d/f", [Keeps, Keeps, Keeps], || {
        Ok(fsync(reopen("d/f", O_RDWR)?)?)
    }),
    row("getxattr/the-file", "d/f", [Keeps, Keeps, Keeps], || {
        let _absent = getxattr("d/f", "user.none");
        Ok(())
    }),
    row("read/mtime-and-ctime", "d/f", [May, Keeps, Keeps], || {
        works(contents("d/f"))
    }),
    row("readdir/mtime-and-ctime", "d", [May, Keeps, Keeps], || {
        works(names("d"))
    }),
    row("utimensat/ctime", "d/f", [May, May, Sets], || {
        Ok(utimens("d/f", LATER, LATER)?)
    }),
    row("fallocate/growing", "d/f", [Keeps, Sets, Sets], || {
        fallocate(reopen("d/f", O_WRONLY)?, 0, 0, 9_000).or_skip(&[EOPNOTSUPP], "optional")
    }),
    row("fallocate/punching", "d/f", [Keeps, Sets, Sets], || {
        let flags = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
        fallocate(reopen("d/f", O_WRONLY)?, flags, 0, 4096).or_skip(&[EOPNOTSUPP], "optional")
    }),
    row(
        "copy_file_range/the-destination",
        "d/f",
        [Keeps, Sets, Sets],
        || {
            works(copy_file_range(
                reopen("d/h", O_RDONLY)?,
                None,
                reopen("d/f", O_WRONLY)?,
                None,
                3,
                0,
            ))
        },
    ),
    row("mmap/a-store-and-msync", "d/f", [May, Sets, Sets], || {
        let map = mmap(
            reopen("d/f", O_RDWR)?,
            0,
            4096,
            PROT_READ | PROT_WRITE,
            MAP_SHARED,
        )?;
        map.store(0, b"x");
        Ok(map.sync(MS_SYNC)?)
    }),
    row(
        "refused-mkdir/the-directory",
        "d",
        [Keeps, Keeps, Keeps],
        || mkdir("d/f", 0o755).says(EEXIST),
    ),
    row(
        "refused-unlink/the-directory",
        "d",
        [Keeps, Keeps, Keeps],
        || unlink("d/none").says(ENOENT),
    ),
    row(
        "refused-rename/the-directory",
        "d",
        [Keeps, Keeps, Keeps],
        || rename("d/f", "d/e").says(EISDIR),
    ),
    row(
        "refused-truncate/the-file",
        "d/f",
        [Keeps, Keeps, Keeps],
        || truncate("d/f", -1).says(EINVAL),
    ),
    row(
        "refused-chown/the-file",
        "d/f",
        [Keeps, Keeps, Keeps],
        || alice_gets(|| chown("d/f", ALICE, ALICE))?.says(EPERM),
    ),
];

fn with_xattr(call: impl FnOnce() -> Answer) -> Outcome {
    call().or_skip(&[EOPNOTSUPP], "user attributes are optional")
}

fn scenery() -> Outcome {
    dir("d")?;
    dir("d/e")?;
    dir("p")?;
    file("d/f", pattern(1, 5_000))?;
    link("d/f", "d/g")?;
    file("d/h", b"another")?;
    symlink("f", "d/l")?;
    // Refused where attributes are optional; the row that needs it then skips.
    let _optional = setxattr("d/h", "user.set", b"1", 0);
    for name in ["d/e", "d/f", "d/h", "p", "d"] {
        utimens(name, EARLY, EARLY)?;
    }
    Ok(())
}

pub fn checks() -> Vec<Check> {
    ROWS.iter()
        .map(|row| {
            check(
                format!("times/{}", row.name.replace('/', "-")),
                "Each call marks the times the standard lists for it, and no others; a refused call marks none.",
                move |_| {
                    scenery()?;
                    let before = stat(row.subject)?;
                    let_the_clock_tick();
                    // The subject may get another name: keep hold of it.
                    let subject = open(row.subject, O_PATH, 0)?;
                    (row.call)()?;
                    let after = fstat(&subject)?;
                    for (what, mark, was, is) in [
                        ("atime", row.marks[0], before.atime, after.atime),
                        ("mtime", row.marks[1], before.mtime, after.mtime),
                        ("ctime", row.marks[2], before.ctime, after.ctime),
                    ] {
                        match mark {
                            Keeps => same(what, is, was)?,
                            Sets => advances(what, was, is)?,
                            May => {}
                        }
                    }
                    Ok(())
                },
            )
        })
        .collect()
}

/// The time is later than before and near the clock.
#[track_caller]
fn advances(what: &str, was: Time, is: Time) -> Outcome {
    if is <= was {
        return Err(failed(
            format!("{what} later than {was:?}"),
            format!("{what} {is:?}"),
        ));
    }
    near_now(what, is)
}

/// Within ten seconds of our clock: a server's clock may differ a little.
#[track_caller]
pub(super) fn near_now(what: &str, time: Time) -> Outcome {
    let now = clock().sec;
    if (now - 10..=now + 10).contains(&time.sec) {
        return Ok(());
    }
    Err(failed(
        format!("{what} near {now} s"),
        format!("{what} {time:?}"),
    ))
}
