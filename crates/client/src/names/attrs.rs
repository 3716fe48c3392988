//! chmod, chown, utimens: the server decides, after it knows what was written.

use crate::answer;
use crate::file::table::File;
use crate::service::Client;
use gupfs_proto::meta::{Op, SetAttr};
use gupfs_proto::{Attr, Caller, InodeId, Refusal};

impl Client {
    /// Everything setattr can change but the size, which `truncate` does.
    pub async fn setattr(
        &self,
        caller: &Caller,
        ino: InodeId,
        set: SetAttr,
    ) -> Result<Attr, Refusal> {
        let moment = self.table.moment();
        let op = Op::SetAttr { ino, set };
        let attr = match self.table.get(ino) {
            None => answer::entry("setattr", self.ask(caller, op).await?)?,
            Some(file) => self.setattr_of(caller, &file, op, set).await?,
        };
        self.current(moment, attr).await
    }

    async fn setattr_of(
        &self,
        caller: &Caller,
        file: &File,
        op: Op,
        set: SetAttr,
    ) -> Result<Attr, Refusal> {
        let _telling = file.telling.lock().await;
        let before = file.state().times();
        let attr = answer::entry("setattr", self.ask(caller, op).await?)?;
        let mut state = file.state();
        state.times_were_set(set.mtime.is_some(), set.atime.is_some(), before);
        // A new mode may bring privileges: the next write asks.
        state.may_have_privileges();
        state.said(attr);
        Ok(attr)
    }
}
