//! The name of a failure domain: what an administrator calls the part of a site whose loss takes several object servers away.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Longest name of a failure domain, in bytes. The record of each target has one, and is copied whole.
pub const DOMAIN_NAME_MAX: usize = 32;

/// A name such as "rack7": 1 to 32 ASCII letters, digits, '.', '-', '_', as for client keys. It appears in lists and logs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName {
    /// The name, and zeros behind it.
    bytes: [u8; DOMAIN_NAME_MAX],
}

impl DomainName {
    /// None for a text that is no name.
    pub fn new(text: &str) -> Option<DomainName> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let is_name = (1..=DOMAIN_NAME_MAX).contains(&text.len()) && text.bytes().all(is_plain);
        is_name.then(|| {
            let mut bytes = [0; DOMAIN_NAME_MAX];
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            DomainName { bytes }
        })
    }

    pub fn as_str(&self) -> &str {
        let end = self.bytes.iter().position(|byte| *byte == 0);
        let name = &self.bytes[..end.unwrap_or(DOMAIN_NAME_MAX)];
        std::str::from_utf8(name).expect("a name is ASCII")
    }
}

impl std::str::FromStr for DomainName {
    type Err = String;

    fn from_str(text: &str) -> Result<DomainName, String> {
        DomainName::new(text).ok_or_else(|| {
            format!(
                "'{}' is not a name of a failure domain; write 1 to {DOMAIN_NAME_MAX} letters, digits, '.', '-' or '_'",
                text.escape_default()
            )
        })
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl Serialize for DomainName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for DomainName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DomainName, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_plain_also_when_a_peer_sends_it() {
        for name in ["a", "rack-7.b_2", &"r".repeat(DOMAIN_NAME_MAX)] {
            let domain = DomainName::new(name).unwrap();
            assert_eq!(domain.as_str(), name);
            let sent = postcard::to_stdvec(&domain).unwrap();
            assert_eq!(postcard::from_bytes(&sent), Ok(domain));
        }
        for name in [
            "",
            "a b",
            "räck",
            "a\n",
            "a\0",
            &"r".repeat(DOMAIN_NAME_MAX + 1),
        ] {
            assert_eq!(DomainName::new(name), None, "{name:?}");
            let sent = postcard::to_stdvec(name).unwrap();
            assert!(
                postcard::from_bytes::<DomainName>(&sent).is_err(),
                "{name:?}"
            );
        }
    }
}
