//! A register in a file. The holder's lease is a lock of the directory, which ends with its process.
//!
//! | offset | length | content |
//! |---|---|---|
//! | 0 | 8 | `GUPFSREG` |
//! | 8 | 2 | version: 1 |
//! | 10 | 2 | length of the value |
//! | 12 | 4 | crc32c of the bytes after this field |
//! | 16 | 8 | revision |
//! | 24 | … | value |
//!
//! Numbers are little-endian. A change writes a new file and renames it, under the lock `register.lock`.

use super::{ArbiterError, ArbiterLease, ChangeResult, RegisterState, Revision};
use crate::clock::{BootTime, Clock};
use crate::disk::{Disk, DiskError, DiskErrorKind, DiskLock, OnCacheMiss, OpenHow};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::time::Duration;

const MAGIC: [u8; 8] = *b"GUPFSREG";
const VERSION: u16 = 1;
const HEADER_LEN: usize = 24;

const REGISTER: &str = "register";
const NEW_REGISTER: &str = "register.new";
/// A process holds this lock while it reads or changes the register: to read, it tries the holder's lock for a moment, which another process
/// would take for a holder's.
const CHANGE_LOCK: &str = "register.lock";
/// The holder's process holds this lock.
const HOLDER_LOCK: &str = "holder.lock";

/// How often `changed` looks, and a call that waits for another one.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub struct DirectoryArbiter {
    disk: Disk,
    clock: Clock,
    leases: Mutex<DirectoryLeases>,
}

#[derive(Default)]
struct DirectoryLeases {
    given: u64,
    alive: BTreeSet<u64>,
    /// The lease of this process that holds the register.
    holder: Option<(u64, DiskLock)>,
}

impl DirectoryArbiter {
    pub fn new(disk: Disk, clock: Clock) -> DirectoryArbiter {
        DirectoryArbiter {
            disk,
            clock,
            leases: Mutex::default(),
        }
    }

    pub async fn read(&self) -> Result<RegisterState, ArbiterError> {
        let _alone = self.be_alone().await?;
        self.state().await
    }

    /// `read` for a caller that holds the lock of changes.
    async fn state(&self) -> Result<RegisterState, ArbiterError> {
        let (value, revision) = self.read_file().await?;
        let is_held = self.leases.lock().holder.is_some();
        let is_held = is_held || self.try_lock(HOLDER_LOCK).await?.is_none();
        Ok(RegisterState {
            value,
            revision,
            is_held,
            version: revision.0 * 2 + u64::from(is_held),
        })
    }

    pub async fn change(
        &self,
        expected: Revision,
        value: Bytes,
        lease: Option<&ArbiterLease>,
    ) -> Result<ChangeResult, ArbiterError> {
        if lease.is_some_and(|lease| !self.leases.lock().alive.contains(&lease.id)) {
            return Err(ArbiterError::LeaseEnded);
        }
        let _alone = self.be_alone().await?;
        let (_, revision) = self.read_file().await?;
        if revision != expected {
            return Ok(ChangeResult::Conflict(self.state().await?));
        }
        let mut taken = None;
        if let Some(lease) = lease {
            let holder = self.leases.lock().holder.as_ref().map(|(id, _)| *id);
            if holder != Some(lease.id) {
                taken = self.try_lock(HOLDER_LOCK).await?;
                if taken.is_none() {
                    return Ok(ChangeResult::Conflict(self.state().await?));
                }
            }
        }
        let next = Revision(revision.0 + 1);
        self.write_file(next, &value).await.map_err(unknown)?;
        if let Some((lease, lock)) = lease.zip(taken) {
            let mut leases = self.leases.lock();
            // It may have ended meanwhile.
            if leases.alive.contains(&lease.id) {
                leases.holder = Some((lease.id, lock));
            }
        }
        Ok(ChangeResult::Done(next))
    }

    pub async fn new_lease(&self, term: Duration) -> Result<ArbiterLease, ArbiterError> {
        let mut leases = self.leases.lock();
        leases.given += 1;
        let id = leases.given;
        leases.alive.insert(id);
        Ok(ArbiterLease { id, term })
    }

