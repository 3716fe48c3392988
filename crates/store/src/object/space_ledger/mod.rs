//! Which part of a disk's free space may still be written, and by which session. Pure: no lock, no await, no clock.
//!
//! A reservation is space that other writes do not get, also not those of its own session that do not name it. A write into reserved
//! space takes its bytes from the reservation without asking how full the disk is: what the file system needs besides comes out of the
//! reserve of the disk (`limits::RESERVE_PART`), which the free space here does not include.

use super::limits::*;
use gupfs_platform::BootTime;
use gupfs_proto::SessionId;
use gupfs_proto::limits::{CHECKSUM_BLOCK, RESERVATION_TERM};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct SpaceLedger {
    sessions: BTreeMap<SessionId, SessionReservation>,
    /// Of all sessions.
    reserved: u64,
    /// Bytes of the writes under way: the file system does not count all of them yet.
    running: u64,
    /// Bytes of all writes that have ended, modulo 2⁶⁴.
    ended: u64,
    budget: SpaceBudget,
}

#[derive(Clone, Copy, Debug)]
struct SessionReservation {
    bytes: u64,
    /// What the session asked for: as it writes, the target reserves again up to this.
    wanted: u64,
    until: BootTime,
}

/// What was known when the file system was last asked, less what was admitted and reserved since.
#[derive(Clone, Copy, Debug, Default)]
struct SpaceBudget {
    until: BootTime,
    /// Free space that no session has reserved.
    unreserved: u64,
    /// Bytes of it that may be admitted before the file system is asked again.
    left: u64,
}

/// Where the space of a write comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SpaceSource {
    Unreserved,
    /// The reservation of this session, as far as it is enough.
    ReservedBy(SessionId),
}

/// The file system is being asked; the value of `ended` at that time.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpaceQuery(u64);

/// Whether the answer of the file system, which a caller has just got, decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BudgetAge {
    JustRead,
    Earlier,
}

impl SpaceLedger {
    /// Admits a write; the caller calls `end` when it has ended. False if there is no space for it, or with `Earlier` if the file
    /// system must be asked.
    pub fn admit(
        &mut self,
        bytes: u64,
        source: SpaceSource,
        now: BootTime,
        age: BudgetAge,
    ) -> bool {
        if let SpaceSource::ReservedBy(session) = source
            && self.take_reserved(session, bytes, now)
        {
            self.running += bytes;
            return true;
        }
        let budget = &mut self.budget;
        let is_admitted = match age {
            BudgetAge::Earlier => now < budget.until && bytes <= budget.left,
            BudgetAge::JustRead => bytes <= budget.unreserved,
        };
        if is_admitted {
            budget.unreserved -= bytes;
            budget.left = budget.left.saturating_sub(bytes);
            self.running += bytes;
        }
        is_admitted
    }

    /// Takes the bytes from the session's reservation. If it is not enough, the write has no more right to it than others: then all of
    /// the reservation becomes free.
    fn take_reserved(&mut self, session: SessionId, bytes: u64, now: BootTime) -> bool {
        let Some(reservation) = self.sessions.get_mut(&session) else {
            return false;
        };
        let is_enough = bytes <= reservation.bytes && now < reservation.until;
        let taken = if is_enough { bytes } else { reservation.bytes };
        reservation.bytes -= taken;
        reservation.until = now + RESERVATION_TERM;
        self.reserved -= taken;
        if !is_enough {
            self.give_back(taken);
        }
        is_enough
    }

    fn give_back(&mut self, bytes: u64) {
        self.budget.unreserved += bytes;
        self.budget.left += bytes;
    }

    /// An admitted write has ended: from now on the file system counts its bytes.
    pub fn end(&mut self, bytes: u64) {
        self.running -= bytes;
        self.ended = self.ended.wrapping_add(bytes);
    }

    /// The caller asks the file system now.
    pub fn begin_query(&self) -> SpaceQuery {
        SpaceQuery(self.ended)
    }

