//! The generations of a new layout's components.
//!
//! Two layouts of one file must never share a generation, or bytes of the older layout would show in holes of the newer one. So
//! the server must not forget a generation once an object has it. A generation in the *window* of the owner epoch needs no sync
//! for that: a power loss that discards the record also ends the owner epoch, and the next owner epoch has another window.

use gupfs_proto::{Generation, Layout, OwnerEpoch};

/// The first generation of a file's next layout; the file has used generations below `next`.
pub fn first_generation(next: u32, owner: OwnerEpoch) -> u32 {
    let window = u32::try_from(owner.counter())
        .ok()
        .and_then(|owner| owner.checked_mul(1 << Generation::WINDOW_SHIFT));
    window.map_or(next, |window| next.max(window))
}

/// Whether only this owner epoch assigns the layout's generations.
pub(crate) fn are_in_owner_window(layout: &Layout, owner: OwnerEpoch) -> bool {
    let mut components = layout.components.iter();
    components.all(|component| is_in_owner_window(component.generation, owner))
}

fn is_in_owner_window(generation: Generation, owner: OwnerEpoch) -> bool {
    generation.window() == owner.counter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::ShardGroup;

    #[test]
    fn a_new_owner_epoch_starts_in_its_own_window() {
        let (two, three) = (OwnerEpoch(2), OwnerEpoch(3));
        assert_eq!(first_generation(0, two), 8192);
        assert_eq!(first_generation(8193, two), 8193);
        assert_eq!(first_generation(8193, three), 12288);
        assert!(
            is_in_owner_window(Generation(8193), two)
                && !is_in_owner_window(Generation(8193), three)
        );
    }

    #[test]
    fn generations_beyond_the_window_are_not_in_it() {
        let two = OwnerEpoch(2);
        assert!(is_in_owner_window(
            Generation(first_generation(12287, two)),
            two
        ));
        assert!(!is_in_owner_window(
            Generation(first_generation(12288, two)),
            two
        ));
        let of_other_group = OwnerEpoch::new(ShardGroup(3), 2);
        assert_eq!(first_generation(0, of_other_group), 8192);
        let late = OwnerEpoch(1 << 20);
        assert_eq!(first_generation(7, late), 7);
        assert!(!is_in_owner_window(Generation(7), late));
    }
}
