//! Names: which bytes, how long, how deep, how many; the working directory.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = lengths();
    checks.extend(bytes());
    checks.extend(depth());
    checks.extend(working_directory());
    checks
}

fn lengths() -> Vec<Check> {
    let mut checks: Vec<Check> = Kind::ALL
        .into_iter()
        .map(|kind| {
            check(
                format!("name/of-255-bytes-for-a-{}", kind.word()),
                "NAME_MAX bytes are a name, one more is not.",
                move |_| {
                    let name = "n".repeat(255);
                    kind.make(&name)?;
                    kind.is_at(&name)?;
                    same("names", names(".")?, vec![name])
                },
            )
        })
        .collect();
    checks.push(check(
        "name/of-one-byte-each",
        "Every byte that may stand alone.",
        |_| {
            let mut count = 0;
            for byte in (1..=255u8).filter(|byte| !b"/.".contains(byte)) {
                open([byte], O_CREAT | O_EXCL | O_WRONLY, 0o644)?;
                count += 1;
            }
            same("names", entries(".")?.len(), count + 2)?;
            for byte in (1..=255u8).filter(|byte| !b"/.".contains(byte)) {
                same("kind", lstat([byte])?.kind(), S_IFREG)?;
            }
            Ok(())
        },
    ));
    checks
}

/// Names that careless programs spoil.
const STRANGE: &[(&str, &[u8])] = &[
    ("a-blank", b" "),
    ("blanks-around", b" a b "),
    ("a-newline", b"a\nb"),
    ("a-backslash", b"a\\b"),
    ("a-leading-dash", b"-rf"),
    ("three-dots", b"..."),
    ("a-leading-dot", b".hidden"),
    ("a-trailing-dot", b"end."),
    ("control-bytes", b"\x01\x02\x1b[0m\x7f"),
    ("a-star-and-quotes", b"*?'\"`$"),
    ("german", "Grüße".as_bytes()),
    ("greek", "κόσμε".as_bytes()),
    ("chinese", "文件系统".as_bytes()),
    ("an-emoji", "🗂️".as_bytes()),
    ("a-combining-accent", "e\u{301}".as_bytes()),
    ("no-utf-8", &[0xff, 0xfe, 0x80]),
    ("half-a-character", &[b'a', 0xc3]),
    ("an-overlong-slash", &[0xc0, 0xaf]),
    ("a-surrogate", &[0xed, 0xa0, 0x80]),
    ("a-windows-device", b"con"),
    ("a-colon", b"c:x"),
];

fn bytes() -> Vec<Check> {
    let mut checks: Vec<Check> = STRANGE
        .iter()
        .map(|(word, name)| {
            check(
                format!("name/with-{word}"),
                "Any bytes but slash and NUL are a name; they come back as they were given.",
                move |_| {
                    file(name, b"x")?;
                    holds(name, b"x")?;
                    let listed: Vec<_> =
                        entries(".")?.into_iter().map(|entry| entry.name).collect();
                    truth("the very bytes are listed", listed.contains(&name.to_vec()))?;
                    link(name, "other")?;
                    rename(name, "moved")?;
                    rename("moved", name)?;
                    unlink(name)?;
                    gone(name)
                },
            )
        })
        .collect();
    checks.extend([
        check("name/case-matters", "f, F and ſ are three names.", |_| {
            file("f", b"1")?;
            file("F", b"2")?;
            file("ſ", b"3")?;
            holds("f", b"1")?;
            holds("F", b"2")?;
            same("names", names(".")?.len(), 3)
        }),
        check(
            "name/composed-and-decomposed-differ",
            "Bytes are not normalised.",
            |_| {
                file("\u{e9}", b"one")?;
                file("e\u{301}", b"two")?;
                holds("\u{e9}", b"one")?;
                holds("e\u{301}", b"two")
            },
        ),
        check(
            "name/prefixes-of-each-other",
            "a, aa, aaa … to 255.",
            |_| {
                for length in 1..=255 {
                    file("a".repeat(length), length.to_string())?;
                }
                for length in 1..=255 {
                    holds("a".repeat(length), length.to_string())?;
                }
                Ok(())
            },
        ),
        check(
            "name/that-look-alike-to-a-hash",
            "1,000 names that differ in one byte.",
            |_| {
                dir("d")?;
                for number in 0..1000 {
                    file(
                        format!("d/{}{number:03}{}", "x".repeat(100), "y".repeat(100)),
                        number.to_string(),
                    )?;
                }
                for number in (0..1000).step_by(37) {
                    holds(
                        format!("d/{}{number:03}{}", "x".repeat(100), "y".repeat(100)),
                        number.to_string(),
                    )?;
                }
                same("names", names("d")?.len(), 1000)
            },
        ),
    ]);
    checks
}

