//! Takes the expected body out of a reply; any other body is a protocol error of the server.

use gupfs_proto::meta::{MetaReplyBody, OpenInfo, RemovedName};
use gupfs_proto::{Attr, FsError, WriteVerifier, data};

pub fn unexpected<T>(operation: &str) -> Result<T, FsError> {
    Err(FsError::Malformed(format!(
        "the server's reply to '{operation}' has an unexpected type"
    )))
}

pub fn entry(operation: &str, reply: MetaReplyBody) -> Result<Attr, FsError> {
    match reply {
        MetaReplyBody::Entry(attr) | MetaReplyBody::Attr(attr) => Ok(attr),
        _ => unexpected(operation),
    }
}

pub fn opened(operation: &str, reply: MetaReplyBody) -> Result<OpenInfo, FsError> {
    match reply {
        MetaReplyBody::Opened(opened) => Ok(opened),
        _ => unexpected(operation),
    }
}

/// The reply to `BeginWriteAt`, and whether the lease is concurrent.
pub fn write_begun(operation: &str, reply: MetaReplyBody) -> Result<(OpenInfo, bool), FsError> {
    match reply {
        MetaReplyBody::WriteBegun {
            opened,
            is_concurrent,
        } => Ok((opened, is_concurrent)),
        _ => unexpected(operation),
    }
}

/// The reply to `CreateForWriting`, and whether this client has the exclusive write lease.
pub fn created(operation: &str, reply: MetaReplyBody) -> Result<(OpenInfo, bool), FsError> {
    match reply {
        MetaReplyBody::Opened(opened) => Ok((opened, false)),
        MetaReplyBody::WriteBegun {
            opened,
            is_concurrent: false,
        } => Ok((opened, true)),
        _ => unexpected(operation),
    }
}

pub fn removed(operation: &str, reply: MetaReplyBody) -> Result<RemovedName, FsError> {
    match reply {
        MetaReplyBody::Removed(removed) => Ok(removed),
        MetaReplyBody::Done => Ok(RemovedName::default()),
        _ => unexpected(operation),
    }
}

pub fn done(operation: &str, reply: MetaReplyBody) -> Result<(), FsError> {
    changed(operation, reply).map(|_| ())
}

/// The attributes after a change, if the reply has them.
pub fn changed(operation: &str, reply: MetaReplyBody) -> Result<Option<Attr>, FsError> {
    match reply {
        MetaReplyBody::Done | MetaReplyBody::Synced => Ok(None),
        MetaReplyBody::Attr(attr) | MetaReplyBody::Entry(attr) => Ok(Some(attr)),
        MetaReplyBody::Opened(opened) => Ok(Some(opened.attr)),
        _ => unexpected(operation),
    }
}

pub fn written(
    operation: &str,
    reply: data::DataReplyBody,
) -> Result<(data::ObjectStat, WriteVerifier), FsError> {
    match reply {
        data::DataReplyBody::Written(stat, verifier) => Ok((stat, verifier)),
        _ => unexpected(operation),
    }
}
