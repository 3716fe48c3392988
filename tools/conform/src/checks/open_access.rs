//! open(2): which permission bits each access mode needs, and what a running program forbids.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = access_modes();
    checks.extend(refusals());
    checks
}

fn access_modes() -> Vec<Check> {
    let modes = [
        ("O_RDONLY", O_RDONLY, 4u32),
        ("O_WRONLY", O_WRONLY, 2),
        ("O_RDWR", O_RDWR, 6),
    ];
    let mut checks = Vec::new();
    for (word, flags, needs) in modes {
        checks.push(check(
            format!("open/{word}-as-owner-needs-the-owners-bits"),
            "The owner's class decides for the owner, whatever the others may.",
            move |_| {
                for bits in 0..8u32 {
                    file_of(ALICE, "f", b"x", bits << 6 | 0o077)?;
                    let answer = alice_gets(|| open("f", flags, 0))?;
                    permitted(answer, bits & needs == needs)?;
                    unlink("f")?;
                }
                Ok(())
            },
        ));
        checks.push(check(
            format!("open/{word}-as-group-needs-the-groups-bits"),
            "The group's class decides for its members, also supplementary ones.",
            move |t| {
                t.needs_root()?;
                for bits in 0..8u32 {
                    file_of(BOB, "f", b"x", bits << 3 | 0o707)?;
                    chown("f", BOB, OTHER_GROUP)?;
                    let member = User {
                        uid: ALICE,
                        gid: OTHER_GROUP,
                        groups: vec![],
                    };
                    permitted(
                        member.does(|| Ok(open("f", flags, 0)))?,
                        bits & needs == needs,
                    )?;
                    let supplementary = User::new(ALICE).with_group(OTHER_GROUP);
                    permitted(
                        supplementary.does(|| Ok(open("f", flags, 0)))?,
                        bits & needs == needs,
                    )?;
                    unlink("f")?;
                }
                Ok(())
            },
        ));
        checks.push(check(
            format!("open/{word}-as-other-needs-the-others-bits"),
            "The others' class decides for everybody else.",
            move |_| {
                for bits in 0..8u32 {
                    file_with_mode("f", b"x", 0o770 | bits)?;
                    permitted(alice_gets(|| open("f", flags, 0))?, bits & needs == needs)?;
                    unlink("f")?;
                }
                Ok(())
            },
        ));
        checks.push(check(
            format!("open/{word}-as-root-needs-no-bits"),
            "The superuser reads and writes everything.",
            move |t| {
                t.needs_root()?;
                file_of(ALICE, "f", b"x", 0o000)?;
                open("f", flags, 0)?;
                Ok(())
            },
        ));
    }
    checks
}

fn refusals() -> Vec<Check> {
    vec![
        check(
            "open/relative-to-a-bad-descriptor-says-EBADF",
            "A relative name needs a directory.",
            |_| {
                openat(-1, "f", O_RDONLY, 0).says(EBADF)?;
                openat(-1, "f", O_CREAT | O_WRONLY, 0o644).says(EBADF)
            },
        ),
        check(
            "open/relative-to-a-file-says-ENOTDIR",
            "The descriptor must be a directory's.",
            |_| {
                file("f", b"")?;
                let fd = reopen("f", O_RDONLY)?;
                openat(&fd, "g", O_RDONLY, 0).says(ENOTDIR)
            },
        ),
        check(
            "open/relative-to-a-descriptor",
            "The name starts from the descriptor's directory.",
            |_| {
                dir("d")?;
                file("d/f", b"x")?;
                let d = reopen("d", O_DIRECTORY)?;
                same_bytes("bytes", &contents_of(&openat(&d, "f", O_RDONLY, 0)?)?, b"x")
            },
        ),
        check(
            "open/an-executing-file-for-writing-says-ETXTBSY",
            "A program that runs is not changed.",
            |t| {
                t.needs_root()?;
                let runs = running_program("program")?;
                open("program", O_WRONLY, 0).says(ETXTBSY)?;
                open("program", O_RDWR, 0).says(ETXTBSY)?;
                truncate("program", 0).says(ETXTBSY)?;
                open("program", O_RDONLY, 0)?;
                runs.kill()
            },
        ),
        check(
            "open/a-file-open-for-writing-does-not-execute",
            "execve says ETXTBSY while somebody may write to the program.",
            |_| {
                program("program")?;
                let writer = open("program", O_WRONLY, 0)?;
                in_child(|| execute("program").says(ETXTBSY))?;
                writer.close()?;
                Ok(())
            },
        ),
        check(
            "open/a-closed-descriptor-says-EBADF",
            "Every call on it is refused.",
            |_| {
                const NOBODY: i32 = 1_000_000;
                read(NOBODY, 1).says(EBADF)?;
                write(NOBODY, b"x").says(EBADF)?;
                lseek(NOBODY, 0, SEEK_SET).says(EBADF)?;
                fstat(NOBODY).says(EBADF)?;
                fsync(NOBODY).says(EBADF)?;
                ftruncate(NOBODY, 0).says(EBADF)?;
                fchmod(NOBODY, 0o600).says(EBADF)?;
                fchown(NOBODY, 0, 0).says(EBADF)?;
                getdents(NOBODY, 1024).says(EBADF)?;
                close_number(NOBODY).says(EBADF)
            },
        ),
    ]
}

/// A copy of sleep(1) at `name`.
fn program(name: &'static str) -> Outcome {
    if statvfs(".")?.f_flag & libc::ST_NOEXEC != 0 {
        return skipped("mounted noexec");
    }
    match contents("/bin/sleep") {
        Ok(bytes) => file_with_mode(name, bytes, 0o755),
        Err(_) => skipped("there is no /bin/sleep to copy"),
    }
}

/// A process that executes the file at `name`.
fn running_program(name: &'static str) -> Outcome<Child> {
    program(name)?;
    let child = Child::start(move |_| Ok(execute_with(name, "15")?))?;
    let link = format!("/proc/{}/exe", child.pid());
    for _ in 0..400 {
        if readlink(&link).is_ok_and(|target| target.ends_with(name.as_bytes())) {
            return Ok(child);
        }
        sleep(Duration::from_millis(5));
    }
    Err(failed(
        "a copied program executes within 2 seconds",
        "it does not",
    ))
}
