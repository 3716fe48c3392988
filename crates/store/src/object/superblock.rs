//! The superblock: the identity and the state of a target. The byte table is in docs/formats/object.md.
//!
//! It is replaced as a whole: the new one is written over the one before the last, in another file, synced, the two files exchange
//! their names, and the directory is synced. Nothing of this needs space: a target on a full disk can record a failed sync.

use super::error::{OpenError, OpenErrorKind};
use gupfs_platform::{Disk, DiskError, DiskErrorKind, OnCacheMiss, OpenHow};
use gupfs_proto::cluster::OwnerMark;
use gupfs_proto::{
    ClusterId, Incarnation, MapEpoch, OstId, OwnerEpoch, Seq, Timestamp, WriteVerifier,
};
use std::sync::Arc;

const FILE: &str = "superblock";
const TEMPORARY: &str = "superblock.new";

const MAGIC: &[u8; 8] = b"gupfsost";
const VERSION: u32 = 2;
pub(super) const LENGTH: usize = 192;

/// Version 1 had neither the number of an open instance nor an owner.
const V1: u32 = 1;
const V1_LENGTH: usize = 128;

/// Features without which a program must not open the target. There are none yet.
const REQUIRED_KNOWN: &[(u64, &str)] = &[];

/// Longer than any superblock; more bytes are not read.
const READ_MAX: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Superblock {
    pub cluster: ClusterId,
    pub ost: OstId,
    pub incarnation: Incarnation,
    pub created: Timestamp,
    /// Rises when the target is adopted, when it is stopped cleanly, and once a minute while it changes.
    pub stamp: u64,
    pub map_epoch: MapEpoch,
    /// Set by a stop that synced everything; cleared by the next start.
    pub clean_stop: bool,
    /// Number of objects at the clean stop.
    pub objects: u64,
    /// Write verifier: rises at each start after which acknowledged writes may be lost.
    pub write_verifier: WriteVerifier,
    /// Identifies the page cache that had the unsynced bytes (`Disk::page_cache_id`); zero: unsynced bytes count as lost.
    pub page_cache_id: u64,
    pub required: u64,
    pub optional: u64,
    /// The open instance that wrote this; 0: no instance was adopted yet.
    pub run: u64,
    /// The newest owner mark that a metadata server reported.
    pub owner: OwnerMark,
}

