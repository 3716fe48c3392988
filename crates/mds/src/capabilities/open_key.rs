//! The key that signs open capabilities.

use gupfs_proto::capability::{
    CapabilityKey, CapabilityMac, CapabilityStatement, OpenCapability, Rights,
};
use gupfs_proto::{Incarnation, InodeId, SessionId};
use gupfs_rpc::ClusterKey;

/// Context string of the key that signs open capabilities.
const OPEN_KEY_CONTEXT: &[u8] = b"gupfs open proof 1";

/// Signs open capabilities. The key is the same at each start: it derives from the cluster's key and this store's incarnation.
/// (Without a cluster key, servers listen on their own host alone, and a process that knows the store's incarnation could forge
/// open capabilities.)
pub struct OpenCapabilityKey(CapabilityKey);

impl OpenCapabilityKey {
    pub fn new(cluster: Option<&ClusterKey>, store: Incarnation) -> OpenCapabilityKey {
        let none = ClusterKey::new([0; 32]);
        let key = cluster.unwrap_or(&none);
        OpenCapabilityKey(CapabilityKey::new(
            &key.hmac(&[OPEN_KEY_CONTEXT, &store.0.to_le_bytes()]),
        ))
    }

    pub fn mac(&self, session: SessionId, ino: InodeId, rights: Rights) -> CapabilityMac {
        self.0.compute_mac(&statement(session, ino, rights))
    }

    pub fn verifies(&self, session: SessionId, capability: &OpenCapability) -> bool {
        let statement = statement(session, capability.ino, capability.rights);
        self.0.verifies(&statement, &capability.mac)
    }
}

fn statement(session: SessionId, ino: InodeId, rights: Rights) -> CapabilityStatement {
    CapabilityStatement::Open {
        session,
        ino,
        rights,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_capability_is_valid_for_its_session_inode_rights_and_store_alone() {
        let (key, store) = (ClusterKey::new([7; 32]), Incarnation(5));
        let open_key = OpenCapabilityKey::new(Some(&key), store);
        let (session, ino, rights) = (SessionId(70), InodeId(9), Rights::READ);
        let capability = OpenCapability {
            ino,
            rights,
            mac: open_key.mac(session, ino, rights),
        };
        assert!(open_key.verifies(session, &capability));
        // The key is the same after a restart.
        assert!(OpenCapabilityKey::new(Some(&key), store).verifies(session, &capability));
        assert!(!open_key.verifies(SessionId(71), &capability));
        let ino = InodeId(10);
        assert!(!open_key.verifies(session, &OpenCapability { ino, ..capability }));
        let rights = Rights::all();
        assert!(!open_key.verifies(
            session,
            &OpenCapability {
                rights,
                ..capability
            }
        ));
        let others = [
            OpenCapabilityKey::new(Some(&key), Incarnation(6)),
            OpenCapabilityKey::new(Some(&ClusterKey::new([8; 32])), store),
            OpenCapabilityKey::new(None, store),
        ];
        for other in others {
            assert!(!other.verifies(session, &capability));
        }
    }
}
