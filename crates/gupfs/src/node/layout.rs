//! The layout of a file, or the default layout of a directory, as `gupfs layout` shows it.

use crate::amount::show_size;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::layout::{DefaultLayout, Redundancy};
use serde::{Deserialize, Serialize};

/// The reply to `gupfs layout get`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayoutView {
    Directory {
        /// The default layout of new files.
        rule: DefaultLayout,
        /// Whether it comes from a parent directory or is the default.
        inherited: bool,
    },
    File {
        size: u64,
        /// Number of bytes in the inode record.
        inline: Option<u64>,
        components: Vec<ComponentView>,
    },
    /// A symbolic link, device, FIFO or socket.
    Other,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ComponentView {
    pub from: u64,
    /// None: the component has no end.
    pub to: Option<u64>,
    pub unit: u64,
    pub objects: Vec<ObjectView>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ObjectView {
    pub ost: u16,
    pub object: String,
    pub state: StoredObject,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredObject {
    /// Never created: its bytes read as zeros.
    Hole,
    There(ObjectStat),
    /// A member of a mirrored stripe that lacks writes.
    Stale,
    /// The inode says that the object exists, and the OST has none.
    Missing,
    /// The OST did not reply.
    Unknown(String),
}

impl LayoutView {
    /// The text for users.
    pub fn text(&self) -> String {
        match self {
            LayoutView::Directory { rule, inherited } => rule_text(rule, *inherited),
            LayoutView::File {
                size,
                inline,
                components,
            } => file_text(*size, *inline, components),
            LayoutView::Other => {
                "This is neither a file nor a directory, so it has no layout.\n".into()
            }
        }
    }
}

fn rule_text(rule: &DefaultLayout, inherited: bool) -> String {
    let mut text = String::from(if inherited {
        "Default layout, inherited:\n"
    } else {
        "Default layout, set for this directory:\n"
    });
    let mut from = 0;
    for component in &rule.components {
        let count = match component.count {
            0 => "all OSTs".to_string(),
            1 => "one OST".to_string(),
            n => format!("{n} OSTs"),
        };
        let first = component
            .first
            .map(|ost| format!(", first on ost{ost}"))
            .unwrap_or_default();
        let redundancy = match component.redundancy {
            Redundancy::None => String::new(),
            Redundancy::Mirror(copies) => format!(", {copies} copies"),
        };
        let end = end(Some(component.to.0).filter(|to| *to != u64::MAX));
        text += &format!(
            "  {:>10} … {end:<10} on {count}, in units of {}{first}{redundancy}\n",
            show_size(from),
            show_size(component.unit.0)
        );
        from = component.to.0;
    }
    text
}

fn file_text(size: u64, inline: Option<u64>, components: &[ComponentView]) -> String {
    let mut text = format!("Size {size} ({}).\n", show_size(size));
    if let Some(bytes) = inline {
        text += &format!("Its {bytes} bytes are in the inode record.\n");
    } else if components.is_empty() {
        text += "It has no objects: nothing has been written yet.\n";
    }
    for component in components {
        text += &format!(
            "{} … {}, in units of {}\n",
            show_size(component.from),
            end(component.to),
            show_size(component.unit)
        );
        for view in &component.objects {
            let state = match &view.state {
                StoredObject::Hole => "not created: a hole".into(),
                StoredObject::There(stat) => format!(
                    "{} ({} on disk)",
                    show_size(stat.size),
                    show_size(stat.blocks * 512)
                ),
                StoredObject::Stale => {
                    "stale: lacks writes, and is not used until it has them".into()
                }
                StoredObject::Missing => "MISSING: the inode says that it exists".into(),
                StoredObject::Unknown(why) => format!("unknown: {why}"),
            };
            text += &format!("  ost{:<4} {:<24} {state}\n", view.ost, view.object);
        }
    }
    text
}

fn end(to: Option<u64>) -> String {
    to.map_or("end".into(), show_size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_default_layout_is_shown_by_component() {
        let view = LayoutView::Directory {
            rule: DefaultLayout::default(),
            inherited: true,
        };
        expect![[r#"
            Default layout, inherited:
                     0 B … 4.00 MiB   on one OST, in units of 1.00 MiB
                4.00 MiB … end        on 4 OSTs, in units of 1.00 MiB
        "#]]
        .assert_eq(&view.text());
    }

    #[test]
    fn the_objects_of_a_file_are_shown_with_their_state() {
        let object = |ost, object: &str, state| ObjectView {
            ost,
            object: object.into(),
            state,
        };
        let view = LayoutView::File {
            size: 5 << 20,
            inline: None,
            components: vec![ComponentView {
                from: 0,
                to: None,
                unit: 1 << 20,
                objects: vec![
                    object(
                        0,
                        "abc.1.0",
                        StoredObject::There(ObjectStat {
                            size: 3 << 20,
                            blocks: 6144,
                            ..ObjectStat::default()
                        }),
                    ),
                    object(1, "abc.1.1", StoredObject::Missing),
                    object(2, "abc.1.2", StoredObject::Hole),
                ],
            }],
        };
        expect![[r#"
            Size 5242880 (5.00 MiB).
            0 B … end, in units of 1.00 MiB
              ost0    abc.1.0                  3.00 MiB (3.00 MiB on disk)
              ost1    abc.1.1                  MISSING: the inode says that it exists
              ost2    abc.1.2                  not created: a hole
        "#]]
        .assert_eq(&view.text());
    }
}