impl Superblock {
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &(LENGTH as u32).to_le_bytes());
        put(16, &self.required.to_le_bytes());
        put(24, &self.optional.to_le_bytes());
        put(32, &self.cluster.0.to_le_bytes());
        put(48, &self.ost.0.to_le_bytes());
        put(50, &u16::from(self.clean_stop).to_le_bytes());
        put(56, &self.incarnation.0.to_le_bytes());
        put(64, &self.created.as_nanos().to_le_bytes());
        put(72, &self.stamp.to_le_bytes());
        put(80, &self.map_epoch.0.to_le_bytes());
        put(88, &self.objects.to_le_bytes());
        put(96, &self.write_verifier.0.to_le_bytes());
        put(104, &self.page_cache_id.to_le_bytes());
        put(112, &self.run.to_le_bytes());
        put(120, &self.owner.epoch.0.to_le_bytes());
        put(128, &self.owner.run.to_le_bytes());
        put(136, &self.owner.durable.0.to_le_bytes());
        let sum = crc32c::crc32c(&out[..LENGTH - 4]);
        out[LENGTH - 4..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Superblock, OpenError> {
        let damaged = |what: &str| {
            OpenError::new(
                OpenErrorKind::Damaged,
                format!(
                    "the target's superblock {what}; restore the directory from a backup, or remove the target from the cluster"
                ),
            )
        };
        if bytes.len() < 16 || &bytes[..8] != MAGIC {
            return Err(damaged("does not begin with the magic number"));
        }
        // Version before checksum: a newer version may have another length and another checksum.
        let version = u32::from_le_bytes(field(bytes, 8));
        if version > VERSION {
            return Err(OpenError::new(
                OpenErrorKind::Newer,
                format!(
                    "the target has format version {version}, and this gupfs knows versions up to {VERSION}: use the newer gupfs"
                ),
            ));
        }
        let length = match version {
            V1 => V1_LENGTH,
            VERSION => LENGTH,
            _ => return Err(damaged("has an invalid version")),
        };
        if bytes.len() != length || u32::from_le_bytes(field(bytes, 12)) != length as u32 {
            return Err(damaged("has a wrong length"));
        }
        if crc32c::crc32c(&bytes[..length - 4]) != u32::from_le_bytes(field(bytes, length - 4)) {
            return Err(damaged("does not match its checksum"));
        }
        let (run, owner) = match version {
            V1 => (0, OwnerMark::default()),
            _ => (
                u64::from_le_bytes(field(bytes, 112)),
                OwnerMark {
                    epoch: OwnerEpoch(u64::from_le_bytes(field(bytes, 120))),
                    run: u64::from_le_bytes(field(bytes, 128)),
                    durable: Seq(u64::from_le_bytes(field(bytes, 136))),
                },
            ),
        };
        let found = Superblock {
            required: u64::from_le_bytes(field(bytes, 16)),
            optional: u64::from_le_bytes(field(bytes, 24)),
            cluster: ClusterId(u128::from_le_bytes(field(bytes, 32))),
            ost: OstId(u16::from_le_bytes(field(bytes, 48))),
            clean_stop: u16::from_le_bytes(field(bytes, 50)) & 1 == 1,
            incarnation: Incarnation(u64::from_le_bytes(field(bytes, 56))),
            created: Timestamp::from_nanos(i64::from_le_bytes(field(bytes, 64))),
            stamp: u64::from_le_bytes(field(bytes, 72)),
            map_epoch: MapEpoch(u64::from_le_bytes(field(bytes, 80))),
            objects: u64::from_le_bytes(field(bytes, 88)),
            write_verifier: WriteVerifier(u64::from_le_bytes(field(bytes, 96))),
            page_cache_id: u64::from_le_bytes(field(bytes, 104)),
            run,
            owner,
        };
        found.check_features()?;
        Ok(found)
    }

    /// The superblock as a start writes it that finds this page cache.
    pub fn for_start(mut self, page_cache_id: u64) -> Superblock {
        if !self.clean_stop && self.page_cache_id != page_cache_id {
            self.write_verifier.0 += 1;
        }
        self.page_cache_id = page_cache_id;
        self
    }

    fn check_features(&self) -> Result<(), OpenError> {
        let known = REQUIRED_KNOWN.iter().fold(0, |bits, (bit, _)| bits | bit);
        match self.required & !known {
            0 => Ok(()),
            unknown => Err(OpenError::new(
                OpenErrorKind::Newer,
                format!(
                    "the target needs features that this gupfs does not know (bits {unknown:#x}): use a newer gupfs"
                ),
            )),
        }
    }

    /// None if the directory has no superblock.
    pub async fn read(disk: &Disk) -> Result<Option<Superblock>, OpenError> {
        let file = match disk.open(FILE, OpenHow::read()).await {
            Ok(file) => file,
            Err(error) if error.kind == DiskErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let (bytes, len) = file
            .read_owned(vec![0; READ_MAX], 0, OnCacheMiss::HandOff)
            .await?;
        Superblock::decode(&bytes[..len]).map(Some)
    }

    /// Writes the superblock; durable when this returns.
    pub async fn write(&self, disk: &Disk) -> Result<(), DiskError> {
        let file = disk.open(TEMPORARY, OpenHow::write().create()).await?;
        file.write_at(&self.encode(), 0).await?;
        file.set_len(LENGTH as u64).await?; // of a version that was longer
        file.sync_data().await?;
        match disk.exchange(TEMPORARY, FILE).await {
            // The first superblock of a target, or a file system that cannot exchange names.
            Err(error)
                if matches!(
                    error.kind,
                    DiskErrorKind::NotFound | DiskErrorKind::Unsupported
                ) =>
            {
                disk.rename(TEMPORARY, FILE).await?;
            }
            done => done?,
        }
        disk.sync_dir(".").await
    }
}

/// The superblock of an open target. One task writes it at a time; clones are handles of the same file.
#[derive(Clone)]
pub(super) struct SuperblockFile {
    disk: Disk,
    newest: Arc<tokio::sync::Mutex<Superblock>>,
}

impl SuperblockFile {
    pub fn new(disk: Disk, found: Superblock) -> SuperblockFile {
        SuperblockFile {
            disk,
            newest: Arc::new(tokio::sync::Mutex::new(found)),
        }
    }

    /// The superblock as it was written last, with what the next write adds; no other task writes it meanwhile.
    pub async fn lock(&self) -> tokio::sync::MutexGuard<'_, Superblock> {
        self.newest.lock().await
    }

    /// Writes this as the target's superblock; the caller holds the lock. Durable when this returns.
    pub async fn write(&self, superblock: &Superblock) -> Result<(), DiskError> {
        superblock.write(&self.disk).await
    }
}

