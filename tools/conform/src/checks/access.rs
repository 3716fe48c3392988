//! access(2), faccessat2(2), execve(2): the permission bits asked for and used.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = asking();
    checks.extend(groups());
    checks.extend(executing());
    checks
}

fn asking() -> Vec<Check> {
    let mut checks = Vec::new();
    for (word, mode, bit) in [("R_OK", R_OK, 4u32), ("W_OK", W_OK, 2), ("X_OK", X_OK, 1)] {
        checks.push(check(
            format!("access/{word}-tells-what-the-bits-say"),
            "For owner, group and other, in every combination of the class's bits.",
            move |t| {
                t.needs_root()?;
                for bits in 0..8u32 {
                    let expected = bits & bit != 0;
                    file_of(ALICE, "own", b"", bits << 6)?;
                    permitted(alice_gets(|| access("own", mode))?, expected)?;
                    file_of(BOB, "group", b"", bits << 3)?;
                    chown("group", BOB, ALICE)?;
                    chmod("group", bits << 3)?;
                    permitted(alice_gets(|| access("group", mode))?, expected)?;
                    file_of(BOB, "other", b"", bits)?;
                    permitted(alice_gets(|| access("other", mode))?, expected)?;
                    for name in ["own", "group", "other"] {
                        unlink(name)?;
                    }
                }
                Ok(())
            },
        ));
    }
    checks.extend([
        check(
            "access/F_OK-asks-for-the-name-only",
            "No bits are needed on the file.",
            |_| {
                file_with_mode("f", b"", 0o000)?;
                as_alice(|| {
                    access("f", F_OK)?;
                    access("nothing", F_OK).says(ENOENT)
                })
            },
        ),
        check(
            "access/root-reads-and-writes-all-but-executes-only-what-is-executable",
            "One x bit of any class suffices.",
            |t| {
                t.needs_root()?;
                file_of(ALICE, "f", b"", 0o000)?;
                access("f", R_OK | W_OK)?;
                access("f", X_OK).says(EACCES)?;
                for mode in [0o100, 0o010, 0o001] {
                    chmod("f", mode)?;
                    access("f", X_OK)?;
                }
                Ok(())
            },
        ),
        check(
            "access/asks-for-the-real-user",
            "And faccessat2 with AT_EACCESS for the effective one.",
            |t| {
                t.needs_root()?;
                file_of(ALICE, "f", b"", 0o600)?;
                std::thread::scope(|scope| {
                    let visit = scope.spawn(|| -> Outcome {
                        // Real Alice, effective Bob: the saved id stays root's, the groups are emptied.
                        set_groups_empty()?;
                        set_real_and_effective(ALICE, BOB)?;
                        access("f", R_OK)?;
                        faccessat2(CWD, "f", R_OK, AT_EACCESS).says(EACCES)?;
                        faccessat2(CWD, "f", R_OK, 0)?;
                        Ok(())
                    });
                    visit
                        .join()
                        .unwrap_or_else(|_| Err(failed("the check runs to its end", "it panicked")))
                })
            },
        ),
        check(
            "access/of-a-symlink-follows-or-not",
            "AT_SYMLINK_NOFOLLOW asks for the link.",
            |_| {
                symlink("nowhere", "l")?;
                faccessat2(CWD, "l", F_OK, 0).says(ENOENT)?;
                faccessat2(CWD, "l", F_OK, AT_SYMLINK_NOFOLLOW)?;
                Ok(())
            },
        ),
        check(
            "access/relative-to-a-descriptor",
            "The name starts there.",
            |_| {
                dir("d")?;
                file("d/f", b"")?;
                let d = reopen("d", O_DIRECTORY)?;
                faccessat2(&d, "f", R_OK, 0)?;
                faccessat2(&d, "g", R_OK, 0).says(ENOENT)?;
                faccessat2(-1, "f", R_OK, 0).says(EBADF)?;
                faccessat2(&d, "", R_OK, AT_EMPTY_PATH)?;
                Ok(())
            },
        ),
        check(
            "access/an-unknown-mode-or-flag-says-EINVAL",
            "Only R, W, X and F are known.",
            |_| {
                file("f", b"")?;
                access("f", 0o10).says(EINVAL)?;
                faccessat2(CWD, "f", R_OK, 1 << 30).says(EINVAL)
            },
        ),
        check(
            "access/a-directory-for-each-bit",
            "Bits of directories are asked in the same way.",
            |_| {
                dir_with_mode("d", 0o754)?;
                as_alice(|| {
                    access("d", R_OK)?;
                    access("d", W_OK).says(EACCES)?;
                    access("d", X_OK).says(EACCES)
                })
            },
        ),
    ]);
    checks
}

