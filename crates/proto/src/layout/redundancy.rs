//! How many losses a file survives, as users name it: `none`, `mirror:2`.

use super::ComponentKind;
use crate::limits::{MIRROR_COPIES_MAX, MIRROR_COPIES_MIN};
use std::fmt;
use std::str::FromStr;

/// Redundancy of the components of new files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Redundancy {
    /// Each byte is stored once.
    #[default]
    None,
    /// Each byte is stored this many times, on OSTs of different failure domains.
    Mirror(u8),
}

impl Redundancy {
    /// Number of objects with the same bytes.
    pub fn copies(self) -> usize {
        match self {
            Redundancy::None => 1,
            Redundancy::Mirror(copies) => usize::from(copies),
        }
    }

    /// The kind of a new component.
    pub fn kind(self) -> ComponentKind {
        match self {
            Redundancy::None => ComponentKind::Plain,
            Redundancy::Mirror(copies) => ComponentKind::Mirrored { copies, version: 1 },
        }
    }

    /// The number in records and messages.
    pub(super) fn code(self) -> u32 {
        match self {
            Redundancy::None => 0,
            Redundancy::Mirror(copies) => u32::from(copies),
        }
    }

    /// # Errors
    /// For a redundancy that this program does not know.
    pub(super) fn from_code(code: u32) -> Result<Redundancy, String> {
        match code as usize {
            0 => Ok(Redundancy::None),
            MIRROR_COPIES_MIN..=MIRROR_COPIES_MAX => Ok(Redundancy::Mirror(code as u8)),
            _ => Err(format!("this program does not know redundancy {code}")),
        }
    }
}

impl fmt::Display for Redundancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Redundancy::None => f.write_str("none"),
            Redundancy::Mirror(copies) => write!(f, "mirror:{copies}"),
        }
    }
}

impl FromStr for Redundancy {
    type Err = String;

    fn from_str(text: &str) -> Result<Redundancy, String> {
        let known = || {
            format!(
                "'{text}' is not a redundancy: use none, or mirror:N with {MIRROR_COPIES_MIN} to {MIRROR_COPIES_MAX} copies"
            )
        };
        if text == "none" {
            return Ok(Redundancy::None);
        }
        let copies = text.strip_prefix("mirror:").ok_or_else(known)?;
        let copies: u8 = copies.parse().map_err(|_| known())?;
        match usize::from(copies) {
            MIRROR_COPIES_MIN..=MIRROR_COPIES_MAX => Ok(Redundancy::Mirror(copies)),
            _ => Err(known()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::DefaultLayout;

    #[test]
    fn a_redundancy_reads_back_from_its_text_and_from_a_record() {
        for (text, redundancy) in [
            ("none", Redundancy::None),
            ("mirror:3", Redundancy::Mirror(3)),
        ] {
            assert_eq!(text.parse(), Ok(redundancy));
            assert_eq!(redundancy.to_string(), text);
            let mut layout = DefaultLayout::default();
            layout.components[1].redundancy = redundancy;
            let bytes = postcard::to_stdvec(&layout).unwrap();
            assert_eq!(postcard::from_bytes(&bytes), Ok(layout));
        }
        for wrong in ["mirror:1", "mirror:5", "mirror", "rs:4+2", ""] {
            assert!(wrong.parse::<Redundancy>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_record_with_an_unknown_redundancy_is_refused() {
        let mut layout = DefaultLayout::default();
        layout.components.truncate(1);
        layout.components[0].redundancy = Redundancy::Mirror(9);
        let bytes = postcard::to_stdvec(&layout).unwrap();
        assert!(postcard::from_bytes::<DefaultLayout>(&bytes).is_err());
    }
}
