//! The values that handlers return.

mod attrs;
mod data;
mod entries;

pub use attrs::{AttrReply, FuseTimestamp, InodeAttr, Statx, StatxReply};
pub(crate) use data::DataSource;
pub use data::ReplyData;
pub use entries::{CreateReply, EntryReply, OpenReply};

/// The reply to STATFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatfsReply {
    pub blocks: u64,
    pub blocks_free: u64,
    /// Blocks available to users other than root.
    pub blocks_available: u64,
    pub files: u64,
    pub files_free: u64,
    /// Preferred I/O size for programs.
    pub block_size: u32,
    pub name_max: u32,
    /// The unit of the block counts.
    pub fragment_size: u32,
}

/// The reply to GETXATTR and LISTXATTR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XattrReply {
    /// Reply to a request with size 0: the needed buffer size.
    Size(u32),
    /// The value, or the names, each terminated by a zero byte.
    Value(Vec<u8>),
}

impl XattrReply {
    /// The reply for `value` when the program's buffer has `requested` bytes: the length of the value if `requested` is 0, ERANGE if
    /// the buffer is too small.
    ///
    /// # Errors
    /// ERANGE if `value` is longer than `requested`, E2BIG if its length does not fit into 32 bits.
    pub fn fit(value: Vec<u8>, requested: u32) -> crate::Result<XattrReply> {
        if requested == 0 {
            u32::try_from(value.len())
                .map(XattrReply::Size)
                .map_err(|_| crate::Errno::E2BIG)
        } else if value.len() > requested as usize {
            Err(crate::Errno::ERANGE)
        } else {
            Ok(XattrReply::Value(value))
        }
    }
}

/// The reply to IOCTL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IoctlReply {
    /// Return value of ioctl(2).
    pub result: i32,
    pub data: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn structs_have_the_length_that_the_kernel_expects() {
        let mut out = Vec::new();
        InodeAttr::default().put(&mut out);
        assert_eq!(out.len(), 88);
        out.clear();
        EntryReply::absent(Duration::from_secs(1)).put(&mut out);
        assert_eq!(out.len(), 128);
        out.clear();
        Statx::default().put(&mut out);
        assert_eq!(out.len(), 256);
    }

    #[test]
    fn an_xattr_reply_to_size_0_is_the_needed_size() {
        assert_eq!(XattrReply::fit(vec![1, 2, 3], 0), Ok(XattrReply::Size(3)));
        assert_eq!(XattrReply::fit(vec![1, 2, 3], 2), Err(crate::Errno::ERANGE));
        assert_eq!(
            XattrReply::fit(vec![1, 2, 3], 3),
            Ok(XattrReply::Value(vec![1, 2, 3]))
        );
    }
}
