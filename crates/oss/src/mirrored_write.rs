//! A write of a mirrored stripe: this server executes it at its own target and relays it to the other members, all at once.

use crate::targets::Oss;
use futures_util::future::join_all;
use gupfs_proto::data::{DataOp, DataReply, DataReplyBody, DataRequest, MemberWritten};
use gupfs_proto::limits::{RELAYED_BYTES_MAX, RELAYS_MAX};
use gupfs_proto::{FsError, OstId};
use std::collections::BTreeSet;

impl Oss {
    /// Executes a `MirroredWrite` whose own part is authorized.
    ///
    /// # Errors
    /// `Malformed` for more members than a stripe has, two on one target, or too many bytes; `NotSupported` for another operation, or if this
    /// server relays nothing. Then nothing was executed.
    pub(crate) async fn write_members(&self, request: DataRequest) -> DataReply {
        tracing::trace!(target: "walk", file = file!(), "write_members");
        let DataRequest {
            session,
            map_epoch,
            job,
            ost,
            credentials,
            op,
        } = request;
        let DataOp::MirroredWrite {
            object,
            at,
            data,
            checksums,
            existence,
            owner,
            is_reserved,
            others,
        } = op
        else {
            return Err(FsError::NotSupported);
        };
        let targets: BTreeSet<OstId> = others.iter().map(|other| other.ost).collect();
        let are_members = targets.len() == others.len() && !targets.contains(&ost);
        if others.len() > RELAYS_MAX || !are_members || data.len() as u64 > RELAYED_BYTES_MAX.get()
        {
            let (bytes, number) = (data.len(), others.len());
            let why = format!("{bytes} bytes for {number} other members of a stripe");
            return Err(FsError::Malformed(why));
        }
        let Some(relay) = self.relay() else {
            return Err(FsError::NotSupported);
        };
        let request_to = |ost, credentials, op| DataRequest {
            session,
            map_epoch,
            job,
            ost,
            credentials,
            op,
        };
        let relayed = others.into_iter().map(|other| {
            let write = DataOp::RelayedWrite {
                ticket: other.ticket,
                object: other.object,
                at,
                data: data.clone(),
                checksums: checksums.clone(),
                existence: other.existence,
                owner,
                is_reserved,
            };
            relay.relay(request_to(other.ost, other.credentials, write))
        });
        let relayed = join_all(relayed.collect::<Vec<_>>());
        let write = DataOp::Write {
            object,
            at,
            data: data.clone(),
            checksums: checksums.clone(),
            existence,
            owner,
        };
        let write = match is_reserved {
            true => write.into_reserved(),
            false => write,
        };
        let own = self.handle_at_target(request_to(ost, credentials, write));
        let (own, others) = tokio::join!(own, relayed);
        let own = own.and_then(|reply| {
            let unexpected = || FsError::Malformed("the reply to a write".into());
            MemberWritten::of(reply).ok_or_else(unexpected)
        });
        Ok(DataReplyBody::WrittenMembers { own, others })
    }
}
