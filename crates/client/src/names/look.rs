//! Looking things up. Every entry given counts as known by the caller until `Client::forget`.

use crate::answer;
use crate::file::table::{Moment, Seen};
use crate::metrics::Counters;
use crate::service::Client;
use gupfs_proto::meta::{Access, Answer, Op};
use gupfs_proto::{Attr, Caller, InodeId, Name, Refusal};

impl Client {
    /// The inode of a name. The entry counts as given.
    pub async fn lookup(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
    ) -> Result<Attr, Refusal> {
        let op = Op::Lookup {
            dir,
            name: name.clone(),
        };
        self.ask_entry(caller, op).await
    }

    /// The directory above a directory. The entry counts as given.
    pub async fn lookup_parent(&self, caller: &Caller, dir: InodeId) -> Result<Attr, Refusal> {
        self.ask_entry(caller, Op::LookupParent { dir }).await
    }

    /// stat(2).
    pub async fn getattr(&self, caller: &Caller, ino: InodeId) -> Result<Attr, Refusal> {
        loop {
            let moment = self.table.moment();
            let answer = self.ask(caller, Op::GetAttr { ino }).await?;
            let attr = answer::entry("getattr", answer)?;
            if let Some(attr) = self.overlaid(moment, attr).await? {
                return Ok(attr);
            }
            Counters::add(&self.counters.asked_again, 1);
        }
    }

    /// access(2), with the caller's credentials.
    pub async fn access(&self, caller: &Caller, ino: InodeId, want: Access) -> Result<(), Refusal> {
        answer::done("access", self.ask(caller, Op::Access { ino, want }).await?)
    }

    pub async fn readlink(&self, caller: &Caller, ino: InodeId) -> Result<Vec<u8>, Refusal> {
        match self.ask(caller, Op::Readlink { ino }).await? {
            Answer::Link(target) => {
                self.touch(ino).await;
                Ok(target)
            }
            _ => answer::unexpected("readlink"),
        }
    }

    /// Asks for an entry and counts it as given.
    pub(super) async fn ask_entry(&self, caller: &Caller, op: Op) -> Result<Attr, Refusal> {
        let (moment, question) = (self.table.moment(), op.name());
        let attr = answer::entry(question, self.ask(caller, op).await?)?;
        let attr = self.current(moment, attr).await?;
        // Last, and without an await after it: who gives up waiting was not given anything.
        self.ledger.lock().gave(attr.ino);
        Ok(attr)
    }

    /// The attributes as stat(2) should tell them now.
    pub(super) async fn current(&self, moment: Moment, attr: Attr) -> Result<Attr, Refusal> {
        match self.overlaid(moment, attr).await? {
            Some(attr) => Ok(attr),
            None => {
                Counters::add(&self.counters.asked_again, 1);
                self.getattr(&Caller::root(), attr.ino).await
            }
        }
    }

    /// None when the answer may be older than what the file became meanwhile.
    async fn overlaid(&self, moment: Moment, attr: Attr) -> Result<Option<Attr>, Refusal> {
        match self.table.overlay(moment, attr) {
            Seen::Unsure => Ok(None),
            Seen::Sure(attr, None) => Ok(Some(attr)),
            Seen::Sure(mut attr, Some(file)) => {
                self.with_blocks(&file, &mut attr).await?;
                Ok(Some(attr))
            }
        }
    }
}
