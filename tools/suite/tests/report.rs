//! `bench report` as a person starts it, and its page in a browser.

// The browser's end is waited for.
#![allow(clippy::disallowed_methods)]

mod browser;
mod made_up_results;
mod program;

use std::path::{Path, PathBuf};

use browser::Browser;
use made_up_results::MadeUpResults;
use program::{Done, Program};
use tempfile::TempDir;

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

struct ReportDirectory(TempDir);

impl ReportDirectory {
    fn new(results: &str) -> ReportDirectory {
        let directory = ReportDirectory(tempfile::tempdir().unwrap());
        std::fs::write(directory.path("results.jsonl"), results).unwrap();
        directory
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn report(&self, flags: &str) -> Done {
        let flags = flags.replace("DESK", self.0.path().to_str().unwrap());
        Program::new(
            SUITE,
            &format!("report {}/results.jsonl {flags}", self.0.path().display()),
        )
        .run()
    }

    fn page(&self) -> String {
        std::fs::read_to_string(self.path("results.html")).unwrap()
    }
}

/// What is wrong with the page as it is drawn, beside numbers of what is in it.
const LOOK: &str = r#"(() => {
    const wide = document.documentElement;
    const found = { width: innerWidth, needed: wide.scrollWidth, figures: 0, tables: 0, scripts: document.scripts.length, wrong: [] };
    for (const figure of document.querySelectorAll("figure")) {
        found.figures += 1;
        found.tables += figure.querySelectorAll("table tbody tr").length > 0 && figure.querySelector("svg[aria-label]") ? 1 : 0;
    }
    for (const svg of document.querySelectorAll("svg")) {
        const frame = svg.getBoundingClientRect();
        const texts = [...svg.querySelectorAll("text")].map(text => ({ said: text.textContent, at: text.getBoundingClientRect() }));
        if (frame.width < 300 && innerWidth > 355 && !matchMedia("print").matches) found.wrong.push(`narrow: ${svg.getAttribute("aria-label")}`);
        texts.forEach(({ said, at }, number) => {
            if (at.left < frame.left - 1 || at.right > frame.right + 1 || at.top < frame.top - 2 || at.bottom > frame.bottom + 2)
                found.wrong.push(`outside: ${said} in ${svg.getAttribute("aria-label")}`);
            for (const other of texts.slice(number + 1)) {
                const across = Math.min(at.right, other.at.right) - Math.max(at.left, other.at.left);
                const down = Math.min(at.bottom, other.at.bottom) - Math.max(at.top, other.at.top);
                // Boxes of text have room above and below their letters.
                if (across > 1 && down > 5) found.wrong.push(`over each other: ${said} and ${other.said} in ${svg.getAttribute("aria-label")}`);
            }
        });
    }
    if (matchMedia("print").matches)
        for (const table of document.querySelectorAll(".wide"))
            if (table.scrollWidth > table.clientWidth + 1) found.wrong.push(`cut off: ${table.textContent.slice(0, 60)}`);
    return found;
})()"#;

#[test]
fn a_page_is_right_on_a_phone_a_desk_and_paper() {
    let directory = ReportDirectory::new(&MadeUpResults::new().ceilings().lines);
    assert_eq!(directory.report("").code, Some(0));
    let Some(chromium) = browser::chromium() else {
        gupfs_skips::skip(
            gupfs_skips::Need::Browser,
            "Chromium is not installed and could not be installed",
        );
        return;
    };
    let mut browser = Browser::start(chromium);
    for (width, media) in [(360, "screen"), (1280, "screen"), (688, "print")] {
        browser.open(&directory.path("results.html"), width, media);
        let found = browser.evaluate(LOOK);
        if let Some(dir) = std::env::var_os("REPORT_PICTURES") {
            let path = Path::new(&dir).join(format!("{media}-{width}.png.base64"));
            std::fs::write(path, browser.picture()).unwrap();
        }
        let at = format!("{media} of {width}: {found:#}");
        assert_eq!(found["wrong"].as_array().unwrap().len(), 0, "{at}");
        assert_eq!(found["width"], width, "{at}");
        assert!(
            found["needed"].as_u64().unwrap() <= u64::from(width),
            "{at}"
        );
        assert_eq!(found["figures"], found["tables"], "{at}");
        assert!(found["figures"].as_u64().unwrap() > 20, "{at}");
        assert_eq!(found["scripts"], 0, "{at}");
    }
    assert_eq!(browser.errors, Vec::<String>::new());
}

