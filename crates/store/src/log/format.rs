//! Encoding of segments and records. The byte tables are in `docs/formats/log.md`. Numbers are little-endian.

use crate::log::limits::HEADER_BYTES;
use gupfs_proto::{ClusterId, Incarnation, OwnerEpoch, Seq};

pub const MAGIC: [u8; 8] = *b"GUPFSLOG";
pub const VERSION: u16 = 1;

/// The header itself: one sector, so that a crash leaves all of it or none.
pub const HEADER_LEN: usize = 512;
const _: () = assert!(HEADER_LEN as u64 <= HEADER_BYTES);

/// Bytes of a record before its body.
pub const RECORD_HEADER_LEN: usize = 48;
/// Records begin at multiples of this, so that a search for records need not try every byte.
pub const ALIGN: usize = 8;
const _: () = assert!(
    RECORD_HEADER_LEN.is_multiple_of(ALIGN) && (HEADER_BYTES as usize).is_multiple_of(ALIGN)
);

/// The store that a log belongs to. Each checksum begins with it, so that no bytes that a user stores can pass for a
/// record of this log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreId {
    pub cluster: ClusterId,
    pub incarnation: Incarnation,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    pub store: StoreId,
    pub number: u64,
    /// The first batch in this segment, or the next batch to be written if the segment has none.
    pub first: Seq,
    /// Checksum of the last record of the segment before; 0 in the first segment.
    pub previous: u32,
    pub segment_bytes: u64,
    /// The owner that began the segment, which a scan needs if the segment has no record yet; 0 if it is not known: the log is new,
    /// or an older program wrote the header.
    pub epoch: OwnerEpoch,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogRecordKind {
    /// A batch of the owner. Each batch has the next seq.
    Batch = 1,
    /// States the last durable batch and the owner; has the seq of the batch before it.
    Watermark = 2,
}

/// Flag of the watermark that a clean stop writes at the end of the log.
const CLEAN_STOP: u8 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    pub crc: u32,
    /// Including header and padding.
    pub len: usize,
    pub previous: u32,
    pub kind: LogRecordKind,
    pub shard: u16,
    pub seq: Seq,
    pub epoch: OwnerEpoch,
    /// The last batch that was durable when this record was staged.
    pub durable: Seq,
    pub body_len: usize,
    /// Of a watermark: its owner stopped cleanly, and no file operation was in progress in the log's directory.
    pub clean_stop: bool,
}

/// Content of a segment's header sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodedHeader {
    Valid(SegmentHeader),
    Blank,
    /// A header of a format version that this program does not know.
    UnknownVersion(u16),
    Invalid,
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&VERSION.to_le_bytes());
        out[10..12].copy_from_slice(&(HEADER_LEN as u16).to_le_bytes());
        // 12..16: feature bits, none yet
        out[16..32].copy_from_slice(&self.store.cluster.0.to_le_bytes());
        out[32..40].copy_from_slice(&self.store.incarnation.0.to_le_bytes());
        out[40..48].copy_from_slice(&self.number.to_le_bytes());
        out[48..56].copy_from_slice(&self.first.0.to_le_bytes());
        out[56..60].copy_from_slice(&self.previous.to_le_bytes());
        // 60..64: zero
        out[64..72].copy_from_slice(&self.segment_bytes.to_le_bytes());
        out[72..80].copy_from_slice(&self.epoch.0.to_le_bytes());
        let crc = crc32c::crc32c(&out[..HEADER_LEN - 4]);
        out[HEADER_LEN - 4..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> DecodedHeader {
        let bytes = &bytes[..HEADER_LEN.min(bytes.len())];
        if bytes.iter().all(|byte| *byte == 0) {
            return DecodedHeader::Blank;
        }
        if bytes.len() < HEADER_LEN
            || bytes[0..8] != MAGIC
            || u32_at(bytes, HEADER_LEN - 4) != crc32c::crc32c(&bytes[..HEADER_LEN - 4])
        {
            return DecodedHeader::Invalid;
        }
        let version = u16_at(bytes, 8);
        let features = u32_at(bytes, 12);
        if version != VERSION || features != 0 {
            return DecodedHeader::UnknownVersion(version);
        }
        DecodedHeader::Valid(SegmentHeader {
            store: StoreId {
                cluster: ClusterId(u128::from_le_bytes(array(bytes, 16))),
                incarnation: Incarnation(u64_at(bytes, 32)),
            },
            number: u64_at(bytes, 40),
            first: Seq(u64_at(bytes, 48)),
            previous: u32_at(bytes, 56),
            segment_bytes: u64_at(bytes, 64),
            epoch: OwnerEpoch(u64_at(bytes, 72)),
        })
    }
}

