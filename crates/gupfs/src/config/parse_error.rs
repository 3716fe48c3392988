//! Turns an error of the TOML parser into a message with file, line, key, and the key that was probably meant.

use crate::exit::{CliError, Exit};
use std::path::Path;

pub(super) fn cli_error(text: &str, path: &Path, error: &toml::de::Error) -> CliError {
    let start = error.span().map_or(0, |span| span.start);
    let before = &text[..start.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let position = format!("{}, line {line}", path.display());
    let current = text.lines().nth(line - 1).unwrap_or_default();
    let message = error.message();
    if let Some(unknown) = message.strip_prefix("unknown field ") {
        return unknown_key(&position, section(before, current), unknown).exit(Exit::Unusable);
    }
    let key = current
        .split_once('=')
        .map(|(key, _)| key.trim())
        // A syntax error concerns no key.
        .filter(|_| current.matches('=').count() == 1);
    let what = match key {
        Some(key) => format!("{position}: {key}: {message}"),
        None => format!("{position}: {message}"),
    };
    CliError::new(what.trim_end()).exit(Exit::Unusable)
}

/// The section of a line; None before the first section and for the header of one.
fn section<'a>(before: &'a str, current: &'a str) -> Option<&'a str> {
    let header = |line: &'a str| Some(line.trim().strip_prefix('[')?.split(']').next()?.trim());
    if header(current).is_some() {
        return None;
    }
    before.lines().rev().find_map(header)
}

/// `list` is serde's text "`wrong`, expected one of `a`, `b`".
fn unknown_key(position: &str, section: Option<&str>, list: &str) -> CliError {
    let mut names = list.split('`').skip(1).step_by(2);
    let wrong = names.next().unwrap_or_default();
    let valid: Vec<&str> = names.collect();
    let (what, noun) = match section {
        Some(section) => (
            format!("{position}: there is no key '{wrong}' in [{section}]"),
            "keys",
        ),
        None => (
            format!("{position}: there is no section '{wrong}'"),
            "sections",
        ),
    };
    let all = format!("valid {noun}: {}", valid.join(", "));
    let advice = match nearest(wrong, &valid) {
        Some(near) => format!("probably '{near}' was meant; {all}"),
        None => all,
    };
    CliError::new(what).todo(advice)
}

/// The valid name that is closest, if it differs in at most about a third of its letters.
fn nearest<'a>(wrong: &str, valid: &[&'a str]) -> Option<&'a str> {
    valid
        .iter()
        .map(|name| (strsim::damerau_levenshtein(wrong, name), *name))
        .filter(|(distance, name)| *distance <= name.len().div_ceil(3))
        .min()
        .map(|(_, name)| name)
}
