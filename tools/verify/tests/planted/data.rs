//! The bytes and locks of the file system, as one mount serves them.

use std::time::Duration;

use fuser::Errno;

use crate::faults::Fault;
use crate::served::Served;
use crate::state::{Lock, Outcome, State};

const BLOCK: u64 = 4096;

impl Served {
    pub(crate) fn read_bytes(&self, inode: u64, from: u64, size: u64) -> Outcome<Vec<u8>> {
        let mut state = self.state();
        let late = self.switch.is(Fault::OldFileOldBytes) && state.is_old(inode);
        if (late || self.switch.is(Fault::WriteBehind))
            && let Some(old) = state
                .old_data
                .get(&inode)
                .and_then(|old| old.seen_by(self.mount))
        {
            let end = (from + size).min(old.len() as u64);
            return Ok(old[from.min(end) as usize..end as usize].to_vec());
        }
        let bytes = state.bytes(inode)?.clone();
        let end = (from + size).min(bytes.len() as u64);
        let mut read = bytes[from.min(end) as usize..end as usize].to_vec();
        if self.switch.is(Fault::MissedInvalidation) {
            self.through_the_cache(&mut state, inode, &bytes, from, &mut read);
        }
        if self.switch.strikes(Fault::ZerosForBytes, 200) {
            read.fill(0);
        }
        Ok(read)
    }

    /// What a cache of blocks makes of a read.
    pub(crate) fn through_the_cache(
        &self,
        state: &mut State,
        inode: u64,
        bytes: &[u8],
        from: u64,
        read: &mut [u8],
    ) {
        let end = from + read.len() as u64;
        for block in from / BLOCK..end.div_ceil(BLOCK) {
            let start = block * BLOCK;
            let end_of_block = bytes.len().min((start + BLOCK) as usize);
            let whole = &bytes[end_of_block.min(start as usize)..end_of_block];
            let cached = state
                .cached
                .entry((self.mount, inode, block))
                .or_insert_with(|| whole.to_vec());
            for at in start.max(from)..(start + cached.len() as u64).min(end) {
                read[(at - from) as usize] = cached[(at - start) as usize];
            }
        }
    }

    /// Blocks that were changed leave the caches of all mounts, nearly always. (A block is cached as far as the file reached, so
    /// none changes when the file grows.)
    pub(crate) fn invalidate(&self, state: &mut State, inode: u64, from: u64, to: u64) {
        if !self.switch.is(Fault::MissedInvalidation) {
            return;
        }
        // In the short form there is no time for ten thousand chances.
        let rarely = match std::env::var_os("PLANTED_SECONDS") {
            Some(_) => 10_000,
            None => 300,
        };
        let blocks = from / BLOCK..to.div_ceil(BLOCK);
        let mut cached = Vec::new();
        for mount in 0..2 {
            let those = (mount, inode, blocks.start)..(mount, inode, blocks.end);
            cached.extend(state.cached.range(those).map(|(key, _)| *key));
        }
        for key in cached {
            if key.0 == self.mount || !self.switch.strikes(Fault::MissedInvalidation, rarely) {
                state.cached.remove(&key);
            }
        }
    }

    pub(crate) fn write_bytes(
        &self,
        inode: u64,
        from: u64,
        data: &[u8],
        append: bool,
    ) -> Outcome<()> {
        let mut state = self.state_without_pages(inode);
        let mut from = from as usize;
        if append {
            from = state.bytes(inode)?.len();
            if self.switch.strikes(Fault::LostAppend, 50) {
                return Ok(());
            }
            if self.switch.is(Fault::AppendsOverlap) {
                // Between looking for the end and writing there another may do the same.
                drop(state);
                std::thread::sleep(Duration::from_micros(50));
                state = self.state();
            }
        }
        self.before_change(&mut state, inode);
        let mut data = data;
        let border = (from as u64 / BLOCK + 1) * BLOCK;
        let crosses = (from + data.len()) as u64 > border;
        if crosses && self.switch.strikes(Fault::TornWrite, 20) {
            data = &data[..border as usize - from];
        }
        let end = from + data.len();
        self.grow(&mut state, inode, end)?;
        let bytes = state.bytes(inode)?;
        bytes[from..end].copy_from_slice(data);
        self.invalidate(&mut state, inode, from as u64, end as u64);
        Ok(())
    }

    pub(crate) fn grow(&self, state: &mut State, inode: u64, end: usize) -> Outcome<()> {
        let cut = match self.switch.is(Fault::CutBytesReturn) {
            true => state.cut.remove(&inode).unwrap_or_default(),
            false => Vec::new(),
        };
        let bytes = state.bytes(inode)?;
        if bytes.len() < end {
            let old = bytes.len();
            bytes.resize(end, 0);
            let there = end.min(cut.len()).max(old);
            if there <= cut.len() {
                bytes[old..there].copy_from_slice(&cut[old..there]);
            }
        }
        Ok(())
    }

    pub(crate) fn cut_to(&self, state: &mut State, inode: u64, size: usize) -> Outcome<()> {
        self.before_change(state, inode);
        if size > state.bytes(inode)?.len() {
            self.grow(state, inode, size)?;
        } else {
            if self.switch.is(Fault::CutBytesReturn) {
                let whole = state.bytes(inode)?.clone();
                state.cut.insert(inode, whole);
            }
            state.bytes(inode)?.truncate(size);
            self.invalidate(state, inode, size as u64, u64::MAX);
        }
        Ok(())
    }

    pub(crate) fn allocated(&self, inode: u64, from: u64, length: u64, mode: i32) -> Outcome<()> {
        let mut state = self.state_without_pages(inode);
        self.before_change(&mut state, inode);
        let end = (from + length) as usize;
        let zeros = mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0;
        if mode & libc::FALLOC_FL_KEEP_SIZE == 0 {
            self.grow(&mut state, inode, end)?;
        }
        if zeros && !self.switch.is(Fault::PunchKeepsBytes) {
            let bytes = state.bytes(inode)?;
            let end = end.min(bytes.len());
            bytes[(from as usize).min(end)..end].fill(0);
            self.invalidate(&mut state, inode, from, from + length);
        }
        Ok(())
    }

    pub(crate) fn locked(
        &self,
        inode: u64,
        owner: u64,
        start: u64,
        end: u64,
        kind: i32,
    ) -> Outcome<()> {
        let mut state = self.state();
        let owner = (self.mount, owner);
        let exclusive = kind == libc::F_WRLCK;
        let locks = state.locks.entry(inode).or_default();
        let meets = |lock: &Lock| lock.start <= end && start <= lock.end;
        let taken = locks
            .iter()
            .any(|lock| lock.owner != owner && meets(lock) && (exclusive || lock.exclusive));
        if kind != libc::F_UNLCK && taken && !self.switch.strikes(Fault::LockGrantedTwice, 10) {
            return Err(Errno::EAGAIN);
        }
        // The checker frees exactly what it locked.
        locks.retain(|lock| lock.owner != owner || !meets(lock));
        if kind != libc::F_UNLCK {
            locks.push(Lock {
                owner,
                start,
                end,
                exclusive,
            });
        }
        Ok(())
    }
}
