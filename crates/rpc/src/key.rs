//! The cluster's key: who has it belongs to the cluster.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// 32 bytes of chance that every host of a cluster has. Never shown.
#[derive(Clone)]
pub struct ClusterKey([u8; 32]);

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey")
    }
}

pub type Proof = [u8; 32];

impl ClusterKey {
    pub fn new(bytes: [u8; 32]) -> ClusterKey {
        ClusterKey(bytes)
    }

    /// HMAC-SHA256 over these parts, each with its length before it, so that no two lists of parts are alike.
    pub fn prove(&self, parts: &[&[u8]]) -> Proof {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Compares without telling by its time how much was right.
    pub fn verifies(&self, parts: &[&[u8]], proof: &Proof) -> bool {
        self.mac(parts).verify_slice(proof).is_ok()
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for part in parts {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_key_and_its_parts_alone() {
        let key = ClusterKey::new([7; 32]);
        let proof = key.prove(&[b"ab", b"c"]);
        assert!(key.verifies(&[b"ab", b"c"], &proof));
        assert!(!key.verifies(&[b"a", b"bc"], &proof));
        assert!(!ClusterKey::new([8; 32]).verifies(&[b"ab", b"c"], &proof));
        assert_eq!(format!("{key:?}"), "ClusterKey");
    }
}
