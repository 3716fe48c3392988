//! POSIX access control lists: the binary form of Linux's `system.posix_acl_*` attributes, the access that they grant, and how a
//! change of the list changes the mode and vice versa (POSIX 1003.1e draft 17, as in Linux).

use gupfs_proto::meta::AccessMode;
use gupfs_proto::{Caller, FileMode, FsError};
use serde::{Deserialize, Serialize};

/// The extended attribute names of the two lists.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

/// A valid list. Rights are the three low bits: read 4, write 2, execute 1.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Acl {
    pub owner: u8,
    pub users: Vec<(u32, u8)>,
    pub group: u8,
    pub groups: Vec<(u32, u8)>,
    /// Limits users, group and groups; present whenever `users` or `groups` is not empty.
    pub mask: Option<u8>,
    pub other: u8,
}

const VERSION: u32 = 2;
const HEADER: usize = 4;
const ENTRY: usize = 8;
const RIGHTS: u8 = 7;

/// The largest extended attribute value limits the list; a longer list could not be read back.
const ENTRIES_MAX: usize = (gupfs_proto::limits::XATTR_VALUE_MAX - HEADER) / ENTRY;

mod tag {
    pub const OWNER: u16 = 0x01;
    pub const USER: u16 = 0x02;
    pub const GROUP: u16 = 0x04;
    pub const NAMED_GROUP: u16 = 0x08;
    pub const MASK: u16 = 0x10;
    pub const OTHER: u16 = 0x20;
}

/// The id of entries without a user or group.
const NO_ID: u32 = u32::MAX;

