//! From the parser's error to what a person can act on.

use crate::exit::{CliError, Exit};
use std::path::Path;

pub(super) fn unreadable(text: &str, path: &Path, error: &toml::de::Error) -> CliError {
    let start = error.span().map_or(0, |span| span.start);
    let before = &text[..start.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let place = format!("{}, line {line}", path.display());
    let current = text.lines().nth(line - 1).unwrap_or_default();
    let message = error.message();
    if let Some(unknown) = message.strip_prefix("unknown field ") {
        return unknown_key(&place, section(before, current), unknown).exit(Exit::Unusable);
    }
    let key = current
        .split_once('=')
        .map(|(key, _)| key.trim())
        // A message of the grammar has no key to speak of.
        .filter(|_| current.matches('=').count() == 1);
    let what = match key {
        Some(key) => format!("{place}: {key}: {message}"),
        None => format!("{place}: {message}"),
    };
    CliError::new(what.trim_end()).exit(Exit::Unusable)
}

/// The section a line belongs to, itself included; None at the top.
fn section<'a>(before: &'a str, current: &'a str) -> Option<&'a str> {
    let header = |line: &'a str| Some(line.trim().strip_prefix('[')?.split(']').next()?.trim());
    if header(current).is_some() {
        return None;
    }
    before.lines().rev().find_map(header)
}

/// `list` is "`wrong`, expected one of `a`, `b`", as serde has said it since its beginnings.
fn unknown_key(place: &str, section: Option<&str>, list: &str) -> CliError {
    let mut names = list.split('`').skip(1).step_by(2);
    let wrong = names.next().unwrap_or_default();
    let valid: Vec<&str> = names.collect();
    let (what, noun) = match section {
        Some(section) => (
            format!("{place}: there is no key '{wrong}' in [{section}]"),
            "keys",
        ),
        None => (
            format!("{place}: there is no section '{wrong}'"),
            "sections",
        ),
    };
    let all = format!("all {noun} here: {}", valid.join(", "));
    let advice = match nearest(wrong, &valid) {
        Some(near) => format!("'{near}' was probably meant; {all}"),
        None => all,
    };
    CliError::new(what).todo(advice)
}

/// A name that differs in about a third of its letters or fewer.
fn nearest<'a>(wrong: &str, valid: &[&'a str]) -> Option<&'a str> {
    valid
        .iter()
        .map(|name| (strsim::damerau_levenshtein(wrong, name), *name))
        .filter(|(distance, name)| *distance <= name.len().div_ceil(3))
        .min()
        .map(|(_, name)| name)
}
