//! `FakeFile`: an open file of one process.

use super::calls::CallKind;
use super::content::Survival;
use super::state::{Instance, State, errno, pause};
use crate::disk::{Advice, DiskStat, OnCacheMiss, Result};
use bytes::BytesMut;
use parking_lot::Mutex;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

#[derive(Clone)]
pub(crate) struct FakeFile {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) instance: Instance,
    pub(super) id: u64,
    pub(super) path: Arc<str>,
    pub(super) write: bool,
    /// Number of write errors of the file that this descriptor has reported.
    pub(super) known_errors: Arc<AtomicU64>,
    pub(super) _open: Arc<()>,
}

impl FakeFile {
    async fn call<T>(
        &self,
        kind: CallKind,
        op: &'static str,
        run: impl FnOnce(&mut State, u64) -> Result<T>,
    ) -> Result<T> {
        pause(&self.state).await;
        let mut state = self.state.lock();
        let fate = state.begin_call(self.instance, kind, op, &self.path)?;
        let done = run(&mut state, self.id)?;
        state.end_call(fate, op, &self.path, done)
    }

    /// A call that modifies the file.
    async fn modify(
        &self,
        op: &'static str,
        run: impl FnOnce(&mut State, u64) -> Result<()>,
    ) -> Result<()> {
        self.call(CallKind::Write, op, |state, id| {
            if !self.write {
                return Err(errno(op, &self.path, libc::EBADF));
            }
            let now = state.now();
            let before = state.files[&id].content.allocated();
            let done = run(state, id);
            let file = state.files.get_mut(&id).expect("an open file");
            file.mtime = now;
            state.used = state.used - before + file.content.allocated();
            done
        })
        .await
    }

    pub async fn read_at(
        &self,
        buf: &mut [u8],
        offset: u64,
        _on_miss: OnCacheMiss,
    ) -> Result<usize> {
        self.call(CallKind::Read, "read", |state, id| {
            Ok(state.files[&id].content.read(buf, offset))
        })
        .await
    }

    pub async fn read_owned<B>(
        &self,
        mut buf: B,
        offset: u64,
        on_miss: OnCacheMiss,
    ) -> Result<(B, usize)>
    where
        B: AsMut<[u8]> + Send + 'static,
    {
        let got = self.read_at(buf.as_mut(), offset, on_miss).await?;
        Ok((buf, got))
    }

    pub async fn read_append(
        &self,
        mut buf: BytesMut,
        len: usize,
        offset: u64,
        on_miss: OnCacheMiss,
    ) -> Result<BytesMut> {
        let had = buf.len();
        buf.resize(had + len, 0);
        let got = self.read_at(&mut buf[had..], offset, on_miss).await?;
        buf.truncate(had + got);
        Ok(buf)
    }

    pub async fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let op = "write";
        self.modify(op, |state, id| {
            let stamp = state.stamp;
            let cost = state.files[&id].content.cost(offset, bytes.len() as u64);
            let fits = state.check_space(cost);
            let content = &mut state.files.get_mut(&id).expect("an open file").content;
            match fits {
                Ok(()) => content.write(bytes, offset, stamp),
                Err(free) => {
                    // As the kernel: it writes the part that fits, and then returns the error.
                    let mut some = bytes.len() as u64;
                    while some > 0 && content.cost(offset, some) > free {
                        some /= 2;
                    }
                    content.write(&bytes[..some as usize], offset, stamp);
                    return Err(errno(op, &self.path, libc::ENOSPC));
                }
            }
            Ok(())
        })
        .await
    }

    pub async fn write_vectored_at(&self, parts: &[IoSlice<'_>], offset: u64) -> Result<()> {
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        self.write_at(&whole, offset).await
    }

    pub async fn sync_data(&self) -> Result<()> {
        let op = "sync";
        pause(&self.state).await;
        let (fate, stamp, fails) = {
            let mut state = self.state.lock();
            let fate = state.begin_call(self.instance, CallKind::Sync, op, &self.path)?;
            let fails = state.sync_fails();
            (fate, state.stamp, fails)
        };
        pause(&self.state).await; // a write during this pause is not part of the sync
        let mut state = self.state.lock();
        state.check_alive(self.instance, op, &self.path)?;
        let random = state.random.clone();
        let content = &mut state.files.get_mut(&self.id).expect("an open file").content;
        if fails {
            content.lose(stamp, Survival::random(&random), &random);
            return Err(errno(op, &self.path, libc::EIO));
        }
        content.make_durable(stamp);
        let failures = &mut state
            .files
            .get_mut(&self.id)
            .expect("an open file")
            .write_errors;
        if failures.report_to(&self.known_errors) {
            return Err(errno(op, &self.path, libc::EIO));
        }
        state.end_call(fate, op, &self.path, ())
    }

    pub async fn sync_all(&self) -> Result<()> {
        self.sync_data().await
    }

    pub async fn stat(&self) -> Result<DiskStat> {
        self.call(CallKind::Name, "stat", |state, id| Ok(state.file_stat(id)))
            .await
    }

    pub async fn set_len(&self, len: u64) -> Result<()> {
        self.modify("set the length of", |state, id| {
            let stamp = state.stamp;
            let file = state.files.get_mut(&id).expect("an open file");
            file.content.set_len(len, stamp);
            Ok(())
        })
        .await
    }

    pub async fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.reserve(offset, len, true).await
    }

    pub async fn allocate_keeping_len(&self, offset: u64, len: u64) -> Result<()> {
        self.reserve(offset, len, false).await
    }

    async fn reserve(&self, offset: u64, len: u64, grow: bool) -> Result<()> {
        let op = "allocate";
        if len == 0 {
            return Ok(());
        }
        self.modify(op, |state, id| {
            let stamp = state.stamp;
            let cost = state.files[&id].content.cost(offset, len);
            if state.check_space(cost).is_err() {
                return Err(errno(op, &self.path, libc::ENOSPC));
            }
            let content = &mut state.files.get_mut(&id).expect("an open file").content;
            content.reserve(offset, len, stamp);
            if grow {
                content.grow(offset + len, stamp);
            }
            Ok(())
        })
        .await
    }

    pub async fn zero_fill(&self, offset: u64, len: u64) -> Result<()> {
        self.write_at(&vec![0; len as usize], offset).await
    }

    pub async fn zero_range(&self, offset: u64, len: u64) -> Result<()> {
        self.clear("zero", offset, len, true).await
    }

    pub async fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        self.clear("punch a hole in", offset, len, false).await
    }

    async fn clear(&self, op: &'static str, offset: u64, len: u64, keep: bool) -> Result<()> {
        self.modify(op, |state, id| {
            let stamp = state.stamp;
            let content = &mut state.files.get_mut(&id).expect("an open file").content;
            content.clear(offset, len, keep, stamp);
            Ok(())
        })
        .await
    }

    pub async fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        self.call(CallKind::Read, "seek in", |state, id| {
            Ok(state.files[&id].content.seek(offset, true))
        })
        .await
    }

    pub async fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        self.call(CallKind::Read, "seek in", |state, id| {
            Ok(state.files[&id].content.seek(offset, false))
        })
        .await
    }

    pub fn read_ahead(&self, _offset: u64, _len: u64) {}

    pub fn start_write_back(&self, _offset: u64, _len: u64) {}

    pub fn advise(&self, _offset: u64, _len: u64, _advice: Advice) -> Result<()> {
        Ok(())
    }
}
