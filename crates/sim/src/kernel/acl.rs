//! Access ACLs, which the kernel caches beside the attributes, without a lifetime.

use super::inode_ref::InodeRef;
use super::state::Needed;
use super::walk::WalkMode;
use super::{Kernel, Quirk};
use gupfs_fuse::op::{self, EntryName};
use gupfs_fuse::{Errno, FileSystem, InitFlags, Result, XattrReply};
use tokio::time::Instant;

/// The extended attribute that holds an access ACL.
const ACCESS_ACL: &[u8] = b"system.posix_acl_access";

/// The longest ACL that the kernel asks for.
const ACL_MAX: u32 = 4096;

impl<F: FileSystem> Kernel<F> {
    /// getxattr(2) of the access ACL; None if the file has none.
    pub(super) async fn access_acl(
        &self,
        start: &InodeRef,
        path: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        if !self.flags.contains(InitFlags::POSIX_ACL) {
            return Err(Errno::EOPNOTSUPP);
        }
        let inode = self.walk(start, path, WalkMode::FOLLOW).await?;
        let drops = {
            let mut state = self.state();
            let known = state.node_mut(inode.node())?;
            if self.has_quirk(Quirk::AclsExpireWithAttributes)
                && !known.attributes_valid_at(Instant::now(), Needed::Basic)
            {
                known.drop_acl();
            }
            match &known.acl {
                Some(acl) if !self.has_quirk(Quirk::AclsNotCached) => return Ok(acl.clone()),
                _ => known.acl_drops,
            }
        };
        let acl = self.request_acl(&inode).await?;
        let mut state = self.state();
        let known = state.node_mut(inode.node())?;
        if known.acl_drops == drops {
            known.acl = Some(acl.clone());
        }
        drop(state);
        Ok(acl)
    }

    async fn request_acl(&self, inode: &InodeRef) -> Result<Option<Vec<u8>>> {
        let request = op::Getxattr {
            name: EntryName::new(ACCESS_ACL),
            size: ACL_MAX,
        };
        let reply = self.fs.getxattr(self.call(inode.node()), request);
        match self.wait_reply(reply).await {
            Ok(XattrReply::Value(acl)) => Ok(Some(acl)),
            Ok(XattrReply::Size(_)) => Err(Errno::EIO),
            Err(Errno::ENODATA | Errno::EOPNOTSUPP | Errno::ENOSYS) => Ok(None),
            Err(Errno::ERANGE) => Err(Errno::E2BIG),
            Err(errno) => Err(errno),
        }
    }
}
