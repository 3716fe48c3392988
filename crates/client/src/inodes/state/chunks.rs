//! Splits file ranges into stripe chunks and object spans. Pure arithmetic over the layout.

use gupfs_proto::{
    ByteCount, FileOffset, InodeId, Layout, ObjectId, ObjectOffset, OstId, Presence, StripeChunk,
};

/// The stripe chunks of `offset .. offset + len`, in ascending order, none longer than one message carries.
pub fn chunks(
    layout: &Layout,
    ino: InodeId,
    offset: FileOffset,
    len: ByteCount,
    message_max: ByteCount,
) -> Vec<StripeChunk> {
    let chunks = layout.stripe_chunks(ino, offset, len.0);
    if chunks.iter().all(|chunk| chunk.len <= message_max.0) {
        return chunks;
    }
    let split = |chunk| split(chunk, message_max);
    chunks.into_iter().flat_map(split).collect()
}

/// Splits a chunk into parts of at most `most` bytes that end at multiples of `most` in the object, so that no checksum block is
/// in two parts.
fn split(chunk: StripeChunk, most: ByteCount) -> impl Iterator<Item = StripeChunk> {
    let most = most.0;
    let (begin, end) = (chunk.at.0, chunk.at.0 + chunk.len);
    (begin / most..end.div_ceil(most)).map(move |part| {
        let (from, to) = (begin.max(part * most), end.min((part + 1) * most));
        StripeChunk {
            at: ObjectOffset(from),
            len: to - from,
            buffer_offset: chunk.buffer_offset + (from - begin),
            ..chunk
        }
    })
}

/// The part of a range of a file that falls into one object: contiguous there, however many units it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectSpan {
    pub component: usize,
    pub index: usize,
    pub ost: OstId,
    pub object: ObjectId,
    pub at: ObjectOffset,
    pub len: ByteCount,
    pub presence: Presence,
}

/// One span for each stripe that `from .. to` touches, in its first full member. Linear in the number of objects, not of units.
pub fn spans(layout: &Layout, ino: InodeId, from: FileOffset, to: FileOffset) -> Vec<ObjectSpan> {
    let span = |(component, index, ost, object, presence)| {
        let part: &gupfs_proto::Component = &layout.components[component];
        let at = part.object_size(index, from.0);
        ObjectSpan {
            component,
            index,
            ost,
            object,
            at: ObjectOffset(at),
            len: ByteCount(part.object_size(index, to.0).saturating_sub(at)),
            presence,
        }
    };
    let is_first = |(component, index, ..): &(usize, usize, OstId, ObjectId, Presence)| {
        layout.components[*component].is_first_full_member(*index)
    };
    let all = layout.objects(ino).filter(is_first).map(span);
    all.filter(|span| span.len > ByteCount(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::layout::{ComponentKind, ComponentState};
    use gupfs_proto::{Component, Generation, PresenceMap};
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
    fn a_chunk_longer_than_a_message_is_split() {
        let mut layout = layout();
        layout.components[0].to = FileOffset(16 * MIB);
        layout.components[1].from = FileOffset(16 * MIB);
        let chunks = chunks(
            &layout,
            InodeId(9),
            FileOffset(1),
            ByteCount::mib(9),
            ByteCount::mib(4),
        );
        let lens: Vec<u64> = chunks.iter().map(|p| p.len).collect();
        assert_eq!(lens, [4 * MIB - 1, 4 * MIB, MIB + 1]);
        assert_eq!(
            (chunks[2].buffer_offset, chunks[2].at.0),
            (8 * MIB - 1, 8 * MIB)
        );
    }

    proptest! {
        #[test]
        fn spans_are_the_pieces_of_each_object_put_together(from in 0u64..12 * MIB, len in 0u64..20 * MIB) {
            let layout = layout();
            let mut joined: BTreeMap<ObjectId, (u64, u64)> = BTreeMap::new();
            for chunk in chunks(&layout, InodeId(9), FileOffset(from), ByteCount(len), ByteCount::mib(4)) {
                let range = joined.entry(chunk.object).or_insert((chunk.at.0, 0));
                prop_assert_eq!(range.0 + range.1, chunk.at.0);
                range.1 += chunk.len;
            }
            let spans: BTreeMap<ObjectId, (u64, u64)> = spans(&layout, InodeId(9), FileOffset(from), FileOffset(from + len))
                .iter()
                .map(|span| (span.object, (span.at.0, span.len.0)))
                .collect();
            prop_assert_eq!(spans, joined);
        }
    }
}
