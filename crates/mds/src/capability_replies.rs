//! Issues capabilities: in the reply that carries a file's layout, and anew on request.

use crate::access_check::AccessCheck;
use crate::capabilities::CapabilityIssuer;
use crate::session_registry::SessionRegistry;
use crate::store::{MetadataStore, damaged_record};
use gupfs_namespace::rights::OpenRights;
use gupfs_namespace::{Inode, Record, RecordKey};
use gupfs_proto::capability::Rights;
use gupfs_proto::meta::{MetaOp, MetaReplyBody, MetaRequest};
use gupfs_proto::{FsError, InodeId};
use std::sync::Arc;

pub struct CapabilityReplies {
    store: Arc<MetadataStore>,
    registry: Arc<SessionRegistry>,
    access: Arc<AccessCheck>,
    /// None where requests to OSTs need no credentials.
    issuer: Option<Arc<CapabilityIssuer>>,
}

impl CapabilityReplies {
    pub fn new(
        store: Arc<MetadataStore>,
        registry: Arc<SessionRegistry>,
        access: Arc<AccessCheck>,
        issuer: Option<Arc<CapabilityIssuer>>,
    ) -> CapabilityReplies {
        CapabilityReplies {
            store,
            registry,
            access,
            issuer,
        }
    }

    /// Adds capabilities to a reply: a session capability for a new session, an object capability beside a layout.
    pub fn add_capabilities(
        &self,
        request: &MetaRequest,
        answer: MetaReplyBody,
    ) -> Result<MetaReplyBody, FsError> {
        let Some(issuer) = &self.issuer else {
            return Ok(answer);
        };
        Ok(match answer {
            MetaReplyBody::Session {
                session, instance, ..
            } => MetaReplyBody::Session {
                session,
                instance,
                session_capability: self.registry.renew(session)?,
            },
            MetaReplyBody::Opened(mut opened) => {
                let (session, ino) = (request.session, opened.attr.ino);
                let layout = &opened.layout;
                opened.capability = match &request.op {
                    // The holder of the write lease may write the file. All others get the layout to read the file.
                    MetaOp::BeginWrite { .. } | MetaOp::UpgradeWrite { .. } => {
                        issuer.capability(session, ino, layout, Rights::all())
                    }
                    MetaOp::Create { open, .. }
                    | MetaOp::CreateForWriting { open, .. }
                    | MetaOp::Open { open, .. } => {
                        let rights = Rights::for_open(open.access);
                        issuer.open_capability(session, ino, layout, rights)
                    }
                    MetaOp::OpenTmpFile { access, .. } => {
                        issuer.open_capability(session, ino, layout, Rights::for_open(*access))
                    }
                    _ => issuer.capability(session, ino, layout, Rights::READ),
                };
                MetaReplyBody::Opened(opened)
            }
            MetaReplyBody::WriteBegun {
                mut opened,
                is_concurrent,
            } => {
                let (session, ino) = (request.session, opened.attr.ino);
                opened.capability = issuer.capability(session, ino, &opened.layout, Rights::all());
                if let MetaOp::CreateForWriting { open, .. } = &request.op {
                    let rights = Rights::for_open(open.access);
                    opened.capability =
                        issuer.with_open_capability(session, ino, opened.capability, rights);
                }
                MetaReplyBody::WriteBegun {
                    opened,
                    is_concurrent,
                }
            }
            other => other,
        })
    }

    /// Issues the capability for a file anew, to a session that holds the write lease or has the file open.
    pub async fn issue_capability(
        &self,
        request: &MetaRequest,
        opens: &OpenRights,
        ino: InodeId,
    ) -> Result<MetaReplyBody, FsError> {
        let session = request.session;
        let session_capability = self.registry.renew(session)?;
        let Some(issuer) = &self.issuer else {
            return Ok(MetaReplyBody::CapabilityIssued {
                session_capability,
                capability: None,
            });
        };
        let is_lease_holder = self.access.has_write_lease(session, ino).await?;
        if !is_lease_holder {
            self.access
                .check_right(session, &request.caller, opens, &request.op)
                .await?;
        }
        let key = RecordKey::inode(ino);
        let value = self.store.get_now(&key).await?.ok_or(FsError::Stale)?;
        let inode = Inode::decode(&value).map_err(|error| damaged_record(&key, error))?;
        let given = match is_lease_holder {
            true => Rights::all(),
            false => Rights::READ,
        };
        let layout = &inode.file()?.layout;
        Ok(MetaReplyBody::CapabilityIssued {
            session_capability,
            capability: issuer.capability(session, ino, layout, given),
        })
    }
}