fn groups() -> Vec<Check> {
    vec![
        check(
            "groups/a-supplementary-group-opens-a-directory",
            "For looking up and for writing.",
            |t| {
                t.needs_root()?;
                dir_of(BOB, "d", 0o770)?;
                chown("d", BOB, OTHER_GROUP)?;
                chmod("d", 0o770)?;
                alice_gets(|| open("d/f", O_CREAT | O_WRONLY, 0o644))?.says(EACCES)?;
                User::new(ALICE).with_group(OTHER_GROUP).does(|| {
                    file("d/f", b"x")?;
                    holds("d/f", b"x")?;
                    rename("d/f", "d/g")?;
                    Ok(unlink("d/g")?)
                })
            },
        ),
        check(
            "groups/the-40th-supplementary-group-counts-too",
            "More groups than an NFS request carries.",
            |t| {
                t.needs_root()?;
                file_of(BOB, "f", b"x", 0o640)?;
                chown("f", BOB, OTHER_GROUP)?;
                let mut alice = User::new(ALICE);
                alice.groups = (50_000..50_039).chain([OTHER_GROUP]).collect();
                alice.does(|| holds("f", b"x"))
            },
        ),
        check(
            "groups/the-group-class-binds-members-even-when-others-may-more",
            "The first class that fits decides.",
            |t| {
                t.needs_root()?;
                file_of(BOB, "f", b"x", 0o604)?;
                chown("f", BOB, OTHER_GROUP)?;
                User::new(ALICE)
                    .with_group(OTHER_GROUP)
                    .does(|| open("f", O_RDONLY, 0).says(EACCES))?;
                as_alice(|| holds("f", b"x"))
            },
        ),
        check(
            "groups/the-owner-class-binds-the-owner-even-when-the-group-may-more",
            "The first class that fits decides, and it is the owner's.",
            |_| {
                file_of(ALICE, "f", b"x", 0o066)?;
                alice_gets(|| open("f", O_RDONLY, 0))?.says(EACCES)
            },
        ),
    ]
}

fn executing() -> Vec<Check> {
    vec![
        check(
            "execve/needs-the-x-bit",
            "Without it EACCES, for root too.",
            |t| {
                t.needs_root()?;
                file_with_mode("f", b"#!/bin/sh\nexit 7\n", 0o644)?;
                in_child(|| execute("f").says(EACCES))?;
                as_alice(|| in_child(|| execute("f").says(EACCES)))
            },
        ),
        check(
            "execve/runs-a-script",
            "The interpreter reads the file.",
            |_| {
                if statvfs(".")?.f_flag & libc::ST_NOEXEC != 0 {
                    return skipped("mounted noexec");
                }
                file_with_mode("f", b"#!/bin/sh\nexit 7\n", 0o755)?;
                let child = Child::start(|_| Ok(execute("f")?))?;
                same("end", child.end()?, End::Exited(7))
            },
        ),
        check(
            "execve/runs-a-program",
            "Its pages are mapped from the file.",
            |_| {
                if statvfs(".")?.f_flag & libc::ST_NOEXEC != 0 {
                    return skipped("mounted noexec");
                }
                let Ok(program) = contents("/bin/sleep") else {
                    return skipped("no /bin/sleep to copy");
                };
                file_with_mode("program", program, 0o755)?;
                let child = Child::start(|_| Ok(execute_with("program", "0")?))?;
                same("end", child.end()?, End::Exited(0))
            },
        ),
        check(
            "execve/a-directory-says-EACCES",
            "It is no program.",
            |_| {
                dir("d")?;
                in_child(|| execute("d").says(EACCES))
            },
        ),
        check(
            "execve/bytes-that-are-no-program-say-ENOEXEC",
            "The format is not known.",
            |_| {
                if statvfs(".")?.f_flag & libc::ST_NOEXEC != 0 {
                    return skipped("mounted noexec");
                }
                file_with_mode("f", b"hello", 0o755)?;
                in_child(|| execute("f").says(ENOEXEC))
            },
        ),
        check(
            "execve/x-without-r-executes-and-is-not-read",
            "Permissions are separate.",
            |_| {
                if statvfs(".")?.f_flag & libc::ST_NOEXEC != 0 {
                    return skipped("mounted noexec");
                }
                let Ok(program) = contents("/bin/sleep") else {
                    return skipped("no /bin/sleep to copy");
                };
                file_with_mode("program", program, 0o711)?;
                as_alice(|| {
                    open("program", O_RDONLY, 0).says(EACCES)?;
                    let child = Child::start(|_| Ok(execute_with("program", "0")?))?;
                    same("end", child.end()?, End::Exited(0))
                })
            },
        ),
    ]
}
