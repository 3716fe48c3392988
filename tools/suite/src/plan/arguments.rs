//! Arguments in which `{name}` stands for a value.

/// Stands for the directory of a run.
pub const NAME_OF_DIR: &str = "dir";

/// Text and names in turn.
fn pieces(template: &str) -> Result<Vec<(&str, Option<&str>)>, String> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let Some(close) = rest[open..].find('}') else {
            return Err(format!("'{template}' has '{{' without '}}'"));
        };
        pieces.push((&rest[..open], Some(&rest[open + 1..open + close])));
        rest = &rest[open + close + 1..];
    }
    pieces.push((rest, None));
    Ok(pieces)
}

/// Which names stand in it.
pub fn names(template: &str) -> Result<Vec<String>, String> {
    let names = pieces(template)?.into_iter().filter_map(|(_, name)| name);
    Ok(names.map(String::from).collect())
}

/// With the values of all names, which are known.
pub fn fill(template: &str, value: impl Fn(&str) -> String) -> String {
    let pieces = pieces(template).expect("a plan is checked before it is run");
    pieces
        .into_iter()
        .map(|(text, name)| text.to_owned() + &name.map(&value).unwrap_or_default())
        .collect()
}

#[test]
fn names_are_found_and_filled() {
    assert_eq!(names("{dir}/x{np}-{np}").unwrap(), ["dir", "np", "np"]);
    assert_eq!(fill("a{x}b{y}", |name| name.to_uppercase()), "aXbY");
    assert_eq!(fill("plain", |_| unreachable!()), "plain");
    assert!(names("{x").is_err());
}
