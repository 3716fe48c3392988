//! mkdir(2).

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = Kind::ALL
        .into_iter()
        .map(|kind| {
            check(
                format!("mkdir/onto-{}-says-EEXIST", kind.word()),
                "The name exists, whatever it is; a symbolic link is not followed.",
                move |_| {
                    kind.make("x")?;
                    mkdir("x", 0o755).says(EEXIST)?;
                    kind.is_at("x")
                },
            )
        })
        .collect();
    checks.extend([
        check(
            "mkdir/makes-an-empty-directory",
            "The new directory holds dot and dot-dot only.",
            |_| {
                mkdir("d", 0o755)?;
                same("names", names("d")?, vec![])?;
                let mut all: Vec<_> = entries("d")?.into_iter().map(|entry| entry.name).collect();
                all.sort();
                same("entries", all, vec![b".".to_vec(), b"..".to_vec()])
            },
        ),
        check(
            "mkdir/mode-is-as-asked-with-umask-0",
            "Permission bits come from the mode argument.",
            |_| {
                for mode in [0o755, 0o700, 0o511, 0o000, 0o777] {
                    mkdir("d", mode)?;
                    same_mode(stat("d")?.permissions(), mode)?;
                    rmdir("d")?;
                }
                Ok(())
            },
        ),
        check(
            "mkdir/keeps-the-sticky-bit",
            "Linux honours S_ISVTX in mkdir's mode.",
            |_| {
                mkdir("d", 0o1777)?;
                same_mode(stat("d")?.permissions(), 0o1777)
            },
        ),
        check(
            "mkdir/umask-takes-bits-away",
            "Bits of the umask are cleared.",
            |_| {
                umask(0o027);
                mkdir("d", 0o777)?;
                same_mode(stat("d")?.permissions(), 0o750)
            },
        ),
        check(
            "mkdir/has-two-links",
            "A new directory is named by its parent and by its own dot.",
            |_| {
                mkdir("d", 0o755)?;
                match stat("d")?.nlink {
                    1 => skipped("this file system does not count directories' links"),
                    links => same("links", links, 2),
                }
            },
        ),
        check(
            "mkdir/adds-a-link-to-the-parent",
            "The child's dot-dot names the parent.",
            |_| {
                dir("p")?;
                let before = stat("p")?.nlink;
                mkdir("p/a", 0o755)?;
                mkdir("p/b", 0o755)?;
                match stat("p")?.nlink {
                    1 => skipped("this file system does not count directories' links"),
                    links => same("links", links, before + 2),
                }
            },
        ),
        check(
            "mkdir/belongs-to-the-maker",
            "Owner and group are the process's effective ids.",
            |_| {
                as_alice(|| {
                    mkdir("d", 0o755)?;
                    let facts = stat("d")?;
                    same("owner and group", (facts.uid, facts.gid), (ALICE, ALICE))
                })
            },
        ),
        check(
            "mkdir/dot-leads-to-itself",
            "The entry dot is the directory.",
            |_| {
                mkdir("d", 0o755)?;
                same("dot", stat("d/.")?.identity(), stat("d")?.identity())
            },
        ),
        check(
            "mkdir/dot-dot-leads-to-the-parent",
            "The entry dot-dot is the parent.",
            |_| {
                mkdir("d", 0o755)?;
                same("dot-dot", stat("d/..")?.identity(), stat(".")?.identity())
            },
        ),
        check(
            "mkdir/times-are-now",
            "All three times are set to the current time.",
            |_| {
                let before = clock();
                mkdir("d", 0o755)?;
                let facts = stat("d")?;
                let near = before.sec - 2..=clock().sec + 2;
                for (what, time) in [
                    ("atime", facts.atime),
                    ("mtime", facts.mtime),
                    ("ctime", facts.ctime),
                ] {
                    truth(
                        format!("{what} {} s is within {near:?} s", time.sec),
                        near.contains(&time.sec),
                    )?;
                }
                Ok(())
            },
        ),
        check(
            "mkdir/a-trailing-slash-is-allowed",
            "mkdir(\"d/\") makes d.",
            |_| {
                mkdir("d/", 0o755)?;
                Kind::Dir.is_at("d")
            },
        ),
        check(
            "mkdir/dot-and-dot-dot-say-EEXIST",
            "They exist everywhere.",
            |_| {
                mkdir(".", 0o755).says(EEXIST)?;
                mkdir("..", 0o755).says(EEXIST)?;
                dir("d")?;
                mkdir("d/.", 0o755).says_one_of(&[EEXIST, ENOENT])
            },
        ),
        check(
            "mkdir/the-root-says-EEXIST",
            "The root directory exists.",
            |_| mkdir("/", 0o755).says(EEXIST),
        ),
        check(
            "mkdir/through-a-dangling-link-says-EEXIST",
            "A dangling symbolic link is a name that exists.",
            |_| {
                symlink("nowhere", "l")?;
                mkdir("l", 0o755).says(EEXIST)?;
                gone("nowhere")
            },
        ),
        check(
            "mkdir/in-a-removed-directory-says-ENOENT",
            "A removed directory takes no new names.",
            |_| {
                dir("d")?;
                let d = reopen("d", O_DIRECTORY)?;
                rmdir("d")?;
                mkdirat(&d, "x", 0o755).says(ENOENT)
            },
        ),
        check(
            "mkdir/relative-to-a-descriptor",
            "The name starts from the descriptor's directory.",
            |_| {
                dir("d")?;
                let d = reopen("d", O_DIRECTORY)?;
                mkdirat(&d, "x", 0o755)?;
                Kind::Dir.is_at("d/x")?;
                mkdirat(-1, "y", 0o755).says(EBADF)
            },
        ),
        check(
            "mkdir/relative-to-a-file-says-ENOTDIR",
            "The descriptor must be a directory's.",
            |_| {
                file("f", b"")?;
                mkdirat(&reopen("f", O_RDONLY)?, "x", 0o755).says(ENOTDIR)
            },
        ),
        check(
            "mkdir/without-write-permission-says-EACCES",
            "The parent must be writable.",
            |_| {
                dir_with_mode("d", 0o755)?;
                alice_gets(|| mkdir("d/x", 0o755))?.says(EACCES)?;
                gone("d/x")
            },
        ),
        check(
            "mkdir/an-existing-name-says-EEXIST-even-without-permission",
            "EEXIST comes before EACCES.",
            |_| {
                dir_with_mode("d", 0o755)?;
                dir("d/x")?;
                alice_gets(|| mkdir("d/x", 0o755))?.says(EEXIST)
            },
        ),
    ]);
    checks
}
