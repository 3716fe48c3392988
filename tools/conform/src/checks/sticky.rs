//! The sticky bit of directories, and the umask.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = sticky();
    checks.extend(umasks());
    checks
}

fn sticky() -> Vec<Check> {
    /// A sticky directory of root's, writable by all users, with Bob's file and directory.
    fn shared() -> Outcome {
        dir_with_mode("d", 0o1777)?;
        file_of(BOB, "d/f", b"bob's", 0o666)?;
        dir_of(BOB, "d/e", 0o777)
    }
    vec![
        check(
            "sticky/unlink-by-a-stranger-says-EPERM",
            "Only the file's or the directory's owner may.",
            |_| {
                shared()?;
                alice_gets(|| unlink("d/f"))?.says(EPERM)?;
                Kind::File.is_at("d/f")
            },
        ),
        check(
            "sticky/rmdir-by-a-stranger-says-EPERM",
            "Directories in it are guarded like files.",
            |_| {
                shared()?;
                alice_gets(|| rmdir("d/e"))?.says(EPERM)?;
                Kind::Dir.is_at("d/e")
            },
        ),
        check(
            "sticky/rename-away-by-a-stranger-says-EPERM",
            "The old name would go.",
            |_| {
                shared()?;
                alice_gets(|| rename("d/f", "d/g"))?.says(EPERM)?;
                alice_gets(|| rename("d/f", "mine"))?.says(EPERM)
            },
        ),
        check(
            "sticky/rename-onto-a-strangers-file-says-EPERM",
            "The replaced name is not ours.",
            |_| {
                shared()?;
                as_alice(|| {
                    file("d/mine", b"")?;
                    rename("d/mine", "d/f").says(EPERM)
                })?;
                holds("d/f", b"bob's")
            },
        ),
        check(
            "sticky/exchange-with-a-strangers-file-says-EPERM",
            "Both names would change.",
            |_| {
                shared()?;
                as_alice(|| {
                    file("d/mine", b"")?;
                    rename_flags("d/mine", "d/f", RENAME_EXCHANGE).says_one_of(&[EPERM, EINVAL])
                })
            },
        ),
        check(
            "sticky/the-files-owner-may-do-all",
            "Unlink, rename, rmdir.",
            |_| {
                shared()?;
                as_bob(|| {
                    rename("d/f", "d/g")?;
                    unlink("d/g")?;
                    rmdir("d/e")?;
                    Ok(())
                })
            },
        ),
        check(
            "sticky/the-directorys-owner-may-do-all",
            "With other people's files.",
            |_| {
                shared()?;
                give(ALICE, "d")?;
                chmod("d", 0o1777)?;
                as_alice(|| {
                    rename("d/f", "d/g")?;
                    unlink("d/g")?;
                    rmdir("d/e")?;
                    Ok(())
                })
            },
        ),
        check(
            "sticky/root-may-do-all",
            "The superuser is not bound.",
            |t| {
                t.needs_root()?;
                shared()?;
                give(ALICE, "d")?;
                unlink("d/f")?;
                rmdir("d/e")?;
                Ok(())
            },
        ),
        check(
            "sticky/making-and-linking-is-free",
            "The bit guards removal.",
            |_| {
                shared()?;
                as_alice(|| {
                    file("d/mine", b"")?;
                    link("d/mine", "d/also")?;
                    mkdir("d/dir", 0o755)?;
                    unlink("d/also")?;
                    rmdir("d/dir")?;
                    Ok(())
                })
            },
        ),
        check(
            "sticky/without-the-bit-anybody-may-remove",
            "Write permission on the directory suffices.",
            |_| {
                dir_with_mode("d", 0o777)?;
                file_of(BOB, "d/f", b"", 0o600)?;
                alice_gets(|| unlink("d/f"))??;
                gone("d/f")
            },
        ),
        check(
            "sticky/moving-a-strangers-directory-within-says-EPERM",
            "Between sticky directories too.",
            |_| {
                shared()?;
                dir_with_mode("other", 0o1777)?;
                alice_gets(|| rename("d/e", "other/e"))?.says(EPERM)
            },
        ),
        check(
            "rename/a-strangers-directory-to-another-parent-needs-write-on-it",
            "Its dot-dot changes.",
            |_| {
                dir_with_mode("from", 0o777)?;
                dir_with_mode("to", 0o777)?;
                dir_of(BOB, "from/d", 0o755)?;
                alice_gets(|| rename("from/d", "to/d"))?.says(EACCES)?;
                alice_gets(|| rename("from/d", "from/e"))??;
                Ok(())
            },
        ),
        check(
            "rename/without-write-permission-says-EACCES",
            "On either directory.",
            |_| {
                dir_with_mode("closed", 0o755)?;
                dir_with_mode("open", 0o777)?;
                file_of(ALICE, "closed/f", b"", 0o666)?;
                file_of(ALICE, "open/g", b"", 0o666)?;
                alice_gets(|| rename("closed/f", "open/f"))?.says(EACCES)?;
                alice_gets(|| rename("open/g", "closed/g"))?.says(EACCES)
            },
        ),
    ]
}

fn umasks() -> Vec<Check> {
    vec![
        check(
            "umask/binds-every-call-that-makes-a-file",
            "open, mkdir, mknod; not symlink.",
            |_| {
                umask(0o037);
                open("f", O_CREAT | O_WRONLY, 0o777)?;
                mkdir("d", 0o777)?;
                mkfifo("p", 0o777)?;
                mknod("s", S_IFSOCK | 0o777, 0)?;
                for name in ["f", "d", "p", "s"] {
                    same(name, stat(name)?.permissions(), 0o740)?;
                }
                Ok(())
            },
        ),
        check(
            "umask/does-not-bind-chmod",
            "The mask is for creation only.",
            |_| {
                umask(0o777);
                open("f", O_CREAT | O_WRONLY, 0o777)?;
                same("made", stat("f")?.permissions(), 0)?;
                chmod("f", 0o666)?;
                same("changed", stat("f")?.permissions(), 0o666)
            },
        ),
        check(
            "umask/is-the-makers-not-the-mounts",
            "Two threads, two masks.",
            |_| {
                umask(0o077);
                file("mine", b"")?;
                in_child(|| {
                    umask(0o000);
                    open("theirs", O_CREAT | O_WRONLY, 0o666)?;
                    Ok(())
                })?;
                open("again", O_CREAT | O_WRONLY, 0o666)?;
                same("child's", stat("theirs")?.permissions(), 0o666)?;
                same("ours", stat("again")?.permissions(), 0o600)
            },
        ),
    ]
}
