//! Records of version 1: one for each object, one for each clean region. The byte tables are in docs/formats/object.md.

use gupfs_proto::data::ObjectOwner;
use gupfs_proto::limits::{CHECKSUM_BLOCK, REGION};
use gupfs_proto::{MapEpoch, ObjectId, Timestamp};

const VERSION: u8 = 1;
/// crc32c over blocks of 4 KiB.
const CRC32C_4K: u8 = 1;
/// Plain bytes of the file (no parity).
const ROLE_DATA: u8 = 0;

const OBJECT: u8 = b'o';
const REGION_KIND: u8 = b'r';

const OBJECT_LENGTH: usize = 72;
const REGION_HEAD: usize = 8;
const _: () = assert!(CHECKSUM_BLOCK == 4096 && REGION == 1 << 20);

/// What a rebuild from objects alone needs, and up to which region there are records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ObjectRecord {
    pub owner: ObjectOwner,
    /// Size at the last checksum flush.
    pub size: u64,
    pub mtime: Timestamp,
    /// Version of the object: rises with each checksum flush.
    pub version: u64,
    pub map_epoch: MapEpoch,
    /// No region from this number on has a record.
    pub regions_end: u64,
}

/// The record of a clean region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RegionRecord {
    /// Bytes of the region up to the object's end; zeros follow.
    pub len: u64,
    /// One checksum for each block up to `len`.
    pub sums: Vec<u32>,
}

/// A record that this program cannot decode: damaged, or of a newer program.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the {what} record of object {object} cannot be read")]
pub(super) struct UnreadableRecord {
    pub what: &'static str,
    pub object: ObjectId,
}

pub(super) fn object_key(id: ObjectId) -> Vec<u8> {
    key(OBJECT, id)
}

pub(super) fn region_key(id: ObjectId, region: u64) -> Vec<u8> {
    let mut key = key(REGION_KIND, id);
    key.extend_from_slice(&region.to_be_bytes());
    key
}

fn key(kind: u8, id: ObjectId) -> Vec<u8> {
    let mut key = Vec::with_capacity(25);
    key.push(kind);
    key.extend_from_slice(&id.ino.0.to_be_bytes());
    key.extend_from_slice(&id.generation.0.to_be_bytes());
    key.extend_from_slice(&id.stripe.to_be_bytes());
    key
}

/// The region of a key that `region_key` made.
pub(super) fn region_of_key(key: &[u8]) -> Option<u64> {
    let number: [u8; 8] = key.get(17..)?.try_into().ok()?;
    (key[0] == REGION_KIND).then(|| u64::from_be_bytes(number))
}

impl ObjectRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(OBJECT_LENGTH);
        out.extend_from_slice(&[VERSION, CRC32C_4K, ROLE_DATA, 0]);
        for number in [
            self.owner.volume,
            self.owner.uid,
            self.owner.gid,
            self.owner.project,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&[0; 4]);
        for number in [
            self.size,
            self.mtime.as_nanos() as u64,
            self.version,
            self.map_epoch.0,
            self.regions_end,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&[0; 8]);
        debug_assert_eq!(out.len(), OBJECT_LENGTH);
        out
    }

    pub fn decode(object: ObjectId, bytes: &[u8]) -> Result<ObjectRecord, UnreadableRecord> {
        if bytes.len() != OBJECT_LENGTH || bytes[..3] != [VERSION, CRC32C_4K, ROLE_DATA] {
            return Err(UnreadableRecord {
                what: "own",
                object,
            });
        }
        Ok(ObjectRecord {
            owner: ObjectOwner {
                volume: u32_at(bytes, 4),
                uid: u32_at(bytes, 8),
                gid: u32_at(bytes, 12),
                project: u32_at(bytes, 16),
            },
            size: u64_at(bytes, 24),
            mtime: Timestamp::from_nanos(u64_at(bytes, 32) as i64),
            version: u64_at(bytes, 40),
            map_epoch: MapEpoch(u64_at(bytes, 48)),
            regions_end: u64_at(bytes, 56),
        })
    }
}

impl RegionRecord {
    pub fn decode(object: ObjectId, bytes: &[u8]) -> Result<RegionRecord, UnreadableRecord> {
        let unreadable = UnreadableRecord {
            what: "region's",
            object,
        };
        if bytes.len() < REGION_HEAD || bytes[..2] != [VERSION, CRC32C_4K] {
            return Err(unreadable);
        }
        let len = u64::from(u32_at(bytes, 4));
        let sums = &bytes[REGION_HEAD..];
        if len > REGION || sums.len() as u64 != len.div_ceil(CHECKSUM_BLOCK) * 4 {
            return Err(unreadable);
        }
        Ok(RegionRecord {
            len,
            sums: sums.chunks_exact(4).map(|sum| u32_at(sum, 0)).collect(),
        })
    }
}

/// Encodes a region's record: its length and the checksum of each of its blocks.
pub(super) fn encode_region(len: u64, sums: &[u32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(REGION_HEAD + sums.len() * 4);
    out.extend_from_slice(&[VERSION, CRC32C_4K, 0, 0]);
    out.extend_from_slice(&(len as u32).to_le_bytes());
    for sum in sums {
        out.extend_from_slice(&sum.to_le_bytes());
    }
    out
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::{Generation, InodeId};

    const ID: ObjectId = ObjectId {
        ino: InodeId(0x0102),
        generation: Generation(3),
        stripe: 4,
    };

    #[test]
    fn records_read_back() {
        let object = ObjectRecord {
            owner: ObjectOwner {
                uid: 1,
                gid: 2,
                project: 3,
                volume: 4,
            },
            size: 5,
            mtime: Timestamp::new(6, 7),
            version: 8,
            map_epoch: MapEpoch(9),
            regions_end: 10,
        };
        assert_eq!(ObjectRecord::decode(ID, &object.encode()).unwrap(), object);
        let region = RegionRecord {
            len: 5000,
            sums: vec![1, 2],
        };
        assert_eq!(
            RegionRecord::decode(ID, &encode_region(region.len, &region.sums)).unwrap(),
            region
        );
    }

    #[test]
    fn a_record_of_another_length_or_version_is_an_error() {
        let object = ObjectRecord::default().encode();
        assert!(ObjectRecord::decode(ID, &object[1..]).is_err());
        let mut newer = object;
        newer[0] = 2;
        assert!(ObjectRecord::decode(ID, &newer).is_err());
        for bytes in [
            &[1, 1, 0, 0, 1, 0, 0, 0][..],
            &[2, 1, 0, 0, 0, 0, 0, 0],
            &[1],
        ] {
            assert!(RegionRecord::decode(ID, bytes).is_err());
        }
    }

    #[test]
    fn the_keys_of_an_objects_regions_are_consecutive_and_in_order() {
        assert!(region_key(ID, 1) < region_key(ID, 256));
        assert!(region_key(ID, u64::MAX) < region_key(ObjectId { stripe: 5, ..ID }, 0));
        assert_eq!(region_of_key(&region_key(ID, 77)), Some(77));
        assert_eq!(region_of_key(&object_key(ID)), None);
    }
}
