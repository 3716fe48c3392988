//! Write verifiers of targets that are retired because a sync failed: the target records this on its own disk, which is the disk
//! that failed, so the metadata server records it too.

use super::TargetRecords;
use crate::origin::RequestOrigin;
use gupfs_namespace::{Record, RecordKey, RetiredVerifier};
use gupfs_proto::cluster::{ClusterReply, ClusterReplyBody, TargetVerifier};
use gupfs_proto::{FsError, OstId, WriteVerifier};

impl TargetRecords {
    /// Records which verifiers are retired, durably, and returns the retired verifiers of the given targets.
    pub async fn retire_verifiers(&self, reported: &[TargetVerifier]) -> ClusterReply {
        let mut retired = Vec::new();
        for target in reported {
            let known = self.retired_verifier(target.ost)?;
            let known = known.filter(|known| known.incarnation == target.incarnation);
            let mut upto = known.map(|known| known.upto);
            if target.retired && upto < Some(target.verifier) {
                upto = Some(target.verifier);
                let ended = RetiredVerifier {
                    incarnation: target.incarnation,
                    upto: target.verifier,
                };
                let key = RecordKey::retired_verifier(target.ost);
                let seq = (self.driver).stage_server_records(vec![(key, Some(ended.encode()))])?;
                self.store
                    .durable(RequestOrigin::server("retire a write verifier"), seq)
                    .await?;
                tracing::warn!(
                    ost = target.ost.0,
                    "a sync of this target failed: its write verifier is retired, so unsynced writes count as lost"
                );
            }
            retired.extend(upto.map(|upto: WriteVerifier| (target.ost, upto)));
        }
        Ok(ClusterReplyBody::Verifiers { retired })
    }

    fn retired_verifier(&self, ost: OstId) -> Result<Option<RetiredVerifier>, FsError> {
        let key = RecordKey::retired_verifier(ost);
        let Some(record) = self.store.get_in_place(&key)? else {
            return Ok(None);
        };
        let ended = RetiredVerifier::decode(&record);
        ended.map(Some).map_err(|error| {
            FsError::StoreFailed(format!(
                "the retired write verifier of ost{ost} cannot be read: {error}"
            ))
        })
    }
}
