//! A plot of the page, which can be a file of its own: a picture, its legend, and the same as a table.

use gupfs_kit::html::escape;

use super::charts::words::{cut, width, wrap};
use super::charts::{Drawing, Ink, WIDTH, text};
use super::data::ReportData;
use super::html::{HtmlTable, slug};

pub struct Plot {
    pub title: String,
    pub drawing: Drawing,
    pub keys: Legend,
    pub table: HtmlTable,
}

/// An item of a section.
pub enum PageItem {
    Html(String),
    /// On the first page.
    Front(Plot),
    Plot(Plot),
}

/// Whether one sees a figure's table without asking for it. On paper all are.
pub enum Table {
    Open,
    Closed,
}

/// Whose marks are in a picture.
#[derive(Clone, Default)]
pub struct Legend(Vec<(String, Ink)>);

impl Legend {
    pub fn targets(data: &ReportData) -> Legend {
        Legend::some(data, data.targets.iter())
    }

    pub fn some<'a>(data: &ReportData, targets: impl Iterator<Item = &'a String>) -> Legend {
        let key = |name: &String| (name.clone(), Ink::Target(data.number(name)));
        Legend(targets.map(key).collect())
    }

    /// The next letter for a system that has none yet.
    pub fn published(&mut self, system: &str) -> Ink {
        let name = format!("{system} (published)");
        if let Some((_, ink)) = self.0.iter().find(|(other, _)| *other == name) {
            return *ink;
        }
        let letters = self.0.iter().filter(|(_, ink)| ink.letter().is_some());
        let ink = Ink::Published(letters.count());
        self.0.push((name, ink));
        ink
    }

    /// Below a picture: side by side while there is room.
    fn drawing(&self) -> Drawing {
        const ROW: f64 = 16.0;
        const MARK: f64 = 14.0;
        let (mut body, mut x, mut y) = (String::new(), 0.0, 6.0);
        for (name, ink) in &self.0 {
            let name = match ink.letter() {
                Some(letter) => format!("{letter}  {name}"),
                None => name.clone(),
            };
            let name = cut(&name, WIDTH - MARK);
            let wide = MARK + width(&name) + 10.0;
            if x > 0.0 && x + wide - 10.0 > WIDTH {
                (x, y) = (0.0, y + ROW);
            }
            body += &ink.point(x + 5.0, y + ROW / 2.0);
            body += &text(x + MARK, y + ROW / 2.0 + 4.0, "start", &name);
            x += wide;
        }
        let height = if self.0.is_empty() { 0.0 } else { y + ROW };
        Drawing { height, body }
    }
}

impl Plot {
    /// For a link, and its file.
    pub fn name(&self) -> String {
        slug(&self.title)
    }

    pub fn html(&self, table: Table) -> String {
        let open = match table {
            Table::Open => " open",
            Table::Closed => "",
        };
        let picture = stack([&self.drawing, &self.keys.drawing()]).svg(&self.title);
        format!(
            "<figure id=\"{}\"><figcaption>{}</figcaption>{picture}<details{open}><summary>as a table</summary>{}</details></figure>\n",
            self.name(),
            escape(&self.title),
            self.table.html()
        )
    }

    pub fn svg_file(&self) -> String {
        let title = heading(&self.title);
        stack([&title, &self.drawing, &self.keys.drawing()]).file(&self.title)
    }
}

/// A line or more of text above a drawing.
pub fn heading(words: &str) -> Drawing {
    const ROW: f64 = 15.0;
    let (mut body, mut y) = (String::new(), 0.0);
    for line in wrap(words, WIDTH / 1.1) {
        y += ROW;
        body += &text(0.0, y - 3.0, "start", &line);
    }
    Drawing {
        height: y + 5.0,
        body: format!("<g font-weight=\"bold\">{body}</g>"),
    }
}

/// One below the other.
pub fn stack<'a>(drawings: impl IntoIterator<Item = &'a Drawing>) -> Drawing {
    let mut all = Drawing {
        height: 0.0,
        body: String::new(),
    };
    for drawing in drawings {
        all.body += &format!(
            "<g transform=\"translate(0 {:.1})\">{}</g>",
            all.height, drawing.body
        );
        all.height += drawing.height;
    }
    all
}
