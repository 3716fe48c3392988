//! rmdir(2).

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = Kind::LEAVES
        .into_iter()
        .map(|kind| {
            check(
                format!("rmdir/{}-says-ENOTDIR", kind.word()),
                "rmdir removes directories only; a symbolic link is not followed.",
                move |_| {
                    kind.make("x")?;
                    rmdir("x").says(ENOTDIR)?;
                    kind.is_at("x")
                },
            )
        })
        .collect();
    checks.extend([
        check(
            "rmdir/removes-an-empty-directory",
            "The name is gone.",
            |_| {
                dir("d")?;
                rmdir("d")?;
                gone("d")
            },
        ),
        check(
            "rmdir/a-full-directory-says-ENOTEMPTY",
            "A directory with names in it stays (or EEXIST).",
            |_| {
                dir("d")?;
                for kind in [Kind::File, Kind::Dir, Kind::Symlink, Kind::Fifo] {
                    kind.make("d/x")?;
                    rmdir("d").says_one_of(&[ENOTEMPTY, EEXIST])?;
                    unlinkat(CWD, "d/x", if kind == Kind::Dir { AT_REMOVEDIR } else { 0 })?;
                }
                rmdir("d")?;
                gone("d")
            },
        ),
        check(
            "rmdir/a-missing-name-says-ENOENT",
            "There is no directory to remove.",
            |_| rmdir("nothing").says(ENOENT),
        ),
        check(
            "rmdir/dot-says-EINVAL",
            "The last component may not be dot.",
            |_| {
                dir("d")?;
                rmdir("d/.").says(EINVAL)?;
                Kind::Dir.is_at("d")
            },
        ),
        check(
            "rmdir/dot-dot-says-ENOTEMPTY",
            "The last component may not be dot-dot (or EINVAL, EEXIST).",
            |_| {
                dir("d")?;
                dir("d/e")?;
                rmdir("d/e/..").says_one_of(&[ENOTEMPTY, EEXIST, EINVAL])
            },
        ),
        check(
            "rmdir/the-root-says-EBUSY",
            "The root directory is in use.",
            |_| rmdir("/").says_one_of(&[EBUSY, ENOTEMPTY]),
        ),
        check(
            "rmdir/lowers-the-parents-link-count",
            "The child's dot-dot is gone.",
            |_| {
                dir("p")?;
                dir("p/d")?;
                let before = stat("p")?.nlink;
                if before == 1 {
                    return skipped("this file system does not count directories' links");
                }
                rmdir("p/d")?;
                same("links", stat("p")?.nlink, before - 1)
            },
        ),
        check(
            "rmdir/an-open-directory-has-no-links-and-no-names",
            "Reading it finds nothing, not even dot.",
            |_| {
                dir("d")?;
                let d = reopen("d", O_DIRECTORY)?;
                rmdir("d")?;
                same("links", fstat(&d)?.nlink, 0)?;
                match getdents(&d, 4096) {
                    Ok(found) => same("entries", found, vec![]),
                    answer => answer.says(ENOENT),
                }
            },
        ),
        check(
            "rmdir/a-removed-directory-takes-no-file",
            "Creating in it says ENOENT.",
            |_| {
                dir("d")?;
                let d = reopen("d", O_DIRECTORY)?;
                rmdir("d")?;
                openat(&d, "f", O_CREAT | O_WRONLY, 0o644).says(ENOENT)?;
                file("g", b"")?;
                linkat(CWD, "g", &d, "g", 0).says(ENOENT)?;
                symlinkat("x", &d, "l").says(ENOENT)?;
                renameat2(CWD, "g", &d, "g", 0).says(ENOENT)?;
                mknodat(&d, "p", S_IFIFO | 0o644, 0).says(ENOENT)
            },
        ),
        check(
            "rmdir/a-trailing-slash-is-allowed",
            "rmdir(\"d/\") removes d.",
            |_| {
                dir("d")?;
                rmdir("d/")?;
                gone("d")
            },
        ),
        check(
            "rmdir/a-link-with-a-trailing-slash-says-ENOTDIR",
            "The link itself is no directory.",
            |_| {
                dir("d")?;
                symlink("d", "l")?;
                rmdir("l/").says(ENOTDIR)?;
                Kind::Dir.is_at("d")
            },
        ),
        check(
            "rmdir/the-name-can-be-used-again-at-once",
            "A new directory is a new file.",
            |_| {
                dir("d")?;
                let old = reopen("d", O_DIRECTORY)?;
                rmdir("d")?;
                dir("d")?;
                differs("identity", stat("d")?.identity(), fstat(&old)?.identity())
            },
        ),
        check(
            "rmdir/without-write-permission-says-EACCES",
            "The parent must be writable.",
            |_| {
                dir_with_mode("p", 0o755)?;
                dir_of(ALICE, "p/d", 0o755)?;
                alice_gets(|| rmdir("p/d"))?.says(EACCES)?;
                Kind::Dir.is_at("p/d")
            },
        ),
        check(
            "rmdir/needs-no-permission-on-the-directory-itself",
            "Only the parent's bits count.",
            |_| {
                dir_of(ALICE, "p", 0o755)?;
                dir_with_mode("p/d", 0o000)?;
                alice_gets(|| rmdir("p/d"))??;
                gone("p/d")
            },
        ),
        check(
            "rmdir/relative-to-a-descriptor",
            "unlinkat with AT_REMOVEDIR starts from the descriptor.",
            |_| {
                dir("p")?;
                dir("p/d")?;
                let p = reopen("p", O_DIRECTORY)?;
                unlinkat(&p, "d", AT_REMOVEDIR)?;
                gone("p/d")?;
                unlinkat(-1, "d", AT_REMOVEDIR).says(EBADF)
            },
        ),
        check(
            "rmdir/a-directory-that-was-full",
            "Removing the last name makes it empty.",
            |_| {
                dir("d")?;
                for number in 0..100 {
                    file(format!("d/{number}"), b"")?;
                }
                rmdir("d").says_one_of(&[ENOTEMPTY, EEXIST])?;
                for number in 0..100 {
                    unlink(format!("d/{number}"))?;
                }
                rmdir("d")?;
                gone("d")
            },
        ),
    ]);
    checks
}
