//! Text and tables of a page.

use std::fmt::Write;

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// A table; cells of the first column name the row. Cells are text.
pub struct Rows {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    pub fn new(head: impl IntoIterator<Item = impl Into<String>>) -> Rows {
        Rows {
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
        let mut out = String::from("<div class=\"wide\"><table><thead><tr>");
        for cell in &self.head {
            let _ = write!(out, "<th>{}</th>", escape(cell));
        }
        out += "</tr></thead><tbody>";
        for row in &self.rows {
            out += "<tr>";
            for (column, cell) in row.iter().enumerate() {
                let tag = if column == 0 { "th" } else { "td" };
                let _ = write!(out, "<{tag}>{}</{tag}>", escape(cell));
            }
            out += "</tr>";
        }
        out + "</tbody></table></div>"
    }
}

/// A figure of the page: a title, a picture and the same as a table.
pub fn figure(title: &str, picture: &str, table: &Rows) -> String {
    format!(
        "<figure><figcaption>{}</figcaption>{picture}<details open><summary>as a table</summary>{}</details></figure>\n",
        escape(title),
        table.html()
    )
}

#[test]
fn what_people_name_cannot_be_markup() {
    let mut rows = Rows::new(["<b>"]);
    rows.add(["a & b"]);
    assert!(rows.html().contains("<th>&lt;b&gt;</th>"));
    assert!(rows.html().contains("<th>a &amp; b</th>"));
}
