//! rename(2): one name takes the place of another in one step.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = replacing();
    checks.extend(identity());
    checks.extend(places());
    checks
}

/// Replacing: each kind of source on each kind of target.
fn replacing() -> Vec<Check> {
    let mut checks = Vec::new();
    for source in Kind::ALL {
        for target in Kind::ALL {
            checks.push(replaces(source, target));
        }
        checks.push(check(
            format!("rename/{}-to-a-new-name", source.word()),
            "The old name is gone and the new one refers to the same file.",
            move |_| {
                source.make("old")?;
                let before = lstat("old")?;
                rename("old", "new")?;
                gone("old")?;
                same("identity", lstat("new")?.identity(), before.identity())?;
                source.is_at("new")
            },
        ));
        checks.push(check(
            format!("rename/{}-onto-a-full-dir-is-refused", source.word()),
            "A directory with names in it is not replaced: EISDIR for a non-directory, EEXIST or ENOTEMPTY else.",
            move |_| {
                source.make("old")?;
                dir("full")?;
                file("full/f", b"")?;
                let answer = rename("old", "full");
                match source {
                    Kind::Dir => answer.says_one_of(&[ENOTEMPTY, EEXIST])?,
                    _ => answer.says(EISDIR)?,
                }
                source.is_at("old")?;
                same("names in it", names("full")?, vec!["f".into()])
            },
        ));
    }
    checks
}

fn replaces(source: Kind, target: Kind) -> Check {
    let refusal = match (source, target) {
        (Kind::Dir, Kind::Dir) => None,
        (Kind::Dir, _) => Some(ENOTDIR),
        (_, Kind::Dir) => Some(EISDIR),
        _ => None,
    };
    let (from, to) = (source.word(), target.word());
    match refusal {
        None => check(
            format!("rename/{from}-replaces-{to}"),
            "The new name refers to the renamed file; what it referred to before has lost the name.",
            move |_| {
                source.make("old")?;
                target.make("new")?;
                let before = lstat("old")?;
                rename("old", "new")?;
                gone("old")?;
                same("identity", lstat("new")?.identity(), before.identity())?;
                same("names here", names(".")?, vec!["new".into()])
            },
        ),
        Some(errno) => check(
            format!("rename/{from}-onto-{to}-says-{errno}"),
            "A directory replaces only a directory (ENOTDIR) and a non-directory never one (EISDIR).",
            move |_| {
                source.make("old")?;
                target.make("new")?;
                rename("old", "new").says(errno)?;
                source.is_at("old")?;
                target.is_at("new")
            },
        ),
    }
}

fn identity() -> Vec<Check> {
    vec![
        check(
            "rename/onto-itself-does-nothing",
            "Old and new name the same entry: success, no change.",
            |_| {
                file("f", b"x")?;
                rename("f", "f")?;
                holds("f", b"x")
            },
        ),
        check(
            "rename/onto-another-link-of-the-same-file-does-nothing",
            "If old and new are links to the same file, rename succeeds and both names stay.",
            |_| {
                file("a", b"x")?;
                link("a", "b")?;
                rename("a", "b")?;
                same("names", names(".")?, vec!["a".into(), "b".into()])?;
                same("links", stat("a")?.nlink, 2)
            },
        ),
        check(
            "rename/empty-directory-onto-itself-does-nothing",
            "Also for a directory.",
            |_| {
                dir("d")?;
                rename("d", "d")?;
                Kind::Dir.is_at("d")
            },
        ),
        check(
            "rename/replaced-file-loses-a-link",
            "The replaced file's link count goes down; its other names stay.",
            |_| {
                file("old", b"1")?;
                file("new", b"2")?;
                link("new", "other")?;
                rename("old", "new")?;
                same("links of the other name", stat("other")?.nlink, 1)?;
                holds("other", b"2")
            },
        ),
        check(
            "rename/replaced-open-file-stays-readable",
            "A file that is open when its last name is replaced lives until it is closed, with link count 0.",
            |_| {
                file("old", b"1")?;
                file("new", b"22")?;
                let fd = reopen("new", O_RDWR)?;
                rename("old", "new")?;
                same("links", fstat(&fd)?.nlink, 0)?;
                same_bytes("bytes", &contents_of(&fd)?, b"22")?;
                pwrite(&fd, b"33", 2)?;
                same_bytes("bytes", &contents_of(&fd)?, b"2233")?;
                holds("new", b"1")
            },
        ),
        check(
            "rename/keeps-an-open-descriptor-on-the-file",
            "A descriptor follows the file, not the name.",
            |_| {
                file("old", b"1")?;
                let fd = reopen("old", O_RDWR)?;
                rename("old", "new")?;
                pwrite(&fd, b"22", 0)?;
                holds("new", b"22")
            },
        ),
        check(
            "rename/keeps-mode-owner-size-and-mtime",
            "Only names change; the file's own facts stay.",
            |_| {
                file_with_mode("old", b"12345", 0o640)?;
                utimens("old", EARLY, LATER)?;
                let before = stat("old")?;
                rename("old", "new")?;
                let after = stat("new")?;
                let facts = |s: &Stat| (s.mode, s.uid, s.gid, s.size, s.nlink, s.atime, s.mtime);
                same("facts", facts(&after), facts(&before))
            },
        ),
        check(
            "rename/moves-the-symlink-not-its-target",
            "A final symbolic link is renamed itself.",
            |_| {
                file("target", b"t")?;
                symlink("target", "old")?;
                rename("old", "new")?;
                same("link text", readlink("new")?, b"target".to_vec())?;
                holds("target", b"t")
            },
        ),
        check(
            "rename/replaces-the-symlink-not-its-target",
            "A final symbolic link is replaced itself.",
            |_| {
                file("target", b"t")?;
                symlink("target", "new")?;
                file("old", b"o")?;
                rename("old", "new")?;
                Kind::File.is_at("new")?;
                holds("target", b"t")
            },
        ),
        check(
            "rename/a-missing-source-says-ENOENT",
            "The old name does not exist.",
            |_| {
                file("new", b"x")?;
                rename("nothing", "new").says(ENOENT)?;
                holds("new", b"x")
            },
        ),
    ]
}