    /// The file system has answered that writers may use `available` bytes.
    pub fn end_query(&mut self, query: SpaceQuery, available: u64, now: BootTime) {
        self.drop_expired(now);
        // A write that was under way at any moment of the query may be counted in the answer or not.
        let uncertain = self.running + self.ended.wrapping_sub(query.0);
        let unreserved = available
            .saturating_sub(uncertain)
            .saturating_sub(self.reserved);
        let step = (unreserved / SPACE_STEP_PART).max(SPACE_STEP_MIN);
        self.budget = SpaceBudget {
            until: now + SPACE_AGE,
            unreserved,
            left: step.min(unreserved),
        };
    }

    fn drop_expired(&mut self, now: BootTime) {
        self.sessions
            .retain(|_, reservation| now < reservation.until);
        let all = self.sessions.values();
        self.reserved = all.map(|reservation| reservation.bytes).sum();
    }

    /// Whether `reserve` needs a newer answer of the file system.
    pub fn needs_query(&self, now: BootTime) -> bool {
        now >= self.budget.until
    }

    /// The session wants `bytes` reserved in all. It gets at least what it has of them; more as far as there is space.
    pub fn reserve(&mut self, session: SessionId, bytes: u64, now: BootTime) {
        if !self.sessions.contains_key(&session) {
            if bytes == 0 || self.sessions.len() >= RESERVATIONS_MAX {
                return;
            }
            let (bytes, wanted, until) = (0, 0, now);
            let reservation = SessionReservation {
                bytes,
                wanted,
                until,
            };
            self.sessions.insert(session, reservation);
        }
        let Some(reservation) = self.sessions.get_mut(&session) else {
            return;
        };
        reservation.wanted = bytes.min(RESERVATION_MAX);
        reservation.until = now + RESERVATION_TERM;
        let surplus = reservation.bytes.saturating_sub(reservation.wanted);
        reservation.bytes -= surplus;
        self.reserved -= surplus;
        self.give_back(surplus);
        self.refill(session, now);
    }

    /// Reserves for the session what it asked for and has written since, as far as there is space.
    pub fn refill(&mut self, session: SessionId, now: BootTime) {
        let reservable = self.reservable(now);
        let Some(reservation) = self.sessions.get_mut(&session) else {
            return;
        };
        let missing = reservation.wanted.saturating_sub(reservation.bytes);
        let added = missing.min(reservable);
        reservation.bytes += added;
        self.reserved += added;
        self.budget.unreserved -= added;
        self.budget.left = self.budget.left.min(self.budget.unreserved);
    }

    /// Bytes that one session may get now: a part of what no session has, and all sessions together at most a part of the free space.
    fn reservable(&self, now: BootTime) -> u64 {
        if now >= self.budget.until {
            return 0;
        }
        let unreserved = self.budget.unreserved;
        let of_all = (unreserved + self.reserved) / RESERVED_AT_MOST_PART;
        let reservable = (unreserved / RESERVATION_PART).min(of_all.saturating_sub(self.reserved));
        // In whole blocks, as writes take it.
        reservable - reservable % CHECKSUM_BLOCK
    }

    /// The session has ended.
    pub fn free(&mut self, session: SessionId) {
        if let Some(reservation) = self.sessions.remove(&session) {
            self.reserved -= reservation.bytes;
            self.give_back(reservation.bytes);
        }
    }

    /// What is reserved for the session.
    pub fn reserved_by(&self, session: SessionId, now: BootTime) -> u64 {
        let reservation = self.sessions.get(&session);
        let reservation = reservation.filter(|reservation| now < reservation.until);
        reservation.map_or(0, |reservation| reservation.bytes)
    }

    /// The bytes that are reserved, and the number of sessions that have them.
    pub fn all_reserved(&self, now: BootTime) -> (u64, usize) {
        let all = self.sessions.values();
        let current = all.filter(|reservation| now < reservation.until && reservation.bytes > 0);
        current.fold((0, 0), |(bytes, sessions), reservation| {
            (bytes + reservation.bytes, sessions + 1)
        })
    }
}

#[cfg(test)]
mod tests;
