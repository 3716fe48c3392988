//! Operations on names in directories. The directory is `Call::node`.

use std::ffi::OsStr;
use std::fmt;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;

use crate::NodeId;
use crate::wire::{Cursor, FromWire, Malformed};

/// One component of a path: bytes, not empty, without a zero byte and without a slash.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryName(Box<[u8]>);

impl EntryName {
    pub fn new(bytes: impl Into<Box<[u8]>>) -> EntryName {
        EntryName(bytes.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// The bytes, without a copy.
    pub fn into_boxed(self) -> Box<[u8]> {
        self.0
    }

    /// The bytes, without a copy.
    pub fn into_vec(self) -> Vec<u8> {
        self.0.into_vec()
    }

    fn read(body: &mut Cursor<'_>, field: &'static str) -> Result<EntryName, Malformed> {
        body.name(field).map(|bytes| EntryName(bytes.into()))
    }
}

impl Deref for EntryName {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for EntryName {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_os_str())
    }
}

impl FromWire for EntryName {
    fn from_wire(body: &mut Cursor<'_>) -> Result<EntryName, Malformed> {
        EntryName::read(body, "name")
    }
}

macro_rules! only_a_name {
    ($(#[$doc:meta])* $op:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $op {
            pub name: EntryName,
        }

        impl FromWire for $op {
            fn from_wire(body: &mut Cursor<'_>) -> Result<$op, Malformed> {
                Ok($op { name: EntryName::from_wire(body)? })
            }
        }
    };
}

only_a_name! {
    /// LOOKUP of a name. With EXPORT_SUPPORT the name may be "." (`Call::node` itself) or "..".
    Lookup
}
only_a_name! {
    /// Removes a name that is not a directory.
    Unlink
}
only_a_name! {
    /// Removes a directory, which must be empty.
    Rmdir
}

/// Creates a symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symlink {
    pub name: EntryName,
    /// Target of the link; any bytes except zero.
    pub target: Box<[u8]>,
}

impl FromWire for Symlink {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Symlink, Malformed> {
        Ok(Symlink {
            name: EntryName::from_wire(body)?,
            target: body.name("target")?.into(),
        })
    }
}

/// Creates a file, fifo, socket or device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mknod {
    pub name: EntryName,
    /// File type and permission bits.
    pub mode: u32,
    /// Device number, in the kernel's 32-bit form.
    pub rdev: u32,
    /// The file system must apply it if DONT_MASK was negotiated (and the directory has no default ACL).
    pub umask: u32,
}

impl FromWire for Mknod {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Mknod, Malformed> {
        let mode = body.u32("mode")?;
        let rdev = body.u32("rdev")?;
        let umask = body.u32("umask")?;
        body.skip(4)?;
        Ok(Mknod {
            name: EntryName::from_wire(body)?,
            mode,
            rdev,
            umask,
        })
    }
}

/// Creates a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mkdir {
    pub name: EntryName,
    /// Permission bits; the file type is not set.
    pub mode: u32,
    pub umask: u32,
}

impl FromWire for Mkdir {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Mkdir, Malformed> {
        let mode = body.u32("mode")?;
        let umask = body.u32("umask")?;
        Ok(Mkdir {
            name: EntryName::from_wire(body)?,
            mode,
            umask,
        })
    }
}

/// RENAME and RENAME2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rename {
    /// The old name, in `Call::node`.
    pub name: EntryName,
    pub new_directory: NodeId,
    pub new_name: EntryName,
    /// RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT; 0 for a plain rename.
    pub flags: u32,
}

impl FromWire for Rename {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Rename, Malformed> {
        let new_directory = NodeId(body.u64("new directory")?);
        let flags = body.u32("flags")?;
        body.skip(4)?;
        Rename::names(body, new_directory, flags)
    }
}

impl Rename {
    fn names(
        body: &mut Cursor<'_>,
        new_directory: NodeId,
        flags: u32,
    ) -> Result<Rename, Malformed> {
        let name = EntryName::read(body, "old name")?;
        let new_name = EntryName::read(body, "new name")?;
        Ok(Rename {
            name,
            new_directory,
            new_name,
            flags,
        })
    }
}

/// The form of RENAME without flags.
pub(crate) struct RenamePlain(pub Rename);

impl FromWire for RenamePlain {
    fn from_wire(body: &mut Cursor<'_>) -> Result<RenamePlain, Malformed> {
        let new_directory = NodeId(body.u64("new directory")?);
        Rename::names(body, new_directory, 0).map(RenamePlain)
    }
}

/// Creates a hard link in the directory `Call::node`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The node that gets the name.
    pub target: NodeId,
    pub name: EntryName,
}

impl FromWire for Link {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Link, Malformed> {
        let target = NodeId(body.u64("target")?);
        Ok(Link {
            target,
            name: EntryName::from_wire(body)?,
        })
    }
}