fn depth() -> Vec<Check> {
    vec![
        check(
            "depth/1000-levels",
            "Made, walked and removed by relative names.",
            |_| {
                let home = reopen(".", O_DIRECTORY)?;
                for level in 0..1000 {
                    mkdir("d", 0o755)?;
                    chdir("d")?;
                    if level == 999 {
                        file("bottom", b"deep")?;
                    }
                }
                holds("bottom", b"deep")?;
                fchdir(&home)?;
                // 1,999 bytes of "d/d/…/d".
                let path = vec!["d"; 1000].join("/");
                same("bottom", names(&path)?, vec!["bottom".into()])?;
                unlink(format!("{path}/bottom"))?;
                for level in (1..=1000).rev() {
                    rmdir(vec!["d"; level].join("/"))?;
                }
                gone("d")
            },
        ),
        check(
            "depth/deeper-than-a-path-can-say",
            "200 levels of 100 bytes each: 20,000 bytes.",
            |_| {
                let home = reopen(".", O_DIRECTORY)?;
                let name = "l".repeat(100);
                for _ in 0..200 {
                    mkdir(&name, 0o755)?;
                    chdir(&name)?;
                }
                file("bottom", b"deep")?;
                holds("bottom", b"deep")?;
                match getcwd() {
                    Ok(_) => {}
                    answer => answer.says(ENAMETOOLONG)?,
                }
                unlink("bottom")?;
                for _ in 0..200 {
                    chdir("..")?;
                    rmdir(&name)?;
                }
                same("home", stat(".")?.identity(), fstat(&home)?.identity())
            },
        ),
        check(
            "depth/a-deep-tree-is-moved-at-once",
            "Rename does not depend on depth.",
            |_| {
                let path = vec!["d"; 300].join("/");
                for level in 1..=300 {
                    mkdir(vec!["d"; level].join("/"), 0o755)?;
                }
                file(format!("{path}/f"), b"x")?;
                dir("other")?;
                rename("d", "other/moved")?;
                holds(format!("other/moved/{}/f", vec!["d"; 299].join("/")), b"x")?;
                rename(
                    "other",
                    format!("other/moved/{}/x", vec!["d"; 299].join("/")),
                )
                .says(EINVAL)
            },
        ),
    ]
}

fn working_directory() -> Vec<Check> {
    vec![
        check(
            "getcwd/follows-a-rename",
            "It tells the present name.",
            |_| {
                dir("a")?;
                chdir("a")?;
                let before = getcwd()?;
                rename("../a", "../b")?;
                let after = getcwd()?;
                truth("it ended in /a", before.ends_with(b"/a"))?;
                truth("it ends in /b", after.ends_with(b"/b"))?;
                Ok(chdir("..")?)
            },
        ),
        check(
            "getcwd/in-a-removed-directory-says-ENOENT",
            "It has no name any more.",
            |_| {
                dir("a")?;
                let home = reopen(".", O_DIRECTORY)?;
                chdir("a")?;
                rmdir("../a")?;
                getcwd().says(ENOENT)?;
                open("f", O_CREAT | O_WRONLY, 0o644).says(ENOENT)?;
                mkdir("d", 0o755).says(ENOENT)?;
                same("links", stat(".")?.nlink, 0)?;
                Ok(fchdir(&home)?)
            },
        ),
        check(
            "chdir/needs-search-permission",
            "EACCES without x; read is not needed.",
            |_| {
                dir_with_mode("closed", 0o766)?;
                dir_with_mode("open", 0o711)?;
                as_alice(|| {
                    chdir("closed").says(EACCES)?;
                    chdir("open")?;
                    Ok(chdir("..")?)
                })
            },
        ),
        check("chdir/a-file-says-ENOTDIR", "Also by descriptor.", |_| {
            file("f", b"")?;
            chdir("f").says(ENOTDIR)?;
            fchdir(reopen("f", O_RDONLY)?).says(ENOTDIR)?;
            fchdir(1_000_000).says(EBADF)
        }),
        check(
            "fchdir/to-an-open-directory",
            "Also after its name is gone from where it was.",
            |_| {
                dir("a")?;
                dir("b")?;
                let home = reopen(".", O_DIRECTORY)?;
                let a = reopen("a", O_DIRECTORY)?;
                rename("a", "b/c")?;
                fchdir(&a)?;
                truth("the name ends in /b/c", getcwd()?.ends_with(b"/b/c"))?;
                Ok(fchdir(&home)?)
            },
        ),
        check(
            "fchdir/needs-search-permission-now",
            "Not only at open.",
            |_| {
                dir_of(ALICE, "d", 0o755)?;
                as_alice(|| {
                    let d = reopen("d", O_DIRECTORY)?;
                    chmod("d", 0o600)?;
                    fchdir(&d).says(EACCES)
                })
            },
        ),
    ]
}
