//! fallocate(2): space ahead of writes, holes, zeros.

use super::flush::Span;
use super::handle::OpenFile;
use super::inline;
use super::objects::existing;
use super::state::Home;
use super::table::File;
use crate::answer;
use crate::service::Client;
use bytes::Bytes;
use gupfs_proto::data;
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::meta::{Access, WriteAt};
use gupfs_proto::{Caller, Presence, Refusal};

/// What fallocate(2) is to do with a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocateHow {
    /// Space for it. `keep_size`: even beyond the end of the file, which stays.
    Allocate { keep_size: bool },
    /// A hole; the file's size stays.
    Punch,
    /// It reads zeros, and space for it.
    Zero { keep_size: bool },
}

impl AllocateHow {
    fn grows(self) -> bool {
        matches!(
            self,
            AllocateHow::Allocate { keep_size: false } | AllocateHow::Zero { keep_size: false }
        )
    }

    fn zeroes(self) -> bool {
        !matches!(self, AllocateHow::Allocate { .. })
    }
}

impl Client {
    pub async fn allocate(
        &self,
        file: &OpenFile,
        how: AllocateHow,
        offset: u64,
        len: u64,
        kill_privileges: bool,
    ) -> Result<(), Refusal> {
        if !file.access().contains(Access::WRITE) {
            return Err(Refusal::Denied);
        }
        if len == 0 {
            return Err(Refusal::Invalid);
        }
        self.must_count(file)?;
        let end = offset.checked_add(len).filter(|end| *end <= FILE_SIZE_MAX);
        let end = end.ok_or(Refusal::TooLarge)?;
        let inode = &file.inode;
        let _all = inode.ranges.whole().await;
        inode.state().size_to_write()?;
        if self.options.shared {
            // What another wrote counts, and nobody writes meanwhile.
            self.hold(inode, kill_privileges).await?;
        }
        let home = inode.state().home();
        if home == Home::Inode && (how == AllocateHow::Punch || inline::fits(end)) {
            return self
                .allocate_inline(inode, how, offset, end, kill_privileges)
                .await;
        }
        self.hold(inode, kill_privileges).await?;
        if how.zeroes() && inode.state().is_append_only() {
            return Err(Refusal::NotPermitted);
        }
        self.within_term().await?;
        let done = self.allocate_objects(inode, how, offset, end).await;
        if done.is_err() {
            self.after_failure(inode, true).await;
        }
        done
    }

    /// Space in an inode needs no preparation: only zeros and size matter.
    async fn allocate_inline(
        &self,
        inode: &File,
        how: AllocateHow,
        offset: u64,
        end: u64,
        kill_privileges: bool,
    ) -> Result<(), Refusal> {
        let have = inode.state().inline().len() as u64;
        if how.zeroes() && offset < have {
            let zeros = Bytes::from(vec![0; (end.min(have) - offset) as usize]);
            let at = WriteAt::Offset(offset);
            let done = self
                .write_inline(inode, at, &zeros, kill_privileges)
                .await?;
            if done.is_none() {
                return answer::unexpected("write_inline");
            }
        }
        if how.grows() && end > inode.state().size {
            self.resize(inode, &Caller::root(), end, true, kill_privileges)
                .await?;
        }
        Ok(())
    }

    async fn allocate_objects(
        &self,
        inode: &File,
        how: AllocateHow,
        offset: u64,
        end: u64,
    ) -> Result<(), Refusal> {
        if how.grows() && end > inode.state().size {
            self.cut_before_growth(inode).await?;
        }
        let mut has_touched = how != AllocateHow::Punch;
        if how.zeroes() {
            let spans = inode.state().spans(inode.ino, offset, end);
            let punch = how == AllocateHow::Punch;
            has_touched |= self.zero_spans(inode, &spans, punch).await?;
        }
        if how != AllocateHow::Punch {
            self.allocate_spans(inode, how.grows(), offset, end).await?;
        }
        let end = if how.grows() { end } else { 0 };
        inode.state().wrote(end, self.platform.clock.now());
        if !has_touched {
            // A hole where there was one: no object has the new time, and our end would lose it.
            let _telling = inode.telling.lock().await;
            self.tell(inode).await?;
        }
        Ok(())
    }

    /// Zeros over spans of objects that may exist; a hole if `punch`. Whether any object had bytes there, and has a new time.
    async fn zero_spans(&self, inode: &File, spans: &[Span], punch: bool) -> Result<bool, Refusal> {
        let mut has_touched = false;
        for span in spans.iter().filter(|span| span.presence != Presence::Never) {
            inode.state().touch(span.component, span.stripe);
            let op = data::Op::Zero {
                object: span.object,
                at: span.at,
                len: span.len,
                punch,
            };
            let stat = answer::written("zero", self.ask_ost(span.ost, op).await?)?;
            has_touched |= span.at.0 < stat.0.size;
            inode.state().cleared(span.component, span.stripe, stat);
        }
        Ok(has_touched)
    }

    async fn allocate_spans(
        &self,
        inode: &File,
        grows: bool,
        offset: u64,
        end: u64,
    ) -> Result<(), Refusal> {
        let (spans, owner) = {
            let mut state = inode.state();
            if grows {
                // Should one object refuse, others are longer than the file all the same.
                state.beyond = state.beyond.max(end);
            }
            (state.spans(inode.ino, offset, end), state.owner())
        };
        for span in spans {
            inode.state().touch(span.component, span.stripe);
            let op = data::Op::Allocate {
                object: span.object,
                at: span.at,
                len: span.len,
                keep_size: !grows,
                existing: existing(span.presence),
                owner,
            };
            let stat = answer::written("allocate", self.ask_ost(span.ost, op).await?)?;
            inode.state().written(span.component, span.stripe, stat);
        }
        Ok(())
    }
}
