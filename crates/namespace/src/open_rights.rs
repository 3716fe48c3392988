//! Open rights: the inodes that a session has open, as the open capabilities in its request prove.

use gupfs_proto::capability::Rights;
use gupfs_proto::meta::AccessMode;
use gupfs_proto::{Caller, InodeId};

/// The inodes that the session has open, with their rights, as the request's open capabilities prove.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenRights(Vec<(InodeId, Rights)>);

impl OpenRights {
    /// A request without open capabilities.
    pub const NONE: &'static OpenRights = &OpenRights(Vec::new());

    /// From verified open capabilities.
    pub fn new(mut proved: Vec<(InodeId, Rights)>) -> OpenRights {
        proved.sort_unstable_by_key(|(ino, _)| *ino);
        OpenRights(proved)
    }

    fn allow(&self, ino: InodeId, access: AccessMode) -> bool {
        let from = self.0.partition_point(|(of, _)| *of < ino);
        let of_this = self.0[from..].iter().take_while(|(of, _)| *of == ino);
        of_this.into_iter().any(|(_, rights)| rights.allows(access))
    }

    /// Whether the open capabilities, or root's credentials, allow this access without reading the inode's record.
    pub fn allow_without_record(&self, caller: &Caller, ino: InodeId, access: AccessMode) -> bool {
        caller.is_root() && !access.contains(AccessMode::EXECUTE) || self.allow(ino, access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::user;

    #[test]
    fn open_rights_apply_only_to_their_own_inode() {
        let (one, two, three) = (InodeId(1), InodeId(2), InodeId(3));
        let opens = OpenRights::new(vec![
            (three, Rights::READ),
            (one, Rights::READ),
            (one, Rights::all()),
        ]);
        let user = user(1000);
        let suffice = |ino, access| opens.allow_without_record(&user, ino, access);
        assert!(suffice(one, AccessMode::WRITE) && suffice(one, AccessMode::EXECUTE));
        assert!(!suffice(two, AccessMode::READ) && !suffice(two, AccessMode::WRITE));
        assert!(suffice(three, AccessMode::READ) && !suffice(three, AccessMode::WRITE));
        assert!(OpenRights::NONE.allow_without_record(&Caller::root(), two, AccessMode::WRITE));
        assert!(!OpenRights::NONE.allow_without_record(&user, two, AccessMode::READ));
    }
}
