//! Rust source text, as far as the tests of directions need it: paths, imports and declared modules.

/// A path that the source names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsedPath {
    pub segments: Vec<String>,
    /// The name that an import gives it ("*" for all names of a module); None for a path in code.
    pub name: Option<String>,
    /// The import is `pub`.
    pub is_reexport: bool,
    pub line: usize,
}

/// The text with comments, string literals and character literals taken out; lines keep their numbers.
pub fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let lines = |text: &str| "\n".repeat(text.matches('\n').count());
    while let Some(c) = rest.chars().next() {
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(raw) = raw_string(rest).filter(|_| !ends_in_word(&out)) {
            raw
        } else if c == '"' {
            string(rest)
        } else if let Some(literal) = character(rest) {
            literal
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        out.push_str(&lines(&rest[..taken]));
        rest = &rest[taken..];
    }
    out
}

fn ends_in_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(is_word)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Length of the raw string literal at the start.
fn raw_string(text: &str) -> Option<usize> {
    let marks = text.strip_prefix('r').or_else(|| text.strip_prefix("br"))?;
    let hashes = marks.len() - marks.trim_start_matches('#').len();
    let body = marks[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let at = body.find(&end)?;
    Some(text.len() - body.len() + at + end.len())
}

/// Length of the string literal at the start.
fn string(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of the character literal at the start; None for a lifetime.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let escaped = body.starts_with('\\');
    let mut chars = body.char_indices();
    let (_, first) = chars.next()?;
    if escaped {
        // '\'' ends at the second quote.
        return body[2..].find('\'').map(|at| at + 2 + 1 + 1);
    }
    let (at, second) = chars.next()?;
    (first != '\'' && second == '\'').then_some(at + 2)
}

/// The text without its inline modules for tests. Expects text without comments.
pub fn without_tests(text: &str) -> String {
    let mut out = text.to_string();
    let mut from = 0;
    while let Some(found) = out[from..].find("#[cfg(") {
        let start = from + found;
        from = start + 1;
        let Some(end) = out[start..].find(']') else {
            break;
        };
        let attribute = &out[start..start + end + 1];
        if !attribute.starts_with("#[cfg(test)") && !attribute.starts_with("#[cfg(all(test") {
            continue;
        }
        let item = out[start + end + 1..].trim_start();
        let item_at = out.len() - item.len();
        let item = item.trim_start_matches(|c: char| c.is_whitespace());
        let declaration = item.find(['{', ';']).map(|at| &item[..at]);
        let is_module =
            declaration.is_some_and(|text| text.split_whitespace().any(|word| word == "mod"));
        if !is_module {
            continue;
        }
        let length = match item.as_bytes()[declaration.unwrap_or_default().len()] {
            b';' => declaration.unwrap_or_default().len() + 1,
            _ => block(item),
        };
        let lines = "\n".repeat(out[start..item_at + length].matches('\n').count());
        out.replace_range(start..item_at + length, &lines);
    }
    out
}

/// Length of the text up to the end of its first block.
fn block(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Names in `mod name;`.
pub fn declared_modules(text: &str) -> Vec<String> {
    words_after(text, "mod")
        .filter_map(|(_, rest)| {
            let rest = rest.trim_start();
            let name = first_word(rest);
            rest[name.len()..]
                .trim_start()
                .starts_with(';')
                .then(|| name.to_string())
        })
        .filter(|name| !name.is_empty())
        .collect()
}

/// Where a keyword stands, with the text behind it.
fn words_after<'a>(text: &'a str, keyword: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    text.match_indices(keyword).filter_map(move |(at, _)| {
        let rest = &text[at + keyword.len()..];
        let alone = !ends_in_word(&text[..at]) && rest.starts_with(char::is_whitespace);
        alone.then_some((at, rest))
    })
}

fn first_word(text: &str) -> &str {
    &text[..text.find(|c: char| !is_word(c)).unwrap_or(text.len())]
}

/// The paths of all `use` declarations.
pub fn imports(text: &str) -> Vec<UsedPath> {
    let mut found = Vec::new();
    for (at, rest) in words_after(text, "use") {
        let Some(end) = rest.find(';') else { continue };
        let declaration = text[..at]
            .rfind([';', '}', '{', ']'])
            .map_or(0, |end| end + 1);
        let is_reexport = text[declaration..at].trim_start().starts_with("pub");
        let line = line_of(text, at);
        for (segments, name) in use_tree(&rest[..end]) {
            let name = Some(name);
            found.push(UsedPath {
                segments,
                name,
                is_reexport,
                line,
            });
        }
    }
    found
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// "a::{b, c as d}" → (a::b, b), (a::c, d).
fn use_tree(text: &str) -> Vec<(Vec<String>, String)> {
    let text = text.trim();
    if let Some((prefix, list)) = text
        .split_once('{')
        .filter(|(prefix, _)| !prefix.contains(','))
    {
        let prefix: Vec<String> = prefix
            .split("::")
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(String::from)
            .collect();
        let list = list.trim_end().strip_suffix('}').unwrap_or(list);
        let branches = split_at_commas(list).into_iter().flat_map(use_tree);
        return branches
            .map(|(mut segments, mut name)| {
                if segments == ["self"] {
                    segments.clear();
                    if name == "self" {
                        name = prefix.last().cloned().unwrap_or_default();
                    }
                }
                ([prefix.clone(), segments].concat(), name)
            })
            .collect();
    }
    let (path, alias) = match text.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim())),
        None => (text, None),
    };
    let segments: Vec<String> = path
        .split("::")
        .map(|name| name.trim().to_string())
        .filter(|name| !name.is_empty())
        .collect();
    let Some(last) = segments.last() else {
        return Vec::new();
    };
    let name = alias.unwrap_or(last).to_string();
    vec![(segments, name)]
}