impl StoreId {
    /// Start value of every record's checksum.
    pub fn seed(&self) -> u32 {
        let crc = crc32c::crc32c(&self.cluster.0.to_le_bytes());
        crc32c::crc32c_append(crc, &self.incarnation.0.to_le_bytes())
    }
}

/// Appends a record to `out` and returns its checksum; `body` writes the record's body.
///
/// This function computes `header.crc`, `len` and `body_len`; it ignores the given values.
pub fn append_record(
    out: &mut Vec<u8>,
    seed: u32,
    header: &RecordHeader,
    body: impl FnOnce(&mut Vec<u8>),
) -> u32 {
    let start = out.len();
    out.resize(start + RECORD_HEADER_LEN, 0);
    body(out);
    let body_len = out.len() - start - RECORD_HEADER_LEN;
    out.resize(
        start + (RECORD_HEADER_LEN + body_len).next_multiple_of(ALIGN),
        0,
    );
    let record = &mut out[start..];
    let len = record.len() as u32;
    record[4..8].copy_from_slice(&len.to_le_bytes());
    record[8..12].copy_from_slice(&header.previous.to_le_bytes());
    record[12] = header.kind as u8;
    record[13] = if header.clean_stop { CLEAN_STOP } else { 0 };
    record[14..16].copy_from_slice(&header.shard.to_le_bytes());
    record[16..24].copy_from_slice(&header.seq.0.to_le_bytes());
    record[24..32].copy_from_slice(&header.epoch.0.to_le_bytes());
    record[32..40].copy_from_slice(&header.durable.0.to_le_bytes());
    record[40..44].copy_from_slice(&(body_len as u32).to_le_bytes());
    // 44..48: zero
    let crc = crc32c::crc32c_append(seed, &record[4..]);
    record[0..4].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// The length of the record at the start of `bytes`, which this process encoded itself.
pub fn record_len(bytes: &[u8]) -> usize {
    u32_at(bytes, 4) as usize
}

/// The record at the start of `bytes`, if its checksum verifies. The caller checks whether the record belongs at this
/// position.
pub fn decode_record(bytes: &[u8], seed: u32) -> Option<RecordHeader> {
    if bytes.len() < RECORD_HEADER_LEN {
        return None;
    }
    let len = u32_at(bytes, 4) as usize;
    let body_len = u32_at(bytes, 40) as usize;
    let kind = match bytes[12] {
        1 => LogRecordKind::Batch,
        2 => LogRecordKind::Watermark,
        _ => return None,
    };
    // Cheap checks first: a search calls this at every eighth byte of a segment's content.
    let plausible = len <= bytes.len()
        && len == (RECORD_HEADER_LEN + body_len).next_multiple_of(ALIGN)
        && bytes[13] & !CLEAN_STOP == 0
        && u32_at(bytes, 44) == 0;
    if !plausible || crc32c::crc32c_append(seed, &bytes[4..len]) != u32_at(bytes, 0) {
        return None;
    }
    Some(RecordHeader {
        crc: u32_at(bytes, 0),
        len,
        previous: u32_at(bytes, 8),
        kind,
        shard: u16_at(bytes, 14),
        seq: Seq(u64_at(bytes, 16)),
        epoch: OwnerEpoch(u64_at(bytes, 24)),
        durable: Seq(u64_at(bytes, 32)),
        body_len,
        clean_stop: bytes[13] & CLEAN_STOP != 0,
    })
}

pub fn segment_name(number: u64) -> String {
    format!("{number:016x}.log")
}

pub fn segment_number(name: &str) -> Option<u64> {
    let digits = name
        .strip_suffix(".log")
        .filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N]
        .try_into()
        .expect("a slice of that length")
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> StoreId {
        StoreId {
            cluster: ClusterId(0x1111),
            incarnation: Incarnation(0x2222),
        }
    }

    fn header(seq: u64) -> RecordHeader {
        RecordHeader {
            crc: 0,
            len: 0,
            previous: 0xabcd,
            kind: LogRecordKind::Batch,
            shard: 7,
            seq: Seq(seq),
            epoch: OwnerEpoch(3),
            durable: Seq(seq - 1),
            body_len: 0,
            clean_stop: false,
        }
    }

    #[test]
    fn a_record_reads_back() {
        let mut out = vec![1, 2, 3, 4, 5, 6, 7, 8];
        let crc = append_record(&mut out, store().seed(), &header(9), |body| {
            body.extend_from_slice(b"hello")
        });
        assert_eq!(record_len(&out[8..]), out.len() - 8);
        let found = decode_record(&out[8..], store().seed()).unwrap();
        assert_eq!(
            found,
            RecordHeader {
                crc,
                len: 56,
                body_len: 5,
                ..header(9)
            }
        );
    }

    #[test]
    fn a_record_with_any_bit_flipped_does_not_verify() {
        let mut out = Vec::new();
        append_record(&mut out, store().seed(), &header(9), |body| {
            body.extend_from_slice(b"hello")
        });
        for bit in 0..out.len() * 8 {
            let mut bad = out.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_record(&bad, store().seed()), None, "bit {bit}");
        }
    }

    #[test]
    fn a_record_of_another_store_does_not_verify() {
        let mut out = Vec::new();
        append_record(&mut out, store().seed(), &header(9), |_| {});
        let other = StoreId {
            incarnation: Incarnation(0x2223),
            ..store()
        };
        assert_eq!(decode_record(&out, other.seed()), None);
    }

    #[test]
    fn a_segments_header_reads_back() {
        let header = SegmentHeader {
            store: store(),
            number: 5,
            first: Seq(77),
            previous: 0xdead_beef,
            segment_bytes: 1 << 20,
            epoch: OwnerEpoch(3),
        };
        let mut bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), DecodedHeader::Valid(header));
        bytes[50] ^= 1;
        assert_eq!(SegmentHeader::decode(&bytes), DecodedHeader::Invalid);
        assert_eq!(
            SegmentHeader::decode(&[0; HEADER_LEN]),
            DecodedHeader::Blank
        );
        assert_eq!(SegmentHeader::decode(&[]), DecodedHeader::Blank);
    }

    #[test]
    fn a_header_of_a_later_version_is_not_reported_as_damage() {
        let mut bytes = SegmentHeader {
            store: store(),
            number: 5,
            first: Seq(77),
            previous: 0,
            segment_bytes: 1 << 20,
            epoch: OwnerEpoch(3),
        }
        .encode();
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..HEADER_LEN - 4]);
        bytes[HEADER_LEN - 4..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(
            SegmentHeader::decode(&bytes),
            DecodedHeader::UnknownVersion(2)
        );
    }

    #[test]
    fn segments_are_named_by_number() {
        assert_eq!(segment_name(26), "000000000000001a.log");
        assert_eq!(segment_number("000000000000001a.log"), Some(26));
        assert_eq!(segment_number("1a.log"), None);
        assert_eq!(segment_number("lost+found"), None);
    }
}
