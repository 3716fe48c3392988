//! Pictures as files: SVG, and PNG where the machine has a font.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use resvg::{tiny_skia, usvg};

use super::plot::Plot;
use crate::error::{ErrorContext, SuiteError, SuiteResult};

/// Pixels of a unit: pictures are 388 units wide, and so sharp on paper.
const PIXELS: f32 = 3.0;

/// Fonts that look as on the page, the first that is found.
const FONTS: [&str; 4] = ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial"];

/// The files that were written.
pub struct WrittenFiles {
    pub plots: usize,
    /// None: there is no font.
    pub png: Option<usize>,
}

pub fn write<'a>(dir: &Path, plots: impl Iterator<Item = &'a Plot>) -> SuiteResult<WrittenFiles> {
    std::fs::create_dir_all(dir).doing("make the directory", dir)?;
    let options = options();
    let mut names = BTreeSet::new();
    let mut written = WrittenFiles {
        plots: 0,
        png: options.is_some().then_some(0),
    };
    for plot in plots {
        let name = unique(&mut names, plot.name());
        let svg = plot.svg_file();
        let path = dir.join(format!("{name}.svg"));
        std::fs::write(&path, &svg).doing("write", &path)?;
        written.plots += 1;
        if let (Some(options), Some(count)) = (&options, &mut written.png) {
            let path = path.with_extension("png");
            std::fs::write(&path, png(&svg, options)?).doing("write", &path)?;
            *count += 1;
        }
    }
    Ok(written)
}

/// Two titles may differ in what a file name cannot hold.
fn unique(names: &mut BTreeSet<String>, name: String) -> String {
    let more = (2..).map(|number| format!("{name}-{number}"));
    let free = std::iter::once(name.clone()).chain(more);
    let free = free.into_iter().find(|name| !names.contains(name));
    let free = free.expect("numbers do not end");
    names.insert(free.clone());
    free
}

/// None without fonts: pictures without words say nothing.
fn options() -> Option<usvg::Options<'static>> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_system_fonts();
    let families: Vec<String> = fonts
        .faces()
        .filter_map(|face| Some(face.families.first()?.0.clone()))
        .collect();
    let known = FONTS
        .iter()
        .find(|font| families.iter().any(|f| f == *font));
    let family = known.map(|font| (*font).to_owned());
    let family = family.or_else(|| families.first().cloned())?;
    fonts.set_sans_serif_family(&family);
    Some(usvg::Options {
        font_family: family,
        fontdb: Arc::new(fonts),
        ..usvg::Options::default()
    })
}

fn png(svg: &str, options: &usvg::Options) -> SuiteResult<Vec<u8>> {
    let wrong = |what: String| SuiteError::failed(format!("a picture could not be made: {what}"));
    let tree = usvg::Tree::from_str(svg, options).map_err(|error| wrong(error.to_string()))?;
    let (width, height) = (tree.size().width(), tree.size().height());
    let whole = |side: f32| (side * PIXELS).ceil() as u32;
    let mut pixels = tiny_skia::Pixmap::new(whole(width), whole(height))
        .ok_or_else(|| wrong(format!("{width} × {height} is no size")))?;
    let scale = tiny_skia::Transform::from_scale(PIXELS, PIXELS);
    resvg::render(&tree, scale, &mut pixels.as_mut());
    pixels
        .encode_png()
        .map_err(|error| wrong(error.to_string()))
}
