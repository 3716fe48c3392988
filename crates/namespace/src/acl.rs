//! POSIX access control lists: the binary form of Linux's `system.posix_acl_*` attributes, what they grant, and how they
//! and the mode follow each other (POSIX 1003.1e draft 17, as Linux does it).

use gupfs_proto::meta::Access;
use gupfs_proto::{Caller, Mode, Refusal};
use serde::{Deserialize, Serialize};

/// The attribute names under which programs see them.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

/// A valid list. Rights are the three low bits: read 4, write 2, execute 1.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Acl {
    pub owner: u8,
    pub users: Vec<(u32, u8)>,
    pub group: u8,
    pub groups: Vec<(u32, u8)>,
    /// Bounds users, group and groups; there whenever `users` or `groups` is not empty.
    pub mask: Option<u8>,
    pub other: u8,
}

const VERSION: u32 = 2;
const HEADER: usize = 4;
const ENTRY: usize = 8;
const RIGHTS: u8 = 7;

/// Largest value of an extended attribute bounds the list; beyond that it could not be read back.
const ENTRIES_MAX: usize = (gupfs_proto::limits::XATTR_VALUE_MAX - HEADER) / ENTRY;

mod tag {
    pub const OWNER: u16 = 0x01;
    pub const USER: u16 = 0x02;
    pub const GROUP: u16 = 0x04;
    pub const NAMED_GROUP: u16 = 0x08;
    pub const MASK: u16 = 0x10;
    pub const OTHER: u16 = 0x20;
}

/// The id of entries that name nobody.
const NO_ID: u32 = u32::MAX;