#[test]
fn the_page_says_who_is_better_and_what_is_noise() {
    let directory = ReportDirectory::new(&MadeUpResults::new().ceilings().lines);
    let done = directory.report("--plots DESK/pictures");
    assert_eq!(done.code, Some(0), "{}", done.err);
    let page = directory.page();
    for said in [
        "<strong>gupfs is 60\u{a0}% as fast as local</strong>",
        "within the noise",
        "a cache effect",
        "less than required",
        "GFS 5.1 (published)",
        "Jain's index",
        // Over what a program varies, with what was published of as many processes.
        "block sizes: Write at np=1, MB/s",
        "gfs (tcp-hi) (published)",
        "EUR per MB/s",
    ] {
        assert!(page.contains(said), "{said}");
    }
    let elsewhere =
        page.matches("://").count() - page.matches("http://www.w3.org/2000/svg").count();
    assert_eq!(elsewhere, 0, "it is self-contained");
    let pictures: Vec<PathBuf> = std::fs::read_dir(directory.path("pictures"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let of = |ext: &str| {
        pictures
            .iter()
            .filter(|path| path.extension().unwrap() == ext)
            .count()
    };
    assert_eq!(of("svg"), page.matches("<figure").count());
    assert!(of("png") == of("svg") || done.out.contains("PNG needs a font"));
}

#[test]
fn a_part_is_not_shown_as_the_whole() {
    let all = MadeUpResults::new().lines;
    let half: Vec<&str> = all.lines().take(100).collect();
    let directory = ReportDirectory::new(&(half.join("\n") + "\n"));
    assert_eq!(directory.report("").code, Some(0));
    assert!(directory.page().contains("This is not the whole: "));
}

#[test]
fn a_target_may_stand_for_the_hardware() {
    let directory = ReportDirectory::new(&MadeUpResults::new().lines);
    assert_eq!(directory.report("--ceiling local").code, Some(0));
    assert!(
        directory
            .page()
            .contains("The ceiling is local in the same setting.")
    );
    let done = directory.report("--ceiling nobody");
    assert_eq!(done.code, Some(2));
    assert!(
        done.err
            .contains("--ceiling nobody: the targets in these results are local, gupfs"),
        "{}",
        done.err
    );
}

#[test]
fn what_cannot_be_read_or_written_is_said() {
    let header: String = MadeUpResults::new()
        .lines
        .lines()
        .take(1)
        .map(|line| format!("{line}\n"))
        .collect();
    for (results, said) in [
        ("", "there is nothing to show"),
        (header.as_str(), "there is nothing to show"),
        ("{\"name\": \"something else\"}\n", "line 1 is not a result"),
        ("no JSON\n", "line 1 is not a result"),
    ] {
        let directory = ReportDirectory::new(results);
        let done = directory.report("");
        assert_eq!(done.code, Some(2), "{}", done.err);
        assert!(done.err.contains(said), "{}", done.err);
        assert!(!directory.path("results.html").exists());
    }
    let directory = ReportDirectory::new(&MadeUpResults::new().lines);
    std::fs::write(directory.path("picture"), [0xff, 0xd8, 0xff]).unwrap();
    for (flags, code, said) in [
        ("DESK/missing.jsonl", 2, "missing.jsonl: No such file"),
        ("DESK/picture", 2, "cannot read the results in"),
        ("--out DESK/no/such/dir.html", 1, "cannot write the page"),
        ("--out DESK/results.jsonl", 2, "is a result file"),
        ("--plots DESK/picture", 1, "cannot make the directory"),
    ] {
        let done = directory.report(flags);
        assert_eq!(done.code, Some(code), "{flags}: {}", done.err);
        assert!(done.err.contains(said), "{flags}: {}", done.err);
    }
}
