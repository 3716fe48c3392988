//! The cluster key: a process that has it is a server of the cluster, or is trusted like one.

use gupfs_proto::capability::CapabilityKey;
use gupfs_proto::cluster::KeyShare;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// 32 random bytes that every server of a cluster has. `Debug` never prints them.
#[derive(Clone)]
pub struct ClusterKey([u8; 32]);

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey")
    }
}

pub type HmacBytes = [u8; 32];

/// HMAC label of the derivation of a capability key.
const CAPABILITY_LABEL: &[u8] = b"gupfs capability 1";

impl ClusterKey {
    /// A key that was read from its file.
    pub fn new(bytes: [u8; 32]) -> ClusterKey {
        ClusterKey(bytes)
    }

    /// HMAC-SHA256 over these parts. The length of each part precedes it, so two different lists of parts never give the same
    /// input.
    pub fn hmac(&self, parts: &[&[u8]]) -> HmacBytes {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Compares in constant time: the duration does not reveal how many bytes match.
    pub fn verifies_hmac(&self, parts: &[&[u8]], proof: &HmacBytes) -> bool {
        self.mac(parts).verify_slice(proof).is_ok()
    }

    /// The capability key made from a key share that the metadata server sent. A process needs both halves, the cluster key and
    /// the share, to derive it. A cluster without a key, whose servers listen only on their own host, uses 32 zero bytes as the
    /// first half.
    pub fn capability_key(cluster: Option<&ClusterKey>, share: &KeyShare) -> CapabilityKey {
        let none = ClusterKey::new([0; 32]);
        CapabilityKey::new(&cluster.unwrap_or(&none).hmac(&[CAPABILITY_LABEL, &share.0]))
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
    use gupfs_proto::capability::CapabilityStatement;
    use gupfs_proto::{OstId, OwnerEpoch};

    #[test]
    fn an_hmac_verifies_only_with_its_key_and_its_parts() {
        let key = ClusterKey::new([7; 32]);
        let proof = key.hmac(&[b"ab", b"c"]);
        assert!(key.verifies_hmac(&[b"ab", b"c"], &proof));
        assert!(!key.verifies_hmac(&[b"a", b"bc"], &proof));
        assert!(!ClusterKey::new([8; 32]).verifies_hmac(&[b"ab", b"c"], &proof));
        assert_eq!(format!("{key:?}"), "ClusterKey");
    }

    #[test]
    fn a_capability_key_is_derived_from_cluster_key_and_share() {
        let what = CapabilityStatement::Server {
            epoch: OwnerEpoch(1),
            ost: OstId(1),
        };
        let (ours, share) = (ClusterKey::new([2; 32]), KeyShare([1; 32]));
        let tag = ClusterKey::capability_key(Some(&ours), &share).compute_mac(&what);
        assert!(ClusterKey::capability_key(Some(&ours), &share).verifies(&what, &tag));
        assert!(!ClusterKey::capability_key(None, &share).verifies(&what, &tag));
        assert!(!ClusterKey::capability_key(Some(&ours), &KeyShare([3; 32])).verifies(&what, &tag));
    }
}
