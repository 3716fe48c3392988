//! Which files a session has open: the session proves it with the open capability that it got for the open. So the server keeps
//! no list of open files, and a restart of the server loses nothing of it.

use crate::capabilities::CapabilityIssuer;
use crate::store::{MetadataStore, damaged_record};
use gupfs_namespace::rights::{self, OpenRights};
use gupfs_namespace::{Inode, Record, RecordKey};
use gupfs_proto::capability::{CapabilityFault, OpenCapability};
use gupfs_proto::limits::OPEN_CAPABILITIES_MAX;
use gupfs_proto::meta::{AccessMode, MetaOp, MetaRequest};
use gupfs_proto::operations::AccessRule;
use gupfs_proto::{Caller, FsError, InodeId, SessionId, wire};
use std::sync::Arc;

/// Verifies open capabilities, and applies the table of rights to operations that do not pass through the state machine.
pub struct AccessCheck {
    store: Arc<MetadataStore>,
    issuer: Option<Arc<CapabilityIssuer>>,
}

impl AccessCheck {
    pub fn new(store: Arc<MetadataStore>, issuer: Option<Arc<CapabilityIssuer>>) -> AccessCheck {
        AccessCheck { store, issuer }
    }

    /// The request without its open capabilities, and the files that these prove to be open.
    ///
    /// # Errors
    /// `Capability` for an open capability that this server did not issue to this session.
    pub fn unwrap_open_capabilities(
        &self,
        mut request: MetaRequest,
    ) -> Result<(MetaRequest, OpenRights), FsError> {
        let MetaOp::WithOpenCapability {
            open_capabilities: capabilities,
            op,
        } = &request.op
        else {
            return Ok((request, OpenRights::default()));
        };
        let (op, opens) = self.verify_open_capabilities(request.session, capabilities, op)?;
        request.op = op;
        Ok((request, opens))
    }

    /// Decodes the operation beside open capabilities and verifies these.
    ///
    /// # Errors
    /// As `unwrap_open_capabilities`.
    pub fn verify_open_capabilities(
        &self,
        session: SessionId,
        capabilities: &[OpenCapability],
        op: &[u8],
    ) -> Result<(MetaOp, OpenRights), FsError> {
        if capabilities.len() > OPEN_CAPABILITIES_MAX {
            let many = capabilities.len();
            return Err(FsError::Malformed(format!(
                "the request carries {many} open capabilities"
            )));
        }
        let op = wire::decode_op(op).map_err(|error| FsError::Malformed(error.to_string()))?;
        let needs_none = match &op {
            MetaOp::WithOpenCapability { .. }
            | MetaOp::OpenSession { .. }
            | MetaOp::CloseSession
            | MetaOp::NameJobs { .. }
            // `serve` checks before whether the connection can carry the revocation of leases.
            | MetaOp::AcceptLeases => true,
            // Each replayed change carries its own open capabilities.
            MetaOp::Replay { records, .. } => !records.is_empty(),
            _ => false,
        };
        if needs_none {
            let why = format!("{} takes no open capabilities", op.name());
            return Err(FsError::Malformed(why));
        }
        let Some(issuer) = &self.issuer else {
            // This server issues no capabilities, so these prove nothing.
            return Ok((op, OpenRights::default()));
        };
        if let Some(capability) =
            (capabilities.iter()).find(|capability| !issuer.open_key.verifies(session, capability))
        {
            let ino = capability.ino;
            tracing::warn!(%session, %ino, op = op.name(), "an open capability was not issued to this session; the request is refused");
            return Err(FsError::Capability(CapabilityFault::Forged));
        }
        let opened = capabilities
            .iter()
            .map(|capability| (capability.ino, capability.rights));
        Ok((op, OpenRights::new(opened.collect())))
    }

    /// Applies the table of rights to an operation that the driver does itself, without the state machine.
    ///
    /// # Errors
    /// `Denied`; `Stale` for an inode that does not exist.
    pub async fn check_right(
        &self,
        session: SessionId,
        caller: &Caller,
        opens: &OpenRights,
        op: &MetaOp,
    ) -> Result<(), FsError> {
        match op.operation().rule {
            AccessRule::Session | AccessRule::Credentials | AccessRule::PerPart => Ok(()),
            AccessRule::Open(ino, access) => self.check_open(caller, opens, ino, access).await,
            AccessRule::WriteOrOwner(ino) => {
                self.check_open(caller, opens, ino, AccessMode::WRITE).await
            }
            AccessRule::LeaseHolder(ino) => match self.has_write_lease(session, ino).await? {
                true => Ok(()),
                false => Err(FsError::Denied),
            },
        }
    }

    /// Checks `AccessRule::Open`.
    pub async fn check_open(
        &self,
        caller: &Caller,
        opens: &OpenRights,
        ino: InodeId,
        access: AccessMode,
    ) -> Result<(), FsError> {
        if opens.allow_without_record(caller, ino, access) {
            return Ok(());
        }
        let key = RecordKey::inode(ino);
        let value = self.store.get_now(&key).await?.ok_or(FsError::Stale)?;
        let mut inode = Inode::decode(&value).map_err(|error| damaged_record(&key, error))?;
        inode.ino = ino;
        rights::check_use(&inode, caller, opens, access)
    }

    /// Whether the session is recorded as the holder of the file's write lease.
    pub async fn has_write_lease(&self, session: SessionId, ino: InodeId) -> Result<bool, FsError> {
        let record = self
            .store
            .get_now(&RecordKey::write_lease(ino, session))
            .await?;
        Ok(record.is_some())
    }
}
