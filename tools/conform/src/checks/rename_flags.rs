//! renameat2(2) with flags: refuse to replace, exchange, leave a whiteout.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = noreplace();
    checks.extend(exchange());
    checks.extend(others());
    checks
}

const ABSENT: &str = "RENAME flags are optional";

fn noreplace() -> Vec<Check> {
    let mut checks: Vec<Check> = Kind::ALL
        .into_iter()
        .map(|target| {
            check(
                format!("rename-noreplace/onto-{}-says-EEXIST", target.word()),
                "With RENAME_NOREPLACE an existing new name is refused and both files stay.",
                move |_| {
                    file("old", b"o")?;
                    target.make("new")?;
                    match rename_flags("old", "new", RENAME_NOREPLACE) {
                        Err(refused) if refused.errno == EINVAL => return skipped(ABSENT),
                        answer => answer.says(EEXIST)?,
                    }
                    holds("old", b"o")?;
                    target.is_at("new")
                },
            )
        })
        .collect();
    checks.push(check(
        "rename-noreplace/to-a-new-name",
        "Without an obstacle it is a plain rename.",
        |_| {
            file("old", b"o")?;
            rename_flags("old", "new", RENAME_NOREPLACE).or_skip(&[EINVAL], ABSENT)?;
            gone("old")?;
            holds("new", b"o")
        },
    ));
    checks.push(check(
        "rename-noreplace/onto-itself-says-EEXIST",
        "The new name exists: it is the old one.",
        |_| {
            file("f", b"o")?;
            link("f", "g")?;
            rename_flags("f", "f", RENAME_NOREPLACE).says(EEXIST)?;
            rename_flags("f", "g", RENAME_NOREPLACE).says(EEXIST)
        },
    ));
    checks.push(check(
        "rename-noreplace/a-missing-source-says-ENOENT",
        "The old name must exist.",
        |_| rename_flags("old", "new", RENAME_NOREPLACE).says(ENOENT),
    ));
    checks
}

fn exchange() -> Vec<Check> {
    let mut checks = Vec::new();
    for (a, b) in [
        (Kind::File, Kind::File),
        (Kind::File, Kind::Dir),
        (Kind::Dir, Kind::Dir),
        (Kind::Symlink, Kind::File),
        (Kind::Fifo, Kind::Symlink),
    ] {
        checks.push(check(
            format!("rename-exchange/{}-with-{}", a.word(), b.word()),
            "RENAME_EXCHANGE swaps two names in one step, whatever their kinds.",
            move |_| {
                a.make("a")?;
                b.make("b")?;
                let (before_a, before_b) = (lstat("a")?.identity(), lstat("b")?.identity());
                rename_flags("a", "b", RENAME_EXCHANGE).or_skip(&[EINVAL], ABSENT)?;
                same("what b names", lstat("b")?.identity(), before_a)?;
                same("what a names", lstat("a")?.identity(), before_b)
            },
        ));
    }
    checks.extend([
        check(
            "rename-exchange/full-directories",
            "Directories need not be empty.",
            |_| {
                dir("a")?;
                dir("b")?;
                file("a/1", b"")?;
                file("b/2", b"")?;
                rename_flags("a", "b", RENAME_EXCHANGE).or_skip(&[EINVAL], ABSENT)?;
                same("names in a", names("a")?, vec!["2".into()])?;
                same("names in b", names("b")?, vec!["1".into()])
            },
        ),
        check(
            "rename-exchange/across-directories-moves-dot-dot-and-links",
            "Parents' facts follow.",
            |_| {
                dir("p")?;
                dir("q")?;
                dir("p/d")?;
                file("q/f", b"")?;
                let counted = stat("p")?.nlink == 3;
                rename_flags("p/d", "q/f", RENAME_EXCHANGE).or_skip(&[EINVAL], ABSENT)?;
                same("dot-dot", stat("q/f/..")?.identity(), stat("q")?.identity())?;
                if counted {
                    same("links of p", stat("p")?.nlink, 2)?;
                    same("links of q", stat("q")?.nlink, 3)?;
                }
                Ok(())
            },
        ),
        check(
            "rename-exchange/a-missing-target-says-ENOENT",
            "Both names must exist.",
            |_| {
                file("a", b"")?;
                rename_flags("a", "b", RENAME_EXCHANGE).says_one_of(&[ENOENT, EINVAL])?;
                Kind::File.is_at("a")
            },
        ),
        check(
            "rename-exchange/a-directory-with-its-descendant-says-EINVAL",
            "It would cut the tree off.",
            |_| {
                dir("d")?;
                dir("d/e")?;
                rename_flags("d", "d/e", RENAME_EXCHANGE).says(EINVAL)?;
                rename_flags("d/e", "d", RENAME_EXCHANGE).says_one_of(&[EINVAL, ENOTEMPTY])
            },
        ),
        check(
            "rename-exchange/with-itself-does-nothing",
            "The same file on both sides.",
            |_| {
                file("f", b"x")?;
                rename_flags("f", "f", RENAME_EXCHANGE).or_skip(&[EINVAL], ABSENT)?;
                holds("f", b"x")
            },
        ),
    ]);
    checks
}

fn others() -> Vec<Check> {
    vec![
        check(
            "rename-flags/unknown-flags-say-EINVAL",
            "A flag nobody knows is refused, not ignored.",
            |_| {
                file("a", b"")?;
                rename_flags("a", "b", 1 << 20).says(EINVAL)?;
                Kind::File.is_at("a")
            },
        ),
        check(
            "rename-flags/noreplace-with-exchange-says-EINVAL",
            "The two contradict each other.",
            |_| {
                file("a", b"")?;
                file("b", b"")?;
                rename_flags("a", "b", RENAME_NOREPLACE | RENAME_EXCHANGE).says(EINVAL)
            },
        ),
        check(
            "rename-flags/whiteout-with-exchange-says-EINVAL",
            "The two contradict each other.",
            |_| {
                file("a", b"")?;
                file("b", b"")?;
                rename_flags("a", "b", RENAME_WHITEOUT | RENAME_EXCHANGE).says(EINVAL)
            },
        ),
        check(
            "rename-flags/whiteout-leaves-a-0-0-device",
            "RENAME_WHITEOUT leaves a device 0/0 at the old name.",
            |t| {
                t.needs_root()?;
                file("a", b"x")?;
                rename_flags("a", "b", RENAME_WHITEOUT)
                    .or_skip(&[EINVAL, EPERM], "whiteouts are optional")?;
                holds("b", b"x")?;
                let whiteout = lstat("a")?;
                same(
                    "type and device",
                    (whiteout.kind(), whiteout.rdev),
                    (S_IFCHR, 0),
                )
            },
        ),
    ]
}
