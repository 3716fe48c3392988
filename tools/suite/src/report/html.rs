//! Text and tables of a page.

use std::fmt::Write;

use gupfs_kit::html::escape;

/// Text of a sentence: a number stays beside its per cent sign.
pub fn prose(text: &str) -> String {
    escape(text).replace(" %", "\u{a0}%")
}

pub fn paragraph(text: &str) -> String {
    format!("<p>{}</p>", prose(text))
}

pub fn small(text: &str) -> String {
    format!("<p class=\"small\">{}</p>", prose(text))
}

/// A name for a link or a file: small letters, digits and dashes.
pub fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        match c.is_alphanumeric() {
            true => slug.extend(c.to_lowercase()),
            false if slug.ends_with('-') || slug.is_empty() => {}
            false => slug.push('-'),
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// A table; cells of the first column name the row. Cells are text.
pub struct HtmlTable {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl HtmlTable {
    pub fn new(head: impl IntoIterator<Item = impl Into<String>>) -> HtmlTable {
        HtmlTable {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    pub fn add(&mut self, row: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn html(&self) -> String {
        // A wide table is moved by itself, also with the keyboard.
        let mut out = String::from("<div class=\"wide\" tabindex=\"0\"><table><thead><tr>");
        for cell in &self.head {
            let _ = write!(out, "<th scope=\"col\">{}</th>", escape(cell));
        }
        out += "</tr></thead><tbody>";
        for row in &self.rows {
            out += "<tr>";
            for (column, cell) in row.iter().enumerate() {
                let cell = escape(cell);
                let _ = match column {
                    0 => write!(out, "<th scope=\"row\">{cell}</th>"),
                    _ => write!(out, "<td>{cell}</td>"),
                };
            }
            out += "</tr>";
        }
        out + "</tbody></table></div>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_name_cannot_be_markup() {
        let mut rows = HtmlTable::new(["<b>"]);
        rows.add(["a & b"]);
        assert!(rows.html().contains(">&lt;b&gt;</th>"));
        assert!(rows.html().contains(">a &amp; b</th>"));
    }

    #[test]
    fn a_slug_is_a_name_anywhere() {
        assert_eq!(slug("../One file, read by all!"), "one-file-read-by-all");
        assert_eq!(slug("Seq_Write at np=4"), "seq-write-at-np-4");
    }
}
