//! Access times of what is never open here: directories that are listed, symbolic links that are followed.

use crate::options::AtimeRule;
use crate::service::Client;
use gupfs_proto::meta::{Op, SetAttr, SetTime};
use gupfs_proto::{Caller, InodeId, Refusal};

impl Client {
    /// Something was read. That its time cannot be kept (a full disk, say) is no reason to refuse what was read.
    pub(super) async fn touch(&self, ino: InodeId) {
        if self.options.atime == AtimeRule::Never {
            return;
        }
        if let Err(refusal) = self.try_touch(ino).await {
            tracing::debug!(%ino, %refusal, "an access time is not kept");
        }
    }

    async fn try_touch(&self, ino: InodeId) -> Result<(), Refusal> {
        let attr = self.getattr(&Caller::root(), ino).await?;
        let now = self.platform.clock.now();
        if !self.options.atime.moves(&attr, now) {
            return Ok(());
        }
        let set = SetAttr {
            atime: Some(SetTime::To(now)),
            // Reading does not change the inode: its ctime stays.
            ctime: Some(attr.ctime),
            ..SetAttr::default()
        };
        self.ask(&Caller::root(), Op::SetAttr { ino, set })
            .await
            .map(|_| ())
    }
}