fn split_at_commas(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Paths outside `use` that begin with `crate`, `self`, `super` or a module declared here.
pub fn paths(text: &str, children: &[String]) -> Vec<UsedPath> {
    let mut found = Vec::new();
    let mut from = 0;
    let imports: Vec<(usize, usize)> = words_after(text, "use")
        .map(|(at, rest)| (at, at + rest.find(';').unwrap_or(0) + 3))
        .collect();
    while let Some(at) = text[from..].find("::").map(|at| at + from) {
        from = at + 2;
        let start = text[..at].rfind(|c: char| !is_word(c)).map_or(0, |before| {
            before + text[before..].chars().next().map_or(1, char::len_utf8)
        });
        let first = &text[start..at];
        let before = text[..start].trim_end();
        let begins = !first.is_empty() && !before.ends_with("::") && !text[..start].ends_with('.');
        let is_local = ["crate", "super", "self"].contains(&first)
            || children.iter().any(|name| name == first);
        if !begins
            || !is_local
            || imports
                .iter()
                .any(|(start, end)| (*start..*end).contains(&at))
        {
            continue;
        }
        let mut segments = vec![first.to_string()];
        let mut rest = &text[at..];
        while let Some(next) = rest.trim_start().strip_prefix("::") {
            let next = next.trim_start();
            let name = first_word(next);
            if name.is_empty() {
                break;
            }
            segments.push(name.to_string());
            rest = &next[name.len()..];
        }
        found.push(UsedPath {
            segments,
            name: None,
            is_reexport: false,
            line: line_of(text, at),
        });
    }
    found
}

/// Whether the text defines an item of this name.
pub fn defines(text: &str, name: &str) -> bool {
    [
        "struct", "enum", "fn", "trait", "type", "const", "static", "union",
    ]
    .iter()
    .any(|keyword| {
        words_after(text, keyword).any(|(_, rest)| first_word(rest.trim_start()) == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(used: &[UsedPath]) -> Vec<String> {
        used.iter().map(|used| used.segments.join("::")).collect()
    }

    #[test]
    fn comments_and_literals_name_nothing() {
        let text = "a /* crate::b */ \"crate::c\" r#\"crate::\"d\"# 'x' '\\'' &'a str // crate::e\ncrate::f";
        assert_eq!(segments(&paths(&without_comments(text), &[])), ["crate::f"]);
        assert!(without_comments(text).contains("&'a str"));
    }

    #[test]
    fn imports_are_taken_apart() {
        let found = imports("pub use crate::a::{self, b::{c, d as e}, f::*};\nuse super::g;");
        assert_eq!(
            segments(&found),
            [
                "crate::a",
                "crate::a::b::c",
                "crate::a::b::d",
                "crate::a::f::*",
                "super::g"
            ]
        );
        let names: Vec<&str> = found
            .iter()
            .filter_map(|used| used.name.as_deref())
            .collect();
        assert_eq!(names, ["a", "c", "e", "*", "g"]);
        assert!(found[0].is_reexport && !found[4].is_reexport);
        assert_eq!(found[4].line, 2);
    }

    #[test]
    fn paths_of_other_crates_are_no_paths_of_this_one() {
        let children = ["log".to_string()];
        let found = paths(
            "std::io::x(log::Log::new(), crate::index::Index); a.log::<u8>(); gupfs_x::log::Y",
            &children,
        );
        assert_eq!(segments(&found), ["log::Log::new", "crate::index::Index"]);
    }

    #[test]
    fn modules_for_tests_are_left_out() {
        let text = without_tests(
            "mod a;\n#[cfg(test)]\nmod tests { use crate::b; fn f() {} }\n#[cfg(test)]\nmod c;\nmod d;",
        );
        assert_eq!(declared_modules(&text), ["a", "d"]);
        assert!(!text.contains("crate::b"));
    }
}
