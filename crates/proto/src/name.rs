//! One component of a path.

use crate::error::FsError;
use crate::limits::NAME_MAX;
use serde::{Deserialize, Serialize};
use std::fmt;

/// 1 to 255 bytes, without '/' and NUL, neither "." nor "..". Any other byte is allowed, valid UTF-8 or not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Name(Box<[u8]>);

impl Name {
    /// # Errors
    /// `NameTooLong` above 255 bytes; `Invalid` when no directory entry can have this name.
    pub fn new(bytes: &[u8]) -> Result<Name, FsError> {
        if bytes.len() > NAME_MAX {
            return Err(FsError::NameTooLong);
        }
        if bytes.is_empty()
            || bytes == b"."
            || bytes == b".."
            || bytes.iter().any(|b| *b == b'/' || *b == 0)
        {
            return Err(FsError::Invalid);
        }
        Ok(Name(bytes.into()))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<Vec<u8>> for Name {
    type Error = FsError;
    fn try_from(bytes: Vec<u8>) -> Result<Name, FsError> {
        Name::new(&bytes)
    }
}

impl From<Name> for Vec<u8> {
    fn from(name: Name) -> Vec<u8> {
        name.0.into_vec()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(&self.0))
    }
}
