//! Calls about one object each, and what their answers teach about the file.

use super::table::File;
use crate::answer;
use crate::join;
use crate::limits::PIECE;
use crate::service::Client;
use gupfs_proto::data::{self, Existing};
use gupfs_proto::limits::PAYLOAD_MAX;
use gupfs_proto::meta::Op;
use gupfs_proto::{Attr, Caller, ObjectId, OstId, Presence, Refusal};

/// What to tell the target of an object we know this about.
pub fn existing(presence: Presence) -> Existing {
    match presence {
        Presence::Present => Existing::Certain,
        Presence::Never | Presence::Maybe => Existing::Perhaps,
    }
}

impl Client {
    /// Bytes of one message to a target. One of this process gets all at once.
    pub(super) fn piece_most(&self) -> u64 {
        match self.route.is_found() {
            true => PIECE,
            false => PAYLOAD_MAX.0,
        }
    }

    /// Asks the targets about objects whose space or existence is not known.
    pub(super) async fn learn(&self, inode: &File) -> Result<(), Refusal> {
        let unknown = inode.state().unknown(inode.ino);
        if unknown.is_empty() {
            return Ok(());
        }
        let asked = unknown.into_iter().map(|(ost, object)| async move {
            let op = data::Op::Stat { object };
            match self.ask_ost(ost, op).await? {
                data::Answer::Stat(stat) => Ok((object, stat)),
                _ => answer::unexpected("stat"),
            }
        });
        for found in join::all(asked.collect()).await {
            let (object, stat) = found?;
            inode.state().learned(object, stat);
        }
        Ok(())
    }

    /// Completes attributes of a held file: the space of objects nobody has asked about yet.
    pub(crate) async fn with_blocks(&self, inode: &File, attr: &mut Attr) -> Result<(), Refusal> {
        if inode.state().marked {
            self.learn(inode).await?;
        }
        if let Some(blocks) = inode.state().blocks_by_us() {
            attr.blocks = blocks;
        }
        Ok(())
    }

    /// Cuts off what failed writes left beyond the end of the file, before the file grows over it: it must read zeros.
    /// The caller has everything from the file's end on for itself, and `telling`.
    pub(super) async fn cut_leftovers(&self, inode: &File) -> Result<(), Refusal> {
        if inode.state().cut_is_promised {
            return self.promise_cut(inode).await;
        }
        self.cut_by_ourselves(inode).await
    }

    /// The same for a caller that has not `telling`.
    pub(super) async fn cut_before_growth(&self, inode: &File) -> Result<(), Refusal> {
        let is_clean = {
            let state = inode.state();
            state.beyond <= state.size && !state.cut_is_promised
        };
        if is_clean {
            return Ok(());
        }
        let _telling = inode.telling.lock().await;
        self.cut_leftovers(inode).await
    }

    async fn cut_by_ourselves(&self, inode: &File) -> Result<(), Refusal> {
        let cuts: Vec<(usize, usize, OstId, ObjectId, u64)> = {
            let mut state = inode.state();
            if state.beyond <= state.size {
                return Ok(());
            }
            let (size, beyond) = (state.size, state.beyond);
            let spans = state.spans(inode.ino, size, beyond);
            let cuts = spans
                .into_iter()
                .filter(|span| span.presence != Presence::Never);
            let cuts: Vec<_> = cuts
                .map(|s| (s.component, s.stripe, s.ost, s.object, s.at.0))
                .collect();
            for cut in &cuts {
                state.touch(cut.0, cut.1);
            }
            cuts
        };
        let cut = cuts
            .into_iter()
            .map(|(component, stripe, ost, object, to)| async move {
                let cut = self.ask_ost(ost, data::Op::Cut { object, to }).await?;
                let stat = answer::written("cut", cut)?;
                inode.state().cleared(component, stripe, stat);
                Ok(())
            });
        // Each is tried, also when one fails; those that were cut have a new time.
        let outcomes = join::all(cut.collect()).await;
        let mut state = inode.state();
        if state.marked {
            state.wrote(0, self.platform.clock.now());
        }
        outcomes.into_iter().collect::<Result<(), Refusal>>()?;
        state.beyond = state.size;
        Ok(())
    }

    /// Has the server record where the file ends, and that what lies behind it is to be cut. From then on our end does not make that part of the
    /// file, and the server cuts it as soon as the OST does it. Ok when it is done. The caller has `telling`.
    async fn promise_cut(&self, inode: &File) -> Result<(), Refusal> {
        self.tell(inode).await?;
        let to = {
            let mut state = inode.state();
            state.cut_is_promised = true;
            state.size
        };
        let op = Op::Truncate {
            ino: inode.ino,
            to,
            by_handle: true,
            kill_privileges: false,
        };
        let answer = self.ask(&Caller::root(), op).await?;
        let opened = answer::opened("truncate", answer)?;
        self.table.count_no_more(inode.ino);
        inode.state().load(opened);
        Ok(())
    }

    /// After a change that failed half way. Were we to die, the objects would say how the file stands: what lies behind its
    /// end goes, and their times become the file's. What an OST refuses to cut the server records.
    pub(super) async fn after_failure(&self, inode: &File, has_end: bool) {
        if has_end && let Err(refusal) = self.cut_before_growth(inode).await {
            let _telling = inode.telling.lock().await;
            // It refuses, too, as long as the OST does; its record stands.
            let promised = self.promise_cut(inode).await;
            tracing::warn!(
                ino = %inode.ino, %refusal, ?promised,
                "what a failed write left behind the file's end cannot be cut now; the metadata server was asked to see to it"
            );
        }
        inode.state().wrote(0, self.platform.clock.now());
    }
}
