//! The cluster's key: a process that has it is a server of the cluster, or trusted like one.

use gupfs_proto::capability::SealKey;
use gupfs_proto::cluster::Share;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// 32 bytes of chance that every server of a cluster has. Never shown.
#[derive(Clone)]
pub struct ClusterKey([u8; 32]);

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey")
    }
}

pub type Proof = [u8; 32];

/// What a key that capabilities are sealed with is made for.
const SEALING: &[u8] = b"gupfs capability 1";

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

    /// The key of a share that was told: whoever has but one of the two halves cannot make it. A cluster without a key, whose
    /// servers listen to their own host alone, has but one half.
    pub fn sealing(cluster: Option<&ClusterKey>, share: &Share) -> SealKey {
        let none = ClusterKey::new([0; 32]);
        SealKey::new(&cluster.unwrap_or(&none).prove(&[SEALING, &share.0]))
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
    use gupfs_proto::capability::Statement;
    use gupfs_proto::{OstId, OwnerEpoch};

    #[test]
    fn a_proof_holds_for_its_key_and_its_parts_alone() {
        let key = ClusterKey::new([7; 32]);
        let proof = key.prove(&[b"ab", b"c"]);
        assert!(key.verifies(&[b"ab", b"c"], &proof));
        assert!(!key.verifies(&[b"a", b"bc"], &proof));
        assert!(!ClusterKey::new([8; 32]).verifies(&[b"ab", b"c"], &proof));
        assert_eq!(format!("{key:?}"), "ClusterKey");
    }

    #[test]
    fn a_sealing_key_is_made_of_both_halves() {
        let what = Statement::Server {
            epoch: OwnerEpoch(1),
            ost: OstId(1),
        };
        let (ours, share) = (ClusterKey::new([2; 32]), Share([1; 32]));
        let tag = ClusterKey::sealing(Some(&ours), &share).seal(&what);
        assert!(ClusterKey::sealing(Some(&ours), &share).verifies(&what, &tag));
        assert!(!ClusterKey::sealing(None, &share).verifies(&what, &tag));
        assert!(!ClusterKey::sealing(Some(&ours), &Share([3; 32])).verifies(&what, &tag));
    }
}