impl Acl {
    /// None for a list without entries, which means: no list.
    ///
    /// # Errors
    /// `NotSupported` for another version, `Invalid` for a list that Linux rejects.
    pub fn parse(value: &[u8]) -> Result<Option<Acl>, FsError> {
        let (version, body) = value
            .split_first_chunk::<HEADER>()
            .ok_or(FsError::Invalid)?;
        if u32::from_le_bytes(*version) != VERSION {
            return Err(FsError::NotSupported);
        }
        let (entries, []) = body.as_chunks::<ENTRY>() else {
            return Err(FsError::Invalid);
        };
        if entries.len() > ENTRIES_MAX {
            return Err(FsError::Invalid);
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let (mut owner, mut group, mut other, mut mask) = (None, None, None, None);
        let (mut users, mut groups) = (Vec::new(), Vec::new());
        let mut last = 0;
        for [t0, t1, p0, p1, i0, i1, i2, i3] in entries {
            let tag = u16::from_le_bytes([*t0, *t1]);
            let rights = u16::from_le_bytes([*p0, *p1]);
            let id = u32::from_le_bytes([*i0, *i1, *i2, *i3]);
            let rights = u8::try_from(rights)
                .ok()
                .filter(|r| *r <= RIGHTS)
                .ok_or(FsError::Invalid)?;
            // Tags must ascend; only named users and groups may repeat.
            if tag < last || (tag == last && !matches!(tag, tag::USER | tag::NAMED_GROUP)) {
                return Err(FsError::Invalid);
            }
            last = tag;
            match tag {
                tag::OWNER => owner = Some(rights),
                tag::USER if id != NO_ID => users.push((id, rights)),
                tag::GROUP => group = Some(rights),
                tag::NAMED_GROUP if id != NO_ID => groups.push((id, rights)),
                tag::MASK => mask = Some(rights),
                tag::OTHER => other = Some(rights),
                _ => return Err(FsError::Invalid),
            }
        }
        let (Some(owner), Some(group), Some(other)) = (owner, group, other) else {
            return Err(FsError::Invalid);
        };
        if mask.is_none() && !(users.is_empty() && groups.is_empty()) {
            return Err(FsError::Invalid);
        }
        Ok(Some(Acl {
            owner,
            users,
            group,
            groups,
            mask,
            other,
        }))
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        let mut put = |tag: u16, rights: u8, id: u32| {
            value.extend_from_slice(&tag.to_le_bytes());
            value.extend_from_slice(&u16::from(rights).to_le_bytes());
            value.extend_from_slice(&id.to_le_bytes());
        };
        put(tag::OWNER, self.owner, NO_ID);
        self.users
            .iter()
            .for_each(|(id, rights)| put(tag::USER, *rights, *id));
        put(tag::GROUP, self.group, NO_ID);
        self.groups
            .iter()
            .for_each(|(id, rights)| put(tag::NAMED_GROUP, *rights, *id));
        if let Some(mask) = self.mask {
            put(tag::MASK, mask, NO_ID);
        }
        put(tag::OTHER, self.other, NO_ID);
        value
    }

    /// The nine permission bits of the mode for this list: the group bits are the mask.
    pub fn mode_bits(&self) -> u16 {
        u16::from(self.owner) << 6
            | u16::from(self.mask.unwrap_or(self.group)) << 3
            | u16::from(self.other)
    }

    /// Whether the mode alone expresses this list.
    pub fn is_minimal(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty() && self.mask.is_none()
    }

    /// chmod(2): sets owner, mask (or group, without a mask) and other from the mode.
    pub fn apply_mode(&mut self, mode: FileMode) {
        let [owner, group, other] = permission_classes(mode);
        self.owner = owner;
        *self.mask.as_mut().unwrap_or(&mut self.group) = group;
        self.other = other;
    }

    /// The access ACL and mode of a new inode in a directory with this default ACL: each class gets what both the ACL and the
    /// requested mode grant; umask is not used. No ACL if the mode alone expresses it.
    pub fn inherit(&self, mode: FileMode) -> (Option<Acl>, FileMode) {
        let [owner, group, other] = permission_classes(mode);
        let mut acl = self.clone();
        acl.owner &= owner;
        *acl.mask.as_mut().unwrap_or(&mut acl.group) &= group;
        acl.other &= other;
        let mode = FileMode(mode.0 & !0o777 | acl.mode_bits());
        ((!acl.is_minimal()).then_some(acl), mode)
    }

    /// Whether the list grants all of `want` to a caller that is not root. The first class that matches decides; among
    /// matching groups, one that grants all of `want` is enough.
    pub fn grants(&self, caller: &Caller, uid: u32, gid: u32, want: AccessMode) -> bool {
        let want = want.bits();
        let has = |rights: u8| rights & want == want;
        let masked = |rights: u8| has(rights & self.mask.unwrap_or(RIGHTS));
        if caller.uid == uid {
            return has(self.owner);
        }
        if let Some((_, rights)) = self.users.iter().find(|(id, _)| *id == caller.uid) {
            return masked(*rights);
        }
        let mut matching = std::iter::once((gid, self.group))
            .chain(self.groups.iter().copied())
            .filter(|(id, _)| caller.in_group(*id))
            .map(|(_, rights)| masked(rights))
            .peekable();
        if matching.peek().is_some() {
            matching.any(|granted| granted)
        } else {
            has(self.other)
        }
    }
}

/// Owner, group, other.
pub(crate) fn permission_classes(mode: FileMode) -> [u8; 3] {
    [6, 3, 0].map(|shift| (mode.0 >> shift) as u8 & RIGHTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Acl {
        Acl {
            owner: 7,
            users: vec![(1000, 6), (1001, 7)],
            group: 5,
            groups: vec![(50, 7)],
            mask: Some(5),
            other: 0,
        }
    }

    #[test]
    fn a_list_reads_back_as_it_was_written() {
        assert_eq!(Acl::parse(&list().to_bytes()), Ok(Some(list())));
        assert_eq!(list().to_bytes().len(), 4 + 7 * 8);
    }

    #[test]
    fn lists_that_linux_rejects_are_invalid() {
        let good = list().to_bytes();
        assert_eq!(Acl::parse(&[]), Err(FsError::Invalid));
        assert_eq!(Acl::parse(&good[..good.len() - 1]), Err(FsError::Invalid));
        assert_eq!(Acl::parse(&[3, 0, 0, 0]), Err(FsError::NotSupported));
        assert_eq!(Acl::parse(&[2, 0, 0, 0]), Ok(None));
        let without_mask = Acl {
            mask: None,
            ..list()
        };
        assert_eq!(Acl::parse(&without_mask.to_bytes()), Err(FsError::Invalid));
        let without_other = &good[..good.len() - ENTRY];
        assert_eq!(Acl::parse(without_other), Err(FsError::Invalid));
        let mut twice = good.clone();
        twice.extend_from_slice(&good[good.len() - ENTRY..]);
        assert_eq!(Acl::parse(&twice), Err(FsError::Invalid));
        let mut rights = good.clone();
        rights[6] = 8;
        assert_eq!(Acl::parse(&rights), Err(FsError::Invalid));
    }

    #[test]
    fn the_mask_limits_all_but_owner_and_other() {
        let caller = |uid, gid| Caller::new(uid, gid, []);
        let acl = list();
        let grants = |caller: &Caller, want| acl.grants(caller, 1, 10, want);
        assert!(grants(&caller(1, 99), AccessMode::READ | AccessMode::WRITE));
        // The named user has rw-, the mask r-x: the user gets r.
        assert!(grants(&caller(1000, 99), AccessMode::READ));
        assert!(!grants(&caller(1000, 99), AccessMode::WRITE));
        assert!(!grants(&caller(1000, 99), AccessMode::EXECUTE));
        // Two groups match: one that grants is enough.
        assert!(grants(
            &Caller::new(5, 10, [50]),
            AccessMode::READ | AccessMode::EXECUTE
        ));
        // A group matches and does not grant: the other class is not used.
        let strict = Acl {
            group: 0,
            groups: vec![],
            users: vec![],
            mask: None,
            other: 7,
            owner: 7,
        };
        assert!(!strict.grants(&caller(5, 10), 1, 10, AccessMode::READ));
        assert!(strict.grants(&caller(5, 11), 1, 10, AccessMode::READ));
    }

    #[test]
    fn a_new_inode_gets_what_both_default_acl_and_mode_grant() {
        let (acl, mode) = list().inherit(FileMode(0o2640));
        assert_eq!(mode, FileMode(0o2640));
        assert_eq!(
            acl,
            Some(Acl {
                owner: 6,
                mask: Some(4),
                ..list()
            })
        );
        let minimal = Acl {
            owner: 7,
            users: vec![],
            group: 5,
            groups: vec![],
            mask: None,
            other: 5,
        };
        assert_eq!(minimal.inherit(FileMode(0o666)), (None, FileMode(0o644)));
    }

    #[test]
    fn chmod_moves_the_mask_and_leaves_the_groups_entry() {
        let mut acl = list();
        acl.apply_mode(FileMode(0o421));
        assert_eq!(
            acl,
            Acl {
                owner: 4,
                mask: Some(2),
                other: 1,
                ..list()
            }
        );
        assert_eq!(acl.mode_bits(), 0o421);
    }
}
