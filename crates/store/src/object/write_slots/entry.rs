//! One entry of the slot file: the last numbered write of a slot. The byte table is in docs/formats/object.md.

use gupfs_proto::data::ObjectStat;
use gupfs_proto::{Generation, InodeId, ObjectId, SessionId, Timestamp, WriteVerifier};
use std::ops::Range;

/// A power of two, so that no entry lies in two pages, and a kill never leaves half of one.
pub(super) const ENTRY_LENGTH: usize = 128;
const _: () = assert!(ENTRY_LENGTH.is_power_of_two());

const CHECKSUM_AT: usize = ENTRY_LENGTH - 4;

const BEGUN: u8 = 1;
const DONE: u8 = 2;
const SYNCED: u8 = 3;

/// The slot of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::object) struct WriteSlotKey {
    pub session: SessionId,
    pub slot: u16,
}

/// How far a write has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WriteProgress {
    /// The bytes may have changed; the write may have failed.
    Begun,
    /// The state of the object after the write.
    Done(ObjectStat),
    /// The same, after a sync of the object: a power loss does not undo the write.
    Synced(ObjectStat),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::object) struct WriteSlotEntry {
    pub key: WriteSlotKey,
    pub number: u64,
    /// Rises with each entry that the target writes.
    pub sequence: u64,
    pub object: ObjectId,
    pub range: Range<u64>,
    /// crc32c of the data.
    pub data_sum: u32,
    /// The write verifier under which the write was executed.
    pub verifier: WriteVerifier,
    pub progress: WriteProgress,
}

/// The bytes of an entry do not match their checksum, or make no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DamagedEntry;

impl WriteProgress {
    fn code(self) -> u8 {
        match self {
            WriteProgress::Begun => BEGUN,
            WriteProgress::Done(_) => DONE,
            WriteProgress::Synced(_) => SYNCED,
        }
    }

    /// The state of the object after the write.
    pub fn stat(self) -> Option<ObjectStat> {
        match self {
            WriteProgress::Begun => None,
            WriteProgress::Done(stat) | WriteProgress::Synced(stat) => Some(stat),
        }
    }
}

impl WriteSlotEntry {
    /// Whether the write is still valid under this verifier. A power loss may have undone one that was not synced.
    pub fn is_valid(&self, verifier: WriteVerifier) -> bool {
        matches!(self.progress, WriteProgress::Synced(_)) || self.verifier == verifier
    }

    pub fn encode(&self) -> [u8; ENTRY_LENGTH] {
        let mut out = [0; ENTRY_LENGTH];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.key.session.0.to_le_bytes());
        put(8, &self.key.slot.to_le_bytes());
        put(10, &[self.progress.code()]);
        // A message has at most PAYLOAD_MAX bytes.
        let len = (self.range.end - self.range.start) as u32;
        put(12, &len.to_le_bytes());
        put(16, &self.number.to_le_bytes());
        put(24, &self.sequence.to_le_bytes());
        put(32, &self.object.ino.0.to_le_bytes());
        put(40, &self.object.generation.0.to_le_bytes());
        put(44, &self.object.stripe.to_le_bytes());
        put(48, &self.range.start.to_le_bytes());
        put(56, &self.data_sum.to_le_bytes());
        if let Some(stat) = self.progress.stat() {
            put(64, &stat.size.to_le_bytes());
            put(72, &stat.blocks.to_le_bytes());
            put(80, &stat.mtime.as_nanos().to_le_bytes());
        }
        put(88, &self.verifier.0.to_le_bytes());
        let sum = crc32c::crc32c(&out[..CHECKSUM_AT]);
        out[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// None for an entry that was never written, or was erased.
    pub fn decode(bytes: &[u8; ENTRY_LENGTH]) -> Result<Option<WriteSlotEntry>, DamagedEntry> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if crc32c::crc32c(&bytes[..CHECKSUM_AT]) != u32::from_le_bytes(field(bytes, CHECKSUM_AT)) {
            return Err(DamagedEntry);
        }
        let number = |at| u64::from_le_bytes(field(bytes, at));
        let stat = ObjectStat {
            size: number(64),
            blocks: number(72),
            mtime: Timestamp::from_nanos(number(80).cast_signed()),
        };
        let progress = match bytes[10] {
            BEGUN => WriteProgress::Begun,
            DONE => WriteProgress::Done(stat),
            SYNCED => WriteProgress::Synced(stat),
            _ => return Err(DamagedEntry),
        };
        let (start, len) = (number(48), u32::from_le_bytes(field(bytes, 12)));
        Ok(Some(WriteSlotEntry {
            key: WriteSlotKey {
                session: SessionId(number(0)),
                slot: u16::from_le_bytes(field(bytes, 8)),
            },
            number: number(16),
            sequence: number(24),
            object: ObjectId {
                ino: InodeId(number(32)),
                generation: Generation(u32::from_le_bytes(field(bytes, 40))),
                stripe: u32::from_le_bytes(field(bytes, 44)),
            },
            range: start..start.checked_add(u64::from(len)).ok_or(DamagedEntry)?,
            data_sum: u32::from_le_bytes(field(bytes, 56)),
            verifier: WriteVerifier(number(88)),
            progress,
        }))
    }
}

/// The `N` bytes at `at`, which are within the entry.
fn field<const N: usize>(bytes: &[u8; ENTRY_LENGTH], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a slice of N bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: ObjectStat = ObjectStat {
        size: 94_016,
        blocks: 184,
        mtime: Timestamp::new(1_700_000_000, 5),
    };

    fn sample() -> WriteSlotEntry {
        WriteSlotEntry {
            key: WriteSlotKey {
                session: SessionId(0x0102_0304_0506_0708),
                slot: 255,
            },
            number: 9,
            sequence: 1 << 40,
            object: ObjectId {
                ino: InodeId(77),
                generation: Generation(3),
                stripe: 4,
            },
            range: 47_008..2 * 47_008,
            data_sum: 0xdead_beef,
            verifier: WriteVerifier(6),
            progress: WriteProgress::Done(STAT),
        }
    }

    #[test]
    fn an_entry_reads_back() {
        for progress in [
            WriteProgress::Begun,
            WriteProgress::Done(STAT),
            WriteProgress::Synced(STAT),
        ] {
            let entry = WriteSlotEntry {
                progress,
                ..sample()
            };
            assert_eq!(WriteSlotEntry::decode(&entry.encode()), Ok(Some(entry)));
        }
        assert_eq!(WriteSlotEntry::decode(&[0; ENTRY_LENGTH]), Ok(None));
    }

    #[test]
    fn a_new_verifier_voids_what_was_not_synced() {
        let [done, synced] =
            [WriteProgress::Done(STAT), WriteProgress::Synced(STAT)].map(|progress| {
                WriteSlotEntry {
                    progress,
                    ..sample()
                }
            });
        let valid = |entry: &WriteSlotEntry| [6, 7].map(|v| entry.is_valid(WriteVerifier(v)));
        assert_eq!((valid(&done), valid(&synced)), ([true, false], [true; 2]));
    }

    #[test]
    fn an_entry_with_any_bit_flipped_is_damaged() {
        for bit in 0..ENTRY_LENGTH * 8 {
            let mut flipped = sample().encode();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                WriteSlotEntry::decode(&flipped),
                Err(DamagedEntry),
                "bit {bit}"
            );
        }
    }
}
