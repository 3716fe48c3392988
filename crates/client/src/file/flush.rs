//! Which bytes go to which object: pure arithmetic over the layout.

use gupfs_proto::limits::PAYLOAD_MAX;
use gupfs_proto::{FileOffset, InodeId, Layout, ObjectId, ObjectOffset, OstId, Piece, Presence};

/// The pieces of `offset .. offset + len`, in ascending order, none longer than one message carries.
pub fn pieces(layout: &Layout, ino: InodeId, offset: u64, len: u64) -> Vec<Piece> {
    let pieces = layout.pieces(ino, FileOffset(offset), len);
    if pieces.iter().all(|piece| piece.len <= PAYLOAD_MAX.0) {
        return pieces;
    }
    let split = |piece| split(piece, PAYLOAD_MAX.0);
    pieces.into_iter().flat_map(split).collect()
}

/// A piece in parts of at most `most` bytes, that end where `most` divides the object: so no block of a checksum is in two.
pub fn split(piece: Piece, most: u64) -> impl Iterator<Item = Piece> {
    let (begin, end) = (piece.at.0, piece.at.0 + piece.len);
    (begin / most..end.div_ceil(most)).map(move |part| {
        let (from, to) = (begin.max(part * most), end.min((part + 1) * most));
        Piece {
            at: ObjectOffset(from),
            len: to - from,
            skip: piece.skip + (from - begin),
            ..piece
        }
    })
}

/// The part of a range of a file that falls into one object: contiguous there, however many units it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    pub component: usize,
    pub stripe: usize,
    pub ost: OstId,
    pub object: ObjectId,
    pub at: ObjectOffset,
    pub len: u64,
    pub presence: Presence,
}

/// One span for each object that `from .. to` touches. Linear in the number of objects, not of units.
pub fn spans(layout: &Layout, ino: InodeId, from: u64, to: u64) -> Vec<Span> {
    let span = |(component, stripe, ost, object, presence)| {
        let part: &gupfs_proto::Component = &layout.components[component];
        let at = part.object_size(stripe, from);
        Span {
            component,
            stripe,
            ost,
            object,
            at: ObjectOffset(at),
            len: part.object_size(stripe, to).saturating_sub(at),
            presence,
        }
    };
    let all = layout.objects(ino).map(span);
    all.filter(|span| span.len > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::layout::{ComponentKind, ComponentState};
    use gupfs_proto::{ByteCount, Component, Generation, PresenceMap};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const MIB: u64 = 1 << 20;

    fn layout() -> Layout {
        let component = |from, to, count: u16, generation| Component {
            from: FileOffset(from),
            to: FileOffset(to),
            kind: ComponentKind::Plain,
            unit: ByteCount(MIB),
            targets: (0..count).map(OstId).collect(),
            generation: Generation(generation),
            state: ComponentState::Live,
            presence: PresenceMap::new(count.into()),
        };
        Layout {
            components: vec![
                component(0, 4 * MIB, 1, 1),
                component(4 * MIB, u64::MAX, 3, 2),
            ],
        }
    }

    #[test]
    fn a_piece_longer_than_a_message_is_split() {
        let mut layout = layout();
        layout.components[0].to = FileOffset(16 * MIB);
        layout.components[1].from = FileOffset(16 * MIB);
        let pieces = pieces(&layout, InodeId(9), 1, 9 * MIB);
        let lens: Vec<u64> = pieces.iter().map(|p| p.len).collect();
        assert_eq!(lens, [4 * MIB - 1, 4 * MIB, MIB + 1]);
        assert_eq!((pieces[2].skip, pieces[2].at.0), (8 * MIB - 1, 8 * MIB));
    }

    proptest! {
        #[test]
        fn spans_are_the_pieces_of_each_object_put_together(from in 0u64..12 * MIB, len in 0u64..20 * MIB) {
            let layout = layout();
            let mut joined: BTreeMap<ObjectId, (u64, u64)> = BTreeMap::new();
            for piece in pieces(&layout, InodeId(9), from, len) {
                let range = joined.entry(piece.object).or_insert((piece.at.0, 0));
                prop_assert_eq!(range.0 + range.1, piece.at.0);
                range.1 += piece.len;
            }
            let spans: BTreeMap<ObjectId, (u64, u64)> = spans(&layout, InodeId(9), from, from + len)
                .iter()
                .map(|span| (span.object, (span.at.0, span.len)))
                .collect();
            prop_assert_eq!(spans, joined);
        }
    }
}
