//! Extended attributes: passed through.

use crate::answer;
use crate::file::OpenFile;
use crate::service::Client;
use bytes::Bytes;
use gupfs_proto::meta::{Answer, Op, XattrHow, XattrName};
use gupfs_proto::{Caller, InodeId, Mode, Refusal};

impl Client {
    pub async fn getxattr(
        &self,
        caller: &Caller,
        ino: InodeId,
        name: &XattrName,
    ) -> Result<Bytes, Refusal> {
        if name.as_bytes() == XattrName::CAPABILITY && self.has_no_capability(ino) {
            self.within_term().await?;
            if self.has_no_capability(ino) {
                return Err(Refusal::NoAttribute);
            }
        }
        let name = name.clone();
        match self.ask(caller, Op::GetXattr { ino, name }).await? {
            Answer::Xattr(value) => Ok(value),
            _ => answer::unexpected("getxattr"),
        }
    }

    pub async fn listxattr(
        &self,
        caller: &Caller,
        ino: InodeId,
    ) -> Result<Vec<XattrName>, Refusal> {
        match self.ask(caller, Op::ListXattr { ino }).await? {
            Answer::XattrNames(names) => Ok(names),
            _ => answer::unexpected("listxattr"),
        }
    }

    pub async fn setxattr(
        &self,
        caller: &Caller,
        ino: InodeId,
        name: &XattrName,
        value: Bytes,
        how: XattrHow,
    ) -> Result<(), Refusal> {
        let name = name.clone();
        let op = Op::SetXattr {
            ino,
            name,
            value,
            how,
        };
        let answer = self.ask(caller, op).await?;
        self.learn_change(ino, answer)
    }

    pub async fn removexattr(
        &self,
        caller: &Caller,
        ino: InodeId,
        name: &XattrName,
    ) -> Result<(), Refusal> {
        let name = name.clone();
        let answer = self.ask(caller, Op::RemoveXattr { ino, name }).await?;
        self.learn_change(ino, answer)
    }

    /// Before a change of an open file's content by a process without privileges that the kernel does not speak of: setgid
    /// goes also where the group may not execute the file, if the caller is not of the group.
    pub async fn kill_setgid(&self, caller: &Caller, file: &OpenFile) -> Result<(), Refusal> {
        let has_setgid = {
            let state = file.inode.state();
            state.base().is_some_and(|base| base.mode.has(Mode::SETGID))
        };
        match has_setgid {
            true => self.kill_privileges(caller, file.ino()).await,
            false => Ok(()),
        }
    }

    /// setuid, setgid and capabilities of a file go, because a process without privileges is changing it.
    pub async fn kill_privileges(&self, caller: &Caller, ino: InodeId) -> Result<(), Refusal> {
        let op = Op::KillPrivileges { ino };
        let answer = self.ask(caller, op).await?;
        let attr = answer::changed("kill_privileges", answer)?;
        if let Some(file) = self.table.get(ino) {
            let mut state = file.state();
            state.took_privileges(true);
            if let Some(attr) = attr {
                state.said(attr);
            }
        }
        Ok(())
    }

    /// Beginning to write took it away, and another that sets one takes the file back first. Linux asks whenever a file's
    /// owner is changed.
    fn has_no_capability(&self, ino: InodeId) -> bool {
        let Some(file) = self.table.get(ino) else {
            return false;
        };
        let state = file.state();
        state.marked && state.has_no_capability()
    }

    fn learn_change(&self, ino: InodeId, answer: Answer) -> Result<(), Refusal> {
        let attr = answer::changed("setxattr", answer)?;
        if let Some(file) = self.table.get(ino) {
            let mut state = file.state();
            // It may have been security.capability: the next write asks.
            state.may_have_privileges();
            if let Some(attr) = attr {
                state.note(attr);
            }
        }
        Ok(())
    }
}
