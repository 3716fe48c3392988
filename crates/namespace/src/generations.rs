//! Which generation a new layout's components get.
//!
//! Two layouts of one file must never share one, or bytes of the older would show in holes of the newer. So a generation
//! must not be forgotten once an object bears it. One that is in the *window* of the owner needs no sync for that: a power
//! cut that makes it forgotten ends the owner, and the next one has another window.

use gupfs_proto::{Generation, Layout, OwnerEpoch};

/// Where the next layout of a file begins that has used those below `next`.
pub(crate) fn first(next: u32, owner: OwnerEpoch) -> u32 {
    let window = u32::try_from(owner.0)
        .ok()
        .and_then(|owner| owner.checked_mul(1 << Generation::WINDOW_SHIFT));
    window.map_or(next, |window| next.max(window))
}

/// Whether nobody but this owner gives out any of a layout's.
pub(crate) fn are_owned(layout: &Layout, owner: OwnerEpoch) -> bool {
    let mut components = layout.components.iter();
    components.all(|component| is_owned(component.generation, owner))
}

fn is_owned(generation: Generation, owner: OwnerEpoch) -> bool {
    generation.window() == owner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_owner_begins_where_no_other_did() {
        let (two, three) = (OwnerEpoch(2), OwnerEpoch(3));
        assert_eq!(first(0, two), 8192);
        assert_eq!(first(8193, two), 8193);
        assert_eq!(first(8193, three), 12288);
        assert!(is_owned(Generation(8193), two) && !is_owned(Generation(8193), three));
    }

    #[test]
    fn beyond_its_window_nothing_is_owned() {
        let two = OwnerEpoch(2);
        assert!(is_owned(Generation(first(12287, two)), two));
        assert!(!is_owned(Generation(first(12288, two)), two));
        let late = OwnerEpoch(1 << 20);
        assert_eq!(first(7, late), 7);
        assert!(!is_owned(Generation(7), late));
    }
}