impl Acl {
    /// None is a list without entries, which means: no list.
    ///
    /// # Errors
    /// `NotSupported` for another version, `Invalid` for anything that Linux refuses.
    pub fn parse(value: &[u8]) -> Result<Option<Acl>, Refusal> {
        let (version, body) = value
            .split_first_chunk::<HEADER>()
            .ok_or(Refusal::Invalid)?;
        if u32::from_le_bytes(*version) != VERSION {
            return Err(Refusal::NotSupported);
        }
        let (entries, []) = body.as_chunks::<ENTRY>() else {
            return Err(Refusal::Invalid);
        };
        if entries.len() > ENTRIES_MAX {
            return Err(Refusal::Invalid);
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
                .ok_or(Refusal::Invalid)?;
            // Tags ascend; only named users and groups repeat.
            if tag < last || (tag == last && !matches!(tag, tag::USER | tag::NAMED_GROUP)) {
                return Err(Refusal::Invalid);
            }
            last = tag;
            match tag {
                tag::OWNER => owner = Some(rights),
                tag::USER if id != NO_ID => users.push((id, rights)),
                tag::GROUP => group = Some(rights),
                tag::NAMED_GROUP if id != NO_ID => groups.push((id, rights)),
                tag::MASK => mask = Some(rights),
                tag::OTHER => other = Some(rights),
                _ => return Err(Refusal::Invalid),
            }
        }
        let (Some(owner), Some(group), Some(other)) = (owner, group, other) else {
            return Err(Refusal::Invalid);
        };
        if mask.is_none() && !(users.is_empty() && groups.is_empty()) {
            return Err(Refusal::Invalid);
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

    /// The nine permission bits that stand for this list: the mask shows as the group's.
    pub fn mode_bits(&self) -> u16 {
        u16::from(self.owner) << 6
            | u16::from(self.mask.unwrap_or(self.group)) << 3
            | u16::from(self.other)
    }

    /// Whether the mode alone says the same.
    pub fn is_minimal(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty() && self.mask.is_none()
    }

    /// chmod: owner, mask (or group, without a mask) and others follow the mode.
    pub fn follow_mode(&mut self, mode: Mode) {
        let [owner, group, other] = classes(mode);
        self.owner = owner;
        *self.mask.as_mut().unwrap_or(&mut self.group) = group;
        self.other = other;
    }

    /// The access list and mode of a new inode in a directory with this default list: each class is what both the list and
    /// the asked mode grant; umask plays no part. No list when the mode says it all.
    pub fn inherit(&self, mode: Mode) -> (Option<Acl>, Mode) {
        let [owner, group, other] = classes(mode);
        let mut acl = self.clone();
        acl.owner &= owner;
        *acl.mask.as_mut().unwrap_or(&mut acl.group) &= group;
        acl.other &= other;
        let mode = Mode(mode.0 & !0o777 | acl.mode_bits());
        ((!acl.is_minimal()).then_some(acl), mode)
    }

    /// Whether the list grants everything in `want` to a caller who is not root. The first class that fits decides; among
    /// groups one that grants all is enough.
    pub fn grants(&self, caller: &Caller, uid: u32, gid: u32, want: Access) -> bool {
        let want = want.bits();
        let has = |rights: u8| rights & want == want;
        let masked = |rights: u8| has(rights & self.mask.unwrap_or(RIGHTS));
        if caller.uid == uid {
            return has(self.owner);
        }
        if let Some((_, rights)) = self.users.iter().find(|(id, _)| *id == caller.uid) {
            return masked(*rights);
        }
        let mut mine = std::iter::once((gid, self.group))
            .chain(self.groups.iter().copied())
            .filter(|(id, _)| caller.in_group(*id))
            .map(|(_, rights)| masked(rights))
            .peekable();
        if mine.peek().is_some() {
            mine.any(|granted| granted)
        } else {
            has(self.other)
        }
    }
}

/// Owner, group, other.
pub(crate) fn classes(mode: Mode) -> [u8; 3] {
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
    fn what_linux_refuses_is_refused() {
        let good = list().to_bytes();
        assert_eq!(Acl::parse(&[]), Err(Refusal::Invalid));
        assert_eq!(Acl::parse(&good[..good.len() - 1]), Err(Refusal::Invalid));
        assert_eq!(Acl::parse(&[3, 0, 0, 0]), Err(Refusal::NotSupported));
        assert_eq!(Acl::parse(&[2, 0, 0, 0]), Ok(None));
        let without_mask = Acl {
            mask: None,
            ..list()
        };
        assert_eq!(Acl::parse(&without_mask.to_bytes()), Err(Refusal::Invalid));
        let without_other = &good[..good.len() - ENTRY];
        assert_eq!(Acl::parse(without_other), Err(Refusal::Invalid));
        let mut twice = good.clone();
        twice.extend_from_slice(&good[good.len() - ENTRY..]);
        assert_eq!(Acl::parse(&twice), Err(Refusal::Invalid));
        let mut rights = good.clone();
        rights[6] = 8;
        assert_eq!(Acl::parse(&rights), Err(Refusal::Invalid));
    }

    #[test]
    fn the_mask_bounds_all_but_owner_and_others() {
        let who = |uid, gid| Caller::new(uid, gid, []);
        let acl = list();
        let grants = |caller: &Caller, want| acl.grants(caller, 1, 10, want);
        assert!(grants(&who(1, 99), Access::READ | Access::WRITE));
        // The named user has rw-, the mask r-x: only r remains.
        assert!(grants(&who(1000, 99), Access::READ));
        assert!(!grants(&who(1000, 99), Access::WRITE));
        assert!(!grants(&who(1000, 99), Access::EXECUTE));
        // Two groups fit: one that grants is enough.
        assert!(grants(
            &Caller::new(5, 10, [50]),
            Access::READ | Access::EXECUTE
        ));
        // A group fits and does not grant: others are not asked.
        let strict = Acl {
            group: 0,
            groups: vec![],
            users: vec![],
            mask: None,
            other: 7,
            owner: 7,
        };
        assert!(!strict.grants(&who(5, 10), 1, 10, Access::READ));
        assert!(strict.grants(&who(5, 11), 1, 10, Access::READ));
    }

    #[test]
    fn a_new_inode_gets_what_both_default_list_and_mode_grant() {
        let (acl, mode) = list().inherit(Mode(0o2640));
        assert_eq!(mode, Mode(0o2640));
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
        assert_eq!(minimal.inherit(Mode(0o666)), (None, Mode(0o644)));
    }

    #[test]
    fn chmod_moves_the_mask_and_leaves_the_groups_entry() {
        let mut acl = list();
        acl.follow_mode(Mode(0o421));
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