fn places() -> Vec<Check> {
    vec![
        check(
            "rename/into-another-directory",
            "The file moves; both directories show it.",
            |_| {
                dir("a")?;
                dir("b")?;
                file("a/f", b"x")?;
                rename("a/f", "b/g")?;
                same("names in a", names("a")?, vec![])?;
                same("names in b", names("b")?, vec!["g".into()])?;
                holds("b/g", b"x")
            },
        ),
        check(
            "rename/relative-to-two-descriptors",
            "Each name starts from its own directory descriptor.",
            |_| {
                dir("a")?;
                dir("b")?;
                file("a/f", b"x")?;
                let (a, b) = (reopen("a", O_DIRECTORY)?, reopen("b", O_DIRECTORY)?);
                renameat2(&a, "f", &b, "g", 0)?;
                holds("b/g", b"x")?;
                gone("a/f")
            },
        ),
        check(
            "rename/a-bad-descriptor-says-EBADF",
            "A relative name needs a valid directory descriptor.",
            |_| {
                file("f", b"")?;
                renameat2(-1, "f", CWD, "g", 0).says(EBADF)?;
                renameat2(CWD, "f", 9999, "g", 0).says(EBADF)
            },
        ),
        check(
            "rename/relative-to-a-file-says-ENOTDIR",
            "The descriptor must be a directory's.",
            |_| {
                file("f", b"")?;
                let fd = reopen("f", O_RDONLY)?;
                renameat2(&fd, "x", CWD, "g", 0).says(ENOTDIR)?;
                renameat2(CWD, "f", &fd, "g", 0).says(ENOTDIR)
            },
        ),
        check(
            "rename/a-final-dot-says-EBUSY-or-EINVAL",
            "Neither name may end in dot.",
            |_| {
                dir("d")?;
                rename("d/.", "e").says_one_of(&[EBUSY, EINVAL])?;
                dir("e")?;
                rename("d", "e/.").says_one_of(&[EBUSY, EINVAL, ENOTEMPTY, EEXIST])
            },
        ),
        check(
            "rename/a-final-dot-dot-is-refused",
            "Neither name may end in dot-dot.",
            |_| {
                dir("d")?;
                dir("d/e")?;
                rename("d/e/..", "x").says_one_of(&[EBUSY, EINVAL, ENOTEMPTY, EEXIST])?;
                rename("d/e", "d/..").says_one_of(&[EBUSY, EINVAL, ENOTEMPTY, EEXIST])
            },
        ),
        check(
            "rename/into-its-own-subdirectory-says-EINVAL",
            "A directory cannot become its own descendant.",
            |_| {
                dir("d")?;
                dir("d/e")?;
                rename("d", "d/x").says(EINVAL)?;
                rename("d", "d/e/x").says(EINVAL)?;
                rename("d", "d/e").says(EINVAL)
            },
        ),
        check(
            "rename/onto-its-own-parent-says-ENOTEMPTY",
            "The parent holds at least the source.",
            |_| {
                dir("d")?;
                dir("d/e")?;
                rename("d/e", "d").says_one_of(&[ENOTEMPTY, EEXIST])?;
                file("d/f", b"")?;
                rename("d/f", "d").says_one_of(&[EISDIR, ENOTEMPTY, EEXIST])
            },
        ),
        check(
            "rename/a-file-with-a-trailing-slash-says-ENOTDIR",
            "A trailing slash asks for a directory.",
            |_| {
                file("f", b"")?;
                rename("f/", "g").says(ENOTDIR)?;
                rename("f", "g/").says(ENOTDIR)
            },
        ),
        check(
            "rename/a-directory-with-trailing-slashes",
            "Directories may carry trailing slashes.",
            |_| {
                dir("d")?;
                rename("d/", "e/")?;
                Kind::Dir.is_at("e")
            },
        ),
        check(
            "rename/keeps-a-name-of-255-bytes",
            "Names up to NAME_MAX are renamed like any.",
            |_| {
                let (a, b) = ("a".repeat(255), "b".repeat(255));
                file(&a, b"x")?;
                rename(&a, &b)?;
                holds(&b, b"x")?;
                rename(&b, "c".repeat(256)).says(ENAMETOOLONG)
            },
        ),
    ]
}
