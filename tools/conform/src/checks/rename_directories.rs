//! rename(2) of directories.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    vec![
        check(
            "rename/a-moved-directory-has-a-new-dot-dot",
            "Dot-dot of a moved directory is its new parent.",
            |_| {
                dir("a")?;
                dir("b")?;
                dir("a/d")?;
                rename("a/d", "b/d")?;
                same("dot-dot", stat("b/d/..")?.identity(), stat("b")?.identity())
            },
        ),
        check(
            "rename/a-moved-directory-moves-a-link-count",
            "Each subdirectory counts in its parent's links.",
            |_| {
                dir("a")?;
                dir("b")?;
                dir("a/d")?;
                if stat("a")?.nlink != 3 {
                    return skipped("this file system does not count subdirectories as links");
                }
                rename("a/d", "b/d")?;
                same("links of a", stat("a")?.nlink, 2)?;
                same("links of b", stat("b")?.nlink, 3)
            },
        ),
        check(
            "rename/a-replaced-directory-lowers-the-link-count",
            "One subdirectory fewer.",
            |_| {
                dir("a")?;
                dir("a/d")?;
                dir("a/e")?;
                if stat("a")?.nlink != 4 {
                    return skipped("this file system does not count subdirectories as links");
                }
                rename("a/d", "a/e")?;
                same("links of a", stat("a")?.nlink, 3)
            },
        ),
        check(
            "rename/a-full-directory-keeps-its-tree",
            "All descendants come along.",
            |_| {
                dir("a")?;
                dir("a/b")?;
                file("a/b/f", b"deep")?;
                dir("elsewhere")?;
                rename("a", "elsewhere/a")?;
                holds("elsewhere/a/b/f", b"deep")
            },
        ),
        check(
            "rename/descriptors-below-a-moved-directory-work",
            "An open directory follows its file.",
            |_| {
                dir("a")?;
                dir("a/b")?;
                let b = reopen("a/b", O_DIRECTORY)?;
                rename("a", "c")?;
                openat(&b, "f", O_CREAT | O_WRONLY, 0o644)?;
                same("names", names("c/b")?, vec!["f".into()])
            },
        ),
        check(
            "rename/works-on-the-working-directory",
            "A process stays in its directory when that is moved.",
            |_| {
                dir("a")?;
                dir("b")?;
                let home = reopen(".", O_DIRECTORY)?;
                chdir("a")?;
                rename("../a", "../b/a")?;
                file("f", b"here")?;
                fchdir(&home)?;
                holds("b/a/f", b"here")
            },
        ),
        check(
            "rename/deep-into-a-sibling-tree",
            "Moves between different depths.",
            |_| {
                dir("a")?;
                dir("a/b")?;
                dir("a/b/c")?;
                dir("x")?;
                rename("a/b/c", "x/c")?;
                rename("x", "a/b/x")?;
                Kind::Dir.is_at("a/b/x/c")
            },
        ),
        check(
            "rename/back-and-forth-1000-times",
            "The file is the same one after any number of renames.",
            |_| {
                file("a", b"x")?;
                let before = stat("a")?;
                for _ in 0..500 {
                    rename("a", "b")?;
                    rename("b", "a")?;
                }
                same("identity", stat("a")?.identity(), before.identity())?;
                same("names", names(".")?, vec!["a".into()])
            },
        ),
    ]
}
