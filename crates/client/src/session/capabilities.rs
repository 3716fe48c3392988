//! The credentials that this client presents to OSTs: its session capability, and the capabilities of the files it uses.
//!
//! Both come with replies of the metadata server. The client requests them again when the cache has dropped them or an OST
//! answers that they have expired.

use gupfs_platform::hash::Map;
use gupfs_proto::capability::{Capability, DataCredentials, Rights, SessionCapability};
use gupfs_proto::data::DataOp;
use gupfs_proto::{InodeId, OstId};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// Capabilities in one generation of the cache; there are two.
const GENERATION_MAX: usize = 8 << 10;

#[derive(Default)]
pub struct CapabilityCache {
    /// None where OSTs require no credentials.
    session: RwLock<Option<SessionCapability>>,
    files: Mutex<CapabilityGenerations>,
}

/// A full young generation becomes the old one, which is dropped; a capability that is used moves to the young generation, so
/// it stays cached.
#[derive(Default)]
struct CapabilityGenerations {
    young: Map<InodeId, Arc<Capability>>,
    old: Map<InodeId, Arc<Capability>>,
}

/// The rights to a file that an operation needs; None for operations on no file.
pub fn needed_rights(op: &DataOp) -> Option<(InodeId, Rights)> {
    let rights = match op.changes() {
        true => Rights::WRITE,
        false => Rights::READ,
    };
    op.ino().map(|ino| (ino, rights))
}

impl CapabilityCache {
    /// Keeps the newer of both: a late reply may carry an older session capability than the current one.
    pub fn put_session(&self, session_capability: Option<SessionCapability>) {
        let Some(session_capability) = session_capability else {
            return;
        };
        let mut current = self.session.write();
        let is_newer =
            |known: &SessionCapability| session_capability.time().is_after(&known.time());
        if current.as_ref().is_none_or(is_newer) {
            *current = Some(session_capability);
        }
    }

    pub fn put_file(&self, ino: InodeId, capability: Option<Capability>) {
        if let Some(capability) = capability
            && capability.is_for_osts()
        {
            self.files.lock().put(ino, Arc::new(capability));
        }
    }

    /// A capability that is not newer than the known one, should there be one.
    pub fn put_missing_file(&self, ino: InodeId, capability: Option<&Capability>) {
        if let Some(capability) = capability
            && capability.is_for_osts()
        {
            let mut files = self.files.lock();
            if files.get(ino).is_none() {
                files.put(ino, Arc::new(capability.clone()));
            }
        }
    }

    /// A new session: the capabilities of the former one are void.
    pub fn clear(&self) {
        *self.session.write() = None;
        *self.files.lock() = CapabilityGenerations::default();
    }

    /// The credentials of an operation. None: the client must first request the capability that it needs.
    pub fn credentials(&self, ost: OstId, op: &DataOp) -> Option<DataCredentials> {
        let Some(session_capability) = *self.session.read() else {
            return Some(DataCredentials::None);
        };
        let Some((ino, rights)) = needed_rights(op) else {
            return Some(DataCredentials::Client {
                session_capability,
                object_capability: None,
            });
        };
        let capability = self.files.lock().get(ino)?;
        let object_capability = capability.for_ost(ost)?;
        object_capability
            .rights
            .contains(rights)
            .then_some(DataCredentials::Client {
                session_capability,
                object_capability: Some(object_capability),
            })
    }
}

impl CapabilityGenerations {
    fn get(&mut self, ino: InodeId) -> Option<Arc<Capability>> {
        if let Some(capability) = self.young.get(&ino) {
            return Some(capability.clone());
        }
        let capability = self.old.remove(&ino)?;
        self.put(ino, capability.clone());
        Some(capability)
    }

    fn put(&mut self, ino: InodeId, capability: Arc<Capability>) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(ino, capability);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::capability::CapabilityMac;
    use gupfs_proto::{Generation, ObjectId, OwnerEpoch};

    fn session_capability(epoch: u64, until: u64) -> SessionCapability {
        SessionCapability {
            epoch: OwnerEpoch(epoch),
            until,
            mac: CapabilityMac([0; 16]),
        }
    }

    fn capability(rights: Rights) -> Option<Capability> {
        Some(Capability {
            epoch: OwnerEpoch(1),
            rights,
            macs: vec![(OstId(2), CapabilityMac([2; 16]))],
        })
    }

    fn stat(ino: InodeId) -> DataOp {
        DataOp::Stat {
            object: ObjectId {
                ino,
                generation: Generation(1),
                stripe: 0,
            },
        }
    }

    fn kind_of_credentials(capabilities: &CapabilityCache, ost: u16, op: &DataOp) -> &'static str {
        match capabilities.credentials(OstId(ost), op) {
            Some(DataCredentials::None) => "none",
            Some(DataCredentials::Client {
                object_capability: None,
                ..
            }) => "session",
            Some(_) => "session and object",
            None => "missing",
        }
    }

    #[test]
    fn each_operation_gets_the_credentials_it_needs() {
        let capabilities = CapabilityCache::default();
        let (ino, read) = (InodeId(9), stat(InodeId(9)));
        assert_eq!(kind_of_credentials(&capabilities, 2, &read), "none");
        capabilities.put_session(Some(session_capability(1, 100)));
        assert_eq!(
            kind_of_credentials(&capabilities, 2, &DataOp::Space),
            "session"
        );
        assert_eq!(kind_of_credentials(&capabilities, 2, &read), "missing");
        capabilities.put_file(ino, capability(Rights::READ));
        assert_eq!(
            kind_of_credentials(&capabilities, 2, &read),
            "session and object"
        );
        assert_eq!(kind_of_credentials(&capabilities, 3, &read), "missing");
        let truncate = DataOp::Truncate {
            object: ObjectId {
                ino,
                generation: Generation(1),
                stripe: 0,
            },
            to: 0,
        };
        assert_eq!(kind_of_credentials(&capabilities, 2, &truncate), "missing");
        capabilities.put_file(ino, capability(Rights::all()));
        assert_eq!(
            kind_of_credentials(&capabilities, 2, &truncate),
            "session and object"
        );
        capabilities.clear();
        assert_eq!(kind_of_credentials(&capabilities, 2, &truncate), "none");
    }

    #[test]
    fn a_late_session_capability_does_not_replace_a_newer_one() {
        let capabilities = CapabilityCache::default();
        for (epoch, until) in [(1, 100), (1, 90), (2, 5), (1, 200)] {
            capabilities.put_session(Some(session_capability(epoch, until)));
        }
        assert_eq!(*capabilities.session.read(), Some(session_capability(2, 5)));
    }

    #[test]
    fn used_capabilities_stay_cached_and_the_cache_is_bounded() {
        let capabilities = CapabilityCache::default();
        capabilities.put_session(Some(session_capability(1, 1)));
        for ino in 0..(4 * GENERATION_MAX as u64) {
            capabilities.put_file(InodeId(ino), capability(Rights::READ));
            assert_eq!(
                kind_of_credentials(&capabilities, 2, &stat(InodeId(0))),
                "session and object"
            );
        }
        let files = capabilities.files.lock();
        assert!(files.young.len() + files.old.len() <= 2 * GENERATION_MAX + 1);
        drop(files);
        assert_eq!(
            kind_of_credentials(&capabilities, 2, &stat(InodeId(1))),
            "missing"
        );
    }
}
