//! Immutable and append-only files and directories: FS_IOC_SETFLAGS, as ioctl_iflags(2) has it.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = immutable();
    checks.extend(append_only());
    checks.extend(setting());
    checks
}

/// Runs `work` while the file has these flags, and takes them off whatever comes of it: the room must be swept.
#[track_caller]
fn while_it_has(flags: i32, name: &str, work: impl FnOnce() -> Outcome) -> Outcome {
    let fd = reopen(name, O_RDONLY)?;
    let before = inode_flags(&fd).or_skip(&[ENOTTY, EOPNOTSUPP], "files have no flags here")?;
    set_inode_flags(&fd, before | flags).or_skip(&[EOPNOTSUPP], "these flags are optional")?;
    let outcome = work();
    set_inode_flags(&fd, before)?;
    outcome
}

fn immutable() -> Vec<Check> {
    vec![
        check(
            "flags/an-immutable-file-keeps-its-bytes",
            "Also root cannot open it to write, nor cut it.",
            |t| {
                t.needs_root()?;
                file("f", b"bytes")?;
                while_it_has(IMMUTABLE_FL, "f", || {
                    reopen("f", O_WRONLY).says(EPERM)?;
                    reopen("f", O_RDWR | O_APPEND).says(EPERM)?;
                    truncate("f", 2).says(EPERM)?;
                    holds("f", b"bytes")
                })
            },
        ),
        check(
            "flags/an-immutable-file-keeps-names-and-status",
            "No link, no rename, no removal, no mode, owner, time or attribute.",
            |t| {
                t.needs_root()?;
                file("f", b"bytes")?;
                file("other", b"")?;
                while_it_has(IMMUTABLE_FL, "f", || {
                    unlink("f").says(EPERM)?;
                    rename("f", "g").says(EPERM)?;
                    rename("other", "f").says(EPERM)?;
                    link("f", "g").says(EPERM)?;
                    chmod("f", 0o600).says(EPERM)?;
                    chown("f", ALICE, ALICE).says(EPERM)?;
                    utimens("f", EARLY, EARLY).says(EPERM)?;
                    touch("f").says(EPERM)?;
                    setxattr("f", "user.a", b"1", 0).says_one_of(&[EPERM, EOPNOTSUPP])?;
                    works(stat("f"))
                })
            },
        ),
        check(
            "flags/an-immutable-file-refuses-whom-had-it-open-to-write",
            "What was written before stays, and nothing comes after.",
            |t| {
                t.needs_root()?;
                file("f", b"")?;
                let fd = reopen("f", O_WRONLY)?;
                write_all(&fd, &pattern(1, 100_000))?;
                while_it_has(IMMUTABLE_FL, "f", || {
                    pwrite(&fd, b"x", 5).says(EPERM)?;
                    ftruncate(&fd, 5).says(EPERM)?;
                    holds("f", pattern(1, 100_000))
                })?;
                works(pwrite(&fd, b"x", 5))
            },
        ),
        check(
            "flags/an-immutable-directory-keeps-its-entries",
            "None comes, none goes; files in it can be written.",
            |t| {
                t.needs_root()?;
                dir("d")?;
                file("d/f", b"")?;
                file("f", b"")?;
                while_it_has(IMMUTABLE_FL, "d", || {
                    open("d/new", O_CREAT | O_WRONLY, 0o644).says(EPERM)?;
                    mkdir("d/new", 0o755).says(EPERM)?;
                    unlink("d/f").says(EPERM)?;
                    rename("d/f", "g").says(EPERM)?;
                    rename("f", "d/g").says(EPERM)?;
                    rmdir("d").says(EPERM)?;
                    works(write(reopen("d/f", O_WRONLY)?, b"x"))
                })
            },
        ),
    ]
}

fn append_only() -> Vec<Check> {
    vec![
        check(
            "flags/an-append-only-file-grows-at-its-end",
            "It opens with O_APPEND alone, and is neither cut nor removed.",
            |t| {
                t.needs_root()?;
                file("f", b"bytes")?;
                while_it_has(APPEND_FL, "f", || {
                    reopen("f", O_WRONLY).says(EPERM)?;
                    reopen("f", O_WRONLY | O_APPEND | O_TRUNC).says(EPERM)?;
                    let fd = reopen("f", O_WRONLY | O_APPEND)?;
                    write_all(&fd, b" more")?;
                    write_all(&fd, &pattern(1, 100_000))?;
                    ftruncate(&fd, 2).says(EPERM)?;
                    truncate("f", 2).says(EPERM)?;
                    unlink("f").says(EPERM)?;
                    rename("f", "g").says(EPERM)?;
                    link("f", "g").says(EPERM)?;
                    utimens("f", EARLY, EARLY).says(EPERM)?;
                    touch("f")?;
                    same("size", stat("f")?.size, 100_010)?;
                    holds("f", [&b"bytes more"[..], &pattern(1, 100_000)].concat())
                })
            },
        ),
        check(
            "flags/an-append-only-directory-gets-entries-and-loses-none",
            "As a log directory.",
            |t| {
                t.needs_root()?;
                dir("d")?;
                file("d/f", b"")?;
                while_it_has(APPEND_FL, "d", || {
                    file("d/new", b"")?;
                    unlink("d/f").says(EPERM)?;
                    rename("d/f", "d/g").says(EPERM)
                })
            },
        ),
    ]
}

fn setting() -> Vec<Check> {
    vec![
        check(
            "flags/are-set-by-root-alone",
            "The owner may say what is so already.",
            |t| {
                t.needs_root()?;
                file_of(ALICE, "f", b"", 0o644)?;
                let fd = reopen("f", O_RDONLY)?;
                let before =
                    inode_flags(&fd).or_skip(&[ENOTTY, EOPNOTSUPP], "files have no flags here")?;
                as_alice(|| {
                    set_inode_flags(&fd, before | IMMUTABLE_FL).says(EPERM)?;
                    set_inode_flags(&fd, before | APPEND_FL).says(EPERM)?;
                    Ok(set_inode_flags(&fd, before)?)
                })?;
                as_bob(|| set_inode_flags(&fd, before).says(EPERM))?;
                while_it_has(IMMUTABLE_FL, "f", || {
                    same("immutable", inode_flags(&fd)? & IMMUTABLE_FL, IMMUTABLE_FL)?;
                    as_alice(|| set_inode_flags(&fd, before).says(EPERM))
                })?;
                same("as before", inode_flags(&fd)?, before)
            },
        ),
        check(
            "flags/setting-them-changes-ctime",
            "They are part of the file's status.",
            |t| {
                t.needs_root()?;
                file("f", b"")?;
                let before = stat("f")?;
                let_the_clock_tick();
                while_it_has(APPEND_FL, "f", || {
                    let after = stat("f")?;
                    truth("ctime is later", after.ctime > before.ctime)?;
                    same("mtime", after.mtime, before.mtime)
                })
            },
        ),
    ]
}