    pub async fn renew(&self, lease: &ArbiterLease) -> Result<BootTime, ArbiterError> {
        match self.leases.lock().alive.contains(&lease.id) {
            true => Ok(super::alive_until(self.clock.boot(), lease.term)),
            false => Err(ArbiterError::LeaseEnded),
        }
    }

    pub async fn end_lease(&self, lease: &ArbiterLease) -> Result<(), ArbiterError> {
        let mut leases = self.leases.lock();
        leases.alive.remove(&lease.id);
        leases.holder.take_if(|(id, _)| *id == lease.id);
        Ok(())
    }

    pub async fn changed(&self, known: &RegisterState) -> Result<(), ArbiterError> {
        while self.read().await? == *known {
            self.clock.sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn be_alone(&self) -> Result<DiskLock, ArbiterError> {
        loop {
            match self.try_lock(CHANGE_LOCK).await? {
                Some(lock) => return Ok(lock),
                None => self.clock.sleep(LOOK_EVERY).await,
            }
        }
    }

    /// None if another process, or another task of this one, has the lock.
    async fn try_lock(&self, path: &str) -> Result<Option<DiskLock>, ArbiterError> {
        match self.disk.lock_exclusive(path).await {
            Ok(lock) => Ok(Some(lock)),
            Err(error) if matches!(error.kind, DiskErrorKind::Locked(_)) => Ok(None),
            Err(error) => Err(unavailable(error)),
        }
    }

    async fn read_file(&self) -> Result<(Option<Bytes>, Revision), ArbiterError> {
        let file = match self.disk.open(REGISTER, OpenHow::read()).await {
            Ok(file) => file,
            Err(error) if error.kind == DiskErrorKind::NotFound => {
                return Ok((None, Revision(0)));
            }
            Err(error) => return Err(unavailable(error)),
        };
        let mut bytes = vec![0; HEADER_LEN + super::limits::VALUE_MAX];
        let read = file.read_at(&mut bytes, 0, OnCacheMiss::HandOff).await;
        bytes.truncate(read.map_err(unavailable)?);
        decode(bytes.into())
    }

    async fn write_file(&self, revision: Revision, value: &Bytes) -> Result<(), DiskError> {
        let file = self
            .disk
            .open(NEW_REGISTER, OpenHow::write().create())
            .await?;
        let bytes = encode(revision, value);
        file.set_len(bytes.len() as u64).await?;
        file.write_at(&bytes, 0).await?;
        file.sync_data().await?;
        self.disk.rename(NEW_REGISTER, REGISTER).await?;
        self.disk.sync_dir(".").await
    }
}

fn encode(revision: Revision, value: &Bytes) -> Vec<u8> {
    let mut body = revision.0.to_le_bytes().to_vec();
    body.extend_from_slice(value);
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(value.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

fn decode(bytes: Bytes) -> Result<(Option<Bytes>, Revision), ArbiterError> {
    let refused = |why: &str| {
        Err(ArbiterError::Refused(format!(
            "the file '{REGISTER}' {why}"
        )))
    };
    if bytes.len() < HEADER_LEN || bytes[..8] != MAGIC {
        return refused("is not a register");
    }
    let number = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    if number(8) != VERSION {
        return refused(&format!(
            "has version {}: a newer program wrote it",
            number(8)
        ));
    }
    let crc = u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes"));
    let len = usize::from(number(10));
    if bytes.len() != HEADER_LEN + len || crc32c::crc32c(&bytes[16..]) != crc {
        return refused("is damaged");
    }
    let revision = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes"));
    Ok((Some(bytes.slice(HEADER_LEN..)), Revision(revision)))
}

fn unavailable(error: DiskError) -> ArbiterError {
    ArbiterError::Unavailable(error.to_string())
}

fn unknown(error: DiskError) -> ArbiterError {
    ArbiterError::Unknown(error.to_string())
}
