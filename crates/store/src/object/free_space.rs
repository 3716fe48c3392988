//! Free space that writers may use: admits each write that takes space. Asks the file system rarely; in between, admitted bytes are
//! counted (`space_ledger`).

use super::error::error_chain;
use super::limits::*;
use super::space_ledger::{BudgetAge, SpaceLedger, SpaceSource};
use gupfs_platform::{BootTime, Clock, Disk, DiskError};
use gupfs_proto::data::{SpaceReservation, TargetCapacity};
use gupfs_proto::limits::CHECKSUM_BLOCK;
use gupfs_proto::{FsError, SessionId};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

pub(super) struct FreeSpace {
    disk: Disk,
    clock: Clock,
    /// Identifies this start of the target in the replies about reservations.
    instance: u64,
    known: Mutex<KnownSpace>,
    is_shared: AtomicBool,
    /// By the file system's last answer.
    is_low: AtomicBool,
}

#[derive(Default)]
struct KnownSpace {
    ledger: SpaceLedger,
    /// Number of the last reply about a reservation.
    replies: u64,
}

/// A write that takes space; while this exists, nothing else is admitted to the same space.
pub(super) struct AdmittedWrite<'a> {
    free_space: &'a FreeSpace,
    bytes: u64,
}

impl Drop for AdmittedWrite<'_> {
    fn drop(&mut self) {
        self.free_space.known.lock().ledger.end(self.bytes);
    }
}

/// The reserve that writers cannot use on a disk of this size.
pub(super) fn reserved_bytes(total: u64) -> u64 {
    (total / RESERVE_PART)
        .max(RESERVE_BYTES)
        .min(total / RESERVE_AT_MOST_PART)
}

/// Bytes of the file system's blocks in which the range has a byte.
fn bytes_of_blocks(range: &Range<u64>) -> u64 {
    (range.end.div_ceil(CHECKSUM_BLOCK) - range.start / CHECKSUM_BLOCK) * CHECKSUM_BLOCK
}

impl FreeSpace {
    pub fn new(disk: Disk, clock: Clock, instance: u64) -> FreeSpace {
        FreeSpace {
            disk,
            clock,
            instance,
            known: Mutex::default(),
            is_shared: AtomicBool::new(false),
            is_low: AtomicBool::new(false),
        }
    }

    /// Admits a change that needs space for this range of an object.
    ///
    /// # Errors
    /// `NoSpace` if it would use the reserve, or space that sessions have reserved.
    pub async fn admit(
        &self,
        range: &Range<u64>,
        source: SpaceSource,
    ) -> Result<AdmittedWrite<'_>, FsError> {
        let bytes = bytes_of_blocks(range);
        let admitted = || AdmittedWrite {
            free_space: self,
            bytes,
        };
        let now = self.clock.boot();
        let admit = |ledger: &mut SpaceLedger, age| ledger.admit(bytes, source, now, age);
        if admit(&mut self.known.lock().ledger, BudgetAge::Earlier) {
            return Ok(admitted());
        }
        let is_admitted = self.query(now, |ledger| admit(ledger, BudgetAge::JustRead));
        match is_admitted.await? {
            true => Ok(admitted()),
            false => Err(FsError::NoSpace),
        }
    }

    /// Asks the file system, and decides by the answer.
    async fn query<T>(
        &self,
        now: BootTime,
        decide: impl FnOnce(&mut SpaceLedger) -> T,
    ) -> Result<T, FsError> {
        let query = self.known.lock().ledger.begin_query();
        let space = self.space().await;
        let space = space.map_err(|error| FsError::StoreFailed(error_chain(&error)))?;
        self.is_low
            .store(space.available < SHARED_RESERVABLE_FROM, Relaxed);
        let mut known = self.known.lock();
        known.ledger.end_query(query, space.available, now);
        Ok(decide(&mut known.ledger))
    }

    /// Reserves `bytes` in all for the session, or as much as there is for it.
    pub async fn reserve(
        &self,
        session: SessionId,
        bytes: u64,
    ) -> Result<SpaceReservation, FsError> {
        let now = self.clock.boot();
        let reserve = |ledger: &mut SpaceLedger| {
            let bytes = match self.is_scarce() {
                true => bytes.min(ledger.reserved_by(session, now)),
                false => bytes,
            };
            ledger.reserve(session, bytes, now)
        };
        self.query(now, reserve).await?;
        Ok(self.reservation(session, now))
    }

    /// After a write into reserved space: reserves the same amount again if there is space. Returns what the session has.
    pub async fn refill(&self, session: SessionId) -> SpaceReservation {
        let now = self.clock.boot();
        let needs_query = self.known.lock().ledger.needs_query(now);
        if needs_query {
            // If the file system does not answer, nothing is added.
            let _ = self.query(now, |_| ()).await;
        }
        if !self.is_scarce() {
            self.known.lock().ledger.refill(session, now);
        }
        self.reservation(session, now)
    }

    fn reservation(&self, session: SessionId, now: BootTime) -> SpaceReservation {
        let mut known = self.known.lock();
        known.replies += 1;
        SpaceReservation {
            instance: self.instance,
            number: known.replies,
            bytes: known.ledger.reserved_by(session, now),
        }
    }

    /// Another target has its objects on this file system: what it writes and reserves is not known here.
    pub fn set_shared(&self) {
        self.is_shared.store(true, Relaxed);
    }

    /// Whether the space that is left may be gone before a session uses what is reserved for it now.
    fn is_scarce(&self) -> bool {
        self.is_shared.load(Relaxed) && self.is_low.load(Relaxed)
    }

    /// Frees what is reserved for a session that has ended.
    pub fn free(&self, session: SessionId) {
        self.known.lock().ledger.free(session);
    }

    /// The bytes that are reserved, and the number of sessions that have them.
    pub fn all_reserved(&self) -> (u64, usize) {
        let now = self.clock.boot();
        self.known.lock().ledger.all_reserved(now)
    }

    /// The space as the file system reports it; `objects` is not set here.
    pub async fn space(&self) -> Result<TargetCapacity, DiskError> {
        let space = self.disk.space().await?;
        Ok(TargetCapacity {
            volume: space.volume,
            total: space.total,
            free: space.free,
            available: space.available.saturating_sub(reserved_bytes(space.total)),
            objects: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_a_hundredth_at_least_half_a_gibibyte_at_most_a_tenth() {
        assert_eq!(reserved_bytes(1 << 40), (1 << 40) / 100);
        assert_eq!(reserved_bytes(20 << 30), 512 << 20);
        assert_eq!(reserved_bytes(1 << 30), (1 << 30) / 10);
    }

    #[test]
    fn a_byte_takes_its_block() {
        let of = |range| bytes_of_blocks(&range);
        assert_eq!(
            [of(0..1), of(4095..4097), of(4096..8192)],
            [4096, 8192, 4096]
        );
    }
}
