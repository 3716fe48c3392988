//! Extended attributes.

use super::EntryName;
use crate::wire::{Cursor, FromWire, Malformed, SetxattrFlags};

/// setxattr(2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setxattr {
    /// With its prefix: `user.`, `trusted.`, `security.`, `system.`
    pub name: EntryName,
    pub value: Vec<u8>,
    /// XATTR_CREATE, XATTR_REPLACE.
    pub flags: u32,
    pub setxattr_flags: SetxattrFlags,
}

impl FromWire for Setxattr {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Setxattr, Malformed> {
        let size = body.u32("size")? as usize;
        let flags = body.u32("flags")?;
        let setxattr_flags = SetxattrFlags::from_bits_retain(body.u32("setxattr flags")?);
        body.skip(4)?;
        Setxattr::rest(body, size, flags, setxattr_flags)
    }
}

impl Setxattr {
    fn rest(
        body: &mut Cursor<'_>,
        size: usize,
        flags: u32,
        more: SetxattrFlags,
    ) -> Result<Setxattr, Malformed> {
        let name = EntryName::from_wire(body)?;
        let value = body.bytes(size, "value")?.to_vec();
        Ok(Setxattr {
            name,
            value,
            flags,
            setxattr_flags: more,
        })
    }
}

/// SETXATTR without SETXATTR_EXT: the head is 8 bytes shorter.
pub(crate) struct SetxattrShort(pub Setxattr);

impl FromWire for SetxattrShort {
    fn from_wire(body: &mut Cursor<'_>) -> Result<SetxattrShort, Malformed> {
        let size = body.u32("size")? as usize;
        let flags = body.u32("flags")?;
        Setxattr::rest(body, size, flags, SetxattrFlags::empty()).map(SetxattrShort)
    }
}

/// getxattr(2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Getxattr {
    pub name: EntryName,
    /// Size of the program's buffer; 0 requests the needed size.
    pub size: u32,
}

impl FromWire for Getxattr {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Getxattr, Malformed> {
        let size = body.u32("size")?;
        body.skip(4)?;
        Ok(Getxattr {
            name: EntryName::from_wire(body)?,
            size,
        })
    }
}

/// listxattr(2): names, each terminated by a zero byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listxattr {
    /// Size of the program's buffer; 0 requests the needed size.
    pub size: u32,
}

impl FromWire for Listxattr {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Listxattr, Malformed> {
        let size = body.u32("size")?;
        body.skip(4)?;
        Ok(Listxattr { size })
    }
}

/// removexattr(2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removexattr {
    pub name: EntryName,
}

impl FromWire for Removexattr {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Removexattr, Malformed> {
        Ok(Removexattr {
            name: EntryName::from_wire(body)?,
        })
    }
}
