//! The chapter "Recovering" of docs/operate.md: each loss with its commands.

use std::path::Path;

pub struct Loss {
    pub heading: String,
    /// Its `sh` blocks, one after the other.
    pub commands: String,
}

impl Loss {
    /// The name of the test of this loss: the words of its heading, joined.
    pub fn test(&self) -> String {
        let words = self.heading.split(|c: char| !c.is_alphanumeric());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        words.join("_").to_lowercase()
    }
}

pub fn losses() -> Vec<Loss> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate.md");
    parse(&std::fs::read_to_string(page).unwrap())
}

fn parse(page: &str) -> Vec<Loss> {
    let chapter = page.split("\n## Recovering\n").nth(1);
    let chapter = chapter.expect("operate.md has a chapter \"Recovering\"");
    let chapter = chapter.split("\n## ").next().unwrap_or(chapter);
    let parts = chapter.split("\n### ").skip(1);
    parts
        .map(|part| {
            let (heading, text) = part.split_once('\n').unwrap_or((part, ""));
            let blocks = text.split("\n```sh\n").skip(1);
            let commands = blocks.map(|block| block.split("\n```").next().unwrap_or(block));
            Loss {
                heading: heading.trim().to_string(),
                commands: commands.collect::<Vec<_>>().join("\n"),
            }
        })
        .collect()
}

#[test]
fn a_chapter_is_parsed() {
    let page = "\
# Page\n\n## Other\n\n```sh\nno\n```\n\n## Recovering\n\n```sh\nnot of a loss\n```\n\n### A disk's end, or two\n\nText.\n\n```sh\n\
first\n```\n\nMore.\n\n```sh\nsecond\n\nthird\n```\n\n### Nothing to do\n\nText.\n\n## Next\n\n### Not here\n";
    let losses = parse(page);
    let shown = losses
        .iter()
        .map(|loss| (loss.test(), loss.commands.as_str()));
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            ("a_disk_s_end_or_two".to_string(), "first\nsecond\n\nthird"),
            ("nothing_to_do".to_string(), ""),
        ]
    );
}
