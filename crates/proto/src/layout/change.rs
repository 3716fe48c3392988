//! A change of an existing file's layout, as a user asks for it, and how far it is.

use super::{ComponentKind, DefaultComponent, DefaultLayout, Layout, Redundancy};
use crate::units::ByteCount;
use serde::{Deserialize, Serialize};

/// What is to change in the layout of a file that has objects; None stays as it is. If nothing is given, the file gets the default layout of
/// new files in its directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LayoutChange {
    /// Of every component.
    pub unit: Option<ByteCount>,
    /// Number of stripes of the last component; 0: all OSTs.
    pub count: Option<u32>,
    /// Copies of every component; 1: no redundancy.
    pub copies: Option<u8>,
}

/// How far the conversion of a file is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ConversionState {
    /// The layout is as it should be, or the file has no objects yet.
    Unneeded,
    /// Other files are converted before it.
    Waiting,
    Copying {
        copied: u64,
        of: u64,
    },
    /// The file has its new layout, durably. So many bytes were copied.
    Done {
        bytes: u64,
    },
    /// The file cannot be converted now, for this reason.
    Left(String),
    /// From the state machine to the server: the layout that the file is to get.
    Needed(DefaultLayout),
}

impl LayoutChange {
    pub fn is_empty(&self) -> bool {
        *self == LayoutChange::default()
    }

    /// The layout that a file with this one gets, as a default layout.
    pub fn applied_to(&self, layout: &Layout) -> DefaultLayout {
        let mut changed = layout.as_default();
        for component in &mut changed.components {
            component.unit = self.unit.unwrap_or(component.unit);
            if let Some(copies) = self.copies {
                component.redundancy = match copies {
                    0 | 1 => Redundancy::None,
                    copies => Redundancy::Mirror(copies),
                };
            }
        }
        if let (Some(count), Some(last)) = (self.count, changed.components.last_mut()) {
            last.count = count;
        }
        changed
    }
}

impl Layout {
    /// The default layout that describes this layout.
    pub fn as_default(&self) -> DefaultLayout {
        let components = self.components.iter().map(|component| DefaultComponent {
            to: component.to,
            unit: component.unit,
            count: component.stripes() as u32,
            first: None,
            redundancy: match component.kind {
                ComponentKind::Plain => Redundancy::None,
                ComponentKind::Mirrored { copies, .. } => Redundancy::Mirror(copies),
            },
        });
        DefaultLayout {
            components: components.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::component;

    #[test]
    fn what_a_change_does_not_name_stays() {
        let mut layout = Layout {
            components: vec![
                component(0, 4 << 20, 1 << 20, 1, 7),
                component(4 << 20, u64::MAX, 1 << 20, 6, 8),
            ],
        };
        layout.components[1].kind = ComponentKind::Mirrored {
            copies: 2,
            version: 3,
        };
        let before = layout.as_default();
        let counts = |layout: &DefaultLayout| -> Vec<u32> {
            layout.components.iter().map(|c| c.count).collect()
        };
        assert_eq!(counts(&before), [1, 3]);
        assert_eq!(LayoutChange::default().applied_to(&layout), before);
        let change = LayoutChange {
            copies: Some(3),
            count: Some(0),
            ..LayoutChange::default()
        };
        let after = change.applied_to(&layout);
        assert_eq!(counts(&after), [1, 0]);
        let redundancies = after.components.iter().map(|c| c.redundancy);
        assert!(redundancies.eq([Redundancy::Mirror(3); 2]));
        let plain = LayoutChange {
            copies: Some(1),
            ..LayoutChange::default()
        };
        let plain = plain.applied_to(&layout);
        assert_eq!(counts(&plain), [1, 3]);
        assert!(!plain.is_redundant());
    }
}