/// The `N` bytes at `at`; the caller has checked the length.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a slice of N bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock {
            cluster: ClusterId(0x1234_5678_9abc_def0_1122_3344_5566_7788),
            ost: OstId(3),
            incarnation: Incarnation(0xdead_beef),
            created: Timestamp::new(1_700_000_000, 5),
            stamp: 7,
            map_epoch: MapEpoch(9),
            clean_stop: true,
            objects: 12,
            write_verifier: WriteVerifier(3),
            page_cache_id: 0xfeed,
            required: 0,
            optional: 1 << 40,
            run: 0x1234,
            owner: OwnerMark {
                epoch: OwnerEpoch(6),
                run: 0x5678,
                durable: Seq(900),
            },
        }
    }

    #[test]
    fn a_superblock_reads_back() {
        assert_eq!(Superblock::decode(&sample().encode()).unwrap(), sample());
    }

    #[test]
    fn the_write_verifier_rises_where_the_page_cache_was_lost_before_a_clean_stop() {
        let stopped = sample();
        assert_eq!(stopped.for_start(5).write_verifier, WriteVerifier(3));
        let killed = Superblock {
            clean_stop: false,
            ..sample()
        };
        assert_eq!(killed.for_start(0xfeed).write_verifier, WriteVerifier(3));
        assert_eq!(killed.for_start(5).write_verifier, WriteVerifier(4));
        assert_eq!(killed.for_start(5).page_cache_id, 5);
    }

    #[test]
    fn a_superblock_of_version_1_has_neither_instance_nor_owner() {
        let mut first = sample().encode()[..V1_LENGTH].to_vec();
        first[8] = 1;
        first[12] = V1_LENGTH as u8;
        first[112..].fill(0);
        let sum = crc32c::crc32c(&first[..V1_LENGTH - 4]);
        first[V1_LENGTH - 4..].copy_from_slice(&sum.to_le_bytes());
        let expected = Superblock {
            run: 0,
            owner: OwnerMark::default(),
            ..sample()
        };
        assert_eq!(Superblock::decode(&first).unwrap(), expected);
    }

    #[test]
    fn a_superblock_with_any_bit_flipped_does_not_verify() {
        let bytes = sample().encode();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_format_and_an_unknown_feature_are_refused_by_name() {
        let mut newer = sample().encode();
        newer[8] = 3;
        let error = Superblock::decode(&newer).unwrap_err();
        assert_eq!(error.kind, OpenErrorKind::Newer);
        assert_eq!(
            error.to_string(),
            "the target has format version 3, and this gupfs knows versions up to 2: use the newer gupfs"
        );

        let needs = Superblock {
            required: 1 << 5,
            ..sample()
        };
        let error = Superblock::decode(&needs.encode()).unwrap_err();
        assert_eq!(error.kind, OpenErrorKind::Newer);
        assert!(error.to_string().contains("0x20"), "{error}");
    }
}
